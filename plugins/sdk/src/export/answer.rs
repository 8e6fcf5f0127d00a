//! What a policy answered, and the functions that tell the knobs and reasons in it.

use std::ffi::{CString, c_char};

use super::heuristic::{Descriptor, locked};
use super::{guard, null, write};
use crate::error::PluginError;
use crate::ffi::{hipdnnHeuristicPolicyDescriptor_t, hipdnnPluginConstData_t, hipdnnPluginStatus_t};
use crate::heuristic_plugin::{Chosen, HeuristicPlugin};
use crate::wire::{self, EngineConfig};

/// A policy's answer, in the form that the host reads.
pub(super) struct Answer {
    /// The engines, best first; none if the policy leaves the choice to others.
    pub order: Vec<i64>,
    told: Vec<Told>,
}

/// What the policy told of an engine: the bytes of its configuration, and a reason.
struct Told {
    config: Option<Vec<u8>>,
    trace: Option<CString>,
}

impl Answer {
    /// The answer of a policy that was given these engines.
    ///
    /// # Errors
    /// What is wrong with it, for the plugin's author: hosts would reject it.
    pub fn new(policy: &str, engines: &[i64], chosen: Vec<Chosen>) -> Result<Self, PluginError> {
        let mut answer =
            Self { order: Vec::with_capacity(chosen.len()), told: Vec::with_capacity(chosen.len()) };
        for (at, Chosen { engine, knobs, trace }) in chosen.into_iter().enumerate() {
            if !engines.contains(&engine) || answer.order.contains(&engine) {
                return Err(PluginError::internal(format!(
                    "policy {policy} put engine {engine} at place {at} of its order, expected engines of {engines:?}, each once"
                )));
            }
            wire::check_possible(&knobs).map_err(|error| {
                PluginError::internal(format!("policy {policy} configures engine {engine}: {error}"))
            })?;
            let config = EngineConfig { engine_id: engine, knobs };
            let config = (!config.knobs.is_empty()).then(|| wire::write_engine_config(&config));
            let trace = trace.map(|trace| json_object(policy, engine, trace)).transpose()?;
            answer.order.push(engine);
            answer.told.push(Told { config, trace });
        }
        Ok(answer)
    }

    /// What was told of an engine.
    fn of(&self, engine: i64) -> Result<&Told, PluginError> {
        let place = self.order.iter().position(|other| *other == engine);
        place.and_then(|place| self.told.get(place)).ok_or_else(|| {
            PluginError::bad_param(format!(
                "engine_id is {engine}, expected one of the order {:?}",
                self.order
            ))
        })
    }
}

/// A trace as a C text. Whether it is JSON throughout is the host's to check.
fn json_object(policy: &str, engine: i64, trace: String) -> Result<CString, PluginError> {
    let text = trace.trim();
    let wrong = |trace: &str| {
        PluginError::internal(format!(
            "policy {policy} says of engine {engine} {trace:?}, expected a JSON object"
        ))
    };
    if !(text.starts_with('{') && text.ends_with('}')) {
        return Err(wrong(&trace));
    }
    CString::new(trace).map_err(|error| wrong(&String::from_utf8_lossy(&error.into_vec())))
}

/// `hipdnnHeuristicPolicyGetEngineConfig`: the knobs that the policy set, in bytes that live as long as the answer.
///
/// # Safety
/// `desc` is null or from `create_policy_descriptor` of this plugin and not destroyed; `engine_config` is null or valid for a write.
pub unsafe fn get_policy_engine_config<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    engine_id: i64,
    engine_config: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin.
        let choice = unsafe { Descriptor::<P>::borrow("desc", desc) }?;
        if engine_config.is_null() {
            return Err(null("engine_config"));
        }
        let choice = locked(choice);
        let Some(bytes) = &choice.answer()?.of(engine_id)?.config else {
            return Err(PluginError::not_applicable(format!("engine {engine_id} keeps its default knobs")));
        };
        let data = hipdnnPluginConstData_t { ptr: bytes.as_ptr().cast(), size: bytes.len() };
        // SAFETY: `engine_config` is not null, so it is valid for a write.
        unsafe { write(engine_config, data) };
        Ok(())
    })
}

/// `hipdnnHeuristicPolicyGetTrace`: the reason that the policy gave, a text that lives as long as the answer.
///
/// # Safety
/// `desc` as in [`get_policy_engine_config`]; `trace_json` is null or valid for a write.
pub unsafe fn get_policy_trace<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    engine_id: i64,
    trace_json: *mut *const c_char,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin.
        let choice = unsafe { Descriptor::<P>::borrow("desc", desc) }?;
        if trace_json.is_null() {
            return Err(null("trace_json"));
        }
        let choice = locked(choice);
        let Some(text) = &choice.answer()?.of(engine_id)?.trace else {
            return Err(PluginError::not_applicable(format!("nothing is known of engine {engine_id}")));
        };
        // SAFETY: `trace_json` is not null, so it is valid for a write.
        unsafe { write(trace_json, text.as_ptr()) };
        Ok(())
    })
}
