//! Candidates timed on the device, where a caller asks for that when a plan is made.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::gpu::Gpu;

/// Runs before those that are timed.
const WARM: usize = 2;
/// Runs that are timed together, so that the host's part hides behind the device's.
const TIMED: usize = 10;

/// Device memory for a while.
pub struct Memory {
    gpu: Gpu,
    pointer: *mut c_void,
}

impl Memory {
    /// So many bytes, whose contents mean nothing.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(gpu: Gpu, bytes: usize) -> Result<Self, PluginError> {
        Ok(Self { gpu, pointer: gpu.allocate(bytes)? })
    }

    /// So many zeros.
    ///
    /// # Errors
    /// The driver's.
    pub fn zeros(gpu: Gpu, bytes: usize) -> Result<Self, PluginError> {
        let memory = Self::new(gpu, bytes)?;
        // SAFETY: the memory has as many bytes.
        unsafe { gpu.upload(memory.pointer, &vec![0; bytes]) }?;
        Ok(memory)
    }

    /// Where it is.
    pub fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        unsafe { self.gpu.free(self.pointer) };
    }
}

/// The candidates that run, the fastest first. `run` queues the work of one on the device.
pub fn by_time<T>(gpu: Gpu, candidates: Vec<T>, run: impl Fn(&T) -> Result<(), PluginError>) -> Vec<T> {
    let time = |candidate: &T, times: usize| -> Result<Duration, PluginError> {
        let start = Instant::now();
        for _ in 0..times {
            run(candidate)?;
        }
        gpu.synchronize()?;
        Ok(start.elapsed())
    };
    let mut timed = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        if let Ok(taken) = time(&candidate, WARM).and_then(|_| time(&candidate, TIMED)) {
            timed.push((taken, candidate));
        }
    }
    timed.sort_by_key(|(taken, _)| *taken);
    timed.into_iter().map(|(_, candidate)| candidate).collect()
}
