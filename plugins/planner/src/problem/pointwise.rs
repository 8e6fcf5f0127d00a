//! Pointwise operations.

use hipdnn_plugin_sdk::graph::{PointwiseMode, operation};

use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// An operand of a pointwise operation, broadcast to the output's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Broadcast {
    /// The tensor.
    pub operand: Operand,
    /// Its strides along the dimensions of the output: 0 where it is broadcast. Only the output's dimensions
    /// have valid entries.
    pub strides: [usize; MAX_RANK],
}

/// The parameters of the activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// Lower bound of RELU.
    pub lower_clip: f32,
    /// Upper bound of RELU, if any.
    pub upper_clip: Option<f32>,
    /// Slope of RELU below its lower bound.
    pub lower_clip_slope: f32,
    /// β of SWISH.
    pub swish_beta: f32,
    /// α of ELU.
    pub elu_alpha: f32,
    /// β of SOFTPLUS.
    pub softplus_beta: f32,
}

impl Default for Activation {
    fn default() -> Self {
        Self {
            lower_clip: 0.0,
            upper_clip: None,
            lower_clip_slope: 0.0,
            swish_beta: 1.0,
            elu_alpha: 1.0,
            softplus_beta: 1.0,
        }
    }
}

/// A pointwise operation whose shapes agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointwise {
    /// The function.
    pub mode: PointwiseMode,
    /// The operands that the mode reads: in_0, in_1, in_2.
    pub inputs: Vec<Broadcast>,
    /// The output.
    pub output: Operand,
    /// The dimension of GEN_INDEX; 0 for other modes.
    pub axis: usize,
    /// The parameters of the activations, with defaults filled in.
    pub activation: Activation,
}

impl Pointwise {
    /// The pointwise operation. A refusal names the inconsistent argument.
    pub(crate) fn of(operands: &Operands<'_>, pointwise: &operation::Pointwise) -> Result<Self, Refusal> {
        let mode = pointwise.operation;
        if mode == PointwiseMode::Unset {
            return Err("operation: is unset, like any unknown mode, which the log names".to_owned());
        }
        let output = operands.required("out_0")?;
        let mut inputs = Vec::with_capacity(3);
        for (place, name) in ["in_0", "in_1", "in_2"].into_iter().enumerate() {
            match operands.optional(name)? {
                Some(operand) if place < mode.operands() => inputs.push(broadcast(name, operand, &output)?),
                Some(_) => {
                    return Err(format!(
                        "{name}: given, but {} reads {} operand(s)",
                        mode.name(),
                        mode.operands()
                    ));
                }
                None if place < mode.operands() => {
                    return Err(format!("{name}: absent, expected the tensor that {} reads", mode.name()));
                }
                None => {}
            }
        }
        let rank = output.layout.rank();
        let axis = match (mode, pointwise.axis) {
            (PointwiseMode::GenIndex, Some(axis)) => usize::try_from(axis)
                .ok()
                .filter(|axis| *axis < rank)
                .ok_or_else(|| {
                format!("axis: is {axis}, expected 0 to {} as out_0 has {rank} dimensions", rank as i64 - 1)
            })?,
            (PointwiseMode::GenIndex, None) => {
                return Err("axis: absent, expected the dimension whose index gen_index writes".to_owned());
            }
            _ => 0,
        };
        let default = Activation::default();
        let activation = Activation {
            lower_clip: pointwise.relu_lower_clip.unwrap_or(default.lower_clip),
            upper_clip: pointwise.relu_upper_clip,
            lower_clip_slope: pointwise.relu_lower_clip_slope.unwrap_or(default.lower_clip_slope),
            swish_beta: pointwise.swish_beta.unwrap_or(default.swish_beta),
            elu_alpha: pointwise.elu_alpha.unwrap_or(default.elu_alpha),
            softplus_beta: pointwise.softplus_beta.unwrap_or(default.softplus_beta),
        };
        Ok(Self { mode, inputs, output, axis, activation })
    }
}

/// Aligns the operand's last dimension with the output's; missing dimensions and those of 1 are broadcast.
fn broadcast(name: &str, operand: Operand, output: &Operand) -> Result<Broadcast, Refusal> {
    let (dims, out) = (operand.layout.dims(), output.layout.dims());
    let fits = dims.len() <= out.len()
        && dims.iter().rev().zip(out.iter().rev()).all(|(dim, out)| *dim == 1 || dim == out);
    if !fits {
        return Err(format!(
            "{name}: dims {dims:?} do not spread over the dims {out:?} of out_0, aligned at the last"
        ));
    }
    let mut strides = [0; MAX_RANK];
    let spread = operand.layout.dims().iter().zip(operand.layout.strides());
    for (to, (dim, stride)) in strides.iter_mut().skip(out.len() - dims.len()).zip(spread) {
        *to = if *dim == 1 { 0 } else { *stride };
    }
    Ok(Broadcast { operand, strides })
}
