//! The search paths of plugins, and the plugins found.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::path::PathBuf;

use hipdnn_plugin_sdk::os;

use super::guard::{guard, require};
use crate::ffi::{
    CEnum, hipdnnHandle_t, hipdnnPluginLoadingMode_ext_t as LoadingMode,
    hipdnnPluginUnloadingMode_ext_t as UnloadingMode, raw,
};
use crate::handle as handles;
use crate::plugin::paths::Mode;
use crate::plugin::registry::Kind;
use crate::status::{Error, Result};

/// More paths than any program has: a larger count is a mistake, and reading that far would be unsafe.
const MAX_PATHS: usize = 1 << 20;

/// Sets where engine plugins are looked for, from the next handle on: folders, files, or bare library names. Relative paths
/// start from the library's own folder.
///
/// @param[in] numPaths How many paths there are; with 0 the array is not looked at.
/// @param[in] pluginPaths The paths, which are copied. They need not exist.
/// @param[in] loadingMode HIPDNN_PLUGIN_LOADING_ADDITIVE adds to the default folder (or HIPDNN_PLUGIN_DIR) and to the paths
///     of earlier calls, HIPDNN_PLUGIN_LOADING_ABSOLUTE replaces all of these.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when the array or a path is null;
///     HIPDNN_STATUS_BAD_PARAM when the mode is not known;
///     HIPDNN_STATUS_NOT_SUPPORTED while a handle is alive;
///     HIPDNN_STATUS_INTERNAL_ERROR when `numPaths` is beyond reason.
///
/// # Safety
/// `pluginPaths` is null or holds `numPaths` pointers, each null or to a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnSetEnginePluginPaths_ext(
    numPaths: usize,
    pluginPaths: *const *const c_char,
    loadingMode: raw::hipdnnPluginLoadingMode_ext_t,
) -> raw::hipdnnStatus_t {
    let describe =
        move || format!("numPaths={numPaths}, pluginPaths={pluginPaths:p}, loadingMode={loadingMode}");
    guard("hipdnnSetEnginePluginPaths_ext", describe, || {
        // SAFETY: `pluginPaths` is null or holds `numPaths` pointers to NUL terminated texts.
        unsafe { set_paths(Kind::Engines, numPaths, pluginPaths, loadingMode) }
    })
}

/// Sets where heuristic plugins are looked for, from the next handle on: folders, files, or bare library names. Relative
/// paths start from the library's own folder. The library's own policies are always available.
///
/// @param[in] numPaths How many paths there are; with 0 the array is not looked at.
/// @param[in] pluginPaths The paths, which are copied. They need not exist.
/// @param[in] loadingMode HIPDNN_PLUGIN_LOADING_ADDITIVE adds to the default folder (or HIPDNN_HEURISTIC_PLUGIN_DIR) and to
///     the paths of earlier calls, HIPDNN_PLUGIN_LOADING_ABSOLUTE replaces all of these.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when the array or a path is null;
///     HIPDNN_STATUS_BAD_PARAM when the mode is not known;
///     HIPDNN_STATUS_NOT_SUPPORTED while a handle is alive;
///     HIPDNN_STATUS_INTERNAL_ERROR when `numPaths` is beyond reason.
///
/// # Safety
/// `pluginPaths` is null or holds `numPaths` pointers, each null or to a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnSetHeuristicPluginPaths_ext(
    numPaths: usize,
    pluginPaths: *const *const c_char,
    loadingMode: raw::hipdnnPluginLoadingMode_ext_t,
) -> raw::hipdnnStatus_t {
    let describe =
        move || format!("numPaths={numPaths}, pluginPaths={pluginPaths:p}, loadingMode={loadingMode}");
    guard("hipdnnSetHeuristicPluginPaths_ext", describe, || {
        // SAFETY: `pluginPaths` is null or holds `numPaths` pointers to NUL terminated texts.
        unsafe { set_paths(Kind::Heuristics, numPaths, pluginPaths, loadingMode) }
    })
}

/// Sets the paths of one kind of plugins.
///
/// # Safety
/// `paths` is null or holds `count` pointers, each null or to a text that ends with a NUL.
unsafe fn set_paths(
    kind: Kind,
    count: usize,
    paths: *const *const c_char,
    mode: raw::hipdnnPluginLoadingMode_ext_t,
) -> Result<()> {
    // SAFETY: `paths` is null or holds `count` pointers to NUL terminated texts.
    let paths = unsafe { read_paths(count, paths) }?;
    let mode = match LoadingMode::from_raw(mode) {
        Some(LoadingMode::HIPDNN_PLUGIN_LOADING_ADDITIVE) => Mode::Additive,
        Some(LoadingMode::HIPDNN_PLUGIN_LOADING_ABSOLUTE) => Mode::Absolute,
        None => {
            return Err(Error::bad_param(format!(
                "loadingMode is {mode}, expected HIPDNN_PLUGIN_LOADING_ADDITIVE (0) or \
                 HIPDNN_PLUGIN_LOADING_ABSOLUTE (1)"
            )));
        }
    };
    handles::set_plugin_paths(kind, paths, mode)
}

/// Reads an array of paths.
///
/// # Safety
/// `paths` is null or holds `count` pointers, each null or to a text that ends with a NUL.
unsafe fn read_paths(count: usize, paths: *const *const c_char) -> Result<Vec<PathBuf>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if paths.is_null() {
        return Err(Error::null_pointer(format!("pluginPaths is null, expected {count} paths")));
    }
    if count > MAX_PATHS {
        return Err(Error::internal(format!("numPaths is {count}, expected at most {MAX_PATHS}")));
    }
    let read = |i: usize| {
        // SAFETY: the array holds `count` pointers.
        let path = unsafe { paths.add(i).read_unaligned() };
        if path.is_null() {
            return Err(Error::null_pointer(format!("pluginPaths[{i}] is null")));
        }
        // SAFETY: the text ends with a NUL.
        let path = unsafe { CStr::from_ptr(path) };
        Ok(os::paths::from_bytes(path.to_bytes()))
    };
    (0..count).map(read).collect()
}

/// Sets when plugins that no handle uses are unloaded. May be called at any time.
///
/// @param[in] unloadingMode HIPDNN_PLUGIN_UNLOAD_LAZY, the default, keeps them for the next handle, until paths are set;
///     HIPDNN_PLUGIN_UNLOAD_EAGER unloads them with the last handle, or now if no handle is alive. A plugin that plans or
///     other descriptors still need stays loaded until these are destroyed.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM when the mode is not known.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnSetPluginUnloadMode_ext(
    unloadingMode: raw::hipdnnPluginUnloadingMode_ext_t,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("unloadingMode={unloadingMode}");
    guard("hipdnnSetPluginUnloadMode_ext", describe, || {
        let mode = UnloadingMode::from_raw(unloadingMode).ok_or_else(|| {
            Error::bad_param(format!(
                "unloadingMode is {unloadingMode}, expected HIPDNN_PLUGIN_UNLOAD_LAZY (0) or \
                 HIPDNN_PLUGIN_UNLOAD_EAGER (1)"
            ))
        })?;
        handles::set_eager_unloading(mode == UnloadingMode::HIPDNN_PLUGIN_UNLOAD_EAGER);
        Ok(())
    })
}

/// Gets the files of the engine plugins that a handle uses, as canonical paths in the order in which they were loaded.
///
/// Call it twice: with `pluginPaths` null it writes the number of paths and the size that the longest needs, NUL included;
/// with buffers it fills them and leaves both numbers as they are.
///
/// @param[in] handle The handle.
/// @param[in,out] numPluginPaths The number of paths; on the second call the number of buffers.
/// @param[out] pluginPaths Null, or buffers of `*maxStringLen` bytes each.
/// @param[in,out] maxStringLen The size of the longest path; on the second call the size of each buffer.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle`, `numPluginPaths` or `maxStringLen` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, or the buffers are too few, too short or null.
///
/// # Safety
/// The numbers are null or readable and writable, and the buffers as long and as many as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetLoadedEnginePluginPaths_ext(
    handle: hipdnnHandle_t,
    numPluginPaths: *mut usize,
    pluginPaths: *mut *mut c_char,
    maxStringLen: *mut usize,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!(
            "handle={handle:p}, numPluginPaths={numPluginPaths:p}, pluginPaths={pluginPaths:p}, \
             maxStringLen={maxStringLen:p}"
        )
    };
    guard("hipdnnGetLoadedEnginePluginPaths_ext", describe, || {
        require!(handle);
        require!(numPluginPaths);
        require!(maxStringLen);
        let session = handles::session(handle.addr())?;
        let plugins = &session.set().plugins;
        let paths: Vec<Cow<'_, [u8]>> =
            plugins.iter().map(|plugin| os::paths::bytes(plugin.path.as_os_str())).collect();
        let room = paths.iter().map(|path| path.len() + 1).max().unwrap_or(0);
        if pluginPaths.is_null() {
            // SAFETY: `require!` refused null pointers, and this function requires that others are writable.
            unsafe {
                numPluginPaths.write_unaligned(paths.len());
                maxStringLen.write_unaligned(room);
            }
            return Ok(());
        }
        // SAFETY: `require!` refused null pointers, and this function requires that others are readable.
        let (buffers, length) = unsafe { (numPluginPaths.read_unaligned(), maxStringLen.read_unaligned()) };
        if buffers < paths.len() || length < room {
            return Err(Error::bad_param(format!(
                "*numPluginPaths is {buffers} and *maxStringLen {length}, expected at least {} and {room}",
                paths.len()
            )));
        }
        // SAFETY: the array holds as many pointers.
        let buffer = |i: usize| unsafe { pluginPaths.add(i).read_unaligned() };
        if let Some(i) = (0..paths.len()).find(|i| buffer(*i).is_null()) {
            return Err(Error::bad_param(format!(
                "pluginPaths[{i}] is null, expected a buffer of {length} bytes"
            )));
        }
        for (i, path) in paths.iter().enumerate() {
            let buffer = buffer(i).cast::<u8>();
            // SAFETY: the buffer has room for `length` bytes, which is more than the path has.
            unsafe {
                buffer.copy_from_nonoverlapping(path.as_ptr(), path.len());
                buffer.add(path.len()).write_bytes(0, length - path.len());
            }
        }
        Ok(())
    })
}
