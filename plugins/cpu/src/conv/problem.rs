//! The input of the list of algorithms: a convolution, and how to compute it.

use std::cell::OnceCell;

use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::backward_weights;
use crate::conv::operands::{Operands, fill_of, pack_of, store_of};
use crate::conv::spatial::Spatial;
use crate::dtype::element::Compute;
use crate::kernel::Refusal;
use crate::pointwise::Epilogue;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::{Algorithm, Settings};
use crate::simd::array::Each;
use crate::simd::isa::Isa;

/// A convolution, and how to compute it.
pub(crate) struct Problem<'a> {
    pub(crate) convolution: &'a Convolution,
    /// The type of sums: the node's compute type, or a wider one that holds sums of integers.
    pub(crate) compute: Compute,
    pub(crate) isa: Isa,
    pub(crate) settings: Settings,
    pub(crate) epilogue: Option<Epilogue<'a>>,
    /// Whether results are integers, which algorithms that transform before they multiply would miss.
    pub(crate) is_whole: bool,
    /// Whether operands are converted copies.
    pub(crate) is_copy: bool,
    operands: OnceCell<Result<Operands, Refusal>>,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(
        convolution: &'a Convolution,
        compute: Compute,
        isa: Isa,
        settings: Settings,
        epilogue: Option<Epilogue<'a>>,
    ) -> Self {
        let Convolution { x, w, y, .. } = convolution;
        let is_whole = is_integer(y.data_type) || is_integer(x.data_type) && is_integer(w.data_type);
        let (is_copy, operands) = (false, OnceCell::new());
        Self { convolution, compute, isa, settings, epilogue, is_whole, is_copy, operands }
    }

    /// The same problem with converted operands.
    pub(crate) fn on<'b>(&'b self, convolution: &'b Convolution, constant_weights: bool) -> Problem<'b> {
        let settings = Settings { constant_weights, ..self.settings };
        Problem { convolution, settings, is_copy: true, operands: OnceCell::new(), ..*self }
    }

    /// The same problem with another batch.
    pub(crate) fn with<'b>(&'b self, convolution: &'b Convolution, settings: Settings) -> Problem<'b> {
        Problem { convolution, settings, operands: OnceCell::new(), ..*self }
    }

    /// Which of x, w and y is the result.
    pub(crate) fn are_results(&self) -> [bool; 3] {
        [Direction::BackwardData, Direction::BackwardFilter, Direction::Forward]
            .each(|direction| direction == self.convolution.direction)
    }

    /// Whether the knob asks for this algorithm.
    pub(crate) fn asks_for(&self, algorithm: Algorithm) -> bool {
        self.settings.convolution == algorithm
    }

    fn spatial(&self) -> Result<Spatial<'_>, Refusal> {
        let c = self.convolution;
        for (operand, is_result) in [&c.x, &c.w, &c.y].into_iter().zip(self.are_results()) {
            if !is_direct(operand.data_type, is_result) {
                return Err(format!("{} is converted first", operand.data_type.name()));
            }
        }
        Spatial::of(c)
    }

    /// The operands of forward and backward data, in dtypes that all algorithms accept.
    pub(crate) fn operands(&self) -> Result<&Operands, Refusal> {
        self.operands.get_or_init(|| self.find_operands()).as_ref().map_err(Clone::clone)
    }

    fn find_operands(&self) -> Result<Operands, Refusal> {
        let spatial = self.spatial()?;
        let operands = match self.convolution.direction {
            Direction::Forward => spatial.forward(),
            Direction::BackwardData if self.epilogue.is_some() => return Err(alone()),
            Direction::BackwardData => spatial.backward_data()?,
            Direction::BackwardFilter => return Err("it is backward weights".to_owned()),
        };
        fill_of::<f32, false>(operands.input.data_type)?;
        pack_of::<f32>(operands.weights.data_type)?;
        store_of::<f32>(operands.output.data_type)?;
        Ok(operands)
    }

    /// The operands of backward weights.
    pub(crate) fn backward_weights(&self) -> Result<backward_weights::rows::Operands, Refusal> {
        if self.convolution.direction != Direction::BackwardFilter {
            return Err("it is not backward weights".to_owned());
        }
        let spatial = self.spatial()?;
        if self.epilogue.is_some() { Err(alone()) } else { Ok(spatial.backward_weights()) }
    }
}

/// Whether algorithms read (or write, for a result) elements of a dtype. Others are converted.
pub(crate) fn is_direct(data_type: DataType, is_result: bool) -> bool {
    fill_of::<f32, false>(data_type).is_ok() || is_result && store_of::<f32>(data_type).is_ok()
}

/// The number of products in a sum.
pub(crate) fn terms(c: &Convolution) -> f64 {
    c.in_channels as f64 * c.window[..c.spatial].iter().map(|side| *side as f64).product::<f64>()
}

fn is_integer(data_type: DataType) -> bool {
    use DataType::{Boolean, Int4, Int8, Int32, Int64, Uint8};
    matches!(data_type, Boolean | Int4 | Int8 | Uint8 | Int32 | Int64)
}

fn alone() -> Refusal {
    "gradients have no epilogue".to_owned()
}
