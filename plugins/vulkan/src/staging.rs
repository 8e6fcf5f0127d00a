//! Memory through which host arrays pass.

use std::ptr::NonNull;
use std::sync::Arc;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::lock::Mutex;

use crate::buffer::Buffer;
use crate::device::{Device, Purpose};

/// Bytes that are kept for later executions, at most.
const KEPT: u64 = 256 << 20;

/// Memory for one host array.
pub struct Block {
    /// What kernels use.
    pub device: Buffer,
    /// What the host uses, if it does not see the other.
    host: Option<Buffer>,
}

/// Blocks that no execution uses.
#[derive(Default)]
pub struct Staging {
    free: Mutex<Vec<Block>>,
}

impl Block {
    fn new(device: &Arc<Device>, bytes: u64) -> Result<Self, PluginError> {
        let own = Buffer::new(device, bytes, Purpose::Device)?;
        let host = match own.mapped() {
            Some(_) => None,
            None => Some(Buffer::new(device, bytes, Purpose::Staging)?),
        };
        Ok(Self { device: own, host })
    }

    /// Where the host writes and reads.
    ///
    /// # Errors
    /// When the driver maps no memory.
    pub fn mapped(&self) -> Result<NonNull<u8>, PluginError> {
        let mapped = self.host.as_ref().unwrap_or(&self.device).mapped();
        mapped.ok_or_else(|| PluginError::internal("the device has no memory that the host can see"))
    }

    /// The buffer from and to which copies are needed, if any.
    pub fn staged(&self) -> Option<&Buffer> {
        self.host.as_ref()
    }

    fn bytes(&self) -> u64 {
        self.device.bytes + self.host.as_ref().map_or(0, |host| host.bytes)
    }
}

impl Staging {
    /// A block with at least this many bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn take(&self, device: &Arc<Device>, bytes: u64) -> Result<Block, PluginError> {
        let mut free = self.free.lock();
        let fits = |block: &&(usize, &Block)| {
            let own = block.1.device.bytes;
            own >= bytes && own <= bytes.saturating_mul(2).max(4096)
        };
        let places: Vec<(usize, &Block)> = free.iter().enumerate().collect();
        let best =
            places.iter().filter(fits).min_by_key(|(_, block)| block.device.bytes).map(|(place, _)| *place);
        if let Some(place) = best {
            return Ok(free.swap_remove(place));
        }
        drop(free);
        match Block::new(device, bytes) {
            Ok(block) => Ok(block),
            Err(_) => {
                // What is kept may be what is missing.
                self.clear();
                Block::new(device, bytes)
            }
        }
    }

    /// Keeps a block that no work uses any more.
    pub fn give_back(&self, block: Block) {
        let mut free = self.free.lock();
        let kept: u64 = free.iter().map(Block::bytes).sum();
        if kept + block.bytes() <= KEPT {
            free.push(block);
        }
    }

    /// Frees all blocks.
    pub fn clear(&self) {
        let blocks = std::mem::take(&mut *self.free.lock());
        drop(blocks);
    }
}
