//! Layer normalization and RMS normalization.

pub mod gradient;

use std::ffi::c_void;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::Layout;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::normalization::{Forward, Spread};
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::{Graph, Operation};

use super::{Design, HostScalar, Step, Tensors, missing, require};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{Miopen, WEIGHT_BIAS, WEIGHT_T5};
use crate::object::Object;
use crate::operand::{Shape, same_type};
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;

/// A normalization described for MIOpen: of dense rows, whatever the dimensions were.
pub struct NormalizationDesign {
    /// [rows, elements of a row].
    x: Shape,
    places: Shape,
    rows: Shape,
    /// Bytes of one statistic.
    rows_size: usize,
    slots: Slots,
}

#[derive(Clone, Copy)]
struct Slots {
    x: usize,
    scale: usize,
    /// None if the mean is not subtracted.
    bias: Option<usize>,
    centered: bool,
    epsilon: HostScalar,
    y: usize,
    mean: Option<usize>,
    inverse: Option<usize>,
}

impl NormalizationDesign {
    /// The normalization of a node.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(graph: &Graph, operation: &Operation, forward: &Forward) -> Result<Self, Refusal> {
        let Forward { x, y, leading, centered, .. } = forward;
        without_gaps("x", x)?;
        without_gaps("y", y)?;
        same_type("y", y.data_type, "x", x.data_type)?;
        let dims = x.layout.dims();
        let (outer, inner) = dims.split_at_checked(*leading).unwrap_or((dims, &[]));
        let [rows, places] = [outer, inner].map(|dims| dims.iter().product::<usize>());
        let part =
            |name: &str, spread: &Spread, outer: usize, dims: &[usize]| part(name, spread, x, outer, dims);
        let scale = part("scale", &forward.scale, *leading, inner)?;
        let bias = match &forward.bias {
            Some(_) if !centered => {
                return Err("bias: given, which MIOpen does not support for this normalization".to_owned());
            }
            Some(bias) => Some(part("bias", bias, *leading, inner)?),
            None => None,
        };
        let statistic = |name, spread: &Option<Spread>| {
            spread.as_ref().map(|spread| part(name, spread, 0, outer)).transpose()
        };
        let slots = Slots {
            x: x.slot,
            scale,
            bias,
            centered: *centered,
            epsilon: HostScalar::of(graph, operation, "epsilon", forward.epsilon)?,
            y: y.slot,
            mean: statistic("mean", &forward.mean)?,
            inverse: statistic(if *centered { "inv_variance" } else { "inv_rms" }, &forward.inverse)?,
        };
        let shape = |dims: &[usize], strides: &[usize]| Shape::new("x", x.data_type, dims, strides);
        Ok(Self {
            x: shape(&[rows, places], &[places, 1])?,
            places: shape(&[places], &[1])?,
            rows: shape(&[rows], &[1])?,
            rows_size: (rows * x.data_type.size().unwrap_or(1)).next_multiple_of(ALIGNMENT),
            slots,
        })
    }
}

/// The slot of a tensor of x's type that has these dims, the first of which is dimension `outer` of x.
fn part(name: &str, spread: &Spread, x: &Operand, outer: usize, dims: &[usize]) -> Result<usize, Refusal> {
    same_type(name, spread.data_type, "x", x.data_type)?;
    let mut expected = 1;
    for (axis, dim) in dims.iter().enumerate().rev() {
        let stride = spread.strides.get(outer + axis).copied().unwrap_or_default();
        if *dim > 1 && stride != expected {
            return Err(format!(
                "{name}: stride is {stride}, expected {expected}: no gaps, and dimensions in order"
            ));
        }
        expected *= dim;
    }
    Ok(spread.slot)
}

/// Refuses tensors that are not dense in the order of their dimensions.
fn without_gaps(name: &str, operand: &Operand) -> Result<(), Refusal> {
    let layout: &Layout = &operand.layout;
    let mut expected = 1;
    for (dim, stride) in layout.dims().iter().zip(layout.strides()).rev() {
        if *dim > 1 && *stride != expected {
            return Err(format!(
                "{name}: dims {:?} and strides {:?}, expected no gaps and dimensions in order",
                layout.dims(),
                layout.strides()
            ));
        }
        expected *= dim;
    }
    Ok(())
}

impl Design for NormalizationDesign {
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        let Slots { centered, .. } = self.slots;
        require(&[
            ("miopenLayerNormForward", !centered || miopen.miopenLayerNormForward.is_some()),
            ("miopenT5LayerNormForward", centered || miopen.miopenT5LayerNormForward.is_some()),
        ])
    }

    fn make(&self, ready: &Ready<'_>, _: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        self.check(miopen)?;
        Ok(Box::new(NormalizationStep {
            x: self.x.descriptor(miopen)?,
            places: self.places.descriptor(miopen)?,
            rows: self.rows.descriptor(miopen)?,
            rows_size: self.rows_size,
            slots: self.slots,
        }))
    }
}

struct NormalizationStep {
    x: Object,
    places: Object,
    rows: Object,
    rows_size: usize,
    slots: Slots,
}

impl Step for NormalizationStep {
    fn call(&self) -> &'static str {
        if self.slots.centered { "miopenLayerNormForward" } else { "miopenT5LayerNormForward" }
    }

    fn workspace_size(&self) -> usize {
        let kept = usize::from(self.slots.mean.is_some()) + usize::from(self.slots.inverse.is_some());
        let made = if self.slots.centered { 2 } else { 1 };
        self.rows_size * (made - kept.min(made))
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let Slots { x, scale, bias, centered, epsilon, y, mean, inverse } = self.slots;
        // MIOpen always writes the statistics.
        let inverse_at = inverse.map_or(workspace, |slot| tensors.at(slot));
        let rest = if inverse.is_some() { 0 } else { self.rows_size };
        let mean_at = mean.map_or_else(|| workspace.wrapping_byte_add(rest), |slot| tensors.at(slot));
        // SAFETY: a bound scalar is in host memory of its type, as the operation's tensors are passed.
        let epsilon = unsafe { epsilon.read(tensors) } as f32;
        if !centered {
            let forward =
                miopen.miopenT5LayerNormForward.ok_or_else(|| missing("miopenT5LayerNormForward"))?;
            // SAFETY: the step's objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
            // function requires.
            let status = unsafe {
                forward(
                    ready.handle(),
                    WEIGHT_T5,
                    self.x.get(),
                    tensors.at(x),
                    self.places.get(),
                    tensors.at(scale),
                    epsilon,
                    self.x.get(),
                    tensors.at(y),
                    self.rows.get(),
                    inverse_at,
                )
            };
            return Ok(miopen.check("miopenT5LayerNormForward", status)?);
        }
        let forward = miopen.miopenLayerNormForward.ok_or_else(|| missing("miopenLayerNormForward"))?;
        // SAFETY: the step's objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
        // function requires.
        let status = unsafe {
            forward(
                ready.handle(),
                WEIGHT_BIAS,
                self.x.get(),
                tensors.at(x),
                self.places.get(),
                tensors.at(scale),
                self.places.get(),
                tensors.at_optional(bias),
                epsilon,
                1,
                self.x.get(),
                tensors.at(y),
                self.rows.get(),
                mean_at,
                self.rows.get(),
                inverse_at,
            )
        };
        Ok(miopen.check("miopenLayerNormForward", status)?)
    }
}
