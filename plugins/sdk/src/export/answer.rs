//! What a policy answered, in the form that the host reads.

use std::ffi::CString;

use crate::error::PluginError;
use crate::heuristic_plugin::Chosen;
use crate::wire::{self, EngineConfig};

/// A policy's answer, in the form that the host reads.
pub(super) struct Answer {
    /// The engines, best first; none if the policy leaves the choice to others.
    pub order: Vec<i64>,
    told: Vec<Told>,
}

/// What the policy told of an engine: the bytes of its configuration, and a reason.
pub(super) struct Told {
    pub config: Option<Vec<u8>>,
    pub trace: Option<CString>,
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
    pub fn of(&self, engine: i64) -> Result<&Told, PluginError> {
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
