//! Which node of a graph loses digits: each node as the plan computes it, beside exact arithmetic.
//!
//! [`chain`] computes nodes by themselves and the rest of the graph in double precision, [`measure`] has the distances of results,
//! [`reasons`] says what a loss comes from, and [`analysis`] puts them together.

mod analysis;
mod chain;
mod measure;
mod reasons;

pub use analysis::{Analysis, Row, analyse};
pub use chain::Chain;
pub use reasons::short;
