//! Which node of a graph loses digits: each node as the plan computes it, beside exact arithmetic.
//!
//! `chain` computes nodes by themselves and the rest of the graph in double precision, `measure` has the distances of results,
//! `bound` bounds the error of sums and products before they are computed, `reasons` says what a loss comes from, `analysis` puts
//! them together, and `report` writes tables, JSON and pictures.

mod analysis;
mod bound;
mod chain;
mod measure;
mod reasons;
mod report;

pub use analysis::{Analysis, Number, Outcome, Row};
pub use chain::results;
pub use report::Report;
