//! `hipdnn engines` and `hipdnn policies`

use std::process::Command;

use crate::{Answer, Scratch, cpu_plugin, example, has, hipdnn, library, prefix, program, refuse, succeed};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn engines_are_listed() {
    let wanted = format!(
        "\
NAME                  ID                  PLUGIN  VERSION  TYPE
CPU_ENGINE            0xfa9419aaf1757ef8  CPU     {VERSION}    engine
CPU_REFERENCE_ENGINE  0xf05911d5fac01f5a  CPU     {VERSION}    engine

PLUGIN  GENERATION  BECAUSE                               FILE
CPU           2026  it exports hipdnnPluginGetApiVersion  {}

looked for engine plugins in {} (HIPDNN_PLUGIN_DIR): 1 file
",
        std::fs::canonicalize(cpu_plugin()).unwrap().display(),
        cpu_plugin().display()
    );
    assert_eq!(succeed(&["engines"]), wanted);
}

#[test]
fn engines_are_listed_as_json() {
    let answer: serde_json::Value = serde_json::from_str(&succeed(&["engines", "--json"])).unwrap();
    let backend = answer["backend"].as_str().unwrap();
    assert_eq!(std::fs::canonicalize(backend).unwrap(), std::fs::canonicalize(library()).unwrap());
    assert!(answer["version"].as_str().unwrap().starts_with(VERSION));
    let names: Vec<_> = answer["engines"].as_array().unwrap().iter().map(|engine| &engine["name"]).collect();
    assert_eq!(names, ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"]);
    assert_eq!(answer["engines"][0]["id"].as_i64(), Some(0xfa94_19aa_f175_7ef8_u64.cast_signed()));
}

fn with_folder(folder: &str, arguments: &[&str]) -> Answer {
    program().env("HIPDNN_PLUGIN_DIR", folder).args(arguments).output().unwrap().into()
}

#[test]
fn a_folder_without_engines_is_a_failure_with_reasons() {
    let scratch = Scratch::new("refused");
    let bad = scratch.file("libbad.so");
    std::fs::write(&bad, "no library").unwrap();
    let answer = with_folder(&scratch.file(""), &["engines"]);
    assert_eq!((answer.status, answer.err.as_str()), (1, "hipdnn: no engine is loaded\n"));
    assert!(answer.out.contains(&format!("not loaded: {bad}: ")), "{}", answer.out);
    assert!(answer.out.contains("looked for engine plugins in "), "{}", answer.out);
    let answer = with_folder(&scratch.file(""), &["engines", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!((answer.status, value["refused"][0]["file"].as_str()), (1, Some(bad.as_str())));
    let answer = with_folder("/no/such/folder/", &["engines"]);
    assert_eq!(answer.status, 1);
    assert!(
        answer.out.contains("warning: the plugin folder /no/such/folder/ does not exist\n"),
        "{}",
        answer.out
    );
}

#[test]
fn a_plugin_may_be_added() {
    let scratch = Scratch::new("added");
    let stub = stub_plugins::library("one_engine").unwrap();
    let stub = stub.to_str().unwrap();
    let text = succeed(&["engines", "--plugin", stub]);
    assert!(text.contains("\nSTUB_ENGINE ") && text.contains("\nCPU_ENGINE "), "{text}");
    let text = succeed(&["--plugin", stub, "explain", &example("matmul")]);
    assert!(text.contains("STUB_ENGINE (Stub): applies"), "{text}");
    let bad = scratch.file("libbad.so");
    std::fs::write(&bad, "no library").unwrap();
    for command in [&["engines"][..], &["explain", &example("matmul")]] {
        let answer = hipdnn(&[&["--plugin", &bad], command].concat());
        assert_eq!(answer.status, 1, "{}", answer.out);
        assert!(
            answer.err.starts_with(&format!("hipdnn: the plugin {bad} is not loaded: ")),
            "{}",
            answer.err
        );
    }
    assert!(
        refuse(&["--plugin", "/no/such.so", "engines"], 2)
            .starts_with("hipdnn: --plugin /no/such.so: No such file")
    );
}

#[test]
fn the_doctor_lists_everything() {
    let file = std::fs::canonicalize(cpu_plugin()).unwrap();
    let text = succeed(&["doctor"]);
    for (word, part) in [
        ("hipdnn", VERSION),
        ("system", "Linux"),
        ("processor", "threads"),
        ("GPU driver", ""),
        ("GPU library", "HIP runtime"),
        ("library", library().to_str().unwrap()),
        ("plugin", file.to_str().unwrap()),
        ("engine", "CPU_ENGINE"),
        ("policy", "SelectionHeuristic::Config"),
        ("variable", "HIPDNN_PLUGIN_DIR="),
    ] {
        let has = |line: &str| line.starts_with(&format!("{word:<11} ")) && line.contains(part);
        assert!(text.lines().any(has), "{word} {part}: {text}");
    }
    if cfg!(target_arch = "x86_64") {
        let isa = |limit: &str| {
            let answer: Answer =
                program().arg("doctor").env("HIPDNN_CPU_MAX_ISA", limit).output().unwrap().into();
            answer.out.lines().find_map(|line| line.strip_prefix("ISA         ")).unwrap().to_owned()
        };
        let (all, least) = (isa(""), isa("sse"));
        let (used, present) = all.split_once("; the processor has ").unwrap();
        assert_eq!(present.split(", ").last(), Some(used), "{all}");
        let limit = if used == "sse" { "" } else { ", the limit by HIPDNN_CPU_MAX_ISA" };
        assert_eq!(least, format!("sse{limit}; the processor has {present}"));
    }
    let answer = with_folder("/no/such/folder/", &["doctor"]);
    assert_eq!((answer.status, answer.err.as_str()), (1, "hipdnn: no engine is loaded\n"));
    assert!(answer.out.contains("plugins     warning: the plugin folder /no/such/folder/ does not exist\n"));
    // Unlike the other tests: the library may be named only once.
    let path = program().get_program().to_owned();
    let answer = Command::new(path).args(["--backend", "/no/library.so", "doctor"]).output().unwrap();
    let answer = Answer::from(answer);
    assert!(
        answer.out.contains("\nprocessor ") && answer.out.contains("\nlibrary     cannot open the backend")
    );
}
/// The entry of the only plugin, with a setting.
fn plugin(setting: &str) -> serde_json::Value {
    let mut program = program();
    let answer: Answer =
        program.args(["engines", "--json"]).env("HIPDNN_PLUGIN_GENERATION", setting).output().unwrap().into();
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{}", answer.out);
    let answer: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(answer["plugins"].as_array().unwrap().len(), 1, "{answer}");
    answer["plugins"][0].clone()
}

#[test]
fn the_generation_of_a_plugin_is_listed_with_its_reason() {
    let file = std::fs::canonicalize(cpu_plugin()).unwrap();
    let found = serde_json::json!({
        "name": "CPU",
        "version": VERSION,
        "file": file.to_str().unwrap(),
        "generation": "2026",
        "reason": "it exports hipdnnPluginGetApiVersion",
    });
    assert_eq!(plugin(""), found);
    assert_eq!(plugin("libother.so=2025"), found);
    for setting in ["2025", "2026,libhipdnn_cpu_plugin.so=2025", &format!("{}=2025", file.display())] {
        let told = plugin(setting);
        assert_eq!(told["generation"], "2025", "{setting}");
        assert_eq!(told["reason"], "HIPDNN_PLUGIN_GENERATION says so", "{setting}");
    }
}

#[test]
fn policies_are_listed() {
    let function = "hipdnnGetHeuristicPolicyCount_ext";
    if !has(function) {
        assert!(
            refuse(&["policies"], 1)
                .ends_with(&format!("has no function {function}, which this command needs"))
        );
        return;
    }
    let text = succeed(&["policies"]);
    assert!(text.starts_with("NAME "), "{text}");
    for (name, id) in [
        ("SelectionHeuristic::Config", "0x79dac33209e0d5c1"),
        ("SelectionHeuristic::StaticOrdering", "0xb90b95e3c49b021d"),
    ] {
        assert!(text.lines().any(|line| line.starts_with(name) && line.contains(id)), "{text}");
    }
    let answer: serde_json::Value = serde_json::from_str(&succeed(&["policies", "--json"])).unwrap();
    assert!(answer["policies"].as_array().unwrap().len() >= 2, "{answer}");
}

#[test]
fn an_installed_tree_has_all_its_engines_with_no_setting() {
    if prefix().is_none() {
        return;
    }
    let answer: Answer = program().env_remove("HIPDNN_PLUGIN_DIR").arg("engines").output().unwrap().into();
    let names: Vec<_> = answer.out.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
    let expected = [
        "CPU_ENGINE",
        "CPU_REFERENCE_ENGINE",
        "CUBLASLT_ENGINE",
        "CUDNN_ENGINE",
        "HIPBLASLT_ENGINE",
        "HIPRTC_ENGINE",
        "MIOPEN_ENGINE",
        "MIOPEN_ENGINE_DETERMINISTIC",
        "NVRTC_ENGINE",
        "VULKAN_ENGINE",
    ];
    assert_eq!(names, expected);
}

/// The program for scripts, if it is installed: it uses only the library beside it.
fn list_engines(arguments: &[&str]) -> Option<Answer> {
    let mut command = Command::new(prefix()?.join("bin/hipdnn_list_engines"));
    // Without plugins or a library from the environment.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HIPDNN_")) {
        command.env_remove(name);
    }
    command.env_remove("LD_LIBRARY_PATH");
    Some(command.args(arguments).output().unwrap().into())
}

/// The lines that TheRock's installation test expects, with and without a folder.
#[test]
fn engines_are_listed_as_amds_program_does() {
    let Some(prefix) = prefix() else { return };
    let folder = prefix.join("lib/hipdnn_plugins/engines");
    let named = list_engines(&["--plugin-dir", folder.to_str().unwrap()]).unwrap();
    let found = list_engines(&[]).unwrap();
    assert_eq!((named.status, named.err.as_str()), (0, ""));
    assert_eq!((found.status, found.err.as_str()), (0, ""));
    assert_eq!(named.out, found.out);
    assert!(named.out.starts_with("Loaded engines:\n"), "{}", named.out);
    for engine in [
        format!(
            "  CPU_ENGINE (0xFA9419AAF1757EF8)\n    Plugin:  CPU\n    Version: {VERSION}\n    Type:    HIPDNN_PLUGIN_TYPE_ENGINE\n"
        ),
        "  MIOPEN_ENGINE (0x15B46865C717A122)\n".to_owned(),
        "  MIOPEN_ENGINE_DETERMINISTIC (0xA258541A6DAA1DE3)\n".to_owned(),
    ] {
        assert!(named.out.contains(&engine), "{}", named.out);
    }
    // Another folder has no engines, which is not a failure.
    let other = list_engines(&["--plugin-dir", prefix.join("include").to_str().unwrap()]).unwrap();
    assert_eq!((other.status, other.out.as_str()), (0, "No engines found.\n"));
    let wrong = list_engines(&["--json"]).unwrap();
    assert_eq!((wrong.status, wrong.out.as_str()), (1, ""));
    assert!(wrong.err.ends_with("hipdnn_list_engines: unknown argument --json\n"), "{}", wrong.err);
}
