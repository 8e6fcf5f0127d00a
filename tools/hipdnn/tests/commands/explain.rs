//! `hipdnn explain`

use crate::{Scratch, example, has, hipdnn, succeed, with_useless_engine};

#[test]
fn engines_that_apply_are_said_to() {
    let text = succeed(&["explain", &example("conv_bias_relu")]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(lines, ["CPU_ENGINE (CPU): applies", "CPU_REFERENCE_ENGINE (CPU): applies"]);
    assert!(text.contains("  supports execution plan serialization\n"), "{text}");
}

/// A graph that no engine computes: a group of channels that does not divide them.
fn refused(scratch: &Scratch) -> String {
    let text = std::fs::read_to_string(example("conv_bias_relu")).unwrap();
    let path = scratch.file("refused.json");
    std::fs::write(&path, text.replace("[32, 16, 3, 3]", "[32, 7, 3, 3]")).unwrap();
    path
}

#[test]
fn reasons_are_told_where_no_engine_applies() {
    let scratch = Scratch::new("refused");
    let answer = hipdnn(&["explain", &refused(&scratch)]);
    assert_eq!((answer.status, answer.err.as_str()), (1, "hipdnn: no engine can run this graph\n"));
    for line in answer.out.lines() {
        assert!(line.contains(": does not apply: node 0 \"conv\" (ConvolutionForward): "), "{line}");
    }
    assert_eq!(answer.out.lines().count(), 2);
}

#[test]
fn reasons_are_told_where_another_engine_applies() {
    let scratch = Scratch::new("another");
    let answer = with_useless_engine(&scratch, &["explain", &refused(&scratch), "--json"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    let answers: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!((&answers[0]["engine"], &answers[0]["rank"]), (&"STUB_ENGINE".into(), &1.into()));
    for at in [1, 2] {
        assert_eq!(answers[at]["applies"], false);
        let reason = answers[at]["reason"].as_str().unwrap();
        if !has("hipdnnSetUserLogCallback_ext") {
            // Without what plugins log there is only what the library says.
            assert!(reason.starts_with("choosing the engine failed: "), "{reason}");
            continue;
        }
        assert!(reason.starts_with("node 0 \"conv\" (ConvolutionForward): "), "{reason}");
    }
}
