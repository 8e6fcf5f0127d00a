//! The functions of an engine plugin, as found in its library.

use std::ffi::{CStr, c_char, c_void};

use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_SUCCESS, hipStream_t, hipdnnCallback_t,
    hipdnnEnginePluginExecutionContext_t as Context, hipdnnEnginePluginHandle_t as PluginHandle,
    hipdnnPluginConstData_t as ConstData, hipdnnPluginDeviceBuffer_t as DeviceBuffer,
    hipdnnPluginStatus_t as PluginStatus, hipdnnPluginType_t,
};

use super::Library;
use crate::status::{Error, Result};

macro_rules! table {
    (
        required { $($required:ident: $rname:literal, $rtype:ty;)+ }
        optional { $($optional:ident: $oname:literal, $otype:ty;)+ }
    ) => {
        /// A plugin's functions. The library they came from must be kept open as long.
        #[derive(Clone, Copy)]
        #[expect(missing_docs, reason = "each is the C function named in the table below")]
        pub struct Api {
            $(pub $required: $rtype,)+
            $(pub $optional: Option<$otype>,)+
        }

        impl Api {
            /// Finds every function, or says which required ones are missing.
            ///
            /// # Errors
            /// All missing names at once.
            pub fn find(library: &Library) -> std::result::Result<Self, String> {
                let mut missing: Vec<&str> = Vec::new();
                // SAFETY: the types are those of the plugin interface; `Plugin` keeps the library open.
                unsafe {
                    $(let $required = library.function::<$rtype>($rname);
                    if $required.is_none() {
                        missing.push($rname);
                    })+
                    $(let $optional = library.function::<$otype>($oname);)+
                    match ($($required,)+) {
                        ($(Some($required),)+) => Ok(Self { $($required,)+ $($optional,)+ }),
                        _ => Err(format!("Failed to get symbol: {}", missing.join(", "))),
                    }
                }
            }
        }
    };
}

table! {
    required {
        get_name: "hipdnnPluginGetName", unsafe extern "C" fn(*mut *const c_char) -> PluginStatus;
        get_version: "hipdnnPluginGetVersion", unsafe extern "C" fn(*mut *const c_char) -> PluginStatus;
        get_type: "hipdnnPluginGetType", unsafe extern "C" fn(*mut hipdnnPluginType_t) -> PluginStatus;
        get_last_error: "hipdnnPluginGetLastErrorString", unsafe extern "C" fn(*mut *const c_char);
        get_all_engine_ids: "hipdnnEnginePluginGetAllEngineIds",
            unsafe extern "C" fn(*mut i64, u32, *mut u32) -> PluginStatus;
        create: "hipdnnEnginePluginCreate", unsafe extern "C" fn(*mut PluginHandle) -> PluginStatus;
        destroy: "hipdnnEnginePluginDestroy", unsafe extern "C" fn(PluginHandle) -> PluginStatus;
        set_stream: "hipdnnEnginePluginSetStream", unsafe extern "C" fn(PluginHandle, hipStream_t) -> PluginStatus;
        get_applicable_engine_ids: "hipdnnEnginePluginGetApplicableEngineIds",
            unsafe extern "C" fn(PluginHandle, *const ConstData, *mut i64, u32, *mut u32) -> PluginStatus;
        get_engine_details: "hipdnnEnginePluginGetEngineDetails",
            unsafe extern "C" fn(PluginHandle, i64, *const ConstData, *mut ConstData) -> PluginStatus;
        destroy_engine_details: "hipdnnEnginePluginDestroyEngineDetails",
            unsafe extern "C" fn(PluginHandle, *mut ConstData) -> PluginStatus;
        get_workspace_size: "hipdnnEnginePluginGetWorkspaceSize",
            unsafe extern "C" fn(PluginHandle, *const ConstData, *const ConstData, *mut usize) -> PluginStatus;
        create_execution_context: "hipdnnEnginePluginCreateExecutionContext",
            unsafe extern "C" fn(PluginHandle, *const ConstData, *const ConstData, *mut Context) -> PluginStatus;
        destroy_execution_context: "hipdnnEnginePluginDestroyExecutionContext",
            unsafe extern "C" fn(PluginHandle, Context) -> PluginStatus;
        get_workspace_size_from_context: "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext",
            unsafe extern "C" fn(PluginHandle, Context, *mut usize) -> PluginStatus;
        execute: "hipdnnEnginePluginExecuteOpGraph",
            unsafe extern "C" fn(PluginHandle, Context, *mut c_void, *const DeviceBuffer, u32) -> PluginStatus;
    }
    optional {
        set_logging_callback: "hipdnnPluginSetLoggingCallback",
            unsafe extern "C" fn(hipdnnCallback_t) -> PluginStatus;
        get_api_version: "hipdnnPluginGetApiVersion", unsafe extern "C" fn(*mut *const c_char) -> PluginStatus;
        set_log_level: "hipdnnPluginSetLogLevel", unsafe extern "C" fn(i32) -> PluginStatus;
        get_engine_name: "hipdnnEnginePluginGetEngineName",
            unsafe extern "C" fn(i64, *mut *const c_char) -> PluginStatus;
    }
}

/// A text that a plugin handed out, made safe to show; none for a null pointer.
///
/// # Safety
/// A pointer that is not null must be a NUL terminated text.
pub unsafe fn foreign_text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller vouches for it.
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

impl Api {
    /// What the plugin says of its last failure on this thread.
    pub fn last_error(&self) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the function writes a pointer to a text of the plugin's, or leaves the null.
        unsafe {
            (self.get_last_error)(&raw mut text);
            foreign_text(text).unwrap_or_default()
        }
    }

    /// Says that the plugin failed to do `action`, with its status and its own words.
    #[cold]
    pub fn failure(&self, action: &str, status: PluginStatus) -> String {
        format!("Failed to {action}. Status: {}({status}), Error: {}", status_name(status), self.last_error())
    }
}

/// Turns a plugin's status into a result.
#[inline]
pub fn check(api: &Api, action: &str, status: PluginStatus) -> Result<()> {
    if status == HIPDNN_PLUGIN_STATUS_SUCCESS {
        Ok(())
    } else {
        Err(Error::plugin(api.failure(action, status)))
    }
}
