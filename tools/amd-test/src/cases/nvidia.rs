//! Graphs for the engines of NVIDIA's libraries: every form of operation that they lower, by types and layouts.

mod attention;
mod blocks;
mod images;
mod matrices;
mod pointwise;
mod rows;
mod small;

use super::{CUBLASLT, CUDNN, RTC, TYPES};
use crate::case::Case;

pub fn cases() -> Vec<(&'static str, Case)> {
    let cudnn = [
        blocks::cases(),
        images::cases(),
        pointwise::cases(),
        rows::cases(),
        attention::cases(),
        matrices::cases(),
    ];
    let of_cudnn = cudnn.into_iter().flatten().map(|case| (CUDNN, case));
    let of_cublaslt = matrices::cases().into_iter().chain(small::cases());
    // What cuDNN leaves to generated kernels.
    let of_rtc = TYPES.into_iter().flat_map(images::global_poolings);
    of_cudnn.chain(of_cublaslt.map(|case| (CUBLASLT, case))).chain(of_rtc.map(|case| (RTC, case))).collect()
}
