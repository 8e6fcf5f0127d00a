//! What an algorithm is asked for: a convolution, and how it is to be computed.

use std::cell::OnceCell;

use crate::conv::backward_weights;
use crate::conv::operands::{Operands, fill_of, pack_of, store_of};
use crate::conv::spatial::Spatial;
use crate::dtype::element::{Compute, is_float_of_eight_bits};
use crate::kernel::Refusal;
use crate::pointwise::Epilogue;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;

/// A convolution, and how it is to be computed.
pub(crate) struct Problem<'a> {
    pub(crate) convolution: &'a Convolution,
    /// The compute type of the node. Sums of bytes may need a wider one.
    pub(crate) compute: Compute,
    pub(crate) isa: Isa,
    pub(crate) settings: Settings,
    pub(crate) epilogue: Option<Epilogue<'a>>,
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
        Self { convolution, compute, isa, settings, epilogue, operands: OnceCell::new() }
    }

    /// Whether the knob asks for this algorithm.
    pub(crate) fn asks_for(&self, algorithm: Algorithm) -> bool {
        self.settings.convolution == algorithm
    }

    fn spatial(&self) -> Result<Spatial<'_>, Refusal> {
        let c = self.convolution;
        if [&c.x, &c.w, &c.y].iter().any(|operand| is_float_of_eight_bits(operand.data_type)) {
            return Err("8-bit floats are converted first".to_owned());
        }
        Spatial::of(c)
    }

    /// The operands of the forward direction and of backward data, of dtypes that all algorithms may meet.
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
        fill_of::<f32>(operands.input.data_type)?;
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

fn alone() -> Refusal {
    "a gradient is computed alone".to_owned()
}
