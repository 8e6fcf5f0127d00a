//! How well engines are expected to do. What was measured ranks engines without predictions (`SelectionHeuristic::Config`): a
//! ranking has their order, not their times. A prediction is an estimate and says so.

use hipdnn_plugin_sdk::engine_id;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{Prediction, write_prediction};

use super::Metric;
use super::machine::Machine;
use super::work::Work;

/// What the estimates are called.
const MODEL: &str = "hipdnn.estimate";

/// What an estimate is worth.
const ESTIMATED: &str =
    "estimated from the graph's operations and bytes and the processor's measured peaks; not measured";

const CPU: i64 = engine_id("CPU_ENGINE");
const REFERENCE: i64 = engine_id("CPU_REFERENCE_ENGINE");

/// The part of the peak that convolutions and products of ordinary sizes reach (docs/cpu-engines.md).
const REACHED: f64 = 0.6;

/// The time of a plan that computes next to nothing.
const OVERHEAD: f64 = 2e-6;

/// The value in a metric, or why there is none.
pub fn predict(graph: &Graph, engine: i64, metric: Metric) -> Result<f64, String> {
    let work = Work::of(graph);
    let peaks = || Machine::peaks();
    let seconds = match engine {
        CPU => {
            let peaks = peaks();
            OVERHEAD + (work.operations / (peaks.operations * REACHED)).max(work.bytes / peaks.bytes)
        }
        REFERENCE => {
            let peaks = peaks();
            OVERHEAD + work.operations / peaks.scalar + work.bytes / peaks.bytes
        }
        _ => return Err("no model of this engine is known".to_owned()),
    };
    let value = metric.value(work.operations, seconds);
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err("the graph computes nothing".to_owned()) }
}

/// A prediction's bytes. `kind` is 1 for a configuration, which is the one with default knobs.
pub fn bytes(graph: &Graph, engine_id: i64, kind: u8, metric: Metric) -> Vec<u8> {
    let predicted = predict(graph, engine_id, metric);
    let (value, model, reason) = match &predicted {
        Ok(value) => (Some(*value), MODEL, ESTIMATED),
        Err(reason) => (None, "", reason.as_str()),
    };
    write_prediction(&Prediction { engine_id, kind, value, model, reason, metric: metric.name() })
}

/// The engines by their predictions, best first; those without one keep their order behind the others.
///
/// # Errors
/// No engine has a prediction.
pub fn rank(graph: &Graph, engines: &[i64], metric: Metric) -> Result<Vec<i64>, String> {
    let key = |engine: i64| predict(graph, engine, metric).map(|value| metric.key(value)).ok();
    let mut ranked: Vec<(i64, Option<f64>)> = engines.iter().map(|engine| (*engine, key(*engine))).collect();
    if ranked.iter().all(|(_, key)| key.is_none()) {
        return Err(format!("no engine has a prediction in {}", metric.name()));
    }
    ranked.sort_by(|(_, a), (_, b)| a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY)));
    Ok(ranked.into_iter().map(|(engine, _)| engine).collect())
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::Matmul;
    use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};

    use super::*;

    fn product() -> Graph {
        let tensor = |uid| Tensor::new(uid, DataType::Float, &[256, 256], &[256, 1]);
        let operation = Matmul { a: 1, b: 2, c: 3 }.into();
        Graph {
            tensors: vec![tensor(1), tensor(2), tensor(3)],
            nodes: vec![Node { name: String::new(), compute_type: DataType::Float, operation }],
            ..Graph::default()
        }
    }

    #[test]
    fn the_reference_comes_behind_and_engines_without_a_model_last() {
        for metric in [Metric::Time, Metric::Tflops] {
            assert_eq!(rank(&product(), &[7, REFERENCE, CPU], metric), Ok(vec![CPU, REFERENCE, 7]));
            assert!(rank(&product(), &[7, 8], metric).unwrap_err().contains(metric.name()));
        }
    }
}
