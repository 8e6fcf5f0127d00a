//! Times candidates on the device, if a caller requests it when planning.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::gpu::Gpu;

/// Number of warm-up runs.
const WARM: usize = 2;
/// Number of runs timed together, to hide the host's overhead.
const TIMED: usize = 10;

/// Temporary device memory.
pub struct Memory {
    gpu: Gpu,
    pointer: *mut c_void,
}

impl Memory {
    /// Uninitialized memory of this many bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(gpu: Gpu, bytes: usize) -> Result<Self, PluginError> {
        Ok(Self { gpu, pointer: gpu.allocate(bytes)? })
    }

    /// Zeroed memory of this many bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn zeros(gpu: Gpu, bytes: usize) -> Result<Self, PluginError> {
        let memory = Self::new(gpu, bytes)?;
        // SAFETY: `Self::new` has allocated as many bytes as the vector has.
        unsafe { gpu.upload(memory.pointer, &vec![0; bytes]) }?;
        Ok(memory)
    }

    /// Its address.
    pub fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this value owns it.
        unsafe { self.gpu.free(self.pointer) };
    }
}

/// The candidates that run successfully, fastest first. `run` queues one on the device.
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
