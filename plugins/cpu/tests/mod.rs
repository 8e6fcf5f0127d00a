//! Tests of the engines as a whole, in the harness of the unit tests: the kernels take minutes to compile, and so once is enough.

pub mod engines;
mod no_allocation;
mod oracle;
