//! The functions of a `libhipdnn_backend.so`, looked up by name when it is opened.
//!
//! A library older or newer than this crate may lack some of them; the error comes when such a function is needed.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use hipdnn_plugin_sdk::dynlib::Library;

use crate::error::{Error, Result};

/// A `hipdnnStatus_t`.
pub type Status = c_int;
/// A `hipdnnHandle_t`.
pub type RawHandle = *mut c_void;
/// A `hipdnnBackendDescriptor_t`.
pub type RawDescriptor = *mut c_void;
/// A `hipdnnUserLogCallback_t`: the data given to `hipdnnSetUserLogCallback_ext`, the severity, the line.
pub type LogCallback = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)+) => {
        /// The library's functions. The methods return them, or an error if the library lacks them.
        #[expect(non_snake_case, reason = "the names of the C interface")]
        pub struct Functions {
            $($name: Option<unsafe extern "C" fn($($type),*) $(-> $result)?>,)+
            // Last, so that it is dropped last.
            library: Library,
        }

        #[expect(non_snake_case, reason = "the names of the C interface")]
        impl Functions {
            /// Opens a library by its path or, if the name has no slash, by the loader's search.
            pub fn open(path: &Path) -> Result<Self> {
                let library = Library::open(path).map_err(|error| Error::Library(error.to_string()))?;
                Ok(Self {
                    // SAFETY: these are the signatures of the functions with these names.
                    $($name: unsafe { library.function(stringify!($name)) },)+
                    library,
                })
            }

            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub fn $name(&self) -> Result<unsafe extern "C" fn($($type),*) $(-> $result)?> {
                    self.$name.ok_or_else(|| self.lacks(stringify!($name)))
                }
            )+
        }
    };
}

functions! {
    fn hipdnnCreate(handle: *mut RawHandle) -> Status;
    fn hipdnnDestroy(handle: RawHandle) -> Status;
    fn hipdnnSetStream(handle: RawHandle, stream: *mut c_void) -> Status;
    fn hipdnnBackendCreateDescriptor(kind: c_int, descriptor: *mut RawDescriptor) -> Status;
    fn hipdnnBackendDestroyDescriptor(descriptor: RawDescriptor) -> Status;
    fn hipdnnBackendExecute(handle: RawHandle, plan: RawDescriptor, pack: RawDescriptor) -> Status;
    fn hipdnnBackendFinalize(descriptor: RawDescriptor) -> Status;
    fn hipdnnBackendGetAttribute(
        descriptor: RawDescriptor,
        name: c_int,
        kind: c_int,
        requested: i64,
        count: *mut i64,
        array: *mut c_void,
    ) -> Status;
    fn hipdnnBackendSetAttribute(
        descriptor: RawDescriptor,
        name: c_int,
        kind: c_int,
        count: i64,
        array: *const c_void,
    ) -> Status;
    fn hipdnnGetLastErrorString(message: *mut c_char, size: usize);
    fn hipdnnBackendCreateAndDeserializeGraph_ext(
        descriptor: *mut RawDescriptor,
        bytes: *const u8,
        size: usize,
    ) -> Status;
    fn hipdnnBackendCreateAndDeserializeJsonGraph_ext(
        descriptor: *mut RawDescriptor,
        text: *const c_char,
        size: usize,
    ) -> Status;
    fn hipdnnBackendGetSerializedBinaryGraph_ext(
        descriptor: RawDescriptor,
        requested: usize,
        size: *mut usize,
        bytes: *mut u8,
    ) -> Status;
    fn hipdnnBackendGetSerializedJsonGraph_ext(
        descriptor: RawDescriptor,
        requested: usize,
        size: *mut usize,
        text: *mut c_char,
    ) -> Status;
    fn hipdnnBackendGetSerializedExecutionPlan_ext(
        descriptor: RawDescriptor,
        requested: usize,
        size: *mut usize,
        bytes: *mut u8,
    ) -> Status;
    fn hipdnnBackendCreateAndDeserializeExecutionPlan_ext(
        handle: RawHandle,
        descriptor: *mut RawDescriptor,
        bytes: *const u8,
        size: usize,
    ) -> Status;
    fn hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(
        graph: RawDescriptor,
        plan: RawDescriptor,
        requested: usize,
        size: *mut usize,
        bytes: *mut u8,
    ) -> Status;
    fn hipdnnBackendGetSerializedBinaryContents_ext(bytes: *const u8, size: usize, flags: *mut c_int) -> Status;
    fn hipdnnSetUserLogCallback_ext(
        callback: Option<LogCallback>,
        level: c_int,
        mode: c_int,
        user: *mut c_void,
    ) -> Status;
    fn hipdnnBackendSetGlobalLogLevel_ext(level: c_int) -> Status;
    fn hipdnnBackendGetGlobalLogLevel_ext(level: *mut c_int) -> Status;
    fn hipdnnSetEnginePluginPaths_ext(count: usize, paths: *const *const c_char, mode: c_int) -> Status;
    fn hipdnnGetLoadedEnginePluginPaths_ext(
        handle: RawHandle,
        count: *mut usize,
        paths: *mut *mut c_char,
        length: *mut usize,
    ) -> Status;
    fn hipdnnGetEngineCount_ext(handle: RawHandle, count: *mut usize) -> Status;
    fn hipdnnGetEngineKind_ext(
        handle: RawHandle,
        index: usize,
        device: *mut u32,
        implementation: *mut u32,
    ) -> Status;
    fn hipdnnGetEngineInfo_ext(
        handle: RawHandle,
        index: usize,
        id: *mut i64,
        name: *mut c_char,
        name_length: *mut usize,
        plugin: *mut c_char,
        plugin_length: *mut usize,
        version: *mut c_char,
        version_length: *mut usize,
        kind: *mut c_char,
        kind_length: *mut usize,
    ) -> Status;
    fn hipdnnGetHeuristicPolicyCount_ext(handle: RawHandle, count: *mut usize) -> Status;
    fn hipdnnGetHeuristicPolicyInfo_ext(
        handle: RawHandle,
        index: usize,
        id: *mut i64,
        name: *mut c_char,
        name_length: *mut usize,
        plugin: *mut c_char,
        plugin_length: *mut usize,
        version: *mut c_char,
        version_length: *mut usize,
        api_version: *mut c_char,
        api_version_length: *mut usize,
    ) -> Status;
    fn hipdnnBackendWriteEngineRankingResults_ext(
        handle: RawHandle,
        graph: RawDescriptor,
        ids: *const i64,
        count: usize,
        outcome: *mut c_int,
    ) -> Status;
    fn hipdnnBackendWriteEngineTimes_ext(
        handle: RawHandle,
        graph: RawDescriptor,
        ids: *const i64,
        milliseconds: *const f64,
        count: usize,
        outcome: *mut c_int,
    ) -> Status;
    fn hipdnnVersionString_ext() -> *const c_char;
}

impl Functions {
    /// The name that opened the library.
    pub fn path(&self) -> &str {
        self.library.name()
    }

    /// The file that was opened.
    pub fn file(&self) -> Option<std::path::PathBuf> {
        self.library.file_of("hipdnnCreate")
    }

    fn lacks(&self, function: &'static str) -> Error {
        Error::Function { library: self.path().to_owned(), function }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_a_library_lacks_is_named() {
        let name = hipdnn_plugin_sdk::os::library::vendor_name("libm.so.6");
        let functions = Functions::open(Path::new(&*name)).unwrap();
        let error = functions.hipdnnCreate().unwrap_err();
        assert_eq!(error.to_string(), format!("{name} has no function hipdnnCreate"));
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let error = Functions::open(Path::new("/no/such/libhipdnn_backend.so")).err().unwrap();
        assert!(error.to_string().contains("/no/such/libhipdnn_backend.so"), "{error}");
    }
}
