//! Graphs for generated kernels.

mod groups;
mod pointwise;
mod rows;
mod windows;

use super::{RTC, matmul, nvidia};
use crate::case::Case;

pub fn cases() -> Vec<(&'static str, Case)> {
    let cases = [
        groups::cases(),
        pointwise::cases(),
        rows::cases(),
        windows::cases(),
        matmul::generated(),
        nvidia::attention::generated(),
        nvidia::sequences::generated(),
    ];
    cases.into_iter().flatten().map(|case| (RTC, case)).collect()
}
