//! Which addresses belong to which memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use hipdnn_plugin_sdk::lock::Mutex;

use crate::buffer::Buffer;

/// The memory of a device that programs can name by an address.
#[derive(Default)]
pub struct Memory {
    /// By the first address.
    known: Mutex<BTreeMap<u64, Known>>,
}

/// Memory that a program can name.
struct Known {
    bytes: u64,
    /// None for memory of a program's own.
    buffer: Option<Arc<Buffer>>,
}

impl Memory {
    /// The memory that contains an address, with the offset in it. The buffer is none for memory of a program's own.
    pub fn find(&self, address: u64) -> Option<Found> {
        let known = self.known.lock();
        let (start, found) = known.range(..=address).next_back()?;
        let offset = address - start;
        (offset < found.bytes).then(|| Found {
            buffer: found.buffer.clone(),
            offset,
            left: found.bytes - offset,
        })
    }

    /// Whether an address is in memory of this device.
    pub fn knows(&self, address: u64) -> bool {
        let known = self.known.lock();
        known.range(..=address).next_back().is_some_and(|(start, found)| address - start < found.bytes)
    }

    /// How much memory programs can name.
    pub fn count(&self) -> usize {
        self.known.lock().len()
    }

    /// Makes a buffer known by its addresses.
    pub fn know(&self, buffer: Buffer) -> u64 {
        let (address, bytes) = (buffer.address, buffer.bytes);
        self.known.lock().insert(address, Known { bytes, buffer: Some(Arc::new(buffer)) });
        address
    }

    /// Makes addresses of a program's own memory known.
    pub fn know_foreign(&self, address: u64, bytes: u64) {
        self.known.lock().insert(address, Known { bytes, buffer: None });
    }

    /// Takes memory that starts at this address out of what is known.
    pub fn forget(&self, address: u64) -> bool {
        let forgotten = self.known.lock().remove(&address);
        forgotten.is_some()
    }
}

/// Memory by an address in it.
pub struct Found {
    /// The buffer; none for memory of a program's own.
    pub buffer: Option<Arc<Buffer>>,
    /// Where the address is in it.
    pub offset: u64,
    /// Bytes from the address on.
    pub left: u64,
}
