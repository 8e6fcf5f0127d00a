//! From a graph to an executable plan: plans, their saved form, and the engines that make them.

pub mod compiled;
pub mod description;
pub mod empty;
pub mod handle;
mod late;
mod numerics;
pub mod own_memory;
pub mod planner;
mod staging;
pub mod steps;
