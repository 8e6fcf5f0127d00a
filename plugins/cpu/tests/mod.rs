//! Tests of whole engines, in the harness of the unit tests, because compiling the kernels twice would take
//! minutes.

pub mod engines;
mod no_allocation;
mod oracle;
