//! `hipdnn run --check` finds faults that engines of this project once had, planted in an engine of the tests.

use std::path::PathBuf;

use stub_plugins::{Language, compiler};

use crate::run::{case, npy_of};
use crate::{Answer, Scratch, root, with_plugin};

/// The engine with the faults, built in a folder.
fn plugin(scratch: &Scratch) -> PathBuf {
    let file = PathBuf::from(scratch.file("libfaults.so"));
    let mut compiler = compiler(Language::Cxx);
    compiler.args(["-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden"]);
    compiler.arg("-DHIPDNN_BACKEND_NO_HIP_HEADERS");
    for headers in ["include", "bindings/cpp/include"] {
        compiler.arg("-I").arg(root().join(headers));
    }
    compiler.arg(root().join("c_tests/plugins/faults.cpp")).arg("-o").arg(&file);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

/// Checks a graph with and without the fault. Returns what is said of the fault.
fn checked(name: &str, scratch: &Scratch, more: &[&str]) -> String {
    let plugin = plugin(scratch);
    let graph = case(name);
    let run = |fault: &str| -> Answer {
        let arguments = ["run", &graph, "--engine", "FAULTY_ENGINE", "--check", "--knob", fault];
        with_plugin(&plugin, scratch, &[&arguments, more].concat())
    };
    let right = run("fault=0");
    assert_eq!((right.status, right.err.as_str()), (0, ""), "{}", right.out);
    let faulty = run("fault=1");
    assert_eq!(faulty.status, 1, "{}", faulty.out);
    assert!(
        faulty.err.starts_with("hipdnn: FAULTY_ENGINE differs from CPU_REFERENCE_ENGINE in "),
        "{}",
        faulty.err
    );
    faulty.out
}

#[test]
fn a_dropped_rounding_of_a_depthwise_convolution() {
    let out = checked("depthwise_quantized", &Scratch::new("rounding"), &[]);
    assert!(out.contains("largest difference 1, "), "{out}");
}

#[test]
fn a_norm_whose_squares_overflow() {
    let scratch = Scratch::new("norm2");
    let x = scratch.file("x.npy");
    npy_of(&x, &[4, 64], |place| ((place * 37 % 101) as f32 / 101.0 - 0.5) * 1e30);
    let out = checked("norm2_overflow", &scratch, &["--in", &format!("x={x}")]);
    assert!(out.contains("(inf for "), "{out}");
}

#[test]
fn an_epsilon_of_an_rms_norm_in_bfloat16() {
    let scratch = Scratch::new("rms");
    let x = scratch.file("x.npy");
    npy_of(&x, &[4, 64], |place| ((place * 37 % 101) as f32 / 101.0 - 0.5) * 1e-3);
    let out = checked("rms_epsilon", &scratch, &["--in", &format!("x={x}")]);
    assert!(out.contains("BEYOND THE TOLERANCE"), "{out}");
}
