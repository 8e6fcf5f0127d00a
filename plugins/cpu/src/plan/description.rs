//! Describes a plan for people: its [`Step`]s and what computes them, with a warning if the reference does.

use std::collections::HashSet;
use std::fmt::Write;

use hipdnn_plugin_planner::step::Steps;
use hipdnn_plugin_sdk::Step;
use hipdnn_plugin_sdk::ffi::HIPDNN_SEV_WARN;
use hipdnn_plugin_sdk::graph::{Graph, Node};
use hipdnn_plugin_sdk::lock::Mutex;
use hipdnn_plugin_sdk::log;

use crate::kernel::{Kernel, REFERENCE, algorithms};
use crate::plan::numerics;
use crate::plan::steps::Plan;
use crate::prepare::Prepared;
use crate::problem::named_tensors;
use crate::settings::Settings;
use crate::simd::isa::Isa;

/// Why the reference computes a kernel's node, if it does.
fn reason(kernel: &dyn Kernel) -> Option<String> {
    let of_engine = || "CPU_REFERENCE_ENGINE computes every node with its loops".to_owned();
    match kernel.choices().into_iter().find(|choice| choice.name == REFERENCE) {
        Some(choice) => choice.passed_over.first().map(|(_, reason)| reason.clone()),
        None => (kernel.facts().algorithm == REFERENCE).then(of_engine),
    }
}

/// The steps of a plan of this graph by a planner with these settings of `CPU_ENGINE`; none for the reference.
pub(crate) fn steps(prepared: &Prepared, plan: &Plan, settings: Option<Settings>) -> Vec<Step> {
    let described = Steps::new(prepared);
    let step = |(members, kernel): (&[usize], &dyn Kernel)| {
        let (facts, choices, reference) = (kernel.facts(), kernel.choices(), reason(kernel));
        let passed_over = choices.iter().flat_map(|choice| &choice.passed_over);
        let mut passed_over: Vec<String> =
            passed_over.map(|(name, reason)| format!("{name}: {reason}")).collect();
        // A convolution nested in another has the same list of algorithms.
        let mut seen = HashSet::new();
        passed_over.retain(|reason| seen.insert(reason.clone()));
        let is_reference = reference.is_some();
        Step {
            algorithm: algorithms(kernel).join(" + "),
            kernel: facts.tile,
            // The reference is compiled for any processor.
            isa: if reference.is_some() { Isa::Portable } else { Isa::detect() }.name().to_owned(),
            threads: facts.threads,
            passed_over: if reference.is_some() { Vec::new() } else { passed_over },
            reference,
            numerics: numerics::of_step(prepared, members, kernel, settings.filter(|_| !is_reference)),
            ..described.of(members)
        }
    };
    plan.kernels().map(step).collect()
}

/// The most warnings to log, for programs that keep making new shapes.
const MOST_WARNINGS: usize = 256;

/// The warnings already logged.
pub static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Warns about nodes of `CPU_ENGINE` that the reference computes, once per operation, shapes and reason.
pub(crate) fn warn_of_reference(prepared: &Prepared, plan: &Plan) {
    if !log::enabled(HIPDNN_SEV_WARN) {
        return;
    }
    for (members, kernel) in plan.kernels() {
        let Some(reason) = reason(kernel) else { continue };
        let Some(node) = members.first().and_then(|index| prepared.graph.nodes.get(*index)) else { continue };
        let signature = format!("{}: {reason}", signature(&prepared.graph, node));
        let is_new = {
            let mut told = TOLD.lock();
            let told = told.get_or_insert_default();
            told.len() < MOST_WARNINGS && told.insert(signature.clone())
        };
        if is_new {
            log::warn(format!(
                "node {:?}, {signature}; the reference loops compute it, which is slow",
                node.name
            ));
        }
    }
}

/// The operation of a node with the types and shapes of its tensors.
fn signature(graph: &Graph, node: &Node) -> String {
    let mut text = node.operation.spec().name.to_owned();
    for (name, uid) in named_tensors(&node.operation) {
        if let Some(tensor) = graph.tensor(uid) {
            // Writing into a string cannot fail.
            let _ = write!(text, " {name} {} {:?}", tensor.data_type.name(), tensor.dims);
        }
    }
    text
}
