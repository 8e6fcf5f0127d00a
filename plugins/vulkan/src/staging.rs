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
    /// Each with the time at which its last work is done.
    free: Mutex<Vec<(Block, u64)>>,
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
    /// A block with at least this many bytes, where the device's work is done up to a time.
    ///
    /// # Errors
    /// The driver's.
    pub fn take(&self, device: &Arc<Device>, bytes: u64, done: u64) -> Result<Block, PluginError> {
        let mut free = self.free.lock();
        let fits = |(_, (block, time)): &(usize, &(Block, u64))| {
            let own = block.device.bytes;
            *time <= done && own >= bytes && own <= bytes.saturating_mul(2).max(4096)
        };
        let best = free.iter().enumerate().filter(fits).min_by_key(|(_, (block, _))| block.device.bytes);
        if let Some(place) = best.map(|(place, _)| place) {
            return Ok(free.swap_remove(place).0);
        }
        drop(free);
        Block::new(device, bytes)
    }

    /// Keeps a block whose last work is done at this time. Returns it if there is no room.
    pub fn keep(&self, block: Block, time: u64) -> Option<Block> {
        let mut free = self.free.lock();
        let kept: u64 = free.iter().map(|(block, _)| block.bytes()).sum();
        if kept + block.bytes() > KEPT {
            return Some(block);
        }
        free.push((block, time));
        None
    }

    /// Frees the blocks whose work is done up to this time.
    pub fn clear(&self, done: u64) {
        let freed: Vec<_> = self.free.lock().extract_if(.., |(_, time)| *time <= done).collect();
        drop(freed);
    }
}
