//! The optional functions of an engine plugin.

use std::ffi::{c_char, c_void};

use super::engine::{Handle, Plan, buffers, bytes, chosen, engine};
use super::owned::Bytes;
use super::{Result, guard, not_null, null, write};
use crate::engine_plugin::EnginePlugin;
use crate::error::PluginError;
use crate::ffi::{
    hipdnnEnginePluginExecutionContext_t, hipdnnEnginePluginHandle_t, hipdnnPluginConstData_t,
    hipdnnPluginDeviceBuffer_t, hipdnnPluginStatus_t,
};
use crate::overrides::Overrides;
use crate::{step, trace};

/// `hipdnnEnginePluginExecuteOpGraphWithOverrides`.
///
/// # Safety
/// As [`execute_op_graph`](super::execute_op_graph), and each array of the overrides is null or has `num_overrides` elements;
/// those of the shapes and strides have as many as the lengths say.
#[expect(clippy::too_many_arguments, reason = "the C interface has them")]
pub unsafe fn execute_op_graph_with_overrides<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    execution_context: hipdnnEnginePluginExecutionContext_t,
    workspace: *mut c_void,
    device_buffers: *const hipdnnPluginDeviceBuffer_t,
    num_device_buffers: u32,
    num_overrides: u32,
    override_unique_ids: *const i64,
    override_lengths: *const u32,
    override_shapes: *const *const i64,
    override_strides: *const *const i64,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: both objects are null or live ones of this plugin; the buffers are null or as many as `num_device_buffers`.
        let (handle, plan, buffers) = unsafe {
            (
                Handle::<P>::borrow("handle", handle)?,
                Plan::<P>::borrow("execution_context", execution_context)?,
                buffers(device_buffers, num_device_buffers)?,
            )
        };
        if num_overrides == 0 {
            // SAFETY: the memory is what `EnginePlugin::execute` asks for.
            return unsafe { P::execute(handle, plan, workspace, buffers) };
        }
        // SAFETY: each array of overrides is null or has `num_overrides` elements.
        let overrides = unsafe {
            Overrides::from_raw(
                num_overrides,
                override_unique_ids,
                override_lengths,
                override_shapes,
                override_strides,
            )
        };
        let overrides = overrides.ok_or_else(|| {
            PluginError::bad_param(format!(
                "an array of the {num_overrides} overrides, or a length or pointer in one, is null or 0"
            ))
        })?;
        // SAFETY: the memory is what `EnginePlugin::execute_with_overrides` asks for.
        unsafe { P::execute_with_overrides(handle, plan, workspace, buffers, overrides) }
    })
}

/// `hipdnnEnginePluginSerializeExecutionContext`: bytes to be passed to
/// `hipdnnEnginePluginDestroySerializedExecutionContext` once.
///
/// # Safety
/// `handle` and `execution_context` are null or of this plugin and not destroyed, `serialized_context` is null or valid for
/// a write.
pub unsafe fn serialize_execution_context<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    execution_context: hipdnnEnginePluginExecutionContext_t,
    serialized_context: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` and `execution_context` are null or live objects of this plugin.
        let (handle, plan) = unsafe {
            (
                Handle::<P>::borrow("handle", handle)?,
                Plan::<P>::borrow("execution_context", execution_context)?,
            )
        };
        not_null("serialized_context", serialized_context)?;
        let saved = P::serialize(handle, plan)?;
        if saved.is_empty() {
            return Err(PluginError::internal("a saved plan is empty"));
        }
        let saved = Bytes::give(&saved)?;
        // SAFETY: `serialized_context` is not null, so it is valid for a write.
        unsafe { write(serialized_context, saved) };
        Ok(())
    })
}

/// `hipdnnEnginePluginSerializeExecutionContextWithEngineId`: the same, for an engine of this plugin.
///
/// # Safety
/// As [`serialize_execution_context`].
pub unsafe fn serialize_execution_context_with_engine_id<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    engine_id: i64,
    execution_context: hipdnnEnginePluginExecutionContext_t,
    serialized_context: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    match guard(|| engine::<P>(engine_id).map(drop)) {
        // SAFETY: handle and context are null or live objects of this plugin; the output is null or valid for a write.
        0 => unsafe { serialize_execution_context::<P>(handle, execution_context, serialized_context) },
        status => status,
    }
}

/// `hipdnnEnginePluginDestroySerializedExecutionContext`: empties the struct. An empty struct is accepted.
///
/// # Safety
/// `serialized_context` is null or valid, and what it points to is from one of the functions above of this plugin, not
/// destroyed.
pub unsafe fn destroy_serialized_execution_context<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    serialized_context: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        unsafe { Handle::<P>::borrow("handle", handle) }?;
        not_null("serialized_context", serialized_context)?;
        // SAFETY: `serialized_context` has bytes of this plugin that were not released.
        unsafe { Bytes::take(serialized_context) }
    })
}

/// `hipdnnEnginePluginCreateExecutionContextFromSerialized`: a plan, to be passed to
/// `hipdnnEnginePluginDestroyExecutionContext` once.
///
/// # Safety
/// `handle` is null or of this plugin and not destroyed, `serialized_context` is null or points to readable bytes,
/// `execution_context` is null or valid for a write.
pub unsafe fn create_execution_context_from_serialized<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    serialized_context: *const hipdnnPluginConstData_t,
    execution_context: *mut hipdnnEnginePluginExecutionContext_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        let handle = unsafe { Handle::<P>::borrow("handle", handle) }?;
        not_null("execution_context", execution_context)?;
        // SAFETY: `serialized_context` is null or points to readable bytes.
        let saved = unsafe { bytes("serialized_context", serialized_context) }?;
        let plan = Plan::<P>::give(P::deserialize(handle, saved)?);
        // SAFETY: `execution_context` is not null, so it is valid for a write.
        unsafe { write(execution_context, plan) };
        Ok(())
    })
}

/// `hipdnnEnginePluginDescribeExecutionContext_ext`.
///
/// # Safety
/// `handle` and `execution_context` are null or of this plugin and not destroyed, `size` is null or valid for a write, `json`
/// null or valid for `requested_size` bytes.
pub unsafe fn describe_execution_context<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    execution_context: hipdnnEnginePluginExecutionContext_t,
    requested_size: usize,
    size: *mut usize,
    json: *mut c_char,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` and `execution_context` are null or live objects of this plugin.
        let plan = unsafe {
            Handle::<P>::borrow("handle", handle)?;
            Plan::<P>::borrow("execution_context", execution_context)?
        };
        check_room(requested_size, size, json)?;
        let steps = P::describe(plan)
            .ok_or_else(|| PluginError::not_applicable(format!("{} cannot describe this plan", P::NAME)))?;
        // SAFETY: `check_room` accepted the pointers, and `json` has room for `requested_size` bytes.
        unsafe { write_text(step::write(&steps), requested_size, size, json) }
    })
}

/// `hipdnnEnginePluginDescribeNumerics_ext`. Refuses knob settings as `create_execution_context` does.
///
/// # Safety
/// As [`describe_execution_context`]; `engine_config` and `op_graph` are null or point to readable bytes.
pub unsafe fn describe_numerics<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    engine_config: *const hipdnnPluginConstData_t,
    op_graph: *const hipdnnPluginConstData_t,
    requested_size: usize,
    size: *mut usize,
    json: *mut c_char,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin.
        let handle = unsafe { Handle::<P>::borrow("handle", handle) }?;
        check_room(requested_size, size, json)?;
        // SAFETY: `engine_config` and `op_graph` are null or point to readable bytes.
        let (engine, graph, settings) = unsafe { chosen::<P>(handle, engine_config, op_graph) }?;
        if let Some(refusal) = settings.refusal {
            return Err(refusal);
        }
        let numerics = P::numerics(handle, engine, &graph, &settings.known)?;
        let numerics = numerics.ok_or_else(|| {
            PluginError::not_applicable(format!("{} does not say what it does to numbers", P::NAME))
        })?;
        // SAFETY: `check_room` accepted the pointers, and `json` has room for `requested_size` bytes.
        unsafe { write_text(numerics.write(), requested_size, size, json) }
    })
}

/// Refuses null pointers of a text that is asked for in two calls.
fn check_room(requested_size: usize, size: *mut usize, json: *mut c_char) -> Result<()> {
    not_null("size", size)?;
    if json.is_null() && requested_size > 0 {
        return Err(null("json"));
    }
    Ok(())
}

/// Writes a JSON text with its NUL if room is given, and its size.
///
/// # Safety
/// `size` is valid for a write, and `json` for `requested_size` bytes.
unsafe fn write_text(text: String, requested_size: usize, size: *mut usize, json: *mut c_char) -> Result<()> {
    // JSON escapes NULs, so the only NUL is the terminator.
    let mut text = text.into_bytes();
    text.push(0);
    if requested_size > 0 && requested_size < text.len() {
        let expected = text.len();
        return Err(PluginError::bad_param(format!(
            "requested_size is {requested_size}, expected 0 or at least {expected}"
        )));
    }
    // SAFETY: `json` has room for `requested_size` bytes, which are enough, and both are valid for writes.
    unsafe {
        if requested_size > 0 {
            json.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        write(size, text.len());
    }
    Ok(())
}

/// `hipdnnEnginePluginIsExecutionContextShareable_ext`: whether plans of this and other handles may share the plan.
///
/// # Safety
/// `handle` and `execution_context` are null or of this plugin and not destroyed, `is_shareable` is null or valid for a write.
pub unsafe fn is_execution_context_shareable<P: EnginePlugin>(
    handle: hipdnnEnginePluginHandle_t,
    execution_context: hipdnnEnginePluginExecutionContext_t,
    is_shareable: *mut u32,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` and `execution_context` are null or live objects of this plugin.
        let (handle, plan) = unsafe {
            (
                Handle::<P>::borrow("handle", handle)?,
                Plan::<P>::borrow("execution_context", execution_context)?,
            )
        };
        not_null("is_shareable", is_shareable)?;
        // SAFETY: `is_shareable` is not null, so it is valid for a write.
        unsafe { write(is_shareable, u32::from(P::is_shareable(handle, plan))) };
        Ok(())
    })
}

/// `hipdnnEnginePluginSetStepCallback_ext`: reports steps to this callback from now on; null disables it.
///
/// # Safety
/// The callback may be called from any thread until the library is closed.
pub unsafe fn set_step_callback<P: EnginePlugin>(callback: trace::Callback) -> hipdnnPluginStatus_t {
    guard(|| {
        trace::set_callback(callback);
        Ok(())
    })
}
