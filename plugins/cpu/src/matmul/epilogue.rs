//! What is computed of a product's sums before they leave the first cache.

use hipdnn_plugin_sdk::graph::Tensor;

use crate::kernel::Refusal;
use crate::layout::Layout;
use crate::matmul::problem::Problem;
use crate::matmul::scheme::Accumulator;
use crate::pointwise::Epilogue;
use crate::pointwise::chain::{Chain, Input};
use crate::pointwise::elements::BlockEpilogue;
use crate::problem::Operand;

/// A chain behind a product, divided by where it is computed.
#[derive(Default)]
pub(crate) struct TileEpilogue {
    /// Among the kernel's pointers a row that is added to each row of the product while it is in registers.
    pub(crate) row: Option<usize>,
    /// What is computed of a tile's numbers, which lie side by side in its only tensor.
    pub(crate) near: Option<Box<dyn BlockEpilogue>>,
    /// What is computed of blocks of the product where they are.
    pub(crate) tail: Option<Box<dyn BlockEpilogue>>,
}

impl TileEpilogue {
    /// All of a chain where the product is.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other processors have no instructions for pairs")
    )]
    pub(crate) fn behind(after: Option<Epilogue>) -> Result<Self, Refusal> {
        Ok(Self { tail: after.map(|after| after.tail()).transpose()?, ..Self::default() })
    }

    /// Divides a chain; a tile has at most `most` numbers.
    pub(crate) fn plan<T: Accumulator>(
        after: Option<Epilogue>,
        problem: &Problem,
        most: usize,
    ) -> Result<Self, Refusal> {
        let mut finish = Self::default();
        let Some(after) = after else { return Ok(finish) };
        let axis = problem.columns_axis();
        let divided = T::is_in(&problem.c)
            .then(|| after.chain.without_row(after.output.layout.dims(), axis, T::TYPE))
            .flatten();
        let divided = divided.filter(|(row, _)| row.strides[axis] == 1 || problem.n == 1);
        let chain = match &divided {
            None => after.chain,
            Some((row, rest)) => {
                finish.row = Some(row.slot);
                rest
            }
        };
        let after = Epilogue { chain, ..after };
        match chain.inputs.as_slice() {
            _ if chain.steps.is_empty() => {}
            [_] if T::is_in(&problem.c) => finish.near = Some(near::<T>(after, most)?),
            _ => finish.tail = Some(after.tail()?),
        }
        Ok(finish)
    }
}

/// Plans a chain of nothing but the results for up to `most` of them side by side.
fn near<T: Accumulator>(after: Epilogue, most: usize) -> Result<Box<dyn BlockEpilogue>, Refusal> {
    let most = i64::try_from(most).map_err(|_| format!("a tile has {most} numbers"))?;
    let data_type = T::TYPE;
    let layout = Layout::of(&Tensor::new(0, data_type, &[most], &[1]))?;
    let output = Operand { slot: 0, data_type, layout };
    let chain = Chain { inputs: vec![Input::replaced(&output)], steps: after.chain.steps.clone() };
    Epilogue { chain: &chain, output: &output, ..after }.tail()
}
