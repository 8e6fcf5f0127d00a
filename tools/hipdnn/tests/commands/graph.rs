//! `hipdnn graph`

use crate::{Scratch, example, refuse, root, succeed};

#[test]
fn a_graph_is_shown_as_text() {
    let wanted = "\
graph \"matmul\": 3 nodes, 6 tensors, compute float, intermediate float, io bfloat16

NODE     OPERATION  READS                  WRITES         PARAMETERS
product  Matmul     a=a b=b                c=product
bias     Pointwise  in_0=product in_1=bias  out_0=sum  operation=\"add\"
act      Pointwise  in_0=sum               out_0=c        operation=\"gelu_approx_tanh_fwd\"

UID  NAME     TYPE      SHAPE    STRIDES    KIND
  1  a        bfloat16  4×48×64  3072 64 1  input
  2  b        bfloat16  4×64×40  2560 40 1  input
  3  product  float     4×48×40  1920 40 1  virtual
  4  bias     bfloat16  1×1×40   40 40 1    input
  5  sum      float     4×48×40  1920 40 1  virtual
  6  c        bfloat16  4×48×40  1920 40 1  output
";
    let words = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    assert_eq!(words(&succeed(&["graph", &example("matmul")])), words(wanted));
}

#[test]
fn the_picture_in_the_documentation_is_up_to_date() {
    let scratch = Scratch::new("svg");
    let path = scratch.file("graph.svg");
    let said = succeed(&["graph", &example("residual_block"), "--svg", &path]);
    assert_eq!(said, format!("drew 7 nodes and 18 tensors into {path}\n"));
    let golden = root().join("docs/images/graph.svg");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), std::fs::read_to_string(golden).unwrap());
}

#[test]
fn fused_operations_of_a_plan_are_drawn_together() {
    let scratch = Scratch::new("planned");
    let path = scratch.file("graph.svg");
    let arguments = ["graph", &example("conv_half"), "--svg", &path, "--plan", "--engine"];
    succeed(&[&arguments[..], &["CPU_ENGINE"]].concat());
    let fused = std::fs::read_to_string(&path).unwrap();
    assert_eq!(fused.matches("stroke-dasharray=\"7 4\"").count(), 1, "{fused}");
    assert!(fused.contains(" · CPU_ENGINE<"), "{fused}");
    succeed(&[&arguments[..], &["CPU_REFERENCE_ENGINE"]].concat());
    let alone = std::fs::read_to_string(&path).unwrap();
    assert_eq!(alone.matches("stroke-dasharray=\"7 4\"").count(), 0, "{alone}");
    assert_eq!(alone.matches(": reference loops<").count(), 3, "{alone}");
    assert!(refuse(&["graph", &example("matmul"), "--plan"], 2).contains("--svg"));
    // With a trace the step has its time.
    let trace = scratch.file("trace.json");
    let mut command = crate::program();
    command.env("HIPDNN_TRACE_FILE", &trace).args(["run", &example("conv_half"), "--engine", "CPU_ENGINE"]);
    assert!(command.output().unwrap().status.success());
    succeed(&[&arguments[..], &["CPU_ENGINE", "--times", &trace]].concat());
    assert_eq!(std::fs::read_to_string(&path).unwrap().matches(" ms<").count(), 1);
    let other = [&arguments[..], &["CPU_REFERENCE_ENGINE", "--times", &trace]].concat();
    assert!(refuse(&other, 2).contains("the trace has no step of this plan of CPU_REFERENCE_ENGINE"));
}

#[test]
fn every_example_is_drawn() {
    let scratch = Scratch::new("examples");
    for name in ["attention", "batchnorm", "conv_bias_relu", "layernorm", "matmul"] {
        let path = scratch.file(&format!("{name}.svg"));
        succeed(&["graph", &example(name), "--svg", &path]);
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("</svg>\n"), "{name}");
    }
}

#[test]
fn a_graph_is_written_for_graphviz() {
    let text = succeed(&["graph", &example("matmul"), "--dot"]);
    assert!(text.starts_with("digraph \"matmul\" {\n") && text.ends_with("}\n"), "{text}");
    // Three operations and six tensors, with an edge for each tensor that an operation reads or writes.
    assert_eq!(text.matches(" [label=").count(), 3 + 6 + 8, "{text}");
    assert_eq!(text.matches(" -> ").count(), 8, "{text}");
    for part in ["label=\"matmul\\nproduct\"", "label=\"a\\nbfloat16 4×48×64\\npacked\"", "[label=\"in_0\"]"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(refuse(&["graph", &example("matmul"), "--dot", "--svg", "a.svg"], 2).contains("--dot"));
}

#[test]
fn a_picture_that_cannot_be_written_is_named() {
    let line = refuse(&["graph", &example("matmul"), "--svg", "/no/such/folder/a.svg"], 2);
    assert!(line.starts_with("hipdnn: cannot write /no/such/folder/a.svg: "), "{line}");
}
