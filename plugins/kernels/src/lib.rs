//! Kernels for GPUs in a small typed form.
//!
//! A [`form::Kernel`] is a tree of instructions: arithmetic on typed values, mutable locals, loops, branches, memory, barriers,
//! exchanges within a subgroup, and matrix tiles. A [`builder::Builder`] writes one for a [`target::Target`], which describes the device
//! as data: its subgroup, its shared memory, and its matrix instructions with the place of every element.
//! [`domain`] writes kernels over the elements and rows of a domain. [`mod@print`] writes source or binaries from it, and [`interpret`] executes it on the CPU, for tests.
//!
//! This crate knows no graphs, no drivers and no compilers.

pub mod attention;
pub mod builder;
pub mod convolution;
pub mod domain;
pub mod form;
pub mod functions;
pub mod interpret;
pub mod print;
pub mod product;
pub mod scalar;
pub mod target;
pub mod traffic;

pub use builder::Builder;
pub use form::{Kernel, Value};
pub use scalar::{Scalar, Type};
pub use target::Target;
