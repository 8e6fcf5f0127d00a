//! Descriptors: create, set attributes, finalize, get attributes, execute, destroy.

use std::ffi::c_void;

use super::describe::{self, named};
use super::guard::{guard_often, require};
use crate::descriptor::attribute::{Incoming, Outgoing};
use crate::descriptor::{DESCRIPTORS, Descriptor};
use crate::ffi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type, hipdnnBackendDescriptor_t,
    hipdnnBackendDescriptorType_t as Kind, hipdnnHandle_t, raw,
};
use crate::handle::HANDLES;
use crate::object::with_handles;

/// Creates an open descriptor. No handle is needed.
///
/// @param[in] descriptorType What to create.
/// @param[out] descriptor Receives the descriptor. The caller destroys it with hipdnnBackendDestroyDescriptor.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` is null;
///     HIPDNN_STATUS_NOT_SUPPORTED when descriptors of this type cannot be created.
///
/// # Safety
/// `descriptor` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendCreateDescriptor(
    descriptorType: raw::hipdnnBackendDescriptorType_t,
    descriptor: *mut hipdnnBackendDescriptor_t,
) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnBackendCreateDescriptor",
        move || format!("descriptorType={}, descriptor={descriptor:p}", named::<Kind>(descriptorType)),
        || {
            require!(descriptor);
            let created = Descriptor::create(descriptorType)?;
            // SAFETY: `require!` refused a null `descriptor`, and this function requires that it is writable otherwise.
            unsafe { descriptor.write_unaligned(std::ptr::with_exposed_provenance_mut(created)) };
            Ok(())
        },
        // SAFETY: the call succeeded, so the pointer is not null and was written.
        move || format!("descriptor={:p}", unsafe { descriptor.read_unaligned() })
    )
}

/// Destroys a descriptor. What it shares with other descriptors stays alive with them, so the order of destruction is free.
///
/// @param[in] descriptor The descriptor.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnBackendDestroyDescriptor(
    descriptor: hipdnnBackendDescriptor_t,
) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnBackendDestroyDescriptor",
        move || format!("descriptor={}", describe::descriptor(descriptor.cast())),
        || {
            require!(descriptor);
            DESCRIPTORS.remove(descriptor.addr())
        },
        String::new,
    )
}

/// Runs a plan on the memory in a variant pack, with the plugins of a handle. Returns when the work is issued; a GPU may
/// complete it later, in the order of the handle's stream. Several threads may execute the same plan at once.
///
/// @param[in] handle The handle whose plugin handles and stream are used.
/// @param[in] executionPlan A finalized execution plan.
/// @param[in] variantPack A finalized variant pack with memory for the graph's tensors and the plan's workspace.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when an argument is null;
///     HIPDNN_STATUS_BAD_PARAM when an argument is not live, of the wrong kind or not finalized, when a data pointer is not
///     aligned as its tensor promised, or when the handle does not use the plugins that made the plan;
///     HIPDNN_STATUS_PLUGIN_ERROR when the plugin fails.
///
/// # Safety
/// The memory in the variant pack fits the graph's tensors, and the workspace is as large as the plan requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendExecute(
    handle: hipdnnHandle_t,
    executionPlan: hipdnnBackendDescriptor_t,
    variantPack: hipdnnBackendDescriptor_t,
) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnBackendExecute",
        move || {
            format!(
                "handle={}, executionPlan={}, variantPack={}",
                describe::handle(handle.cast()),
                describe::descriptor(executionPlan.cast()),
                describe::descriptor(variantPack.cast())
            )
        },
        || {
            require!(handle);
            require!(executionPlan);
            require!(variantPack);
            with_handles([handle.addr(), executionPlan.addr(), variantPack.addr()], |using| {
                let session = using.find::<0, _>(&HANDLES)?;
                let plan = using.find::<1, _>(&DESCRIPTORS)?;
                let pack = using.find::<2, _>(&DESCRIPTORS)?;
                plan.check_plan()?;
                pack.check_variant_pack()?;
                plan.plan()?.execute(executionPlan.addr(), session, pack.variant_pack()?)
            })
        },
        String::new
    )
}

/// Checks a descriptor and freezes it. A failure leaves it open and unchanged. Finalizing a graph or a variant pack again
/// does nothing.
///
/// @param[in] descriptor The descriptor.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live descriptor, is already finalized, or lacks an attribute;
///     HIPDNN_STATUS_PLUGIN_ERROR when a plugin fails;
///     HIPDNN_STATUS_INTERNAL_ERROR when a plugin reports success without a usable result.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnBackendFinalize(descriptor: hipdnnBackendDescriptor_t) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnBackendFinalize",
        move || format!("descriptor={}", describe::descriptor(descriptor.cast())),
        || {
            require!(descriptor);
            Descriptor::alone(descriptor.addr(), Descriptor::finalize)
        },
        String::new,
    )
}

/// Reads an attribute of a finalized descriptor. Descriptors that it returns are new and the caller destroys them; only
/// HIPDNN_ATTR_ENGINEHEUR_RESULTS fills engine configurations that the caller created.
///
/// @param[in] descriptor The descriptor.
/// @param[in] attributeName The attribute.
/// @param[in] attributeType The type of the elements, which must be the attribute's.
/// @param[in] requestedElementCount How many elements `arrayOfElements` has room for.
/// @param[out] elementCount How many elements exist if none is requested or `arrayOfElements` is null, else how many
///     were written. May be null when one value is read.
/// @param[out] arrayOfElements Receives the elements.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when a required pointer is null;
///     HIPDNN_STATUS_NOT_INITIALIZED when the descriptor is not finalized, HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED when that
///     is an engine heuristic;
///     HIPDNN_STATUS_NOT_SUPPORTED when the descriptor has no such attribute to read;
///     HIPDNN_STATUS_BAD_PARAM when the type or the count does not match the attribute.
///
/// # Safety
/// `arrayOfElements` is null or has room for `requestedElementCount` elements of the type; `elementCount` is null or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendGetAttribute(
    descriptor: hipdnnBackendDescriptor_t,
    attributeName: raw::hipdnnBackendAttributeName_t,
    attributeType: raw::hipdnnBackendAttributeType_t,
    requestedElementCount: i64,
    elementCount: *mut i64,
    arrayOfElements: *mut c_void,
) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnBackendGetAttribute",
        move || {
            format!(
                "descriptor={}, attributeName={}, attributeType={}, requestedElementCount={requestedElementCount}, \
             elementCount={elementCount:p}, arrayOfElements={arrayOfElements:p}",
                describe::descriptor(descriptor.cast()),
                named::<Name>(attributeName),
                named::<Type>(attributeType)
            )
        },
        || {
            require!(descriptor);
            // SAFETY: this function requires what `Outgoing::new` does: the array has room for the elements requested, and the count is null
            // or writable.
            let outgoing = unsafe {
                Outgoing::new(
                    attributeName,
                    attributeType,
                    requestedElementCount,
                    elementCount,
                    arrayOfElements,
                )
            };
            Descriptor::with_access(descriptor.addr(), |descriptor, access| descriptor.get(access, &outgoing))
        },
        move || {
            // SAFETY: the pointer is null or writable, and a call that succeeds has written it.
            let count = (!elementCount.is_null()).then(|| unsafe { elementCount.read_unaligned() });
            let told =
                count.map_or_else(|| "elementCount=null".to_owned(), |count| format!("elementCount={count}"));
            if arrayOfElements.is_null() || requestedElementCount <= 0 {
                return told;
            }
            // Without a count one value was read.
            let count = count.unwrap_or(1).min(requestedElementCount);
            // SAFETY: the call wrote that many elements of the attribute's type.
            let elements = unsafe { describe::elements(attributeType, count, arrayOfElements) };
            format!("{told}, arrayOfElements={elements}")
        }
    )
}

/// Sets an attribute of an open descriptor. Values are copied and descriptors shared, so the caller may destroy them
/// afterwards. Setting again replaces the value, but HIPDNN_ATTR_OPERATIONGRAPH_OPS appends.
///
/// @param[in] descriptor The descriptor.
/// @param[in] attributeName The attribute.
/// @param[in] attributeType The type of the elements, which must be the attribute's.
/// @param[in] elementCount How many elements there are.
/// @param[in] arrayOfElements The elements.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `descriptor`, `arrayOfElements` or a descriptor in it is null;
///     HIPDNN_STATUS_NOT_INITIALIZED when the descriptor is finalized;
///     HIPDNN_STATUS_NOT_SUPPORTED when the descriptor has no such attribute to set, or does not accept this value;
///     HIPDNN_STATUS_BAD_PARAM when the type, count or value is not valid for the attribute;
///     HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED when a descriptor in the array is not finalized.
///
/// # Safety
/// `arrayOfElements` is null or holds `elementCount` elements of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendSetAttribute(
    descriptor: hipdnnBackendDescriptor_t,
    attributeName: raw::hipdnnBackendAttributeName_t,
    attributeType: raw::hipdnnBackendAttributeType_t,
    elementCount: i64,
    arrayOfElements: *const c_void,
) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnBackendSetAttribute",
        move || {
            format!(
                "descriptor={}, attributeName={}, attributeType={}, elementCount={elementCount}, \
             arrayOfElements={arrayOfElements:p}",
                describe::descriptor(descriptor.cast()),
                named::<Name>(attributeName),
                named::<Type>(attributeType)
            )
        },
        || {
            require!(descriptor);
            // SAFETY: this function requires what `Incoming::new` does: the array is null or has the elements stated.
            let incoming =
                unsafe { Incoming::new(attributeName, attributeType, elementCount, arrayOfElements) };
            Descriptor::alone(descriptor.addr(), |descriptor, access| descriptor.set(access, &incoming))
        },
        // Logged after the call: only accepted elements are known to match the type and count.
        move || {
            // SAFETY: the elements were read, by their type and number.
            let elements = unsafe { describe::elements(attributeType, elementCount, arrayOfElements) };
            format!("arrayOfElements={elements}")
        }
    )
}
