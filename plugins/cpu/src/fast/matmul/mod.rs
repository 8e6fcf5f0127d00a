//! Products of matrices.
//!
//! Tiles of the result are computed in registers ([`tile`]) from rows of the left factor and a panel of columns of the right one. A
//! panel is copied so that its rows follow each other ([`pack`]), unless only one tile reads it. Rows of the left factor are read where
//! they are, if they are numbers of the compute type that lie side by side, and copied otherwise.

mod convert;
mod pack;
mod problem;
mod products;
mod tile;

#[cfg(test)]
mod tests;

use self::problem::Problem;
use self::products::Products;
use super::lanes::Threads;
use super::level::Level;
use super::pointwise::Tail;
use crate::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::problem::matmul::Matmul;

/// Plans a product for a level of the processor, with more to compute of its result or not.
pub(super) fn plan(
    matmul: &Matmul,
    compute: Compute,
    level: Level,
    threads: Threads,
    tail: Option<Box<dyn Tail>>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let problem = Problem::of(matmul);
    Ok(match compute {
        Compute::Single => Box::new(Products::<f32>::plan(problem, level, threads, tail)?),
        Compute::Double => Box::new(Products::<f64>::plan(problem, level, threads, tail)?),
    })
}
