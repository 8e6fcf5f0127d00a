//! Graphs for the engines of NVIDIA's libraries: every form of operation that they lower, by types and layouts.

mod attention;
mod blocks;
mod images;
mod matrices;
mod pointwise;
mod rows;
mod small;

use super::{CUBLASLT, CUDNN};
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
    of_cudnn.chain(of_cublaslt.map(|case| (CUBLASLT, case))).collect()
}
