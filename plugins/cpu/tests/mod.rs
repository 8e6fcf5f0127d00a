//! Tests of whole engines, in the harness of the unit tests, because compiling the kernels takes minutes.

pub mod engines;
mod no_allocation;
mod oracle;
