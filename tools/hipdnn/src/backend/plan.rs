//! Execution plans, and memory bound to their tensors.

use std::ffi::c_void;

use super::constants::{
    HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT,
    HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT, HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT,
    HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
    HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE,
    HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, HIPDNN_TYPE_VOID_PTR,
};
use super::serialized::two_calls;
use super::{Backend, Descriptor, EngineConfig, Handle, OperationGraph};
use crate::failure::{Failure, Result};

/// A plan, ready to be executed.
pub struct ExecutionPlan<'b> {
    descriptor: Descriptor<'b>,
}

/// Memory bound to tensors.
pub struct Binding<'b> {
    pack: Descriptor<'b>,
}

impl<'b> ExecutionPlan<'b> {
    /// The plan of an engine for its graph.
    pub fn new(config: &EngineConfig<'b>) -> Result<Self> {
        let backend = config.descriptor().backend();
        let descriptor = Descriptor::new(backend, HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        descriptor.set_descriptors(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[config.descriptor()])?;
        descriptor.finalize("making the plan")?;
        Ok(Self { descriptor })
    }

    /// A plan that was saved, alone or in a container.
    pub fn from_bytes(handle: &Handle<'b>, bytes: &[u8]) -> Result<Self> {
        let backend = handle.backend();
        let read = backend.functions.hipdnnBackendCreateAndDeserializeExecutionPlan_ext()?;
        let descriptor = Descriptor::made_by(backend, "reading the saved plan", |to| {
            // SAFETY: the handle is alive, the output valid, and the bytes have the length that is given.
            unsafe { read(handle.raw(), to, bytes.as_ptr(), bytes.len()) }
        })?;
        Ok(Self { descriptor })
    }

    /// The bytes of the plan alone.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let backend = self.descriptor.backend();
        let write = backend.functions.hipdnnBackendGetSerializedExecutionPlan_ext()?;
        two_calls(backend, "saving the plan", |room, size, to| {
            // SAFETY: the plan is alive, the size valid, and the buffer has the room that is given.
            unsafe { write(self.descriptor.raw(), room, size, to) }
        })
    }

    /// The bytes of a container with the plan and its graph.
    pub fn bytes_with(&self, graph: &OperationGraph<'b>) -> Result<Vec<u8>> {
        let backend = self.descriptor.backend();
        let write = backend.functions.hipdnnBackendGetSerializedBinaryGraphAndPlan_ext()?;
        two_calls(backend, "saving the graph and its plan", |room, size, to| {
            // SAFETY: graph and plan are alive, the size valid, and the buffer has the room that is given.
            unsafe { write(graph.descriptor().raw(), self.descriptor.raw(), room, size, to) }
        })
    }

    /// How many bytes an execution needs besides the tensors.
    pub fn workspace_size(&self) -> Result<usize> {
        let size = self.descriptor.i64(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        usize::try_from(size)
            .map_err(|_| Failure::work(format!("the plan asks for a workspace of {size} bytes")))
    }

    /// The uids of its tensors.
    pub fn tensor_uids(&self) -> Result<Vec<i64>> {
        self.descriptor.i64s(HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT)
    }

    /// The id of its engine.
    pub fn engine_id(&self) -> Result<i64> {
        self.descriptor.i64(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT)
    }

    /// Whether an execution may have other shapes.
    pub fn takes_other_shapes(&self) -> Result<bool> {
        self.descriptor.bool(HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT)
    }

    /// Executes the plan and returns when the engine does.
    ///
    /// # Safety
    /// The binding's memory is as large as the tensors and the workspace, and where the engine can reach it.
    pub unsafe fn execute(&self, handle: &Handle<'b>, binding: &Binding<'b>) -> Result<()> {
        let backend = self.descriptor.backend();
        let execute = backend.functions.hipdnnBackendExecute()?;
        // SAFETY: all three are alive; the caller vouches for the memory.
        let status = unsafe { execute(handle.raw(), self.descriptor.raw(), binding.pack.raw()) };
        backend.check("executing the plan", status)
    }
}

impl<'b> Binding<'b> {
    /// Binds memory to tensors, by their uids.
    pub fn new(backend: &'b Backend, memory: &[(i64, *mut c_void)], workspace: *mut c_void) -> Result<Self> {
        let pack = Descriptor::new(backend, HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        let (uids, pointers): (Vec<i64>, Vec<*mut c_void>) = memory.iter().copied().unzip();
        // SAFETY: VOID_PTR elements are addresses.
        unsafe {
            pack.set_array(HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, &pointers)?;
            pack.set_array(HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, &[workspace])?;
        }
        pack.set_i64s(HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &uids)?;
        pack.finalize("binding memory")?;
        Ok(Self { pack })
    }
}
