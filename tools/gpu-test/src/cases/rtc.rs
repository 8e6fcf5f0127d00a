//! Graphs for generated kernels.

mod groups;
mod pointwise;
mod rows;
mod windows;

use super::RTC;
use crate::case::Case;

pub fn cases() -> Vec<(&'static str, Case)> {
    let cases = [groups::cases(), pointwise::cases(), rows::cases(), windows::cases()];
    cases.into_iter().flatten().map(|case| (RTC, case)).collect()
}
