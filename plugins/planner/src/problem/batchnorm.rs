//! The four variants of batch normalization. Dimension 1 of x is the channel.

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::{self, BatchnormBackward};

use super::{Operand, Operands};
use crate::Refusal;

/// One number for each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its index among the kernel's pointers.
    pub slot: usize,
    /// The type of its elements.
    pub data_type: DataType,
    /// Stride in elements between channels.
    pub stride: usize,
}

/// A scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// Its index among the kernel's pointers.
    pub slot: usize,
    /// Its type.
    pub data_type: DataType,
}

/// How inference is given a channel's variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// As 1/√(variance + ε).
    InvVariance(Parameter),
    /// As variance and ε.
    Variance(Parameter, Scalar),
}

/// y = scale · (x - mean) · inv + bias with given statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inference {
    /// The input.
    pub x: Operand,
    /// The output, with x's dims.
    pub y: Operand,
    /// The mean.
    pub mean: Parameter,
    /// The source of inv.
    pub spread: Spread,
    /// The scale.
    pub scale: Parameter,
    /// The bias.
    pub bias: Parameter,
}

/// The running statistics of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// The old mean.
    pub prev_mean: Parameter,
    /// The old variance.
    pub prev_variance: Parameter,
    /// The new mean.
    pub next_mean: Parameter,
    /// The new variance.
    pub next_variance: Parameter,
    /// The weight of the new value; 0.1 if absent.
    pub momentum: Option<Scalar>,
}

/// The same with the statistics of x itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The input.
    pub x: Operand,
    /// The output, with x's dims.
    pub y: Operand,
    /// The scale.
    pub scale: Parameter,
    /// The bias.
    pub bias: Parameter,
    /// Added to the variance.
    pub epsilon: Scalar,
    /// Receives the mean.
    pub mean: Option<Parameter>,
    /// Receives 1/√(variance + ε).
    pub inv_variance: Option<Parameter>,
    /// The running statistics.
    pub running: Option<Running>,
}

/// The gradients of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backward {
    /// The gradient of the output, with x's dims.
    pub dy: Operand,
    /// The input.
    pub x: Operand,
    /// The scale.
    pub scale: Parameter,
    /// The gradient of the input, with x's dims.
    pub dx: Operand,
    /// The gradient of the scale.
    pub dscale: Parameter,
    /// The gradient of the bias.
    pub dbias: Parameter,
    /// Mean and 1/√(variance + ε), if the forward pass saved them.
    pub saved: Option<(Parameter, Parameter)>,
}

/// A batch normalization whose shapes agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Batchnorm {
    /// With given statistics.
    Inference(Inference),
    /// With the statistics of x.
    Training(Training),
    /// The gradients.
    Backward(Backward),
}

impl Batchnorm {
    /// Inference with 1/√(variance + ε). A refusal names the inconsistent argument, as for the other
    /// variants.
    pub(crate) fn inference(operands: Operands<'_>) -> Result<Self, Refusal> {
        Fields { operands }.inference(false)
    }

    /// Inference with variance and ε.
    pub(crate) fn inference_variance(operands: Operands<'_>) -> Result<Self, Refusal> {
        Fields { operands }.inference(true)
    }

    /// Training.
    pub(crate) fn training(operands: Operands<'_>, b: &operation::Batchnorm) -> Result<Self, Refusal> {
        alone(&b.peer_stats)?;
        Fields { operands }.training()
    }

    /// The gradients.
    pub(crate) fn backward(operands: Operands<'_>, b: &BatchnormBackward) -> Result<Self, Refusal> {
        alone(&b.peer_stats)?;
        Fields { operands }.backward()
    }

    /// The input.
    pub fn x(&self) -> &Operand {
        match self {
            Self::Inference(inference) => &inference.x,
            Self::Training(training) => &training.x,
            Self::Backward(backward) => &backward.x,
        }
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.x().layout.dims().get(1).copied().unwrap_or(1)
    }
}

/// Refuses statistics of other devices. A single tensor is this device's own buffer, which nothing needs without others.
fn alone(peer_stats: &[i64]) -> Result<(), Refusal> {
    if peer_stats.len() <= 1 {
        Ok(())
    } else {
        Err(format!("peer_stats: has {} tensors, expected at most one: this device alone", peer_stats.len()))
    }
}

/// The scalar in the field `name`, if set.
pub(super) fn optional_scalar(operands: &Operands<'_>, name: &str) -> Result<Option<Scalar>, Refusal> {
    let Some(operand) = operands.optional(name)? else { return Ok(None) };
    if operand.layout.elements() != 1 {
        return Err(format!("{name}: dims are {:?}, expected a single element", operand.layout.dims()));
    }
    Ok(Some(Scalar { slot: operand.slot, data_type: operand.data_type }))
}

struct Fields<'a> {
    operands: Operands<'a>,
}

impl Fields<'_> {
    fn input(&self, name: &str) -> Result<Operand, Refusal> {
        let x = self.operands.required(name)?;
        if x.layout.rank() < 2 {
            return Err(format!("{name}: dims are {:?}, expected batch, channels and more", x.layout.dims()));
        }
        Ok(x)
    }

    fn optional_parameter(&self, name: &str, x: &Operand) -> Result<Option<Parameter>, Refusal> {
        let Some(operand) = self.operands.optional(name)? else { return Ok(None) };
        let channels = x.layout.dims().get(1).copied().unwrap_or(1);
        let (dims, strides) = (operand.layout.dims(), operand.layout.strides());
        // One dimension has the channels, all others are 1: [1, C, 1, ...], [C] and the like.
        let mut long = dims.iter().zip(strides).filter(|(dim, _)| **dim != 1);
        let stride = match (long.next(), long.next()) {
            (None, _) if channels == 1 => Some(0),
            (Some((dim, stride)), None) if *dim == channels => Some(*stride),
            _ => None,
        };
        let stride = stride.ok_or_else(|| {
            format!("{name}: dims are {dims:?}, expected {channels} element(s) along one dimension, one for each channel of x")
        })?;
        Ok(Some(Parameter { slot: operand.slot, data_type: operand.data_type, stride }))
    }

    fn parameter(&self, name: &str, x: &Operand) -> Result<Parameter, Refusal> {
        self.optional_parameter(name, x)?.ok_or_else(|| format!("{name}: absent, expected a tensor"))
    }

    fn scalar(&self, name: &str) -> Result<Scalar, Refusal> {
        optional_scalar(&self.operands, name)?.ok_or_else(|| format!("{name}: absent, expected a tensor"))
    }

    fn inference(&self, with_variance: bool) -> Result<Batchnorm, Refusal> {
        let x = self.input("x")?;
        let spread = if with_variance {
            Spread::Variance(self.parameter("variance", &x)?, self.scalar("epsilon")?)
        } else {
            Spread::InvVariance(self.parameter("inv_variance", &x)?)
        };
        Ok(Batchnorm::Inference(Inference {
            y: self.operands.like("y", &x)?,
            mean: self.parameter("mean", &x)?,
            spread,
            scale: self.parameter("scale", &x)?,
            bias: self.parameter("bias", &x)?,
            x,
        }))
    }

    fn training(&self) -> Result<Batchnorm, Refusal> {
        let x = self.input("x")?;
        Ok(Batchnorm::Training(Training {
            y: self.operands.like("y", &x)?,
            scale: self.parameter("scale", &x)?,
            bias: self.parameter("bias", &x)?,
            epsilon: self.scalar("epsilon")?,
            mean: self.optional_parameter("mean", &x)?,
            inv_variance: self.optional_parameter("inv_variance", &x)?,
            running: self.running(&x)?,
            x,
        }))
    }

    /// The running tensors: all four, or none if the two outputs are absent.
    fn running(&self, x: &Operand) -> Result<Option<Running>, Refusal> {
        let names =
            ["prev_running_mean", "prev_running_variance", "next_running_mean", "next_running_variance"];
        let [prev_mean, prev_variance, next_mean, next_variance] =
            names.map(|name| self.optional_parameter(name, x));
        let momentum = optional_scalar(&self.operands, "momentum")?;
        match (prev_mean?, prev_variance?, next_mean?, next_variance?) {
            (Some(prev_mean), Some(prev_variance), Some(next_mean), Some(next_variance)) => {
                Ok(Some(Running { prev_mean, prev_variance, next_mean, next_variance, momentum }))
            }
            (_, _, None, None) => Ok(None),
            (prev_mean, prev_variance, next_mean, next_variance) => {
                let given = [prev_mean, prev_variance, next_mean, next_variance];
                let absent: Vec<_> =
                    names.iter().zip(given).filter(|(_, p)| p.is_none()).map(|(n, _)| *n).collect();
                Err(format!(
                    "{}: absent, expected all of {} because one of the last two is given",
                    absent.join(", "),
                    names.join(", ")
                ))
            }
        }
    }

    fn backward(&self) -> Result<Batchnorm, Refusal> {
        let x = self.input("x")?;
        let saved = match (self.optional_parameter("mean", &x)?, self.optional_parameter("inv_variance", &x)?)
        {
            (Some(mean), Some(inv_variance)) => Some((mean, inv_variance)),
            (None, None) => None,
            (Some(_), None) => {
                return Err("inv_variance: absent, expected mean and inv_variance or neither".to_owned());
            }
            (None, Some(_)) => {
                return Err("mean: absent, expected mean and inv_variance or neither".to_owned());
            }
        };
        Ok(Batchnorm::Backward(Backward {
            dy: self.operands.like("dy", &x)?,
            scale: self.parameter("scale", &x)?,
            dx: self.operands.like("dx", &x)?,
            dscale: self.parameter("dscale", &x)?,
            dbias: self.parameter("dbias", &x)?,
            saved,
            x,
        }))
    }
}
