//! Candidates and configurations as exchanged with plugins.

use hipdnn_plugin_sdk::wire::{self, EngineConfig, EngineDetails, KnobConstraint};

use super::problem::{Candidate, Configuration, Tunable};
use crate::{KnobRange, KnobSetting, KnobValue};

fn value(of: &KnobValue) -> wire::KnobValue {
    match of {
        KnobValue::Int(value) => wire::KnobValue::Int(*value),
        KnobValue::Float(value) => wire::KnobValue::Float(*value),
        KnobValue::Text(value) => wire::KnobValue::Text(value.clone()),
    }
}

/// A candidate, whose knobs list the values worth trying.
pub fn details(candidate: &Candidate) -> EngineDetails {
    EngineDetails {
        engine_id: candidate.engine,
        knobs: candidate.knobs.iter().map(knob).collect(),
        behavior_notes: Vec::new(),
        name: candidate.name.clone(),
    }
}

fn knob(tunable: &Tunable) -> wire::Knob {
    let ints = tunable.values.iter().filter_map(|value| match value {
        KnobValue::Int(value) => Some(*value),
        _ => None,
    });
    let texts = tunable.values.iter().filter_map(|value| match value {
        KnobValue::Text(value) => Some(value.clone()),
        _ => None,
    });
    let constraint = match tunable.knob.default {
        KnobValue::Int(_) => {
            let valid: Vec<i64> = ints.collect();
            let bound = |least: Option<&i64>| least.copied().unwrap_or_default();
            let (min, max) = (bound(valid.iter().min()), bound(valid.iter().max()));
            KnobConstraint::Int { min, max, step: 1, valid }
        }
        KnobValue::Float(_) => {
            let (min, max) = range(tunable).unwrap_or_default();
            KnobConstraint::Float { min, max }
        }
        KnobValue::Text(_) => KnobConstraint::Text { max_length: 0, valid: texts.collect() },
    };
    wire::Knob {
        knob_id: tunable.knob.id.clone(),
        description: tunable.knob.description.clone(),
        default_value: value(&tunable.knob.default),
        constraint: Some(constraint),
        deprecated: false,
    }
}

fn range(tunable: &Tunable) -> Option<(f64, f64)> {
    match tunable.knob.range {
        KnobRange::Float(range) => range,
        _ => None,
    }
}

/// Whether a knob accepts a value: one of those worth trying, or a number within the range.
pub fn takes(tunable: &Tunable, value: &KnobValue) -> bool {
    let is_within = |number: f64| range(tunable).is_some_and(|(min, max)| (min..=max).contains(&number));
    tunable.values.contains(value) || matches!(value, KnobValue::Float(number) if is_within(*number))
}

/// A configuration for a plugin.
pub fn config(of: &Configuration) -> EngineConfig {
    let setting = |setting: &KnobSetting| wire::KnobSetting {
        knob_id: setting.id.clone(),
        value: value(&setting.value),
    };
    EngineConfig { engine_id: of.engine, knobs: of.knobs.iter().map(setting).collect() }
}

/// A configuration from a plugin.
pub fn read(config: &EngineConfig) -> Configuration {
    let setting = |setting: &wire::KnobSetting| KnobSetting {
        id: setting.knob_id.clone(),
        value: match &setting.value {
            wire::KnobValue::Int(value) => KnobValue::Int(*value),
            wire::KnobValue::Float(value) => KnobValue::Float(*value),
            wire::KnobValue::Text(value) => KnobValue::Text(value.clone()),
        },
    };
    Configuration { engine: config.engine_id, knobs: config.knobs.iter().map(setting).collect() }
}
