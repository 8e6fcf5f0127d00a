use hipdnn_plugin_sdk::graph::operation::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Node, Operation, Tensor};
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, Layout};

use hipdnn_plugin_sdk::engine_id;
use hipdnn_plugin_sdk::wire::EngineConfig;

use super::*;

fn graph() -> Graph {
    Graph {
        tensors: vec![
            Tensor::new(1, DataType::Half, &[2, 3], &[3, 1]),
            Tensor::new(2, DataType::Half, &[3, 4], &[4, 1]),
            Tensor::new(3, DataType::Half, &[2, 4], &[4, 1]),
        ],
        nodes: vec![Node {
            name: "n".to_owned(),
            compute_type: DataType::Float,
            operation: Operation::from(Matmul { a: 1, b: 2, c: 3 }),
        }],
        ..Graph::default()
    }
}

#[test]
fn the_engines_id_is_that_of_amds_own_plugin() {
    assert_eq!(engine_id(HIPBLASLT_ENGINE), 0x79ae_b174_32d4_a22b);
}

#[test]
fn without_libraries_or_device_the_reason_says_so() {
    let refusal = HipblasLtPlugin::supports(&Handle::default(), 0, &graph());
    match runtime() {
        // Only the libraries know which kernels they have.
        Ok(_) => {}
        Err(missing) => {
            assert_eq!(refusal, Err(missing.clone()));
            let missing = missing.to_string();
            let words = ["libamdhip64.so", "libhipblaslt.so.1", "no device", "hipGetDeviceCount"];
            assert!(words.iter().any(|word| missing.contains(word)), "{missing}");
            // Planning has the same prerequisites.
            let error = HipblasLtPlugin::plan(&Handle::default(), 0, &graph(), &[]).map(drop).unwrap_err();
            assert_eq!(error.message(), missing);
        }
    }
}

#[test]
fn saved_plans_are_checked_before_they_are_used() {
    const PLANS: Payload = Payload { mark: *b"HBLT", version: 2, owner: "the test" };
    let config = |engine_id| wire::write_engine_config(&EngineConfig { engine_id, knobs: Vec::new() });
    let graph = wire::write(&graph(), Layout::G2).unwrap();
    let load = |bytes: &[u8]| {
        HipblasLtPlugin::deserialize(&Handle::default(), bytes).map(drop).unwrap_err().to_string()
    };
    assert!(load(b"").contains("ends after 0 bytes"));
    assert!(load(b"something else").contains("not a saved plan of HIPBLASLT_ENGINE"));
    assert!(load(&PLANS.write(&[&config(5), b"", &graph]).unwrap()).contains("of engine 5"));
    let own = config(engine_id(HIPBLASLT_ENGINE));
    assert!(load(&PLANS.write(&[&own, b"too short", &graph]).unwrap()).contains("ends too early"));
    assert!(!load(&PLANS.write(&[&own, b"", b"no graph"]).unwrap()).is_empty());
    if let Err(missing) = runtime() {
        assert_eq!(load(&PLANS.write(&[&own, b"", &graph]).unwrap()), missing.to_string());
    }
}
