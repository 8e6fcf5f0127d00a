//! Matrix multiplication, the operation.
//!
//! The micro-kernels of [`crate::gemm::kernel`] compute tiles of the result from rows of operand A and a
//! panel of columns of operand B. A panel is packed ([`crate::gemm::pack`]) unless only one tile reads it.
//! Rows of A are read in place if they are contiguous values of the compute type, and packed otherwise.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod epilogue;
pub(crate) mod kernel;
mod pack;
pub(crate) mod problem;
pub(crate) mod scheme;
pub(crate) mod small;
#[cfg(test)]
mod tests;

use hipdnn_plugin_planner::in_own_frame;

use crate::dtype::element::{Compute, with_compute};
use crate::dtype::sums;
use crate::gemm::pack::pack_of;
use crate::gemm::pairs::Pairs;
use crate::int8;
use crate::kernel::{Kernel, Refusal, boxed};
use crate::matmul::kernel::Gemm;
use crate::matmul::problem::Problem;
use crate::matmul::scheme::Scheme;
use crate::matmul::small::Small;
use crate::pointwise::Epilogue;
use crate::problem::matmul::Matmul;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::converted::Copies;

/// Plans a matrix multiplication with its epilogue for an instruction set.
pub(crate) fn plan(
    matmul: &Matmul,
    compute: Compute,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    plan_with(matmul, compute, isa, Pairs::of(isa), settings, epilogue)
}

/// The same with these pair instructions, which the processor has.
pub(crate) fn plan_with(
    matmul: &Matmul,
    compute: Compute,
    isa: Isa,
    pairs: Pairs,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let compute = sums::exact([matmul.a.data_type, matmul.b.data_type], matmul.k as f64, compute);
    let mut converted = *matmul;
    let mut copies = Copies::new(compute, settings.threads);
    let is_foreign = |operand: &crate::problem::Operand| pack_of::<f32>("", operand.data_type).is_err();
    for operand in [&mut converted.a, &mut converted.b] {
        if is_foreign(operand) {
            copies.convert(operand)?;
        }
    }
    if is_foreign(&matmul.c) {
        copies.convert_result(&mut converted.c, compute, epilogue.is_some())?;
    }
    let constant = [settings.constant_weights, settings.shares_weights];
    let around = copies.around(matmul.b.slot, constant, |constant_weights| {
        plan_with(&converted, compute, isa, pairs, Settings { constant_weights, ..settings }, epilogue)
    })?;
    if let Some(kernel) = around {
        return Ok(Box::new(kernel));
    }
    plan_read(matmul, compute, isa, pairs, settings, epilogue)
}

/// Plans a multiplication whose operands kernels read, and whose result they write.
#[inline(never)]
fn plan_read(
    matmul: &Matmul,
    compute: Compute,
    isa: Isa,
    pairs: Pairs,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    if let Ok(kernel) = int8::matmul(matmul, isa, settings, epilogue) {
        return Ok(kernel);
    }
    let problem = Problem::of(matmul);
    let dots =
        with_compute!(compute, T => in_own_frame(|| plan_dots::<T>(&problem, isa, settings, epilogue)));
    if let Some(kernel) = dots {
        return kernel;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let is_single = compute == Compute::Single && pairs.bfloat16;
        let is_invariant = settings.threads.batch_invariant;
        let bfloat16 = || Scheme::bfloat16(&problem, isa, pairs, is_invariant, epilogue);
        let bfloat16 = if is_single { bfloat16() } else { None };
        if let Some(scheme) = bfloat16 {
            return boxed(|| Gemm::plan(problem, isa, settings, scheme?));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pairs;
    if epilogue.is_none()
        && let Some(small) = with_compute!(compute, T => small::<T>(&problem, isa, settings))
    {
        return Ok(small);
    }
    with_compute!(compute, T => boxed(|| {
        let scheme = Scheme::<T>::unpaired(&problem, isa, epilogue)?;
        Gemm::plan(problem, isa, settings, scheme)
    }))
}

/// Plans dot products; `None` where they do not pay.
#[inline(never)]
fn plan_dots<T: Float>(
    problem: &Problem,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let scheme = Scheme::<T>::dots(problem, isa, settings, epilogue)?;
    Some(boxed(|| Gemm::plan(problem.clone(), isa, settings, scheme?)))
}

/// Plans many products of narrow matrices; `None` for others.
#[inline(never)]
fn small<T: Float>(problem: &Problem, isa: Isa, settings: Settings) -> Option<Box<dyn Kernel>> {
    Small::<T>::plan(problem, isa, settings.threads).map(|small| Box::new(small) as Box<dyn Kernel>)
}
