//! Work of runs on a GPU that is captured when memory comes again, and started as a whole from then on.

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use hipdnn::hardware::CapturedWork;

use super::{Prepared, Ready};
use crate::failure::Result;
use crate::library::OnStream;
use crate::profile;

/// How often the work of a shape is captured at most, in all blocks of memory together: engines may keep memory for each.
pub const MOST: usize = 64;

/// How many runs with other shapes or other memory are remembered for each block.
const KEPT: usize = 8;

/// The runs with one block of memory; the last one is at the end.
#[derive(Default)]
pub struct Replays(Vec<Replay>);

/// A run that may come again.
struct Replay {
    prepared: Weak<Prepared>,
    /// Where inputs and outputs are on the GPU.
    addresses: Vec<*mut c_void>,
    /// The work of each part, from the second run on; none where the host computes.
    parts: Vec<Option<CapturedWork>>,
}

// SAFETY: the addresses are compared only.
unsafe impl Send for Replay {}

/// Executes stages one by one.
type Execute<'a> = &'a dyn Fn(&[Ready]) -> Result<()>;

/// What may be captured together, and each stage of the host.
fn parts(stages: &[Ready]) -> impl Iterator<Item = &[Ready]> {
    stages.chunk_by(|first, second| matches!((first, second), (Ready::Plan { .. }, Ready::Plan { .. })))
}

impl Replays {
    /// Executes the stages of a shape: one by one, or as they were captured. Inputs and outputs are at the addresses, and what else the
    /// stages use is the shape's or at the same place in the block of memory.
    ///
    /// # Safety
    /// All memory is there until the stream was waited for.
    pub unsafe fn run(
        &mut self,
        own: &OnStream,
        prepared: &Arc<Prepared>,
        addresses: Vec<*mut c_void>,
        execute: Execute<'_>,
    ) -> Result<()> {
        // A profile has an event for each stage.
        if profile::is_on() {
            return execute(&prepared.stages);
        }
        self.0.retain(|replay| replay.prepared.strong_count() > 0);
        let is_it = |replay: &Replay| {
            replay.prepared.as_ptr() == Arc::as_ptr(prepared) && replay.addresses == addresses
        };
        let Some(at) = self.0.iter().position(is_it) else {
            if prepared.captures.load(Ordering::Relaxed) > 0 {
                if self.0.len() == KEPT {
                    self.0.remove(0);
                }
                self.0.push(Replay { prepared: Arc::downgrade(prepared), addresses, parts: Vec::new() });
            }
            return execute(&prepared.stages);
        };
        let mut replay = self.0.remove(at);
        // SAFETY: the caller vouches for the memory; the kernels are those of the shape's plans, which are there.
        let done = unsafe { replay.run(own, prepared, execute) };
        self.0.push(replay);
        done
    }
}

impl Replay {
    /// # Safety
    /// As for [`Replays::run`].
    unsafe fn run(&mut self, own: &OnStream, prepared: &Prepared, execute: Execute<'_>) -> Result<()> {
        let one_less = |captures: usize| captures.checked_sub(1);
        if self.parts.is_empty()
            && prepared.captures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
        {
            let capture = |stages: &[Ready]| match stages {
                // One alone gains nothing.
                [_] => Ok(None),
                _ => own.capture(|| execute(stages)).map(Some),
            };
            match parts(&prepared.stages).map(capture).collect() {
                Ok(captured) => self.parts = captured,
                // It would fail again.
                Err(_) => prepared.captures.store(0, Ordering::Relaxed),
            }
        }
        if self.parts.is_empty() {
            return execute(&prepared.stages);
        }
        for (part, stages) in self.parts.iter().zip(parts(&prepared.stages)) {
            match part {
                // SAFETY: the caller vouches for memory and kernels.
                Some(work) => unsafe { work.start(&own.stream) }?,
                None => execute(stages)?,
            }
        }
        Ok(())
    }
}
