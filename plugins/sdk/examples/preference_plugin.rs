#![doc = "A heuristic plugin with one policy, which prefers the plain reference engine where a graph is so small that it hardly matters."]

use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::DeviceProperties;
use hipdnn_plugin_sdk::{HeuristicPlugin, PluginError, engine_id};

struct PreferencePlugin;

/// Maximum number of elements of any tensor in a small graph.
const SMALL: i64 = 65_536;

impl HeuristicPlugin for PreferencePlugin {
    const NAME: &'static str = "Preference";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const POLICIES: &'static [&'static str] = &["Example::PlainWhereSmall"];
    type Handle = ();

    fn create_handle(_: &DeviceProperties) -> Result<(), PluginError> {
        Ok(())
    }

    fn order(_: &(), _: usize, graph: &Graph, engines: &[i64]) -> Result<Option<Vec<i64>>, PluginError> {
        let elements = |dims: &[i64]| dims.iter().try_fold(1_i64, |product, dim| product.checked_mul(*dim));
        let small = |dims: &[i64]| elements(dims).is_some_and(|elements| elements <= SMALL);
        if !graph.tensors.iter().all(|tensor| small(&tensor.dims)) {
            return Ok(None);
        }
        let mut order = engines.to_vec();
        // A stable sort keeps the order of the others.
        order.sort_by_key(|engine| *engine != engine_id("CPU_REFERENCE_ENGINE"));
        Ok(Some(order))
    }
}

hipdnn_plugin_sdk::export_heuristic_plugin!(PreferencePlugin);
