//! A device's queue, on which work runs in order, and the time line that tells how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::lock::Mutex;

use crate::device::Device;
use crate::work::Recorder;

/// How long a wait sleeps at once, in nanoseconds; a device that is lost ends it.
const PATIENCE: u64 = 1_000_000_000;

/// The driver's queue and the command buffers that were submitted to it.
struct Submitted {
    queue: vk::Queue,
    pool: vk::CommandPool,
    /// Each with the time at which its work is done.
    buffers: Vec<(vk::CommandBuffer, u64)>,
    /// The time of the last work.
    last: u64,
}

/// A queue. Work of all threads runs in the order in which it was submitted.
pub struct Queue {
    device: Arc<Device>,
    submitted: Mutex<Option<Submitted>>,
    timeline: vk::Semaphore,
    done: AtomicU64,
}

impl Queue {
    /// Makes what is needed to use a queue of the device.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The queue is of the properties' family and outlives the result, and nothing else uses it meanwhile.
    pub unsafe fn new(device: &Arc<Device>, queue: vk::Queue) -> Result<Self, PluginError> {
        let functions = &device.functions;
        let flags = vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER | vk::CommandPoolCreateFlags::TRANSIENT;
        let family = device.properties.family.unwrap_or(0);
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(family).flags(flags);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let semaphore = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive, and so is the struct.
        let timeline =
            device.check("vkCreateSemaphore", unsafe { functions.create_semaphore(&semaphore, None) })?;
        let (device, done) = (Arc::clone(device), AtomicU64::new(0));
        let mut made = Self { device, submitted: Mutex::new(None), timeline, done };
        // SAFETY: the device is alive, and so is the struct.
        let pool = unsafe { made.device.functions.create_command_pool(&pool, None) };
        let pool = made.device.check("vkCreateCommandPool", pool)?;
        *made.submitted.get_mut() = Some(Submitted { queue, pool, buffers: Vec::new(), last: 0 });
        Ok(made)
    }

    /// Records work and submits it. Returns the time at which it is done, for [`Queue::wait`].
    ///
    /// # Errors
    /// The driver's, and those of `record`; nothing runs then.
    pub fn submit(
        &self,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<(), PluginError>,
    ) -> Result<u64, PluginError> {
        self.device.check_alive()?;
        let mut submitted = self.submitted.lock();
        let queue = submitted
            .as_mut()
            .ok_or_else(|| PluginError::not_initialized("the device's queue is of a parent process"))?;
        let place = self.free_buffer(queue)?;
        let (buffer, time) =
            queue.buffers.get_mut(place).ok_or_else(|| PluginError::internal("no command buffer"))?;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer is not in use, and this thread has the lock of its pool.
        self.device.check("vkBeginCommandBuffer", unsafe {
            self.device.functions.begin_command_buffer(*buffer, &begin)
        })?;
        let mut recorder = Recorder::begin(&self.device, *buffer);
        if let Err(error) = record(&mut recorder) {
            // SAFETY: the buffer is not in use, and this thread has the lock of its pool. What was recorded is thrown away; a failure means that memory is short, which the next use will tell.
            let _ = unsafe {
                self.device.functions.reset_command_buffer(*buffer, vk::CommandBufferResetFlags::empty())
            };
            return Err(error);
        }
        recorder.end();
        // SAFETY: the buffer is being recorded, by this thread alone.
        let ended = unsafe { self.device.functions.end_command_buffer(*buffer) };
        self.device.check("vkEndCommandBuffer", ended)?;
        let next = queue.last + 1;
        let (buffers, semaphores, times) = ([*buffer], [self.timeline], [next]);
        let mut values = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&times);
        let submit = vk::SubmitInfo::default()
            .command_buffers(&buffers)
            .signal_semaphores(&semaphores)
            .push_next(&mut values);
        // SAFETY: buffer and semaphore are the device's and alive, and this thread has the queue's lock.
        let answer = unsafe { self.device.functions.queue_submit(queue.queue, &[submit], vk::Fence::null()) };
        self.device.check("vkQueueSubmit", answer)?;
        *time = next;
        queue.last = next;
        Ok(next)
    }

    /// The place of a command buffer whose work is done, or of a new one.
    fn free_buffer(&self, queue: &mut Submitted) -> Result<usize, PluginError> {
        let done = self.time_done()?;
        if let Some(place) = queue.buffers.iter().position(|(_, time)| *time <= done) {
            return Ok(place);
        }
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(queue.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is the device's, and this thread has its lock.
        let made = unsafe { self.device.functions.allocate_command_buffers(&info) };
        let made = self.device.check("vkAllocateCommandBuffers", made)?;
        queue.buffers.extend(made.into_iter().map(|buffer| (buffer, 0)));
        Ok(queue.buffers.len() - 1)
    }

    /// The time up to which work is done.
    fn time_done(&self) -> Result<u64, PluginError> {
        // SAFETY: the semaphore is the device's.
        let value = unsafe { self.device.functions.get_semaphore_counter_value(self.timeline) };
        let value = self.device.check("vkGetSemaphoreCounterValue", value)?;
        self.done.fetch_max(value, Ordering::AcqRel);
        Ok(value)
    }

    /// Waits until the work of [`Queue::submit`] is done.
    ///
    /// # Errors
    /// The driver's, for instance that the device was lost.
    pub fn wait(&self, time: u64) -> Result<(), PluginError> {
        if self.done.load(Ordering::Acquire) >= time {
            return Ok(());
        }
        let (semaphores, values) = ([self.timeline], [time]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        loop {
            self.device.check_alive()?;
            // SAFETY: the semaphore is the device's.
            match unsafe { self.device.functions.wait_semaphores(&info, PATIENCE) } {
                Err(vk::Result::TIMEOUT) => {}
                answer => {
                    self.device.check("vkWaitSemaphores", answer)?;
                    self.done.fetch_max(time, Ordering::AcqRel);
                    return Ok(());
                }
            }
        }
    }

    /// The time of the last work that was submitted.
    pub fn last(&self) -> u64 {
        self.submitted.lock().as_ref().map_or(0, |queue| queue.last)
    }

    /// Waits for all work that was submitted.
    ///
    /// # Errors
    /// The driver's.
    pub fn synchronize(&self) -> Result<(), PluginError> {
        self.device.check_alive()?;
        self.wait(self.last())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Failures mean that the device is lost; its objects are freed all the same.
        drop(self.synchronize());
        // SAFETY: no work is left, and nothing else uses these objects.
        unsafe {
            if let Some(queue) = self.submitted.get_mut() {
                self.device.functions.destroy_command_pool(queue.pool, None);
            }
            self.device.functions.destroy_semaphore(self.timeline, None);
        }
    }
}
