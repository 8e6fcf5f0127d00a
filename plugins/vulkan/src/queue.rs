//! A device's queue, on which work runs in order, and the time line that tells how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ash::vk;
use hipdnn_plugin_sdk::lock::Mutex;
use hipdnn_plugin_sdk::{PluginError, process};

use crate::device::Device;
use crate::work::{Recorded, Recorder};

/// How long a wait sleeps at once, in nanoseconds; a device that is lost ends it.
const PATIENCE: u64 = 1_000_000_000;

/// Work waits for more while so many submissions are unfinished: one runs, and the next is ready.
const AHEAD: u64 = 2;

/// Kernels and copies of a submission, at most and where enough of them come one after the other: a submission costs the host and the
/// device more than a small kernel. The first one after a wait has one, and each has up to twice as many as the one before.
const MOST: u32 = 256;
const ENOUGH: u32 = 32;

/// The driver's queue and the command buffers that were submitted to it.
struct Submitted {
    queue: vk::Queue,
    pool: vk::CommandPool,
    /// Each with the time at which its work is done.
    buffers: Vec<(vk::CommandBuffer, u64)>,
    /// The time of the last work that was submitted.
    last: u64,
    /// Work that waits for more, which is done at the time after the last.
    open: Option<Recorded>,
    /// How many calls recorded it.
    calls: u32,
    /// In which process ([`process::word`]): a child must not submit its parent's work again.
    process: u32,
}

/// A queue. Work of all threads runs in the order in which it was recorded.
pub struct Queue {
    device: Arc<Device>,
    submitted: Mutex<Option<Submitted>>,
    timeline: vk::Semaphore,
    done: AtomicU64,
    /// Kernels and copies that the next submission is worth.
    wanted: AtomicU32,
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
        let (device, done, wanted) = (Arc::clone(device), AtomicU64::new(0), AtomicU32::new(1));
        let mut made = Self { device, submitted: Mutex::new(None), timeline, done, wanted };
        // SAFETY: the device is alive, and so is the struct.
        let pool = unsafe { made.device.functions.create_command_pool(&pool, None) };
        let pool = made.device.check("vkCreateCommandPool", pool)?;
        *made.submitted.get_mut() = Some(Submitted {
            queue,
            pool,
            buffers: Vec::new(),
            last: 0,
            open: None,
            calls: 0,
            process: process::word(),
        });
        Ok(made)
    }

    /// Records work, which is submitted now or with later work. Returns the time at which it is done, for [`Queue::wait`], which its
    /// caller alone waits for.
    ///
    /// # Errors
    /// The driver's. What was recorded meanwhile does not run then.
    pub fn submit(&self, record: impl FnOnce(&Recorder<'_>)) -> Result<u64, PluginError> {
        let mut submitted = self.submitted.lock();
        let queue = own(&mut submitted)?;
        self.device.check_alive()?;
        // Before anything is recorded: what follows fails only with all of it.
        let unfinished = queue.last.saturating_sub(self.time_done(queue.last)?);
        let open = match queue.open.take() {
            Some(open) => open,
            None => self.begin(queue)?,
        };
        let recorder = Recorder::new(&self.device, open);
        record(&recorder);
        let open = queue.open.insert(recorder.recorded());
        queue.calls += 1;
        let time = queue.last + 1;
        let wanted = self.wanted.load(Ordering::Relaxed);
        // A program submits work of its own to its queue.
        let is_full = open.count >= MOST || !self.device.is_own();
        if is_full || (unfinished < AHEAD && open.count >= wanted) {
            self.wanted.store((2 * wanted).min(ENOUGH), Ordering::Relaxed);
            self.flush(queue, true)?;
        }
        Ok(time)
    }

    /// Begins to record work.
    fn begin(&self, queue: &mut Submitted) -> Result<Recorded, PluginError> {
        let place = self.free_buffer(queue)?;
        let (buffer, _) =
            *queue.buffers.get(place).ok_or_else(|| PluginError::internal("no command buffer"))?;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer is not in use, and this thread has the lock of its pool.
        self.device.check("vkBeginCommandBuffer", unsafe {
            self.device.functions.begin_command_buffer(buffer, &begin)
        })?;
        queue.calls = 0;
        Ok(Recorded::begin(&self.device, buffer))
    }

    /// Submits what was recorded, also by others unless it `is_own`. Work of which they were told that it is accepted cannot be
    /// missing in silence: without it the device takes no more.
    fn flush(&self, queue: &mut Submitted, is_own: bool) -> Result<(), PluginError> {
        let Some(open) = queue.open.take() else { return Ok(()) };
        let is_shared = !is_own || queue.calls > 1;
        self.submit_recorded(queue, open)
            .map_err(|error| if is_shared { self.device.miss_work(&error) } else { error })
    }

    fn submit_recorded(&self, queue: &mut Submitted, open: Recorded) -> Result<(), PluginError> {
        let buffer = open.end(&self.device);
        // SAFETY: the buffer is being recorded, by this thread alone.
        let ended = unsafe { self.device.functions.end_command_buffer(buffer) };
        self.device.check("vkEndCommandBuffer", ended)?;
        let next = queue.last + 1;
        let (buffers, semaphores, times) = ([buffer], [self.timeline], [next]);
        let mut values = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&times);
        let submit = vk::SubmitInfo::default()
            .command_buffers(&buffers)
            .signal_semaphores(&semaphores)
            .push_next(&mut values);
        let submit = || {
            // SAFETY: buffer and semaphore are the device's and alive, and this thread has the queue's lock.
            unsafe { self.device.functions.queue_submit(queue.queue, &[submit], vk::Fence::null()) }
        };
        let answer = match submit() {
            // Earlier work may have the memory that is missing.
            Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY)
                if self.wait_for(queue.last).is_ok() =>
            {
                submit()
            }
            answer => answer,
        };
        self.device.check("vkQueueSubmit", answer)?;
        if let Some((_, time)) = queue.buffers.iter_mut().find(|(own, _)| *own == buffer) {
            *time = next;
        }
        queue.last = next;
        Ok(())
    }

    /// The place of a command buffer whose work is done, or of a new one.
    fn free_buffer(&self, queue: &mut Submitted) -> Result<usize, PluginError> {
        let done = self.done();
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

    /// The time up to which work is done, of that up to `last`.
    fn time_done(&self, last: u64) -> Result<u64, PluginError> {
        // SAFETY: the semaphore is the device's.
        let value = unsafe { self.device.functions.get_semaphore_counter_value(self.timeline) };
        // Of a lost device it may be any number.
        let value =
            value.and_then(|value| if value > last { Err(vk::Result::ERROR_DEVICE_LOST) } else { Ok(value) });
        let value = self.device.check("vkGetSemaphoreCounterValue", value)?;
        self.done.fetch_max(value, Ordering::AcqRel);
        Ok(value)
    }

    /// Waits until the caller's work of [`Queue::submit`] is done.
    ///
    /// # Errors
    /// The driver's, for instance that the device was lost, or that the work could not be submitted.
    pub fn wait(&self, time: u64) -> Result<(), PluginError> {
        self.wanted.store(1, Ordering::Relaxed);
        if self.done() >= time {
            return Ok(());
        }
        self.flush_up_to(time)?;
        self.reach(time)
    }

    /// Waits until submitted work is done. After a failure none runs either, so that its memory can be freed.
    fn reach(&self, time: u64) -> Result<(), PluginError> {
        if self.done() >= time {
            return Ok(());
        }
        self.wait_for(time).inspect_err(|_| self.wait_idle())
    }

    /// Waits until the driver says that its queue has no work, as it does for a lost device.
    fn wait_idle(&self) {
        if let Ok(queue) = own(&mut self.submitted.lock()) {
            // SAFETY: the queue is the device's, and this thread has its lock. A failure means that the device is lost.
            let _ = unsafe { self.device.functions.queue_wait_idle(queue.queue) };
        }
    }

    fn wait_for(&self, time: u64) -> Result<(), PluginError> {
        let (semaphores, values) = ([self.timeline], [time]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        loop {
            self.device.check_lost()?;
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

    /// The time up to which work is known to be done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Submits work that is done at this time.
    fn flush_up_to(&self, time: u64) -> Result<(), PluginError> {
        let mut submitted = self.submitted.lock();
        let queue = own(&mut submitted)?;
        if time > queue.last {
            self.flush(queue, true)?;
        }
        if time > queue.last {
            // Another thread's attempt failed.
            self.device.check_alive()?;
            return Err(PluginError::internal("work could not be submitted"));
        }
        Ok(())
    }

    /// Waits for all work that was recorded.
    ///
    /// # Errors
    /// The driver's, or that work is missing.
    pub fn synchronize(&self) -> Result<(), PluginError> {
        self.finish()?;
        self.device.check_alive()
    }

    /// Waits until no work is left. It may have failed to be submitted, which [`Queue::synchronize`] tells.
    ///
    /// # Errors
    /// The driver's, while it waits.
    pub fn finish(&self) -> Result<(), PluginError> {
        self.device.check_lost().inspect_err(|_| self.wait_idle())?;
        let mut submitted = self.submitted.lock();
        let queue = own(&mut submitted)?;
        // What was submitted earlier runs all the same.
        drop(self.flush(queue, false));
        let last = queue.last;
        drop(submitted);
        self.wait(last)
    }
}

/// What this process submits to.
fn own(submitted: &mut Option<Submitted>) -> Result<&mut Submitted, PluginError> {
    let own = submitted.as_mut().filter(|queue| queue.process == process::word());
    own.ok_or_else(|| PluginError::not_initialized("the device's queue is of a parent process"))
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Failures mean that the device is lost; its objects are freed all the same.
        drop(self.finish());
        // SAFETY: no work is left, and nothing else uses these objects.
        unsafe {
            if let Some(queue) = self.submitted.get_mut() {
                self.device.functions.destroy_command_pool(queue.pool, None);
            }
            self.device.functions.destroy_semaphore(self.timeline, None);
        }
    }
}

#[cfg(test)]
mod failing_tests;

#[cfg(test)]
mod tests {
    use crate::buffer::Buffer;
    use crate::device::Purpose;
    use crate::gpu::Gpu;
    use crate::instance;

    fn buffer(gpu: &Gpu, bytes: u64) -> Buffer {
        Buffer::new(&gpu.device, bytes, Purpose::Staging).unwrap()
    }

    #[test]
    fn work_waits_for_more_while_the_device_is_busy_and_runs_in_order() {
        const COUNT: u32 = 100;
        let Ok(gpu) = instance::device(0) else { return };
        let bytes = 4 << 20;
        let all: Vec<Buffer> = (0..=COUNT).map(|_| buffer(&gpu, bytes)).collect();
        let first = all[0].mapped().unwrap().cast::<u32>();
        // SAFETY: the buffer has room for the numbers, and no work uses it.
        (0..1 << 20).for_each(|at| unsafe { first.add(at).write(at as u32) });
        let copy =
            |pair: &[Buffer]| gpu.queue.submit(|recorder| recorder.copy(&pair[0], 0, &pair[1], 0, bytes));
        let times: Vec<u64> = all.windows(2).map(|pair| copy(pair).unwrap()).collect();
        assert!(times.is_sorted());
        let submissions = times[times.len() - 1] - times[0] + 1;
        assert!(submissions < COUNT.into(), "{submissions}");
        gpu.queue.wait(times[times.len() - 1]).unwrap();
        let last = all[COUNT as usize].mapped().unwrap().cast::<u32>();
        // SAFETY: the buffer has as many numbers, and its work is done.
        assert!((0..1 << 20).all(|at| unsafe { last.add(at).read() } == at as u32));
        gpu.queue.wait(times[0]).unwrap();
        gpu.queue.synchronize().unwrap();
    }
}
