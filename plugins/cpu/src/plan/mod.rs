//! A graph made ready to run: its plan, the saved form of one, and the engines that make them.

pub mod compiled;
pub mod description;
pub mod empty;
pub mod handle;
mod late;
pub mod own_memory;
pub mod planner;
mod staging;
pub mod steps;
