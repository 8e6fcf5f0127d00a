//! The two schemes of a matrix multiplication: values of the compute type, or pairs of 16 bits.

use crate::gemm::context::Context;
use crate::gemm::dots::Dots;
use crate::gemm::dots::dots_of;
use crate::gemm::kernel::{MAX_LINE, WIDE_ROWS, fused};
use crate::gemm::pack::{Pack, Store};
use crate::kernel::Refusal;
use crate::matmul::epilogue::TileEpilogue;
use crate::matmul::problem::Problem;
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, has_special_cases};

/// How operands are packed, and which micro-kernel runs.
pub(crate) struct Scheme<T: 'static> {
    pub(crate) kernel: Context<T>,
    /// Whether rows of operand A can be read in place, and rows of operand B.
    pub(crate) a_readable: bool,
    pub(crate) b_readable: bool,
    pub(crate) pack_a: Pack<T>,
    pub(crate) pack_b: Pack<T>,
    pub(crate) store: Store<T>,
    /// Computes dot products of rows and of the columns of operand B in place, which is not packed then.
    pub(crate) dots: Option<Dots<T>>,
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
            dots: None,
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

/// With more rows, packing operand B pays; with constant weights, which are packed once, it always does.
const MOST_ROWS: usize = 8;

/// With fewer terms or elements, ending the sums takes as long as packing.
const LEAST_TERMS: usize = 32;

const LEAST_ELEMENTS: usize = if cfg!(test) { 1 } else { 4096 };

/// Estimated nanoseconds to read a byte of operand B.
const READ: f64 = 0.05;

impl<T: Float> Scheme<T> {
    /// Dot products of few rows with contiguous columns; `None` for others. The number of rows decides on the order of
    /// sums, so results must be free to depend on it.
    pub(crate) fn dots(
        problem: &Problem,
        isa: Isa,
        settings: Settings,
        epilogue: Option<Epilogue>,
    ) -> Option<Result<Self, Refusal>> {
        let Problem { b, m, n, k, .. } = problem;
        let are_many = *k >= LEAST_TERMS && n.saturating_mul(*k) >= LEAST_ELEMENTS && *n > 1;
        let is_free = !settings.threads.batch_invariant && !settings.constant_weights;
        if !has_special_cases::<T>(isa)
            || !is_free
            || *m > MOST_ROWS
            || b.row != 1
            || b.column < *k
            || !are_many
        {
            return None;
        }
        let dots = Some(dots_of::<T>(b.data_type)?);
        let time = fused::<T>(isa).max(READ * b.size as f64 / *m as f64);
        Some(Self::unpaired(problem, isa, epilogue).map(|scheme| Self {
            b_readable: false,
            dots,
            time,
            ..scheme
        }))
    }
}

#[cfg(target_arch = "x86_64")]
mod pairs {
    use hipdnn_plugin_sdk::graph::DataType;

    use super::*;
    use crate::gemm::bfloat16_tiles::{LEAST_ROWS, TIME};
    use crate::gemm::pairs::{Bfloat16Pairs, Pairs};

    impl Scheme<f32> {
        /// Pairs of `bfloat16`; `None` if the operands have another dtype. Which instructions add them decides on the
        /// order of sums, so it must not depend on the batch if results must not.
        pub(crate) fn bfloat16(
            problem: &Problem,
            isa: Isa,
            pairs: Pairs,
            is_invariant: bool,
            epilogue: Option<Epilogue>,
        ) -> Option<Result<Self, Refusal>> {
            let Problem { a, b, m, k, .. } = problem;
            if [a, b].iter().any(|operand| operand.data_type != DataType::Bfloat16) {
                return None;
            }
            let kernel = if *m >= LEAST_ROWS && !is_invariant && pairs.has_tiles() {
                Context::of_bfloat16_tiles()
            } else {
                Context::with::<Bfloat16Pairs>()
            };
            let time = if kernel.uses_tiles() { TIME } else { fused::<f32>(isa) / kernel.terms as f64 };
            // Rows and matrices start at whole words.
            let is_even = k.is_multiple_of(2) && (*m == 1 || a.row.is_multiple_of(2));
            let made =
                TileEpilogue::plan::<f32>(epilogue, problem, most(&kernel)).and_then(|tile_epilogue| {
                    Ok(Self {
                        a_readable: a.column == 1 && is_even,
                        time,
                        ..Self::packed(problem, isa, kernel, tile_epilogue)?
                    })
                });
            Some(made)
        }
    }
}
