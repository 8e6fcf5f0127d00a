//! Quantization of blocks that share a scale, and dequantization. Results match the reference bit by bit.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod quantize;
pub(crate) mod types;

use hipdnn_plugin_sdk::graph::DataType;

use crate::block_scale::quantize::Quantize;
use crate::kernel::{Kernel, Refusal};
use crate::problem::block_scale::{BlockScale, Dequantize};
use crate::simd::isa::Isa;
use crate::tensor::recode::{Recode, Scales};
use crate::tensor::row_converter::RowConverter;
use crate::threading::partition::Threads;

/// Plans one of the operations for an instruction set.
pub(crate) fn plan(problem: &BlockScale, isa: Isa, threads: Threads) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match problem {
        BlockScale::Quantize(problem) => Box::new(Quantize::plan(problem, isa, threads)?),
        BlockScale::Dequantize(problem) => {
            let Dequantize { x, scale, y, block, is_negative_scale: is_negative } = &**problem;
            RowConverter::<f64>::of(y.data_type)?;
            let scales = Scales { operand: scale, block, is_negative: *is_negative };
            // A product of two single-precision values is rounded once in either precision.
            let is_single =
                |data_type| !matches!(data_type, DataType::Double | DataType::Int32 | DataType::Int64);
            if y.data_type == DataType::Float
                && !is_negative
                && is_single(x.data_type)
                && is_single(scale.data_type)
            {
                Box::new(Recode::<f32>::plan([x, y], Some(&scales), threads)?)
            } else {
                Box::new(Recode::<f64>::plan([x, y], Some(&scales), threads)?)
            }
        }
    })
}
