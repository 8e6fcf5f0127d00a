//! Recording of work: copies and kernels, each after the one before.

use std::sync::Arc;

use ash::vk;

use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::device::Device;
use crate::pipeline::Pipeline;

/// Work that is being recorded. It begins after all earlier work of the device.
pub struct Recorder<'a> {
    device: &'a Arc<Device>,
    buffer: vk::CommandBuffer,
}

/// Memory that work wrote is seen by what follows, on the device and by copies.
const FROM: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
);
const TO: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_READ.as_raw()
        | vk::AccessFlags::SHADER_WRITE.as_raw()
        | vk::AccessFlags::TRANSFER_READ.as_raw()
        | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
);
const STAGES: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);

impl<'a> Recorder<'a> {
    /// Work in a command buffer that is being recorded.
    pub(crate) fn begin(device: &'a Arc<Device>, buffer: vk::CommandBuffer) -> Self {
        let recorder = Self { device, buffer };
        let from = FROM | vk::AccessFlags::HOST_WRITE;
        recorder.barrier(STAGES | vk::PipelineStageFlags::HOST, from, STAGES, TO);
        recorder
    }

    /// Makes what was written visible to the host.
    pub(crate) fn end(self) {
        self.barrier(
            STAGES,
            FROM,
            vk::PipelineStageFlags::HOST,
            vk::AccessFlags::HOST_READ | vk::AccessFlags::HOST_WRITE,
        );
    }

    fn barrier(
        &self,
        after: vk::PipelineStageFlags,
        from: vk::AccessFlags,
        before: vk::PipelineStageFlags,
        to: vk::AccessFlags,
    ) {
        let memory = [vk::MemoryBarrier::default().src_access_mask(from).dst_access_mask(to)];
        // SAFETY: the buffer is being recorded, by this thread alone.
        unsafe {
            self.device.functions.cmd_pipeline_barrier(
                self.buffer,
                after,
                before,
                vk::DependencyFlags::empty(),
                &memory,
                &[],
                &[],
            );
        }
    }

    /// Makes later work wait for earlier work.
    pub fn then(&self) {
        self.barrier(STAGES, FROM, STAGES, TO);
    }

    /// Copies bytes between buffers, which do not overlap.
    pub fn copy(&self, from: &Buffer, from_offset: u64, to: &Buffer, to_offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let region = [vk::BufferCopy { src_offset: from_offset, dst_offset: to_offset, size: bytes }];
        // SAFETY: the buffer is being recorded, and the others are the device's.
        unsafe { self.device.functions.cmd_copy_buffer(self.buffer, from.buffer, to.buffer, &region) };
    }

    /// Writes a few bytes into a buffer.
    pub fn write(&self, buffer: &Buffer, bytes: &[u8]) {
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
