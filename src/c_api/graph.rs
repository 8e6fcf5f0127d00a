//! Operation graphs from bytes.

use super::guard::{guard, require};
use crate::descriptor::Descriptor;
use crate::ffi::{hipdnnBackendDescriptor_t, raw};
use crate::status::{Error, Result, Status};

/// Makes an operation graph from FlatBuffers bytes, of November 2025 or of 2026. It is open: the caller sets
/// HIPDNN_ATTR_OPERATIONGRAPH_HANDLE and finalizes it.
///
/// @param[out] descriptor Where the graph goes. The caller ends it with hipdnnBackendDestroyDescriptor.
/// @param[in] serializedGraph The bytes, which are copied.
/// @param[in] graphByteSize How many.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `serializedGraph` is null;
///     HIPDNN_STATUS_BAD_PARAM when there are no bytes or they are not a graph;
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
    let describe = move || {
        format!(
            "descriptor={descriptor:p}, serializedGraph={serializedGraph:p}, graphByteSize={graphByteSize}"
        )
    };
    guard("hipdnnBackendCreateAndDeserializeGraph_ext", describe, || {
        require!(descriptor);
        require!(serializedGraph);
        if graphByteSize == 0 || isize::try_from(graphByteSize).is_err() {
            return Err(Error::bad_param(format!(
                "graphByteSize is {graphByteSize}, expected the number of bytes in serializedGraph"
            )));
        }
        // SAFETY: the bytes are readable, and the size is one that a slice can have.
        let bytes = unsafe { std::slice::from_raw_parts(serializedGraph, graphByteSize) };
        let created = Descriptor::graph_from_bytes(bytes.to_vec())?.enter()?;
        // SAFETY: the pointer is writable.
        unsafe { descriptor.write_unaligned(std::ptr::with_exposed_provenance_mut(created)) };
        Ok(())
    })
}

/// Gives the FlatBuffers bytes of an operation graph, in the layout of 2026. The graph need not be finalized.
///
/// @param[in] descriptor The operation graph.
/// @param[in] requestedByteSize The bytes that `serializedGraph` has room for.
/// @param[out] graphByteSize Where the number of bytes goes, also when there is too little room for them.
/// @param[out] serializedGraph Where the bytes go; null to ask for their number only.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `graphByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when `descriptor` is not a live operation graph;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when there is too little room.
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
        let bytes = Descriptor::with(descriptor.addr(), Descriptor::serialized_graph)?;
        // SAFETY: the caller vouches for both.
        unsafe { give_bytes(&bytes, requestedByteSize, graphByteSize, serializedGraph) }
    })
}

/// Answers a two-call query for bytes: their number always, themselves where there is room.
///
/// # Safety
/// `size` is writable, and `to` null or writable for `room` bytes.
unsafe fn give_bytes(bytes: &[u8], room: usize, size: *mut usize, to: *mut u8) -> Result<()> {
    // SAFETY: the pointer is writable.
    unsafe { size.write_unaligned(bytes.len()) };
    if to.is_null() {
        return Ok(());
    }
    if room < bytes.len() {
        return Err(Error::new(
            Status::HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
            format!("requestedByteSize is {room}, expected at least {}", bytes.len()),
        ));
    }
    // SAFETY: there is room for the bytes.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}
