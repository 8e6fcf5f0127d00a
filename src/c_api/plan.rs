//! Saving and loading execution plans.

use std::ffi::c_int;

use hipdnn_plugin_sdk::wire::{self, Container};

use super::bytes::{check_size, give_bytes};
use super::guard::{guard, require};
use crate::descriptor::{Descriptor, saved_plan};
use crate::ffi::{hipdnnBackendDescriptor_t, hipdnnHandle_t, hipdnnSerializedContentFlags_t as Content, raw};
use crate::status::Error;
use crate::{handle, memory};

/// Gets the bytes of an execution plan, without the graph, for hipdnnBackendCreateAndDeserializeExecutionPlan_ext. They
/// record the plugin and device of the plan, and a checksum.
///
/// @param[in] descriptor The execution plan, finalized.
/// @param[in] requestedByteSize The size of `serializedPlan` in bytes.
/// @param[out] planByteSize Receives the number of bytes, also when the buffer is too small.
/// @param[out] serializedPlan Receives the bytes; null to ask for their number only. The plan then keeps them for the next
///     call.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` or `planByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when `descriptor` is not a live execution plan;
///     HIPDNN_STATUS_NOT_INITIALIZED when it is not finalized;
///     HIPDNN_STATUS_NOT_SUPPORTED when its plugin cannot save plans;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin fails;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
///
/// # Safety
/// `planByteSize` is null or writable, `serializedPlan` null or writable for `requestedByteSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetSerializedExecutionPlan_ext(
    descriptor: hipdnnBackendDescriptor_t,
    requestedByteSize: usize,
    planByteSize: *mut usize,
    serializedPlan: *mut u8,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!(
            "descriptor={descriptor:p}, requestedByteSize={requestedByteSize}, planByteSize={planByteSize:p}, \
             serializedPlan={serializedPlan:p}"
        )
    };
    guard("hipdnnBackendGetSerializedExecutionPlan_ext", describe, || {
        require!(descriptor);
        require!(planByteSize);
        Descriptor::with(descriptor.addr(), |plan| {
            let bytes = if serializedPlan.is_null() { plan.save_plan() } else { plan.take_saved_plan() }?;
            // SAFETY: `planByteSize` is not null; `serializedPlan` is null or has room for the requested bytes.
            let given = unsafe { give_bytes(&bytes, requestedByteSize, planByteSize, serializedPlan) };
            if serializedPlan.is_null() || given.is_err() {
                plan.keep_saved_plan(bytes)?;
            }
            given
        })
    })
}

/// Creates an execution plan from the bytes of one, or from those of hipdnnBackendGetSerializedBinaryGraphAndPlan_ext. It is
/// finalized and can be executed; without a graph, its configuration cannot be read.
///
/// Bytes of this library are loaded only by the same version of the same plugin, on the same device, and only if they are
/// unchanged. Load only bytes that you trust: the plugin may execute code in them.
///
/// @param[in] handle The handle whose plugins are to load the plan. Any handle with the same plugins may execute it.
/// @param[out] descriptor Receives the plan. The caller destroys it with hipdnnBackendDestroyDescriptor.
/// @param[in] serializedPlan The bytes, not needed afterwards.
/// @param[in] planByteSize How many.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle`, `descriptor` or `serializedPlan` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, or the bytes are empty, damaged or contain no plan;
///     HIPDNN_STATUS_NOT_SUPPORTED when the format's version, the plugin, its version or the device differs, or when the
///     plugin cannot load plans;
///     HIPDNN_STATUS_INTERNAL_ERROR when no plugin of the handle has the plan's engine;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin refuses the plan.
///
/// # Safety
/// `descriptor` is null or writable, `serializedPlan` null or readable for `planByteSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendCreateAndDeserializeExecutionPlan_ext(
    handle: hipdnnHandle_t,
    descriptor: *mut hipdnnBackendDescriptor_t,
    serializedPlan: *const u8,
    planByteSize: usize,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!(
            "handle={handle:p}, descriptor={descriptor:p}, serializedPlan={serializedPlan:p}, \
             planByteSize={planByteSize}"
        )
    };
    guard("hipdnnBackendCreateAndDeserializeExecutionPlan_ext", describe, || {
        require!(handle);
        require!(descriptor);
        require!(serializedPlan);
        check_size("planByteSize", planByteSize)?;
        let session = handle::session(handle.addr())?;
        // SAFETY: the bytes are readable, and the size is one that a slice can have.
        let bytes = unsafe { std::slice::from_raw_parts(serializedPlan, planByteSize) };
        let created = Descriptor::plan_from_bytes(&session, "serializedPlan", bytes)?.enter()?;
        // SAFETY: `require!` refused a null `descriptor`, and this function requires that it is writable otherwise.
        unsafe { descriptor.write_unaligned(std::ptr::with_exposed_provenance_mut(created)) };
        Ok(())
    })
}

/// Gets the bytes of an operation graph and of an execution plan for it together.
/// hipdnnBackendCreateAndDeserializeGraph_ext and hipdnnBackendCreateAndDeserializeExecutionPlan_ext load one or the other.
///
/// @param[in] graphDescriptor The operation graph, which need not be finalized.
/// @param[in] executionPlanDescriptor The execution plan, finalized; null to save the graph alone.
/// @param[in] requestedByteSize The size of `serializedBlob` in bytes.
/// @param[out] blobByteSize Receives the number of bytes, also when the buffer is too small.
/// @param[out] serializedBlob Receives the bytes; null to ask for their number only. The plan then keeps its part for the
///     next call.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `graphDescriptor` or `blobByteSize` is null;
///     HIPDNN_STATUS_BAD_PARAM when a descriptor is not live or not of its kind;
///     HIPDNN_STATUS_NOT_INITIALIZED when the plan is not finalized;
///     HIPDNN_STATUS_NOT_SUPPORTED when its plugin cannot save plans;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin fails;
///     HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT when the buffer is too small.
///
/// # Safety
/// `blobByteSize` is null or writable, `serializedBlob` null or writable for `requestedByteSize` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(
    graphDescriptor: hipdnnBackendDescriptor_t,
    executionPlanDescriptor: hipdnnBackendDescriptor_t,
    requestedByteSize: usize,
    blobByteSize: *mut usize,
    serializedBlob: *mut u8,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!(
            "graphDescriptor={graphDescriptor:p}, executionPlanDescriptor={executionPlanDescriptor:p}, \
             requestedByteSize={requestedByteSize}, blobByteSize={blobByteSize:p}, \
             serializedBlob={serializedBlob:p}"
        )
    };
    guard("hipdnnBackendGetSerializedBinaryGraphAndPlan_ext", describe, || {
        require!(graphDescriptor);
        require!(blobByteSize);
        let graph = Descriptor::with_access(graphDescriptor.addr(), Descriptor::serialized_graph)?;
        let pack = |plan: &[u8]| {
            memory::require(
                "the graph and the plan",
                graph.len().saturating_add(plan.len()).saturating_mul(4),
            )?;
            wire::write_container(Container { graph: &graph, plan })
                .map_err(|error| Error::bad_param(error.0))
        };
        if executionPlanDescriptor.is_null() {
            // SAFETY: `blobByteSize` is not null; `serializedBlob` is null or has room for the requested bytes.
            return unsafe { give_bytes(&pack(&[])?, requestedByteSize, blobByteSize, serializedBlob) };
        }
        Descriptor::with(executionPlanDescriptor.addr(), |plan| {
            let saved = if serializedBlob.is_null() { plan.save_plan() } else { plan.take_saved_plan() }?;
            // SAFETY: `blobByteSize` is not null; `serializedBlob` is null or has room for the requested bytes.
            let given =
                unsafe { give_bytes(&pack(&saved)?, requestedByteSize, blobByteSize, serializedBlob) };
            if serializedBlob.is_null() || given.is_err() {
                plan.keep_saved_plan(saved)?;
            }
            given
        })
    })
}

/// Tells what bytes of hipdnnBackendGetSerializedBinaryGraphAndPlan_ext contain. Any other bytes count as a graph.
///
/// @param[in] serializedBlob The bytes.
/// @param[in] blobByteSize How many.
/// @param[out] contentFlags Receives one or both values of hipdnnSerializedContentFlags_t.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `serializedBlob` or `contentFlags` is null;
///     HIPDNN_STATUS_BAD_PARAM when the bytes carry the mark of that function and are damaged.
///
/// # Safety
/// `serializedBlob` is null or readable for `blobByteSize` bytes, `contentFlags` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetSerializedBinaryContents_ext(
    serializedBlob: *const u8,
    blobByteSize: usize,
    contentFlags: *mut c_int,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!(
            "serializedBlob={serializedBlob:p}, blobByteSize={blobByteSize}, contentFlags={contentFlags:p}"
        )
    };
    guard("hipdnnBackendGetSerializedBinaryContents_ext", describe, || {
        require!(serializedBlob);
        require!(contentFlags);
        // Empty bytes also count as a graph.
        check_size("blobByteSize", blobByteSize.max(1))?;
        // SAFETY: the bytes are readable, and the size is one that a slice can have.
        let bytes = unsafe { std::slice::from_raw_parts(serializedBlob, blobByteSize) };
        let mut flags = Content::HIPDNN_SERIALIZED_CONTENT_GRAPH as c_int;
        if saved_plan::has_plan("serializedBlob", bytes)? {
            flags |= Content::HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN as c_int;
        }
        // SAFETY: `require!` refused a null `contentFlags`, and this function requires that it is writable otherwise.
        unsafe { contentFlags.write_unaligned(flags) };
        Ok(())
    })
}
