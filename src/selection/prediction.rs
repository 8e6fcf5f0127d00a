//! How well engines are expected to do: as they were measured, else as estimated. Each prediction says which of both it is.

use std::cell::OnceCell;
use std::sync::Arc;

use hipdnn_plugin_sdk::engine_kind::{EngineDevice, EngineKind, Implementation};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{Prediction, write_prediction};

use super::machine::Machine;
use super::work::Work;
use super::{Metric, Record, gpu};

/// A value, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Predicted {
    value: f64,
    model: &'static str,
    reason: &'static str,
}

const MEASURED: &str = "measured on this device with default knobs";
const ESTIMATED: &str =
    "estimated from the graph's operations and bytes and the processor's measured peaks; not measured";
const ESTIMATED_OF_GPU: &str =
    "estimated from the graph's operations and bytes and the device's peaks on paper; not measured";

/// The part of the peak that convolutions and products of ordinary sizes reach by libraries and by engines' own kernels
/// (docs/cpu-engines.md, docs/nvidia-engines.md), and by kernels generated for a graph.
const REACHED: f64 = 0.6;
const REACHED_BY_GENERATED: f64 = 0.35;

/// The time of a plan that computes next to nothing: of a call, and of a launch.
const OVERHEAD: f64 = 2e-6;
const OVERHEAD_OF_GPU: f64 = 5e-6;

/// What is known of a graph's engines.
pub struct Predictor<'a> {
    /// What the predictions are in.
    pub metric: Metric,
    /// Each engine's kind.
    pub kinds: &'a [(i64, EngineKind)],
    /// Looks the graph's measurements up, when they are first needed.
    pub find: &'a dyn Fn() -> Option<Arc<Record>>,
    found: OnceCell<Option<Arc<Record>>>,
}

impl<'a> Predictor<'a> {
    /// Predictions in a metric.
    pub fn new(
        metric: Metric,
        kinds: &'a [(i64, EngineKind)],
        find: &'a dyn Fn() -> Option<Arc<Record>>,
    ) -> Self {
        Self { metric, kinds, find, found: OnceCell::new() }
    }

    /// Predicts an engine's value; the error says why it cannot.
    fn predict(&self, graph: &Graph, engine: i64) -> Result<Predicted, String> {
        let work = Work::of(graph);
        let measured = self.found.get_or_init(self.find).as_ref().and_then(|record| record.seconds(engine));
        let (seconds, model, reason) = match measured {
            Some(seconds) => (seconds, "hipdnn.measured", MEASURED),
            None => {
                let kind = self.kinds.iter().find(|(id, _)| *id == engine).map(|(_, kind)| *kind);
                let (seconds, reason) = estimate(&work, kind.unwrap_or_default())?;
                (seconds, "hipdnn.estimate", reason)
            }
        };
        let value = self.metric.value(work.operations, seconds);
        if value.is_finite() && value > 0.0 {
            Ok(Predicted { value, model, reason })
        } else {
            Err("the graph computes nothing".to_owned())
        }
    }

    /// A prediction's bytes. `kind` is 1 for a configuration, which is the one with default knobs.
    pub fn bytes(&self, graph: &Graph, engine_id: i64, kind: u8) -> Vec<u8> {
        let predicted = self.predict(graph, engine_id);
        let (value, model, reason) = match &predicted {
            Ok(Predicted { value, model, reason }) => (Some(*value), *model, *reason),
            Err(reason) => (None, "", reason.as_str()),
        };
        write_prediction(&Prediction { engine_id, kind, value, model, reason, metric: self.metric.name() })
    }

    /// The engines by their predictions, best first; those without one keep their order behind the others.
    ///
    /// # Errors
    /// No engine has a prediction.
    pub fn rank(&self, graph: &Graph, engines: &[i64]) -> Result<Vec<i64>, String> {
        let key = |engine: i64| self.predict(graph, engine).map(|found| self.metric.key(found.value)).ok();
        let mut ranked: Vec<(i64, Option<f64>)> =
            engines.iter().map(|engine| (*engine, key(*engine))).collect();
        if ranked.iter().all(|(_, key)| key.is_none()) {
            return Err(format!("no engine has a prediction in {}", self.metric.name()));
        }
        ranked.sort_by(|(_, a), (_, b)| a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY)));
        Ok(ranked.into_iter().map(|(engine, _)| engine).collect())
    }
}

/// The seconds that an engine of a kind may take, and what they are worth.
fn estimate(work: &Work, kind: EngineKind) -> Result<(f64, &'static str), String> {
    match (kind.device, kind.implementation) {
        (EngineDevice::Host, Implementation::Reference) => {
            let peaks = Machine::peaks();
            Ok((OVERHEAD + work.operations / peaks.scalar + work.bytes / peaks.bytes, ESTIMATED))
        }
        (EngineDevice::Host, _) => {
            let peaks = Machine::peaks();
            let computing = work.operations / (peaks.operations * REACHED);
            Ok((OVERHEAD + computing.max(work.bytes / peaks.bytes), ESTIMATED))
        }
        (device, implementation) => {
            let peaks = gpu::peaks(device, work.element)?;
            Ok((seconds_on_gpu(work, implementation, peaks), ESTIMATED_OF_GPU))
        }
    }
}

fn seconds_on_gpu(work: &Work, implementation: Implementation, peaks: gpu::Peaks) -> f64 {
    let reached = match implementation {
        Implementation::Generated | Implementation::Reference => REACHED_BY_GENERATED,
        Implementation::Library | Implementation::Own => REACHED,
    };
    OVERHEAD_OF_GPU + (work.operations / (peaks.operations * reached)).max(work.bytes / peaks.bytes)
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::Matmul;
    use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};

    use super::*;

    const FAST: i64 = 1;
    const REFERENCE: i64 = 2;
    const LIBRARY: i64 = 3;
    const KINDS: [(i64, EngineKind); 3] = [
        (FAST, EngineKind { device: EngineDevice::Host, implementation: Implementation::Own }),
        (REFERENCE, EngineKind { device: EngineDevice::Host, implementation: Implementation::Reference }),
        (LIBRARY, EngineKind { device: EngineDevice::Vulkan, implementation: Implementation::Generated }),
    ];

    fn product() -> Graph {
        let tensor = |uid| Tensor::new(uid, DataType::Float, &[256, 256], &[256, 1]);
        let operation = Matmul { a: 1, b: 2, c: 3 };
        Graph {
            tensors: vec![tensor(1), tensor(2), tensor(3)],
            nodes: vec![Node::single(operation)],
            ..Graph::default()
        }
    }

    #[test]
    fn the_reference_comes_behind_and_engines_without_a_model_last() {
        for metric in [Metric::Time, Metric::Tflops] {
            let predictor = Predictor::new(metric, &KINDS, &|| None);
            assert_eq!(
                predictor.rank(&product(), &[LIBRARY, REFERENCE, FAST]),
                Ok(vec![FAST, REFERENCE, LIBRARY])
            );
            assert!(predictor.rank(&product(), &[LIBRARY, 8]).unwrap_err().contains(metric.name()));
        }
    }

    #[test]
    fn what_was_measured_replaces_the_estimate() {
        // Slower than any estimate: the fast engine took a second, the reference half of it; the third was not measured.
        let record = Arc::new(Record::new(&[REFERENCE, FAST, LIBRARY], &[500.0, 1000.0, 0.0]));
        let find = || Some(Arc::clone(&record));
        let predictor = Predictor::new(Metric::Time, &KINDS, &find);
        assert_eq!(predictor.rank(&product(), &[FAST, REFERENCE]), Ok(vec![REFERENCE, FAST]));
        let found = predictor.predict(&product(), FAST).unwrap();
        assert_eq!(found, Predicted { value: 1000.0, model: "hipdnn.measured", reason: MEASURED });
        assert!(predictor.predict(&product(), LIBRARY).is_err());
        let flops = Predictor::new(Metric::Tflops, &KINDS, &find);
        let expected = 2.0 * 256.0_f64.powi(3) / 0.5 / 1e12;
        assert!((flops.predict(&product(), REFERENCE).unwrap().value / expected - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_gpus_time_is_that_of_its_slower_half() {
        let peaks = gpu::Peaks { operations: 1e15, bytes: 4e12 };
        let work = |operations, bytes| Work { operations, bytes, element: 2 };
        let time = |work: &Work, how| seconds_on_gpu(work, how, peaks) - OVERHEAD_OF_GPU;
        let computing = time(&work(6e12, 4e9), Implementation::Library);
        assert!((computing / 1e-2 - 1.0).abs() < 1e-6, "{computing}");
        let moving = time(&work(6e9, 4e9), Implementation::Generated);
        assert!((moving / 1e-3 - 1.0).abs() < 1e-6, "{moving}");
        assert!(time(&work(6e12, 4e9), Implementation::Generated) > computing);
    }
}
