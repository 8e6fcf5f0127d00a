//! The nodes that a chain can absorb.

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, operation};

use super::{Activation, Added, Builder, is_small};
use crate::Refusal;
use crate::problem::pointwise::{Broadcast, Pointwise};
use crate::problem::{Operand, Problem};

impl Builder<'_> {
    /// Whether a result that others read as well has GELU as its only reader here: the libraries write GELU's
    /// input, too.
    pub(super) fn is_kept_by(&self, reader: usize) -> bool {
        let is_gelu = |problem: &Problem| matches!(problem, Problem::Pointwise(own) if own.mode == PointwiseMode::GeluApproxTanhFwd);
        self.activation.is_none() && self.prepared.node(reader).is_some_and(|node| is_gelu(node.problem))
    }

    /// Absorbs the gradient of GELU at a tensor with the result's shape.
    pub(super) fn gradient(
        &mut self,
        operation: &operation::Pointwise,
        pointwise: &Pointwise,
    ) -> Result<(), Refusal> {
        if operation.in_0 != self.result {
            return Err("in_1: is the result of the matmul, expected it as in_0, the gradient".to_owned());
        }
        if self.bias.is_some() || self.summand.is_some() || !self.scales.is_empty() {
            return Err("operation: is a gradient after a sum or a scale in memory, expected it directly after the matmul".to_owned());
        }
        let uid = operation.in_1.ok_or("in_1: absent, expected a tensor")?;
        self.in_memory("in_1", uid)?;
        let Broadcast { operand, strides } =
            *pointwise.inputs.get(1).ok_or("in_1: absent, expected a tensor")?;
        let (dims, expected) = (operand.layout.dims(), self.matmul.c.layout.dims());
        if dims != expected {
            return Err(format!("in_1: dims {dims:?}, expected {expected:?} as the matmul has"));
        }
        self.auxiliary = Some(Added { uid, operand, strides });
        self.activation = Some(Activation::GeluBackward);
        Ok(())
    }

    /// The operand of a node other than the result so far, with its name and index.
    fn other(&self, operation: &operation::Pointwise) -> Result<(&'static str, i64, usize), Refusal> {
        let second = operation.in_1.ok_or("in_1: absent, expected a tensor")?;
        Ok(if operation.in_0 == self.result { ("in_1", second, 1) } else { ("in_0", operation.in_0, 0) })
    }

    pub(super) fn scale(
        &mut self,
        operation: &operation::Pointwise,
        pointwise: &Pointwise,
    ) -> Result<(), Refusal> {
        let (name, uid, place) = self.other(operation)?;
        let number =
            self.prepared.graph.tensor(uid).and_then(|tensor| tensor.value).and_then(|value| value.as_f64());
        let is_second = number.is_some() && self.alpha.is_some();
        if is_second || self.summand.is_some() || self.bias.is_some() {
            return Err("operation: is mul after another operation, expected it directly after the product"
                .to_owned());
        }
        if number.is_some() {
            self.alpha = number;
            return Ok(());
        }
        if !is_small(self.matmul.a.data_type) {
            return Err(format!("{name}: is in memory, expected a value in the graph"));
        }
        self.in_memory(name, uid)?;
        let scale =
            pointwise.inputs.get(place).ok_or_else(|| format!("{name}: absent, expected a tensor"))?;
        let Operand { data_type, layout, .. } = &scale.operand;
        if *data_type != DataType::Float || layout.elements() != 1 {
            return Err(format!(
                "{name}: is {} of dims {:?}, expected one float that scales the product",
                data_type.name(),
                layout.dims()
            ));
        }
        if self.scales.len() == 2 {
            return Err(format!("{name}: is a third scale, expected one for each factor at most"));
        }
        self.scales.push(uid);
        Ok(())
    }

    pub(super) fn added(
        &mut self,
        operation: &operation::Pointwise,
        pointwise: &Pointwise,
    ) -> Result<(), Refusal> {
        let (name, uid, place) = self.other(operation)?;
        self.in_memory(name, uid)?;
        let Broadcast { operand, strides } =
            *pointwise.inputs.get(place).ok_or_else(|| format!("{name}: absent, expected a tensor"))?;
        let added = Added { uid, operand, strides };
        let batch = self.matmul.batch;
        let dims = operand.layout.dims();
        let missing = (batch + 2).saturating_sub(dims.len());
        let dim =
            |axis: usize| axis.checked_sub(missing).and_then(|axis| dims.get(axis).copied()).unwrap_or(1);
        let stride = |axis: usize| strides.get(axis).copied().unwrap_or(0);
        let (rows, columns) = (dim(batch), dim(batch + 1));
        let one_for_all = (0..batch).all(|axis| dim(axis) == 1);
        let (m, n) = (self.matmul.m, self.matmul.n);
        let by_column = rows == 1 && columns == n && (n == 1 || stride(batch + 1) == 1);
        let by_row = columns == 1 && rows == m && (m == 1 || stride(batch) == 1);
        if self.bias.is_none() && one_for_all && (by_column || by_row) {
            // With one row, a per-row bias of one element is also a per-column one.
            self.bias = Some((added, by_column));
            return Ok(());
        }
        if rows == m && columns == n && self.summand.is_none() {
            self.summand = Some(added);
            return Ok(());
        }
        Err(format!(
            "{name}: dims {dims:?}, expected those of the product, [{m}, {n}] at the end, or one row of {n} or one column of {m} that \
             lies side by side, and one of each kind"
        ))
    }
}

/// The libraries' activation for a pointwise mode.
pub(super) fn activation(mode: PointwiseMode, pointwise: &Pointwise) -> Result<Activation, Refusal> {
    let numbers = &pointwise.activation;
    match mode {
        PointwiseMode::ReluFwd if numbers.lower_clip != 0.0 => {
            Err(format!("relu_lower_clip: is {}, expected 0", numbers.lower_clip))
        }
        PointwiseMode::ReluFwd if numbers.lower_clip_slope != 0.0 => {
            Err(format!("relu_lower_clip_slope: is {}, expected 0", numbers.lower_clip_slope))
        }
        PointwiseMode::ReluFwd => match numbers.upper_clip {
            Some(upper) => Err(format!("relu_upper_clip: is {upper}, expected none")),
            None => Ok(Activation::Relu),
        },
        PointwiseMode::GeluApproxTanhFwd => Ok(Activation::Gelu),
        PointwiseMode::SwishFwd if numbers.swish_beta == 1.0 => Ok(Activation::Swish),
        PointwiseMode::SwishFwd => Err(format!("swish_beta: is {}, expected 1", numbers.swish_beta)),
        PointwiseMode::ReluBwd => Err(
            "operation: is relu_bwd, for which the libraries need a bit mask that only their own RELU writes"
                .to_owned(),
        ),
        other => Err(format!(
            "operation: is {}, expected an addition, RELU, GELU with the tanh approximation or its gradient, or SWISH after a matmul",
            other.name()
        )),
    }
}
