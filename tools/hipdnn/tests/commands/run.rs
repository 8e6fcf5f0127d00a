//! `hipdnn run`

use crate::{
    Scratch, example, hipdnn, refuse, root, succeed, with_engine_of, with_useless_engine, without_times,
};

/// A file with an array of one number.
fn npy(path: &str, dims: &[usize], value: f32) {
    npy_of(path, dims, |_| value);
}

/// A file with an array whose values are computed from their index.
pub fn npy_of(path: &str, dims: &[usize], value: impl Fn(usize) -> f32) {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    let count: usize = dims.iter().map(|dim| dim.parse::<usize>().unwrap()).product();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", dims.join(", "));
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend((0..count).flat_map(|place| value(place).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

/// The numbers in a file.
fn numbers(path: &str) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[header..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

#[test]
fn a_run_is_summarized() {
    let out = succeed(&["run", &example("conv_bias_relu"), "--engine", "CPU_REFERENCE_ENGINE", "--check"]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(without_times(lines[0]).starts_with("CPU_REFERENCE_ENGINE (CPU "), "{out}");
    assert!(without_times(lines[0]).contains("): N ms in the first execution, workspace "), "{out}");
    assert_eq!(lines[2], "UID  RESULT  TYPE  SHAPE           MIN      MAX    MEAN  NAN");
    assert_eq!(lines[3], "  6  y       half  2×32×14×14  -1.9355  14.5703  1.3735    0");
    assert_eq!(lines[5..], ["compared with CPU_REFERENCE_ENGINE:", "  y: 12544 elements, all equal"]);
}

#[test]
fn every_engine_passes_the_check_on_every_example() {
    let folder = std::fs::read_dir(root().join("examples_graphs")).unwrap();
    for graph in folder.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned()) {
        for seed in ["0", "1"] {
            let arguments = ["run", &graph, "--engine", "CPU_ENGINE", "--check", "--seed", seed];
            if hipdnn(&["explain", &graph]).status == 0 {
                let out = succeed(&arguments);
                assert!(out.contains("\ncompared with CPU_REFERENCE_ENGINE:\n"), "{out}");
            } else {
                // An operation that the engines do not compute.
                let line = refuse(&arguments, 1);
                assert!(line.starts_with("hipdnn: CPU_ENGINE: "), "{line}");
            }
        }
    }
}

/// A graph of the tests.
pub fn case(name: &str) -> String {
    root().join(format!("tools/hipdnn/tests/graphs/{name}.json")).to_str().unwrap().to_owned()
}

#[test]
fn integers_booleans_and_int8_indices_are_computed() {
    for name in ["int8_matmul_compute_int32", "boolean_fusion_compute_boolean", "resample_max_index_int8"] {
        for engine in ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"] {
            let out = succeed(&["run", &case(name), "--engine", engine, "--check"]);
            assert!(out.lines().last().unwrap().ends_with("all equal"), "{name}: {out}");
        }
    }
}

/// A depthwise convolution, rounded to bytes node by node: a result may differ by 1 only where the product lies at a tie.
#[test]
fn rounded_integers_differ_at_ties_alone() {
    for seed in ["0", "1", "2"] {
        let out = succeed(&[
            "run",
            &case("depthwise_quantized"),
            "--engine",
            "CPU_ENGINE",
            "--check",
            "--seed",
            seed,
        ]);
        let last = out.lines().last().unwrap();
        assert!(last.ends_with("all equal") || last.ends_with(": ok"), "{out}");
    }
}

#[test]
fn sums_of_integers_are_exact() {
    let scratch = Scratch::new("integers");
    let (x, w, y) = (scratch.file("x.npy"), scratch.file("w.npy"), scratch.file("y.npy"));
    npy(&x, &[1, 4096, 2, 2], 127.0);
    npy(&w, &[3, 4096, 1, 1], -127.0);
    let files = [format!("1={x}"), format!("2={w}"), format!("3={y}")];
    for engine in ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"] {
        let arguments =
            ["--engine", engine, "--check", "--in", &files[0], "--in", &files[1], "--out", &files[2]];
        let out = succeed(&[&["run", &case("int8_sum_over_2_24")], arguments.as_slice()].concat());
        assert!(out.contains("all equal"), "{out}");
        // Little-endian integers of 32 bits.
        let bytes = std::fs::read(&y).unwrap();
        let last = bytes.last_chunk::<4>().copied().map(i32::from_le_bytes);
        assert_eq!(last, Some(-127 * 127 * 4096));
    }
}

#[test]
fn a_batch_normalization_of_large_numbers_does_not_overflow() {
    let scratch = Scratch::new("large");
    let (x, y, inverse) = (scratch.file("x.npy"), scratch.file("y.npy"), scratch.file("inverse.npy"));
    // -1, 0 and 1 in turn: the variance of a channel is close to 2/3.
    npy_of(&x, &[4, 16, 32, 32], |place| (place % 3) as f32 * 1e30 - 1e30);
    let [scale, bias] = ["scale", "bias"].map(|name| scratch.file(&format!("{name}.npy")));
    npy(&scale, &[1, 16, 1, 1], 1.0);
    npy(&bias, &[1, 16, 1, 1], 0.0);
    let files = [("1", &x), ("2", &scale), ("3", &bias)].map(|(uid, path)| format!("{uid}={path}"));
    let results = [("5", &y), ("6", &inverse)].map(|(uid, path)| format!("{uid}={path}"));
    for engine in ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"] {
        let graph = case("batchnorm_overflow");
        let mut arguments = vec!["run", &graph, "--engine", engine];
        files.iter().for_each(|file| arguments.extend(["--in", file]));
        results.iter().for_each(|file| arguments.extend(["--out", file]));
        succeed(&arguments);
        let largest = numbers(&y).into_iter().fold(0.0, f32::max);
        assert!((largest - 1.5_f32.sqrt()).abs() < 2e-3, "{engine}: {largest}");
        let of_first = numbers(&inverse)[0] * 1e30;
        assert!((of_first - 1.5_f32.sqrt()).abs() < 2e-3, "{engine}: {of_first}");
    }
}

#[test]
fn an_ill_conditioned_result_is_held_to_what_its_inputs_allow() {
    let graph = case("attention_gradient_of_large_scores");
    // Half the tolerance, so that it is exceeded on every processor.
    let out = succeed(&["run", &graph, "--engine", "CPU_ENGINE", "--check", "--tolerance", "0.5"]);
    assert!(out.contains("ok, ill-conditioned"), "{out}");
}

#[test]
fn arrays_come_from_files_and_go_to_files() {
    let scratch = Scratch::new("files");
    let (x, w, b, y) =
        (scratch.file("x.npy"), scratch.file("w.npy"), scratch.file("b.npy"), scratch.file("y.npy"));
    npy(&x, &[2, 16, 14, 14], 0.5);
    npy(&w, &[32, 16, 3, 3], 0.25);
    npy(&b, &[1, 32, 1, 1], -1.0);
    // By uid and by name.
    let inputs = [format!("1={x}"), format!("w={w}"), format!("4={b}")];
    let graph = example("conv_bias_relu");
    let mut arguments = vec!["run", &graph, "--out"];
    let output = format!("y={y}");
    arguments.push(&output);
    for input in &inputs {
        arguments.extend(["--in", input]);
    }
    succeed(&arguments);
    let y = numbers(&y);
    // In a corner the window covers 2 × 2 elements of 16 channels, inside 3 × 3.
    assert_eq!(
        (y.len(), y[0], y[15]),
        (2 * 32 * 14 * 14, 4.0 * 16.0 * 0.125 - 1.0, 9.0 * 16.0 * 0.125 - 1.0)
    );
}

#[test]
fn the_seed_decides() {
    let scratch = Scratch::new("seed");
    let run = |name: &str, seed: &str| {
        let path = scratch.file(name);
        succeed(&["run", &example("batchnorm"), "--seed", seed, "--out", &format!("8={path}")]);
        numbers(&path)
    };
    let first = run("a.npy", "5");
    assert_eq!(first, run("b.npy", "5"));
    assert_ne!(first, run("c.npy", "6"));
}

#[test]
fn an_engine_that_computes_something_else_is_caught() {
    let scratch = Scratch::new("useless");
    let graph = example("conv_bias_relu");
    let answer = with_useless_engine(&scratch, &["run", &graph, "--engine", "STUB_ENGINE", "--check"]);
    assert_eq!(
        (answer.status, answer.err.as_str()),
        (1, "hipdnn: STUB_ENGINE differs from CPU_REFERENCE_ENGINE in y\n")
    );
    assert!(answer.out.contains("12544 BEYOND THE TOLERANCE"), "{}", answer.out);
}

/// Its plugin says that it takes memory of the host, also where there is a GPU.
#[test]
fn an_engine_for_cpus_of_another_plugin_gets_memory_of_the_host() {
    let scratch = Scratch::new("third");
    let graph = example("conv_bias_relu");
    let arguments = ["run", &graph, "--engine", "THIRD_ENGINE", "--check"];
    let answer = with_engine_of("of_host", &scratch, &arguments);
    assert_eq!(
        (answer.status, answer.err.as_str()),
        (1, "hipdnn: THIRD_ENGINE differs from CPU_REFERENCE_ENGINE in y\n")
    );
}

#[test]
fn bad_arguments_are_named() {
    let scratch = Scratch::new("bad");
    let (wrong, text) = (scratch.file("wrong.npy"), scratch.file("text.npy"));
    npy(&wrong, &[3], 0.0);
    std::fs::write(&text, "1 2 3").unwrap();
    let graph = example("conv_bias_relu");
    let bias = scratch.file("bias.npy");
    npy(&bias, &[1, 32, 1, 1], 0.0);
    let (by_uid, by_name) = (format!("4={bias}"), format!("b={bias}"));
    let (wrong_shape, no_npy) = (format!("1={wrong}"), format!("1={text}"));
    for (arguments, words) in [
        (
            &["--engine", "FAST"][..],
            "there is no engine \"FAST\"; there are CPU_ENGINE, CPU_REFERENCE_ENGINE",
        ),
        (
            &["--engine", "0x4d"],
            "there is no engine with the id 77; there are CPU_ENGINE (0xfa9419aaf1757ef8), CPU_REFERENCE_ENGINE (0x",
        ),
        (&["--engine", "CPU_REFERENCE_ENGINE", "--knob", "speed=1"], "has no knob \"speed\" for this graph"),
        (&["--in", "1"], "expected UID=FILE"),
        (&["--in", &by_uid, "--in", &by_name], "tensor b is given twice"),
        (&["--in", "99=x.npy"], "the graph has no tensor 99 that memory is bound to; it has 1 (x), 2 (w)"),
        (&["--in", "3=x.npy"], "the graph has no tensor 3 that memory is bound to"),
        (&["--in", "6=x.npy"], "tensor y is written by the graph, not read"),
        (&["--out", "1=x.npy"], "tensor x is read by the graph, not written"),
        (&["--in", "1=/no/such/file.npy"], "/no/such/file.npy: No such file"),
        (&["--in", &wrong_shape], "wrong.npy: the array has the shape [3], tensor x has [2×16×14×14]"),
        (&["--in", &no_npy], "text.npy: this is not a .npy file"),
        (&["--out", "6=/no/such/folder/y.npy"], "cannot write /no/such/folder/y.npy"),
        (&["--seed", "many"], "invalid value 'many' for '--seed <N>'"),
        (&["--tolerance=-1"], "expected a number from 0"),
        (&["--memory", "moon"], "invalid value 'moon' for '--memory <PLACE>'"),
    ] {
        let line = refuse(&[&["run", graph.as_str()], arguments].concat(), 2);
        assert!(line.contains(words), "{arguments:?}: {line}");
    }
}

#[test]
fn device_memory_without_a_device_is_refused() {
    let answer = hipdnn(&["run", &example("batchnorm"), "--memory", "device"]);
    // With a device, the CPU engine would read its memory, so there is nothing to test.
    if answer.status != 0 {
        let line = crate::one_line(answer, 1);
        assert!(line.starts_with("hipdnn: device memory is needed, but "), "{line}");
    }
}

#[test]
fn tensors_that_exceed_memory_are_refused() {
    let scratch = Scratch::new("huge");
    let text = std::fs::read_to_string(example("batchnorm")).unwrap();
    for (dims, strides, words) in [
        ("[1099511627776, 24, 10, 10]", "[2400, 100, 10, 1]", "cannot be laid out: it is too large"),
        ("[250000, 24, 100, 100]", "[240000, 10000, 100, 1]", "bytes of memory, the machine has"),
    ] {
        let path = scratch.file("huge.json");
        let huge = text.replace("[8, 24, 10, 10]", dims).replace("[2400, 100, 10, 1]", strides);
        std::fs::write(&path, huge).unwrap();
        for command in ["run", "bench"] {
            let line = refuse(&[command, &path], 1);
            assert!(line.contains(words), "{line}");
        }
    }
}

#[test]
fn an_engine_that_applies_and_fails_is_reported_and_the_next_one_runs() {
    let scratch = Scratch::new("fails");
    let graph = example("conv_bias_relu");
    let run = |arguments: &[&str]| with_engine_of("throws_in_context", &scratch, arguments);
    for arguments in [&["run", &graph][..], &["plan", "save", &graph, &scratch.file("plan")]] {
        let answer = run(arguments);
        let first = answer.out.lines().next().unwrap_or_default();
        assert_eq!(answer.status, 0, "{} {}", answer.out, answer.err);
        assert!(first.contains(" applies and failed: ") && first.ends_with("; going on"), "{}", answer.out);
        assert!(answer.out.contains("CPU_ENGINE"), "{}", answer.out);
    }
}
