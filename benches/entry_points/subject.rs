//! The subject of the benchmarks: one convolution, through a plugin that does nothing.

use std::path::{Path, PathBuf};

use hipdnn_plugin_sdk::graph::operation::ConvolutionForward;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};
use hipdnn_plugin_sdk::wire::{self, Layout};

/// The variable that turns the plan cache off.
pub const CACHE: &str = "HIPDNN_PLAN_CACHE_BYTES";

/// The variable with a precompiled plugin that does nothing.
pub const PLUGIN: &str = "HIPDNN_BENCH_PLUGIN";

/// The mean nanoseconds of `count` calls of `f`. Counts only this thread's processor time, to be independent of other load.
pub fn time(count: u32, mut f: impl FnMut()) -> f64 {
    let start = thread_time();
    for _ in 0..count {
        f();
    }
    (thread_time() - start) / f64::from(count)
}

/// Nanoseconds that this thread has run.
fn thread_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one struct.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().expect("there are values")
}

/// The bytes of one convolution in the layout of 2026.
pub fn convolution() -> Vec<u8> {
    let convolution = ConvolutionForward {
        pre_padding: vec![1, 1],
        post_padding: vec![1, 1],
        ..ConvolutionForward::new(1, 2, 3, 2)
    };
    let node = Node { name: "conv".into(), compute_type: DataType::Float, operation: convolution.into() };
    let graph = Graph {
        name: "one convolution".into(),
        compute_type: DataType::Float,
        intermediate_type: DataType::Float,
        io_type: DataType::Float,
        tensors: vec![
            Tensor::new(1, DataType::Float, &[16, 64, 56, 56], &[200_704, 3136, 56, 1]),
            Tensor::new(2, DataType::Float, &[64, 64, 3, 3], &[576, 9, 3, 1]),
            Tensor::new(3, DataType::Float, &[16, 64, 56, 56], &[200_704, 3136, 56, 1]),
        ],
        nodes: vec![node],
        ..Graph::default()
    };
    wire::write(&graph, Layout::G2).expect("the graph can be written")
}

/// The library to measure: the requested one, else the one that cargo built together with this program.
pub fn library() -> PathBuf {
    let built =
        || std::env::current_exe().expect("the program has a path").with_file_name("libhipdnn_backend.so");
    std::env::var_os("HIPDNN_BENCH_LIBRARY").map_or_else(built, PathBuf::from)
}

/// The plugin that does nothing: the given file, or compiled now.
pub fn null_plugin() -> PathBuf {
    if let Some(file) = std::env::var_os(PLUGIN) {
        return PathBuf::from(file);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!("libhipdnn_null_plugin_{}.so", std::process::id()));
    let include = root.join("include/hipdnn");
    let status = stub_plugins::compiler(stub_plugins::Language::C)
        .args(["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"])
        .arg(format!("-I{}", include.join("backend").display()))
        .arg(format!("-I{}", include.join("plugin").display()))
        .arg(root.join("c_tests/plugins/null_plugin.c"))
        .arg("-o")
        .arg(&out)
        .status();
    assert!(status.expect("a C compiler runs").success(), "the plugin compiles");
    out
}
