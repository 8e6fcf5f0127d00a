//! Normalization over the last dimensions: layer normalization and RMS normalization, with their gradients.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use hipdnn_plugin_sdk::graph::DataType;

use super::batchnorm::{Scalar, optional_scalar};
use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// A tensor with an element for each row of x, or for each position in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Its index among the kernel's pointers.
    pub slot: usize,
    /// The type of its elements.
    pub data_type: DataType,
    /// Its strides along the dimensions of x: 0 where it is broadcast.
    pub strides: [usize; MAX_RANK],
}

/// y = scale · (x - mean) · inverse + bias, with the statistics of each row. A row consists of the elements
/// with equal indices along the leading dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// The input.
    pub x: Operand,
    /// The output, with x's dims.
    pub y: Operand,
    /// Number of dimensions that are not normalized.
    pub leading: usize,
    /// Whether the mean is subtracted. If not, it counts as 0 and is not an output.
    pub centered: bool,
    /// The scale, the same for every row.
    pub scale: Spread,
    /// The bias, the same for every row.
    pub bias: Option<Spread>,
    /// Added to the mean of the squares.
    pub epsilon: Scalar,
    /// Receives the mean of each row.
    pub mean: Option<Spread>,
    /// Receives the inverse of each row: 1/√(mean of (x - mean)² + ε).
    pub inverse: Option<Spread>,
}

/// Where the statistics of the rows come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistics {
    /// Saved by the forward pass.
    Saved {
        /// The mean; none if it is not subtracted.
        mean: Option<Spread>,
        /// The inverse.
        inverse: Spread,
    },
    /// Recomputed with this ε.
    Computed(Scalar),
}

/// The gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backward {
    /// The gradient of the output, with x's dims.
    pub dy: Operand,
    /// The input.
    pub x: Operand,
    /// The gradient of the input, with x's dims.
    pub dx: Operand,
    /// Number of dimensions that are not normalized.
    pub leading: usize,
    /// Whether the mean was subtracted.
    pub centered: bool,
    /// The scale.
    pub scale: Spread,
    /// The gradient of the scale.
    pub dscale: Spread,
    /// The gradient of the bias.
    pub dbias: Option<Spread>,
    /// The statistics.
    pub statistics: Statistics,
}

/// A normalization whose shapes agree.
#[derive(Clone, Debug, PartialEq)]
pub enum Normalization {
    /// The forward pass.
    Forward(Box<Forward>),
    /// The gradients.
    Backward(Box<Backward>),
}

impl From<Forward> for Normalization {
    fn from(forward: Forward) -> Self {
        Self::Forward(Box::new(forward))
    }
}

impl From<Backward> for Normalization {
    fn from(backward: Backward) -> Self {
        Self::Backward(Box::new(backward))
    }
}

impl Normalization {
    /// Layer normalization over this many dimensions. A refusal names the inconsistent argument, as for the
    /// other variants.
    pub(crate) fn layernorm(operands: Operands<'_>, count: i64) -> Result<Self, Refusal> {
        Fields { operands }.layernorm(count)
    }

    /// The gradients of layer normalization over this many dimensions.
    pub(crate) fn layernorm_backward(operands: Operands<'_>, count: i64) -> Result<Self, Refusal> {
        Fields { operands }.layernorm_backward(count)
    }

    /// RMS normalization.
    pub(crate) fn rms(operands: Operands<'_>) -> Result<Self, Refusal> {
        Fields { operands }.rms()
    }

    /// The gradients of RMS normalization.
    pub(crate) fn rms_backward(operands: Operands<'_>) -> Result<Self, Refusal> {
        Fields { operands }.rms_backward()
    }
}

struct Fields<'a> {
    operands: Operands<'a>,
}

/// What a tensor's elements belong to.
#[derive(Clone, Copy)]
enum Part {
    /// Rows: the leading dimensions, possibly followed by ones.
    Rows,
    /// Positions in a row: the normalized dimensions, possibly preceded by ones.
    Places,
}

impl Fields<'_> {
    fn layernorm(&self, count: i64) -> Result<Normalization, Refusal> {
        let x = self.operands.required("x")?;
        let leading = leading(&x, count)?;
        let part = |name, part| self.part(name, part, &x, leading);
        Ok(Normalization::from(Forward {
            scale: required("scale", part("scale", Part::Places)?)?,
            bias: Some(required("bias", part("bias", Part::Places)?)?),
            epsilon: self.epsilon()?,
            y: self.operands.like("y", &x)?,
            mean: part("mean", Part::Rows)?,
            inverse: part("inv_variance", Part::Rows)?,
            x,
            leading,
            centered: true,
        }))
    }

    fn layernorm_backward(&self, count: i64) -> Result<Normalization, Refusal> {
        let x = self.operands.required("x")?;
        let leading = leading(&x, count)?;
        let part = |name, part| self.part(name, part, &x, leading);
        let saved = (part("mean", Part::Rows)?, part("inv_variance", Part::Rows)?);
        let statistics = match (saved, optional_scalar(&self.operands, "epsilon")?) {
            ((mean @ Some(_), Some(inverse)), _) => Statistics::Saved { mean, inverse },
            ((None, None), Some(epsilon)) => Statistics::Computed(epsilon),
            ((None, None), None) => {
                return Err("epsilon: absent, expected it or both mean and inv_variance".to_owned());
            }
            ((Some(_), None), _) => {
                return Err("inv_variance: absent, expected mean and inv_variance or neither".to_owned());
            }
            ((None, Some(_)), _) => {
                return Err("mean: absent, expected mean and inv_variance or neither".to_owned());
            }
        };
        Ok(Normalization::from(Backward {
            dy: self.operands.like("dy", &x)?,
            scale: required("scale", part("scale", Part::Places)?)?,
            dx: self.operands.like("dx", &x)?,
            dscale: required("dscale", part("dscale", Part::Places)?)?,
            dbias: Some(required("dbias", part("dbias", Part::Places)?)?),
            statistics,
            x,
            leading,
            centered: true,
        }))
    }

    fn rms(&self) -> Result<Normalization, Refusal> {
        let x = self.operands.required("x")?;
        let leading = self.leading_by_scale(&x)?;
        let part = |name, part| self.part(name, part, &x, leading);
        Ok(Normalization::from(Forward {
            scale: required("scale", part("scale", Part::Places)?)?,
            bias: part("bias", Part::Places)?,
            epsilon: self.epsilon()?,
            y: self.operands.like("y", &x)?,
            mean: None,
            inverse: part("inv_rms", Part::Rows)?,
            x,
            leading,
            centered: false,
        }))
    }

    fn rms_backward(&self) -> Result<Normalization, Refusal> {
        let x = self.operands.required("x")?;
        let leading = self.leading_by_scale(&x)?;
        let part = |name, part| self.part(name, part, &x, leading);
        let scale = required("scale", part("scale", Part::Places)?)?;
        let inverse = part("inv_rms", Part::Rows)?
            .ok_or("inv_rms: absent, expected the statistics that the forward pass saved")?;
        Ok(Normalization::from(Backward {
            dy: self.operands.like("dy", &x)?,
            scale,
            dx: self.operands.like("dx", &x)?,
            dscale: required("dscale", part("dscale", Part::Places)?)?,
            dbias: part("dbias", Part::Places)?,
            statistics: Statistics::Saved { mean: None, inverse },
            x,
            leading,
            centered: false,
        }))
    }

    fn epsilon(&self) -> Result<Scalar, Refusal> {
        optional_scalar(&self.operands, "epsilon")?
            .ok_or_else(|| "epsilon: absent, expected a tensor".to_owned())
    }

    /// Normalizes the last dimensions along which scale and x agree, at most all but the first.
    fn leading_by_scale(&self, x: &Operand) -> Result<usize, Refusal> {
        let scale = self.operands.required("scale")?;
        let (xd, sd) = (x.layout.dims(), scale.layout.dims());
        if xd.len() < 2 {
            return Err(format!("x: dims are {xd:?}, expected two or more"));
        }
        if sd.len() != xd.len() {
            return Err(format!(
                "scale: dims {sd:?} has {} entries, expected {} as in x",
                sd.len(),
                xd.len()
            ));
        }
        let equal = xd.iter().zip(sd).rev().take_while(|(x, s)| x == s).count();
        if equal == 0 {
            return Err(format!("scale: dims are {sd:?}, expected the last as in x, {xd:?}"));
        }
        Ok((xd.len() - equal).max(1))
    }

    /// A tensor with an element for each row, or for each position in a row.
    fn part(&self, name: &str, part: Part, x: &Operand, leading: usize) -> Result<Option<Spread>, Refusal> {
        let Some(operand) = self.operands.optional(name)? else { return Ok(None) };
        let (xd, dims) = (x.layout.dims(), operand.layout.dims());
        let (wanted, what, begin) = match part {
            Part::Rows => (&xd[..leading], "the first, perhaps with ones behind", 0),
            Part::Places => (
                &xd[leading..],
                "the last, perhaps with ones before",
                dims.len().abs_diff(xd.len() - leading),
            ),
        };
        let fits = dims.len() >= wanted.len()
            && dims.len() <= xd.len()
            && dims[begin..begin + wanted.len()] == *wanted
            && dims
                .iter()
                .enumerate()
                .all(|(axis, dim)| *dim == 1 || (begin..begin + wanted.len()).contains(&axis));
        if !fits {
            return Err(format!("{name}: dims are {dims:?}, expected {wanted:?}: of x's dims {xd:?} {what}"));
        }
        let mut strides = [0; MAX_RANK];
        let first = match part {
            Part::Rows => 0,
            Part::Places => leading,
        };
        for (axis, dim) in wanted.iter().enumerate() {
            // Along a dimension of 1 any stride is valid.
            strides[first + axis] = if *dim == 1 { 0 } else { operand.layout.strides()[begin + axis] };
        }
        Ok(Some(Spread { slot: operand.slot, data_type: operand.data_type, strides }))
    }
}

fn required(name: &str, part: Option<Spread>) -> Result<Spread, Refusal> {
    part.ok_or_else(|| format!("{name}: absent, expected a tensor"))
}

/// Number of dimensions before the last `count`.
fn leading(x: &Operand, count: i64) -> Result<usize, Refusal> {
    let rank = x.layout.rank();
    usize::try_from(count)
        .ok()
        .filter(|count| (1..=rank).contains(count))
        .map(|count| rank - count)
        .ok_or_else(|| {
            format!("normalized_dim_count: is {count}, expected 1 to {rank} as x has {rank} dimensions")
        })
}
