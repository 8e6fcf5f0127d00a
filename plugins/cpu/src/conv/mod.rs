//! Convolution and its gradients: which algorithm computes them, and the algorithms.
//!
//! [`list`] chooses. [`spatial`] makes the [`operands`] that most algorithms share; they also share the tiling of
//! images in [`geometry`], and the epilogues in [`epilogue`].

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod as_matmul;
pub(crate) mod backward_weights;
pub(crate) mod converted;
pub(crate) mod cost;
pub(crate) mod direct;
pub(crate) mod direct_small;
pub(crate) mod epilogue;
pub(crate) mod geometry;
pub(crate) mod im2col;
pub(crate) mod implicit_gemm;
pub(crate) mod list;
pub(crate) mod operands;
pub(crate) mod planes;
pub(crate) mod prefetch;
pub(crate) mod problem;
pub(crate) mod spatial;
pub(crate) mod strided_backward_data;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod winograd;

use crate::conv::problem::Problem;
use crate::dtype::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::matmul;
use crate::pointwise::Epilogue;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::tensor::row_converter::RowConverter;

/// Plans a convolution for an instruction set; only the forward direction has an epilogue.
pub(crate) fn plan(
    convolution: &Convolution,
    compute: Compute,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let c = convolution;
    if c.direction != Direction::Forward {
        for operand in [&c.x, &c.w, &c.y] {
            RowConverter::<f64>::of(operand.data_type)?;
        }
    }
    let terms = c.in_channels as f64 * c.window[..c.spatial].iter().map(|side| *side as f64).product::<f64>();
    let problem = Problem::new(c, compute, isa, settings, epilogue);
    Ok(Box::new(match matmul::exact([c.x.data_type, c.w.data_type], terms, compute) {
        Compute::Single => list::choose::<f32>(&problem)?,
        Compute::Double => list::choose::<f64>(&problem)?,
    }))
}
