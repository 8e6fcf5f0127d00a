//! Graphs whose kernels are generated.

mod pointwise;
mod rows;

use super::RTC;
use crate::case::Case;

pub fn cases() -> Vec<(&'static str, Case)> {
    pointwise::cases().into_iter().chain(rows::cases()).map(|case| (RTC, case)).collect()
}
