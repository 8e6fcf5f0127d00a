//! Makes each call of a library fail in turn.

use std::path::Path;

use hipdnn_plugin_sdk::gpu::Gpu;

use crate::backend::Backend;
use crate::case::Case;
use crate::cases::{self, HIPBLASLT, RTC};
use crate::gate::{self, Fail};
use crate::{Failure, engine_for};

/// The backend's status of a plugin that failed.
const PLUGIN_ERROR: &str = "status 14:";

/// The backend's message if an engine does not apply.
pub const DOES_NOT_APPLY: &str = "Engine id is not in a valid range";

/// An upper limit for the calls of a case.
const MOST: usize = 1000;

/// A case, with the calls that may fail without affecting the result.
pub struct Subject {
    /// The engine of the case.
    pub engine: &'static str,
    /// The name of the case.
    pub case: &'static str,
    /// For how many of the first calls to create new handles, so that opening the device is included. MIOpen takes long for that.
    pub opening: usize,
    /// Functions for which the engine has an alternative.
    pub spared: &'static [&'static str],
}

impl Subject {
    /// A case in which every call must succeed.
    pub const fn of(engine: &'static str, case: &'static str) -> Self {
        Self { engine, case, opening: 0, spared: &[] }
    }
}

/// Makes each call of a case fail in turn, or one part of several.
///
/// # Errors
/// The call, and the failed check.
pub fn every_call(
    library: &Path,
    gpu: Gpu,
    subject: &Subject,
    (part, parts): (usize, usize),
) -> Result<String, Failure> {
    let mut case = cases::named(subject.engine, subject.case)?;
    let engine = engine_for(gpu, subject.engine)
        .ok_or_else(|| Failure(format!("{} is not an engine for this device", subject.engine)))?;
    // A chain without a fused kernel is computed in another way.
    case.workspace_limit = None;
    let knobs = case.knobs.clone();
    let open = || Ok::<_, Failure>([Backend::open(library)?, Backend::open(library)?]);
    let mut limit = 1_000_000_000;
    let mut fail = |handles: &[Backend; 2], number| {
        // With another workspace limit, the engine has nothing cached for the problem.
        limit += 1;
        case.knobs.clone_from(&knobs);
        if subject.engine.starts_with("MIOPEN") {
            case.knobs = vec![("global.workspace_size_limit", limit), ("miopen.find_mode", 1)];
        } else if subject.engine != RTC {
            case.knobs.push(("global.workspace_size_limit", limit));
        }
        gate::record(engine, Fail::Call(number));
        let results = twice(handles, gpu, engine, &case);
        let record = gate::take();
        let (results, lines) = results?;
        match record.failed {
            Some(failed) => judge(subject, (number, failed), &record, results, &lines)
                .map(|()| true)
                .map_err(|failure| Failure(format!("call {number}, {failed}: {failure}"))),
            None => results.0.map(|()| false),
        }
    };
    let is_mine = |number: &usize| number % parts == part;
    for number in (0..subject.opening).filter(is_mine) {
        fail(&open()?, number)?;
    }
    let opened = open()?;
    // Make sure that the device is open.
    fail(&opened, usize::MAX)?;
    for number in (0..MOST).filter(is_mine) {
        if !fail(&opened, number)? {
            let of = if parts > 1 { format!(" of part {} of {parts}", part + 1) } else { String::new() };
            return Ok(format!("{} calls{of}", number / parts + subject.opening.div_ceil(parts)));
        }
    }
    Err(Failure(format!("there are more than {MOST} calls")))
}

/// The results of a run, and of a second one with the same handles if the first failed.
type Results = (Result<(), Failure>, Result<(), Failure>);

/// Runs twice, and collects the log.
fn twice(
    [backend, loader]: &[Backend; 2],
    gpu: Gpu,
    engine: &str,
    case: &Case,
) -> Result<(Results, Vec<String>), Failure> {
    backend.logged(|| {
        let run = || case.run(backend, loader, gpu, engine).map(drop);
        let first = run();
        let second = if first.is_err() { run() } else { Ok(()) };
        (first, second)
    })
}

/// Whether a log line says that another engine does not apply because this function failed.
fn is_of_another(line: &str, engine: &str, failed: &str) -> bool {
    let said = line.split_once(&format!("{} failed with", failed.trim_end_matches("_v2")));
    let is_engines =
        |before: &str| ["_ENGINE: ", "_ENGINE_DETERMINISTIC: "].iter().any(|name| before.contains(name));
    said.is_some_and(|(before, _)| is_engines(before) && !before.contains(&format!("{engine}: ")))
}

fn judge(
    subject: &Subject,
    (number, failed): (usize, &str),
    record: &gate::Record,
    (first, second): Results,
    lines: &[String],
) -> Result<(), Failure> {
    let next = record.calls.get(number + 1);
    match first {
        // Failures while destroying are ignored.
        Ok(()) if gate::ends(failed) || subject.spared.contains(&failed) => {}
        // The thread keeps the context that it should have popped, which is the same one.
        Ok(()) if failed == "cuCtxPopCurrent_v2" => {}
        // Objects are destroyed in the thread's context, which is the same one.
        Ok(()) if failed.starts_with("cuCtx") && next.is_some_and(|next| gate::ends(next.name)) => {}
        // Without an answer, the stream counts as not captured, or gets memory shared by all streams.
        Ok(()) if failed.ends_with("StreamIsCapturing") || failed == "cuStreamGetId" => {}
        // Without an answer, notes do not tell how dot products are divided.
        Ok(()) if failed == "cublasLtMatmulAlgoConfigGetAttribute" => {}
        // With an unchanged mode, a later call fails if the mode forbids it.
        Ok(()) if failed.ends_with("ThreadExchangeStreamCaptureMode") => {}
        // The engine does not apply then, which is visible only if it was the one asked.
        Ok(()) | Err(_) if failed.ends_with("GetDeviceCount") => {}
        // Another engine of the plugin was being asked, and does not apply.
        Ok(()) if lines.iter().any(|line| is_of_another(line, subject.engine, failed)) => {}
        Ok(()) => return Err(Failure("the engine takes no notice".to_owned())),
        // An address that cannot be looked up is not the device's.
        Err(Failure(words)) if failed == "cuPointerGetAttributes" => {
            if !words.contains("cannot reach, expected its memory") {
                return Err(Failure(format!("{words:?}, expected that the device cannot reach the address")));
            }
        }
        Err(Failure(words)) => {
            let own = match record.words.as_deref() {
                // hipBLASLt has no texts.
                _ if failed.starts_with("hipblas") => "HIPBLAS_STATUS_INTERNAL_ERROR",
                words => words.unwrap_or("words of the library"),
            };
            let function = failed.trim_end_matches("R0600").trim_end_matches("_v2");
            // If a call fails while an engine looks for kernels, it does not apply and logs that, unless it falls back to another
            // library.
            let is_refused = words.contains(DOES_NOT_APPLY);
            let is_logged = |expected: &str| lines.iter().any(|line| line.contains(expected));
            for expected in [PLUGIN_ERROR, &format!("{function} failed with"), own] {
                let is_said = if is_refused {
                    subject.engine == HIPBLASLT || expected == PLUGIN_ERROR || is_logged(expected)
                } else {
                    words.contains(expected)
                };
                if !is_said {
                    return Err(Failure(format!("{words:?}, expected {expected:?} in it")));
                }
            }
        }
    }
    second.map_err(|Failure(words)| Failure(format!("the next run fails, too: {words}")))?;
    // Objects of the handles stay alive.
    nothing_left(record, OPENED)
}

/// The functions whose objects handles keep after opening a device, or the process keeps of NVIDIA's libraries.
pub const OPENED: &[&str] = &[
    "miopenCreateWithStream",
    "hipblasLtCreate",
    "rocblas_create_handle",
    "cudnnCreate",
    "cublasLtCreate",
    gate::PLAN,
];

/// Checks that all recorded objects are destroyed, and none twice.
pub fn nothing_left(record: &gate::Record, but: &[&str]) -> Result<(), Failure> {
    if let Some(name) = record.strangers.first() {
        return Err(Failure(format!("{name} ended something that was not alive")));
    }
    match record.alive.values().find(|name| !but.contains(*name)) {
        Some(name) => Err(Failure(format!("what {name} made is not ended"))),
        None => Ok(()),
    }
}

/// Checks that no stream was set: MIOpen's handles start with the default one.
pub fn no_new_stream(record: &gate::Record) -> Result<(), Failure> {
    match record.calls.iter().find(|call| call.name.contains("SetStream") && call.name != "cudnnSetStream") {
        Some(call) => Err(Failure(format!("{} is called, and the stream is as it was", call.name))),
        None => Ok(()),
    }
}
