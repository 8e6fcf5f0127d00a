//! A graph that cuDNN has a plan for, and where each of its tensors is found.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hipdnn_plugin_planner::step::described;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::gpu::plan_memory::PlanMemory;
use hipdnn_plugin_sdk::gpu::workspace::{Workspace, same_device};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use hipdnn_plugin_sdk::{PluginError, Refusal, Step, bound, buffer, cuda};

use crate::compiled::Compiled;
use crate::cudnn::Cudnn;
use crate::descriptor::{Open, uid};
use crate::handle::Entered;
use crate::knob::Options;
use crate::lowering::{Lowered, Place, lower};
use crate::names::{
    ATTR_VARIANT_PACK_DATA_POINTERS, ATTR_VARIANT_PACK_UNIQUE_IDS, ATTR_VARIANT_PACK_WORKSPACE,
    BACKEND_VARIANT_PACK_DESCRIPTOR, TYPE_INT64, TYPE_VOID_PTR,
};

/// The form of saved plans.
const PAYLOAD: Payload = Payload { mark: *b"CUDN", version: 1, owner: "CUDNN_ENGINE" };

/// The most tensors that are not virtual, with numbers and those in the workspace.
const MAX_PLACED: usize = 128;

/// A graph with cuDNN's plan. It may run with any handle of the device that it was made on.
#[derive(Debug)]
pub struct Plan {
    graph: Graph,
    config: EngineConfig,
    compiled: Arc<Compiled>,
    /// cuDNN's uids of the tensors below.
    uids: Vec<i64>,
    slots: Vec<Slot>,
    device: c_int,
    memory: PlanMemory,
}

/// Where a tensor is found.
#[derive(Debug)]
enum Slot {
    /// The caller's device memory, a multiple of the number.
    Bound(i64, usize),
    /// The same, or this offset in the workspace where the caller binds nothing.
    Unmarked(i64, usize, usize),
    /// The caller's host memory.
    Host(i64),
    /// A number of the graph.
    Constant(Box<u64>),
    /// An offset in the workspace.
    Scratch(usize),
}

impl Plan {
    /// The plan of a graph; `json` is what cuDNN once wrote of it, if it did.
    ///
    /// # Errors
    /// What is not lowered, and what cuDNN has no engine for.
    pub fn new(
        entered: &mut Entered<'_>,
        graph: &Graph,
        config: EngineConfig,
        options: &Options,
        json: &[u8],
    ) -> Result<Self, PluginError> {
        let lowered = lower(graph).map_err(Refusal::new)?;
        let maker = entered.maker()?;
        // What another version wrote is made anew.
        let loaded = if json.is_empty() { None } else { Compiled::load(maker, json).ok() };
        let compiled = match loaded {
            Some(loaded) => Arc::new(loaded),
            None => Compiled::of(maker, &lowered.described, options)?,
        };
        let (uids, slots) = slots(&lowered)?;
        let workspace = Workspace::new(lowered.described.scratch, compiled.workspace_size)?;
        let memory = PlanMemory::new(Gpu::Cuda(entered.device), workspace);
        Ok(Self {
            graph: graph.clone(),
            config,
            compiled,
            uids,
            slots,
            device: entered.device.number,
            memory,
        })
    }

    /// Makes the memory that a plan has itself, for a plan that will be executed.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_memory(self) -> Result<Self, PluginError> {
        self.memory.make_first()?;
        Ok(self)
    }

    /// Bytes of device memory that callers of [`Plan::execute`] are asked for, at any address.
    pub fn workspace_size(&self) -> usize {
        self.memory.workspace_size()
    }

    /// The plan as bytes: the configuration, what cuDNN writes of its plan, and the graph.
    ///
    /// # Errors
    /// When a part is larger than the form allows.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        // Not every engine of cuDNN's can be written; then the plan is looked for again.
        let json = self.compiled.json(Cudnn::find()?).unwrap_or_default();
        PAYLOAD.write(&[
            &wire::write_engine_config(&self.config),
            &json,
            &wire::write(&self.graph, Layout::G2)?,
        ])
    }

    /// What an execution does: one call of cuDNN's for the whole graph.
    pub fn describe(&self) -> Option<Vec<Step>> {
        let nodes = (0..self.graph.nodes.len()).collect();
        described(&self.graph, std::iter::once((nodes, "cuDNN", "cudnnBackendExecute".to_owned())))
    }

    /// Whether bytes are a saved plan of this engine, perhaps a damaged one.
    pub fn is_of(bytes: &[u8]) -> bool {
        bytes.starts_with(&PAYLOAD.mark)
    }

    /// The graph, the configuration and cuDNN's part of a saved plan.
    ///
    /// # Errors
    /// When the bytes are no saved plan of this engine.
    pub fn read(bytes: &[u8]) -> Result<(Graph, EngineConfig, Vec<u8>), PluginError> {
        let [config, json, graph] = PAYLOAD.read(bytes)?;
        Ok((wire::read(graph)?, wire::read_engine_config(config)?, json.to_vec()))
    }

    /// Puts the work of the graph on the stream. Returns when cuDNN has taken it, not when it is done.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing or cuDNN fails.
    ///
    /// # Safety
    /// The buffers are device memory (host memory where a tensor is passed by value at execution), valid for their tensors until the
    /// work is done, and `workspace` is null or valid for [`Plan::workspace_size`] bytes as long.
    pub unsafe fn execute(
        &self,
        entered: &mut Entered<'_>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        same_device(self.device, entered.device.number)?;
        let (device, stream) = (entered.device, entered.stream);
        let maker = entered.on_stream()?;
        self.memory.run(workspace, stream, |[scratch, step]| {
            let mut pointers = [std::ptr::null_mut(); MAX_PLACED];
            for (pointer, slot) in pointers.iter_mut().zip(&self.slots) {
                *pointer = slot.find(device, buffers, scratch)?;
            }
            let pointers = pointers.get(..self.slots.len()).unwrap_or_default();
            let pack = Open::new(maker.cudnn, BACKEND_VARIANT_PACK_DESCRIPTOR)?;
            // SAFETY: the types are those of the attributes.
            unsafe {
                pack.set(ATTR_VARIANT_PACK_UNIQUE_IDS, TYPE_INT64, &self.uids)?;
                pack.set(ATTR_VARIANT_PACK_DATA_POINTERS, TYPE_VOID_PTR, pointers)?;
                pack.set(ATTR_VARIANT_PACK_WORKSPACE, TYPE_VOID_PTR, &[step])?;
            }
            let pack = pack.finalize()?;
            // SAFETY: the objects are alive; the caller vouches for the tensors and for a workspace that has room for what the plan
            // needs behind our part.
            let status =
                unsafe { (maker.cudnn.cudnnBackendExecute)(maker.handle, self.compiled.plan(), pack.get()) };
            maker.cudnn.check("cudnnBackendExecute", status)
        })
    }
}

/// cuDNN's uids of the tensors that are not virtual, and where each is found.
fn slots(lowered: &Lowered) -> Result<(Vec<i64>, Vec<Slot>), PluginError> {
    let (mut uids, mut slots) = (Vec::new(), Vec::new());
    for (place, tensor) in lowered.described.tensors.iter().enumerate() {
        let own = |index: usize| {
            let own = lowered.uids.get(index).copied();
            own.ok_or_else(|| PluginError::internal("a tensor that is bound without its uid"))
        };
        let alignment = usize::try_from(tensor.alignment).unwrap_or(1);
        slots.push(match tensor.place {
            Place::Virtual => continue,
            Place::Bound(index) => Slot::Bound(own(index)?, alignment),
            Place::Unmarked(index, offset) => Slot::Unmarked(own(index)?, alignment, offset),
            Place::Host(index) => Slot::Host(own(index)?),
            Place::Constant(bytes) => Slot::Constant(Box::new(u64::from_ne_bytes(bytes))),
            Place::Scratch(offset) => Slot::Scratch(offset),
        });
        uids.push(uid(place));
    }
    if slots.len() > MAX_PLACED {
        return Err(PluginError::not_applicable(format!(
            "cuDNN would get {} tensors and numbers, expected at most {MAX_PLACED}",
            slots.len()
        )));
    }
    Ok((uids, slots))
}

impl Slot {
    fn find(
        &self,
        device: cuda::Device,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        scratch: *mut c_void,
    ) -> Result<*mut c_void, PluginError> {
        match self {
            Self::Bound(uid, alignment) => device_memory(device, *uid, buffer(buffers, *uid)?, *alignment),
            Self::Unmarked(uid, alignment, offset) => match bound(buffers, *uid) {
                Some(pointer) => device_memory(device, *uid, pointer, *alignment),
                None => Ok(scratch.wrapping_byte_add(*offset)),
            },
            Self::Host(uid) => buffer(buffers, *uid),
            Self::Constant(number) => Ok(std::ptr::from_ref(&**number).cast_mut().cast()),
            Self::Scratch(offset) => Ok(scratch.wrapping_byte_add(*offset)),
        }
    }
}

/// The address of a tensor's memory, if a kernel may take it.
pub fn device_memory(
    device: cuda::Device,
    uid: i64,
    pointer: *mut c_void,
    alignment: usize,
) -> Result<*mut c_void, PluginError> {
    if !device.cuda.is_device_memory(pointer) {
        return Err(PluginError::bad_param(format!(
            "the buffer of tensor {uid} is at {pointer:?}, which CUDA device {} cannot reach, expected its memory",
            device.number
        )));
    }
    if !pointer.addr().is_multiple_of(alignment) {
        return Err(PluginError::bad_param(format!(
            "the buffer of tensor {uid} is at {pointer:?}, expected a multiple of {alignment}"
        )));
    }
    Ok(pointer)
}
