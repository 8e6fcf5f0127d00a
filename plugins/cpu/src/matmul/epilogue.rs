//! Epilogues of a matrix multiplication, computed before results leave the L1 cache.

use hipdnn_plugin_sdk::graph::Tensor;

use crate::gemm::accumulator::Accumulator;
use crate::kernel::Refusal;
use crate::layout::Layout;
use crate::matmul::problem::Problem;
use crate::pointwise::Epilogue;
use crate::pointwise::chain::{Chain, Input};
use crate::pointwise::elements::BlockEpilogue;
use crate::problem::Operand;

/// A chain of operations, split by where it is computed.
#[derive(Default)]
pub(crate) struct TileEpilogue {
    /// Index among the kernel's pointers of a row that is added to each row of the result in registers.
    pub(crate) row: Option<usize>,
    /// What is computed on a tile, as a contiguous one-dimensional tensor.
    pub(crate) near: Option<Box<dyn BlockEpilogue>>,
    /// What is computed on blocks of the result in place.
    pub(crate) block_epilogue: Option<Box<dyn BlockEpilogue>>,
}

impl TileEpilogue {
    /// Splits a chain; a tile has at most `most` values.
    pub(crate) fn plan<T: Accumulator>(
        epilogue: Option<Epilogue>,
        problem: &Problem,
        most: usize,
    ) -> Result<Self, Refusal> {
        let mut tile_epilogue = Self::default();
        let Some(epilogue) = epilogue else { return Ok(tile_epilogue) };
        let axis = problem.columns_axis();
        let is_near = problem.c.holds::<T>() && epilogue.is_in(T::TYPE);
        let divided = is_near
            .then(|| epilogue.chain.without_row(epilogue.output.layout.dims(), axis, T::TYPE))
            .flatten();
        let divided = divided.filter(|(row, _)| row.strides[axis] == 1 || problem.n == 1);
        let chain = match &divided {
            None => epilogue.chain,
            Some((row, rest)) => {
                tile_epilogue.row = Some(row.slot);
                rest
            }
        };
        let epilogue = Epilogue { chain, ..epilogue };
        match chain.inputs.as_slice() {
            _ if chain.steps.is_empty() => {}
            [_] if is_near => tile_epilogue.near = Some(near::<T>(epilogue, most)?),
            _ => tile_epilogue.block_epilogue = Some(epilogue.plan()?),
        }
        Ok(tile_epilogue)
    }
}

/// Plans a chain whose only input is the result, for up to `most` contiguous values.
fn near<T: Accumulator>(epilogue: Epilogue, most: usize) -> Result<Box<dyn BlockEpilogue>, Refusal> {
    let most = i64::try_from(most).map_err(|_| format!("a tile has {most} elements"))?;
    let data_type = T::TYPE;
    let layout = Layout::of(&Tensor::new(0, data_type, &[most], &[1]))?;
    let output = Operand { slot: 0, data_type, layout };
    let chain = Chain { inputs: vec![Input::replaced(&output)], steps: epilogue.chain.steps.clone() };
    Epilogue { chain: &chain, output: &output, ..epilogue }.plan()
}
