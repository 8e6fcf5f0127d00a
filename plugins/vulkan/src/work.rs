//! Recording of work: copies and kernels.

use std::cell::Cell;
use std::sync::Arc;

use ash::vk;

use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::device::Device;
use crate::pipeline::Pipeline;

/// Work in a command buffer, which begins after all earlier work of the device.
pub struct Recorded {
    buffer: vk::CommandBuffer,
    /// Kernels and copies.
    pub count: u32,
    /// Whether some of them came after the last barrier.
    is_running: bool,
    /// Whether there are copies.
    has_copies: bool,
}

/// Adds work, which begins after what was recorded before.
pub struct Recorder<'a> {
    device: &'a Arc<Device>,
    buffer: vk::CommandBuffer,
    count: Cell<u32>,
    is_running: Cell<bool>,
    has_copies: Cell<bool>,
    /// Whether later work waits for what is running.
    waits: Cell<bool>,
}

/// One side of a barrier: stages, and how they access memory.
type Scope = (vk::PipelineStageFlags, vk::AccessFlags);

/// Memory that work wrote is seen by what follows, on the device and by copies.
const FROM: Scope = (
    STAGES,
    vk::AccessFlags::from_raw(
        vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
    ),
);
const TO: Scope = (
    STAGES,
    vk::AccessFlags::from_raw(
        vk::AccessFlags::SHADER_READ.as_raw()
            | vk::AccessFlags::SHADER_WRITE.as_raw()
            | vk::AccessFlags::TRANSFER_READ.as_raw()
            | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
    ),
);
const STAGES: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);

/// The same among kernels alone.
const FROM_KERNELS: Scope = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE);
const TO_KERNELS: Scope = (
    vk::PipelineStageFlags::COMPUTE_SHADER,
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::SHADER_WRITE.as_raw()),
);

/// What the host does with results.
const TO_HOST: Scope = (
    vk::PipelineStageFlags::HOST,
    vk::AccessFlags::from_raw(vk::AccessFlags::HOST_READ.as_raw() | vk::AccessFlags::HOST_WRITE.as_raw()),
);

fn barrier(device: &Device, buffer: vk::CommandBuffer, (after, from): Scope, (before, to): Scope) {
    let memory = [vk::MemoryBarrier::default().src_access_mask(from).dst_access_mask(to)];
    let flags = vk::DependencyFlags::empty();
    // SAFETY: the buffer is being recorded, by this thread alone.
    unsafe {
        device.functions.cmd_pipeline_barrier(buffer, after, before, flags, &memory, &[], &[]);
    }
}

impl Recorded {
    /// Nothing yet, in a command buffer that is being recorded.
    pub(crate) fn begin(device: &Device, buffer: vk::CommandBuffer) -> Self {
        // What the host wrote before a submission is seen by it.
        barrier(device, buffer, FROM, TO);
        Self { buffer, count: 0, is_running: false, has_copies: false }
    }

    /// Makes what was written visible to the host, if it sees any of it. Returns the command buffer.
    pub(crate) fn end(self, device: &Device) -> vk::CommandBuffer {
        if self.has_copies || device.properties.shares_memory() || !device.is_own() {
            barrier(device, self.buffer, FROM, TO_HOST);
        }
        self.buffer
    }
}

impl<'a> Recorder<'a> {
    /// Goes on after recorded work.
    pub(crate) fn new(device: &'a Arc<Device>, before: Recorded) -> Self {
        let Recorded { buffer, count, is_running, has_copies } = before;
        Self {
            device,
            buffer,
            count: count.into(),
            is_running: is_running.into(),
            has_copies: has_copies.into(),
            waits: true.into(),
        }
    }

    /// All of the work.
    pub(crate) fn recorded(self) -> Recorded {
        Recorded {
            buffer: self.buffer,
            count: self.count.get(),
            is_running: self.is_running.get(),
            has_copies: self.has_copies.get(),
        }
    }

    /// Makes later work wait for earlier work.
    pub fn then(&self) {
        self.waits.set(true);
    }

    /// Before a kernel or a copy.
    fn next(&self, is_copy: bool) {
        if is_copy {
            self.has_copies.set(true);
        }
        if self.waits.replace(false) && self.is_running.get() {
            let (from, to) = if self.has_copies.get() { (FROM, TO) } else { (FROM_KERNELS, TO_KERNELS) };
            barrier(self.device, self.buffer, from, to);
        }
        self.is_running.set(true);
        self.count.set(self.count.get() + 1);
    }

    /// Copies bytes between buffers, which do not overlap.
    pub fn copy(&self, from: &Buffer, from_offset: u64, to: &Buffer, to_offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.next(true);
        let region = [vk::BufferCopy { src_offset: from_offset, dst_offset: to_offset, size: bytes }];
        // SAFETY: the buffer is being recorded, and the others are the device's.
        unsafe { self.device.functions.cmd_copy_buffer(self.buffer, from.buffer, to.buffer, &region) };
    }

    /// Writes a few bytes into a buffer.
    pub fn write(&self, buffer: &Buffer, bytes: &[u8]) {
        self.next(true);
        // SAFETY: the buffer is being recorded, and the other is the device's and has at least as many bytes.
        unsafe { self.device.functions.cmd_update_buffer(self.buffer, buffer.buffer, 0, bytes) };
    }

    /// Measures what `record` records.
    pub fn timed<T>(&self, clock: &Clock, record: impl FnOnce() -> T) -> T {
        let (functions, pool) = (&self.device.functions, clock.pool());
        let stage = vk::PipelineStageFlags::COMPUTE_SHADER;
        // SAFETY: the buffer is being recorded, and the pool is the device's, with two times, and no other work uses it.
        unsafe {
            functions.cmd_reset_query_pool(self.buffer, pool, 0, 2);
            functions.cmd_write_timestamp(self.buffer, stage, pool, 0);
        }
        let recorded = record();
        // SAFETY: the buffer is being recorded, and the pool is the device's, with two times.
        unsafe { functions.cmd_write_timestamp(self.buffer, stage, pool, 1) };
        recorded
    }

    /// Starts a kernel with these parameters.
    pub fn launch(&self, pipeline: &Pipeline, groups: [u32; 3], parameters: &[u8]) {
        self.next(false);
        let functions = &self.device.functions;
        let [x, y, z] = groups;
        // SAFETY: the buffer is being recorded, and the pipeline is the device's and takes as many bytes.
        unsafe {
            functions.cmd_bind_pipeline(self.buffer, vk::PipelineBindPoint::COMPUTE, pipeline.pipeline());
            if !parameters.is_empty() {
                let stage = vk::ShaderStageFlags::COMPUTE;
                functions.cmd_push_constants(self.buffer, pipeline.layout(), stage, 0, parameters);
            }
            functions.cmd_dispatch(self.buffer, x, y, z);
        }
    }
}
