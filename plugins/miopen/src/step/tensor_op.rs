//! Sums, differences, products, minima and maxima of two tensors, the second broadcast to the first.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::pointwise::{Broadcast, Pointwise};
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::{Graph, Operation, PointwiseMode};

use super::{Design, MINUS_ONE, ONE, Step, Tensors, ZERO, factor};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{TENSOR_ADD, TENSOR_MAX, TENSOR_MIN, TENSOR_MUL};
use crate::object::Object;
use crate::operand::{Shape, memory_order, same_type, without_bfloat16};

/// MIOpen's operation for a mode, and whether its second operand is subtracted.
pub fn operation(mode: PointwiseMode) -> Option<(c_int, bool)> {
    match mode {
        PointwiseMode::Add => Some((TENSOR_ADD, false)),
        PointwiseMode::Sub => Some((TENSOR_ADD, true)),
        PointwiseMode::Mul => Some((TENSOR_MUL, false)),
        PointwiseMode::Min => Some((TENSOR_MIN, false)),
        PointwiseMode::Max => Some((TENSOR_MAX, false)),
        _ => None,
    }
}

/// An operation on two tensors described for MIOpen.
pub struct TensorOpDesign {
    operation: c_int,
    /// Which factor is -1: of the full operand, and of the broadcast one.
    negative: [bool; 2],
    /// The operand with the output's dims, the broadcast one, the output.
    shapes: [Shape; 3],
    slots: [usize; 3],
}

impl TensorOpDesign {
    /// The operation of a node.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(graph: &Graph, node: &Operation, pointwise: &Pointwise) -> Result<Self, Refusal> {
        let (operation, subtract) =
            operation(pointwise.mode).ok_or_else(|| format!("operation: is {}", pointwise.mode.name()))?;
        let [first, second] = pointwise.inputs.as_slice() else {
            return Err("in_1: absent, expected a tensor".to_owned());
        };
        let output = &pointwise.output;
        for (name, input) in [("in_0", first), ("in_1", second)] {
            same_type(name, input.operand.data_type, "out_0", output.data_type)?;
            if values(graph, node, input.operand.slot) {
                return Err(format!("{name}: is passed by value, expected device memory"));
            }
        }
        let whole = |input: &Broadcast| input.operand.layout.dims() == output.layout.dims();
        let (a, b, negative) = if whole(first) {
            (first, second, [false, subtract])
        } else if whole(second) {
            (second, first, [subtract, false])
        } else {
            return Err(format!(
                "in_0 and in_1: dims {:?} and {:?}, expected one of them to have the dims {:?} of out_0",
                first.operand.layout.dims(),
                second.operand.layout.dims(),
                output.layout.dims()
            ));
        };
        without_bfloat16("out_0", output.data_type)?;
        let axes = memory_order(&output.layout);
        let shape = |name: &str, operand: &Operand| Shape::in_order(name, operand, &axes);
        let shapes = [shape("in_0", &a.operand)?, shape("in_1", &b.operand)?, shape("out_0", output)?];
        Ok(Self { operation, negative, shapes, slots: [a.operand.slot, b.operand.slot, output.slot] })
    }
}

/// Whether the tensor in this slot is a host scalar.
fn values(graph: &Graph, node: &Operation, slot: usize) -> bool {
    node.tensors()
        .get(slot)
        .and_then(|uid| graph.tensor(*uid))
        .is_some_and(|tensor| tensor.value.is_some() || tensor.is_runtime_pass_by_value)
}

impl Design for TensorOpDesign {
    fn make(&self, ready: &Ready<'_>, _: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        let [a, b, c] = &self.shapes;
        Ok(Box::new(TensorOpStep {
            operation: self.operation,
            factors: self.negative.map(|negative| if negative { &MINUS_ONE } else { &ONE }),
            descriptors: [a.descriptor(miopen)?, b.descriptor(miopen)?, c.descriptor(miopen)?],
            slots: self.slots,
        }))
    }
}

struct TensorOpStep {
    operation: c_int,
    factors: [&'static f32; 2],
    descriptors: [Object; 3],
    slots: [usize; 3],
}

impl Step for TensorOpStep {
    fn call(&self) -> &'static str {
        "miopenOpTensor"
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        _: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let [a, b, c] = &self.descriptors;
        let [a_at, b_at, c_at] = self.slots.map(|slot| tensors.at(slot));
        let [alpha1, alpha2] = self.factors.map(factor);
        // SAFETY: the step's objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
        // function requires.
        let status = unsafe {
            (miopen.miopenOpTensor)(
                ready.handle(),
                self.operation,
                alpha1,
                a.get(),
                a_at,
                alpha2,
                b.get(),
                b_at,
                factor(&ZERO),
                c.get(),
                c_at,
            )
        };
        Ok(miopen.check("miopenOpTensor", status)?)
    }
}
