//! `hipdnn engines` and `hipdnn policies`

use crate::{Answer, has, library, prefix, program, refuse, succeed};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn engines_are_listed() {
    let wanted = format!(
        "\
NAME                  ID                  PLUGIN  VERSION  TYPE
CPU_ENGINE            0xfa9419aaf1757ef8  CPU     {VERSION}    engine
CPU_REFERENCE_ENGINE  0xf05911d5fac01f5a  CPU     {VERSION}    engine
"
    );
    assert_eq!(succeed(&["engines"]), wanted);
}

#[test]
fn engines_are_listed_as_json() {
    let answer: serde_json::Value = serde_json::from_str(&succeed(&["engines", "--json"])).unwrap();
    let backend = answer["backend"].as_str().unwrap();
    assert_eq!(std::fs::canonicalize(backend).unwrap(), std::fs::canonicalize(library()).unwrap());
    assert!(answer["version"].as_str().unwrap().starts_with(VERSION));
    let names: Vec<_> = answer["engines"].as_array().unwrap().iter().map(|engine| &engine["name"]).collect();
    assert_eq!(names, ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"]);
    assert_eq!(answer["engines"][0]["id"].as_i64(), Some(0xfa94_19aa_f175_7ef8_u64.cast_signed()));
}

#[test]
fn policies_are_listed() {
    let function = "hipdnnGetHeuristicPolicyCount_ext";
    if !has(function) {
        assert!(
            refuse(&["policies"], 1)
                .ends_with(&format!("has no function {function}, which this command needs"))
        );
        return;
    }
    let text = succeed(&["policies"]);
    assert!(text.starts_with("NAME "), "{text}");
    for (name, id) in [
        ("SelectionHeuristic::Config", "0x79dac33209e0d5c1"),
        ("SelectionHeuristic::StaticOrdering", "0xb90b95e3c49b021d"),
    ] {
        assert!(text.lines().any(|line| line.starts_with(name) && line.contains(id)), "{text}");
    }
    let answer: serde_json::Value = serde_json::from_str(&succeed(&["policies", "--json"])).unwrap();
    assert!(answer["policies"].as_array().unwrap().len() >= 2, "{answer}");
}

#[test]
fn an_installed_tree_has_all_its_engines_with_no_setting() {
    if prefix().is_none() {
        return;
    }
    let answer: Answer = program().env_remove("HIPDNN_PLUGIN_DIR").arg("engines").output().unwrap().into();
    let names: Vec<_> =
        answer.out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let expected = [
        "CPU_ENGINE",
        "CPU_REFERENCE_ENGINE",
        "HIPBLASLT_ENGINE",
        "HIPRTC_ENGINE",
        "MIOPEN_ENGINE",
        "MIOPEN_ENGINE_DETERMINISTIC",
    ];
    assert_eq!(names, expected);
}
