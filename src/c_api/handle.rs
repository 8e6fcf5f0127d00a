//! Handles: a stream, and the plugins that serve it.

use super::guard::{guard, guard_often, require};
use crate::ffi::{hipStream_t, hipdnnHandle_t, raw};
use crate::handle as handles;

/// Creates a handle. The first one loads the engine plugins; a plugin that cannot be loaded is skipped, and the last error
/// string names it although the call succeeds. No device is needed.
///
/// @param[out] handle Receives the new handle. The caller destroys it with hipdnnDestroy.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` is null;
///     HIPDNN_STATUS_NOT_SUPPORTED when plugins must be loaded while this thread loads or unloads one, or while another
///     thread does so and this one waits too long or is in a log callback;
///     HIPDNN_STATUS_INTERNAL_ERROR when there are no file descriptors for the plugins, or the library's own folder cannot be
///         determined;
///     HIPDNN_STATUS_ALLOC_FAILED when there is no memory for a plugin. A later call tries again.
///
/// May be called from any thread.
///
/// # Safety
/// `handle` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCreate(handle: *mut hipdnnHandle_t) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnCreate",
        move || format!("handle={handle:p}"),
        || {
            require!(handle);
            let created = handles::create()?;
            // SAFETY: `require!` refused a null `handle`, and this function requires that it is writable otherwise.
            unsafe { handle.write_unaligned(std::ptr::with_exposed_provenance_mut(created)) };
            Ok(())
        },
        // SAFETY: the call succeeded, so the pointer is not null and was written.
        move || format!("handle={:p}", unsafe { handle.read_unaligned() }),
    )
}

/// Destroys a handle. Plugins keep what its engines, configurations and plans need until those are destroyed. Does not
/// wait for work on the stream.
///
/// @param[in] handle The handle.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live handle.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnDestroy(handle: hipdnnHandle_t) -> raw::hipdnnStatus_t {
    guard_often!(
        "hipdnnDestroy",
        move || format!("handle={handle:p}"),
        || {
            require!(handle);
            handles::destroy(handle.addr())
        },
        String::new,
    )
}

/// Sets the HIP stream that plugins issue work to. If a plugin refuses it, all plugins keep the old stream.
///
/// @param[in] handle The handle.
/// @param[in] streamId The stream, null for the default stream. It must outlive its use. Existing plans stay valid.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` is null;
///     HIPDNN_STATUS_BAD_PARAM when it is not a live handle;
///     HIPDNN_STATUS_PLUGIN_ERROR when a plugin refuses the stream.
///
/// # Safety
/// `streamId` is null or a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnSetStream(
    handle: hipdnnHandle_t,
    streamId: hipStream_t,
) -> raw::hipdnnStatus_t {
    guard(
        "hipdnnSetStream",
        move || format!("handle={handle:p}, streamId={streamId:p}"),
        || {
            require!(handle);
            // SAFETY: the stream is null or alive, as this function requires.
            handles::with(handle.addr(), |session| unsafe { session.set_stream(streamId.cast()) })
        },
    )
}

/// Gets the stream of the last hipdnnSetStream that succeeded.
///
/// @param[in] handle The handle.
/// @param[out] streamId Receives the stream; null on a new handle.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `streamId` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle.
///
/// # Safety
/// `streamId` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetStream(
    handle: hipdnnHandle_t,
    streamId: *mut hipStream_t,
) -> raw::hipdnnStatus_t {
    guard(
        "hipdnnGetStream",
        move || format!("handle={handle:p}, streamId={streamId:p}"),
        || {
            require!(handle);
            require!(streamId);
            let stream = handles::with(handle.addr(), |session| Ok(session.stream()))?;
            // SAFETY: `require!` refused a null `streamId`, and this function requires that it is writable otherwise.
            unsafe { streamId.write_unaligned(stream.cast()) };
            Ok(())
        },
    )
}
