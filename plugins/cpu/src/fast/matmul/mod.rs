//! Products of matrices.
//!
//! Tiles of the result are computed in registers ([`tile`]) from rows of the left factor and a panel of columns of the right one. A
//! panel is copied so that its rows follow each other ([`pack`]), unless only one tile reads it. Rows of the left factor are read where
//! they are, if they are numbers of the compute type that lie side by side, and copied otherwise.

mod finish;
pub(super) mod pack;
mod problem;
pub(super) mod products;
pub(super) mod tile;

#[cfg(test)]
mod tests;

use hipdnn_plugin_sdk::graph::DataType;

use self::problem::Problem;
use self::products::Products;
use super::lanes::Threads;
use super::level::Level;
use super::pointwise::After;
use crate::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::problem::matmul::Matmul;

/// Whole numbers of up to this magnitude are floats.
const MOST_EXACT: f64 = (1_u32 << f32::MANTISSA_DIGITS) as f64;

/// Plans a product for a level of the processor, with more to compute of its result or not.
pub(super) fn plan(
    matmul: &Matmul,
    compute: Compute,
    level: Level,
    threads: Threads,
    after: Option<After>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let problem = Problem::of(matmul);
    // Sums of products of bytes are exact, as whole numbers are that a float holds.
    let largest = |data_type| match data_type {
        DataType::Int8 => Some(128.0),
        DataType::Uint8 => Some(255.0),
        _ => None,
    };
    let terms = problem.k as f64;
    let sum = largest(problem.a.data_type).zip(largest(problem.b.data_type)).map(|(a, b)| a * b * terms);
    let compute = if sum.is_some_and(|sum| sum > MOST_EXACT) { Compute::Double } else { compute };
    Ok(match compute {
        Compute::Single => Box::new(Products::<f32>::plan(problem, level, threads, after)?),
        Compute::Double => Box::new(Products::<f64>::plan(problem, level, threads, after)?),
    })
}
