//! `hipdnn numerics`

use crate::run::{case, npy_of};
use crate::{Scratch, example, refuse, root, succeed};

/// The last line, which names the node that loses most, for a graph of the tests.
fn verdict(name: &str, more: &[&str]) -> String {
    let out = succeed(&[&["numerics", &case(name), "--engine", "CPU_ENGINE"], more].concat());
    println!("{out}");
    out.lines().last().unwrap().to_owned()
}

#[test]
fn a_variance_as_a_difference_of_means_cancels() {
    let scratch = Scratch::new("variance");
    let x = scratch.file("x.npy");
    npy_of(&x, &[8, 1024], |place| 300.0 + (place * 37 % 101) as f32 / 101.0);
    let line = verdict("loss_variance_cancels", &["--in", &format!("x={x}")]);
    assert!(line.starts_with("node 4 \"variance\" (Pointwise sub) loses "), "{line}");
    assert!(line.contains(": cancellation: the terms are "), "{line}");
}

#[test]
fn a_sum_in_half_precision_is_named() {
    let line = verdict("loss_sum_in_half", &[]);
    assert!(line.starts_with("node 0 \"partial\" (Reduction add) loses "), "{line}");
    assert!(line.ends_with(": cast too early: its error is that of the store to half"), "{line}");
}

#[test]
fn a_softmax_without_the_maximum_overflows() {
    let out = succeed(&["numerics", &case("loss_softmax_overflows"), "--engine", "CPU_ENGINE"]);
    let line = out.lines().last().unwrap();
    assert!(
        line.starts_with("node 1 \"exponentials\" (Pointwise exp) loses 3.3 of 3.3 digits: overflow: "),
        "{out}"
    );
    assert!(line.ends_with(", half ends at 65504"), "{out}");
    assert!(out.contains("the first infinity: node 1 \"exponentials\", "), "{out}");
    assert!(out.contains("the first NaN: node 3 \"probabilities\", "), "{out}");
}

#[test]
fn a_mask_of_infinities_is_no_loss() {
    let scratch = Scratch::new("mask");
    let mask = scratch.file("mask.npy");
    npy_of(&mask, &[1, 8, 8], |place| if place % 8 > place / 8 { f32::NEG_INFINITY } else { 0.0 });
    let line = verdict("masked_exponentials", &["--in", &format!("mask={mask}")]);
    assert_eq!(line, "no node loses digits");
}

#[test]
fn a_node_that_reads_an_infinity_did_not_make_it() {
    let scratch = Scratch::new("given-infinity");
    let x = scratch.file("x.npy");
    npy_of(&x, &[1, 8, 8], |place| if place == 3 { f32::INFINITY } else { 0.0 });
    let mask = scratch.file("mask.npy");
    npy_of(&mask, &[1, 8, 8], |_| 0.0);
    let line =
        verdict("masked_exponentials", &["--in", &format!("scores={x}"), "--in", &format!("mask={mask}")]);
    assert_eq!(line, "no node loses digits");
}

#[test]
fn a_cast_before_the_end_is_named() {
    let line = verdict("loss_cast_too_early", &[]);
    assert!(line.starts_with("node 1 \"narrow\" (Pointwise identity) loses "), "{line}");
    assert!(line.ends_with(": cast too early: its error is that of the store to bfloat16"), "{line}");
}

#[test]
fn an_epsilon_that_the_type_does_not_hold_is_named() {
    let scratch = Scratch::new("epsilon");
    let x = scratch.file("x.npy");
    // The first row has no variance.
    npy_of(&x, &[4, 256], |place| if place < 256 { 0.5 } else { (place * 37 % 101) as f32 / 101.0 });
    let line = verdict("loss_epsilon", &["--in", &format!("x={x}")]);
    assert!(line.starts_with("node 4 \"with_epsilon\" (Pointwise add) loses "), "{line}");
    assert!(line.contains(": epsilon 1.0e-8 is below what half holds beside 0 to "), "{line}");
}

#[test]
fn an_accumulator_in_single_precision_for_doubles_is_named() {
    let line = verdict("loss_accumulator", &[]);
    assert!(line.starts_with("node 0 \"product\" (Matmul) loses "), "{line}");
    assert!(
        line.ends_with("the accumulator, float, is narrower than needed for 512 terms: results in double"),
        "{line}"
    );
}

#[test]
fn an_epsilon_that_its_own_type_does_not_hold_is_told() {
    let scratch = Scratch::new("no-epsilon");
    let x = scratch.file("x.npy");
    npy_of(&x, &[2, 64], |place| if place < 64 { 0.0 } else { (place * 37 % 101) as f32 / 101.0 });
    let line = verdict("loss_epsilon_is_zero", &["--in", &format!("x={x}")]);
    assert_eq!(
        line,
        "no node loses digits, node 0 \"norm\" (RMSNorm) is the first that is not finite: epsilon 1.0e-9 is 0 in half, \
         and so is a variance"
    );
    // Here the infinity is given.
    npy_of(&x, &[2, 64], |place| if place == 3 { f32::INFINITY } else { (place * 37 % 101) as f32 / 101.0 });
    let input = format!("x={x}");
    let out = succeed(&["numerics", &case("loss_epsilon_is_zero"), "--engine", "CPU_ENGINE", "--in", &input]);
    assert!(out.contains("the first NaN: node 0 ") && !out.contains("epsilon"), "{out}");
}

#[test]
fn integers_that_saturate_are_told() {
    let line = verdict("loss_saturates", &[]);
    assert!(
        line.starts_with("no node loses digits by more than its type rounds, node 1 \"quantize\" "),
        "{line}"
    );
    assert!(line.ends_with(", int8 ends at 127"), "{line}");
    // Sums of 8 products, a quarter of which is the result: 126.75 is within int8, 128 is not.
    let scratch = Scratch::new("within-int8");
    let [a, b] = ["a", "b"].map(|name| scratch.file(&format!("{name}.npy")));
    npy_of(&a, &[1, 4, 8], |place| if place % 8 == 0 { 1.0 } else { 8.0 });
    for (first, of_scaled) in [(3.0, None), (8.0, Some("values up to 128, int8 ends at 127"))] {
        npy_of(&b, &[1, 8, 4], |place| if place < 4 { first } else { 9.0 });
        let input = [format!("a={a}"), format!("b={b}")];
        let options = ["--engine", "CPU_ENGINE", "--json", "--in", &input[0], "--in", &input[1]];
        let out = succeed(&[&["numerics", &case("int8_within_range")], &options[..]].concat());
        let found: serde_json::Value = serde_json::from_str(&out).unwrap();
        let reasons = found["rows"][1]["reasons"].to_string();
        assert_eq!(reasons.contains("saturation"), of_scaled.is_some(), "{out}");
        assert!(reasons.contains(of_scaled.unwrap_or_default()), "{out}");
    }
}

#[test]
fn a_loss_that_many_nodes_share_is_told() {
    let scratch = Scratch::new("many");
    let x = scratch.file("x.npy");
    // Each sum rounds down by nearly half a step.
    npy_of(&x, &[1, 16], |_| 4.0);
    let line = verdict("loss_of_many_sums", &["--in", &format!("x={x}")]);
    assert!(line.starts_with("no node alone loses digits, all together lose 1."), "{line}");
    assert!(line.contains(" of 3.3, 4.2 % of that by node 0 \"add0\" (Pointwise add): epsilon "), "{line}");
}

#[test]
fn a_rounded_result_loses_no_digits_beside_one_of_a_wider_type() {
    assert_eq!(verdict("loss_mixed_types", &[]), "no node loses digits");
    // Another node whose result is in half precision has a share of the error.
    let scratch = Scratch::new("mixed-types");
    let path = scratch.file("two.json");
    let text = std::fs::read_to_string(case("loss_mixed_types")).unwrap();
    let mut two: serde_json::Value = serde_json::from_str(&text).unwrap();
    let square = serde_json::json!({"type": "PointwiseAttributes", "name": "square", "outputs": {"out_0_tensor_uid": 8},
                                    "inputs": {"operation": "mul", "in_0_tensor_uid": 1, "in_1_tensor_uid": 1}});
    two["nodes"].as_array_mut().unwrap().push(square);
    let mut written = two["tensors"][4].clone();
    (written["uid"], written["name"]) = (8.into(), "z".into());
    two["tensors"].as_array_mut().unwrap().push(written);
    std::fs::write(&path, two.to_string()).unwrap();
    let out = succeed(&["numerics", &path, "--engine", "CPU_ENGINE"]);
    assert!(out.ends_with("\nno node loses digits\n"), "{out}");
}

#[test]
fn flushed_subnormals_are_within_bounds_and_named() {
    let scratch = Scratch::new("flushed");
    let x = scratch.file("x.npy");
    npy_of(&x, &[4, 64], |place| (place + 1) as f32 * 1e-41);
    let input = format!("x={x}");
    let options = ["--in", &input, "--engine", "CPU_ENGINE", "--knob", "flush_subnormals=1"];
    let graph = case("subnormals");
    let out = succeed(&[&["numerics", &graph, "--json"], &options[..]].concat());
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let product = &found["rows"][1];
    assert!(product["added"].as_f64().unwrap() <= product["bound"].as_f64().unwrap(), "{product}");
    let out = succeed(&[&["numerics", &graph], &options[..]].concat());
    assert!(
        out.contains("node 0 \"root\": flush: subnormal numbers, below 1.2e-38, count as zeros"),
        "{out}"
    );
    // The check takes the reference's results of zeros, also where numbers become so small inside of the graph.
    let larger = scratch.file("larger.npy");
    npy_of(&larger, &[4, 64], |place| (place + 1) as f32 * 1e-20);
    for input in [input, format!("x={larger}")] {
        let flushing = ["--engine", "CPU_ENGINE", "--knob", "flush_subnormals=1"];
        let out = succeed(&[&["run", &graph, "--check", "--in", &input], &flushing[..]].concat());
        assert_eq!(out.matches("all equal").count(), 3, "{out}");
    }
}

#[test]
fn one_flushed_subnormal_neither_voids_the_bound_nor_explains_other_errors() {
    let scratch = Scratch::new("one-subnormal");
    let a = scratch.file("a.npy");
    let value = |at: usize| if at == 5 { 1e-310 } else { (at * 37 % 101) as f64 / 101.0 - 0.5 };
    doubles(&a, &[1, 8, 512], value);
    let input = format!("a={a}");
    let graph = case("loss_accumulator");
    let options = ["--in", &input, "--engine", "CPU_ENGINE", "--knob", "flush_subnormals=1"];
    let out = succeed(&[&["numerics", &graph, "--json"], &options[..]].concat());
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let product = &found["rows"][0];
    assert!(product["bound"].as_f64().unwrap() < 1e-2, "{product}");
    let reasons = product["reasons"].to_string();
    assert!(reasons.contains("the accumulator, float, ") && !reasons.contains("flush"), "{reasons}");
}

/// A file with an array of doubles.
fn doubles(path: &str, dims: &[usize], value: impl Fn(usize) -> f64) {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {dims:?}, }}\n");
    let header = header.replace('[', "(").replace(']', ",)");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend((0..dims.iter().product()).flat_map(|place| value(place).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn shares_and_errors_are_also_json_and_a_picture() {
    let scratch = Scratch::new("numerics");
    let path = scratch.file("errors.svg");
    let graph = case("loss_cast_too_early");
    let out = succeed(&["numerics", &graph, "--engine", "CPU_ENGINE", "--json", "--svg", &path]);
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let rows = found["rows"].as_array().unwrap();
    let sum: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{out}");
    assert_eq!(found["culprit"], 1, "{out}");
    let (added, bound) = (rows[0]["added"].as_f64().unwrap(), rows[0]["bound"].as_f64().unwrap());
    assert!(added > 0.0 && added < bound, "{out}");
    let picture = std::fs::read_to_string(&path).unwrap();
    assert!(picture.contains(">50 % and more<") && picture.contains(" of the error, "), "{picture}");
}

#[test]
fn every_example_has_its_errors_within_the_bounds() {
    let folder = std::fs::read_dir(root().join("examples_graphs")).unwrap();
    for graph in folder.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned()) {
        let out = succeed(&["numerics", &graph, "--json"]);
        let found: serde_json::Value = serde_json::from_str(&out).unwrap();
        for row in found["rows"].as_array().unwrap() {
            if let (Some(added), Some(bound)) = (row["added"].as_f64(), row["bound"].as_f64()) {
                assert!(added <= bound, "{graph}: {row}");
            }
        }
    }
}

#[test]
fn inputs_are_named_as_for_a_run() {
    let line = refuse(&["numerics", &example("matmul"), "--in", "c=x.npy"], 2);
    assert!(line.contains("tensor c is written by the graph, not read"), "{line}");
}
