//! The two schemes of a matrix multiplication: values of the compute type, or pairs of 16 bits.

use crate::gemm::context::Context;
use crate::gemm::kernel::{MAX_LINE, WIDE_ROWS, fused};
use crate::gemm::pack::{Pack, Store};
use crate::kernel::Refusal;
use crate::matmul::epilogue::TileEpilogue;
use crate::matmul::problem::Problem;
use crate::pointwise::Epilogue;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;

/// How operands are packed, and which micro-kernel runs.
pub(crate) struct Scheme<T: 'static> {
    pub(crate) kernel: Context<T>,
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

/// The most elements of a tile.
fn most<T: 'static>(kernel: &Context<T>) -> usize {
    (kernel.rows * kernel.columns()).max(kernel.lanes * (WIDE_ROWS * kernel.wide).max(MAX_LINE))
}

impl<T: 'static> Scheme<T> {
    /// A micro-kernel that reads packed operands.
    fn packed(
        problem: &Problem,
        isa: Isa,
        kernel: Context<T>,
        tile_epilogue: TileEpilogue,
    ) -> Result<Self, Refusal> {
        let Problem { a, b, c, .. } = problem;
        Ok(Self {
            a_readable: false,
            b_readable: false,
            pack_a: (kernel.pack_lhs)("a", a.data_type)?,
            pack_b: (kernel.pack_rhs)("b", b.data_type)?,
            store: (kernel.store)("c", c.data_type)?,
            time: fused::<f32>(isa) / kernel.terms as f64,
            kernel,
            tile_epilogue,
        })
    }
}

impl<T: Float> Scheme<T> {
    /// Values of the compute type.
    pub(crate) fn unpaired(problem: &Problem, isa: Isa, epilogue: Option<Epilogue>) -> Result<Self, Refusal> {
        let Problem { a, b, n, k, .. } = problem;
        let kernel = Context::<T>::of(isa);
        let tile_epilogue = TileEpilogue::plan::<T>(epilogue, problem, most(&kernel))?;
        Ok(Self {
            a_readable: a.holds::<T>() && (a.column == 1 || *k == 1),
            b_readable: b.holds::<T>() && (b.column == 1 || *n == 1),
            time: fused::<T>(isa),
            ..Self::packed(problem, isa, kernel, tile_epilogue)?
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod pairs {
    use hipdnn_plugin_sdk::graph::DataType;

    use super::*;
    use crate::gemm::pairs::Bfloat16Pairs;

    impl Scheme<f32> {
        /// Pairs of `bfloat16`; `None` if the operands have another dtype.
        pub(crate) fn bfloat16(
            problem: &Problem,
            isa: Isa,
            epilogue: Option<Epilogue>,
        ) -> Option<Result<Self, Refusal>> {
            let Problem { a, b, m, k, .. } = problem;
            if [a, b].iter().any(|operand| operand.data_type != DataType::Bfloat16) {
                return None;
            }
            let kernel = Context::with::<Bfloat16Pairs>();
            // Rows and matrices start at whole words.
            let is_even = k.is_multiple_of(2) && (*m == 1 || a.row.is_multiple_of(2));
            let made =
                TileEpilogue::plan::<f32>(epilogue, problem, most(&kernel)).and_then(|tile_epilogue| {
                    Ok(Self {
                        a_readable: a.column == 1 && is_even,
                        ..Self::packed(problem, isa, kernel, tile_epilogue)?
                    })
                });
            Some(made)
        }
    }
}
