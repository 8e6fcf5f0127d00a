//! Replays GPU work: captures a run whose memory comes again, and launches it as a whole from then on.

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use hipdnn::hardware::CapturedWork;

use super::{Prepared, Ready};
use crate::failure::Result;
use crate::library::OnStream;
use crate::profile;

/// The most captures of a shape, in all blocks of memory together: engines may keep memory for each.
pub const MOST: usize = 64;

/// The most runs with other shapes or memory remembered for each block.
const KEPT: usize = 8;

/// The runs with one block of memory, the last one at the end.
#[derive(Default)]
pub struct Replays(Vec<Replay>);

/// A run that may be repeated.
struct Replay {
    prepared: Weak<Prepared>,
    /// The GPU addresses of inputs and outputs.
    addresses: Vec<*mut c_void>,
    /// The captured work of each part, from the second run on; none for parts on the host.
    parts: Vec<Option<CapturedWork>>,
}

// SAFETY: the addresses are only compared.
unsafe impl Send for Replay {}

/// Executes stages one by one.
type Execute<'a> = &'a dyn Fn(&[Ready]) -> Result<()>;

/// Parts that can be captured together, and each host stage.
fn parts(stages: &[Ready]) -> impl Iterator<Item = &[Ready]> {
    stages.chunk_by(|first, second| matches!((first, second), (Ready::Plan { .. }, Ready::Plan { .. })))
}

impl Replays {
    /// Executes the stages of a shape: one by one, or as captured. Inputs and outputs are at the addresses; all other memory
    /// belongs to the shape or is at the same position in the block.
    ///
    /// # Safety
    /// All memory stays until the stream was waited for.
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
        // SAFETY: all memory stays until the stream was waited for, as this function requires; the kernels belong to the shape's plans,
        // which are alive.
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
                // Capturing a single stage gains nothing.
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
                // SAFETY: all memory stays until the stream was waited for, as this function requires.
                Some(work) => unsafe { work.start(&own.stream) }?,
                None => execute(stages)?,
            }
        }
        Ok(())
    }
}
