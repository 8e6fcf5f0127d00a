//! A device with its queue and its memory.

use std::sync::Arc;

use ash::vk;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::ffi::HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
use hipdnn_plugin_sdk::lock::OnceLock;

use crate::buffer::Buffer;
use crate::device::{Device, Purpose};
use crate::memory::Memory;
use crate::properties::Properties;
use crate::queue::Queue;
use crate::staging::{Block, Staging};
use crate::target::Trusted;

/// An open device, ready for work.
pub struct Gpu {
    /// Its queue.
    pub queue: Queue,
    /// The memory that programs can name.
    pub memory: Memory,
    /// The memory through which host arrays pass.
    pub staging: Staging,
    /// What passed its tests, once these were made.
    pub trusted: OnceLock<Trusted>,
    /// The device; last, so that it is dropped last.
    pub device: Arc<Device>,
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The properties are of a usable device of the instance, which outlives the result.
    pub unsafe fn open(instance: &ash::Instance, properties: &Arc<Properties>) -> Result<Self, PluginError> {
        // SAFETY: the properties are of a usable device of the instance, which outlives the device.
        let device = Arc::new(unsafe { Device::open(instance, properties) }?);
        // SAFETY: the device has one queue of the family.
        let queue = unsafe { device.functions.get_device_queue(properties.family.unwrap_or(0), 0) };
        // SAFETY: nothing else uses its queue.
        unsafe { Self::new(device, queue) }
    }

    /// Uses a queue of a device.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The queue is of the properties' family and outlives the result, and nothing else uses it meanwhile.
    pub unsafe fn new(device: Arc<Device>, queue: vk::Queue) -> Result<Self, PluginError> {
        // SAFETY: the queue is of the family, outlives this value, and nothing else uses it.
        let queue = unsafe { Queue::new(&device, queue) }?;
        Ok(Self {
            queue,
            memory: Memory::default(),
            staging: Staging::default(),
            trusted: OnceLock::new(),
            device,
        })
    }

    /// Memory of the device.
    ///
    /// # Errors
    /// The driver's; out of memory has a status of its own.
    pub fn allocate(&self, bytes: u64) -> Result<Buffer, PluginError> {
        self.with_room(|| Buffer::new(&self.device, bytes, Purpose::Device))
    }

    /// Memory for a host array.
    ///
    /// # Errors
    /// The driver's; out of memory has a status of its own.
    pub fn block(&self, bytes: u64) -> Result<Block, PluginError> {
        self.with_room(|| self.staging.take(&self.device, bytes, self.queue.done()))
    }

    /// Makes memory. If there is too little, what is kept for host arrays is freed first, when work that uses it is done.
    fn with_room<T>(&self, make: impl Fn() -> Result<T, PluginError>) -> Result<T, PluginError> {
        make().or_else(|error| {
            if error.status() != HIPDNN_PLUGIN_STATUS_ALLOC_FAILED {
                return Err(error);
            }
            self.queue.synchronize()?;
            self.staging.clear(self.queue.done());
            make()
        })
    }

    /// Takes back memory whose last work is done at this time.
    ///
    /// # Errors
    /// The driver's.
    pub fn give_back(&self, block: Block, time: u64) -> Result<(), PluginError> {
        match self.staging.keep(block, time) {
            Some(block) => {
                let waited = self.queue.wait(time);
                drop(block);
                waited
            }
            None => Ok(()),
        }
    }
}
