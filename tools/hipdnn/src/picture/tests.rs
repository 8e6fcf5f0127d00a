//! Pictures of whole graphs.

use serde_json::json;

use super::{Planned, svg};
use crate::graph::Graph;
use crate::graph::testing::{convolution, graph, pointwise, tensor};
use crate::steps::Step;

/// Blocks of convolution, bias, skip connection and activation, one after the other.
fn residual(blocks: i64) -> Graph {
    let image = [8, 64, 28, 28];
    let mut tensors = vec![tensor(0, "x", &image, false)];
    let mut nodes = Vec::new();
    let mut last = 0;
    for block in 0..blocks {
        let base = 10 * (block + 1);
        tensors.push(tensor(base, &format!("w{block}"), &[64, 64, 3, 3], false));
        tensors.push(tensor(base + 1, &format!("b{block}"), &[1, 64, 1, 1], false));
        tensors.extend([2, 3, 4].map(|at| tensor(base + at, "", &image, true)));
        let is_last = block + 1 == blocks;
        tensors.push(tensor(base + 5, if is_last { "y" } else { "" }, &image, !is_last));
        nodes.push(convolution(&format!("conv{block}"), last, base, base + 2));
        nodes.push(pointwise("", "add", base + 2, Some(base + 1), base + 3));
        nodes.push(pointwise("skip", "add", base + 3, Some(last), base + 4));
        nodes.push(pointwise("", "relu_fwd", base + 4, None, base + 5));
        last = base + 5;
    }
    graph("residual", tensors, nodes)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn every_box_and_every_edge_is_drawn() {
    let picture = svg(&residual(13), None).unwrap();
    // 52 operations, 52 tensors that they write, x, and a weight and a bias for each block.
    assert_eq!(count(&picture, "<g><title>"), 52 + 52 + 1 + 26);
    // Two edges into an operation, one into an activation; and one out of each.
    assert_eq!(count(&picture, "marker-end="), 3 * 13 * 2 + 13 + 52);
    assert_eq!(count(&picture, "<g"), count(&picture, "</g>"));
}

#[test]
fn boxes_of_a_layer_do_not_touch() {
    let graph = residual(13);
    let diagram = super::diagram::Diagram::new(&graph, super::Marks::Nothing);
    let mut layered = super::layers::Layered::new(&diagram);
    super::order::sort(&mut layered);
    let placed = super::place::Placed::new(&diagram, &layered);
    for (a, first) in diagram.items.iter().enumerate() {
        for (b, second) in diagram.items.iter().enumerate().skip(a + 1) {
            let (p, q) = (placed.centers[a], placed.centers[b]);
            let apart_x = (p.x - q.x).abs() >= (first.width + second.width) / 2.0;
            let apart_y = (p.y - q.y).abs() >= (first.height + second.height) / 2.0;
            assert!(apart_x || apart_y, "{first:?} {second:?}");
        }
    }
}

#[test]
fn markup_in_names_is_text() {
    let evil = "</text><script>alert(1)</script>";
    let tensors = vec![tensor(1, evil, &[4], false), tensor(2, "y&z", &[4], false)];
    let picture = svg(&graph(evil, tensors, vec![pointwise(evil, "exp", 1, None, 2)]), None).unwrap();
    assert!(!picture.contains("<script"), "{picture}");
    assert!(picture.contains("y&amp;z"), "{picture}");
}

#[test]
fn odd_graphs_are_drawn_too() {
    svg(&graph("nothing", vec![], vec![]), None).unwrap();
    // A circle, an unused tensor, and a missing one.
    let tensors = vec![tensor(1, "", &[4], true), tensor(2, "", &[4], true), tensor(3, "", &[], false)];
    let nodes = vec![pointwise("", "exp", 2, Some(9), 1), pointwise("", "log", 1, None, 2)];
    let picture = svg(&graph("circle", tensors, nodes), None).unwrap();
    assert_eq!(count(&picture, "<g><title>"), 5);
}

#[test]
fn a_picture_that_is_too_large_is_refused() {
    let nodes = (0..1001).map(|_| pointwise("", "exp", 1, None, 2)).collect();
    let tensors = vec![tensor(1, "", &[4], false), tensor(2, "", &[4], false)];
    assert!(svg(&graph("", tensors, nodes), None).is_err());
}

#[test]
fn operations_of_one_step_have_a_frame() {
    let step = |nodes: &[usize], algorithm: &str| Step {
        nodes: nodes.to_vec(),
        algorithm: algorithm.to_owned(),
        ..Step::default()
    };
    let steps = vec![step(&[0, 1, 2, 3], "winograd-4x4"), step(&[4, 5, 99], "im2col <1>"), step(&[6], "")];
    let planned = Planned { engine: "AN_ENGINE".to_owned(), steps, times: vec![Some(0.0421), None] };
    let picture = svg(&residual(2), Some(&planned)).unwrap();
    // A step of one node needs none.
    assert_eq!(count(&picture, "stroke-dasharray=\"7 4\""), 2);
    assert_eq!(count(&picture, ">1: winograd-4x4<"), 4);
    assert_eq!(count(&picture, ">2: im2col &lt;1&gt;<"), 2);
    assert_eq!(count(&picture, ">3: unknown<"), 1);
    // Once, where the step begins.
    assert_eq!(count(&picture, ">0.042 ms<"), 1);
    assert_eq!(count(&picture, " ms<"), 1);
    assert_eq!(count(&picture, "· AN_ENGINE<"), 2);
    assert_eq!(count(&picture, "<g"), count(&picture, "</g>"));
}

#[test]
fn orders_of_strides_have_names_and_numbers_are_rounded() {
    let mut last = tensor(1, "x", &[2, 3, 4, 5], false);
    last["strides"] = json!([60, 1, 15, 3]);
    let mut odd = tensor(2, "z", &[2, 3, 4, 5], false);
    odd["strides"] = json!([120, 40, 10, 2]);
    let mut value = tensor(3, "eps", &[1], false);
    value["value"] = json!(9.999999747378752e-6);
    let tensors = vec![last, odd, value, tensor(4, "y", &[2, 3, 4, 5], false)];
    let nodes = vec![pointwise("", "add", 1, Some(2), 4), pointwise("", "add", 4, Some(3), 9)];
    let picture = svg(&graph("", tensors, nodes), None).unwrap();
    for text in ["channels last", "strides 120 40 10 2", "packed", "eps = 1e-5"] {
        assert_eq!(count(&picture, &format!(">{text}<")), 1, "{text}");
    }
}
