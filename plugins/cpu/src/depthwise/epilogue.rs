//! Epilogues: in registers as a few operations with a value per channel and a clamp, else on stored results.
//!
//! Loops over registers use indices: iterators and closures may be compiled without these instructions.

#![expect(clippy::needless_range_loop, reason = "see above")]

use std::ops::Range;

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::depthwise::shape::Shape;
use crate::kernel::Refusal;
use crate::pointwise::Epilogue;
use crate::pointwise::chain::{Input, Operation, Step, Value};
use crate::pointwise::elements::BlockEpilogue;
use crate::simd::clip::Clip;
use crate::simd::vector::{Float, Lanewise, Vector};
use crate::tensor::row_converter::{RowConverter, is_compute_type};

/// The epilogue of a convolution.
pub(crate) struct AffineEpilogue<T> {
    /// The steps in registers: all, or the longest beginning whose rest reads only its last result.
    pub(crate) affine: Option<Affine<T>>,
    /// What is computed on a block of stored results.
    block: Option<Box<dyn BlockEpilogue>>,
}

/// `clamp((accumulator + offset) * inner * factor + summand)`, each operation rounded, with one value per
/// channel. Nothing else is computed in registers: joining two operations would round once where the graph
/// rounds twice.
pub(crate) struct Affine<T> {
    operations: Vec<ChannelOperation<T>>,
    pub(crate) registers: Registers<T>,
}

/// What is computed in registers.
#[derive(Clone, Copy)]
pub(crate) struct Registers<T> {
    form: Form,
    clip: Clip<T>,
}

/// Which operations there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// None.
    Nothing,
    /// A factor and a summand.
    Affine,
    /// An offset and a factor before these: a batch normalization.
    Normalization,
}

/// The number of coefficients.
pub(crate) const COEFFICIENTS: usize = 4;

/// The coefficients of a channel: offset, inner factor, factor and summand.
pub(crate) type Coefficients<T> = [T; COEFFICIENTS];

/// The place of a coefficient.
const OFFSET: usize = 0;
const INNER: usize = 1;
const FACTOR: usize = 2;
const SUMMAND: usize = 3;

impl<T: Float> Registers<T> {
    /// Nothing.
    pub(crate) const NONE: Self = Self { form: Form::Nothing, clip: Clip::Nothing };

    /// Computes the operations on some vectors, with a vector or a repeated value for each coefficient.
    #[inline(always)]
    pub(crate) fn apply<V: Vector<Scalar = T>, const N: usize>(
        &self,
        sums: &mut [V; N],
        by: &Coefficients<V>,
    ) {
        if self.form == Form::Normalization {
            for i in 0..N {
                sums[i] = sums[i].lanewise(Lanewise::Add, by[OFFSET]).lanewise(Lanewise::Mul, by[INNER]);
            }
        }
        if self.form != Form::Nothing {
            for i in 0..N {
                sums[i] = sums[i].lanewise(Lanewise::Mul, by[FACTOR]).lanewise(Lanewise::Add, by[SUMMAND]);
            }
        }
        self.clip.vectors(sums);
    }
}

/// An operation with one value per channel.
struct ChannelOperation<T> {
    mode: PointwiseMode,
    /// Whether the accumulator is the first operand.
    first: bool,
    slot: usize,
    run: RowConverter<T>,
    /// Stride of channels.
    stride: usize,
    /// The coefficient that it is.
    place: usize,
}

impl<T: Float> AffineEpilogue<T> {
    /// Plans an epilogue.
    pub(crate) fn of(epilogue: Epilogue<'_>) -> Result<Self, Refusal> {
        let count = epilogue.chain.steps.len();
        if let Some(affine) = Affine::of(&epilogue, count) {
            return Ok(Self { affine: Some(affine), block: None });
        }
        // Without values of channels the rest is one run over the planes of several channels.
        for first in (1..count).rev() {
            if let Some((affine, rest)) = Affine::of(&epilogue, first).zip(epilogue.chain.after(first)) {
                let block = Epilogue { chain: &rest, ..epilogue }.plan()?;
                return Ok(Self { affine: Some(affine), block: Some(block) });
            }
        }
        Ok(Self { affine: None, block: Some(epilogue.plan()?) })
    }

    /// Whether something is computed on stored results.
    pub(crate) fn has_block(&self) -> bool {
        self.block.is_some()
    }

    /// Computes what is computed on stored results.
    ///
    /// # Safety
    /// The tensors are those of the kernel, which has stored the results.
    pub(crate) unsafe fn run(
        &self,
        shape: &Shape,
        tensors: &[*mut u8],
        image: usize,
        channels: Range<usize>,
        rows: &Range<usize>,
    ) {
        let Some(block) = &self.block else { return };
        let mut origin = [image, channels.start, rows.start, 0];
        let mut size = [1, channels.len(), rows.len(), shape.output[1]];
        let rank = 2 + shape.spatial;
        if rank == 3 {
            (origin[2], size[2]) = (0, size[3]);
        }
        // SAFETY: the tensors are those of the operation, as this function requires.
        unsafe { block.run_on_box(tensors, &origin[..rank], &size[..rank]) };
    }
}

/// What leaves each accumulator as it is. Adding 0 would change the sign of -0.
pub(crate) fn neutral<T: Float>() -> Coefficients<T> {
    [-T::ZERO, T::ONE, T::ONE, -T::ZERO]
}

impl<T: Float> Affine<T> {
    /// The first `count` steps.
    fn of(epilogue: &Epilogue<'_>, count: usize) -> Option<Self> {
        let Epilogue { chain, output, .. } = *epilogue;
        // Otherwise intermediate results would be rounded to their dtype.
        let types = [output.data_type, chain.inputs.first()?.data_type];
        if types.iter().any(|of| !is_compute_type::<T>(*of) || !epilogue.is_in(*of)) {
            return None;
        }
        let mut affine = Self { operations: Vec::new(), registers: Registers::NONE };
        for (index, step) in chain.steps.iter().take(count).enumerate() {
            let stored = RowConverter::<T>::of_number(step.stored).ok()?;
            if step.one || affine.registers.clip != Clip::Nothing || !(stored.same || stored.wider) {
                return None;
            }
            let before = index.checked_sub(1).map_or(Value::Input(0), Value::Step);
            affine.add(step, before, &chain.inputs, output.layout.dims())?;
        }
        affine.place()?;
        Some(affine)
    }

    fn add(&mut self, step: &Step, before: Value, inputs: &[Input], dims: &[usize]) -> Option<()> {
        use PointwiseMode as M;
        let Operation::Pointwise(mode, _) = &step.operation else { return None };
        if *mode == M::ReluFwd {
            self.registers.clip = step.clip().filter(|_| step.operands == [before])?.to();
            return Some(());
        }
        if !matches!(mode, M::Add | M::Sub | M::Mul) {
            return None;
        }
        let (first, other) = match step.operands.as_slice() {
            [x, Value::Input(other)] if *x == before => (true, inputs.get(*other)?),
            [Value::Input(other), x] if *x == before => (false, inputs.get(*other)?),
            _ => return None,
        };
        let mut axes = dims.iter().zip(other.strides).enumerate();
        let of_channel = axes.all(|(axis, (dim, stride))| axis == 1 || *dim == 1 || stride == 0);
        if other.replaced || !of_channel {
            return None;
        }
        let run = RowConverter::of_number(other.data_type).ok()?;
        self.operations.push(ChannelOperation {
            mode: *mode,
            first,
            slot: other.slot,
            run,
            stride: other.strides[1],
            place: SUMMAND,
        });
        Some(())
    }

    /// Finds the operations' places; `None` if there are others, or in another order.
    fn place(&mut self) -> Option<()> {
        let is_product = |operation: &ChannelOperation<T>| operation.mode == PointwiseMode::Mul;
        let places: &[usize] = match self.operations.iter().map(is_product).collect::<Vec<_>>().as_slice() {
            [] => &[],
            [true] => &[FACTOR],
            [false] => &[SUMMAND],
            [true, false] => &[FACTOR, SUMMAND],
            [true, true] => &[INNER, FACTOR],
            [true, true, false] => &[INNER, FACTOR, SUMMAND],
            [false, true] => &[OFFSET, FACTOR],
            [false, true, false] => &[OFFSET, FACTOR, SUMMAND],
            [false, true, true] => &[OFFSET, INNER, FACTOR],
            [false, true, true, false] => &[OFFSET, INNER, FACTOR, SUMMAND],
            _ => return None,
        };
        for (operation, place) in self.operations.iter_mut().zip(places) {
            operation.place = *place;
        }
        // A difference from a channel's value changes the sign of a factor before it.
        let is_reversed =
            |operation: &ChannelOperation<T>| operation.mode == PointwiseMode::Sub && !operation.first;
        if self.operations.iter().any(|operation| is_reversed(operation) && operation.place == OFFSET) {
            return None;
        }
        self.registers.form = match places.first() {
            None => Form::Nothing,
            Some(&OFFSET | &INNER) => Form::Normalization,
            Some(_) => Form::Affine,
        };
        Some(())
    }

    /// The coefficients of a channel.
    ///
    /// # Safety
    /// The tensors are those of the kernel, which have the channel.
    #[inline(always)]
    pub(crate) unsafe fn coefficients(&self, tensors: &[*mut u8], channel: usize) -> Coefficients<T> {
        let mut coefficients = neutral::<T>();
        for operation in &self.operations {
            // SAFETY: the tensors are those of the operation, as this function requires.
            let value = unsafe {
                let from = tensors[operation.slot].add(channel * operation.stride * operation.run.size);
                if operation.run.same {
                    from.cast::<T>().read_unaligned()
                } else {
                    let mut value = T::ZERO;
                    (operation.run.load)(from, 1, &raw mut value, 1);
                    value
                }
            };
            // x - y is x + -y, and y - x is -x + y: exchanging signs is exact.
            coefficients[operation.place] = match (operation.mode, operation.first) {
                (PointwiseMode::Sub, true) => -value,
                (PointwiseMode::Sub, false) => {
                    coefficients[FACTOR] = -coefficients[FACTOR];
                    value
                }
                _ => value,
            };
        }
        coefficients
    }
}
