//! Reductions.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::reduction::Reduction;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::ReductionMode;

use super::{Design, ONE, Step, Tensors, ZERO, factor, missing, require};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{
    FLOAT, Miopen, NO_INDICES, PROPAGATE_NAN, REDUCE_ADD, REDUCE_AMAX, REDUCE_AVG, REDUCE_INDEX_32,
    REDUCE_MUL, REDUCE_NORM1, REDUCE_NORM2,
};
use crate::object::{Object, make};
use crate::operand::{Shape, same_type, without_bfloat16};

/// A reduction described for MIOpen.
pub struct ReductionDesign {
    operation: c_int,
    compute_type: c_int,
    x: Shape,
    y: Shape,
    slots: [usize; 2],
}

impl ReductionDesign {
    /// A reduction.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(reduction: &Reduction) -> Result<Self, Refusal> {
        let Reduction { x, y, mode, .. } = reduction;
        if reduction.is_of_single() {
            return Err("out: dims are those of in, expected 1 where in has more".to_owned());
        }
        let operation = match mode {
            ReductionMode::Add => REDUCE_ADD,
            ReductionMode::Mul => REDUCE_MUL,
            ReductionMode::Amax => REDUCE_AMAX,
            ReductionMode::Avg => REDUCE_AVG,
            ReductionMode::Norm1 => REDUCE_NORM1,
            ReductionMode::Norm2 => REDUCE_NORM2,
            // MIOpen starts with the least finite number: the largest of rows masked with -inf would be that.
            ReductionMode::Max | ReductionMode::Min => {
                return Err(format!("mode: is {}, which MIOpen computes without infinities", mode.name()));
            }
            other => return Err(format!("mode: is {}, which MIOpen does not support", other.name())),
        };
        without_bfloat16("in", x.data_type)?;
        same_type("out", y.data_type, "in", x.data_type)?;
        let shape = |name: &str, operand: &hipdnn_plugin_planner::problem::Operand| {
            Shape::new(name, operand.data_type, operand.layout.dims(), operand.layout.strides())
        };
        let (from, to) = (shape("in", x)?, shape("out", y)?);
        // Comparisons need no more precision than the elements have, and MIOpen only compares in their type.
        let compute_type = if *mode == ReductionMode::Amax { from.data_type } else { FLOAT };
        Ok(Self { operation, compute_type, x: from, y: to, slots: [x.slot, y.slot] })
    }
}

impl Design for ReductionDesign {
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        require(&[
            ("miopenCreateReduceTensorDescriptor", miopen.miopenCreateReduceTensorDescriptor.is_some()),
            ("miopenDestroyReduceTensorDescriptor", miopen.miopenDestroyReduceTensorDescriptor.is_some()),
            ("miopenSetReduceTensorDescriptor", miopen.miopenSetReduceTensorDescriptor.is_some()),
            ("miopenGetReductionWorkspaceSize", miopen.miopenGetReductionWorkspaceSize.is_some()),
            ("miopenReduceTensor", miopen.miopenReduceTensor.is_some()),
        ])
    }

    fn make(&self, ready: &Ready<'_>, options: &Options, _: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        self.check(miopen)?;
        let create = miopen
            .miopenCreateReduceTensorDescriptor
            .ok_or_else(|| missing("miopenCreateReduceTensorDescriptor"))?;
        let destroy = miopen
            .miopenDestroyReduceTensorDescriptor
            .ok_or_else(|| missing("miopenDestroyReduceTensorDescriptor"))?;
        let set = miopen
            .miopenSetReduceTensorDescriptor
            .ok_or_else(|| missing("miopenSetReduceTensorDescriptor"))?;
        let size = miopen
            .miopenGetReductionWorkspaceSize
            .ok_or_else(|| missing("miopenGetReductionWorkspaceSize"))?;
        let (x, y) = (self.x.descriptor(miopen)?, self.y.descriptor(miopen)?);
        let mut workspace_size = 0;
        // SAFETY: the functions are a pair, the objects are alive and the function writes only to the local `workspace_size`.
        let descriptor = unsafe {
            let descriptor = make(miopen, "miopenCreateReduceTensorDescriptor", create, destroy)?;
            miopen.check(
                "miopenSetReduceTensorDescriptor",
                set(
                    descriptor.get(),
                    self.operation,
                    self.compute_type,
                    PROPAGATE_NAN,
                    NO_INDICES,
                    REDUCE_INDEX_32,
                ),
            )?;
            miopen.check(
                "miopenGetReductionWorkspaceSize",
                size(ready.handle(), descriptor.get(), x.get(), y.get(), &mut workspace_size),
            )?;
            descriptor
        };
        let limit = options.workspace_size_limit.unwrap_or(usize::MAX);
        if workspace_size > limit {
            return Err(PluginError::not_applicable(format!(
                "the reduction needs {workspace_size} bytes of workspace, more than the limit of {limit}"
            )));
        }
        Ok(Box::new(ReductionStep { descriptor, x, y, slots: self.slots, workspace_size }))
    }
}

struct ReductionStep {
    descriptor: Object,
    x: Object,
    y: Object,
    slots: [usize; 2],
    workspace_size: usize,
}

impl Step for ReductionStep {
    fn call(&self) -> &'static str {
        "miopenReduceTensor"
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
        let reduce = miopen.miopenReduceTensor.ok_or_else(|| missing("miopenReduceTensor"))?;
        let [x, y] = self.slots.map(|slot| tensors.at(slot));
        // SAFETY: the step's objects are alive; the tensors are valid until the work is done, and the workspace for its size, as this
        // function requires.
        let status = unsafe {
            reduce(
                ready.handle(),
                self.descriptor.get(),
                std::ptr::null_mut(),
                0,
                workspace,
                self.workspace_size,
                factor(&ONE),
                self.x.get(),
                x,
                factor(&ZERO),
                self.y.get(),
                y,
            )
        };
        Ok(miopen.check("miopenReduceTensor", status)?)
    }
}
