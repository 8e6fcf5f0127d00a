//! The function tables of plugins.

use std::ffi::{CStr, c_char, c_void};

use hipdnn_plugin_sdk::cancel::{self, Disabled};
use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_SUCCESS, hipStream_t, hipdnnCallback_t,
    hipdnnEnginePluginExecutionContext_t as Context, hipdnnEnginePluginHandle_t as PluginHandle,
    hipdnnHeuristicHandle_t as HeuristicHandle, hipdnnHeuristicHostCallbacks_t as Callbacks,
    hipdnnHeuristicPolicyDescriptor_t as Choice, hipdnnPluginConstData_t as ConstData,
    hipdnnPluginDeviceBuffer_t as DeviceBuffer, hipdnnPluginStatus_t as PluginStatus, hipdnnPluginType_t,
};

use super::Library;
use crate::call::{Word, call, has_thrown};
use crate::status::{Error, Result};

macro_rules! table {
    (
        $(#[$meta:meta])* $table:ident:
        required { $($required:ident: $rname:literal, ($($rarg:ident: $rtype:ty),+);)+ }
        guarded_by_caller { $($guarded:ident: $gname:literal, ($($garg:ident: $gtype:ty),+);)* }
        executes { $($executes:ident: $ename:literal, ($($earg:ident: $etype:ty),+);)? }
        optional { $($optional:ident: $oname:literal, ($($oarg:ident: $otype:ty),+);)+ }
        called_below { $($below:ident: $bname:literal;)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $table {
            $($required: *const (),)+
            $($guarded: *const (),)*
            $($executes: *const (),)?
            $($optional: Option<*const ()>,)+
            $($below: Option<*const ()>,)*
        }

        impl $table {
            /// Finds every function.
            ///
            /// # Errors
            /// The names of all missing required functions.
            pub fn find(library: &Library) -> std::result::Result<Self, String> {
                let mut missing: Vec<&str> = Vec::new();
                // SAFETY: `Plugin` keeps the library open.
                unsafe {
                    $(let $required = library.function::<*const ()>($rname);
                    if $required.is_none() {
                        missing.push($rname);
                    })+
                    $(let $guarded = library.function::<*const ()>($gname);
                    if $guarded.is_none() {
                        missing.push($gname);
                    })*
                    $(let $executes = library.function::<*const ()>($ename);
                    if $executes.is_none() {
                        missing.push($ename);
                    })?
                    $(let $optional = library.function::<*const ()>($oname);)+
                    $(let $below = library.function::<*const ()>($bname);)*
                    match ($($required,)+ $($guarded,)* $($executes,)?) {
                        ($(Some($required),)+ $(Some($guarded),)* $(Some($executes),)?) => Ok(Self { $($required,)+ $($guarded,)* $($executes,)? $($optional,)+ $($below,)* }),
                        _ => Err(format!("Failed to get symbol: {}", missing.join(", "))),
                    }
                }
            }

            $(#[doc = concat!("Calls `", $rname, "`.")]
            ///
            /// # Safety
            /// The arguments are what the interface asks for.
            #[inline]
            pub unsafe fn $required(&self, $($rarg: $rtype),+) -> PluginStatus {
                let _off = cancel::disable();
                // SAFETY: the function has this signature, and the arguments are what the interface asks for, as this function requires.
                unsafe { call(self.$required, [$($rarg.word()),+]) }
            })+

            $(#[doc = concat!("Calls `", $gname, "` where the caller has disabled cancellation, once for several calls.")]
            ///
            /// # Safety
            /// The arguments are what the interface asks for.
            #[inline]
            pub unsafe fn $guarded(&self, _: &Disabled, $($garg: $gtype),+) -> PluginStatus {
                // SAFETY: the function has this signature, and the arguments are what the interface asks for, as this function requires.
                unsafe { call(self.$guarded, [$($garg.word()),+]) }
            })*

            $(#[doc = concat!("Calls `", $ename, "`, without disabling cancellation of the thread, which costs time.")]
            ///
            /// # Safety
            /// The arguments are what the interface asks for.
            #[inline]
            pub unsafe fn $executes(&self, $($earg: $etype),+) -> PluginStatus {
                // SAFETY: the function has this signature, and the arguments are what the interface asks for, as this function requires.
                unsafe { call(self.$executes, [$($earg.word()),+]) }
            })?

            $(#[doc = concat!("Calls `", $oname, "`, if the plugin has it.")]
            ///
            /// # Safety
            /// The arguments are what the interface asks for.
            pub unsafe fn $optional(&self, $($oarg: $otype),+) -> Option<PluginStatus> {
                let _off = cancel::disable();
                // SAFETY: the function has this signature, and the arguments are what the interface asks for, as this function requires.
                self.$optional.map(|function| unsafe { call(function, [$($oarg.word()),+]) })
            })+

            /// The plugin's message about its last failure on this thread.
            pub fn last_error(&self) -> String {
                let mut text = std::ptr::null();
                // SAFETY: the function writes a pointer to a text of the plugin, or leaves the null.
                unsafe {
                    // The function returns no status.
                    if has_thrown(self.get_last_error(&raw mut text)) {
                        return "(the plugin threw an exception when it was asked)".into();
                    }
                    foreign_text(text).unwrap_or_default()
                }
            }

            /// The message that the plugin failed to do `action`, with its status and its own message.
            #[cold]
            pub fn failure(&self, action: &str, status: PluginStatus) -> String {
                if has_thrown(status) {
                    return threw(action);
                }
                let name = status_name(status);
                format!("Failed to {action}. Status: {name}({status}), Error: {}", self.last_error())
            }
        }

        // SAFETY: the pointers are to functions, which any thread may call.
        unsafe impl Send for $table {}
        // SAFETY: the pointers are to functions, which threads may call concurrently.
        unsafe impl Sync for $table {}
    };
}

table! {
    /// The functions of an engine plugin. Their library must stay open as long.
    Api:
    required {
        get_name: "hipdnnPluginGetName", (name: *mut *const c_char);
        get_version: "hipdnnPluginGetVersion", (version: *mut *const c_char);
        get_type: "hipdnnPluginGetType", (kind: *mut hipdnnPluginType_t);
        get_last_error: "hipdnnPluginGetLastErrorString", (text: *mut *const c_char);
        get_all_engine_ids: "hipdnnEnginePluginGetAllEngineIds", (ids: *mut i64, room: u32, count: *mut u32);
        set_stream: "hipdnnEnginePluginSetStream", (handle: PluginHandle, stream: hipStream_t);
        get_workspace_size: "hipdnnEnginePluginGetWorkspaceSize",
            (handle: PluginHandle, config: *const ConstData, graph: *const ConstData, size: *mut usize);
        destroy_execution_context: "hipdnnEnginePluginDestroyExecutionContext",
            (handle: PluginHandle, context: Context);
    }
    guarded_by_caller {
        get_applicable_engine_ids: "hipdnnEnginePluginGetApplicableEngineIds",
            (handle: PluginHandle, graph: *const ConstData, ids: *mut i64, room: u32, count: *mut u32);
        get_engine_details: "hipdnnEnginePluginGetEngineDetails",
            (handle: PluginHandle, engine: i64, graph: *const ConstData, details: *mut ConstData);
        destroy_engine_details: "hipdnnEnginePluginDestroyEngineDetails",
            (handle: PluginHandle, details: *mut ConstData);
        create_execution_context: "hipdnnEnginePluginCreateExecutionContext",
            (handle: PluginHandle, config: *const ConstData, graph: *const ConstData, context: *mut Context);
        get_workspace_size_from_context: "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext",
            (handle: PluginHandle, context: Context, size: *mut usize);
        create: "hipdnnEnginePluginCreate", (handle: *mut PluginHandle);
        destroy: "hipdnnEnginePluginDestroy", (handle: PluginHandle);
    }
    executes {
        execute: "hipdnnEnginePluginExecuteOpGraph",
            (handle: PluginHandle, context: Context, workspace: *mut c_void, buffers: *const DeviceBuffer, count: u32);
    }
    optional {
        set_logging_callback: "hipdnnPluginSetLoggingCallback", (callback: hipdnnCallback_t);
        get_api_version: "hipdnnPluginGetApiVersion", (version: *mut *const c_char);
        set_log_level: "hipdnnPluginSetLogLevel", (level: i32);
        get_engine_name: "hipdnnEnginePluginGetEngineName", (engine: i64, name: *mut *const c_char);
        get_engine_kind: "hipdnnEnginePluginGetEngineKind_ext",
            (engine: i64, device: *mut u32, implementation: *mut u32);
        serialize_context_of_engine: "hipdnnEnginePluginSerializeExecutionContextWithEngineId",
            (handle: PluginHandle, engine: i64, context: Context, serialized: *mut ConstData);
        serialize_context: "hipdnnEnginePluginSerializeExecutionContext",
            (handle: PluginHandle, context: Context, serialized: *mut ConstData);
        destroy_serialized_context: "hipdnnEnginePluginDestroySerializedExecutionContext",
            (handle: PluginHandle, serialized: *mut ConstData);
        create_context_from_serialized: "hipdnnEnginePluginCreateExecutionContextFromSerialized",
            (handle: PluginHandle, serialized: *const ConstData, context: *mut Context);
        describe_context: "hipdnnEnginePluginDescribeExecutionContext_ext",
            (handle: PluginHandle, context: Context, requested_size: usize, size: *mut usize, json: *mut c_char);
        describe_numerics: "hipdnnEnginePluginDescribeNumerics_ext",
            (handle: PluginHandle, config: *const ConstData, graph: *const ConstData, requested_size: usize,
             size: *mut usize, json: *mut c_char);
        is_context_shareable: "hipdnnEnginePluginIsExecutionContextShareable_ext",
            (handle: PluginHandle, context: Context, is_shareable: *mut u32);
        set_step_callback: "hipdnnEnginePluginSetStepCallback_ext",
            (callback: hipdnn_plugin_sdk::trace::Callback);
        offer_all_engines: "hipdnnEnginePluginOfferAllEngines_ext", (all: u32);
    }
    called_below {
        execute_with_overrides: "hipdnnEnginePluginExecuteOpGraphWithOverrides";
    }
}

table! {
    /// The functions of a heuristic plugin. Their library must stay open as long.
    HeuristicApi:
    required {
        get_name: "hipdnnPluginGetName", (name: *mut *const c_char);
        get_version: "hipdnnPluginGetVersion", (version: *mut *const c_char);
        get_api_version: "hipdnnPluginGetApiVersion", (version: *mut *const c_char);
        get_type: "hipdnnPluginGetType", (kind: *mut hipdnnPluginType_t);
        set_logging_callback: "hipdnnPluginSetLoggingCallback", (callback: hipdnnCallback_t);
        get_last_error: "hipdnnPluginGetLastErrorString", (text: *mut *const c_char);
        get_all_policy_ids: "hipdnnHeuristicPluginGetAllPolicyIds", (ids: *mut i64, room: u32, count: *mut u32);
        get_policy_name: "hipdnnHeuristicPluginGetPolicyName", (policy: i64, name: *mut *const c_char);
        create: "hipdnnHeuristicHandleCreate", (handle: *mut HeuristicHandle);
        destroy: "hipdnnHeuristicHandleDestroy", (handle: HeuristicHandle);
        set_device_properties: "hipdnnHeuristicHandleSetDeviceProperties",
            (handle: HeuristicHandle, device: *const ConstData);
        create_descriptor: "hipdnnHeuristicPolicyDescriptorCreate",
            (handle: HeuristicHandle, policy: i64, descriptor: *mut Choice);
        destroy_descriptor: "hipdnnHeuristicPolicyDescriptorDestroy", (descriptor: Choice);
        set_engine_ids: "hipdnnHeuristicPolicySetEngineIds", (descriptor: Choice, ids: *const i64, count: usize);
        set_graph: "hipdnnHeuristicPolicySetSerializedGraph", (descriptor: Choice, graph: *const ConstData);
        finalize: "hipdnnHeuristicPolicyFinalize", (descriptor: Choice, applied: *mut i32);
        get_sorted_engine_ids: "hipdnnHeuristicPolicyGetSortedEngineIds",
            (descriptor: Choice, ids: *mut i64, count: *mut usize);
    }
    guarded_by_caller {}
    executes {}
    optional {
        set_log_level: "hipdnnPluginSetLogLevel", (level: i32);
        finalize_with_host: "hipdnnHeuristicPolicyFinalizeWithHost",
            (descriptor: Choice, host: *const Callbacks, applied: *mut i32);
        get_engine_config: "hipdnnHeuristicPolicyGetEngineConfig",
            (descriptor: Choice, engine: i64, config: *mut ConstData);
        get_trace: "hipdnnHeuristicPolicyGetTrace",
            (descriptor: Choice, engine: i64, json: *mut *const c_char);
    }
    called_below {}
}

impl HeuristicApi {
    /// Whether the plugin's policies take the host's services.
    pub fn finalizes_with_host(&self) -> bool {
        self.finalize_with_host.is_some()
    }
}

/// Override shapes of one execution in the plugin interface's form: four arrays of equal length.
#[derive(Clone, Copy)]
pub struct OverrideArrays {
    /// The number of overridden tensors.
    pub count: u32,
    /// Their uids.
    pub uids: *const i64,
    /// The number of dimensions of each.
    pub lengths: *const u32,
    /// The dimensions of each.
    pub shapes: *const *const i64,
    /// The strides of each.
    pub strides: *const *const i64,
}

impl Api {
    /// Calls `hipdnnEnginePluginExecuteOpGraphWithOverrides`, if the plugin has it.
    ///
    /// # Safety
    /// The arguments are what the interface asks for.
    pub unsafe fn execute_with_overrides(
        &self,
        handle: PluginHandle,
        context: Context,
        workspace: *mut c_void,
        buffers: &[DeviceBuffer],
        overrides: OverrideArrays,
    ) -> Option<PluginStatus> {
        let OverrideArrays { count, uids, lengths, shapes, strides } = overrides;
        let buffer_count = buffers.len() as u32;
        let words = [
            handle.word(),
            context.word(),
            workspace.word(),
            buffers.as_ptr().word(),
            buffer_count.word(),
            count.word(),
            uids.word(),
            lengths.word(),
            shapes.word(),
            strides.word(),
        ];
        // SAFETY: the function has this signature, and the arguments are what the interface asks for, as this function requires.
        self.execute_with_overrides.map(|function| unsafe { call(function, words) })
    }

    /// Whether the plugin can execute with override shapes.
    pub fn has_overrides(&self) -> bool {
        self.execute_with_overrides.is_some()
    }

    /// Whether the plugin says which contexts may be shared.
    pub fn says_who_shares(&self) -> bool {
        self.is_context_shareable.is_some()
    }

    /// The functions that the plugin lacks for saving and loading plans; empty if it can.
    pub fn missing_for_saving(&self) -> Vec<&'static str> {
        let has = [
            self.serialize_context_of_engine.or(self.serialize_context).is_some(),
            self.destroy_serialized_context.is_some(),
            self.create_context_from_serialized.is_some(),
        ];
        let names = [
            "hipdnnEnginePluginSerializeExecutionContextWithEngineId",
            "hipdnnEnginePluginDestroySerializedExecutionContext",
            "hipdnnEnginePluginCreateExecutionContextFromSerialized",
        ];
        names.into_iter().zip(has).filter(|(_, has)| !has).map(|(name, _)| name).collect()
    }
}

/// A plugin's text as UTF-8; none for a null pointer.
///
/// # Safety
/// A pointer that is not null must be a NUL terminated text.
pub unsafe fn foreign_text(text: *const c_char) -> Option<String> {
    // SAFETY: the pointer is not null, so it is a NUL terminated text.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

fn status_name(status: PluginStatus) -> &'static str {
    match status {
        0 => "HIPDNN_PLUGIN_STATUS_SUCCESS",
        1 => "HIPDNN_PLUGIN_STATUS_BAD_PARAM",
        2 => "HIPDNN_PLUGIN_STATUS_INVALID_VALUE",
        3 => "HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR",
        4 => "HIPDNN_PLUGIN_STATUS_ALLOC_FAILED",
        5 => "HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE",
        6 => "HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED",
        _ => "HIPDNN_PLUGIN_STATUS_UNKNOWN",
    }
}

/// Turns a plugin's status into a result.
#[inline]
pub fn check(api: &Api, action: &str, status: PluginStatus) -> Result<()> {
    if status == HIPDNN_PLUGIN_STATUS_SUCCESS { Ok(()) } else { Err(failed(api, action, status)) }
}

#[cold]
fn failed(api: &Api, action: &str, status: PluginStatus) -> Error {
    if has_thrown(status) {
        return Error::internal(threw(action));
    }
    Error::plugin(api.failure(action, status))
}

fn threw(action: &str) -> String {
    format!("Failed to {action}: the plugin threw an exception")
}
