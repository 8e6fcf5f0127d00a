//! The two ways to multiply: values of the compute type, or pairs of 16 bits.

use crate::gemm::kernel::{MAX_LINE, MicroKernel, WIDE_ROWS, fused};
use crate::gemm::pack::{Pack, Store, packing_of};
use crate::kernel::Refusal;
use crate::matmul::epilogue::TileEpilogue;
use crate::matmul::problem::Problem;
use crate::pointwise::Epilogue;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;

/// How operands are packed, and which micro-kernel runs.
pub(crate) struct Scheme<T: 'static> {
    pub(crate) kernel: MicroKernel<T>,
    /// Terms of a sum per word.
    pub(crate) terms: usize,
    /// Whether rows of operand A can be read in place, and rows of operand B.
    pub(crate) a_readable: bool,
    pub(crate) b_readable: bool,
    pub(crate) pack_a: Pack<T>,
    pub(crate) pack_b: Pack<T>,
    pub(crate) store: Store<T>,
    /// Estimated nanoseconds of a term.
    pub(crate) time: f64,
    pub(crate) tile_epilogue: TileEpilogue,
}

/// Elements of a tile at most.
fn most<T: 'static>(kernel: &MicroKernel<T>) -> usize {
    (kernel.rows * kernel.columns()).max(kernel.lanes * (WIDE_ROWS * kernel.wide).max(MAX_LINE))
}

impl<T: Float> Scheme<T> {
    /// Values of the compute type.
    pub(crate) fn unpaired(problem: &Problem, isa: Isa, epilogue: Option<Epilogue>) -> Result<Self, Refusal> {
        let Problem { a, b, c, n, k, .. } = problem;
        let kernel = MicroKernel::<T>::of(isa);
        Ok(Self {
            kernel,
            terms: 1,
            a_readable: a.holds::<T>() && (a.column == 1 || *k == 1),
            b_readable: b.holds::<T>() && (b.column == 1 || *n == 1),
            pack_a: packing_of("a", a.data_type)?.0,
            pack_b: packing_of("b", b.data_type)?.0,
            store: packing_of("c", c.data_type)?.1,
            time: fused::<T>(isa),
            tile_epilogue: TileEpilogue::plan::<T>(epilogue, problem, most(&kernel))?,
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod pairs {
    use half::bf16;
    use hipdnn_plugin_sdk::graph::DataType;

    use super::*;
    use crate::gemm::pack::store_integers;
    use crate::gemm::pairs::{Bfloat16Pairs, IntegerPairs, MAX_BYTE_TERMS, byte_packs, packs};

    impl Scheme<f32> {
        /// Pairs of `bfloat16`; `None` if the operands have another dtype.
        pub(crate) fn bfloat16(
            problem: &Problem,
            isa: Isa,
            epilogue: Option<Epilogue>,
        ) -> Option<Result<Self, Refusal>> {
            let Problem { a, b, c, m, k, .. } = problem;
            if [a, b].iter().any(|operand| operand.data_type != DataType::Bfloat16) {
                return None;
            }
            let kernel = MicroKernel::of_eight::<Bfloat16Pairs>();
            let (pack_a, pack_b) = packs::<bf16, f32>();
            // Rows, and matrices, begin with whole words.
            let is_even = k.is_multiple_of(2) && (*m == 1 || a.row.is_multiple_of(2));
            let made = packing_of("c", c.data_type).and_then(|(_, store)| {
                Ok(Self {
                    kernel,
                    terms: 2,
                    a_readable: a.column == 1 && is_even,
                    b_readable: false,
                    pack_a,
                    pack_b,
                    store,
                    time: fused::<f32>(isa) / 2.0,
                    tile_epilogue: TileEpilogue::plan::<f32>(epilogue, problem, most(&kernel))?,
                })
            });
            Some(made)
        }
    }

    impl Scheme<i32> {
        /// Pairs of bytes; `None` if the operands have another dtype, or sums may overflow.
        pub(crate) fn bytes(
            problem: &Problem,
            isa: Isa,
            epilogue: Option<Epilogue>,
        ) -> Option<Result<Self, Refusal>> {
            let Problem { a, b, c, k, .. } = problem;
            let (pack_a, _) = byte_packs(a.data_type)?;
            let (_, pack_b) = byte_packs(b.data_type)?;
            if *k > MAX_BYTE_TERMS {
                return None;
            }
            let made = store_integers(c.data_type).and_then(|store| {
                Ok(Self {
                    kernel: MicroKernel::of_eight::<IntegerPairs>(),
                    terms: 2,
                    a_readable: false,
                    b_readable: false,
                    pack_a,
                    pack_b,
                    store,
                    time: fused::<f32>(isa) / 2.0,
                    tile_epilogue: TileEpilogue::behind(epilogue)?,
                })
            });
            Some(made)
        }
    }
}
