//! Epilogues: in registers as factor, summand and clamp per channel, else on stored results.

use std::ops::Range;

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::depthwise::shape::Shape;
use crate::kernel::Refusal;
use crate::pointwise::Epilogue;
use crate::pointwise::chain::{Chain, Input, Operation, Step, Value};
use crate::pointwise::elements::BlockEpilogue;
use crate::problem::Operand;
use crate::simd::vector::Float;
use crate::tensor::row_converter::RowConverter;

/// The epilogue of a convolution.
pub(crate) struct AffineEpilogue<T> {
    /// The epilogue in registers, if possible.
    pub(crate) affine: Option<Affine<T>>,
    /// The epilogue on a block of stored results.
    block: Box<dyn BlockEpilogue>,
}

/// `clamp(accumulator * factor + summand)`.
pub(crate) struct Affine<T> {
    operations: Vec<ChannelOperation<T>>,
    /// The bounds of the clamp.
    pub(crate) bounds: Option<(T, T)>,
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
}

impl<T: Float> AffineEpilogue<T> {
    /// Plans an epilogue.
    pub(crate) fn of(epilogue: Epilogue<'_>) -> Result<Self, Refusal> {
        let affine = Affine::of(epilogue.chain, epilogue.output);
        Ok(Self { affine, block: epilogue.plan()? })
    }

    /// Computes the epilogue of some stored results.
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
        let mut origin = [image, channels.start, rows.start, 0];
        let mut size = [1, channels.len(), rows.len(), shape.output[1]];
        let rank = 2 + shape.spatial;
        if rank == 3 {
            (origin[2], size[2]) = (0, size[3]);
        }
        // SAFETY: the tensors are those of the operation, as this function requires.
        unsafe { self.block.run_on_box(tensors, &origin[..rank], &size[..rank]) };
    }
}

impl<T: Float> Affine<T> {
    fn of(chain: &Chain, output: &Operand) -> Option<Self> {
        // Otherwise intermediate results would be rounded to their dtype.
        let types = [output.data_type, chain.inputs.first()?.data_type];
        if types.iter().any(|of| !RowConverter::<T>::of(*of).is_ok_and(|run| run.same)) {
            return None;
        }
        let mut affine = Self { operations: Vec::new(), bounds: None };
        for (index, step) in chain.steps.iter().enumerate() {
            let stored = RowConverter::<T>::of_number(step.stored).ok()?;
            if step.one || affine.bounds.is_some() || !(stored.same || stored.wider) {
                return None;
            }
            let before = index.checked_sub(1).map_or(Value::Input(0), Value::Step);
            affine.add(step, before, &chain.inputs, output.layout.dims())?;
        }
        Some(affine)
    }

    fn add(&mut self, step: &Step, before: Value, inputs: &[Input], dims: &[usize]) -> Option<()> {
        use PointwiseMode as M;
        let Operation::Pointwise(mode, activation) = &step.operation else { return None };
        if *mode == M::ReluFwd {
            let low = T::from_single(activation.lower_clip);
            let high = activation.upper_clip.map_or(T::LARGEST, T::from_single);
            let flat = activation.lower_clip_slope == 0.0;
            return (flat && low <= high && step.operands == [before])
                .then(|| self.bounds = Some((low, high)));
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
        });
        Some(())
    }

    /// Factor and summand of a channel; `None` if one is NaN or infinite, since its operations must then run
    /// in graph order.
    ///
    /// # Safety
    /// The tensors are those of the kernel, which have the channel.
    #[inline(always)]
    pub(crate) unsafe fn coefficients(&self, tensors: &[*mut u8], channel: usize) -> Option<(T, T)> {
        let (mut factor, mut summand) = (T::ONE, T::ZERO);
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
            (factor, summand) = match (operation.mode, operation.first) {
                (PointwiseMode::Mul, _) => (factor * value, summand * value),
                (PointwiseMode::Sub, true) => (factor, summand - value),
                (PointwiseMode::Sub, false) => (-factor, value - summand),
                _ => (factor, summand + value),
            };
        }
        // NaN and infinity times 0 are NaN.
        let are_finite = (factor * T::ZERO + summand * T::ZERO) == T::ZERO;
        are_finite.then_some((factor, summand))
    }
}
