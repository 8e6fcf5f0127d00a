//! The gradient of RMS normalization. MIOpen has none of layer normalization.

use std::ffi::c_void;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::normalization::{Backward, Statistics};
use hipdnn_plugin_sdk::PluginError;

use super::{Design, Step, Tensors, missing, part, require, without_gaps};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{Miopen, WEIGHT_T5};
use crate::object::Object;
use crate::operand::{Shape, same_type};

/// A gradient described for MIOpen: of dense rows, whatever the dimensions were.
pub struct GradientDesign {
    /// [rows, elements of a row].
    x: Shape,
    places: Shape,
    rows: Shape,
    slots: Slots,
}

#[derive(Clone, Copy)]
struct Slots {
    dy: usize,
    x: usize,
    scale: usize,
    inverse: usize,
    dx: usize,
    dscale: usize,
}

impl GradientDesign {
    /// A gradient.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(backward: &Backward) -> Result<Self, Refusal> {
        let Backward { dy, x, dx, leading, centered, scale, dscale, dbias, statistics } = backward;
        if *centered {
            return Err("operation: is the gradient of a layernorm, which MIOpen does not support".to_owned());
        }
        if dbias.is_some() {
            return Err("dbias: given, which MIOpen does not support for this normalization".to_owned());
        }
        let Statistics::Saved { inverse, .. } = statistics else {
            return Err("inv_rms: absent, expected the statistics that the forward pass saved".to_owned());
        };
        for (name, operand) in [("dy", dy), ("x", x), ("dx", dx)] {
            without_gaps(name, operand)?;
            same_type(name, operand.data_type, "x", x.data_type)?;
        }
        let dims = x.layout.dims();
        let (outer, inner) = dims.split_at_checked(*leading).unwrap_or((dims, &[]));
        let [rows, places] = [outer, inner].map(|dims| dims.iter().product::<usize>());
        let slots = Slots {
            dy: dy.slot,
            x: x.slot,
            scale: part("scale", scale, x, *leading, inner)?,
            inverse: part("inv_rms", inverse, x, 0, outer)?,
            dx: dx.slot,
            dscale: part("dscale", dscale, x, *leading, inner)?,
        };
        let shape = |dims: &[usize], strides: &[usize]| Shape::new("x", x.data_type, dims, strides);
        Ok(Self {
            x: shape(&[rows, places], &[places, 1])?,
            places: shape(&[places], &[1])?,
            rows: shape(&[rows], &[1])?,
            slots,
        })
    }
}

const SIZE: &str = "miopenGetT5LayerNormBackwardWorkspaceSize";

impl Design for GradientDesign {
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        require(&[
            ("miopenT5LayerNormBackward", miopen.miopenT5LayerNormBackward.is_some()),
            (SIZE, miopen.miopenGetT5LayerNormBackwardWorkspaceSize.is_some()),
        ])
    }

    fn make(&self, ready: &Ready<'_>, _: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        self.check(miopen)?;
        let size = miopen.miopenGetT5LayerNormBackwardWorkspaceSize.ok_or_else(|| missing(SIZE))?;
        let [x, places, rows] =
            [self.x.descriptor(miopen)?, self.places.descriptor(miopen)?, self.rows.descriptor(miopen)?];
        let mut workspace_size = 0;
        // SAFETY: the three objects own the descriptors, and the function writes only to the local `workspace_size`.
        let status = unsafe {
            size(
                ready.handle(),
                WEIGHT_T5,
                x.get(),
                x.get(),
                places.get(),
                rows.get(),
                x.get(),
                places.get(),
                &mut workspace_size,
            )
        };
        miopen.check(SIZE, status)?;
        Ok(Box::new(GradientStep { x, places, rows, workspace_size, slots: self.slots }))
    }
}

struct GradientStep {
    x: Object,
    places: Object,
    rows: Object,
    workspace_size: usize,
    slots: Slots,
}

impl Step for GradientStep {
    fn call(&self) -> &'static str {
        "miopenT5LayerNormBackward"
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
        let miopen = ready.runtime.miopen;
        let Slots { dy, x, scale, inverse, dx, dscale } = self.slots;
        let backward =
            miopen.miopenT5LayerNormBackward.ok_or_else(|| missing("miopenT5LayerNormBackward"))?;
        // SAFETY: the step's objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
        // function requires.
        let status = unsafe {
            backward(
                ready.handle(),
                WEIGHT_T5,
                workspace,
                self.workspace_size,
                self.x.get(),
                tensors.at(dy),
                self.x.get(),
                tensors.at(x),
                self.places.get(),
                tensors.at(scale),
                self.rows.get(),
                tensors.at(inverse),
                self.x.get(),
                tensors.at(dx),
                self.places.get(),
                tensors.at(dscale),
            )
        };
        Ok(miopen.check("miopenT5LayerNormBackward", status)?)
    }
}
