//! A heuristic plugin with one defect per policy, for tests of how a host reacts.

#![expect(clippy::panic, reason = "a policy that panics is what is tested")]

use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::DeviceProperties;
use hipdnn_plugin_sdk::{HeuristicPlugin, PluginError};

struct Defects;

impl HeuristicPlugin for Defects {
    const NAME: &'static str = "Defects";
    const VERSION: &'static str = "1.0.0";
    const POLICIES: &'static [&'static str] =
        &["Defect::Panics", "Defect::Fails", "Defect::Foreign", "Defect::Twice", "Defect::Declines"];
    type Handle = DeviceProperties;

    fn create_handle(device: &DeviceProperties) -> Result<DeviceProperties, PluginError> {
        Ok(device.clone())
    }

    fn order(
        device: &DeviceProperties,
        policy: usize,
        graph: &Graph,
        engines: &[i64],
    ) -> Result<Option<Vec<i64>>, PluginError> {
        match policy {
            0 => panic!("lost among {} nodes", graph.nodes.len()),
            1 => {
                Err(PluginError::internal(format!("the device is not known: {:?}", device.architecture_name)))
            }
            2 => Ok(Some([engines, &[42]].concat())),
            3 => Ok(Some([engines, engines].concat())),
            _ => Ok(None),
        }
    }
}

hipdnn_plugin_sdk::export_heuristic_plugin!(Defects);
