//! `--device vulkan:0`, on the device that is there: Mesa's software one, or a GPU. Without one the reason is checked.

use std::process::Command;

use crate::{Answer, Scratch, cpu_plugin, example, one_line, program};

const PLUGIN: &str = "libhipdnn_vulkan_plugin.so";

/// The program with the CPU engines and that for Vulkan devices.
fn with_vulkan() -> Command {
    let mut command = program();
    let plugin = cpu_plugin().with_file_name(PLUGIN);
    command.env_remove("HIPDNN_PLUGIN_DIR").arg("--plugin").arg(plugin);
    command
}

fn hipdnn(arguments: &[&str]) -> Answer {
    with_vulkan().args(arguments).output().unwrap().into()
}

/// Whether there is a usable device; if not, the reason is checked.
fn has_device() -> bool {
    let answer = hipdnn(&["device"]);
    if answer.out.lines().any(|line| line.starts_with("vulkan:0 ") && line.trim_end().ends_with("yes")) {
        return true;
    }
    assert!(answer.out.contains("no Vulkan device: ") || answer.out.contains("vulkan:0 "), "{}", answer.out);
    eprintln!("skipped: {}", answer.out);
    false
}

#[test]
fn devices_are_listed() {
    if !has_device() {
        return;
    }
    let json = hipdnn(&["device", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let first = &value["vulkan"][0];
    assert_eq!(
        (json.status, &first["number"], &first["is_usable"]),
        (0, &0.into(), &true.into()),
        "{}",
        json.out
    );
    let doctor = hipdnn(&["doctor"]);
    let line = format!("device      vulkan:0, {}, ", first["name"].as_str().unwrap());
    assert!(doctor.out.lines().any(|of| of.starts_with(&line)), "{}", doctor.out);
}

#[test]
fn graphs_run_in_memory_of_the_device() {
    if !has_device() {
        return;
    }
    let graph = example("matmul");
    for command in [&["run"][..], &["run", "--memory", "device"], &["run", "--memory", "host"]] {
        let more = [graph.as_str(), "--device", "vulkan:0", "--check"];
        let answer = hipdnn(&[command, &more].concat());
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
        assert!(
            answer.out.starts_with("VULKAN_ENGINE (Vulkan ") && answer.out.contains("compared with"),
            "{}",
            answer.out
        );
    }
    let bench = hipdnn(&["bench", &graph, "--device", "vulkan:0", "--runs", "3"]);
    assert!(
        bench.status == 0 && bench.out.contains("VULKAN_ENGINE") && bench.out.contains("  ok"),
        "{}",
        bench.out
    );
    assert!(!bench.out.contains("CPU_ENGINE"), "{}", bench.out);
    let explain = hipdnn(&["explain", &graph, "--device", "vulkan:0"]);
    assert!(explain.out.contains("VULKAN_ENGINE (Vulkan): applies"), "{}", explain.out);
}

/// Without the knob, the number of rows decides how many threads share one: on Mesa's device the first three have other bits then.
#[test]
fn items_of_a_batch_have_their_own_bits_with_the_knob() {
    if !has_device() {
        return;
    }
    for name in ["conv_bias_relu", "conv_int8", "residual_block", "attention", "layernorm"] {
        let graph = example(name);
        let arguments = ["run", &graph, "--device", "vulkan:0", "--invariant", "--knob", "batch_invariant=1"];
        let answer = hipdnn(&arguments);
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{name}: {}", answer.out);
        assert!(answer.out.starts_with("VULKAN_ENGINE, "), "{}", answer.out);
    }
}

#[test]
fn plans_are_saved_and_run_on_the_device() {
    if !has_device() {
        return;
    }
    let scratch = Scratch::new("vulkan-plan");
    let (graph, plan) = (example("matmul"), scratch.file("vulkan.plan"));
    let saved = hipdnn(&["plan", "save", &graph, &plan, "--device", "vulkan:0"]);
    assert!(saved.status == 0 && saved.out.contains("saved the plan of VULKAN_ENGINE"), "{}", saved.err);
    let loaded = hipdnn(&["plan", "load", &plan, "--device", "vulkan:0", "--check"]);
    assert!(loaded.status == 0 && loaded.out.contains("compared with"), "{}{}", loaded.out, loaded.err);
    let info = hipdnn(&["plan", "info", &plan, "--device", "vulkan:0"]);
    assert!(info.status == 0 && info.out.contains("VULKAN_ENGINE"), "{}", info.err);
}

#[test]
fn plans_made_ahead_of_time_are_taken_on_the_device() {
    if !has_device() {
        return;
    }
    let scratch = Scratch::new("vulkan-ahead");
    let (graph, file, log) = (example("matmul"), scratch.file("plans.hdpk"), scratch.file("log.txt"));
    let made = hipdnn(&["compile", &graph, "--device", "vulkan", "--output", &file]);
    assert!(made.status == 0 && made.out.contains("VULKAN_ENGINE"), "{}{}", made.out, made.err);
    let none =
        hipdnn(&["compile", &graph, "--device", "vulkan", "--engine", "CPU_ENGINE", "--output", &file]);
    assert!(none.out.contains("CPU_ENGINE: does not compute on Vulkan devices"), "{}{}", none.out, none.err);
    let mut run = with_vulkan();
    run.env("HIPDNN_PLAN_PACKAGE", &file).env("HIPDNN_LOG_LEVEL", "info").env("HIPDNN_LOG_FILE", &log);
    let answer: Answer =
        run.args(["run", &graph, "--device", "vulkan:0", "--check"]).output().unwrap().into();
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains(&format!("the plan was loaded from {file}")), "{text}");
}

#[test]
fn what_cannot_be_the_device_is_named() {
    let graph = example("matmul");
    let wrong = one_line(hipdnn(&["run", &graph, "--device", "metal:0"]), 2);
    assert!(wrong.contains("'metal:0'") && wrong.contains("expected a device such as vulkan:0"), "{wrong}");
    if !has_device() {
        return;
    }
    let none = one_line(hipdnn(&["run", &graph, "--device", "vulkan:99"]), 1);
    assert!(none.contains("--device vulkan:99") && none.contains("expected less than the"), "{none}");
    let other = one_line(hipdnn(&["run", &graph, "--device", "vulkan:0", "--engine", "CPU_ENGINE"]), 2);
    assert!(other.ends_with("CPU_ENGINE does not compute there, expected VULKAN_ENGINE"), "{other}");
}

#[test]
fn without_a_driver_the_reason_is_told() {
    if !cpu_plugin().with_file_name(PLUGIN).is_file() {
        return;
    }
    let run = |arguments: &[&str]| -> Answer {
        let mut command = with_vulkan();
        command.env("VK_DRIVER_FILES", "/nowhere/icd.json").env("VK_ICD_FILENAMES", "/nowhere/icd.json");
        command.args(arguments).output().unwrap().into()
    };
    let graph = example("matmul");
    let failed = one_line(run(&["run", &graph, "--device", "vulkan:0"]), 1);
    assert!(failed.contains("--device vulkan:0: opening Vulkan device 0: "), "{failed}");
    let listed = run(&["device"]);
    assert!(listed.out.contains("no Vulkan device: "), "{}", listed.out);
    let other = run(&["run", &graph, "--check"]);
    assert!(other.status == 0 && other.out.starts_with("CPU_ENGINE"), "{}{}", other.out, other.err);
}

#[test]
fn a_library_without_the_plugin_says_so() {
    let graph = example("matmul");
    let answer = program().args(["run", &graph, "--device", "vulkan:0"]).output().unwrap().into();
    let line = one_line(answer, 1);
    assert!(
        line.ends_with("the library has loaded no plugin of VULKAN_ENGINE, which has Vulkan's memory"),
        "{line}"
    );
}

#[test]
fn without_a_loader_the_reason_names_what_was_looked_for() {
    if !cpu_plugin().with_file_name(PLUGIN).is_file() {
        return;
    }
    let scratch = Scratch::new("vulkan-loader");
    for name in ["libvulkan.so.1", "libvulkan.so"] {
        std::fs::write(scratch.file(name), "not a library").unwrap();
    }
    let run = |arguments: &[&str]| -> Answer {
        with_vulkan().env("LD_LIBRARY_PATH", scratch.file("")).args(arguments).output().unwrap().into()
    };
    let graph = example("matmul");
    let failed = one_line(run(&["run", &graph, "--device", "vulkan:0"]), 1);
    assert!(failed.contains("no library for Vulkan was found; looked for libvulkan.so.1"), "{failed}");
    let other = run(&["run", &graph, "--check"]);
    assert!(other.status == 0 && other.out.starts_with("CPU_ENGINE"), "{}{}", other.out, other.err);
}
