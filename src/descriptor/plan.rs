//! EXECUTION_PLAN: a graph compiled by an engine, ready to run.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use hipdnn_plugin_sdk::ffi::{
    HipdnnEnginePluginExecutionContext, hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t as ConstData,
};

use super::attribute::{Incoming, Outgoing, unknown};
use super::engine_config::{FrozenConfig, workspace_size};
use super::{Descriptor, Draft, Pack, take_checked};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::log;
use crate::plugin::{Plugin, Session, check};
use crate::status::{Error, Result};

const KIND: &str = "execution plan";

const HANDLE: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_HANDLE as c_int;
const ENGINE_CONFIG: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG as c_int;
const WORKSPACE_SIZE: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE as c_int;

/// A plan that is being set up.
#[derive(Default)]
pub struct PlanDraft {
    config: Option<Arc<FrozenConfig>>,
}

/// A finalized plan.
pub struct FrozenPlan {
    context: Context,
    workspace_size: i64,
    /// All alignments of the graph's tensors in one: a set bit is one that no address may have.
    alignment_mask: usize,
}

/// A plugin's execution context, given back to the plugin when it is dropped.
struct Context {
    context: NonNull<HipdnnEnginePluginExecutionContext>,
    config: Arc<FrozenConfig>,
}

// SAFETY: the interface lets a host use a context from any thread; the plugin has to cope.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Has the plugin compile the graph of a configuration, and asks how much workspace the result needs.
fn compile(config: &FrozenConfig) -> Result<(NonNull<HipdnnEnginePluginExecutionContext>, i64)> {
    let (plugin, handle) = owner(config)?;
    let graph = config.engine.graph.bytes(plugin.layout)?;
    let graph = ConstData { ptr: graph.as_ptr().cast(), size: graph.len() };
    let bytes = config.bytes()?;
    let data = ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() };
    let mut context = ptr::null_mut();
    // SAFETY: the handle is the plugin's own and the bytes outlive the call, which writes one pointer.
    let status = unsafe {
        plugin.api.create_execution_context(handle, &raw const data, &raw const graph, &raw mut context)
    };
    check(&plugin.api, "create execution context", status)?;
    let context = NonNull::new(context)
        .ok_or_else(|| Error::internal(format!("plugin {} gave a null execution context", plugin.name)))?;
    let mut size = 0;
    // SAFETY: handle and context are the plugin's own; the call writes one number.
    let status =
        unsafe { plugin.api.get_workspace_size_from_context(handle, context.as_ptr(), &raw mut size) };
    let size = check(&plugin.api, "get workspace size from execution context", status)
        .and_then(|()| workspace_size(size));
    if size.is_err() {
        destroy(config, context);
    }
    Ok((context, size?))
}

/// Gives a context back to the plugin. It is not used any more.
fn destroy(config: &FrozenConfig, context: NonNull<HipdnnEnginePluginExecutionContext>) {
    let Ok((plugin, handle)) = owner(config) else { return };
    // SAFETY: handle and context are the plugin's own, and this is the context's last use.
    let status = unsafe { plugin.api.destroy_execution_context(handle, context.as_ptr()) };
    if status != 0 {
        log::error(|| plugin.api.failure("destroy execution context", status));
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        destroy(&self.config, self.context);
    }
}

/// The plugin of a configuration's engine, and its handle.
fn owner(config: &FrozenConfig) -> Result<(&Plugin, hipdnnEnginePluginHandle_t)> {
    let engine = &config.engine;
    Ok((engine.session.plugin(engine.engine.plugin)?, engine.session.plugin_handle(engine.engine.plugin)?))
}

impl Draft for PlanDraft {
    type Frozen = FrozenPlan;

    const ASKS_PLUGINS: bool = true;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            // The handle of the graph counts; this one is only checked, as it always was.
            HANDLE => {
                if incoming.one::<usize>(Type::HIPDNN_TYPE_HANDLE)? == 0 {
                    return Err(Error::null_pointer("HIPDNN_ATTR_EXECUTION_PLAN_HANDLE is null"));
                }
            }
            ENGINE_CONFIG => self.config = Some(incoming.descriptor(Descriptor::engine_config)?),
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    // Inline, so that the frozen form is made where it stays.
    #[inline(always)]
    fn finalize(&mut self) -> Result<Self::Frozen> {
        let missing =
            || Error::bad_param("HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG of the execution plan is not set");
        let (config, (context, workspace_size)) =
            take_checked(&mut self.config, missing, |config| compile(config))?;
        let tensors = &config.engine.graph.summary().tensors;
        let alignment_mask = tensors.iter().fold(0, |mask, tensor| mask | alignment_bits(tensor.alignment));
        let context = Context { context, config };
        Ok(FrozenPlan { context, workspace_size, alignment_mask })
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            ENGINE_CONFIG => outgoing
                .exactly_one_descriptor(|| Descriptor::of_engine_config(Arc::clone(&frozen.context.config))),
            WORKSPACE_SIZE => outgoing.exactly_one(Type::HIPDNN_TYPE_INT64, frozen.workspace_size),
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

/// The low bits of an address that an alignment forbids; none for what is no power of two, which nobody can promise.
fn alignment_bits(alignment: i64) -> usize {
    match usize::try_from(alignment) {
        Ok(alignment) if alignment.is_power_of_two() => alignment - 1,
        _ => 0,
    }
}

impl FrozenPlan {
    /// Hands the plan and the memory of its tensors to the plugin, with the plugin handle of `session`.
    ///
    /// Returns when the plugin does, which need not be when the work is done. Takes no lock and allocates nothing.
    #[inline]
    pub fn execute(&self, session: &Session, pack: &Pack) -> Result<()> {
        let engine = &self.context.config.engine;
        if !Arc::ptr_eq(session.set(), engine.session.set()) {
            return Err(Error::bad_param(
                "the handle has other plugins loaded than those that made the execution plan",
            ));
        }
        let place = engine.engine.plugin;
        let plugin = session.plugin(place)?;
        let handle = session.plugin_handle(place)?;
        if pack.addresses() & self.alignment_mask != 0 {
            self.check_alignment(pack)?;
        }
        let buffers = pack.buffers();
        // SAFETY: handle and context are the plugin's own; the caller vouches for the memory behind the pointers.
        let status = unsafe {
            plugin.api.execute(
                handle,
                self.context.context.as_ptr(),
                pack.workspace(),
                buffers.as_ptr(),
                buffers.len() as u32,
            )
        };
        check(&plugin.api, "execute op graph", status)
    }

    /// Finds the tensor whose memory is not aligned as its descriptor promised, if there is one.
    #[cold]
    fn check_alignment(&self, pack: &Pack) -> Result<()> {
        let tensors = &self.context.config.engine.graph.summary().tensors;
        for buffer in pack.buffers() {
            let tensor = tensors.iter().find(|tensor| tensor.uid == buffer.uid);
            let bits = tensor.map_or(0, |tensor| alignment_bits(tensor.alignment));
            if buffer.ptr.addr() & bits != 0 {
                return Err(Error::bad_param(format!(
                    "the data pointer {:p} of tensor {} in the variant pack is not aligned to {} bytes",
                    buffer.ptr,
                    buffer.uid,
                    bits + 1
                )));
            }
        }
        Ok(())
    }
}

impl Descriptor {
    /// Fails unless this is an execution plan.
    #[inline]
    pub fn check_plan(&self) -> Result<()> {
        match self {
            Self::Plan(_) => Ok(()),
            other => Err(other.wrong_kind(KIND)),
        }
    }

    /// The plan in a finalized execution plan, for execution.
    #[inline]
    pub fn plan(&self) -> Result<&FrozenPlan> {
        match self {
            Self::Plan(lifecycle) => {
                lifecycle.frozen().ok_or_else(|| Error::bad_param("the execution plan is not finalized"))
            }
            other => Err(other.wrong_kind(KIND)),
        }
    }
}
