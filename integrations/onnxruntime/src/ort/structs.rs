//! The structs shared between ONNX Runtime and an execution provider, with members in the order of the interface.

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($(#[$meta:meta])* $name:ident;)+) => {
        $($(#[$meta])*
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        })+
    };
}

opaque! {
    /// The result of a call; null is success.
    OrtStatus;
    /// A log.
    OrtLogger;
    /// A hardware device.
    OrtHardwareDevice;
    /// A device offered by an execution provider.
    OrtEpDevice;
    /// Pairs of strings.
    OrtKeyValuePairs;
    /// The options of a session.
    OrtSessionOptions;
    /// The options of a run.
    OrtRunOptions;
    /// A graph or subgraph.
    OrtGraph;
    /// A node of a graph.
    OrtNode;
    /// A value of a graph: name, type, shape.
    OrtValueInfo;
    /// An attribute of a node.
    OrtOpAttr;
    /// A tensor or another value.
    OrtValue;
    /// The type of a value.
    OrtTypeInfo;
    /// Element type and shape of a tensor.
    OrtTensorTypeAndShapeInfo;
    /// Collects the nodes that an execution provider claims.
    OrtEpGraphSupportInfo;
    /// Provides the name of the node that a state is made for.
    OrtNodeComputeContext;
    /// One execution of a node.
    OrtKernelContext;
    /// A memory info.
    OrtMemoryInfo;
    /// A device's memory.
    OrtMemoryDevice;
    /// A stream of a device.
    OrtSyncStreamImpl;
    /// A stream as passed by ONNX Runtime.
    OrtSyncStream;
    /// An event of a profile.
    OrtProfilingEvent;
    /// The destination of an execution provider's events.
    OrtProfilingEventsContainer;
}

/// The argument of `CreateEpFactories`, which gives access to all functions.
#[repr(C)]
pub struct OrtApiBase {
    /// The functions of a version of the interface.
    pub get_api: unsafe extern "C" fn(u32) -> *const c_void,
    /// `1.X.Y`.
    pub get_version_string: unsafe extern "C" fn() -> *const c_char,
}

/// How nodes are fused.
#[repr(C)]
pub struct OrtNodeFusionOptions {
    /// The version of the interface.
    pub ort_version_supported: u32,
    /// Whether constant initializers are not inputs of the fused node.
    pub drop_constant_initializers: bool,
}

type Status = *mut OrtStatus;

/// Makes execution providers. The struct is that of version 28.
#[repr(C)]
#[expect(missing_docs, reason = "the names of the C interface")]
pub struct OrtEpFactory {
    pub ort_version_supported: u32,
    pub get_name: unsafe extern "C" fn(*const Self) -> *const c_char,
    pub get_vendor: unsafe extern "C" fn(*const Self) -> *const c_char,
    pub get_supported_devices: unsafe extern "C" fn(
        *mut Self,
        *const *const OrtHardwareDevice,
        usize,
        *mut *mut OrtEpDevice,
        usize,
        *mut usize,
    ) -> Status,
    pub create_ep: unsafe extern "C" fn(
        *mut Self,
        *const *const OrtHardwareDevice,
        *const *const OrtKeyValuePairs,
        usize,
        *const OrtSessionOptions,
        *const OrtLogger,
        *mut *mut OrtEp,
    ) -> Status,
    pub release_ep: unsafe extern "C" fn(*mut Self, *mut OrtEp),
    pub get_vendor_id: unsafe extern "C" fn(*const Self) -> u32,
    pub get_version: unsafe extern "C" fn(*const Self) -> *const c_char,
    pub validate_compiled_model: unsafe extern "C" fn(
        *mut Self,
        *const *const OrtHardwareDevice,
        usize,
        *const c_char,
        *mut c_int,
    ) -> Status,
    pub create_allocator: unsafe extern "C" fn(
        *mut Self,
        *const OrtMemoryInfo,
        *const OrtKeyValuePairs,
        *mut *mut OrtAllocator,
    ) -> Status,
    pub release_allocator: unsafe extern "C" fn(*mut Self, *mut OrtAllocator),
    pub create_data_transfer: unsafe extern "C" fn(*mut Self, *mut *mut OrtDataTransferImpl) -> Status,
    pub is_stream_aware: unsafe extern "C" fn(*const Self) -> bool,
    pub create_sync_stream: unsafe extern "C" fn(
        *mut Self,
        *const OrtMemoryDevice,
        *const OrtKeyValuePairs,
        *mut *mut OrtSyncStreamImpl,
    ) -> Status,
    /// Members of versions 24 to 28, all optional: incompatibility details, importer of external resources, two for custom operators,
    /// two for graphics, the choice of a model.
    pub later: [*const c_void; 7],
}

/// A session's execution provider. The struct is that of version 28.
#[repr(C)]
#[expect(missing_docs, reason = "the names of the C interface")]
pub struct OrtEp {
    pub ort_version_supported: u32,
    pub get_name: unsafe extern "C" fn(*const Self) -> *const c_char,
    pub get_capability:
        unsafe extern "C" fn(*mut Self, *const OrtGraph, *mut OrtEpGraphSupportInfo) -> Status,
    pub compile: unsafe extern "C" fn(
        *mut Self,
        *const *const OrtGraph,
        *const *const OrtNode,
        usize,
        *mut *mut OrtNodeComputeInfo,
        *mut *mut OrtNode,
    ) -> Status,
    pub release_node_compute_infos: unsafe extern "C" fn(*mut Self, *mut *mut OrtNodeComputeInfo, usize),
    /// Members of version 23, all optional: preferred layout, conversion of layouts, dynamic options.
    pub optional: [*const c_void; 3],
    pub on_run_start: Option<unsafe extern "C" fn(*mut Self, *const OrtRunOptions) -> Status>,
    pub on_run_end: Option<unsafe extern "C" fn(*mut Self, *const OrtRunOptions, bool) -> Status>,
    /// Members of version 23, both optional: allocator, stream.
    pub memory: [*const c_void; 2],
    pub compatibility: Option<unsafe extern "C" fn(*mut Self, *const OrtGraph) -> *const c_char>,
    /// Members of versions 24 and 25, all optional: kernels, concurrent runs, synchronization.
    pub kernels: [*const c_void; 3],
    pub create_profiler: Option<unsafe extern "C" fn(*mut Self, *mut *mut OrtEpProfilerImpl) -> Status>,
    /// Members of version 26, all optional: four for captured graphs, resources.
    pub captured: [*const c_void; 5],
    pub on_session_initialization_end: Option<unsafe extern "C" fn(*mut Self) -> Status>,
    pub get_default_memory_device:
        Option<unsafe extern "C" fn(*const Self, *mut *const OrtMemoryDevice) -> Status>,
    /// A member of version 27, optional: the end of a captured graph.
    pub later: [*const c_void; 1],
}

/// Receives a profile's events, and provides its own.
#[repr(C)]
#[expect(missing_docs, reason = "the names of the C interface")]
pub struct OrtEpProfilerImpl {
    pub ort_version_supported: u32,
    pub release: unsafe extern "C" fn(*mut Self),
    pub start_profiling: unsafe extern "C" fn(*mut Self, i64) -> Status,
    pub start_event: unsafe extern "C" fn(*mut Self, u64) -> Status,
    pub stop_event: unsafe extern "C" fn(*mut Self, u64, *const OrtProfilingEvent) -> Status,
    pub end_profiling: unsafe extern "C" fn(*mut Self, *mut OrtProfilingEventsContainer) -> Status,
}

/// Allocates memory.
#[repr(C)]
#[expect(missing_docs, reason = "the names of the C interface")]
pub struct OrtAllocator {
    pub version: u32,
    pub alloc: unsafe extern "C" fn(*mut Self, usize) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut Self, *mut c_void),
    pub info: unsafe extern "C" fn(*const Self) -> *const OrtMemoryInfo,
    pub reserve: unsafe extern "C" fn(*mut Self, usize) -> *mut c_void,
    /// Members of version 23, both optional: statistics, allocation on a stream.
    pub optional: [*const c_void; 2],
    pub shrink: Option<unsafe extern "C" fn(*mut Self) -> Status>,
}

/// Copies between devices.
#[repr(C)]
#[expect(missing_docs, reason = "the names of the C interface")]
pub struct OrtDataTransferImpl {
    pub ort_version_supported: u32,
    pub release: unsafe extern "C" fn(*mut Self),
    pub can_copy: unsafe extern "C" fn(*const Self, *const OrtMemoryDevice, *const OrtMemoryDevice) -> bool,
    pub copy_tensors: unsafe extern "C" fn(
        *mut Self,
        *mut *const OrtValue,
        *mut *mut OrtValue,
        *mut *mut OrtSyncStream,
        usize,
    ) -> Status,
}

/// Executes one fused node.
#[repr(C)]
#[expect(missing_docs, reason = "the names of the C interface")]
pub struct OrtNodeComputeInfo {
    pub ort_version_supported: u32,
    pub create_state: unsafe extern "C" fn(*mut Self, *mut OrtNodeComputeContext, *mut *mut c_void) -> Status,
    pub compute: unsafe extern "C" fn(*mut Self, *mut c_void, *mut OrtKernelContext) -> Status,
    pub release_state: unsafe extern "C" fn(*mut Self, *mut c_void),
}

/// The number of pointers after the version of a struct.
const fn slots<T>() -> usize {
    size_of::<T>() / size_of::<*const c_void>() - 1
}

// The struct's number of members in version 28.
const _: () = assert!(slots::<OrtEpFactory>() == 20);
const _: () = assert!(slots::<OrtEp>() == 24);
const _: () = assert!(slots::<OrtNodeComputeInfo>() == 3);
const _: () = assert!(slots::<OrtAllocator>() == 7);
const _: () = assert!(slots::<OrtDataTransferImpl>() == 3);
const _: () = assert!(slots::<OrtEpProfilerImpl>() == 5);
const _: () = assert!(size_of::<OrtNodeFusionOptions>() == 8);
