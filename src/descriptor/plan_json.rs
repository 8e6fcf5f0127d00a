//! An execution plan as JSON, for people: its origin, and its plugin's description of the steps.

use std::collections::BTreeSet;

use hipdnn_plugin_sdk::wire::{self, KnobValue};
use serde_json::{Map, Value, json};

use super::frozen_plan::FrozenPlan;
use super::source::Source;
use crate::log;
use crate::plugin::Owner;
use crate::status::{Error, Result};

impl FrozenPlan {
    /// An object with `engine`, `engine_id`, `graph` (its name), `knobs` (those that were set), `plugin`, `plugin_version`,
    /// `numerical_notes` (of all steps), `steps` and `workspace_size`. Unknown values have no key: the graph and the knobs of a loaded plan, and the steps
    /// if the plugin does not describe them.
    pub(super) fn json(&self) -> Result<String> {
        let source = self.context().owner();
        let (session, engine) = source.engine();
        let plugin = session.plugin(engine.plugin)?;
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("engine", session.engine(engine)?.display_name().into());
        put("engine_id", source.engine_id().into());
        put("plugin", plugin.name.as_str().into());
        put("plugin_version", plugin.version.as_str().into());
        put("workspace_size", self.workspace_size().into());
        if let Some(name) = source.graph_name() {
            put("graph", name.into());
        }
        if let Source::Config(config) = source {
            put("knobs", knobs(config.bytes()?)?);
        }
        if let Some(text) = self.with_own_names(|context| Ok(context.description()))? {
            match steps(&text) {
                Ok(steps) => {
                    put("numerical_notes", numerical_notes(&steps));
                    put("steps", steps);
                }
                Err(reason) => log::warn(|| {
                    format!("plugin {}: the description of an execution context {reason}", plugin.name)
                }),
            }
        }
        Ok(Value::from(object).to_string())
    }
}

/// The settings in a configuration, by the knobs' ids.
fn knobs(config: &[u8]) -> Result<Value> {
    let config = wire::read_engine_config(config)
        .map_err(|error| Error::internal(format!("the engine configuration cannot be read: {error}")))?;
    let value = |value| match value {
        KnobValue::Int(number) => json!(number),
        KnobValue::Float(number) => json!(number),
        KnobValue::Text(text) => json!(text),
    };
    Ok(config.knobs.into_iter().map(|knob| (knob.knob_id, value(knob.value))).collect::<Map<_, _>>().into())
}

/// The notes of all steps, each once, in alphabetical order.
fn numerical_notes(steps: &Value) -> Value {
    let of_step = |step: &Value| step.pointer("/numerics/notes").and_then(Value::as_array).cloned();
    let notes = steps.as_array().into_iter().flatten().filter_map(of_step).flatten();
    let names = notes.filter_map(|note| note.as_str().map(str::to_owned));
    names.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().into()
}

/// The list of steps in a plugin's description, each an object whose content is not checked.
fn steps(description: &str) -> std::result::Result<Value, String> {
    let mut value: Value =
        serde_json::from_str(description).map_err(|error| format!("is not JSON: {error}"))?;
    match value.get_mut("steps").map(Value::take) {
        Some(Value::Array(steps)) if steps.iter().all(Value::is_object) => Ok(steps.into()),
        _ => Err("has no list of objects named steps".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_steps_are_put_together() {
        let steps = json!([{"numerics": {"notes": ["B", "A"]}}, {}, {"numerics": {"notes": ["B", 1]}}, {"numerics": 2}]);
        assert_eq!(numerical_notes(&steps), json!(["A", "B"]));
        assert_eq!(numerical_notes(&json!([])), json!([]));
    }

    #[test]
    fn only_a_list_of_objects_counts_as_steps() {
        assert_eq!(steps(r#"{"steps":[{"nodes":[0]}],"more":1}"#), Ok(json!([{"nodes": [0]}])));
        assert_eq!(steps(r#"{"steps":[]}"#), Ok(json!([])));
        for wrong in ["[]", "{}", r#"{"steps":{}}"#, r#"{"steps":[1]}"#, "null"] {
            assert!(steps(wrong).unwrap_err().contains("steps"), "{wrong}");
        }
        for wrong in ["", "{", r#"{"steps":[]} x"#, &"[".repeat(1000)] {
            assert!(steps(wrong).unwrap_err().contains("JSON"), "{wrong}");
        }
    }
}
