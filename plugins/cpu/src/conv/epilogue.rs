//! Epilogues of a convolution, on accumulators in registers or on blocks of the output.

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::conv::geometry::{Block, Strides};
use crate::conv::operands::Operands;
use crate::gemm::tile::{RegisterEpilogue, TileFunction};
use crate::pointwise::Epilogue;
use crate::pointwise::activation::Activation;
use crate::pointwise::chain::{Operation, Value};
use crate::pointwise::elements::BlockEpilogue;
use crate::simd::clip::Clip;
use crate::simd::vector::Float;
use crate::tensor::row_converter::is_compute_type;

/// The usual epilogue: optional bias per channel, residual and a clip, in this order. Another activation may
/// replace the clip, or precede the residual.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ChannelEpilogue {
    /// The bias: index among the kernel's pointers, and stride.
    pub(crate) bias: Option<(usize, usize)>,
    /// The residual: index among the kernel's pointers, and strides.
    pub(crate) residual: Option<(usize, Strides)>,
    /// An activation.
    pub(crate) activation: Option<Activation>,
    /// Whether the residual is added after the activation instead of before.
    pub(crate) residual_last: bool,
    /// What comes last.
    pub(crate) clip: Clip<f32>,
}

impl TileFunction for Activation {
    unsafe fn apply(&self, numbers: [f64; 2], values: *mut u8, len: usize) {
        // SAFETY: this function requires the values and the instructions.
        unsafe { Self::apply(self, numbers, values, len) };
    }
}

impl ChannelEpilogue {
    /// A chain of operations as such an epilogue, if it has no activation but a clip.
    pub(crate) fn without_function<T: Float>(epilogue: &Epilogue, spatial: usize) -> Option<Self> {
        Self::of::<T>(epilogue, spatial).filter(|channel_epilogue| channel_epilogue.activation.is_none())
    }

    /// The epilogue, if the output has its channels last and the dtype of the sums, and bias and residual are rows of channels.
    pub(crate) fn of_rows<T: Float>(
        operands: &Operands,
        is_same: bool,
        spatial: usize,
        epilogue: Option<&Epilogue>,
    ) -> Option<Self> {
        if !is_same || operands.output.strides.channel != 1 {
            return None;
        }
        let form = match epilogue {
            None => Self::default(),
            Some(epilogue) => Self::of::<T>(epilogue, spatial)?,
        };
        let are_rows = form.bias.is_none_or(|(_, stride)| stride == 1)
            && form.residual.is_none_or(|(_, strides)| strides.channel == 1);
        are_rows.then_some(form)
    }

    /// A chain of operations as such an epilogue; `None` if it has another form, or stores an intermediate
    /// result in another dtype.
    pub(crate) fn of<T: Float>(epilogue: &Epilogue, spatial: usize) -> Option<Self> {
        let rank = 2 + spatial;
        let mut channel_epilogue = Self::default();
        // Integers are rounded before the chain continues.
        epilogue
            .chain
            .inputs
            .first()
            .filter(|own| is_compute_type::<T>(own.data_type) && epilogue.is_in(own.data_type))?;
        // A clamp before a residual is an activation; RELU before one has no form in registers.
        let is_end = |index: usize| {
            let rest = epilogue.chain.steps.iter().skip(index + 1);
            rest.clone()
                .all(|step| matches!(&step.operation, Operation::Pointwise(PointwiseMode::Identity, _)))
        };
        // The convolution's result after the steps so far.
        let mut last = Value::Input(0);
        let mut index = 0;
        while let Some(step) = epilogue.chain.steps.get(index) {
            let Operation::Pointwise(mode, _) = &step.operation else { return None };
            let is_copy = *mode == PointwiseMode::Identity && step.operands == [last];
            if step.one
                || !is_compute_type::<T>(step.stored)
                || (channel_epilogue.clip != Clip::Nothing && !is_copy)
            {
                return None;
            }
            match (mode, step.operands.as_slice()) {
                (_, [value])
                    if *value == last && step.clip().is_some() && (step.is_relu() || is_end(index)) =>
                {
                    channel_epilogue.clip = step.clip()?;
                }
                _ if is_copy => {}
                (PointwiseMode::Add, [first, second]) if (*first == last) != (*second == last) => {
                    let Value::Input(other) = *(if *first == last { second } else { first }) else {
                        return None;
                    };
                    let input = epilogue.chain.inputs.get(other).filter(|_| other != 0)?;
                    let strides = input.strides.get(..rank)?;
                    if !is_compute_type::<T>(input.data_type) || channel_epilogue.residual.is_some() {
                        return None;
                    }
                    let of_channel =
                        strides.iter().enumerate().all(|(axis, stride)| axis == 1 || *stride == 0);
                    if of_channel && channel_epilogue.bias.is_none() && channel_epilogue.activation.is_none()
                    {
                        channel_epilogue.bias = Some((input.slot, strides[1]));
                    } else {
                        let mut spatial_strides = [0; 3];
                        spatial_strides[3 - spatial..].copy_from_slice(&strides[2..]);
                        let strides =
                            Strides { batch: strides[0], channel: strides[1], spatial: spatial_strides };
                        channel_epilogue.residual = Some((input.slot, strides));
                        channel_epilogue.residual_last = channel_epilogue.activation.is_some();
                    }
                }
                _ if channel_epilogue.activation.is_none() => {
                    let Epilogue { chain, compute, isa, .. } = *epilogue;
                    let (activation, steps) = Activation::of(chain, (index, last), compute, isa)?;
                    channel_epilogue.activation = Some(activation);
                    index += steps - 1;
                }
                _ => return None,
            }
            last = Value::Step(index);
            index += 1;
        }
        is_compute_type::<T>(epilogue.output.data_type).then_some(channel_epilogue)
    }

    /// The epilogue of a tile that starts at this output channel; the residual is the tile's, with its row
    /// stride.
    ///
    /// # Safety
    /// The tensors are those of the operation, which has the channel.
    pub(crate) unsafe fn of_tile<T: Float>(
        &self,
        tensors: &[*mut u8],
        channel: usize,
        (residual, residual_stride): (*const T, usize),
    ) -> RegisterEpilogue<'_, T> {
        let (bias, bias_stride) = self.bias.map_or((std::ptr::null(), 0), |(slot, stride)| {
            // SAFETY: the bias has a value for each channel.
            (unsafe { tensors[slot].cast::<T>().add(channel * stride).cast_const() }, stride)
        });
        let function = self.activation.as_ref().map(|activation| {
            // SAFETY: the tensors are those of the operation.
            (activation as &dyn TileFunction, unsafe { activation.numbers(tensors) })
        });
        let clip = self.clip.to();
        let residual_last = self.residual_last;
        RegisterEpilogue { bias, bias_stride, residual, residual_stride, function, residual_last, clip }
    }
}

/// An epilogue of arbitrary operations, computed on blocks of the output while they are in cache.
pub(crate) struct TileEpilogue {
    pub(crate) block_epilogue: Box<dyn BlockEpilogue>,
    /// Spatial dimensions of the tensors.
    pub(crate) spatial: usize,
}

impl TileEpilogue {
    /// Runs the epilogue on a range of channels of a block.
    ///
    /// # Safety
    /// As [`BlockEpilogue::run_on_box`].
    pub(crate) unsafe fn run(&self, tensors: &[*mut u8], block: &Block, channels: std::ops::Range<usize>) {
        let [mut origin, mut size] = [[0; 5]; 2];
        (origin[0], size[0]) = (block.image, block.images);
        (origin[1], size[1]) = (channels.start, channels.len());
        origin[2..2 + self.spatial].copy_from_slice(&block.origin[3 - self.spatial..]);
        size[2..2 + self.spatial].copy_from_slice(&block.size[3 - self.spatial..]);
        let rank = 2 + self.spatial;
        // SAFETY: the tensors are those of the operation, as this function requires.
        unsafe { self.block_epilogue.run_on_box(tensors, &origin[..rank], &size[..rank]) };
    }
}
