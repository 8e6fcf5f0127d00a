//! `hipdnn explain`

use serde_json::Value;

use crate::{Answer, Scratch, example, has, hipdnn, program, root, succeed, with_useless_engine};

#[test]
fn applicable_engines_are_listed() {
    let text = succeed(&["explain", &example("conv_bias_relu")]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(lines, ["CPU_ENGINE (CPU): applies", "CPU_REFERENCE_ENGINE (CPU): applies"]);
    assert!(text.contains("  supports execution plan serialization\n"), "{text}");
    // What it does to numbers: of each step of a plan, and of the engine.
    assert!(text.contains("    sums in float; their order depends on shapes, "), "{text}");
    assert!(text.contains("  numerical notes: NONDETERMINISTIC, "), "{text}");
    let answers: Vec<Value> =
        serde_json::from_str(&succeed(&["explain", &example("conv_bias_relu"), "--json"])).unwrap();
    assert_eq!(answers[1]["numerical_notes"], serde_json::json!(["STRICT_NAN_PROP"]));
    assert_eq!(answers[1]["steps"][0]["numerics"]["accumulators"], serde_json::json!(["float"]));
}

/// The answers of `explain` for a graph, by engine, and how many nodes it has.
fn explained(path: &str) -> (Vec<(String, Vec<Value>)>, usize) {
    let answers: Vec<Value> = serde_json::from_str(&succeed(&["explain", path, "--json"])).unwrap();
    let steps = |answer: &Value| {
        (answer["engine"].as_str().unwrap().to_owned(), answer["steps"].as_array().unwrap().clone())
    };
    let graph: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    (answers.iter().map(steps).collect(), graph["nodes"].as_array().unwrap().len())
}

/// Whether a text begins with the rows and columns of a micro-kernel and its compute type.
fn is_micro_kernel(text: &str) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let is_number = |word: &str| word.parse::<u32>().is_ok_and(|number| number > 0);
    matches!(words[..], [rows, "x", columns, kind, ..]
        if is_number(rows) && is_number(columns) && ["float", "float,", "double", "double,", "int32,"].contains(&kind))
}

/// Every node is in one step, and every step names its algorithm, with the reason if it is the reference.
fn expect_steps(path: &str) {
    let (answers, nodes) = explained(path);
    assert_eq!(answers.len(), 2, "{path}");
    for (engine, steps) in answers {
        let mut computed: Vec<u64> = steps
            .iter()
            .flat_map(|step| step["nodes"].as_array().unwrap())
            .map(|node| node.as_u64().unwrap())
            .collect();
        computed.sort_unstable();
        assert!(computed.into_iter().eq(0..nodes as u64), "{path} {engine}");
        for step in steps {
            let told = |key: &str| step[key].as_str().is_some_and(|text| !text.is_empty());
            let is_reference = step["algorithm"] == "reference";
            assert!(told("operation") && told("algorithm") && told("isa"), "{path} {engine}: {step}");
            assert!(is_reference || engine == "CPU_ENGINE", "{path} {engine}: {step}");
            assert_eq!(told("reference"), is_reference, "{path} {engine}: {step}");
            let operation = step["operation"].as_str().unwrap();
            if !is_reference && (operation.contains("Matmul") || operation.contains("Convolution")) {
                assert!(is_micro_kernel(step["kernel"].as_str().unwrap()), "{path}: {step}");
            }
            for key in ["bytes", "flops", "threads"] {
                assert!(
                    step[key].as_u64().is_some_and(|number| number > 0),
                    "{path} {engine}: {key} of {step}"
                );
            }
        }
    }
}

#[test]
fn every_step_of_every_example_has_an_algorithm() {
    for entry in std::fs::read_dir(root().join("examples_graphs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            expect_steps(path.to_str().unwrap());
        }
    }
    let (answers, _) = explained(&example("conv_half"));
    let (_, steps) = answers.iter().find(|(engine, _)| engine == "CPU_ENGINE").unwrap();
    assert_eq!(steps[0]["nodes"], serde_json::json!([0, 1, 2]), "{steps:?}");
    assert_eq!(steps[0]["operation"], "ConvolutionForward + ADD + RELU_FWD");
    let algorithms = ["direct", "im2col", "implicit-gemm", "unrolled"];
    assert!(algorithms.iter().any(|algorithm| steps[0]["algorithm"] == *algorithm), "{steps:?}");
    let (answers, _) = explained(&example("matmul"));
    let (_, steps) = answers.iter().find(|(engine, _)| engine == "CPU_ENGINE").unwrap();
    assert_eq!(steps[0]["operation"], "Matmul + ADD");
    assert_eq!(steps[0]["algorithm"], "gemm", "{steps:?}");
}

/// With the GPU engines, whose libraries are not on every machine.
#[test]
fn engines_that_lack_the_same_library_share_a_line() {
    let explain =
        program().env_remove("HIPDNN_PLUGIN_DIR").args(["explain", &example("matmul")]).output().unwrap();
    let answer = Answer::from(explain);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let device: Value = serde_json::from_str(&hipdnn(&["device", "--json"]).out).unwrap();
    let engines = ["HIPBLASLT_ENGINE", "HIPRTC_ENGINE", "MIOPEN_ENGINE", "MIOPEN_ENGINE_DETERMINISTIC"];
    let lines_with = |word: &str| -> Vec<&str> {
        answer.out.lines().filter(|line| !line.starts_with(' ') && line.contains(word)).collect()
    };
    if device["libraries"][0]["missing"].is_null() {
        // With HIP each engine has its own line.
        assert!(engines.iter().all(|engine| !lines_with(engine).is_empty()), "{}", answer.out);
        return;
    }
    let expected = "HIPBLASLT_ENGINE (hipBLASLt), HIPRTC_ENGINE (RTC), MIOPEN_ENGINE (MIOpen), \
        MIOPEN_ENGINE_DETERMINISTIC (MIOpen): do not apply: no library for the HIP runtime was found; looked for ";
    for engine in engines {
        let lines = lines_with(engine);
        assert!(matches!(lines[..], [line] if line.starts_with(expected)), "{engine}: {lines:?}");
    }
}

#[test]
fn the_reason_for_the_reference_loops_is_shown() {
    let scratch = Scratch::new("loops");
    let path = scratch.file("loops.json");
    let tensor = |uid: i64, data_type: &str, is_virtual: bool| serde_json::json!({"uid": uid, "data_type": data_type, "dims": [4, 8], "strides": [8, 1], "virtual": is_virtual});
    let node = |name: &str, operation: &str, uids: &[i64]| {
        let inputs = serde_json::json!({"operation": operation, "in_0_tensor_uid": uids[1], "in_1_tensor_uid": uids.get(2)});
        serde_json::json!({"type": "PointwiseAttributes", "name": name, "inputs": inputs, "outputs": {"out_0_tensor_uid": uids[0]}})
    };
    let graph = serde_json::json!({
        "name": "loops", "compute_data_type": "float", "intermediate_data_type": "float", "io_data_type": "float",
        "tensors": [tensor(1, "int64", false), tensor(2, "float", false), tensor(3, "float", true), tensor(4, "float", false)],
        "nodes": [node("odd", "add", &[3, 1, 2]), node("even", "exp", &[4, 3])]
    });
    std::fs::write(&path, graph.to_string()).unwrap();
    expect_steps(&path);
    let text = succeed(&["explain", &path]);
    let line = text.lines().find(|line| line.contains("\"odd\"")).unwrap();
    assert!(line.starts_with("  node 0 \"odd\", ADD: reference loops (") && line.contains("int64"), "{line}");
    // The log warns of slow steps, once.
    let log = scratch.file("log.txt");
    let mut command = crate::program();
    command.env("HIPDNN_LOG_LEVEL", "warn").env("HIPDNN_LOG_FILE", &log);
    assert!(command.args(["run", &path, "--check"]).output().unwrap().status.success());
    let log = std::fs::read_to_string(log).unwrap();
    let warnings: Vec<&str> =
        log.lines().filter(|line| line.contains("the reference loops compute it")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains("node \"odd\", Pointwise") && warnings[0].contains("int64 [4, 8]"), "{log}");
}

#[test]
fn a_log_of_errors_has_no_lines_of_what_the_tool_asks() {
    let scratch = Scratch::new("levels");
    for (word, said) in [
        ("error", ""),
        (
            "debg",
            "hipdnn: HIPDNN_LOG_LEVEL is \"debg\", expected trace, debug, info, warn, error, fatal or off; the log stays off\n",
        ),
    ] {
        let mut command = crate::program();
        let out = command.env("HIPDNN_LOG_LEVEL", word).args(["engines"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stderr), said);
    }
    // Errors are shown: a file that is not a plugin.
    let plugin = scratch.file("libtext.so");
    std::fs::write(&plugin, "text").unwrap();
    let mut command = crate::program();
    command.env("HIPDNN_LOG_LEVEL", "error").env("HIPDNN_PLUGIN_DIR", &plugin);
    let out = command.args(["policies"]).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(err.contains("[error]") && err.contains("libtext.so") && !err.contains("[info]"), "{err}");
}

/// A graph that no engine computes: a group of channels that does not divide them.
fn refused(scratch: &Scratch) -> String {
    let text = std::fs::read_to_string(example("conv_bias_relu")).unwrap();
    let path = scratch.file("refused.json");
    std::fs::write(&path, text.replace("[32, 16, 3, 3]", "[32, 7, 3, 3]")).unwrap();
    path
}

#[test]
fn reasons_are_shown_if_no_engine_applies() {
    let scratch = Scratch::new("refused");
    let answer = hipdnn(&["explain", &refused(&scratch)]);
    assert_eq!((answer.status, answer.err.as_str()), (1, "hipdnn: no engine can run this graph\n"));
    let engines =
        "CPU_ENGINE (CPU), CPU_REFERENCE_ENGINE (CPU): do not apply: node 0 \"conv\" (ConvolutionForward): ";
    assert!(answer.out.starts_with(engines), "{}", answer.out);
    assert_eq!(answer.out.lines().count(), 1);
}

#[test]
fn unknown_words_of_a_graph_are_reported() {
    let scratch = Scratch::new("unknown_words");
    let text = std::fs::read_to_string(example("conv_bias_relu")).unwrap();
    let path = scratch.file("unknown.json");
    std::fs::write(&path, text.replacen("\"float\"", "\"flaot\"", 1)).unwrap();
    let answer = hipdnn(&["explain", &path]);
    assert!(answer.err.starts_with("warning: ") && answer.err.contains("flaot"), "{}", answer.err);
    assert!(answer.err.contains("did you mean") && answer.err.contains("float"), "{}", answer.err);
}

#[test]
fn reasons_are_shown_if_another_engine_applies() {
    let scratch = Scratch::new("another");
    let answer = with_useless_engine(&scratch, &["explain", &refused(&scratch), "--json"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    let answers: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!((&answers[0]["engine"], &answers[0]["rank"]), (&"STUB_ENGINE".into(), &1.into()));
    for at in [1, 2] {
        assert_eq!(answers[at]["applies"], false);
        let reason = answers[at]["reason"].as_str().unwrap();
        if !has("hipdnnSetUserLogCallback_ext") {
            // Without the plugins' log there is only the library's message.
            assert!(reason.starts_with("choosing the engine failed: "), "{reason}");
            continue;
        }
        assert!(reason.starts_with("node 0 \"conv\" (ConvolutionForward): "), "{reason}");
    }
}
