//! What is done with results while they are in registers: a factor and a summand of their channel, and bounds.

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

/// What follows the sums.
pub(crate) struct AffineEpilogue<T> {
    /// The form in registers; none where there is none.
    pub(crate) near: Option<Affine<T>>,
    /// All of it, on a block of results that are written.
    tail: Box<dyn BlockEpilogue>,
}

/// `sum * factor + summand`, between bounds.
pub(crate) struct Affine<T> {
    links: Vec<ChannelOperation<T>>,
    /// The bounds.
    pub(crate) bounds: Option<(T, T)>,
}

/// An operation with a number of the channel.
struct ChannelOperation<T> {
    mode: PointwiseMode,
    /// Whether the result so far is the first operand.
    first: bool,
    slot: usize,
    run: RowConverter<T>,
    /// From one channel to the next.
    stride: usize,
}

impl<T: Float> AffineEpilogue<T> {
    /// Plans what follows.
    pub(crate) fn of(epilogue: Epilogue<'_>) -> Result<Self, Refusal> {
        let near = Affine::of(epilogue.chain, epilogue.output);
        Ok(Self { near, tail: epilogue.plan()? })
    }

    /// Does all of it with a box of the output.
    ///
    /// # Safety
    /// The tensors are those of the kernel, whose sums are written in the box.
    pub(crate) unsafe fn finish(
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
        unsafe { self.tail.run_on_box(tensors, &origin[..rank], &size[..rank]) };
    }
}

impl<T: Float> Affine<T> {
    fn of(chain: &Chain, output: &Operand) -> Option<Self> {
        // Results between are rounded to the type that they would be stored in.
        if !RowConverter::<T>::of(output.data_type).ok()?.same {
            return None;
        }
        let mut near = Self { links: Vec::new(), bounds: None };
        for (number, step) in chain.steps.iter().enumerate() {
            let stored = RowConverter::<T>::of_number(step.stored).ok()?;
            if step.one || near.bounds.is_some() || !(stored.same || stored.wider) {
                return None;
            }
            let before = number.checked_sub(1).map_or(Value::Input(0), Value::Step);
            near.add(step, before, &chain.inputs, output.layout.dims())?;
        }
        Some(near)
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
        self.links.push(ChannelOperation {
            mode: *mode,
            first,
            slot: other.slot,
            run,
            stride: other.strides[1],
        });
        Some(())
    }

    /// The factor and the summand of a channel; none where one of the numbers is not finite.
    ///
    /// # Safety
    /// The tensors are those of the kernel, which have the channel.
    #[inline(always)]
    pub(crate) unsafe fn numbers(&self, tensors: &[*mut u8], channel: usize) -> Option<(T, T)> {
        let (mut factor, mut summand) = (T::ONE, T::ZERO);
        for link in &self.links {
            // SAFETY: the tensors are those of the operation, as this function requires.
            let number = unsafe {
                let from = tensors[link.slot].add(channel * link.stride * link.run.size);
                if link.run.same {
                    from.cast::<T>().read_unaligned()
                } else {
                    let mut number = T::ZERO;
                    (link.run.load)(from, 1, &raw mut number, 1);
                    number
                }
            };
            (factor, summand) = match (link.mode, link.first) {
                (PointwiseMode::Mul, _) => (factor * number, summand * number),
                (PointwiseMode::Sub, true) => (factor, summand - number),
                (PointwiseMode::Sub, false) => (-factor, number - summand),
                _ => (factor, summand + number),
            };
        }
        let vanishes = (factor * T::ZERO + summand * T::ZERO) == T::ZERO;
        vanishes.then_some((factor, summand))
    }
}
