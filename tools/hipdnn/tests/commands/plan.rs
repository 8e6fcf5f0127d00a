//! `hipdnn plan`

use crate::{Scratch, example, refuse, succeed};

#[test]
fn a_plan_is_saved_described_and_run() {
    let scratch = Scratch::new("plan");
    let path = scratch.file("conv.plan");
    let said =
        succeed(&["plan", "save", &example("conv_bias_relu"), &path, "--engine", "CPU_REFERENCE_ENGINE"]);
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!(said, format!("saved the plan of CPU_REFERENCE_ENGINE into {path}, {size} bytes\n"));
    let info = succeed(&["plan", "info", &path]);
    let workspace = info.lines().find(|line| line.starts_with("workspace")).unwrap();
    let wanted = format!(
        "\
file          {size} bytes
graph         \"conv_bias_relu\"
engine        CPU_REFERENCE_ENGINE (0xf05911d5fac01f5a)
plugin        CPU {}
{workspace}
tensors       1, 2, 3, 4, 5, 6
other shapes  no
",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(info, wanted);
    // The loaded plan computes the same as the graph.
    let loaded = succeed(&["plan", "load", &path, "--check"]);
    assert!(loaded.contains("  6  y       half  2×32×14×14  -1.9355  14.5703  1.3735    0\n"), "{loaded}");
    assert!(loaded.ends_with("  y: 12544 elements, all equal\n"), "{loaded}");
}

#[test]
fn a_plan_alone_needs_its_graph() {
    let scratch = Scratch::new("plan-alone");
    let (path, graph) = (scratch.file("alone.plan"), example("conv_bias_relu"));
    succeed(&["plan", "save", &graph, &path, "--without-graph"]);
    let info: serde_json::Value = serde_json::from_str(&succeed(&["plan", "info", &path, "--json"])).unwrap();
    assert_eq!((info["graph"].is_null(), info["tensor_uids"].as_array().unwrap().len()), (true, 6));
    let line = refuse(&["plan", "load", &path], 2);
    assert_eq!(
        line,
        format!("hipdnn: {path}: the plan was saved without its graph, which --graph has to give")
    );
    succeed(&["plan", "load", &path, "--graph", &graph, "--check"]);
    let line = refuse(&["plan", "load", &path, "--graph", &example("batchnorm")], 2);
    assert!(line.ends_with("the graph's tensor 7 is not in the plan"), "{line}");
}

#[test]
fn bad_plans_are_named() {
    let scratch = Scratch::new("plan-bad");
    let (good, bad) = (scratch.file("good.plan"), scratch.file("bad.plan"));
    succeed(&["plan", "save", &example("batchnorm"), &good]);
    let mut bytes = std::fs::read(&good).unwrap();
    let last = bytes.len() - 1;
    bytes.truncate(last / 2);
    std::fs::write(&bad, &bytes).unwrap();
    for command in ["info", "load"] {
        for path in [bad.as_str(), "/no/such.plan", "/dev/null", &example("batchnorm")] {
            let line = refuse(&["plan", command, path], 2);
            assert!(line.starts_with(&format!("hipdnn: {path}: ")), "{line}");
        }
    }
    let line = refuse(&["plan", "save", &example("batchnorm"), "/no/such/folder/a.plan"], 2);
    assert!(line.starts_with("hipdnn: cannot write /no/such/folder/a.plan: "), "{line}");
}
