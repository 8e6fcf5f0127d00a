//! Executes kernels on the CPU, slowly and strictly, to test them without a device.
//!
//! The threads of a workgroup execute each instruction together. Indices outside memory, misaligned vectors, reads of shared memory that
//! another thread wrote without a barrier between, and copies that were not waited for are errors.

mod element;
mod machine;
mod memory;
mod tiles;

use crate::form::Kernel;

/// What is passed for a parameter.
#[derive(Debug)]
pub enum Argument<'a> {
    /// Memory.
    Memory(&'a mut [u8]),
    /// A number that is real.
    Float(f64),
    /// A number that is whole.
    Int(i64),
}

/// Executes a kernel for every workgroup of a grid.
///
/// # Errors
/// The first mistake of the kernel.
pub fn run(kernel: &Kernel, grid: [u32; 3], arguments: &mut [Argument<'_>]) -> Result<(), String> {
    if arguments.len() != kernel.parameters.len() {
        return Err(format!("{} arguments, expected {}", arguments.len(), kernel.parameters.len()));
    }
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                machine::Machine::new(kernel, arguments, [x, y, z])
                    .run()
                    .map_err(|error| format!("{} group [{x}, {y}, {z}]: {error}", kernel.name))?;
            }
        }
    }
    Ok(())
}

pub use element::{decode, encode};

#[cfg(test)]
mod tests;
