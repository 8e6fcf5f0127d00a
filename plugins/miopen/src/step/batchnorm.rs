//! The four variants of batch normalization.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::problem::batchnorm::{Batchnorm, Parameter, Scalar, Spread};
use hipdnn_plugin_planner::{Refusal, problem::Operand};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation};
use hipdnn_plugin_sdk::{PluginError, hip::HIP_MEMCPY_DEVICE_TO_DEVICE};

use super::{Design, HostScalar, ONE, Step, Tensors, ZERO, factor};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{ACTIVATION_POWER, BATCHNORM_SPATIAL, FLOAT, Miopen, MiopenError};
use crate::object::{Object, activation, tensor};
use crate::operand::{ImageLayout, Shape, image, int, same_type};

/// Added to a variance that a gradient recomputes, as in the reference.
const GRADIENT_EPSILON: f64 = 1e-5;
/// The default weight of the new value in running statistics.
const MOMENTUM: f64 = 0.1;

/// A batch normalization described for MIOpen.
#[derive(Clone, Debug)]
pub struct BatchnormDesign {
    /// The shape of x, y and their gradients.
    pub(super) shape: Shape,
    pub(super) channels: c_int,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Inference(Inference),
    Training(Training),
    Backward(Backward),
}

/// Slots of the operation's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inference {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) mean: usize,
    pub(super) spread: usize,
    /// ε if the spread is a variance; none if it is 1/√(variance + ε).
    pub(super) epsilon: Option<HostScalar>,
    pub(super) scale: usize,
    pub(super) bias: usize,
}

/// Slots of the operation's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Training {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) scale: usize,
    pub(super) bias: usize,
    pub(super) epsilon: HostScalar,
    pub(super) mean: Option<usize>,
    pub(super) inv_variance: Option<usize>,
    pub(super) running: Option<Running>,
}

/// Slots of the operation's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    prev: [usize; 2],
    pub(super) next: [usize; 2],
    momentum: HostScalar,
}

/// Slots of the operation's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backward {
    pub(super) dy: usize,
    pub(super) x: usize,
    pub(super) scale: usize,
    pub(super) dx: usize,
    pub(super) dscale: usize,
    pub(super) dbias: usize,
    pub(super) saved: Option<[usize; 2]>,
}

impl BatchnormDesign {
    /// The batch normalization of a node.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(graph: &Graph, operation: &Operation, batchnorm: &Batchnorm) -> Result<Self, Refusal> {
        let channels = batchnorm.channels();
        let parameter = |name: &str, parameter: Parameter| {
            if parameter.data_type != DataType::Float {
                return Err(format!("{name}: data type is {}, expected float", parameter.data_type.name()));
            }
            if parameter.stride != 1 && channels > 1 {
                return Err(format!(
                    "{name}: the stride of its channels is {}, expected 1",
                    parameter.stride
                ));
            }
            Ok(parameter.slot)
        };
        let scalar = |name: &str, scalar: Scalar| HostScalar::of(graph, operation, name, scalar);
        let (shape, form) = match batchnorm {
            Batchnorm::Inference(b) => {
                let (spread, epsilon) = match b.spread {
                    Spread::InvVariance(inv) => (parameter("inv_variance", inv)?, None),
                    Spread::Variance(variance, epsilon) => {
                        (parameter("variance", variance)?, Some(scalar("epsilon", epsilon)?))
                    }
                };
                let form = Form::Inference(Inference {
                    x: b.x.slot,
                    y: b.y.slot,
                    mean: parameter("mean", b.mean)?,
                    spread,
                    epsilon,
                    scale: parameter("scale", b.scale)?,
                    bias: parameter("bias", b.bias)?,
                });
                (shape(&[("x", &b.x), ("y", &b.y)], false)?, form)
            }
            Batchnorm::Training(b) => {
                let running = b.running.map(|running| {
                    Ok::<_, Refusal>(Running {
                        prev: [
                            parameter("prev_running_mean", running.prev_mean)?,
                            parameter("prev_running_variance", running.prev_variance)?,
                        ],
                        next: [
                            parameter("next_running_mean", running.next_mean)?,
                            parameter("next_running_variance", running.next_variance)?,
                        ],
                        momentum: match running.momentum {
                            Some(momentum) => scalar("momentum", momentum)?,
                            None => HostScalar::Value(MOMENTUM),
                        },
                    })
                });
                let form = Form::Training(Training {
                    x: b.x.slot,
                    y: b.y.slot,
                    scale: parameter("scale", b.scale)?,
                    bias: parameter("bias", b.bias)?,
                    epsilon: scalar("epsilon", b.epsilon)?,
                    mean: b.mean.map(|mean| parameter("mean", mean)).transpose()?,
                    inv_variance: b.inv_variance.map(|inv| parameter("inv_variance", inv)).transpose()?,
                    running: running.transpose()?,
                });
                (shape(&[("x", &b.x), ("y", &b.y)], true)?, form)
            }
            Batchnorm::Backward(b) => {
                let saved = b.saved.map(|(mean, inv)| {
                    Ok::<_, Refusal>([parameter("mean", mean)?, parameter("inv_variance", inv)?])
                });
                let form = Form::Backward(Backward {
                    dy: b.dy.slot,
                    x: b.x.slot,
                    scale: parameter("scale", b.scale)?,
                    dx: b.dx.slot,
                    dscale: parameter("dscale", b.dscale)?,
                    dbias: parameter("dbias", b.dbias)?,
                    saved: saved.transpose()?,
                });
                (shape(&[("x", &b.x), ("dy", &b.dy), ("dx", &b.dx)], true)?, form)
            }
        };
        Ok(Self { shape, channels: int("x", channels)?, form })
    }

    /// The tensors of inference.
    pub(super) fn inference(&self) -> Option<Inference> {
        match self.form {
            Form::Inference(inference) => Some(inference),
            _ => None,
        }
    }

    /// The tensors of training.
    pub(super) fn training(&self) -> Option<Training> {
        match self.form {
            Form::Training(training) => Some(training),
            _ => None,
        }
    }

    /// The tensors of the gradient.
    pub(super) fn backward(&self) -> Option<Backward> {
        match self.form {
            Form::Backward(backward) => Some(backward),
            _ => None,
        }
    }
}

/// The shape of tensors with the same type and layout. `statistics`: whether the statistics of x are
/// computed.
fn shape(tensors: &[(&str, &Operand)], statistics: bool) -> Result<Shape, Refusal> {
    let Some(((first_name, first), rest)) = tensors.split_first() else {
        return Err("x: absent, expected a tensor".to_owned());
    };
    for (name, operand) in rest {
        same_type(name, operand.data_type, first_name, first.data_type)?;
    }
    let rank = first.layout.rank();
    if rank > 5 {
        return Err(format!("{first_name}: has {rank} dimensions, expected at most 5"));
    }
    let layout = ImageLayout::common(tensors)?;
    if layout == ImageLayout::ChannelsLast && (rank > 4 || !statistics) {
        // MIOpen has no kernels for these. Per-channel normalization does not depend on which pixels belong
        // to one image, so treat each pixel as an image of its own.
        let channels = first.layout.dims().get(1).copied().unwrap_or(1);
        let pixels = first.layout.elements() / channels;
        return Shape::new(first_name, first.data_type, &[pixels, channels, 1, 1], &[channels, 1, 1, 1]);
    }
    image(first_name, first, layout)
}

impl Design for BatchnormDesign {
    fn make(&self, ready: &Ready<'_>, _: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        let objects = Objects {
            x: self.shape.descriptor(miopen)?,
            parameter: parameter(miopen, FLOAT, self.shape.dims.len(), self.channels)?,
            channels: self.channels,
        };
        Ok(match self.form {
            Form::Inference(form) => Box::new(InferenceStep {
                form,
                inverse: match form.epsilon {
                    Some(_) => None,
                    None => Some(Inverse::new(miopen, self.shape.dims.len(), self.channels)?),
                },
                objects,
            }),
            Form::Training(form) => Box::new(TrainingStep { form, objects }),
            Form::Backward(form) => Box::new(BackwardStep { form, objects }),
        })
    }
}

struct Objects {
    x: Object,
    parameter: Object,
    channels: c_int,
}

impl Objects {
    fn parameter_size(&self) -> usize {
        self.channels as usize * size_of::<f32>()
    }
}

/// A descriptor with one element per channel.
///
/// # Errors
/// MIOpen's.
pub(super) fn parameter(
    miopen: &Miopen,
    data_type: c_int,
    rank: usize,
    channels: c_int,
) -> Result<Object, MiopenError> {
    let dims: Vec<c_int> = (0..rank).map(|axis| if axis == 1 { channels } else { 1 }).collect();
    let strides: Vec<c_int> = (0..rank).map(|axis| if axis == 0 { channels } else { 1 }).collect();
    tensor(miopen, data_type, &dims, &strides)
}

/// Converts inverse deviations to variances, as x to the power of -2.
pub(super) struct Inverse {
    power: Object,
    parameter: Object,
    size: usize,
}

impl Inverse {
    /// For this many channels.
    pub(super) fn new(miopen: &Miopen, rank: usize, channels: c_int) -> Result<Self, MiopenError> {
        Ok(Self {
            power: activation(miopen, ACTIVATION_POWER, [0.0, 1.0, -2.0])?,
            parameter: parameter(miopen, FLOAT, rank, channels)?,
            size: channels as usize * size_of::<f32>(),
        })
    }

    /// Bytes of the variances.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// # Safety
    /// Both are valid for [`Inverse::size`] bytes.
    pub(super) unsafe fn run(
        &self,
        ready: &Ready<'_>,
        inverse: *const c_void,
        variance: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        // SAFETY: the step's objects are alive, and the memory is valid until the work is done, as this function requires.
        let status = unsafe {
            (miopen.miopenActivationForward)(
                ready.handle(),
                self.power.get(),
                factor(&ONE),
                self.parameter.get(),
                inverse,
                factor(&ZERO),
                self.parameter.get(),
                variance,
            )
        };
        Ok(miopen.check("miopenActivationForward", status)?)
    }
}

struct InferenceStep {
    form: Inference,
    inverse: Option<Inverse>,
    objects: Objects,
}

impl Step for InferenceStep {
    fn call(&self) -> &'static str {
        "miopenBatchNormalizationForwardInference"
    }

    fn workspace_size(&self) -> usize {
        self.inverse.as_ref().map_or(0, Inverse::size)
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let Inference { x, y, mean, spread, epsilon, scale, bias } = self.form;
        let Objects { x: descriptor, parameter, .. } = &self.objects;
        let mut variance = tensors.at(spread);
        if let Some(inverse) = &self.inverse {
            // SAFETY: the workspace has room for the variances, and the tensors are valid for their extent, as this function requires.
            unsafe { inverse.run(ready, variance, workspace) }?;
            variance = workspace;
        }
        // SAFETY: a bound scalar is in host memory of its type, as the operation's tensors are passed; the step's objects are alive, and
        // the tensors are valid for their extent, as this function requires, until the work is done. MIOpen only reads the factors.
        let status = unsafe {
            let epsilon = epsilon.map_or(0.0, |epsilon| epsilon.read(tensors));
            (miopen.miopenBatchNormalizationForwardInference)(
                ready.handle(),
                BATCHNORM_SPATIAL,
                factor(&ONE).cast_mut(),
                factor(&ZERO).cast_mut(),
                descriptor.get(),
                tensors.at(x),
                descriptor.get(),
                tensors.at(y),
                parameter.get(),
                tensors.at(scale),
                tensors.at(bias),
                tensors.at(mean),
                variance,
                epsilon,
            )
        };
        Ok(miopen.check("miopenBatchNormalizationForwardInference", status)?)
    }
}

impl Running {
    /// Copies the statistics to where MIOpen updates them. Returns the addresses of mean and variance, and
    /// the weight of the new value.
    ///
    /// # Safety
    /// The statistics are valid for `size` bytes each, and the weight is a host scalar.
    pub(super) unsafe fn begin(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        size: usize,
    ) -> Result<([*mut c_void; 2], f64), PluginError> {
        for (prev, next) in self.prev.iter().zip(self.next) {
            let (prev, next) = (tensors.at(*prev), tensors.at(next));
            if prev != next {
                let hip = ready.runtime.hip;
                // SAFETY: this function requires statistics of `size` bytes each, and the two are different tensors.
                let answer = unsafe {
                    (hip.hipMemcpyAsync)(next, prev, size, HIP_MEMCPY_DEVICE_TO_DEVICE, ready.entered.stream)
                };
                hip.check("hipMemcpyAsync", answer)?;
            }
        }
        // SAFETY: the weight is a host scalar, as this function requires.
        Ok((self.next.map(|slot| tensors.at(slot)), unsafe { self.momentum.read(tensors) }))
    }
}

struct TrainingStep {
    form: Training,
    objects: Objects,
}

impl Step for TrainingStep {
    fn call(&self) -> &'static str {
        "miopenBatchNormalizationForwardTraining"
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        _: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let Training { x, y, scale, bias, epsilon, mean, inv_variance, running } = &self.form;
        let Objects { x: descriptor, parameter, .. } = &self.objects;
        let (mut statistics, mut momentum) = ([std::ptr::null_mut(); 2], MOMENTUM);
        if let Some(running) = running {
            // SAFETY: the tensors are valid for their extent, as this function requires, the statistics for a parameter each.
            (statistics, momentum) = unsafe { running.begin(ready, tensors, self.objects.parameter_size()) }?;
        }
        let [running_mean, running_variance] = statistics;
        // SAFETY: a bound scalar is in host memory of its type, as the operation's tensors are passed; the step's objects are alive, and
        // the tensors are valid for their extent, as this function requires, until the work is done. MIOpen only reads the factors.
        let status = unsafe {
            (miopen.miopenBatchNormalizationForwardTraining)(
                ready.handle(),
                BATCHNORM_SPATIAL,
                factor(&ONE).cast_mut(),
                factor(&ZERO).cast_mut(),
                descriptor.get(),
                tensors.at(*x),
                descriptor.get(),
                tensors.at(*y),
                parameter.get(),
                tensors.at(*scale),
                tensors.at(*bias),
                momentum,
                running_mean,
                running_variance,
                epsilon.read(tensors),
                tensors.at_optional(*mean),
                tensors.at_optional(*inv_variance),
            )
        };
        Ok(miopen.check("miopenBatchNormalizationForwardTraining", status)?)
    }
}

struct BackwardStep {
    form: Backward,
    objects: Objects,
}

impl Step for BackwardStep {
    fn call(&self) -> &'static str {
        "miopenBatchNormalizationBackward"
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        _: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let Backward { dy, x, scale, dx, dscale, dbias, saved } = self.form;
        let Objects { x: descriptor, parameter, .. } = &self.objects;
        let saved = |place: usize| tensors.at_optional(saved.and_then(|saved| saved.get(place).copied()));
        // SAFETY: the step's objects are alive, and the memory is valid until the work is done, as this function requires.
        #[rustfmt::skip]
        let status = unsafe {
            (miopen.miopenBatchNormalizationBackward)(
                ready.handle(), BATCHNORM_SPATIAL, factor(&ONE), factor(&ZERO), factor(&ONE), factor(&ZERO),
                descriptor.get(), tensors.at(x), descriptor.get(), tensors.at(dy), descriptor.get(), tensors.at(dx),
                parameter.get(), tensors.at(scale), tensors.at(dscale), tensors.at(dbias),
                GRADIENT_EPSILON, saved(0), saved(1),
            )
        };
        Ok(miopen.check("miopenBatchNormalizationBackward", status)?)
    }
}
