//! Whether results of whole graphs are as near to the expected ones as `hipdnn run --check` asks, by its own functions.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plugin::CpuPlugin;
use hipdnn_plugin_sdk::EnginePlugin;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::json;
use hipdnn_plugin_sdk::wire::KnobSetting;
use hipdnn_tool::comparison::judge_alone;
use hipdnn_tool::computation::Arrays;
use hipdnn_tool::graph::Graph;
use hipdnn_tool::rounding;
use hipdnn_tool::steps::Step;
use hipdnn_tool::tensor::Array;

use super::common::Case;

/// The engine that says how much results change when inputs move.
const REFERENCE: usize = 1;

/// Values of tensors by their uids.
pub type Values = Vec<(i64, Vec<f64>)>;

/// The tensors that a case's graph writes to memory.
fn results(case: &Case) -> Vec<i64> {
    let written: Vec<i64> = case.graph.nodes.iter().flat_map(|node| node.operation.outputs()).collect();
    let bound = case.memory.iter().map(|memory| memory.tensor.uid);
    bound.filter(|uid| written.contains(uid)).collect()
}

/// The values of all results of a case that ran.
pub fn results_of(case: &Case) -> Values {
    results(case).into_iter().map(|uid| (uid, case.values(uid))).collect()
}

fn arrays(case: &Case, values: impl IntoIterator<Item = (i64, Vec<f64>)>) -> Arrays {
    let array = |(uid, values): (i64, Vec<f64>)| {
        let dims = case.graph.tensor(uid).unwrap().dims.iter().map(|dim| *dim as usize).collect();
        (uid, Array { dims, values })
    };
    values.into_iter().map(array).collect()
}

/// What the results of an engine may differ by.
pub struct Limits {
    graph: Graph,
    steps: Option<Vec<Step>>,
}

impl Limits {
    /// Those of an engine's plan of a case's graph with knobs.
    pub fn of(case: &Case, engine: usize, knobs: &[KnobSetting]) -> Self {
        let plan = CpuPlugin::plan(&Default::default(), engine, &case.graph, knobs).unwrap();
        let steps = plan.steps().map(|steps| steps.into_iter().map(Step::from).collect());
        // The library writes the compute type of the graph into nodes without one.
        let mut graph = case.graph.clone();
        for node in graph.nodes.iter_mut().filter(|node| node.compute_type == DataType::Unset) {
            node.compute_type = graph.compute_type;
        }
        Self { graph: Graph::from_json(&json::write(&graph)).unwrap(), steps }
    }

    /// What is wrong with results, if anything is. `got` also has the inputs.
    pub fn wrong(&self, got: &Case, expected: &[(i64, Vec<f64>)]) -> Option<String> {
        let written = results(got);
        let read = got.memory.iter().map(|memory| memory.tensor.uid).filter(|uid| !written.contains(uid));
        let inputs = arrays(got, read.map(|uid| (uid, got.values(uid))));
        for (uid, values) in expected {
            let count = got.values(*uid).len();
            assert_eq!(count, values.len(), "tensor {uid} has {count} elements");
        }
        let outputs = arrays(got, expected.iter().map(|(uid, _)| (*uid, got.values(*uid))));
        let expected = arrays(got, expected.iter().cloned());
        let compute = |inputs: &Arrays| {
            let mut case = got.clone();
            inputs.iter().for_each(|(uid, array)| case.fill(*uid, &array.values));
            case.run(planner(REFERENCE));
            Ok(arrays(&case, results_of(&case)))
        };
        let limits = rounding::Limits { steps: self.steps.as_deref(), factor: 1.0 };
        let unchanged = |_: &_, tolerance| tolerance;
        let arrays = (&inputs, &outputs, &expected);
        let judged = judge_alone(&self.graph, arrays, (limits, unchanged), compute).unwrap();
        let judged = judged.iter().find(|judged| judged.is_wrong)?;
        let (value, expected) = judged.comparison.pair;
        Some(format!(
            "tensor {} is {value}, expected {expected}, with {:?}: {:?}, moved inputs change it by {:?}\n{:#?}",
            judged.tensor.uid,
            limits.of(&self.graph, judged.tensor),
            judged.comparison,
            judged.change,
            got.graph
        ))
    }

    /// Panics if something is wrong with results.
    #[track_caller]
    pub fn hold(&self, what: &str, got: &Case, expected: &[(i64, Vec<f64>)]) {
        if let Some(wrong) = self.wrong(got, expected) {
            panic!("{what}: {wrong}");
        }
    }
}

/// Panics if results of an engine, in a case that it ran, are not near these.
#[track_caller]
pub fn assert_near(case: &Case, engine: usize, expected: &[(i64, &[f64])]) {
    let expected: Values = expected.iter().map(|(uid, values)| (*uid, values.to_vec())).collect();
    Limits::of(case, engine, &[]).hold(&format!("engine {engine}"), case, &expected);
}

/// Panics if results of `CPU_ENGINE` without knobs are not near those of the reference.
#[track_caller]
pub fn assert_engines_agree(what: &str, fast: &Case, reference: &Case) {
    Limits::of(fast, 0, &[]).hold(what, fast, &results_of(reference));
}
