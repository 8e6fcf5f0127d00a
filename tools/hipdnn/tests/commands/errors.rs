//! Bad arguments and bad files: one line, and the exit status.

use std::path::Path;
use std::process::Command;

use crate::{one_line, prefix, program, refuse, root};

#[test]
fn bad_arguments_are_named() {
    for (arguments, words) in [
        (&[][..], "a command is missing"),
        (&["fly"], "unrecognized subcommand 'fly'"),
        (&["engines", "--jsn"], "unexpected argument '--jsn'"),
        (&["run", "a", "--chek"], "did you mean --check? (hipdnn run --help says more)"),
        (&["engines", "extra"], "unexpected argument 'extra'"),
        (&["explain"], "<GRAPH>"),
        (&["graph", "a", "--svg"], "'--svg <FILE>'"),
    ] {
        let line = refuse(arguments, 2);
        assert!(line.starts_with("hipdnn: ") && line.contains(words), "{arguments:?}: {line}");
    }
}

#[test]
fn bad_files_are_named() {
    let folder = root().join("docs");
    let not_a_graph = root().join("LICENSE");
    for (path, words) in [
        ("/no/such/graph.json", "No such file"),
        (folder.to_str().unwrap(), "directory"),
        ("/dev/null", "the file is empty, expected a graph"),
        (not_a_graph.to_str().unwrap(), "neither JSON of a graph, which begins with a brace"),
    ] {
        for command in ["explain", "graph"] {
            let line = refuse(&[command, path], 2);
            assert!(line.starts_with(&format!("hipdnn: {path}: ")) && line.contains(words), "{line}");
        }
    }
}

#[test]
fn a_backend_that_cannot_be_opened_is_named() {
    let run = |path: &str| {
        one_line(program_alone().args(["--backend", path, "engines"]).output().unwrap().into(), 2)
    };
    let line = run("/no/such/libhipdnn_backend.so");
    assert!(line.starts_with("hipdnn: cannot open the backend: /no/such/libhipdnn_backend.so"), "{line}");
    let manifest = root().join("Cargo.toml");
    assert!(run(manifest.to_str().unwrap()).contains("Cargo.toml"));
}

#[test]
fn a_library_that_lacks_a_function_does_not_crash() {
    let output = program_alone().args(["--backend", "libm.so.6", "engines"]).output().unwrap();
    assert_eq!(
        one_line(output.into(), 1),
        "hipdnn: libm.so.6 has no function hipdnnCreate, which this command needs"
    );
}

#[test]
fn without_any_backend_the_places_are_named() {
    // The program without a library nearby or in the loader's path. A link, since a copy could not be run while another test's
    // new process still holds it open for writing.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let copy = folder.join("hipdnn");
    let original = prefix().map_or(env!("CARGO_BIN_EXE_hipdnn").into(), |prefix| prefix.join("bin/hipdnn"));
    std::fs::hard_link(original, &copy).unwrap();
    let mut command = Command::new(&copy);
    command.env_remove("LD_LIBRARY_PATH").env("HIPDNN_BACKEND_LIBRARY_PATH", "/elsewhere").arg("engines");
    let line = one_line(command.output().unwrap().into(), 2);
    std::fs::remove_dir_all(&folder).unwrap();
    let beside = folder.join("libhipdnn_backend.so");
    assert!(line.starts_with("hipdnn: no backend was found; looked for "), "{line}");
    assert!(line.contains(beside.to_str().unwrap()), "{line}");
    assert!(line.contains("/elsewhere/libhipdnn_backend.so"), "{line}");
}

/// The program without a library named.
fn program_alone() -> Command {
    let mut alone = Command::new(program().get_program());
    alone.env_remove("LD_LIBRARY_PATH");
    alone
}

#[test]
fn help_succeeds() {
    let help = program().arg("--help").output().unwrap();
    assert!(help.status.success() && help.stderr.is_empty());
    let text = String::from_utf8(help.stdout).unwrap();
    for word in ["Usage: hipdnn", "engines", "explain", "graph", "Exit status", "Examples:"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
