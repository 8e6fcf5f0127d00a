//! Tensors: elements as numbers, arrays in files, memory that engines can access, random values, comparison.

mod array;
mod bits;
mod comparison;
mod element;
mod memory;
pub mod npy;
mod random;
mod tolerance;

pub use array::{Array, bytes, count};
pub use bits::Bits;
pub use comparison::{Comparison, compare};
pub use element::largest;
pub use memory::{Memory, Place, Vulkan, require_host_memory};
pub use random::Random;
pub use tolerance::{Tolerance, steps};
