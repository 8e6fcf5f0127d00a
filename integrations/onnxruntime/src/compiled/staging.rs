//! Host memory for results of host operations on their way to a GPU, kept between runs: new memory costs a fault for each page.

use std::sync::{Mutex, PoisonError};

use hipdnn::hardware::{Gpu, HostMemory};

use crate::failure::Result;
use crate::memory::Memory;

/// The most blocks that are kept, a few for each of several threads, and their bytes.
const MOST: usize = 32;
const MOST_BYTES: usize = 256 << 20;

/// A block of host memory.
pub enum Staging {
    /// Which the GPU copies faster.
    Pinned(HostMemory),
    Plain(Memory),
}

impl Staging {
    /// At least this many bytes, pinned if the GPU's driver has such memory left.
    fn new(gpu: Gpu, bytes: usize) -> Result<Self> {
        match HostMemory::new(gpu, bytes) {
            Ok(memory) => Ok(Self::Pinned(memory)),
            Err(_) => Memory::new(bytes).map(Self::Plain),
        }
    }

    pub fn as_ptr(&self) -> *mut u8 {
        match self {
            Self::Pinned(memory) => memory.as_ptr().cast(),
            Self::Plain(memory) => memory.as_ptr(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Pinned(memory) => memory.bytes(),
            Self::Plain(memory) => memory.bytes(),
        }
    }
}

/// The idle blocks, the last used at the end.
#[derive(Default)]
pub struct Idle(Mutex<Vec<Staging>>);

impl Idle {
    /// A block of at least this many bytes.
    pub fn take(&self, gpu: Gpu, bytes: usize) -> Result<Staging> {
        self.take_or(bytes, |bytes| Staging::new(gpu, bytes))
    }

    fn take_or(&self, bytes: usize, make: impl FnOnce(usize) -> Result<Staging>) -> Result<Staging> {
        let smallest = {
            let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fitting = idle.iter().enumerate().filter(|(_, block)| block.bytes() >= bytes);
            let at = fitting.min_by_key(|(_, block)| block.bytes()).map(|(at, _)| at);
            at.map(|at| idle.remove(at))
        };
        // Later shapes may be a little larger.
        smallest.map_or_else(|| make(bytes.checked_next_power_of_two().unwrap_or(bytes)), Ok)
    }

    /// Keeps blocks for later runs.
    pub fn keep(&self, blocks: Vec<Staging>) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(blocks);
        let mut left = MOST_BYTES;
        let is_kept = |block: &&Staging| {
            left = left.saturating_sub(block.bytes());
            left > 0
        };
        let kept = idle.iter().rev().take(MOST).take_while(is_kept).count();
        let more = idle.len() - kept;
        let surplus: Vec<Staging> = idle.drain(..more).collect();
        drop(idle);
        // Freeing pinned memory may wait for the GPU.
        drop(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_block_that_fits_is_used_again() {
        let idle = Idle::default();
        let take = |bytes| idle.take_or(bytes, |bytes| Memory::new(bytes).map(Staging::Plain)).unwrap();
        let (large, small) = (take(3000), take(20));
        assert_eq!([large.bytes(), small.bytes()], [4096, 64]);
        let places = [large.as_ptr(), small.as_ptr()];
        idle.keep(vec![small, large]);
        // A small result leaves the large block to the next one.
        let blocks = [take(17), take(4096)];
        assert_eq!([blocks[1].as_ptr(), blocks[0].as_ptr()], places);
        idle.keep(blocks.into());
        idle.keep((0..MOST).map(|_| take(8192)).collect());
        assert!(idle.0.lock().unwrap().iter().all(|block| block.bytes() == 8192));
        idle.keep(vec![take(MOST_BYTES / 2), take(MOST_BYTES)]);
        assert!(idle.0.lock().unwrap().is_empty());
    }
}
