//! The program as a user runs it: what it prints, and its exit status.
//!
//! Tests the program that cargo built, with the library and the engines of the tree that `cargo xtask build` lays out; or, with
//! `HIPDNN_TEST_PREFIX`, the program of an installed tree, with what it finds there.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failure of the test")]

mod bench;
mod bounds;
mod bundles;
mod compile;
mod device;
mod engines;
mod errors;
mod explain;
mod faults;
mod flushed;
mod graph;
mod invariant;
mod numerics;
mod plan;
mod policies;
mod run;
mod tune;
mod undetermined;
mod vulkan;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program's output.
pub struct Answer {
    /// The exit status.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The installed tree under test, if any.
pub fn prefix() -> Option<PathBuf> {
    std::env::var_os("HIPDNN_TEST_PREFIX").map(PathBuf::from)
}

/// The tree with the library and the engines.
fn tree() -> PathBuf {
    prefix().unwrap_or_else(|| {
        // The test is in `debug/deps` of cargo's target folder.
        let stage = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("stage");
        assert!(stage.is_dir(), "{} is missing: `cargo xtask build` makes it", stage.display());
        stage
    })
}

/// The library that the program uses.
pub fn library() -> PathBuf {
    tree().join("lib/libhipdnn_backend.so")
}

/// The plugin with the CPU engines.
pub fn cpu_plugin() -> PathBuf {
    tree().join("lib/hipdnn_plugins/engines/libhipdnn_cpu_plugin.so")
}

/// The program with only the CPU engines, without settings from the environment.
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
    // The same engines on any machine, so that their answers can be compared.
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

/// Runs the program, which must succeed. Returns its output.
pub fn succeed(arguments: &[&str]) -> String {
    let answer = hipdnn(arguments);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{arguments:?}: {}", answer.out);
    answer.out
}

/// Runs the program, which must fail with one line and an exit status. Returns the line.
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

/// Whether the library has a function, by a list that another test keeps exact.
pub fn has(function: &str) -> bool {
    let list = std::fs::read_to_string(root().join("c_tests/exports.txt")).unwrap();
    list.lines().any(|line| line.trim() == function)
}

/// One of the example graphs.
pub fn example(name: &str) -> String {
    root().join("examples_graphs").join(format!("{name}.json")).to_str().unwrap().to_owned()
}

/// A temporary folder of a test, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A folder of a test's own.
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hipdnn-tool-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Leftovers in the system's temporary folder do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Replaces a number before ` ms`, which differs each time.
pub fn without_times(text: &str) -> String {
    let words = text.split(' ').collect::<Vec<_>>();
    let is_time = |at: usize| words.get(at + 1).is_some_and(|next| next.starts_with("ms"));
    let shown = |(at, word): (usize, &&str)| if is_time(at) { "N".to_owned() } else { (*word).to_owned() };
    words.iter().enumerate().map(shown).collect::<Vec<_>>().join(" ")
}

/// The program with the CPU engines and an engine that accepts every graph and writes nothing.
pub fn with_useless_engine(scratch: &Scratch, arguments: &[&str]) -> Answer {
    with_engine_of("one_engine", scratch, arguments)
}

/// The same with a plugin of `c_tests/plugins/variants.txt`.
pub fn with_engine_of(stub: &str, scratch: &Scratch, arguments: &[&str]) -> Answer {
    with_plugin(&stub_plugins::library(stub).unwrap(), scratch, arguments)
}

/// The same with a plugin's file.
pub fn with_plugin(plugin: &Path, scratch: &Scratch, arguments: &[&str]) -> Answer {
    let plugins = PathBuf::from(scratch.file("plugins"));
    std::fs::create_dir_all(&plugins).unwrap();
    for plugin in [&cpu_plugin(), plugin] {
        std::fs::copy(plugin, plugins.join(plugin.file_name().unwrap())).unwrap();
    }
    program().env("HIPDNN_PLUGIN_DIR", &plugins).args(arguments).output().unwrap().into()
}
