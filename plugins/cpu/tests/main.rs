//! Tests of whole engines. `cargo xtask test` runs them on the library's release build, whose kernels are compiled once.

#[cfg(test)]
mod engines;
#[cfg(test)]
mod no_allocation;
#[cfg(test)]
mod oracle;
