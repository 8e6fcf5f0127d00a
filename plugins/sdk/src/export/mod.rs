//! The functions of the C ABI, written once for every plugin.
//!
//! [`export_engine_plugin!`](crate::export_engine_plugin) and
//! [`export_heuristic_plugin!`](crate::export_heuristic_plugin) give them their C names. Every function
//! checks its arguments, catches panics, turns an error into a status and a text, and writes its outputs last
//! and only on success. Do not call them from Rust.

mod answer;
mod asked;
mod base;
mod declaration;
mod engine;
mod heuristic;
mod offer;
mod optional;
mod owned;

pub use base::*;
pub use declaration::{OfEngines, OfPolicies};
pub use engine::*;
pub use heuristic::*;
pub use offer::offer_all_engines;
pub use optional::*;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::PluginError;
use crate::ffi::{HIPDNN_PLUGIN_STATUS_SUCCESS, hipdnnPluginStatus_t};
use crate::{cancel, last_error};

type Result<T> = std::result::Result<T, PluginError>;

/// Runs the body of a C function and returns its status. Thread cancellation is disabled meanwhile.
#[inline]
fn guard(body: impl FnOnce() -> Result<()>) -> hipdnnPluginStatus_t {
    let _off = cancel::disable();
    guard_execution(body)
}

/// The same for an execution; it does not disable cancellation, which would cost more than the rest.
#[inline]
fn guard_execution(body: impl FnOnce() -> Result<()>) -> hipdnnPluginStatus_t {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => HIPDNN_PLUGIN_STATUS_SUCCESS,
        Ok(Err(error)) => failed(&error),
        Err(payload) => failed(&panicked(payload)),
    }
}

#[cold]
fn failed(error: &PluginError) -> hipdnnPluginStatus_t {
    last_error::set(error.message());
    error.status()
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> PluginError {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => *text,
        (_, Some(text)) => text,
        _ => "a panic without a text",
    };
    let error = PluginError::internal(format!("the plugin panicked: {text}"));
    // Dropping a panic's payload could panic again.
    std::mem::forget(payload);
    error
}

#[cold]
fn null(argument: &str) -> PluginError {
    PluginError::bad_param(format!("{argument} is null"))
}

/// Refuses a null pointer.
fn not_null<T>(argument: &str, pointer: *const T) -> Result<()> {
    if pointer.is_null() { Err(null(argument)) } else { Ok(()) }
}

/// Writes an output that was checked for null.
///
/// # Safety
/// `output` is valid for a write.
unsafe fn write<T>(output: *mut T, value: T) {
    // SAFETY: `output` is valid for a write. Hosts may pass memory of any alignment.
    unsafe { output.write_unaligned(value) };
}

/// Makes a library an engine plugin: defines the exported functions of the C ABI for a type that implements
/// [`EnginePlugin`](crate::EnginePlugin). The crate must be a `cdylib`; use it once per library.
///
/// Optional features follow the type, because hosts detect them by the exported functions:
/// `export_engine_plugin!(MyPlugin, overrides, serialization, description)`. `overrides` exports
/// [`execute_with_overrides`](crate::EnginePlugin::execute_with_overrides), `serialization`
/// [`serialize`](crate::EnginePlugin::serialize) and [`deserialize`](crate::EnginePlugin::deserialize),
/// `description` [`describe`](crate::EnginePlugin::describe), `sharing`
/// [`is_shareable`](crate::EnginePlugin::is_shareable), `numerics` [`numerics`](crate::EnginePlugin::numerics). `steps` lets a host receive [`trace`](crate::trace)
/// steps, and `kept_back` the engines of [`KEPT_BACK`](crate::EnginePlugin::KEPT_BACK).
#[macro_export]
macro_rules! export_engine_plugin {
    ($plugin:ty $(, $more:ident)* $(,)?) => {
        $($crate::export_engine_plugin! { @more $more $plugin })*
        $crate::exported_functions! { @base $crate::export::OfEngines<$plugin> }
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginGetAllEngineIds =
                get_all_engine_ids(engine_ids: *mut i64, max_engines: u32, num_engines: *mut u32);
            hipdnnEnginePluginGetEngineName =
                get_engine_name(engine_id: i64, name: *mut *const ::std::ffi::c_char);
            hipdnnEnginePluginGetEngineKind_ext =
                get_engine_kind(engine_id: i64, device: *mut u32, implementation: *mut u32);
            hipdnnEnginePluginCreate = create(handle: *mut $crate::ffi::hipdnnEnginePluginHandle_t);
            hipdnnEnginePluginDestroy = destroy(handle: $crate::ffi::hipdnnEnginePluginHandle_t);
            hipdnnEnginePluginSetStream =
                set_stream(handle: $crate::ffi::hipdnnEnginePluginHandle_t, stream: $crate::ffi::hipStream_t);
            hipdnnEnginePluginGetApplicableEngineIds = get_applicable_engine_ids(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                op_graph: *const $crate::ffi::hipdnnPluginConstData_t,
                engine_ids: *mut i64,
                max_engines: u32,
                num_engines: *mut u32
            );
            hipdnnEnginePluginGetEngineDetails = get_engine_details(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                engine_id: i64,
                op_graph: *const $crate::ffi::hipdnnPluginConstData_t,
                engine_details: *mut $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnEnginePluginDestroyEngineDetails = destroy_engine_details(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                engine_details: *mut $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnEnginePluginGetWorkspaceSize = get_workspace_size(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                engine_config: *const $crate::ffi::hipdnnPluginConstData_t,
                op_graph: *const $crate::ffi::hipdnnPluginConstData_t,
                workspace_size: *mut usize
            );
            hipdnnEnginePluginCreateExecutionContext = create_execution_context(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                engine_config: *const $crate::ffi::hipdnnPluginConstData_t,
                op_graph: *const $crate::ffi::hipdnnPluginConstData_t,
                execution_context: *mut $crate::ffi::hipdnnEnginePluginExecutionContext_t
            );
            hipdnnEnginePluginDestroyExecutionContext = destroy_execution_context(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t
            );
            hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext = get_workspace_size_from_execution_context(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t,
                workspace_size: *mut usize
            );
            hipdnnEnginePluginExecuteOpGraph = execute_op_graph(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t,
                workspace: *mut ::std::ffi::c_void,
                device_buffers: *const $crate::ffi::hipdnnPluginDeviceBuffer_t,
                num_device_buffers: u32
            );
        }
    };
    (@more overrides $plugin:ty) => {
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginExecuteOpGraphWithOverrides = execute_op_graph_with_overrides(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t,
                workspace: *mut ::std::ffi::c_void,
                device_buffers: *const $crate::ffi::hipdnnPluginDeviceBuffer_t,
                num_device_buffers: u32,
                num_overrides: u32,
                override_unique_ids: *const i64,
                override_lengths: *const u32,
                override_shapes: *const *const i64,
                override_strides: *const *const i64
            );
        }
    };
    (@more description $plugin:ty) => {
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginDescribeExecutionContext_ext = describe_execution_context(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t,
                requested_size: usize,
                size: *mut usize,
                json: *mut ::std::ffi::c_char
            );
        }
    };
    (@more numerics $plugin:ty) => {
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginDescribeNumerics_ext = describe_numerics(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                engine_config: *const $crate::ffi::hipdnnPluginConstData_t,
                op_graph: *const $crate::ffi::hipdnnPluginConstData_t,
                requested_size: usize,
                size: *mut usize,
                json: *mut ::std::ffi::c_char
            );
        }
    };
    (@more sharing $plugin:ty) => {
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginIsExecutionContextShareable_ext = is_execution_context_shareable(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t,
                is_shareable: *mut u32
            );
        }
    };
    (@more steps $plugin:ty) => {
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginSetStepCallback_ext = set_step_callback(callback: $crate::trace::Callback);
        }
    };
    (@more kept_back $plugin:ty) => {
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginOfferAllEngines_ext = offer_all_engines(all: u32);
        }
    };
    (@more serialization $plugin:ty) => {
        $crate::exported_functions! { $plugin;
            hipdnnEnginePluginSerializeExecutionContext = serialize_execution_context(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t,
                serialized_context: *mut $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnEnginePluginSerializeExecutionContextWithEngineId = serialize_execution_context_with_engine_id(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                engine_id: i64,
                execution_context: $crate::ffi::hipdnnEnginePluginExecutionContext_t,
                serialized_context: *mut $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnEnginePluginDestroySerializedExecutionContext = destroy_serialized_execution_context(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                serialized_context: *mut $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnEnginePluginCreateExecutionContextFromSerialized = create_execution_context_from_serialized(
                handle: $crate::ffi::hipdnnEnginePluginHandle_t,
                serialized_context: *const $crate::ffi::hipdnnPluginConstData_t,
                execution_context: *mut $crate::ffi::hipdnnEnginePluginExecutionContext_t
            );
        }
    };
}

/// Makes a library a heuristic plugin: defines the exported functions of the C ABI for a type that implements
/// [`HeuristicPlugin`](crate::HeuristicPlugin). The crate must be a `cdylib`; use it once per library.
#[macro_export]
macro_rules! export_heuristic_plugin {
    ($plugin:ty $(,)?) => {
        $crate::exported_functions! { @base $crate::export::OfPolicies<$plugin> }
        $crate::exported_functions! { $plugin;
            hipdnnHeuristicPluginGetAllPolicyIds =
                get_all_policy_ids(policy_ids: *mut i64, max_policies: u32, num_policies: *mut u32);
            hipdnnHeuristicPluginGetPolicyName =
                get_policy_name(policy_id: i64, name: *mut *const ::std::ffi::c_char);
            hipdnnHeuristicHandleCreate =
                create_heuristic_handle(out_handle: *mut $crate::ffi::hipdnnHeuristicHandle_t);
            hipdnnHeuristicHandleDestroy =
                destroy_heuristic_handle(handle: $crate::ffi::hipdnnHeuristicHandle_t);
            hipdnnHeuristicHandleSetDeviceProperties = set_device_properties(
                handle: $crate::ffi::hipdnnHeuristicHandle_t,
                device_props_serialized: *const $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnHeuristicPolicyDescriptorCreate = create_policy_descriptor(
                plugin_handle: $crate::ffi::hipdnnHeuristicHandle_t,
                policy_id: i64,
                out_desc: *mut $crate::ffi::hipdnnHeuristicPolicyDescriptor_t
            );
            hipdnnHeuristicPolicyDescriptorDestroy =
                destroy_policy_descriptor(desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t);
            hipdnnHeuristicPolicySetEngineIds = set_engine_ids(
                desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t,
                engine_ids: *const i64,
                engine_id_count: usize
            );
            hipdnnHeuristicPolicySetSerializedGraph = set_serialized_graph(
                desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t,
                serialized_graph: *const $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnHeuristicPolicyFinalize = finalize_policy(
                desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t,
                out_applied: *mut i32
            );
            hipdnnHeuristicPolicyGetSortedEngineIds = get_sorted_engine_ids(
                desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t,
                engine_ids: *mut i64,
                num_engines: *mut usize
            );
            hipdnnHeuristicPolicyFinalizeWithHost = finalize_policy_with_host(
                desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t,
                host: *const $crate::ffi::hipdnnHeuristicHostCallbacks_t,
                out_applied: *mut i32
            );
            hipdnnHeuristicPolicyGetEngineConfig = get_policy_engine_config(
                desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t,
                engine_id: i64,
                engine_config: *mut $crate::ffi::hipdnnPluginConstData_t
            );
            hipdnnHeuristicPolicyGetTrace = get_policy_trace(
                desc: $crate::ffi::hipdnnHeuristicPolicyDescriptor_t,
                engine_id: i64,
                trace_json: *mut *const ::std::ffi::c_char
            );
        }
    };
}

/// Gives functions of this module their C names; `@base` those that every plugin has.
#[doc(hidden)]
#[macro_export]
macro_rules! exported_functions {
    (@base $plugin:ty) => {
        const _: () = {
            /// Implements the C function of this name.
            ///
            /// # Safety
            /// As [`get_last_error_string`]($crate::export::get_last_error_string).
            #[unsafe(no_mangle)]
            unsafe extern "C" fn hipdnnPluginGetLastErrorString(error_str: *mut *const ::std::ffi::c_char) {
                // SAFETY: the host passes what the C ABI asks for.
                unsafe { $crate::export::get_last_error_string(error_str) }
            }
        };
        $crate::exported_functions! { $plugin;
            hipdnnPluginGetName = get_name(name: *mut *const ::std::ffi::c_char);
            hipdnnPluginGetVersion = get_version(version: *mut *const ::std::ffi::c_char);
            hipdnnPluginGetType = get_type(kind: *mut $crate::ffi::hipdnnPluginType_t);
            hipdnnPluginGetApiVersion = get_api_version(version: *mut *const ::std::ffi::c_char);
            hipdnnPluginSetLoggingCallback = set_logging_callback(callback: $crate::ffi::hipdnnCallback_t);
            hipdnnPluginSetLogLevel = set_log_level(level: $crate::ffi::hipdnnSeverity_t);
        }
    };
    ($plugin:ty; $($symbol:ident = $function:ident($($argument:ident: $type:ty),* $(,)?);)+) => {
        const _: () = {
            $(
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $symbol($($argument: $type),*) -> $crate::ffi::hipdnnPluginStatus_t {
                    // SAFETY: the host passes what the C ABI asks for.
                    unsafe { $crate::export::$function::<$plugin>($($argument),*) }
                }
            )+
        };
    };
}
