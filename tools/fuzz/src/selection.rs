//! Files of rules and of rankings, which users and other processes write.

use std::sync::OnceLock;

use hipdnn_backend::device;
use hipdnn_backend::selection::{Key, Rules, read_rankings};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::json;

const RULES: &str = r#"{"version": 2, "engine_overrides": [
 {"op": "conv_fprop", "engine_name": "CPU_ENGINE", "tensors": [{"name": "x", "dims": [2, 8, 16, 16]}, {"name": "w", "dims": [4, 8, 3, 3]}]},
 {"op": "matmul", "engine_name": 7, "tensors": [], "compute_type": "float"}]}"#;

fn graphs() -> &'static (Vec<Graph>, Vec<Key>) {
    static GRAPHS: OnceLock<(Vec<Graph>, Vec<Key>)> = OnceLock::new();
    GRAPHS.get_or_init(|| {
        let read = |text: Vec<u8>| json::read_bytes(&text).expect("an example");
        let graphs: Vec<Graph> = crate::examples().into_iter().map(read).collect();
        let keys = graphs.iter().map(|graph| Key::new(graph, device::current())).collect();
        (graphs, keys)
    })
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![RULES.as_bytes().to_vec(), crate::read("c_tests/golden/ranking-0.4.0.jsonl")]
}

pub(crate) fn run(data: &[u8]) {
    let (graphs, keys) = graphs();
    if let Ok(rules) = Rules::parse(data) {
        for graph in graphs {
            let engine = rules.engine(graph, &[7, 8]);
            assert!(engine.is_none_or(|engine| [7, 8].contains(&engine)));
        }
    }
    for key in keys.iter().take(1) {
        if let Ok(Some(record)) = read_rankings(data, key)
            && let Some(ranked) = record.rank(&[8, 7])
        {
            assert!(ranked == [7, 8] || ranked == [8, 7]);
        }
    }
}
