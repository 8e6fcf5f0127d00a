//! Which engine, with which settings of its knobs, computes a graph fastest here.
//!
//! A [`Strategy`] decides which configurations are measured and in what order: one that is built in ([`Exhaustive`], [`Halving`]) or one of a
//! tuning plugin ([`plugin::load`]). [`tune`] measures for it, through a [`Target`] that can plan and execute, and at last measures what it
//! ranked first beside the library's default choice, which stays the answer unless something is faster.

mod callback;
mod convert;
mod device;
mod exhaustive;
pub mod ffi;
mod halving;
mod host;
pub mod plugin;
mod problem;
mod space;
mod store;
mod times;

pub use device::device;
pub use exhaustive::Exhaustive;
pub use halving::Halving;
pub use host::{Target, Trial, Tuned, tune};
pub use problem::{Candidate, Configuration, Measure, Measurement, Outcome, Problem, Strategy, Tunable};
pub use space::candidates;
pub use store::{Store, Tuning};
pub use times::Times;

/// The strategies that are built in, by their names, the default first.
pub fn built_in() -> Vec<(&'static str, Box<dyn Strategy>)> {
    vec![(halving::NAME, Box::new(Halving)), (exhaustive::NAME, Box::new(Exhaustive))]
}
