//! The search space: engines that can run a graph, with the knobs and values worth measuring.

use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation};

use super::problem::{Candidate, Tunable};
use crate::error::Result;
use crate::{
    Engine, EngineConfig, EngineInfo, ExecutionPlan, Handle, Knob, KnobSetting, KnobValue, OperationGraph,
};

/// The candidates for a graph, in the library's order: each engine with the knobs that can matter, each with at most so many values. Knobs
/// that are promises of the caller, or trade accuracy, are included only if `is_promised`.
///
/// # Errors
/// The library's error if the graph cannot be read back.
pub fn candidates(
    handle: &Handle,
    operations: &OperationGraph,
    engines: &[i64],
    values: usize,
    is_promised: bool,
) -> Result<Vec<Candidate>> {
    let graph = operations.graph()?;
    let known = handle.engines()?;
    let find = |id: &i64| known.iter().find(|engine| engine.id == *id);
    let candidate = |engine| candidate(operations, &graph, engine, values, is_promised);
    Ok(engines.iter().filter_map(find).map(candidate).collect())
}

/// Whether a knob is a promise of the caller (such as constant weights), or trades accuracy for time.
fn is_promise(id: &str) -> bool {
    matches!(id, "constant_weights" | "flush_subnormals") || id.ends_with(".tf32")
}

fn candidate(
    operations: &OperationGraph,
    graph: &Graph,
    engine: &EngineInfo,
    values: usize,
    is_promised: bool,
) -> Candidate {
    let made = Engine::new(operations, engine.id);
    // An engine whose knobs cannot be read is measured with its defaults.
    let knobs = made.as_ref().ok().and_then(|made| made.knobs().ok()).unwrap_or_default();
    let plan = |settings: &[KnobSetting]| {
        let config = EngineConfig::new(made.as_ref().ok()?, settings).ok()?;
        ExecutionPlan::new(&config).ok()
    };
    let default = OfDefault::of(plan(&[]).as_ref());
    let knobs = knobs
        .into_iter()
        .filter(|knob| !knob.deprecated && (is_promised || !is_promise(&knob.id)))
        .filter_map(|knob| {
            let takes = |value: &KnobValue| {
                plan(&[KnobSetting { id: knob.id.clone(), value: value.clone() }]).is_some()
            };
            let values = samples(&knob, values, graph, default, takes);
            (values.len() > 1).then_some(Tunable { knob, values })
        });
    Candidate { engine: engine.id, name: engine.name.clone(), knobs: knobs.collect() }
}

/// What an engine's default plan reveals.
#[derive(Clone, Copy, Debug, Default)]
struct OfDefault {
    /// The number of its steps, as far as known.
    steps: usize,
    /// Whether it has no work for a second thread, as far as known.
    has_one_thread: bool,
    /// Its workspace size in bytes.
    workspace_size: usize,
}

/// A plan as described by the library.
#[derive(serde::Deserialize)]
struct Description {
    #[serde(default)]
    steps: Option<Vec<Step>>,
}

#[derive(serde::Deserialize)]
struct Step {
    #[serde(default)]
    threads: u64,
}

impl OfDefault {
    fn of(plan: Option<&ExecutionPlan>) -> Self {
        let Some(plan) = plan else { return Self::default() };
        let description = plan.description().ok();
        let read = |text: String| serde_json::from_str::<Description>(&text).ok();
        let steps = description.and_then(read).and_then(|description| description.steps);
        Self {
            steps: steps.as_ref().map_or(0, Vec::len),
            has_one_thread: steps.is_some_and(|steps| steps.iter().all(|step| step.threads == 1)),
            workspace_size: plan.workspace_size().unwrap_or(0),
        }
    }
}

fn is_convolution(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::ConvolutionForward(_)
            | Operation::ConvolutionBackwardData(_)
            | Operation::ConvolutionBackwardFilter(_)
    )
}

/// The values of a knob to try: only the default if no other can matter for the graph, not more threads than
/// processors, no workspace limit that the plan satisfies anyway, and no index beyond the end of a kernel list.
fn samples(
    knob: &Knob,
    most: usize,
    graph: &Graph,
    default: OfDefault,
    takes: impl Fn(&KnobValue) -> bool,
) -> Vec<KnobValue> {
    let has_convolution = graph.nodes.iter().any(|node| is_convolution(&node.operation));
    let has_matmul = graph.nodes.iter().any(|node| matches!(node.operation, Operation::Matmul(_)));
    let has_floats = || graph.tensors.iter().any(|tensor| tensor.data_type == DataType::Float);
    let mut samples = knob.samples(most);
    let matters = match knob.id.as_str() {
        "convolution" => has_convolution,
        // It forbids some values of `convolution`, which are tried one by one.
        "winograd" => false,
        "constant_weights" => has_convolution || has_matmul,
        id if id.ends_with(".tf32") => (has_convolution || has_matmul) && has_floats(),
        id if id.ends_with(".tiles") => has_convolution || has_matmul,
        // One kernel shares nothing among workgroups.
        "batch_invariant" => default.steps > 1,
        id if id.ends_with(".share_rows") => default.steps > 1,
        "threads" => {
            let processors =
                std::thread::available_parallelism().map_or(i64::MAX, |count| count.get() as i64);
            for value in &mut samples {
                if let KnobValue::Int(threads) = value {
                    *threads = (*threads).min(processors);
                }
            }
            let mut seen = Vec::new();
            samples.retain(|value| {
                !seen.contains(value) && {
                    seen.push(value.clone());
                    true
                }
            });
            !default.has_one_thread
        }
        "global.workspace_size_limit" => {
            let narrows = |value: &KnobValue| matches!(value, KnobValue::Int(limit) if (*limit as usize) < default.workspace_size);
            samples.retain(|value| *value == knob.default || narrows(value));
            true
        }
        // Indices of a list, the best first: an index behind one that is missing is missing, too.
        id if id.ends_with(".engine") || id.ends_with(".algorithm") => {
            let mut is_there = true;
            samples.retain(|value| {
                is_there = *value == knob.default || is_there && takes(value);
                is_there
            });
            true
        }
        _ => true,
    };
    samples.truncate(if matters { most.max(1) } else { 1 });
    samples
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Pointwise};
    use hipdnn_plugin_sdk::graph::{Node, PointwiseMode, Tensor};

    use super::*;
    use crate::KnobRange;

    fn graph(operation: Operation) -> Graph {
        let tensors = (1..=3).map(|uid| Tensor::new(uid, DataType::Float, &[4], &[1])).collect();
        let nodes = vec![Node::single(operation)];
        Graph { tensors, nodes, ..Graph::default() }
    }

    #[test]
    fn knobs_that_cannot_matter_keep_their_default() {
        let knob = |id: &str, greatest| Knob {
            id: id.to_owned(),
            description: String::new(),
            default: KnobValue::Int(0),
            range: KnobRange::Int { bounds: Some((0, greatest, 1)), values: vec![] },
            longest: 0,
            deprecated: false,
        };
        let pointwise = graph(Pointwise::new(PointwiseMode::Exp, 1, None, 2).into());
        let convolution = graph(
            ConvolutionForward {
                pre_padding: vec![1],
                post_padding: vec![1],
                ..ConvolutionForward::new(1, 2, 3, 1)
            }
            .into(),
        );
        let of = |has_one_thread| OfDefault {
            steps: if has_one_thread { 1 } else { 2 },
            has_one_thread,
            workspace_size: 2,
        };
        let all = |_: &KnobValue| true;
        let count = |id: &str, graph: &Graph, one| samples(&knob(id, 3), 8, graph, of(one), all).len();
        for id in ["convolution", "constant_weights", "x.tiles"] {
            assert_eq!([count(id, &pointwise, false), count(id, &convolution, false)], [1, 4], "{id}");
        }
        assert_eq!([count("speed", &pointwise, false), count("speed", &convolution, true)], [4, 4]);
        let processors = std::thread::available_parallelism().unwrap().get() as i64;
        let threads = samples(&knob("threads", 1 << 40), 8, &pointwise, of(false), all);
        assert_eq!(threads.iter().filter(|value| **value == KnobValue::Int(processors)).count(), 1);
        assert!(
            threads.iter().all(|value| matches!(value, KnobValue::Int(threads) if *threads <= processors))
        );
        assert_eq!(samples(&knob("threads", 256), 8, &pointwise, of(true), all), [KnobValue::Int(0)]);
        assert_eq!([count("x.tf32", &pointwise, false), count("x.tf32", &convolution, false)], [1, 4]);
        assert_eq!(count("winograd", &convolution, false), 1);
        for id in ["x.share_rows", "batch_invariant"] {
            assert_eq!([count(id, &pointwise, true), count(id, &pointwise, false)], [1, 4], "{id}");
        }
        // 0 is the default, and the plan satisfies 2 anyway.
        assert_eq!(count("global.workspace_size_limit", &pointwise, false), 2);
        let first_two = |value: &KnobValue| matches!(value, KnobValue::Int(..2));
        let places = samples(&knob("x.engine", 255), 12, &pointwise, of(false), first_two);
        assert_eq!(places, [0, 1].map(KnobValue::Int));
        assert!(["constant_weights", "flush_subnormals", "cudnn.tf32"].iter().all(|id| is_promise(id)));
        assert!(!is_promise("threads"));
    }
}
