//! Whether a stream could be captured into a graph while a plan is executed.
//!
//! The emulated device has no graphs. This checks HIP's requirements for captures: all work is put on the stream, and nothing
//! waits, allocates or loads, neither in the engines nor in AMD's libraries.

use std::ffi::{c_int, c_void};
use std::path::Path;

use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::hip::Hip;

use super::{Check, below, failing};
use crate::Failure;
use crate::backend::Backend;
use crate::cases::{self, RTC};

function_table! {
    /// The stream functions of the HIP runtime.
    #[expect(non_snake_case, reason = "the names of HIP")]
    struct Streams: "the HIP runtime", ["libamdhip64.so.7", "libamdhip64.so.6"] {
        required {
            fn hipStreamCreate(stream: *mut *mut c_void) -> c_int;
            fn hipStreamDestroy(stream: *mut c_void) -> c_int;
        }
        optional {}
    }
}

/// A stream, destroyed on drop.
pub struct Stream {
    functions: Streams,
    /// The stream.
    pub stream: *mut c_void,
}

impl Stream {
    /// A new one.
    ///
    /// # Errors
    /// HIP's.
    pub fn new(hip: &'static Hip) -> Result<Self, Failure> {
        let functions =
            Streams::load_from(&[hip.library().name()]).map_err(|error| Failure(error.to_string()))?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: the function writes only to the local `stream`.
        hip.check("hipStreamCreate", unsafe { (functions.hipStreamCreate)(&mut stream) })?;
        Ok(Self { functions, stream })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: this owns the stream, and its work is done.
        unsafe { (self.functions.hipStreamDestroy)(self.stream) };
    }
}

/// A check for each kind of step of each engine.
pub fn checks() -> Vec<Check> {
    let check = |(engine, name): (&'static str, &'static str)| -> Check {
        let check = move |library: &Path, hip| capturable(library, hip, engine, name);
        (format!("a later execution on a stream: {engine}: {name}"), Box::new(check))
    };
    failing::subjects().map(check).collect()
}

fn capturable(library: &Path, hip: &'static Hip, engine: &str, name: &str) -> Result<String, Failure> {
    let case = cases::named(engine, name)?;
    let stream = Stream::new(hip)?;
    let backend = Backend::open(library)?;
    // SAFETY: the stream outlives the handle.
    unsafe { backend.set_stream(stream.stream) }?;
    let watched = |work: &dyn Fn() -> Result<(), Failure>| {
        below::watch(stream.stream);
        let done = work();
        let seen = below::take();
        done.map(|()| seen)
    };
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    let run = || case.run_plan(&backend, Gpu::Hip(hip), &plan).map(drop);
    // The first execution at least loads kernels.
    let first = watched(&run)?;
    let seen = watched(&run)?;
    if engine != RTC && seen.work == 0 {
        return Err(Failure("an execution puts no work on the stream".to_owned()));
    }
    if let Some(name) = seen.others.first() {
        return Err(Failure(format!(
            "an execution calls {name}, expected work on the stream alone; all such calls: {:?}",
            seen.others
        )));
    }
    Ok(format!("{} pieces of work below the engine; {} other calls at first", seen.work, first.others.len()))
}
