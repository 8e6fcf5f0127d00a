//! Operation graphs from bytes.

use super::guard::{guard, require};
use crate::descriptor::Descriptor;
use crate::ffi::{hipdnnBackendDescriptor_t, raw};
use crate::status::Error;

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
