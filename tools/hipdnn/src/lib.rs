//! Graphs beside their results: reading, running, comparing and measuring them. The command line tool `hipdnn`, the Python package
//! and the project's other programs use it.

pub mod batch;
pub mod comparison;
pub mod computation;
mod cuts;
pub mod data_type;
pub mod double;
pub mod failure;
pub mod fill;
mod flushed;
pub mod graph;
pub mod numerics;
mod overflow;
pub mod picture;
pub mod rounding;
pub mod steps;
pub mod table;
pub mod tensor;
pub mod ties;
pub mod views;
