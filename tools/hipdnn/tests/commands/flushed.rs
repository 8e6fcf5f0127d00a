//! `hipdnn check` of plans that count subnormal numbers as zeros.

use std::fs;

use crate::bundles::golden_batchnorm;
use crate::{Answer, Scratch, program};

#[test]
fn a_flushed_subnormal_excuses_no_other_element_of_golden_results() {
    let scratch = Scratch::new("golden-flushed");
    let stem = golden_batchnorm(&scratch);
    let change = |uid: usize, at: usize, value: f32| {
        let path = format!("{stem}.tensor{uid}.bin");
        let mut bytes = fs::read(&path).unwrap();
        bytes[4 * at..][..4].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, bytes).unwrap();
    };
    let check = || {
        let mut command = program();
        command.args(["check", &format!("{stem}.json"), "--engine", "CPU_ENGINE", "--against", "golden"]);
        command.env("HIPDNN_FLUSH_SUBNORMALS", "1");
        Answer::from(command.output().unwrap()).out
    };
    // The first channel is 0, but for one subnormal number that is scaled to 0.1.
    for at in (0..96).step_by(3) {
        change(0, at, if at == 0 { 1e-39 } else { 0.0 });
        change(5, at, if at == 0 { 0.1 } else { 0.0 });
    }
    for (uid, value) in [(1, 0.0), (2, 1e19), (3, 1e19), (4, 0.0)] {
        change(uid, 0, value);
    }
    let out = check();
    assert!(out.ends_with("\n\n1 right\n"), "{out}");
    change(5, 95, 7.0);
    let out = check();
    assert!(out.contains(" at [1, 2, 3, 3] (") && out.contains(": 1 BEYOND THE TOLERANCE"), "{out}");
}
