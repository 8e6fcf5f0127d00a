//! A pool of GPU memory: freed blocks wait for requests of about the same size.
//!
//! All work of the provider is done when a node returns, so reused memory is idle.

use std::collections::{HashMap, VecDeque};

/// Block sizes are multiples of this.
const GRAIN: usize = 512;

/// This many bytes may always wait.
const ALWAYS: usize = 64 << 20;

/// Blocks by address.
pub struct Pool<B> {
    used: HashMap<usize, B>,
    /// The most recently freed are last.
    idle: VecDeque<B>,
    used_bytes: usize,
    idle_bytes: usize,
    most: usize,
}

/// A block of memory.
pub trait Block {
    /// Its address.
    fn address(&self) -> usize;
    /// Its size in bytes.
    fn bytes(&self) -> usize;
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self { used: HashMap::new(), idle: VecDeque::new(), used_bytes: 0, idle_bytes: 0, most: 0 }
    }
}

impl<B: Block> Pool<B> {
    /// The address of at least this many bytes: of the smallest waiting block that is not much too large, else of a new one. If there is
    /// no memory for a new one, waiting blocks are freed first.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn take<E>(&mut self, bytes: usize, make: impl Fn(usize) -> Result<B, E>) -> Result<usize, E> {
        let bytes = bytes.max(1).next_multiple_of(GRAIN);
        let fits = |block: &B| block.bytes() >= bytes && block.bytes() / 2 <= bytes;
        let all = self.idle.iter().enumerate().filter(|(_, block)| fits(block));
        let best = all.min_by_key(|(_, block)| block.bytes()).map(|(at, _)| at);
        let block = match best.and_then(|at| self.idle.remove(at)) {
            Some(block) => {
                self.idle_bytes -= block.bytes();
                block
            }
            None => match make(bytes) {
                Ok(block) => block,
                Err(error) if self.idle.is_empty() => return Err(error),
                Err(_) => {
                    self.shrink();
                    make(bytes)?
                }
            },
        };
        self.used_bytes += block.bytes();
        self.most = self.most.max(self.used_bytes);
        let address = block.address();
        self.used.insert(address, block);
        Ok(address)
    }

    /// Takes a block back; ignores unknown addresses. At most as much waits as was ever in use.
    pub fn give_back(&mut self, address: usize) {
        let Some(block) = self.used.remove(&address) else { return };
        self.used_bytes -= block.bytes();
        self.idle_bytes += block.bytes();
        self.idle.push_back(block);
        while self.idle_bytes > self.most.max(ALWAYS) {
            let Some(oldest) = self.idle.pop_front() else { break };
            self.idle_bytes -= oldest.bytes();
        }
    }

    /// Frees the waiting blocks.
    pub fn shrink(&mut self) {
        self.idle.clear();
        self.idle_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Fake(usize, usize);

    impl Block for Fake {
        fn address(&self) -> usize {
            self.0
        }

        fn bytes(&self) -> usize {
            self.1
        }
    }

    #[test]
    fn blocks_are_given_out_again() {
        let (made, mut pool) = (Cell::new(0), Pool::default());
        let take = |pool: &mut Pool<Fake>, bytes| {
            let make = |bytes| {
                made.set(made.get() + 1);
                Ok::<_, ()>(Fake(made.get() << 32, bytes))
            };
            (pool.take(bytes, make).unwrap(), made.get())
        };
        let (first, _) = take(&mut pool, 3000);
        assert_eq!(take(&mut pool, 1000).1, 2);
        pool.give_back(first);
        // Far too large, then about right.
        assert_eq!(take(&mut pool, 100).1, 3);
        assert_eq!(take(&mut pool, 2000), (first, 3));
        pool.give_back(first);
        pool.give_back(7);
        pool.shrink();
        assert_eq!(take(&mut pool, 1000).1, 4);
    }

    #[test]
    fn what_waits_makes_room() {
        let mut pool = Pool::default();
        let first = pool.take(4096, |bytes| Ok::<_, ()>(Fake(1, bytes))).unwrap();
        pool.give_back(first);
        let tries = Cell::new(0);
        let make = |bytes| {
            tries.set(tries.get() + 1);
            if tries.get() == 1 { Err(()) } else { Ok(Fake(2, bytes)) }
        };
        assert_eq!((pool.take(1 << 20, make), tries.get()), (Ok(2), 2));
        assert_eq!(pool.idle_bytes, 0);
        assert!(pool.take(4 << 20, |_| Err::<Fake, _>(())).is_err());
    }
}
