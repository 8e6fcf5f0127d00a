//! Graphs for the engines of NVIDIA's libraries: every operation that they lower, in all types and layouts.

pub mod attention;
mod blocks;
mod images;
mod matrices;
mod pointwise;
mod rows;
mod scaled;
pub mod sequences;
mod small;

use super::{CUBLASLT, CUDNN, RTC, TYPES};
use crate::case::Case;

/// Cases that are also planned by timing each of the library's plans.
const TIMED: [&str; 6] = [
    "conv forward 3x3 half ChannelsLast",
    "conv data 3x3 half ChannelsLast",
    "conv filter 3x3 half ChannelsLast",
    "sdpa Padding [2, 4, 128, 128, 64] half",
    "sdpa backward Causal [2, 4, 128, 128, 64] bfloat16",
    "matmul, bias true, residual true, relu_fwd, half",
];

pub fn cases() -> Vec<(&'static str, Case)> {
    let cudnn = [
        blocks::cases(),
        images::cases(),
        pointwise::cases(),
        rows::cases(),
        attention::cases(),
        sequences::cases(),
        scaled::cases(),
        matrices::cases(),
        small::cases(),
        small::convolutions(),
    ];
    let of_cudnn = cudnn.into_iter().flatten().map(|case| (CUDNN, case));
    let of_cublaslt = matrices::cases().into_iter().chain(matrices::gradients()).chain(small::cases());
    // Poolings that cuDNN leaves to generated kernels.
    let of_rtc = TYPES.into_iter().flat_map(images::global_poolings).map(|case| (RTC, case));
    let mut all: Vec<_> = of_cudnn.chain(of_cublaslt.map(|case| (CUBLASLT, case))).chain(of_rtc).collect();
    let is_timed = |case: &Case| TIMED.contains(&case.name.as_str());
    let timed: Vec<_> = all.iter().filter(|(_, case)| is_timed(case)).cloned().collect();
    all.extend(timed.into_iter().map(|(engine, case)| (engine, case.timed())));
    all
}
