//! ONNX Runtime's functions by their index in its tables. Tables only grow, so an index never changes.

use std::ffi::{c_char, c_int, c_void};

use super::structs::*;

type Status = *mut OrtStatus;

/// Declares a table: index, the version that added the function, its name and signature.
macro_rules! table {
    ($(#[$meta:meta])* $name:ident { $($slot:literal since $since:literal $function:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $name(*const *const c_void);

        // SAFETY: the table is constant and lives as long as ONNX Runtime, and any thread may call its functions.
        unsafe impl Send for $name {}
        // SAFETY: the table is never written.
        unsafe impl Sync for $name {}

        impl $name {
            /// Indices, versions and names of the functions used.
            pub const FUNCTIONS: &'static [(usize, u32, &'static str)] = &[$(($slot, $since, stringify!($function)),)+];

            /// The table at an address.
            ///
            /// # Safety
            /// The address is that of such a table, of a version with every function that is called.
            pub unsafe fn at(address: *const c_void) -> Self {
                Self(address.cast())
            }

            $(
                #[doc = concat!("`", stringify!($function), "`, since version ", stringify!($since), ".")]
                ///
                /// # Safety
                /// The arguments are as the interface requires.
                #[allow(non_snake_case, clippy::too_many_arguments, reason = "the functions of the C interface")]
                pub unsafe fn $function(self, $($argument: $type),*) $(-> $result)? {
                    // SAFETY: the table has this index, with a function of this signature.
                    let function = unsafe {
                        let entry = self.0.add($slot).read();
                        std::mem::transmute::<*const c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>(entry)
                    };
                    // SAFETY: the address is that of such a table, of a version with every function that is called, as this function
                    // requires.
                    unsafe { function($($argument),*) }
                }
            )+
        }

        #[expect(clippy::indexing_slicing, reason = "both indices are below the length")]
        const _: () = {
            let mut at = 1;
            while at < $name::FUNCTIONS.len() {
                assert!($name::FUNCTIONS[at - 1].0 < $name::FUNCTIONS[at].0, "places rise");
                at += 1;
            }
        };
    };
}

table! {
    /// `OrtApi`.
    OrtApi {
        0 since 1 CreateStatus(code: c_int, text: *const c_char) -> Status;
        1 since 1 GetErrorCode(status: *const OrtStatus) -> c_int;
        2 since 1 GetErrorMessage(status: *const OrtStatus) -> *const c_char;
        39 since 1 CreateRunOptions(options: *mut *mut OrtRunOptions) -> Status;
        46 since 1 RunOptionsSetTerminate(options: *mut OrtRunOptions) -> Status;
        47 since 1 RunOptionsUnsetTerminate(options: *mut OrtRunOptions) -> Status;
        51 since 1 GetTensorMutableData(value: *mut OrtValue, data: *mut *mut c_void) -> Status;
        55 since 1 CastTypeInfoToTensorInfo(info: *const OrtTypeInfo, tensor: *mut *const OrtTensorTypeAndShapeInfo) -> Status;
        56 since 1 GetOnnxTypeFromTypeInfo(info: *const OrtTypeInfo, kind: *mut c_int) -> Status;
        60 since 1 GetTensorElementType(info: *const OrtTensorTypeAndShapeInfo, kind: *mut c_int) -> Status;
        61 since 1 GetDimensionsCount(info: *const OrtTensorTypeAndShapeInfo, count: *mut usize) -> Status;
        62 since 1 GetDimensions(info: *const OrtTensorTypeAndShapeInfo, dims: *mut i64, count: usize) -> Status;
        63 since 1 GetSymbolicDimensions(info: *const OrtTensorTypeAndShapeInfo, names: *mut *const c_char, count: usize) -> Status;
        65 since 1 GetTensorTypeAndShape(value: *const OrtValue, info: *mut *mut OrtTensorTypeAndShapeInfo) -> Status;
        90 since 1 KernelContext_GetInput(context: *const OrtKernelContext, index: usize, value: *mut *const OrtValue) -> Status;
        91 since 1 KernelContext_GetOutput(context: *mut OrtKernelContext, index: usize, dims: *const i64, count: usize, value: *mut *mut OrtValue) -> Status;
        93 since 1 ReleaseStatus(status: *mut OrtStatus);
        94 since 1 ReleaseMemoryInfo(info: *mut OrtMemoryInfo);
        96 since 1 ReleaseValue(value: *mut OrtValue);
        97 since 1 ReleaseRunOptions(options: *mut OrtRunOptions);
        99 since 1 ReleaseTensorTypeAndShapeInfo(info: *mut OrtTensorTypeAndShapeInfo);
        211 since 12 CreateOpAttr(name: *const c_char, data: *const c_void, length: c_int, kind: c_int, attribute: *mut *mut OrtOpAttr) -> Status;
        212 since 12 ReleaseOpAttr(attribute: *mut OrtOpAttr);
        247 since 15 Logger_LogMessage(logger: *const OrtLogger, level: c_int, text: *const c_char, file: *const c_char, line: c_int, function: *const c_char) -> Status;
        248 since 15 Logger_GetLoggingSeverityLevel(logger: *const OrtLogger, level: *mut c_int) -> Status;
        272 since 17 ReadOpAttr(attribute: *const OrtOpAttr, kind: c_int, data: *mut c_void, bytes: usize, size: *mut usize) -> Status;
        274 since 17 KernelContext_ParallelFor(context: *const OrtKernelContext, work: unsafe extern "C" fn(*mut c_void, usize), total: usize, batches: usize, data: *mut c_void) -> Status;
        289 since 22 GetValueInfoName(info: *const OrtValueInfo, name: *mut *const c_char) -> Status;
        290 since 22 GetValueInfoTypeInfo(info: *const OrtValueInfo, kind: *mut *const OrtTypeInfo) -> Status;
        291 since 22 GetModelEditorApi() -> *const c_void;
        298 since 22 GetKeyValuePairs(pairs: *const OrtKeyValuePairs, keys: *mut *const *const c_char, values: *mut *const *const c_char, count: *mut usize);
        300 since 22 ReleaseKeyValuePairs(pairs: *mut OrtKeyValuePairs);
        307 since 22 HardwareDevice_Type(device: *const OrtHardwareDevice) -> c_int;
        308 since 22 HardwareDevice_VendorId(device: *const OrtHardwareDevice) -> u32;
        317 since 22 GetEpApi() -> *const c_void;
        318 since 23 GetTensorSizeInBytes(value: *const OrtValue, bytes: *mut usize) -> Status;
        320 since 23 CreateMemoryInfo_V2(name: *const c_char, device: c_int, vendor: u32, number: i32, kind: c_int, alignment: usize, allocator: c_int, info: *mut *mut OrtMemoryInfo) -> Status;
        326 since 23 ValueInfo_GetInitializerValue(info: *const OrtValueInfo, value: *mut *const OrtValue) -> Status;
        331 since 23 ValueInfo_IsConstantInitializer(info: *const OrtValueInfo, answer: *mut bool) -> Status;
        332 since 23 ValueInfo_IsFromOuterScope(info: *const OrtValueInfo, answer: *mut bool) -> Status;
        334 since 23 Graph_GetModelPath(graph: *const OrtGraph, path: *mut *const c_char) -> Status;
        344 since 23 Graph_GetNumNodes(graph: *const OrtGraph, count: *mut usize) -> Status;
        345 since 23 Graph_GetNodes(graph: *const OrtGraph, nodes: *mut *const OrtNode, count: usize) -> Status;
        346 since 23 Graph_GetParentNode(graph: *const OrtGraph, node: *mut *const OrtNode) -> Status;
        349 since 23 Node_GetName(node: *const OrtNode, name: *mut *const c_char) -> Status;
        350 since 23 Node_GetOperatorType(node: *const OrtNode, name: *mut *const c_char) -> Status;
        351 since 23 Node_GetDomain(node: *const OrtNode, name: *mut *const c_char) -> Status;
        352 since 23 Node_GetSinceVersion(node: *const OrtNode, version: *mut c_int) -> Status;
        353 since 23 Node_GetNumInputs(node: *const OrtNode, count: *mut usize) -> Status;
        354 since 23 Node_GetInputs(node: *const OrtNode, inputs: *mut *const OrtValueInfo, count: usize) -> Status;
        355 since 23 Node_GetNumOutputs(node: *const OrtNode, count: *mut usize) -> Status;
        356 since 23 Node_GetOutputs(node: *const OrtNode, outputs: *mut *const OrtValueInfo, count: usize) -> Status;
        357 since 23 Node_GetNumImplicitInputs(node: *const OrtNode, count: *mut usize) -> Status;
        358 since 23 Node_GetImplicitInputs(node: *const OrtNode, inputs: *mut *const OrtValueInfo, count: usize) -> Status;
        359 since 23 Node_GetNumAttributes(node: *const OrtNode, count: *mut usize) -> Status;
        360 since 23 Node_GetAttributes(node: *const OrtNode, attributes: *mut *const OrtOpAttr, count: usize) -> Status;
        362 since 23 OpAttr_GetTensorAttributeAsOrtValue(attribute: *const OrtOpAttr, value: *mut *mut OrtValue) -> Status;
        363 since 23 OpAttr_GetType(attribute: *const OrtOpAttr, kind: *mut c_int) -> Status;
        364 since 23 OpAttr_GetName(attribute: *const OrtOpAttr, name: *mut *const c_char) -> Status;
        368 since 23 Node_GetEpName(node: *const OrtNode, name: *mut *const c_char) -> Status;
        378 since 23 GetTensorData(value: *const OrtValue, data: *mut *const c_void) -> Status;
        379 since 23 GetSessionOptionsConfigEntries(options: *const OrtSessionOptions, pairs: *mut *mut OrtKeyValuePairs) -> Status;
        390 since 24 TensorTypeAndShape_HasShape(info: *const OrtTensorTypeAndShapeInfo) -> bool;
        414 since 24 GetTensorElementTypeAndShapeDataReference(value: *const OrtValue, kind: *mut c_int, dims: *mut *const i64, count: *mut usize) -> Status;
    }
}

table! {
    /// `OrtEpApi`.
    OrtEpApi {
        0 since 22 CreateEpDevice(factory: *mut OrtEpFactory, device: *const OrtHardwareDevice, metadata: *const OrtKeyValuePairs, options: *const OrtKeyValuePairs, made: *mut *mut OrtEpDevice) -> Status;
        2 since 23 EpGraphSupportInfo_AddNodesToFuse(info: *mut OrtEpGraphSupportInfo, nodes: *const *const OrtNode, count: usize, options: *const OrtNodeFusionOptions) -> Status;
        5 since 23 EpDevice_AddAllocatorInfo(device: *mut OrtEpDevice, info: *const OrtMemoryInfo) -> Status;
        6 since 23 MemoryInfo_GetMemoryDevice(info: *const OrtMemoryInfo) -> *const OrtMemoryDevice;
        7 since 23 Value_GetMemoryDevice(value: *const OrtValue) -> *const OrtMemoryDevice;
        8 since 23 MemoryDevice_AreEqual(a: *const OrtMemoryDevice, b: *const OrtMemoryDevice) -> bool;
        9 since 23 MemoryDevice_GetDeviceType(device: *const OrtMemoryDevice) -> c_int;
        10 since 23 MemoryDevice_GetMemoryType(device: *const OrtMemoryDevice) -> c_int;
        11 since 23 MemoryDevice_GetVendorId(device: *const OrtMemoryDevice) -> u32;
        16 since 24 CreateHardwareDevice(kind: c_int, vendor: u32, number: u32, name: *const c_char, metadata: *const OrtKeyValuePairs, device: *mut *mut OrtHardwareDevice) -> Status;
        17 since 24 ReleaseHardwareDevice(device: *mut OrtHardwareDevice);
        65 since 25 CreateProfilingEvent(category: c_int, process: i32, thread: i32, name: *const c_char, begun: i64, duration: i64, keys: *const *const c_char, values: *const *const c_char, count: usize, event: *mut *mut OrtProfilingEvent) -> Status;
        66 since 25 ReleaseProfilingEvent(event: *mut OrtProfilingEvent);
        72 since 25 ProfilingEventsContainer_AddEvents(container: *mut OrtProfilingEventsContainer, events: *const *const OrtProfilingEvent, count: usize) -> Status;
    }
}

table! {
    /// `OrtModelEditorApi`.
    OrtModelEditorApi {
        6 since 22 CreateNode(operator: *const c_char, domain: *const c_char, name: *const c_char, inputs: *const *const c_char, count_in: usize, outputs: *const *const c_char, count_out: usize, attributes: *mut *mut OrtOpAttr, count: usize, node: *mut *mut OrtNode) -> Status;
    }
}
