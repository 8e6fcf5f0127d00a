//! Measures the kernels of CPU_ENGINE against the peak of this machine's processor.
//!
//! `cargo run --release -p hipdnn-cpu-plugin --example kernel_speed [part of a name]`. Each row is the best
//! of many runs, with as many threads as the engine uses (`HIPDNN_CPU_THREADS` limits them). The peak is that
//! of one thread's fused multiply-adds, measured in the same run; a convolution on two threads can reach 200
//! % of it.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first failure")]

mod convolutions;
mod matmul;
mod operations;
mod rates;
mod timing;
use self::convolutions::*;
use self::matmul::*;
use self::operations::*;
use self::rates::*;
use self::timing::*;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Operation, PointwiseMode, Tensor};
use std::time::Duration;

/// Time for one row of the table.
const PATIENCE: Duration = Duration::from_millis(300);

const fn stored(layer: Layer, data_type: DataType) -> Layer {
    Layer { data_type, ..layer }
}

fn tensor(uid: i64, dims: [i64; 4], channels_last: bool, data_type: DataType) -> Tensor {
    Tensor::new(uid, data_type, &dims, &strides(&dims, channels_last))
}

fn on_each_element(operation: PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Operation {
    Pointwise::new(operation, in_0, in_1, out_0).into()
}

const ROUNDS: usize = 20_000;

const fn product(name: &'static str, size: [i64; 4], transposed: bool, data_type: DataType) -> Product {
    Product { name, size, transposed, data_type }
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let peak = peak();
    println!("peak of one thread {peak:.1} GFLOP/s");
    for layer in LAYERS.iter().filter(|layer| layer.name.contains(&wanted)) {
        convolution(layer, peak);
    }
    for layer in LAYERS.iter().filter(|layer| layer.groups == 1 && layer.name.contains(&wanted)) {
        fused_convolution(layer);
    }
    let threads = std::env::var("HIPDNN_CPU_THREADS").ok().and_then(|text| text.parse().ok());
    let threads = threads.or(std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let all = peak_of(threads);
    println!("peak of {threads} threads {all:.1} GFLOP/s");
    for product in PRODUCTS.iter().filter(|product| product.name.contains(&wanted)) {
        matrix_product(product, all);
    }
    for product in
        PRODUCTS.iter().filter(|product| product.name.contains(&wanted) && product.name.contains("BERT"))
    {
        fused_product(product);
    }
    for queries in [128, 512, 1024, 2048, 4096] {
        for causal in [false, true] {
            attention(queries, causal, DataType::Float, all, &wanted);
        }
    }
    attention(512, false, DataType::Half, all, &wanted);
    attention(512, false, DataType::Bfloat16, all, &wanted);
    if "chain".contains(&wanted) {
        chain();
    }
    if "softmax".contains(&wanted) {
        softmax(12 * 128, 128);
        softmax(12 * 512, 512);
        softmax(1024, 4096);
    }
    if "functions".contains(&wanted) {
        functions();
    }
    if "elements".contains(&wanted) {
        elementwise(32, 16, 8, false);
        elementwise(32, 32, 4, false);
        elementwise(16, 64, 56, false);
        elementwise(16, 64, 56, true);
    }
    if "rows".contains(&wanted) {
        for (rows, len) in [(128, 768), (512, 768), (8192, 768), (64, 50_000)] {
            layer_normalization(rows, len, DataType::Float);
        }
        layer_normalization(512, 768, DataType::Half);
        reductions(6144, 512, DataType::Float);
        reductions(6144, 512, DataType::Half);
        layer_normalization(512, 768, DataType::Bfloat16);
    }
}
