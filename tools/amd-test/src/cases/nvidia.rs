//! Graphs for the engines of NVIDIA's libraries: every form of operation that they lower, by types and layouts.

mod attention;
mod blocks;
mod images;
mod matrices;
mod pointwise;
mod rows;

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
    of_cudnn.chain(matrices::cases().into_iter().map(|case| (CUBLASLT, case))).collect()
}
