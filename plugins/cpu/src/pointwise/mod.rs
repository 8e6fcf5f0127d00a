//! Operations on each element, alone, in chains, and on blocks of other kernels' results.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod activated;
pub(crate) mod activation;
pub(crate) mod chain;
pub(crate) mod elements;
pub(crate) mod float_functions;
pub(crate) mod functions;
pub(crate) mod gelu;
pub(crate) mod line;
pub(crate) mod lookup;
pub(crate) mod mode;
pub(crate) mod program;
pub(crate) mod repeated;
pub(crate) mod rows;
pub(crate) mod scalar;
pub(crate) mod schedule;
pub(crate) mod smooth;
pub(crate) mod smooth_vectors;
pub(crate) mod softmax;
pub(crate) mod softmax_columns;
pub(crate) mod softmax_short;
#[cfg(test)]
mod tests;
pub(crate) mod transcendental;

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::{Compute, with_compute};
use crate::kernel::{Kernel, Refusal, boxed};
use crate::pointwise::activated::Activated;
use crate::pointwise::activation::SumsAndActivation;
use crate::pointwise::chain::{Chain, MAX_INPUTS};
use crate::pointwise::elements::{BlockEpilogue, Elements};
use crate::pointwise::functions::Functions;
use crate::pointwise::rows::Rows;
use crate::problem::Operand;
use crate::problem::pointwise::Pointwise;
use crate::simd::isa::Isa;
use crate::tensor::row_converter::is_compute_type;
use crate::threading::partition::Threads;

/// Plans a pointwise operation for an instruction set.
pub(crate) fn plan(
    pointwise: &Pointwise,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    plan_chain(&Chain::of(pointwise), &pointwise.output, compute, isa, threads)
}

/// Plans a chain, whose result is `output`.
pub(crate) fn plan_chain(
    chain: &Chain,
    output: &Operand,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    if let Some(kernel) = repeated::plan(chain, output, compute, isa, threads) {
        return Ok(kernel);
    }
    Ok(plan_elements(chain, output, compute, isa, threads, false)?)
}

/// Plans a chain with reductions over the dimensions of `dims` that `reduced` marks.
pub(crate) fn plan_rows(
    chain: &Chain,
    dims: &[usize],
    reduced: &[bool],
    output: &Operand,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    with_compute!(compute, T => boxed(|| Rows::<T>::plan(chain, dims, reduced, output, isa, threads)))
}

/// A chain on the results of a kernel, which are input 0 and are overwritten.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a> {
    /// The chain.
    pub(crate) chain: &'a Chain,
    /// The result, of the kernel and of the chain.
    pub(crate) output: &'a Operand,
    /// The compute type.
    pub(crate) compute: Compute,
    /// The instruction set.
    pub(crate) isa: Isa,
}

impl Epilogue<'_> {
    /// Whether it computes in this type. Sums of integers may have a wider one.
    pub(crate) fn is_in(&self, stored: DataType) -> bool {
        with_compute!(self.compute, T => is_compute_type::<T>(stored))
    }

    /// Plans the chain.
    pub(crate) fn plan(&self) -> Result<Box<dyn BlockEpilogue>, Refusal> {
        let Self { chain, output, compute, isa } = *self;
        plan_epilogue(chain, output, compute, isa)
    }
}

/// Plans a chain that another kernel runs on blocks of its result.
pub(crate) fn plan_epilogue(
    chain: &Chain,
    output: &Operand,
    compute: Compute,
    isa: Isa,
) -> Result<Box<dyn BlockEpilogue>, Refusal> {
    let general: Box<dyn BlockEpilogue> =
        plan_elements(chain, output, compute, isa, Threads { most: 1, ..Threads::default() }, true)?;
    // A normalization's prologue reads another tensor than it writes.
    let is_in_place = chain.inputs.first().is_some_and(|input| input.slot == output.slot);
    let form = SumsAndActivation::of(chain, output.data_type, compute, isa).filter(|_| is_in_place);
    let Some(form) = form else { return Ok(general) };
    Ok(with_compute!(compute, T => Box::new(Activated::<T>::new(chain, output, form, general))))
}

/// How many elements a kernel computes before its epilogue: few enough to stay in the L1 or L2 cache.
pub(crate) const NEAR: usize = 4096;

/// A chain as a kernel or as an epilogue.
trait Elementwise: Kernel + BlockEpilogue {}

impl<E: Kernel + BlockEpilogue> Elementwise for E {}

fn plan_elements(
    chain: &Chain,
    output: &Operand,
    compute: Compute,
    isa: Isa,
    threads: Threads,
    is_epilogue: bool,
) -> Result<Box<dyn Elementwise>, Refusal> {
    #[inline(never)]
    fn plan_for<T: Functions, const N: usize>(
        chain: &Chain,
        output: &Operand,
        isa: Isa,
        threads: Threads,
        is_epilogue: bool,
    ) -> Result<Box<dyn Elementwise>, Refusal> {
        Ok(Box::new(Elements::<T, N>::plan(chain, output, isa, threads, is_epilogue)?))
    }
    fn plan_in<T: Functions>(
        chain: &Chain,
        output: &Operand,
        isa: Isa,
        threads: Threads,
        is_epilogue: bool,
    ) -> Result<Box<dyn Elementwise>, Refusal> {
        // With few operands, the common case, the loops are shorter.
        if chain.inputs.len() < 4 {
            plan_for::<T, 4>(chain, output, isa, threads, is_epilogue)
        } else {
            plan_for::<T, { MAX_INPUTS + 1 }>(chain, output, isa, threads, is_epilogue)
        }
    }
    with_compute!(compute, T => plan_in::<T>(chain, output, isa, threads, is_epilogue))
}
