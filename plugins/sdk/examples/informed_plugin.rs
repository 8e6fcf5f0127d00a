#![doc = "A heuristic plugin with one policy, which ranks engines by the host's predictions, says so, and computes short graphs on one thread."]

use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{DeviceProperties, KnobSetting};
use hipdnn_plugin_sdk::{Chosen, HeuristicPlugin, PluginError, Predictions, engine_id};

struct InformedPlugin;

/// The milliseconds below which starting threads takes longer than they save.
const SHORT: f64 = 0.02;

impl HeuristicPlugin for InformedPlugin {
    const NAME: &'static str = "Informed";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const POLICIES: &'static [&'static str] = &["Example::ByPrediction"];
    type Handle = ();

    fn create_handle(_: &DeviceProperties) -> Result<(), PluginError> {
        Ok(())
    }

    fn choose(
        _: &(),
        _: usize,
        _: &Graph,
        engines: &[i64],
        predictions: Option<&Predictions<'_>>,
    ) -> Result<Option<Vec<Chosen>>, PluginError> {
        let Some(predictions) = predictions else { return Ok(None) };
        let ranked = predictions.rank(engines);
        if ranked.iter().all(|(_, predicted)| predicted.is_none()) {
            return Ok(None);
        }
        let chosen = ranked.into_iter().map(|(engine, predicted)| {
            let Some(predicted) = predicted else { return Chosen::from(engine) };
            let is_short = predictions.metric() == "time" && predicted.value < SHORT;
            let one_thread = KnobSetting { knob_id: "threads".to_owned(), value: 1.into() };
            let knobs =
                if is_short && engine == engine_id("CPU_ENGINE") { vec![one_thread] } else { Vec::new() };
            let trace =
                format!(r#"{{"{}": {}, "one_thread": {}}}"#, predictions.metric(), predicted.value, is_short);
            Chosen { engine, knobs, trace: Some(trace) }
        });
        Ok(Some(chosen.collect()))
    }
}

hipdnn_plugin_sdk::export_heuristic_plugin!(InformedPlugin);
