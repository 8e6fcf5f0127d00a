//! `hipdnn policies`, and how a heuristic plugin in Rust orders engines.

use std::path::PathBuf;

use crate::{Answer, Scratch, example, program, succeed};

/// One of the SDK's heuristic plugins, in cargo's folder of examples.
fn plugin(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(format!("examples/lib{name}.so"));
    assert!(path.exists(), "{} is built by `cargo build --examples`", path.display());
    path
}

/// The program with a heuristic plugin and an order of policies.
fn with_plugin(name: &str, order: &str, arguments: &[&str]) -> Answer {
    let mut program = program();
    program.env("HIPDNN_HEURISTIC_PLUGIN_DIR", plugin(name)).env("HIPDNN_HEUR_POLICY_ORDER", order);
    program.args(arguments).output().unwrap().into()
}

/// The program with the example's policy.
fn with_policy(order: &str, arguments: &[&str]) -> Answer {
    with_plugin("preference_plugin", order, arguments)
}

/// The engines in the order of an answer of `explain`.
fn engines(answer: &Answer) -> Vec<&str> {
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    applying(answer)
}

/// The same, ignoring other lines.
fn applying(answer: &Answer) -> Vec<&str> {
    answer.out.lines().filter_map(|line| line.strip_suffix(" (CPU): applies")).collect()
}

#[test]
fn the_librarys_own_policies_are_listed() {
    let text = succeed(&["policies"]);
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let own =
        ["Config", "StaticOrdering", "ModeA", "ModeB"].map(|name| format!("SelectionHeuristic::{name}"));
    assert_eq!(names, own);
}

#[test]
fn a_plugins_policy_is_listed_and_decides() {
    const POLICY: &str = "Example::PlainWhereSmall";
    let both = format!("{POLICY},SelectionHeuristic::StaticOrdering");
    let listed = with_policy(&both, &["policies"]);
    assert!(
        listed.out.lines().any(|line| line.starts_with(POLICY) && line.contains("Preference")),
        "{}",
        listed.out
    );

    let scratch = Scratch::new("policy");
    let small = scratch.file("small.json");
    let text = std::fs::read_to_string(example("matmul")).unwrap();
    std::fs::write(&small, &text).unwrap();
    let large = scratch.file("large.json");
    let grown = text.replace("\"dims\": [4, ", "\"dims\": [400, ");
    assert_ne!(grown, text);
    std::fs::write(&large, grown).unwrap();

    let (fast_first, plain_first) =
        (["CPU_ENGINE", "CPU_REFERENCE_ENGINE"], ["CPU_REFERENCE_ENGINE", "CPU_ENGINE"]);
    assert_eq!(engines(&with_policy(&both, &["explain", &small])), plain_first);
    // The policy leaves a large graph to the next one.
    assert_eq!(engines(&with_policy(&both, &["explain", &large])), fast_first);
    // It is asked only if it is named.
    let other = with_policy("SelectionHeuristic::StaticOrdering", &["explain", &small]);
    assert_eq!(engines(&other), fast_first);
}

#[test]
fn a_defective_policy_is_passed_over_and_reported() {
    let graph = example("matmul");
    let explain = |order: &str| with_plugin("defective_policies", order, &["explain", &graph]);
    let device = format!("the device is not known: \"{}", std::env::consts::ARCH);
    for (policy, reason) in [
        ("Defect::Panics", "the plugin panicked: lost among 3 nodes"),
        ("Defect::Fails", device.as_str()),
        ("Defect::Foreign", "policy Defect::Foreign put engine 42 at place 2 of its order"),
        ("Defect::Twice", "at place 2 of its order, expected engines of ["),
        ("Defect::Declines", "Defect::Declines: it leaves the choice to others"),
    ] {
        let alone = explain(policy);
        // Before it, Rust prints the location of the panic.
        let line = alone.err.lines().last().unwrap_or_default();
        assert_eq!(alone.status, 1, "{}", alone.err);
        assert!(line.contains(policy) && line.contains(reason), "{line}");
        let both = explain(&format!("{policy},SelectionHeuristic::StaticOrdering"));
        assert_eq!(both.status, 0, "{}", both.err);
        assert_eq!(applying(&both), ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"], "{policy}");
    }
}

#[test]
fn a_policys_trace_is_explained() {
    const POLICY: &str = "Upstream::Traced";
    let library = stub_plugins::library("upstream_trace").unwrap();
    let mut program = program();
    program.env("HIPDNN_HEURISTIC_PLUGIN_DIR", library).env("HIPDNN_HEUR_POLICY_ORDER", POLICY);
    program.env("HIPDNN_ALL_ENGINES", "1").args(["explain", &example("matmul")]);
    let answer = Answer::from(program.output().unwrap());
    let traced = format!("  policy {POLICY}: {{\"adapter_type\":\"reversed\"");
    let lines: Vec<&str> = answer.out.lines().collect();
    let first = lines.iter().position(|line| *line == "CPU_REFERENCE_ENGINE (CPU): applies").unwrap();
    assert!(lines[first + 1].starts_with(&traced), "{}", answer.out);
    assert_eq!(answer.out.matches("  policy ").count(), 1, "{}", answer.out);
}

#[test]
fn a_policy_in_rust_ranks_by_predictions_and_says_so() {
    const POLICY: &str = "Example::ByPrediction";
    let mut program = program();
    program.env("HIPDNN_HEURISTIC_PLUGIN_DIR", plugin("informed_plugin"));
    program.env("HIPDNN_HEUR_POLICY_ORDER", POLICY).env("HIPDNN_HEUR_RANKING_METRIC", "time");
    let answer = Answer::from(program.args(["explain", &example("matmul")]).output().unwrap());
    assert_eq!(engines(&answer), ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"]);
    let traces = answer.out.lines().filter_map(|line| line.strip_prefix(&format!("  policy {POLICY}: ")));
    let traces: Vec<serde_json::Value> = traces.map(|trace| serde_json::from_str(trace).unwrap()).collect();
    let times: Vec<f64> = traces.iter().map(|trace| trace["time"].as_f64().unwrap()).collect();
    assert!(times.len() == 2 && times.is_sorted() && times[0] > 0.0, "{}", answer.out);
    // The example's limit; how fast this machine is decides on which side of it a time lies.
    for (trace, time) in traces.iter().zip(times) {
        assert_eq!(trace["one_thread"], time < 0.02, "{}", answer.out);
    }
}
