//! `hipdnn compile`, and what the library makes of the file.

use std::path::Path;

use hipdnn::ahead;
use hipdnn_plugin_sdk::wire::{self, Container};

use crate::{Answer, Scratch, example, program, refuse, with_engine_of};

/// The instruction set of another family of processors.
const ABSENT: &str = if cfg!(target_arch = "x86_64") { "cpu:neon" } else { "cpu:avx512" };

fn run(variables: &[(&str, &str)], arguments: &[&str]) -> Answer {
    let mut command = program();
    command.env("HIPDNN_DISABLE_CACHE", "1").envs(variables.iter().copied());
    command.args(arguments);
    command.output().unwrap().into()
}

fn compile(output: &str, devices: &str, graphs: &[&str]) -> Answer {
    run(&[], &[&["compile", "--device", devices, "--output", output][..], graphs].concat())
}

/// The log lines about the package while a graph runs, whose results must be correct.
fn said(scratch: &Scratch, package: &str, graph: &str) -> String {
    let log = scratch.file("log.txt");
    let _ = std::fs::remove_file(&log);
    let variables =
        [("HIPDNN_PLAN_PACKAGE", package), ("HIPDNN_LOG_LEVEL", "info"), ("HIPDNN_LOG_FILE", log.as_str())];
    let answer = run(&variables, &["run", graph, "--engine", "CPU_ENGINE", "--check"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let text = std::fs::read_to_string(&log).unwrap();
    let of_package = |line: &&str| line.contains(package) && !line.contains("API called");
    text.lines().filter(of_package).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_library_that_ends_the_process_loses_the_plans_of_one_graph() {
    let scratch = Scratch::new("compile_ended");
    let file = scratch.file("plans.hdpk");
    let (norm, product) = (example("batchnorm"), example("matmul"));
    let words = ["compile", &product, &norm, "--device", "cpu", "--engine", "CPU_ENGINE", "--output", &file];
    let answer = with_engine_of("dies_of_matmul", &scratch, &words);
    assert_eq!(answer.status, 1, "{}", answer.err);
    let told = "\nmatmul for cpu: no plan\n  the process that planned it ended: signal: 8 (SIGFPE)";
    assert!(answer.out.contains(told) && answer.out.contains("\n1 plans in "), "{}", answer.out);
}

#[test]
fn a_graph_without_a_name_is_called_by_its_file() {
    let scratch = Scratch::new("compile_nameless");
    let (graph, file) = (scratch.file("nameless.json"), scratch.file("plans.hdpk"));
    let text = std::fs::read_to_string(example("matmul")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["name"] = "".into();
    std::fs::write(&graph, json.to_string()).unwrap();
    let answer = compile(&file, "cpu", &[&graph]);
    assert!(answer.out.contains("\nnameless  cpu "), "{}{}", answer.out, answer.err);
}

#[test]
fn plans_for_several_devices_are_one_file_and_the_matching_one_is_used() {
    let scratch = Scratch::new("compile");
    let (norm, product) = (example("batchnorm"), example("matmul"));
    let file = scratch.file("plans.hdpk");
    let answer = compile(&file, &format!("{ABSENT},cpu"), &[&norm, &product]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    assert!(answer.out.contains("\n4 plans in "), "{}", answer.out);
    let listed = run(&[], &["plan", "info", &file, "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let devices: Vec<&str> =
        listed.as_array().unwrap().iter().map(|of| of["device"].as_str().unwrap()).collect();
    assert_eq!(devices, ["cpu", "cpu", ABSENT, ABSENT]);
    assert!(
        listed.as_array().unwrap().iter().all(|of| of["engine"] == "CPU_ENGINE" && of["plugin"] == "CPU")
    );
    // The library uses the plan of an equal graph, and ignores others.
    assert!(said(&scratch, &file, &product).contains("the plan was loaded from"));
    assert_eq!(said(&scratch, &file, &example("layernorm")), "");
    // So does the tool with a graph's name.
    let loaded = run(&[], &["plan", "load", &file, "--graph", "matmul", "--check"]);
    assert_eq!((loaded.status, loaded.err.as_str()), (0, ""), "{}", loaded.out);
    assert!(!loaded.out.contains("planned anew"), "{}", loaded.out);
    let line = refuse(&["plan", "load", &file], 2);
    assert!(line.contains("several graphs, of which one has to be named: batchnorm, matmul"), "{line}");
    let line = refuse(&["plan", "load", &file, "--graph", "sum"], 2);
    assert!(line.contains("the file has no graph \"sum\"; it has batchnorm, matmul"), "{line}");
}

/// The file with each container changed.
fn changed(from: &str, to: &str, change: impl Fn(&mut Vec<u8>)) {
    let mut entries = ahead::read(&std::fs::read(from).unwrap()).unwrap();
    entries.iter_mut().for_each(|entry| change(&mut entry.container));
    std::fs::write(to, ahead::write(&entries).unwrap()).unwrap();
}

#[test]
fn plans_of_another_device_or_version_or_damaged_ones_are_planned_anew_and_reported() {
    let scratch = Scratch::new("compile-anew");
    let graph = example("batchnorm");
    let (elsewhere, right, other) =
        (scratch.file("elsewhere.hdpk"), scratch.file("right.hdpk"), scratch.file("other.hdpk"));
    assert_eq!(compile(&elsewhere, ABSENT, &[&graph]).status, 0);
    let line = said(&scratch, &elsewhere, &graph);
    assert!(
        line.contains(&format!(
            "is planned anew: {elsewhere}: the plan was made by another device: \"{ABSENT}\""
        )),
        "{line}"
    );
    let loaded = run(&[], &["plan", "load", &elsewhere, "--check"]);
    assert_eq!(loaded.status, 0, "{}", loaded.err);
    assert!(loaded.out.starts_with(&format!("planned anew: {ABSENT}: ")), "{}", loaded.out);

    assert_eq!(compile(&right, "cpu", &[&graph]).status, 0);
    changed(&right, &other, |container| {
        let Container { graph, plan } = wire::read_container(container).unwrap();
        let mut plan = wire::read_plan(plan).unwrap();
        plan.origin.as_mut().unwrap().plugin_version = "0.0.1".to_owned();
        let plan = wire::write_plan(&plan).unwrap();
        *container = wire::write_container(Container { graph, plan: &plan }).unwrap();
    });
    let line = said(&scratch, &other, &graph);
    assert!(
        line.contains("is planned anew") && line.contains("made by version \"0.0.1\" of plugin CPU"),
        "{line}"
    );

    // Damage inside a plan loses that plan, damage of the file all of them.
    changed(&right, &other, |container| {
        let middle = container.len() / 2;
        container[middle] ^= 1;
    });
    let line = said(&scratch, &other, &graph);
    assert!(line.contains("plan 0 in") && line.contains("is not used"), "{line}");
    let mut bytes = std::fs::read(&right).unwrap();
    for damage in [bytes.len() / 2, 5] {
        bytes[damage] ^= 1;
        std::fs::write(&other, &bytes).unwrap();
        let line = said(&scratch, &other, &graph);
        assert!(line.contains("the plans in") && line.contains("are not used"), "{line}");
        assert!(refuse(&["plan", "load", &other], 2).contains(&other));
        bytes[damage] ^= 1;
    }
    std::fs::write(&other, &bytes[..bytes.len() - 1]).unwrap();
    assert!(said(&scratch, &other, &graph).contains("are not used"));
    assert!(said(&scratch, &scratch.file("missing.hdpk"), &graph).contains("are not used"));
    assert!(said(&scratch, &right, &graph).contains("the plan was loaded from"));
}

#[test]
fn graphs_that_a_program_plans_are_recorded_and_compiled() {
    let scratch = Scratch::new("compile-record");
    let folder = scratch.file("graphs");
    for graph in ["batchnorm", "matmul", "matmul"] {
        let answer = run(&[("HIPDNN_RECORD_GRAPHS", &folder)], &["run", &example(graph)]);
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    }
    let mut recorded: Vec<String> = std::fs::read_dir(Path::new(&folder))
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .collect();
    recorded.sort();
    assert_eq!(recorded.len(), 2, "{recorded:?}");
    assert!(recorded[0].contains("/batchnorm-") && recorded[1].contains("/matmul-"), "{recorded:?}");
    let file = scratch.file("plans.hdpk");
    let graphs: Vec<&str> = recorded.iter().map(String::as_str).collect();
    let answer = compile(&file, "cpu", &graphs);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    assert!(said(&scratch, &file, &example("matmul")).contains("the plan was loaded from"));
    // A read-only folder only causes a line in the log.
    let answer = run(&[("HIPDNN_RECORD_GRAPHS", "/proc/nowhere")], &["run", &example("matmul"), "--check"]);
    assert_eq!(answer.status, 0, "{}", answer.err);
}

#[test]
fn a_plan_that_cannot_be_made_is_named_with_the_reasons() {
    let scratch = Scratch::new("compile-none");
    let graph = example("batchnorm");
    let file = scratch.file("plans.hdpk");
    // The CPU engines are the only ones here.
    let answer = compile(&file, "sm_90,cpu", &[&graph]);
    assert_eq!(answer.status, 1);
    assert!(
        answer.err.contains("1 of 2 plans could not be made; the others are in the file"),
        "{}",
        answer.err
    );
    assert!(
        answer.out.contains("batchnorm for sm_90: no plan\n  CPU_ENGINE: does not compute on GPUs"),
        "{}",
        answer.out
    );
    assert!(said(&scratch, &file, &graph).contains("the plan was loaded from"));
    let none = scratch.file("none.hdpk");
    let answer = compile(&none, "gfx942", &[&graph]);
    assert_eq!((answer.status, answer.err.as_str()), (1, "hipdnn: no plan could be made\n"));
    assert!(!Path::new(&none).exists());
    for (device, words) in [
        ("gpu", "--device gpu: expected names such as sm_90, gfx942, vulkan, cpu or cpu:avx512"),
        ("cpu:fast", "--device cpu:fast"),
    ] {
        let line = refuse(&["compile", &graph, "--device", device, "--output", &none], 2);
        assert!(line.contains(words), "{line}");
    }
    let line = refuse(&["compile", "/no/such/graph.json", "--device", "cpu", "--output", &none], 2);
    assert!(line.contains("/no/such/graph.json"), "{line}");
    let line = refuse(&["compile", &graph, "--device", "cpu", "--output", "/no/such/folder/plans.hdpk"], 2);
    assert!(line.contains("cannot write /no/such/folder/plans.hdpk"), "{line}");
}
