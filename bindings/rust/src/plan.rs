//! Execution plans, and memory bound to their tensors.

use std::ffi::c_void;

use crate::constants::{
    HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT,
    HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
    HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
    HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
    HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
    HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, HIPDNN_TYPE_VOID_PTR,
};
use crate::error::{Error, Result};
use crate::serialized::two_calls;
use crate::{Backend, Descriptor, Engine, EngineConfig, Handle, OperationGraph};

/// A plan, ready to be executed, even by several threads at once.
pub struct ExecutionPlan {
    descriptor: Descriptor,
}

// SAFETY: a plan is finalized when it is made, and immutable afterwards.
unsafe impl Sync for ExecutionPlan {}

/// Memory bound to tensors.
pub struct VariantPack {
    descriptor: Descriptor,
}

// SAFETY: a variant pack is finalized when it is made; executing a plan with it requires valid memory.
unsafe impl Sync for VariantPack {}

impl ExecutionPlan {
    /// The plan of an engine for its graph.
    pub fn new(config: &EngineConfig) -> Result<Self> {
        let backend = config.descriptor().backend();
        let descriptor = Descriptor::new(backend, HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        descriptor.set_descriptors(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[config.descriptor()])?;
        descriptor.finalize("making the plan")?;
        Ok(Self { descriptor })
    }

    /// Makes the plan of the first engine that can make one with default knobs, given best first as in an [`Offer`](crate::Offer).
    /// An engine that supports the graph may still fail, for example for lack of device memory; the errors of engines that did are
    /// returned with the plan.
    ///
    /// # Errors
    /// The first engine's error if every engine fails; an argument error if no engine is given.
    pub fn of_first(graph: &OperationGraph, engines: &[i64]) -> Result<(Self, Vec<(i64, Error)>)> {
        let mut failed = Vec::new();
        for id in engines {
            let plan = Engine::new(graph, *id)
                .and_then(|engine| EngineConfig::new(&engine, &[]))
                .and_then(|config| Self::new(&config));
            match plan {
                Ok(plan) => return Ok((plan, failed)),
                Err(error) => failed.push((*id, error)),
            }
        }
        let first = failed.into_iter().next().map(|(_, error)| error);
        Err(first.unwrap_or_else(|| Error::Argument("there is no engine to make a plan of".to_owned())))
    }

    /// Loads a saved plan, alone or in a container.
    pub fn from_bytes(handle: &Handle, bytes: &[u8]) -> Result<Self> {
        let backend = handle.backend();
        let read = backend.functions.hipdnnBackendCreateAndDeserializeExecutionPlan_ext()?;
        let descriptor = Descriptor::made_by(backend, "reading the saved plan", |to| {
            // SAFETY: the handle is alive, the output valid, and the bytes have the given length.
            unsafe { read(handle.raw(), to, bytes.as_ptr(), bytes.len()) }
        })?;
        Ok(Self { descriptor })
    }

    /// The bytes of the plan alone.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let backend = self.descriptor.backend();
        let write = backend.functions.hipdnnBackendGetSerializedExecutionPlan_ext()?;
        two_calls(backend, "saving the plan", |room, size, to| {
            // SAFETY: the plan is alive, the size valid, and the buffer has the given size.
            unsafe { write(self.descriptor.raw(), room, size, to) }
        })
    }

    /// The bytes of a container with the plan and its graph.
    pub fn bytes_with(&self, graph: &OperationGraph) -> Result<Vec<u8>> {
        let backend = self.descriptor.backend();
        let write = backend.functions.hipdnnBackendGetSerializedBinaryGraphAndPlan_ext()?;
        two_calls(backend, "saving the graph and its plan", |room, size, to| {
            // SAFETY: graph and plan are alive, the size valid, and the buffer has the given size.
            unsafe { write(graph.descriptor().raw(), self.descriptor.raw(), room, size, to) }
        })
    }

    /// The workspace size in bytes of an execution.
    pub fn workspace_size(&self) -> Result<usize> {
        let size = self.descriptor.i64(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        usize::try_from(size)
            .map_err(|_| Error::answer(format!("the plan asks for a workspace of {size} bytes")))
    }

    /// The uids of its tensors.
    pub fn tensor_uids(&self) -> Result<Vec<i64>> {
        self.descriptor.i64s(HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT)
    }

    /// The id of its engine.
    pub fn engine_id(&self) -> Result<i64> {
        self.descriptor.i64(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT)
    }

    /// Describes the plan as JSON: an object with the engine, its plugin, the knobs that were set and, if the plugin tells, `steps`, a list
    /// of what computes which nodes.
    ///
    /// # Errors
    /// NOT_SUPPORTED if the library does not describe plans.
    pub fn description(&self) -> Result<String> {
        self.descriptor.text(HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)
    }

    /// Whether executions may override shapes.
    pub fn takes_other_shapes(&self) -> Result<bool> {
        self.descriptor.bool(HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT)
    }

    /// Executes the plan and returns when the engine does.
    ///
    /// # Safety
    /// The pack's memory is as large as the tensors and the workspace, and the engine can access it.
    pub unsafe fn execute(&self, handle: &Handle, pack: &VariantPack) -> Result<()> {
        let backend = self.descriptor.backend();
        let execute = backend.functions.hipdnnBackendExecute()?;
        // SAFETY: all three are alive; the caller guarantees the memory.
        let status = unsafe { execute(handle.raw(), self.descriptor.raw(), pack.descriptor.raw()) };
        backend.check("executing the plan", status)
    }
}

impl VariantPack {
    /// Binds memory to tensors, by their uids.
    pub fn new(backend: &Backend, memory: &[(i64, *mut c_void)], workspace: *mut c_void) -> Result<Self> {
        let descriptor = Descriptor::new(backend, HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        let (uids, pointers): (Vec<i64>, Vec<*mut c_void>) = memory.iter().copied().unzip();
        // SAFETY: VOID_PTR elements are addresses.
        unsafe {
            descriptor.set_array(HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, &pointers)?;
            descriptor.set_array(HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, &[workspace])?;
        }
        descriptor.set_i64s(HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &uids)?;
        descriptor.finalize("binding memory")?;
        Ok(Self { descriptor })
    }
}
