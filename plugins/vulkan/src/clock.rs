//! How long work takes by the device's own clock, for traces.

use std::sync::Arc;

use ash::vk;

use crate::device::Device;

/// The times at the beginning and at the end of one piece of work.
pub struct Clock {
    device: Arc<Device>,
    pool: vk::QueryPool,
    /// Which bits of a time count.
    mask: u64,
}

impl Clock {
    /// A clock, if the queue has one.
    pub fn new(device: &Arc<Device>) -> Option<Self> {
        let bits = device.properties.clock_bits;
        let mask = u64::MAX.checked_shr(64_u32.checked_sub(bits)?)?;
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
        // SAFETY: the struct is alive during the call.
        let pool = unsafe { device.functions.create_query_pool(&info, None) }.ok()?;
        Some(Self { device: Arc::clone(device), pool, mask })
    }

    /// Where the times are written.
    pub fn pool(&self) -> vk::QueryPool {
        self.pool
    }

    /// Nanoseconds between both times. The work is done.
    pub fn nanoseconds(&self) -> Option<u64> {
        let mut times = [0_u64; 2];
        // SAFETY: the pool is the device's, and has two results of 64 bits.
        let answer = unsafe {
            self.device.functions.get_query_pool_results(
                self.pool,
                0,
                &mut times,
                vk::QueryResultFlags::TYPE_64,
            )
        };
        answer.ok()?;
        let [begin, end] = times;
        let ticks = end.wrapping_sub(begin) & self.mask;
        Some((ticks as f64 * f64::from(self.device.properties.nanoseconds_per_tick)) as u64)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // SAFETY: whoever drops it waited for work that uses it.
        unsafe { self.device.functions.destroy_query_pool(self.pool, None) };
    }
}
