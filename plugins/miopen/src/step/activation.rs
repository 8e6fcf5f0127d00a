//! Activations and their gradients.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::pointwise::{Activation, Pointwise};
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::PointwiseMode;

use super::{Design, ONE, Step, Tensors, ZERO, factor};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{
    ACTIVATION_ABS, ACTIVATION_CLIPPED_RELU, ACTIVATION_ELU, ACTIVATION_LEAKY_RELU, ACTIVATION_LOGISTIC,
    ACTIVATION_PASS, ACTIVATION_RELU, ACTIVATION_SOFT_RELU, ACTIVATION_TANH,
};
use crate::object::{Object, activation};
use crate::operand::{Shape, same_type, without_bfloat16};

/// MIOpen's activation and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Function {
    /// MIOpen's mode.
    pub mode: c_int,
    /// α, β and γ.
    pub numbers: [f64; 3],
}

impl Function {
    /// MIOpen's activation for a mode, forward or backward.
    ///
    /// # Errors
    /// When there is none, or not with these parameters.
    pub fn of(mode: PointwiseMode, numbers: &Activation) -> Result<Self, Refusal> {
        use PointwiseMode as Mode;
        let with = |mode, alpha| Ok(Self { mode, numbers: [alpha, 1.0, 1.0] });
        match mode {
            Mode::Identity => with(ACTIVATION_PASS, 1.0),
            Mode::Abs => with(ACTIVATION_ABS, 1.0),
            Mode::SigmoidFwd | Mode::SigmoidBwd => with(ACTIVATION_LOGISTIC, 1.0),
            Mode::TanhFwd | Mode::TanhBwd => with(ACTIVATION_TANH, 1.0),
            Mode::EluFwd | Mode::EluBwd => with(ACTIVATION_ELU, f64::from(numbers.elu_alpha)),
            Mode::SoftplusFwd | Mode::SoftplusBwd if numbers.softplus_beta == 1.0 => {
                with(ACTIVATION_SOFT_RELU, 1.0)
            }
            Mode::SoftplusFwd | Mode::SoftplusBwd => {
                Err(format!("softplus_beta: is {}, expected 1", numbers.softplus_beta))
            }
            Mode::ReluFwd | Mode::ReluBwd => {
                let slope = numbers.lower_clip_slope;
                match (numbers.lower_clip == 0.0, slope == 0.0, numbers.upper_clip) {
                    (false, ..) => Err(format!("relu_lower_clip: is {}, expected 0", numbers.lower_clip)),
                    (true, true, None) => with(ACTIVATION_RELU, 1.0),
                    (true, true, Some(upper)) => with(ACTIVATION_CLIPPED_RELU, f64::from(upper)),
                    (true, false, None) => with(ACTIVATION_LEAKY_RELU, f64::from(slope)),
                    (true, false, Some(upper)) => Err(format!(
                        "relu_upper_clip: is {upper} and relu_lower_clip_slope {slope}, expected one of them"
                    )),
                }
            }
            other => Err(format!("operation: is {}, which MIOpen does not support", other.name())),
        }
    }

    /// Whether the gradient is computed from the activation's output rather than from its input alone.
    pub(super) fn gradient_needs_result(&self) -> bool {
        !matches!(
            self.mode,
            ACTIVATION_PASS | ACTIVATION_RELU | ACTIVATION_CLIPPED_RELU | ACTIVATION_LEAKY_RELU
        )
    }
}

/// An activation described for MIOpen.
pub struct ActivationDesign {
    function: Function,
    /// The shape of x, dy, y and dx.
    shape: Shape,
    /// Size in bytes of a tensor of the shape.
    size: usize,
    /// dy for a gradient, then x.
    inputs: (Option<usize>, usize),
    output: usize,
}

impl ActivationDesign {
    /// An activation.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(pointwise: &Pointwise) -> Result<Self, Refusal> {
        let function = Function::of(pointwise.mode, &pointwise.activation)?;
        let output = pointwise.output;
        for (place, input) in pointwise.inputs.iter().enumerate() {
            same(&format!("in_{place}"), &input.operand, &output)?;
        }
        let inputs = match pointwise.inputs.as_slice() {
            [x] => (None, x.operand.slot),
            [dy, x, ..] => (Some(dy.operand.slot), x.operand.slot),
            [] => return Err("in_0: absent, expected a tensor".to_owned()),
        };
        without_bfloat16("out_0", output.data_type)?;
        let shape =
            Shape::flat("out_0", &output)?.ok_or("out_0: dims and strides leave gaps, expected none")?;
        let size = output.layout.elements() * output.data_type.size().unwrap_or(1);
        Ok(Self { function, shape, size, inputs, output: output.slot })
    }
}

/// Refuses operands whose layout differs from the output's.
fn same(name: &str, operand: &Operand, output: &Operand) -> Result<(), Refusal> {
    same_type(name, operand.data_type, "out_0", output.data_type)?;
    if operand.layout != output.layout {
        return Err(format!(
            "{name}: dims {:?} and strides {:?}, expected {:?} and {:?} as in out_0",
            operand.layout.dims(),
            operand.layout.strides(),
            output.layout.dims(),
            output.layout.strides()
        ));
    }
    Ok(())
}

impl Design for ActivationDesign {
    fn make(&self, ready: &Ready<'_>, _: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        Ok(Box::new(ActivationStep {
            activation: activation(miopen, self.function.mode, self.function.numbers)?,
            descriptor: self.shape.descriptor(miopen)?,
            inputs: self.inputs,
            output: self.output,
            workspace_size: match self.inputs.0 {
                Some(_) if self.function.gradient_needs_result() => self.size,
                _ => 0,
            },
        }))
    }
}

struct ActivationStep {
    activation: Object,
    descriptor: Object,
    inputs: (Option<usize>, usize),
    output: usize,
    /// Space for the output, if the gradient is computed from it.
    workspace_size: usize,
}

impl ActivationStep {
    /// # Safety
    /// `x` and `y` are device memory of the shape, valid until the work is done.
    unsafe fn forward(&self, ready: &Ready<'_>, x: *const c_void, y: *mut c_void) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let descriptor = self.descriptor.get();
        // SAFETY: the step's objects are alive, and the tensors are valid for the shape until the work is done, as this function
        // requires.
        let status = unsafe {
            (miopen.miopenActivationForward)(
                ready.handle(),
                self.activation.get(),
                factor(&ONE),
                descriptor,
                x,
                factor(&ZERO),
                descriptor,
                y,
            )
        };
        Ok(miopen.check("miopenActivationForward", status)?)
    }
}

impl Step for ActivationStep {
    fn call(&self) -> &'static str {
        if self.inputs.0.is_some() { "miopenActivationBackward" } else { "miopenActivationForward" }
    }

    fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let (dy, x) = self.inputs;
        let (x, out) = (tensors.at(x), tensors.at(self.output));
        let Some(dy) = dy.map(|slot| tensors.at(slot)) else {
            // SAFETY: the tensors are valid for their extent, as this function requires, and both have the shape.
            return unsafe { self.forward(ready, x, out) };
        };
        // MIOpen requires a y even if it does not read it.
        let y = if self.workspace_size == 0 { x } else { workspace };
        if self.workspace_size > 0 {
            // SAFETY: the workspace has room for the result.
            unsafe { self.forward(ready, x, y) }?;
        }
        let miopen = ready.runtime.miopen;
        let descriptor = self.descriptor.get();
        // SAFETY: the step's objects are alive, and the tensors are valid for the shape until the work is done, as this function
        // requires.
        let status = unsafe {
            (miopen.miopenActivationBackward)(
                ready.handle(),
                self.activation.get(),
                factor(&ONE),
                descriptor,
                y,
                descriptor,
                dy,
                descriptor,
                x,
                factor(&ZERO),
                descriptor,
                out,
            )
        };
        Ok(miopen.check("miopenActivationBackward", status)?)
    }
}
