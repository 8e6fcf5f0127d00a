//! Operation graphs as bytes and as JSON.

use std::ffi::c_char;

use super::bytes::{check_size, give_bytes};
use super::guard::{guard, guard_often, require};
use crate::descriptor::Descriptor;
use crate::ffi::{hipdnnBackendDescriptor_t, raw};

/// Creates an operation graph from FlatBuffers bytes, of November 2025 or of 2026, or from the bytes of
/// hipdnnBackendGetSerializedBinaryGraphAndPlan_ext. It is open: set HIPDNN_ATTR_OPERATIONGRAPH_HANDLE and finalize it.
///
/// @param[out] descriptor Receives the graph. The caller destroys it with hipdnnBackendDestroyDescriptor.
/// @param[in] serializedGraph The bytes, which are copied. A plan among them is ignored.
/// @param[in] graphByteSize How many.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `serializedGraph` is null;
///     HIPDNN_STATUS_BAD_PARAM when the bytes are empty or damaged, or contain no graph;
///     HIPDNN_STATUS_NOT_SUPPORTED when the graph asks for a newer plugin interface than this library knows.
///
/// # Safety
/// `descriptor` is null or writable, `serializedGraph` null or readable for `graphByteSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendCreateAndDeserializeGraph_ext(
    descriptor: *mut hipdnnBackendDescriptor_t,
    serializedGraph: *const u8,
    graphByteSize: usize,
) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnBackendCreateAndDeserializeGraph_ext",
        move || {
            format!(
                "descriptor={descriptor:p}, serializedGraph={serializedGraph:p}, graphByteSize={graphByteSize}"
            )
        },
        || {
            require!(descriptor);
            require!(serializedGraph);
            check_size("graphByteSize", graphByteSize)?;
            // SAFETY: the bytes are readable, and the size is one that a slice can have.
            let bytes = unsafe { std::slice::from_raw_parts(serializedGraph, graphByteSize) };
            let created = Descriptor::enter_graph_from_bytes(bytes)?;
            // SAFETY: `require!` refused a null `descriptor`, and this function requires that it is writable otherwise.
            unsafe { descriptor.write_unaligned(std::ptr::with_exposed_provenance_mut(created)) };
            Ok(())
        },
        String::new
    )
}

/// Gets the FlatBuffers bytes of an operation graph, in the layout of 2026. The graph need not be finalized.
///
/// @param[in] descriptor The operation graph.
/// @param[in] requestedByteSize The size of `serializedGraph` in bytes.
/// @param[out] graphByteSize Receives the number of bytes, also when the buffer is too small.
/// @param[out] serializedGraph Receives the bytes; null to ask for their number only.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `graphByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when `descriptor` is not a live operation graph;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
///
/// # Safety
/// `graphByteSize` is null or writable, `serializedGraph` null or writable for `requestedByteSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetSerializedBinaryGraph_ext(
    descriptor: hipdnnBackendDescriptor_t,
    requestedByteSize: usize,
    graphByteSize: *mut usize,
    serializedGraph: *mut u8,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!(
            "descriptor={descriptor:p}, requestedByteSize={requestedByteSize}, graphByteSize={graphByteSize:p}, \
             serializedGraph={serializedGraph:p}"
        )
    };
    guard("hipdnnBackendGetSerializedBinaryGraph_ext", describe, || {
        require!(descriptor);
        require!(graphByteSize);
        let bytes = Descriptor::with_access(descriptor.addr(), Descriptor::serialized_graph)?;
        // SAFETY: `graphByteSize` is not null; `serializedGraph` is null or has room for the requested bytes.
        unsafe { give_bytes(&bytes, requestedByteSize, graphByteSize, serializedGraph) }
    })
}

/// Creates an operation graph from JSON, of November 2025 or of 2026. It is open: set HIPDNN_ATTR_OPERATIONGRAPH_HANDLE and
/// finalize it. Tensors and nodes without a type get the graph's default.
///
/// @param[out] descriptor Receives the graph. The caller destroys it with hipdnnBackendDestroyDescriptor.
/// @param[in] jsonGraph The text in UTF-8. It is not kept and need not end with a NUL.
/// @param[in] jsonByteSize The bytes of the text.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `jsonGraph` is null;
///     HIPDNN_STATUS_BAD_PARAM when the text is empty, not JSON or not a graph; the message has the path of the mistake;
///     HIPDNN_STATUS_NOT_SUPPORTED when the graph asks for a newer plugin interface than this library knows.
///
/// # Safety
/// `descriptor` is null or writable, `jsonGraph` null or readable for `jsonByteSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendCreateAndDeserializeJsonGraph_ext(
    descriptor: *mut hipdnnBackendDescriptor_t,
    jsonGraph: *const c_char,
    jsonByteSize: usize,
) -> raw::hipdnnStatus_t {
    let describe =
        move || format!("descriptor={descriptor:p}, jsonGraph={jsonGraph:p}, jsonByteSize={jsonByteSize}");
    guard("hipdnnBackendCreateAndDeserializeJsonGraph_ext", describe, || {
        require!(descriptor);
        require!(jsonGraph);
        check_size("jsonByteSize", jsonByteSize)?;
        // SAFETY: the bytes are readable, and the size is one that a slice can have.
        let text = unsafe { std::slice::from_raw_parts(jsonGraph.cast(), jsonByteSize) };
        let created = Descriptor::graph_from_json(text)?.enter()?;
        // SAFETY: `require!` refused a null `descriptor`, and this function requires that it is writable otherwise.
        unsafe { descriptor.write_unaligned(std::ptr::with_exposed_provenance_mut(created)) };
        Ok(())
    })
}

/// Gets an operation graph as JSON, on one line with keys in alphabetical order. The graph need not be finalized. Stored values
/// and parameters that are NaN or infinite become null.
///
/// @param[in] descriptor The operation graph.
/// @param[in] requestedByteSize The size of `serializedJsonGraph` in bytes.
/// @param[out] graphByteSize Receives the number of bytes, NUL included, also when the buffer is too small.
/// @param[out] serializedJsonGraph Receives the text and a NUL; null to ask for the number of bytes only.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `graphByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when `descriptor` is not a live operation graph;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
///
/// # Safety
/// `graphByteSize` is null or writable, `serializedJsonGraph` null or writable for `requestedByteSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetSerializedJsonGraph_ext(
    descriptor: hipdnnBackendDescriptor_t,
    requestedByteSize: usize,
    graphByteSize: *mut usize,
    serializedJsonGraph: *mut c_char,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!(
            "descriptor={descriptor:p}, requestedByteSize={requestedByteSize}, graphByteSize={graphByteSize:p}, \
             serializedJsonGraph={serializedJsonGraph:p}"
        )
    };
    guard("hipdnnBackendGetSerializedJsonGraph_ext", describe, || {
        require!(descriptor);
        require!(graphByteSize);
        let mut text = Descriptor::with_access(descriptor.addr(), Descriptor::json_graph)?.into_bytes();
        text.push(0);
        // SAFETY: `graphByteSize` is not null; `serializedJsonGraph` is null or has room for the requested bytes.
        unsafe { give_bytes(&text, requestedByteSize, graphByteSize, serializedJsonGraph.cast()) }
    })
}
