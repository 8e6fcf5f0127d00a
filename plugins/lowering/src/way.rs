//! How kernels are written.

use hipdnn_kernels::Target;

/// For which device kernels are written, and how.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// The device.
    pub target: &'a Target,
    /// The name of the kernel, with which those of its followers begin.
    pub name: &'a str,
    /// Whether workgroups share dot products and keys as the number of rows suggests. Without it the bits of a row do not depend on it.
    pub shares: bool,
}
