//! The program as a user runs it: what it prints, and its exit status.
//!
//! It is the one that cargo has built, with the library and the engines that lie beside this test; or, with
//! `HIPDNN_TEST_PREFIX`, the one of an installed tree, with what it finds there by itself.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod engines;
mod errors;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the program answered.
pub struct Answer {
    /// The exit status.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The installed tree that is tested, if there is one.
pub fn prefix() -> Option<PathBuf> {
    std::env::var_os("HIPDNN_TEST_PREFIX").map(PathBuf::from)
}

/// The library that the program uses.
pub fn library() -> PathBuf {
    match prefix() {
        Some(prefix) => prefix.join("lib/libhipdnn_backend.so"),
        // Cargo puts libraries beside the tests.
        None => std::env::current_exe().unwrap().with_file_name("libhipdnn_backend.so"),
    }
}

/// The plugin with the CPU engines.
pub fn cpu_plugin() -> PathBuf {
    match prefix() {
        Some(prefix) => prefix.join("lib/hipdnn_plugins/engines/libhipdnn_cpu_plugin.so"),
        None => std::env::current_exe().unwrap().with_file_name("libhipdnn_cpu_plugin.so"),
    }
}

/// The program, with no setting of the environment it is tested in but the CPU engines.
pub fn program() -> Command {
    let mut command = match prefix() {
        Some(prefix) => Command::new(prefix.join("bin/hipdnn")),
        None => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hipdnn"));
            command.arg("--backend").arg(library());
            command
        }
    };
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HIPDNN_") {
            command.env_remove(name);
        }
    }
    // On any machine the same engines, so that what they answer can be compared.
    command.env("HIPDNN_PLUGIN_DIR", cpu_plugin());
    command.env_remove("LD_LIBRARY_PATH");
    command
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the program.
pub fn hipdnn(arguments: &[&str]) -> Answer {
    program().args(arguments).output().unwrap().into()
}

/// Runs the program, which has to succeed, and answers what it printed.
pub fn succeed(arguments: &[&str]) -> String {
    let answer = hipdnn(arguments);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{arguments:?}: {}", answer.out);
    answer.out
}

/// Runs the program, which has to refuse with one line and an exit status, and answers the line.
pub fn refuse(arguments: &[&str], status: i32) -> String {
    one_line(hipdnn(arguments), status)
}

/// The one line of an answer that failed.
pub fn one_line(answer: Answer, status: i32) -> String {
    assert_eq!(answer.status, status, "{}{}", answer.out, answer.err);
    assert_eq!(answer.err.lines().count(), 1, "{}", answer.err);
    answer.err.trim_end().to_owned()
}

/// The project's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
