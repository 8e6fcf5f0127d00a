//! `hipdnn bench`

use crate::run::case;
use crate::{Answer, Scratch, example, has, program, refuse, succeed, with_useless_engine};

fn bench(scratch: &Scratch, more: &[&str]) -> Answer {
    let mut command = program();
    command.env("HIPDNN_CACHE_DIR", scratch.file("cache"));
    command.args(["bench", &example("batchnorm"), "--runs", "3", "--warmup", "1"]).args(more);
    command.output().unwrap().into()
}

#[test]
fn every_engine_is_measured_and_checked() {
    let scratch = Scratch::new("bench");
    let answer = bench(&scratch, &[]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let lines: Vec<Vec<&str>> = answer.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" "), "ENGINE KNOBS MEDIAN MS QUARTILES MS LEAST MS RUNS CHECK");
    for engine in ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"] {
        let row = lines.iter().find(|line| line.first() == Some(&engine)).unwrap();
        assert_eq!(row[row.len() - 2..], ["3", "ok"], "{}", answer.out);
    }
    let ranking = answer.out.lines().last().unwrap();
    let function = "hipdnnBackendWriteEngineRankingResults_ext";
    if !has(function) {
        assert!(ranking.contains(&format!("has no function {function}")), "{ranking}");
        return;
    }
    assert!(ranking.ends_with("(written to the cache)"), "{ranking}");
    // Repeating it changes nothing, except if two engines are equally fast.
    let again = bench(&scratch, &[]).out;
    let ranking = again.lines().last().unwrap().to_owned();
    assert!(
        ranking.ends_with("(in the cache already)") || ranking.ends_with("(written to the cache)"),
        "{ranking}"
    );
}

#[test]
fn measurements_are_written_as_json() {
    let scratch = Scratch::new("bench-json");
    let answer = bench(&scratch, &["--json", "--no-ranking"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    let found: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(
        (&found["graph"], &found["ranking_outcome"]),
        (&"batchnorm".into(), &"not handed over".into())
    );
    assert_eq!(found["ranking"].as_array().unwrap().len(), 2);
    for row in found["configurations"].as_array().unwrap() {
        assert_eq!(
            (&row["status"], &row["runs"], &row["is_right"]),
            (&"measured".into(), &3.into(), &true.into())
        );
        let (least, median) = (row["least_ms"].as_f64().unwrap(), row["median_ms"].as_f64().unwrap());
        assert!(0.0 < least && least <= median, "{row}");
    }
}

#[test]
fn a_wrong_engine_comes_last_and_fails_the_measurement() {
    let scratch = Scratch::new("bench-wrong");
    let graph = example("batchnorm");
    let arguments = ["bench", &graph, "--runs", "3", "--warmup", "0", "--no-ranking"];
    let answer = with_useless_engine(&scratch, &arguments);
    assert_eq!(
        (answer.status, answer.err.as_str()),
        (1, "hipdnn: STUB_ENGINE differs from CPU_REFERENCE_ENGINE\n")
    );
    let stub = answer.out.lines().find(|line| line.starts_with("STUB_ENGINE")).unwrap();
    assert!(stub.contains("WRONG"), "{stub}");
    assert!(answer.out.lines().last().unwrap().contains(", STUB_ENGINE (not handed over)"), "{}", answer.out);
}

#[test]
fn bad_arguments_are_named() {
    for (arguments, words) in [
        (&["--runs", "0"][..], "--runs <N>"),
        (&["--engine", "FAST"], "there is no engine \"FAST\""),
        (&["--seconds", "soon"], "expected a number"),
    ] {
        let graph = example("batchnorm");
        let line = refuse(&[&["bench", graph.as_str()], arguments].concat(), 2);
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn an_ill_conditioned_result_is_not_called_wrong() {
    let graph = case("attention_gradient_of_large_scores");
    let arguments =
        ["bench", &graph, "--engine", "CPU_ENGINE", "--values", "1", "--runs", "3", "--no-ranking"];
    let out = succeed(&[&arguments[..], &["--tolerance", "0.5"]].concat());
    assert!(out.contains("ok, ill-conditioned") && !out.contains("WRONG"), "{out}");
}
