//! Mistakes of tuning plugins during a search, and their consequences.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failure of the test")]

use std::time::Duration;

use hipdnn::tuning::plugin::{Found, Plugin, strategies};
use hipdnn::tuning::{Candidate, Configuration, Problem, Strategy, Target, Tunable, Tuned, tune};
use hipdnn::{Knob, KnobRange, KnobValue};
use hipdnn_plugin_sdk::graph::operation::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};
use hipdnn_plugin_sdk::wire::{self, Layout};

/// Two engines: the first takes 30 µs, with its knob 20, the second 40.
struct Clocked;

impl Target for Clocked {
    type Ready = u64;

    fn prepare(&mut self, configuration: &Configuration) -> Result<(u64, Duration), String> {
        let time = 10 + 20 * configuration.engine.unsigned_abs() - 10 * configuration.knobs.len() as u64;
        Ok((time, Duration::from_micros(time)))
    }

    fn execute(&mut self, time: &mut u64, count: u32) -> Result<Duration, String> {
        Ok(Duration::from_micros(*time) * count)
    }
}

fn problem() -> Problem {
    let tensor = |uid| Tensor::new(uid, DataType::Float, &[1, 2, 2], &[4, 2, 1]);
    let operation = Matmul { a: 1, b: 2, c: 3 };
    let graph = Graph {
        tensors: vec![tensor(1), tensor(2), tensor(3)],
        nodes: vec![Node::single(operation)],
        ..Graph::default()
    };
    let knob = Knob {
        id: "a".to_owned(),
        description: String::new(),
        default: KnobValue::Int(0),
        range: KnobRange::Int { values: vec![0, 1], bounds: None },
        longest: 0,
        deprecated: false,
    };
    let tunable = Tunable { knob, values: vec![KnobValue::Int(0), KnobValue::Int(1)] };
    let candidate = |engine, knobs| Candidate { engine, name: format!("E{engine}"), knobs };
    Problem {
        graph: wire::write(&graph, Layout::G2).unwrap(),
        device: hipdnn::tuning::device(),
        candidates: vec![candidate(1, vec![tunable]), candidate(2, vec![])],
        similar: vec![Configuration::of(2)],
        budget: Duration::from_secs(1),
    }
}

fn strategy(name: &str) -> Box<dyn Strategy> {
    let plugin = Plugin::load(&stub_plugins::library(name).unwrap()).unwrap();
    let found = Found { plugins: vec![plugin], refused: Vec::new() };
    strategies(&found).into_iter().find(|(name, _)| name == "stub").unwrap().1
}

fn search(name: &str) -> Tuned {
    tune(&mut Clocked, &problem(), &*strategy(name), &mut |_, _| {}).unwrap()
}

/// The engines of the ranking.
fn ranking(tuned: &Tuned) -> Vec<i64> {
    tuned.ranking.iter().map(|place| tuned.trials[*place].configuration.engine).collect()
}

/// What the plugin wrote since the last time.
fn log(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let _ = std::fs::remove_file(path);
    text
}

#[test]
fn whatever_a_plugin_does_the_best_is_found_or_the_default_choice_stays() {
    let path = std::env::temp_dir().join(format!("hipdnn-tuning-stub-{}", std::process::id()));
    // SAFETY: this is the only test of the program, and its threads read no variables.
    unsafe { std::env::set_var("HIPDNN_STUB_LOG", &path) };

    let tuned = search("tuning_good");
    assert_eq!((ranking(&tuned), tuned.failure), (vec![1, 2], None));
    let said = log(&path);
    assert!(said.contains("Search strategy=1 size=1 graph="), "{said}");
    assert!(said.contains("candidates=2 similar=1"), "{said}");
    assert_eq!(said.matches("measure status=0 measured=1 within=1").count(), 2, "{said}");
    assert!(said.contains("rank status=0"), "{said}");

    // Its order counts, except for the result of the final comparison.
    assert_eq!(ranking(&search("tuning_reversed")), [1, 2]);
    for (name, words) in [
        ("tuning_search_fails", "status 3, \"the stub fails in hipdnnTuningPluginSearch\""),
        ("tuning_search_throws", "threw a C++ exception"),
        ("tuning_silent", "answered no ranking"),
        ("tuning_ranks_unknown", "answered no ranking"),
        ("tuning_ranks_twice", "answered no ranking"),
    ] {
        let tuned = search(name);
        assert_eq!(ranking(&tuned), [1, 2], "{name}");
        let failure = tuned.failure.unwrap();
        assert!(failure.contains(words), "{name}: {failure}");
    }
    log(&path);

    // Wrong arguments are refused, and a right one in between is not.
    let tuned = search("tuning_misuses");
    let said = log(&path);
    for wrong in [
        "no configuration",
        "no bytes",
        "garbage",
        "cut",
        "huge",
        "no runs",
        "no output",
        "another engine",
        "another knob",
        "another value",
        "no numbers",
        "an empty ranking",
        "too many",
        "another number",
        "a number twice",
    ] {
        assert!(said.contains(&format!("{wrong} status=1\n")), "{wrong}: {said}");
    }
    assert!(said.contains("no context status=6\n") && said.contains("a knob status=0\n"), "{said}");
    // Measured trials that were not ranked come last, and the final comparison is among the first ones.
    assert_eq!((ranking(&tuned), tuned.trials.len()), (vec![1, 2, 1], 3));

    // Calls from another thread, or after the search, find nothing.
    search("tuning_other_thread");
    let said = log(&path);
    assert!(said.contains("measure on another thread status=6\n"), "{said}");
    assert!(said.contains("rank on another thread status=6\n"), "{said}");
    search("tuning_keeps");
    log(&path);
    assert_eq!(ranking(&search("tuning_keeps")), [1, 2]);
    let said = log(&path);
    assert!(said.contains("after its search status=6\n"), "{said}");
    assert!(said.contains("ranked after its search status=6\n"), "{said}");

    // Measuring after the budget is spent returns at once.
    let started = std::time::Instant::now();
    let tuned = search("tuning_insists");
    assert_eq!(ranking(&tuned), [1, 2]);
    assert!(started.elapsed() < Duration::from_secs(20));

    // A search that does not return is ended with the budget; a ranking that it gave counts.
    for (name, failure) in
        [("tuning_endless", None), ("tuning_stuck", Some("went on when the budget was spent"))]
    {
        let started = std::time::Instant::now();
        let tuned = search(name);
        assert_eq!(ranking(&tuned), [1, 2]);
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        let said = tuned.failure.unwrap_or_default();
        assert!(failure.map_or(said.is_empty(), |words| said.contains(words)), "{name}: {said}");
    }
    let _ = std::fs::remove_file(&path);
}
