//! Which engines are loaded.

use std::ffi::{CStr, c_char};

use super::guard::{guard, require};
use super::texts::{Text, give_texts};
use crate::ffi::{hipdnnHandle_t, raw};
use crate::handle as handles;
use crate::plugin::EngineInfo;
use crate::status::Error;

/// The plugin type that the engine queries report.
const TYPE: &str = "HIPDNN_PLUGIN_TYPE_ENGINE";

/// Gets the number of engines that the handle's plugins have.
///
/// @param[in] handle The handle.
/// @param[out] numEngines Receives the number.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `numEngines` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle.
///
/// # Safety
/// `numEngines` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineCount_ext(
    handle: hipdnnHandle_t,
    numEngines: *mut usize,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("handle={handle:p}, numEngines={numEngines:p}");
    guard("hipdnnGetEngineCount_ext", describe, || {
        require!(handle);
        require!(numEngines);
        let count = handles::session(handle.addr())?.engines().len();
        // SAFETY: `require!` refused a null `numEngines`, and this function requires that it is writable otherwise.
        unsafe { numEngines.write_unaligned(count) };
        Ok(())
    })
}

/// Describes an engine. Engines are numbered by name, then id, then plugin name.
///
/// Call it twice: when one of the four texts is null, it writes the size that each text needs, NUL included, to the four
/// lengths; else it fills the texts and leaves the lengths as they are.
///
/// @param[in] handle The handle.
/// @param[in] engineIndex The engine's number, below that of hipdnnGetEngineCount_ext.
/// @param[out] engineId Where the engine's id goes; may be null.
/// @param[out] engineName Null, or a buffer for its name: the one its plugin gives it, else a known one, else its id in
///     hexadecimal.
/// @param[in,out] engineNameLen The size of `engineName` in bytes.
/// @param[out] pluginName Null, or a buffer for its plugin's name.
/// @param[in,out] pluginNameLen The size of `pluginName` in bytes.
/// @param[out] version Null, or a buffer for its plugin's version.
/// @param[in,out] versionLen The size of `version` in bytes.
/// @param[out] type Null, or where the kind of its plugin goes, "HIPDNN_PLUGIN_TYPE_ENGINE".
/// @param[in,out] typeLen The size of `type` in bytes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or a length is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, there is no such engine, or a buffer is too small.
///
/// # Safety
/// Lengths are null or readable and writable, and texts null or as large as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineInfo_ext(
    handle: hipdnnHandle_t,
    engineIndex: usize,
    engineId: *mut i64,
    engineName: *mut c_char,
    engineNameLen: *mut usize,
    pluginName: *mut c_char,
    pluginNameLen: *mut usize,
    version: *mut c_char,
    versionLen: *mut usize,
    r#type: *mut c_char,
    typeLen: *mut usize,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("handle={handle:p}, engineIndex={engineIndex}");
    guard("hipdnnGetEngineInfo_ext", describe, || {
        require!(handle);
        require!(engineNameLen);
        require!(pluginNameLen);
        require!(versionLen);
        require!(typeLen);
        let session = handles::session(handle.addr())?;
        let engines = session.engines();
        let engine = engines.get(engineIndex).ok_or_else(|| {
            Error::bad_param(format!("engineIndex is {engineIndex}, expected less than {}", engines.len()))
        })?;
        let texts = [
            Text { name: "engineName", text: &engine.name, buffer: engineName, length: engineNameLen },
            Text { name: "pluginName", text: engine.plugin_name, buffer: pluginName, length: pluginNameLen },
            Text { name: "version", text: engine.plugin_version, buffer: version, length: versionLen },
            Text { name: "type", text: TYPE, buffer: r#type, length: typeLen },
        ];
        // SAFETY: `require!` refused null lengths, and this function requires that the others are readable and writable, and each buffer
        // null or as large as its length says.
        unsafe { give_texts(&texts) }?;
        if !engineId.is_null() {
            // SAFETY: `engineId` is not null here, and this function requires that it is writable otherwise.
            unsafe { engineId.write_unaligned(engine.id) };
        }
        Ok(())
    })
}

/// Gets what an engine computes on, and where its kernels come from.
///
/// @param[in] handle The handle.
/// @param[in] engineIndex The engine's number, as for hipdnnGetEngineInfo_ext.
/// @param[out] device 1 for the host, 2 for AMD's GPUs, 3 for NVIDIA's, 4 for devices with a Vulkan driver, else 0.
/// @param[out] implementation 1 for a library of the device's maker, 2 for kernels generated for each graph, 3 for a reference,
///     else 0.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle`, `device` or `implementation` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, or there is no such engine.
///
/// # Safety
/// The outputs are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineKind_ext(
    handle: hipdnnHandle_t,
    engineIndex: usize,
    device: *mut u32,
    implementation: *mut u32,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("handle={handle:p}, engineIndex={engineIndex}");
    guard("hipdnnGetEngineKind_ext", describe, || {
        require!(handle);
        require!(device);
        require!(implementation);
        let session = handles::session(handle.addr())?;
        let engines = session.engines();
        let engine = engines.get(engineIndex).ok_or_else(|| {
            Error::bad_param(format!("engineIndex is {engineIndex}, expected less than {}", engines.len()))
        })?;
        let [on, how] = engine.kind.numbers();
        // SAFETY: `require!` refused null pointers, and this function requires that others are writable.
        unsafe {
            device.write_unaligned(on);
            implementation.write_unaligned(how);
        }
        Ok(())
    })
}

/// Gets the id of the engine with a name.
///
/// @param[in] handle The handle.
/// @param[in] engineName The name, as hipdnnGetEngineInfo_ext gives it.
/// @param[out] engineId Receives the id.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when an argument is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle;
///     HIPDNN_STATUS_NOT_SUPPORTED when no engine that is loaded has this name.
///
/// # Safety
/// `engineName` is null or ends with a NUL, `engineId` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineIdByName_ext(
    handle: hipdnnHandle_t,
    engineName: *const c_char,
    engineId: *mut i64,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("handle={handle:p}, engineName={engineName:p}, engineId={engineId:p}");
    guard("hipdnnGetEngineIdByName_ext", describe, || {
        require!(handle);
        require!(engineName);
        require!(engineId);
        // SAFETY: the text ends with a NUL.
        let name = unsafe { CStr::from_ptr(engineName) }.to_string_lossy();
        let session = handles::session(handle.addr())?;
        let found = session.engines().into_iter().find(|engine| engine.name == name);
        let engine = found.ok_or_else(|| {
            Error::not_supported(format!("engineName is {name:?}, and no engine of this name is loaded"))
        })?;
        // SAFETY: `require!` refused a null `engineId`, and this function requires that it is writable otherwise.
        unsafe { engineId.write_unaligned(engine.id) };
        Ok(())
    })
}

/// Gets the name of the engine with an id.
///
/// Called twice: with `engineName` null it writes the room that the name needs with its NUL; else it fills the text and leaves
/// the length as it is.
///
/// @param[in] handle The handle.
/// @param[in] engineId The id.
/// @param[out] engineName Null, or a buffer for the name.
/// @param[in,out] engineNameLen The size of `engineName` in bytes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `engineNameLen` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle or the room is too small;
///     HIPDNN_STATUS_NOT_SUPPORTED when no engine that is loaded has this id.
///
/// # Safety
/// `engineNameLen` is null or readable and writable, `engineName` null or with as much room as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetEngineNameById_ext(
    handle: hipdnnHandle_t,
    engineId: i64,
    engineName: *mut c_char,
    engineNameLen: *mut usize,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("handle={handle:p}, engineId={engineId}, engineName={engineName:p}");
    guard("hipdnnGetEngineNameById_ext", describe, || {
        require!(handle);
        require!(engineNameLen);
        let session = handles::session(handle.addr())?;
        let found = session.engines().into_iter().find(|engine: &EngineInfo<'_>| engine.id == engineId);
        let engine = found.ok_or_else(|| {
            Error::not_supported(format!("engineId is {engineId}, and no engine of this id is loaded"))
        })?;
        let text = Text { name: "engineName", text: &engine.name, buffer: engineName, length: engineNameLen };
        // SAFETY: `require!` refused a null length, and this function requires that another is readable and writable, and the buffer null
        // or as large as it says.
        unsafe { give_texts(&[text]) }
    })
}
