//! `hipdnn tune`

use crate::{Answer, Scratch, example, has, program, refuse};

/// The program with its own cache.
fn tune(scratch: &Scratch, more: &[&str]) -> Answer {
    let mut command = program();
    command.env("HIPDNN_CACHE_DIR", scratch.file("cache"));
    command.args(more);
    command.output().unwrap().into()
}

#[test]
fn graphs_are_tuned_drawn_and_planned_with_the_result() {
    let scratch = Scratch::new("tune");
    let (conv, norm) = (example("conv_bias_relu"), example("batchnorm"));
    let picture = scratch.file("trials.svg");
    let answer = tune(&scratch, &["tune", &conv, &norm, "--budget", "1500ms", "--svg", &picture, "--json"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let found: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    for row in found.as_array().unwrap() {
        assert_eq!((&row["engine"], &row["default_engine"]), (&"CPU_ENGINE".into(), &"CPU_ENGINE".into()));
        assert!(row["gain"].as_f64().unwrap() >= 1.0 && row["tried"].as_u64().unwrap() > 3, "{row}");
        assert_eq!(row["ranking"], serde_json::json!(["CPU_ENGINE", "CPU_REFERENCE_ENGINE"]));
        if has("hipdnnBackendWriteEngineRankingResults_ext") {
            assert_eq!(row["ranking_outcome"], "written to the cache");
        }
        // Knobs that are promises are not changed.
        assert!(!row["knobs"].as_str().unwrap().contains("constant_weights"), "{row}");
    }
    for graph in ["conv_bias_relu", "batchnorm"] {
        let svg = std::fs::read_to_string(scratch.file(&format!("trials-{graph}.svg"))).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.matches("<circle").count() > 4 && svg.contains("CPU_REFERENCE_ENGINE"), "{svg}");
    }
    // --tuned uses the result.
    let plan = scratch.file("tuned.plan");
    let answer = tune(&scratch, &["plan", "save", &conv, &plan, "--tuned"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let answer = tune(&scratch, &["run", &conv, "--tuned", "--check"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let answer = tune(&scratch, &["run", &example("matmul"), "--tuned"]);
    assert_eq!(answer.status, 0, "without a tuning the default choice runs: {}", answer.err);
}

#[test]
fn a_plugins_strategy_searches_and_a_failing_one_is_reported() {
    let graph = example("batchnorm");
    for (plugin, words) in [
        ("tuning_good", "batchnorm: CPU_ENGINE, CPU_REFERENCE_ENGINE (not handed over)\n"),
        (
            "tuning_search_fails",
            "ranked by times, as the strategy failed: the search of tuning plugin Stub: status 3",
        ),
    ] {
        let mut command = program();
        command.env("HIPDNN_TUNING_PLUGIN_DIR", stub_plugins::library(plugin).unwrap());
        command.args(["tune", &graph, "--strategy", "stub", "--budget", "1s", "--no-ranking"]);
        let answer: Answer = command.output().unwrap().into();
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
        assert!(answer.out.contains(words), "{}", answer.out);
    }
    let mut command = program();
    command.env("HIPDNN_TUNING_PLUGIN_DIR", stub_plugins::library("tuning_api_1").unwrap());
    command.args(["tune", &graph, "--strategy", "stub"]);
    let line = crate::one_line(command.output().unwrap().into(), 2);
    assert!(line.contains("there is no strategy \"stub\"; there are halving, exhaustive; "), "{line}");
    assert!(line.contains("its API version is \"1.0.0\", expected 0.MINOR.PATCH"), "{line}");
}

#[test]
fn bad_arguments_are_named() {
    let graph = example("batchnorm");
    for (arguments, words) in [
        (&["--budget", "soon"][..], "expected a time such as 30s, 500ms or 2m"),
        (&["--budget=-1s"], "expected a time"),
        (&["--engine", "FAST"], "there is no engine \"FAST\""),
        (&["--strategy", "lucky"], "there is no strategy \"lucky\"; there are halving, exhaustive"),
    ] {
        let line = refuse(&[&["tune", graph.as_str()], arguments].concat(), 2);
        assert!(line.contains(words), "{line}");
    }
    let line = refuse(&["run", &graph, "--tuned", "--engine", "CPU_ENGINE"], 2);
    assert!(line.contains("--tuned") && line.contains("--engine"), "{line}");
}
