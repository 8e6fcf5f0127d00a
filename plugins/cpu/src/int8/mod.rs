//! Int8 products: matrix multiplication and convolution of `int8` and `uint8`, summed in 32-bit integers.
//!
//! Operand A, the image, has rows of unsigned bytes, and the weights have panels of signed ones
//! ([`crate::gemm::byte_kernel`]). Signed images and unsigned weights are shifted by 128, which is added to their
//! zero points. The sums of the weights' columns, and of the image's rows if the weights have zero points,
//! give the zero points' contribution. So any zero point costs one addition, and padding is filled with it.
//! The epilogue starts from the sums in registers, as in [`epilogue::Stages`].

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

mod block;
pub(crate) mod epilogue;
mod folded;
mod panels;
pub(crate) mod plan;
pub(crate) mod problem;
mod product;
pub(crate) mod requantization;
mod rows;
mod run;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod transpose;
pub(crate) mod vector16;
#[cfg(test)]
mod vector16_tests;

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::byte_kernel::Form;
use crate::int8::epilogue::{Scaled, Stages};
use crate::int8::problem::Problem;
use crate::int8::product::Product;
use crate::kernel::{Kernel, Refusal, boxed};
use crate::pointwise::Epilogue;
use crate::problem::convolution::Convolution;
use crate::problem::matmul::Matmul;
use crate::settings::Settings;
use crate::simd::isa::Isa;

/// The names of the algorithms for matrix multiplication and convolution.
pub(crate) const MATMUL: &str = "gemm-int8";
pub(crate) const CONVOLUTION: &str = "direct-int8";

/// Plans a matrix multiplication with an in-place epilogue.
pub(crate) fn matmul(
    matmul: &Matmul,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    alone(MATMUL, Problem::of_matmul(matmul)?, isa, settings, epilogue)
}

/// Whether int8 products are faster here than single precision.
pub(crate) fn is_fast(isa: Isa) -> bool {
    isa != Isa::Portable
}

/// Refuses what single precision computes faster.
fn fast(isa: Isa) -> Result<(), Refusal> {
    if is_fast(isa) { Ok(()) } else { Err("single precision is faster with these instructions".to_owned()) }
}

/// Refuses convolutions that this module does not support, or that single precision computes faster.
pub(crate) fn supports(convolution: &Convolution, isa: Isa) -> Result<(), Refusal> {
    fast(isa)?;
    let problem = Problem::of_convolution(convolution)?;
    match problem.y.data_type {
        DataType::Int32 | DataType::Int8 | DataType::Uint8 | DataType::Float => Ok(()),
        other => Err(format!("y: data type is {}, expected int32, int8, uint8 or float", other.name())),
    }
}

/// Plans a forward convolution with an in-place epilogue.
pub(crate) fn convolution(
    convolution: &Convolution,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    alone(CONVOLUTION, Problem::of_convolution(convolution)?, isa, settings, epilogue)
}

/// Stores sums in the result's type, optionally with a chain on blocks of them.
fn alone(
    name: &'static str,
    problem: Problem,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    fast(isa)?;
    let scaled = (problem.y.data_type == DataType::Float).then_some(Scaled::NONE);
    let stages = Stages { scaled, ..Stages::default() };
    let block = epilogue.map(|epilogue| epilogue.plan()).transpose()?;
    boxed(|| Product::plan(name, problem, stages, block, (isa, None), settings))
}

/// Plans a product with its stages. Without a given form, picks the fastest.
pub(crate) fn with_stages(
    name: &'static str,
    problem: Problem,
    stages: Stages,
    (isa, form): (Isa, Option<Form>),
    settings: Settings,
) -> Result<Box<dyn Kernel>, Refusal> {
    boxed(|| Product::plan(name, problem, stages, None, (isa, form), settings))
}
