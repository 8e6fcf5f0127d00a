//! Predictions of how well engines do, which the library gives to policies and callers.

use flatbuffers::FlatBufferBuilder;

use super::engine::{read_engine_config_in, write_engine_config_in};
use super::graph_writer::slot;
use super::reader::Table;
use super::{EngineConfig, KnobSetting};
use crate::graph::GraphError;

/// How well an engine is expected to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction<'a> {
    /// The engine.
    pub engine_id: i64,
    /// 0: the engine with its default knobs; 1: a configuration, which is named.
    pub kind: u8,
    /// The value in the metric's unit, if one is available.
    pub value: Option<f64>,
    /// What computed the value; empty without one.
    pub model: &'a str,
    /// Why no value is available; with a value, how reliable it is.
    pub reason: &'a str,
    /// The metric, such as `time`.
    pub metric: &'a str,
}

/// The status of a prediction with a value.
const AVAILABLE: u8 = 1;

/// Packs a prediction.
pub fn write_prediction(prediction: &Prediction<'_>) -> Vec<u8> {
    let mut b = FlatBufferBuilder::with_capacity(256);
    let model = (!prediction.model.is_empty()).then(|| b.create_string(prediction.model));
    let reason = b.create_string(prediction.reason);
    let metric = (!prediction.metric.is_empty()).then(|| b.create_string(prediction.metric));
    let config = (prediction.kind == 1 && prediction.value.is_some()).then(|| {
        let config = EngineConfig { engine_id: prediction.engine_id, knobs: Vec::new() };
        write_engine_config_in(&mut b, &config, prediction.metric)
    });
    let table = b.start_table();
    b.push_slot_always(slot(0), prediction.engine_id);
    b.push_slot(slot(1), prediction.kind, 0);
    if let Some(value) = prediction.value {
        b.push_slot_always(slot(2), AVAILABLE);
        b.push_slot_always(slot(3), value);
    }
    if let Some(model) = model {
        b.push_slot_always(slot(4), model);
    }
    b.push_slot_always(slot(5), reason);
    if let Some(config) = config {
        b.push_slot_always(slot(6), config);
    }
    if let Some(metric) = metric {
        b.push_slot_always(slot(9), metric);
    }
    let root = b.end_table(table);
    b.finish_minimal(root);
    b.finished_data().to_vec()
}

/// Unpacks a prediction, and the knobs that it is for.
///
/// # Errors
/// When the bytes are not well formed, or its configuration is another engine's.
pub fn read_prediction(bytes: &[u8]) -> Result<(Prediction<'_>, Vec<KnobSetting>), GraphError> {
    let root = Table::root(bytes)?;
    let text = |index| {
        let text = root.text(index)?;
        let reason = |_| GraphError(format!("field {index} of the prediction is not UTF-8"));
        std::str::from_utf8(text).map_err(reason)
    };
    let is_available = root.scalar(2)? == Some(AVAILABLE);
    let prediction = Prediction {
        engine_id: root.scalar(0)?.unwrap_or(0),
        kind: root.scalar(1)?.unwrap_or(0),
        value: if is_available { Some(root.scalar(3)?.unwrap_or(0.0)) } else { None },
        model: text(4)?,
        reason: text(5)?,
        metric: text(9)?,
    };
    let Some(config) = root.table(6)? else { return Ok((prediction, Vec::new())) };
    let config = read_engine_config_in(&config)?;
    if config.engine_id != prediction.engine_id {
        return Err(GraphError(format!(
            "the prediction of engine {} has a configuration of engine {}",
            prediction.engine_id, config.engine_id
        )));
    }
    Ok((prediction, config.knobs))
}

/// The metric that an engine configuration was ranked by; empty if it does not say.
///
/// # Errors
/// When the bytes are not well formed.
pub fn read_ranking_metric(bytes: &[u8]) -> Result<String, GraphError> {
    Ok(String::from_utf8_lossy(Table::root(bytes)?.text(2)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_read_as_written() {
        let with_value = Prediction {
            engine_id: -7,
            kind: 1,
            value: Some(0.25),
            model: "hipdnn.measured",
            reason: "measured",
            metric: "time",
        };
        let without =
            Prediction { engine_id: 3, reason: "no model", metric: "tflops", ..Prediction::default() };
        for prediction in [with_value, without] {
            let bytes = write_prediction(&prediction);
            assert_eq!(read_prediction(&bytes), Ok((prediction, Vec::new())));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0xff;
                let _ = read_prediction(&damaged);
                let _ = read_prediction(&bytes[..at]);
            }
        }
    }
}
