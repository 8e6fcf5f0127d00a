//! The available selection policies.

use std::ffi::c_char;

use super::guard::{guard, require};
use super::texts::{Text, give_texts};
use super::version::VERSION;
use crate::ffi::{hipdnnHandle_t, raw};
use crate::handle as handles;
use crate::plugin::Session;
use crate::selection::BUILT_IN;
use crate::status::Error;

/// The plugin name reported for the library's own policies.
const PLUGIN: &str = "hipdnn_backend";

struct Policy<'a> {
    id: i64,
    name: &'a str,
    plugin: &'a str,
    version: &'a str,
    api_version: &'a str,
}

/// The policies of the library, then those of the heuristic plugins.
fn policies(session: &Session) -> Vec<Policy<'_>> {
    let api_version = hipdnn_plugin_sdk::ffi::heuristic_api_version::HIPDNN_HEURISTIC_API_VERSION;
    let api_version = api_version.to_str().unwrap_or_default();
    let built_in = BUILT_IN.iter().map(|(id, name)| Policy {
        id: *id,
        name,
        plugin: PLUGIN,
        version: VERSION.to_str().unwrap_or_default(),
        api_version,
    });
    let loaded =
        session.heuristics().into_iter().flat_map(|handles| handles.policies()).map(|(plugin, policy)| {
            Policy {
                id: policy.id,
                name: &policy.name,
                plugin: &plugin.name,
                version: &plugin.version,
                api_version: &plugin.api_version,
            }
        });
    built_in.chain(loaded).collect()
}

/// Gets the number of policies that can choose among engines: those of the library itself and those of heuristic plugins.
///
/// @param[in] handle The handle.
/// @param[out] numPolicies Receives the number.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `numPolicies` is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle.
///
/// # Safety
/// `numPolicies` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetHeuristicPolicyCount_ext(
    handle: hipdnnHandle_t,
    numPolicies: *mut usize,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("handle={handle:p}, numPolicies={numPolicies:p}");
    guard("hipdnnGetHeuristicPolicyCount_ext", describe, || {
        require!(handle);
        require!(numPolicies);
        let count = policies(&*handles::session(handle.addr())?).len();
        // SAFETY: `require!` refused a null `numPolicies`, and this function requires that it is writable otherwise.
        unsafe { numPolicies.write_unaligned(count) };
        Ok(())
    })
}

/// Describes a policy. The library's own policies come first, then those of plugins in the order of their paths.
///
/// Call it twice: when one of the four texts is null, it writes the size that each text needs, NUL included, to the four
/// lengths; else it fills the texts and leaves the lengths as they are.
///
/// @param[in] handle The handle.
/// @param[in] policyIndex The policy's number, below that of hipdnnGetHeuristicPolicyCount_ext.
/// @param[out] policyId Where the policy's id goes; may be null.
/// @param[out] policyName Null, or a buffer for its name.
/// @param[in,out] policyNameLen The size of `policyName` in bytes.
/// @param[out] pluginName Null, or a buffer for its plugin's name, "hipdnn_backend" for the library itself.
/// @param[in,out] pluginNameLen The size of `pluginName` in bytes.
/// @param[out] pluginVersion Null, or a buffer for its plugin's version.
/// @param[in,out] pluginVersionLen The size of `pluginVersion` in bytes.
/// @param[out] apiVersion Null, or a buffer for the version of the heuristic plugin interface that its plugin implements.
/// @param[in,out] apiVersionLen The size of `apiVersion` in bytes.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or a length is null;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, there is no such policy, or a buffer is too small.
///
/// # Safety
/// Lengths are null or readable and writable, and texts null or as large as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnGetHeuristicPolicyInfo_ext(
    handle: hipdnnHandle_t,
    policyIndex: usize,
    policyId: *mut i64,
    policyName: *mut c_char,
    policyNameLen: *mut usize,
    pluginName: *mut c_char,
    pluginNameLen: *mut usize,
    pluginVersion: *mut c_char,
    pluginVersionLen: *mut usize,
    apiVersion: *mut c_char,
    apiVersionLen: *mut usize,
) -> raw::hipdnnStatus_t {
    let describe = move || format!("handle={handle:p}, policyIndex={policyIndex}");
    guard("hipdnnGetHeuristicPolicyInfo_ext", describe, || {
        require!(handle);
        require!(policyNameLen);
        require!(pluginNameLen);
        require!(pluginVersionLen);
        require!(apiVersionLen);
        let session = handles::session(handle.addr())?;
        let policies = policies(&session);
        let policy = policies.get(policyIndex).ok_or_else(|| {
            Error::bad_param(format!("policyIndex is {policyIndex}, expected less than {}", policies.len()))
        })?;
        let text = |name, text, buffer, length| Text { name, text, buffer, length };
        let texts = [
            text("policyName", policy.name, policyName, policyNameLen),
            text("pluginName", policy.plugin, pluginName, pluginNameLen),
            text("pluginVersion", policy.version, pluginVersion, pluginVersionLen),
            text("apiVersion", policy.api_version, apiVersion, apiVersionLen),
        ];
        // SAFETY: `require!` refused null lengths, and this function requires that the others are readable and writable, and each buffer
        // null or as large as its length says.
        unsafe { give_texts(&texts) }?;
        if !policyId.is_null() {
            // SAFETY: `policyId` is not null here, and this function requires that it is writable otherwise.
            unsafe { policyId.write_unaligned(policy.id) };
        }
        Ok(())
    })
}
