//! The part of cuDNN that the engine needs, loaded at run time.
//!
//! The signatures are those of cuDNN 9; the example `cuda_library_prototypes` writes a program that compares
//! them and [`names`](crate::names) with the header.

#![expect(non_camel_case_types, reason = "the names of cuDNN")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use hipdnn_plugin_sdk::dynlib::{self, Object};
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::{PluginError, function_table};

use crate::library;
use crate::names::{STATUS_BAD_PARAM, STATUS_NOT_SUPPORTED, STATUS_SUCCESS};

/// Result of a cuDNN function; 0 is success.
pub type cudnnStatus_t = c_int;
/// A cuDNN handle, for one device.
pub type cudnnHandle_t = *mut c_void;
/// A descriptor: any object of the graph API.
pub type cudnnBackendDescriptor_t = *mut c_void;
/// The kind of a descriptor.
pub type cudnnBackendDescriptorType_t = c_int;
/// An attribute of a descriptor.
pub type cudnnBackendAttributeName_t = c_int;
/// The type of an attribute's elements.
pub type cudnnBackendAttributeType_t = c_int;

function_table! {
    /// The functions of cuDNN's graph API.
    #[expect(non_snake_case, reason = "the names of cuDNN")]
    pub struct Cudnn: "cuDNN", ["libcudnn.so.9"] {
        required {
            /// The version, 91900 for 9.19.0.
            fn cudnnGetVersion() -> usize;
            /// The text of a status.
            fn cudnnGetErrorString(status: cudnnStatus_t) -> *const c_char;
            /// This thread's last error message.
            fn cudnnGetLastErrorString(text: *mut c_char, size: usize);
            /// Creates a handle on the thread's device.
            fn cudnnCreate(handle: *mut cudnnHandle_t) -> cudnnStatus_t;
            /// Destroys a handle, and waits for the device.
            fn cudnnDestroy(handle: cudnnHandle_t) -> cudnnStatus_t;
            /// Sets the stream of later executions.
            fn cudnnSetStream(handle: cudnnHandle_t, stream: hipStream_t) -> cudnnStatus_t;
            /// Creates a descriptor.
            fn cudnnBackendCreateDescriptor(
                kind: cudnnBackendDescriptorType_t,
                descriptor: *mut cudnnBackendDescriptor_t
            ) -> cudnnStatus_t;
            /// Destroys a descriptor.
            fn cudnnBackendDestroyDescriptor(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t;
            /// Checks a descriptor, which cannot be changed afterwards.
            fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t;
            /// Sets an attribute of a descriptor that is not finalized.
            fn cudnnBackendSetAttribute(
                descriptor: cudnnBackendDescriptor_t,
                name: cudnnBackendAttributeName_t,
                kind: cudnnBackendAttributeType_t,
                count: i64,
                elements: *const c_void
            ) -> cudnnStatus_t;
            /// Gets an attribute of a finalized descriptor.
            fn cudnnBackendGetAttribute(
                descriptor: cudnnBackendDescriptor_t,
                name: cudnnBackendAttributeName_t,
                kind: cudnnBackendAttributeType_t,
                room: i64,
                count: *mut i64,
                elements: *mut c_void
            ) -> cudnnStatus_t;
            /// Queues a plan's work on the handle's stream.
            fn cudnnBackendExecute(
                handle: cudnnHandle_t,
                plan: cudnnBackendDescriptor_t,
                variant_pack: cudnnBackendDescriptor_t
            ) -> cudnnStatus_t;
        }
        optional {}
    }
}

impl Cudnn {
    /// cuDNN, if it was found.
    ///
    /// # Errors
    /// What was tried.
    pub fn find() -> Result<&'static Self, dynlib::Error> {
        static CUDNN: OnceLock<Result<Cudnn, dynlib::Error>> = OnceLock::new();
        let load = || {
            let found = library::load(Self::LIBRARIES, |candidates| Self::load_from(candidates))?;
            // cuDNN opens these by name when it needs them, and would not find pip's copies.
            library::keep_open(&["libcublasLt.so.13", "libcublasLt.so.12"]);
            library::keep_open(&["libnvrtc.so.13", "libnvrtc.so.12"]);
            Ok(found)
        };
        CUDNN.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// Turns a status other than success into an error with cuDNN's message.
    ///
    /// # Errors
    /// When `status` is an error.
    #[inline]
    pub fn check(&self, function: &str, status: cudnnStatus_t) -> Result<(), PluginError> {
        if status == STATUS_SUCCESS { Ok(()) } else { Err(self.error(function, status)) }
    }

    /// The same for an object described to cuDNN: if it is invalid or unsupported, the error is a refusal.
    ///
    /// # Errors
    /// When `status` is an error.
    #[inline]
    pub fn check_described(&self, function: &str, status: cudnnStatus_t) -> Result<(), PluginError> {
        self.check(function, status).map_err(|error| {
            if is_refusal(status) { PluginError::not_applicable(error.message().to_owned()) } else { error }
        })
    }

    #[cold]
    fn error(&self, function: &str, status: cudnnStatus_t) -> PluginError {
        // SAFETY: the function takes any number, and its names live for ever.
        let name = unsafe {
            let name = (self.cudnnGetErrorString)(status);
            if name.is_null() { c"" } else { CStr::from_ptr(name) }
        };
        let (name, words) = (name.to_string_lossy(), self.last_words());
        PluginError::internal(format!("{function} failed with status {status}: {name}: {words}"))
    }

    /// cuDNN's reason for the first error on this thread since the last call. Empty if there was none.
    pub fn last_words(&self) -> String {
        let mut text: [c_char; 512] = [0; 512];
        // SAFETY: the text has room for one byte less than it is, so it ends.
        let text = unsafe {
            (self.cudnnGetLastErrorString)(text.as_mut_ptr(), text.len() - 1);
            CStr::from_ptr(text.as_ptr())
        };
        cause(&text.to_string_lossy()).to_owned()
    }

    /// Creates a handle on this thread's device.
    ///
    /// # Errors
    /// cuDNN's.
    pub fn handle(&'static self) -> Result<Object, PluginError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function writes only to the local `handle`, and the new object is owned at once.
        unsafe {
            self.check("cudnnCreate", (self.cudnnCreate)(&mut handle))?;
            Ok(Object::new(handle, self.cudnnDestroy))
        }
    }
}

/// Whether a status means that cuDNN does not support its input. Each thousand of statuses is a family.
fn is_refusal(status: cudnnStatus_t) -> bool {
    const FAMILY: cudnnStatus_t = 1000;
    [STATUS_BAD_PARAM, STATUS_NOT_SUPPORTED].map(|first| first / FAMILY).contains(&(status / FAMILY))
}

/// The first cause in cuDNN's error report: lines with a status and a reason each, callers last, possibly
/// preceded by the engine's number and knobs.
fn cause(text: &str) -> &str {
    let reason = text.lines().find_map(|line| line.split_once("Reason: "));
    reason.map_or(text.lines().next().unwrap_or_default(), |(_, reason)| reason).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_the_first_reason() {
        let text = "{\"engineId\":1}\nWarning: CUDNN_STATUS_NOT_SUPPORTED; Reason: a pattern \n at: true\nError: X; Reason: its caller";
        assert_eq!(cause(text), "a pattern");
        assert_eq!(cause(" ptrDesc->finalize()\n"), "ptrDesc->finalize()");
        assert_eq!(cause(""), "");
    }

    #[test]
    fn only_unsupported_input_is_a_refusal() {
        let refusals = [2000, 2006, 3000, 3014];
        assert!(refusals.into_iter().all(is_refusal));
        // Not initialized, failed allocation, failed compilation, failed execution.
        let failures = [0, 1001, 1999, 4000, 4003, 4004, 5000, 5003];
        assert!(!failures.into_iter().any(is_refusal));
    }

    #[test]
    fn the_library_is_found_or_the_error_says_what_was_looked_for() {
        match Cudnn::find() {
            Ok(cudnn) => {
                // SAFETY: the function takes nothing.
                assert!(unsafe { (cudnn.cudnnGetVersion)() } >= 90000);
                let error = cudnn.check("f", 3000).unwrap_err();
                assert!(error.message().starts_with("f failed with status 3000: CUDNN_STATUS_NOT_SUPPORTED"));
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for cuDNN was found"), "{message}");
                assert!(message.contains("libcudnn.so.9"), "{message}");
            }
        }
    }
}
