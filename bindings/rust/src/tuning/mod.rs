//! Tuning: finds the engine and knob settings that compute a graph fastest on this machine.
//!
//! A [`Strategy`] decides which configurations are measured and in what order: a built-in one ([`Exhaustive`], [`Halving`]) or one of a
//! tuning plugin ([`plugin::load`]). [`tune`] measures for it, through a [`Target`] that can plan and execute, and finally compares
//! its best with the library's default choice, which wins unless something is faster.

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

/// The built-in strategies by name, the default first.
pub fn built_in() -> Vec<(&'static str, Box<dyn Strategy>)> {
    vec![(halving::NAME, Box::new(Halving)), (exhaustive::NAME, Box::new(Exhaustive))]
}
