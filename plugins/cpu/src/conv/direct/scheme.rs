//! The two schemes of a direct convolution: values of the compute type, or pairs of 16-bit channels.

use crate::conv::cost::Cost;
use crate::conv::direct::correct::correct;
use crate::conv::direct::problem::{Scheme, Write};
use crate::conv::direct::tile::TileKernel;
use crate::conv::epilogue::ChannelEpilogue;
use crate::conv::operands::{Operands, fill_of};
use crate::gemm::context::Context;
use crate::gemm::multiply::UNROLLED;
use crate::kernel::Refusal;
use crate::pointwise::Epilogue;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::row_converter::{RowConverter, all_finite, is_compute_type};

impl<T: Float> Scheme<T> {
    /// Values of the compute type.
    pub(crate) fn unpaired(
        operands: &Operands,
        isa: Isa,
        spatial: usize,
        epilogue: Option<Epilogue>,
    ) -> Result<Self, Refusal> {
        let kernel = TileKernel::of(isa, operands.rows);
        let is_last = operands.input.strides.channel == 1;
        let channels_last = kernel.is_unrolled
            && is_last
            && operands.channels >= UNROLLED
            && operands.windows.meet_all_elements();
        let (fill, input_size) =
            if channels_last { fill_of::<T, true> } else { fill_of::<T, false> }(operands.input.data_type)?;
        let output = RowConverter::<T>::of_number(operands.output.data_type)?;
        let write: Write<T> = output.store;
        Ok(Self {
            kernel,
            terms: 1,
            channels_last,
            is_readable: is_compute_type::<T>(operands.input.data_type),
            fill,
            input_size,
            pack: (Context::of(isa).pack_rhs)("w", operands.weights.data_type)?,
            weights_size: RowConverter::<T>::of_number(operands.weights.data_type)?.size,
            write: (!output.same).then_some(write),
            output_size: output.size,
            correct: Some(correct::<T>),
            are_finite: all_finite::<T>,
            in_registers: ChannelEpilogue::of_rows::<T>(operands, output.same, spatial, epilogue.as_ref()),
            channel_epilogue: epilogue
                .as_ref()
                .and_then(|epilogue| ChannelEpilogue::without_function::<T>(epilogue, spatial)),
            cost: Cost::of::<T>(isa),
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod pairs {
    use half::bf16;
    use hipdnn_plugin_sdk::graph::DataType;

    use super::*;
    use crate::conv::direct::correct::correct_pairs;
    use crate::conv::direct::tile::MAX_PIXELS;
    use crate::conv::geometry::Block;
    use crate::conv::geometry::{Geometry, Strides};
    use crate::gemm::kernel::MicroKernel;
    use crate::gemm::pairs::{Bfloat16Pairs, PairElement};

    /// # Safety
    /// As [`Geometry::fill_pairs`].
    unsafe fn fill<S: PairElement, T>(
        geometry: &Geometry,
        block: &Block,
        from: *const u8,
        strides: &Strides,
        channels: usize,
        planes: *mut T,
    ) {
        // SAFETY: the block lies inside the tensor and the planes have room for it; `T` has the 32 bits of a word.
        unsafe { geometry.fill_pairs::<S>(block, from, strides, channels, planes.cast()) };
    }

    impl Scheme<f32> {
        /// Pairs of `bfloat16`; `None` if input or weights have another dtype.
        pub(crate) fn bfloat16(
            operands: &Operands,
            isa: Isa,
            spatial: usize,
            epilogue: Option<Epilogue>,
        ) -> Option<Result<Self, Refusal>> {
            if [operands.input.data_type, operands.weights.data_type] != [DataType::Bfloat16; 2] {
                return None;
            }
            let pack = Bfloat16Pairs::pack_rhs("w", operands.weights.data_type).ok()?;
            let made = Self::unpaired(operands, isa, spatial, epilogue).map(|unpaired| Self {
                kernel: TileKernel::with::<Bfloat16Pairs, MAX_PIXELS, 2>(),
                terms: 2,
                channels_last: false,
                is_readable: false,
                fill: fill::<bf16, f32>,
                pack,
                correct: Some(correct_pairs),
                are_finite: |_, _| false,
                in_registers: None,
                cost: Cost { fused: unpaired.cost.fused / 2.0, ..unpaired.cost },
                ..unpaired
            });
            Some(made)
        }
    }
}
