//! `hipdnn check` of results that the order of a sum or the rounding of a slope makes finite, infinite or NaN.

use serde_json::{Value, json};

use crate::bundles::{METADATA, floats, tensor, write, write_json};
use crate::{Answer, Scratch, program};

/// What is said of golden results, the last tensor's.
fn checked(scratch: &Scratch, node: &Value, tensors: &[Value], values: &[&[f32]]) -> String {
    let stem = scratch.file("quick/Own/fp32/Small/Small");
    let graph = json!({"name": "", "io_data_type": "float", "intermediate_data_type": "float",
                       "compute_data_type": "float", "nodes": [node], "tensors": tensors});
    write_json(&format!("{stem}.json"), &graph);
    write(&format!("{stem}.meta.json"), METADATA);
    for (uid, values) in values.iter().enumerate() {
        write(&format!("{stem}.tensor{uid}.bin"), floats(values.iter().copied()));
    }
    let mut command = program();
    command.args(["check", &format!("{stem}.json"), "--engine", "CPU_ENGINE", "--against", "golden"]);
    Answer::from(command.output().unwrap()).out
}

const RIGHT: &str = "\n\n1 right\n";
const INFINITE: f32 = f32::INFINITY;

/// The first row overflows in some order, the second in none, and the third is infinite in any.
#[test]
fn sums_that_overflow_on_the_way_are_undetermined() {
    let scratch = Scratch::new("overflow");
    let node = json!({"type": "MatmulAttributes", "name": "", "compute_data_type": "float",
                      "inputs": {"a_tensor_uid": 0, "b_tensor_uid": 1}, "outputs": {"c_tensor_uid": 2}});
    let tensors = [
        tensor(0, "a", &[3, 4], &[4, 1]),
        tensor(1, "b", &[4, 1], &[1, 1]),
        tensor(2, "c", &[3, 1], &[1, 1]),
    ];
    let a = [3e38, 3e38, -3e38, -3e38, 1.0, 2.0, 3.0, 4.0, INFINITE, 1.0, 1.0, 1.0];
    let of = |c: [f32; 3]| checked(&scratch, &node, &tensors, &[&a, &[1.0; 4], &c]);
    for first in [0.0, INFINITE, -INFINITE, f32::NAN] {
        let out = of([first, 10.0, INFINITE]);
        assert!(out.ends_with(RIGHT), "{first}: {out}");
    }
    for wrong in [[0.0, INFINITE, INFINITE], [0.0, 10.0, f32::NAN], [0.0, 10.0, 3.0]] {
        let out = of(wrong);
        assert!(out.contains(": 1 BEYOND THE TOLERANCE"), "{wrong:?}: {out}");
    }
}

/// The slope of tanh is 0 at 20, but for rounding, and 1 at 0.
#[test]
fn infinite_gradients_of_flat_activations_are_not_finite() {
    let scratch = Scratch::new("slope");
    let node = json!({"type": "PointwiseAttributes", "name": "", "compute_data_type": "float",
                      "inputs": {"operation": "tanh_bwd", "in_0_tensor_uid": 0, "in_1_tensor_uid": 1},
                      "outputs": {"out_0_tensor_uid": 2}});
    let tensors = [0, 1, 2].map(|uid| tensor(uid, ["dy", "x", "dx"][uid as usize], &[1, 3], &[3, 1]));
    let of = |dx: [f32; 3]| {
        checked(&scratch, &node, &tensors, &[&[INFINITE, INFINITE, 2.0], &[20.0, 0.0, 0.0], &dx])
    };
    for first in [INFINITE, f32::NAN] {
        let out = of([first, INFINITE, 2.0]);
        assert!(out.ends_with(RIGHT), "{first}: {out}");
    }
    for wrong in [[0.0, INFINITE, 2.0], [INFINITE, f32::NAN, 2.0], [INFINITE, INFINITE, INFINITE]] {
        let out = of(wrong);
        assert!(out.contains(": 1 BEYOND THE TOLERANCE"), "{wrong:?}: {out}");
    }
}
