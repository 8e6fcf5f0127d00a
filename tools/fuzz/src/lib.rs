//! Fuzz targets: functions that take any bytes and must not crash, hang or leak.
//!
//! The tests of this crate run each [`Target`] briefly with [`mutation`]s of its seeds, on any toolchain; `cargo xtask fuzz` runs
//! them longer with libFuzzer, guided by coverage. A panic is a crash.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "what does not hold is to be found: a panic is a finding"
)]

mod answers;
mod attributes;
mod bytes;
mod graphs;
mod indices;
pub mod mutation;
mod saved;
mod selection;

use std::path::{Path, PathBuf};

/// A function that takes any bytes.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// The meaning of the bytes.
    pub about: &'static str,
    /// Runs with bytes.
    pub run: fn(&[u8]),
    /// Valid inputs to start with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether it needs the staged CPU plugin.
    pub needs_plugins: bool,
}

/// All targets. The first one in a process to create a handle decides which plugins are loaded.
pub const TARGETS: &[Target] = &[
    target("graph", "a graph's bytes", graphs::bytes, graphs::byte_seeds),
    target("json", "a graph as JSON", graphs::json, graphs::json_seeds),
    target("saved", "a saved plan, a container or what an engine keeps in a plan", saved::run, saved::seeds),
    target("answers", "what plugins answer: details, knobs, devices", answers::run, answers::seeds),
    target("selection", "a file of rules or of rankings", selection::run, selection::seeds),
    Target {
        needs_plugins: true,
        ..target("indices", "lengths, offsets, page tables and indices", indices::run, indices::seeds)
    },
    target("attributes", "a sequence of calls on descriptors", attributes::run, attributes::seeds),
];

const fn target(
    name: &'static str,
    about: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, about, run, seeds, needs_plugins: false }
}

/// A path inside the project.
fn project(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").join(relative)
}

/// The folder of the staged plugins: `HIPDNN_FUZZ_PLUGINS`, or that of the project's own build.
pub fn plugins() -> PathBuf {
    std::env::var_os("HIPDNN_FUZZ_PLUGINS")
        .map_or_else(|| project("target/stage/lib/hipdnn_plugins/engines"), PathBuf::from)
}

fn read(relative: &str) -> Vec<u8> {
    let path = project(relative);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The graphs among the examples, as JSON.
fn examples() -> Vec<Vec<u8>> {
    let folder = project("examples_graphs");
    let entries = std::fs::read_dir(folder).expect("the examples");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a graph")).collect()
}
