//! PROFILING_CONTROL: measures the work between two points of a handle's stream.
//!
//! On a HIP or CUDA device the points are events on the stream; on the processor, work is complete when a call returns, and a
//! monotonic clock is read. Unlike other descriptors, this one acts when attributes are set, and one of them resets it.

use std::ffi::c_int;
use std::time::Instant;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::Gpu;

use super::attribute::{Incoming, Outgoing, unknown};
use crate::events::{self, Events};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::handle as handles;
use crate::lock::Mutex;
use crate::status::{Error, Result};

const KIND: &str = "profiling control";

const HANDLE: c_int = Name::HIPDNN_ATTR_PROFILING_HANDLE_EXT as c_int;
const START: c_int = Name::HIPDNN_ATTR_PROFILING_START_EXT as c_int;
const STOP: c_int = Name::HIPDNN_ATTR_PROFILING_STOP_EXT as c_int;
const ELAPSED_MS: c_int = Name::HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT as c_int;
const DEVICE_SYNC: c_int = Name::HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT as c_int;
const STALL_ARM: c_int = Name::HIPDNN_ATTR_PROFILING_STALL_ARM_EXT as c_int;
const STALL_RELEASE: c_int = Name::HIPDNN_ATTR_PROFILING_STALL_RELEASE_EXT as c_int;
const STALL_TIMED_OUT: c_int = Name::HIPDNN_ATTR_PROFILING_STALL_TIMED_OUT_EXT as c_int;
const STALL_USED: c_int = Name::HIPDNN_ATTR_PROFILING_STALL_USED_EXT as c_int;
const RESET: c_int = Name::HIPDNN_ATTR_PROFILING_RESET_EXT as c_int;

/// A measurement; threads use it one at a time.
#[derive(Default)]
pub struct Profiling(Mutex<State>);

#[derive(Default)]
struct State {
    bound: Option<Bound>,
    stage: Stage,
}

/// The handle and stream being measured.
struct Bound {
    handle: usize,
    clock: Clock,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Stage {
    #[default]
    Ready,
    Started,
    Stopped,
    /// Finalized, with the milliseconds.
    Finalized(f32),
}

enum Clock {
    Processor { start: Instant, stop: Instant },
    Device { events: Events, stream: hipStream_t },
}

// SAFETY: events and streams belong to no thread.
unsafe impl Send for Clock {}

fn failed(error: PluginError) -> Error {
    Error::internal(error.message().to_owned())
}

/// The GPU that work on a stream goes to, if there is one.
fn gpu_of(stream: hipStream_t) -> Option<Gpu> {
    events::look();
    // SAFETY: `hipdnnSetStream` requires that the stream stays alive while the handle has it.
    unsafe { events::gpu_of_stream(stream) }
}

impl Clock {
    fn of(stream: hipStream_t) -> Result<Self> {
        Ok(match gpu_of(stream) {
            Some(gpu) => Self::Device { events: Events::new(gpu).map_err(failed)?, stream },
            None => {
                let now = Instant::now();
                Self::Processor { start: now, stop: now }
            }
        })
    }

    fn start(&mut self) -> Result<()> {
        match self {
            Self::Processor { start, .. } => *start = Instant::now(),
            // SAFETY: `hipdnnSetStream` requires that the stream stays alive while the handle has it.
            Self::Device { events, stream } => unsafe { events.start(*stream) }.map_err(failed)?,
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        match self {
            Self::Processor { stop, .. } => *stop = Instant::now(),
            // SAFETY: the caller that set the handle's stream keeps it alive.
            Self::Device { events, stream } => unsafe { events.stop(*stream) }.map_err(failed)?,
        }
        Ok(())
    }

    /// Milliseconds between the two points. Waits until the second is reached.
    fn elapsed(&self) -> Result<f32> {
        match self {
            Self::Processor { start, stop } => Ok((*stop - *start).as_secs_f64() as f32 * 1e3),
            Self::Device { events, .. } => events.elapsed().map_err(failed),
        }
    }
}

impl State {
    /// The measured stream; the default one if none is bound.
    fn stream(&self) -> hipStream_t {
        match self.bound.as_ref().map(|bound| &bound.clock) {
            Some(Clock::Device { stream, .. }) => *stream,
            _ => std::ptr::null_mut(),
        }
    }

    fn bound(&mut self) -> Result<&mut Bound> {
        let missing = || {
            Error::bad_param(format!(
                "HIPDNN_ATTR_PROFILING_HANDLE_EXT of the {KIND} is not set, set it first"
            ))
        };
        self.bound.as_mut().ok_or_else(missing)
    }

    fn advance(&mut self, what: &str, from: Stage, to: Stage) -> Result<()> {
        if self.stage != from {
            let done = match self.stage {
                Stage::Ready => "was not started",
                Stage::Started => "was started already",
                _ => "was stopped already",
            };
            return Err(Error::bad_param(format!("the {KIND} {done}, so it cannot {what}")));
        }
        let bound = self.bound()?;
        match to {
            Stage::Started => bound.clock.start()?,
            _ => bound.clock.stop()?,
        }
        self.stage = to;
        Ok(())
    }
}

impl Profiling {
    /// The kind's name in messages.
    pub fn name(&self) -> &'static str {
        KIND
    }

    /// Sets an attribute; most of them trigger an action.
    pub fn set(&self, incoming: &Incoming) -> Result<()> {
        let mut state = self.0.lock();
        if incoming.name() == RESET {
            incoming.flag()?;
            state.stage = Stage::Ready;
            return Ok(());
        }
        if matches!(state.stage, Stage::Finalized(_)) {
            return Err(Error::not_initialized(format!("the {KIND} is finalized and cannot be changed")));
        }
        match incoming.name() {
            HANDLE => {
                let handle = incoming.one::<usize>(Type::HIPDNN_TYPE_HANDLE)?;
                let stream = handles::with(handle, |session| Ok(session.stream()))
                    .map_err(|error| incoming.about(error))?;
                match &state.bound {
                    Some(bound) if bound.handle == handle => {}
                    Some(_) => {
                        return Err(Error::bad_param(format!(
                            "the {KIND} is bound to another handle already"
                        )));
                    }
                    None => state.bound = Some(Bound { handle, clock: Clock::of(stream)? }),
                }
            }
            START => {
                incoming.flag()?;
                state.advance("start", Stage::Ready, Stage::Started)?;
            }
            STOP => {
                incoming.flag()?;
                state.advance("stop", Stage::Started, Stage::Stopped)?;
            }
            DEVICE_SYNC => {
                incoming.flag()?;
                // Waits for the device even without a handle, as frontends require.
                if let Some(gpu) = gpu_of(state.stream()) {
                    gpu.synchronize().map_err(failed)?;
                }
            }
            // This library does not stall streams: it measures without a stall, and USED reads false.
            STALL_ARM if state.stage != Stage::Ready => {
                return Err(Error::bad_param(format!(
                    "the {KIND} was started already, so it cannot be armed"
                )));
            }
            STALL_ARM | STALL_RELEASE => {
                incoming.flag()?;
                state.bound()?;
            }
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    /// Waits for the work and stores its time.
    pub fn finalize(&self) -> Result<()> {
        let mut state = self.0.lock();
        match state.stage {
            Stage::Finalized(_) => return Err(Error::bad_param(format!("the {KIND} is finalized already"))),
            Stage::Stopped => {}
            _ => {
                return Err(Error::bad_param(format!(
                    "the {KIND} was not started and stopped, so it has no time"
                )));
            }
        }
        let elapsed = state.bound()?.clock.elapsed()?;
        state.stage = Stage::Finalized(elapsed);
        Ok(())
    }

    /// Gets an attribute of a finalized measurement.
    pub fn get(&self, outgoing: &Outgoing) -> Result<()> {
        let Stage::Finalized(milliseconds) = self.0.lock().stage else {
            return Err(Error::not_initialized(format!(
                "the {KIND} is not finalized, and its attributes can be read only then"
            )));
        };
        match outgoing.name() {
            ELAPSED_MS => outgoing.one(Type::HIPDNN_TYPE_FLOAT, milliseconds),
            STALL_TIMED_OUT | STALL_USED => outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, 0_u8),
            other => Err(unknown(KIND, other, "read")),
        }
    }
}
