//! Each call of a library made to fail in turn.

use std::path::Path;

use hipdnn_plugin_sdk::gpu::Gpu;

use crate::backend::Backend;
use crate::case::Case;
use crate::cases::{self, HIPBLASLT, RTC};
use crate::gate::{self, Fail};
use crate::{Failure, engine_for};

/// The backend's status of a plugin that failed.
const PLUGIN_ERROR: &str = "status 14:";

/// The backend's words where an engine does not apply.
pub const DOES_NOT_APPLY: &str = "Engine id is not in a valid range";

/// More calls than any case makes.
const MOST: usize = 1000;

/// A case with what may fail without harm to the result.
pub struct Subject {
    /// The engine that the case is of.
    pub engine: &'static str,
    /// The name of the case.
    pub case: &'static str,
    /// How many of the first calls fail with handles that are new for each, so that opening the device is among them. That takes
    /// MIOpen long.
    pub opening: usize,
    /// What the engine has another way for.
    pub spared: &'static [&'static str],
}

impl Subject {
    /// A case whose every call has to succeed.
    pub const fn of(engine: &'static str, case: &'static str) -> Self {
        Self { engine, case, opening: 0, spared: &[] }
    }
}

/// Makes each call of a case fail in turn, or a part of so many of them.
///
/// # Errors
/// The call, and what is wrong after it failed.
pub fn every_call(
    library: &Path,
    gpu: Gpu,
    subject: &Subject,
    (part, parts): (usize, usize),
) -> Result<String, Failure> {
    let mut case = cases::named(subject.engine, subject.case)?;
    let engine = engine_for(gpu, subject.engine)
        .ok_or_else(|| Failure(format!("{} is no engine for this device", subject.engine)))?;
    // A chain is computed in another way where no kernel for it is found.
    case.workspace_limit = None;
    let knobs = case.knobs.clone();
    let open = || Ok::<_, Failure>([Backend::open(library)?, Backend::open(library)?]);
    let mut limit = 1_000_000_000;
    let mut fail = |handles: &[Backend; 2], number| {
        // Another limit of the workspace is another problem to the engine, for which it has found nothing yet.
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
    // The device is opened now at the latest.
    fail(&opened, usize::MAX)?;
    for number in (0..MOST).filter(is_mine) {
        if !fail(&opened, number)? {
            let of = if parts > 1 { format!(" of part {} of {parts}", part + 1) } else { String::new() };
            return Ok(format!("{} calls{of}", number / parts + subject.opening.div_ceil(parts)));
        }
    }
    Err(Failure(format!("there are more than {MOST} calls")))
}

/// The results of a run, and of another one with the same handles where the first failed.
type Results = (Result<(), Failure>, Result<(), Failure>);

/// With what was logged meanwhile.
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

/// Whether a line of the log says of another engine that it does not apply since this function failed.
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
        // Where something cannot be ended, nothing is left to do.
        Ok(()) if gate::ends(failed) || subject.spared.contains(&failed) => {}
        // The thread goes on with the context that it should have left, which is the same.
        Ok(()) if failed == "cuCtxPopCurrent_v2" => {}
        // What is ended is ended in the context that the thread has, which is the same.
        Ok(()) if failed.starts_with("cuCtx") && next.is_some_and(|next| gate::ends(next.name)) => {}
        // Who cannot say is not captured, or gets memory that is for all streams.
        Ok(()) if failed.ends_with("StreamIsCapturing") || failed == "cuStreamGetId" => {}
        // With the mode as it is, a call fails where the mode forbids it.
        Ok(()) if failed.ends_with("ThreadExchangeStreamCaptureMode") => {}
        // The engine does not apply then, which shows only where it is the one that is asked.
        Ok(()) | Err(_) if failed.ends_with("GetDeviceCount") => {}
        // Another engine of the plugin was asked just then, and does not apply.
        Ok(()) if lines.iter().any(|line| is_of_another(line, subject.engine, failed)) => {}
        Ok(()) => return Err(Failure("the engine takes no notice".to_owned())),
        // An address that cannot be looked up is none of the device's.
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
            // What fails while an engine asks its libraries whether they have kernels is why it does not apply, and is logged, but
            // where the engine went on to another library.
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
    // The handles go on with what they opened.
    nothing_left(record, OPENED)
}

/// What handles of the library make when they open a device, and keep, and what the process keeps of NVIDIA's libraries.
pub const OPENED: &[&str] = &[
    "miopenCreateWithStream",
    "hipblasLtCreate",
    "rocblas_create_handle",
    "cudnnCreate",
    "cublasLtCreate",
    gate::PLAN,
];

/// That nothing is left of what was made since calls are written down, and nothing was ended twice.
pub fn nothing_left(record: &gate::Record, but: &[&str]) -> Result<(), Failure> {
    if let Some(name) = record.strangers.first() {
        return Err(Failure(format!("{name} ended something that was not alive")));
    }
    match record.alive.values().find(|name| !but.contains(*name)) {
        Some(name) => Err(Failure(format!("what {name} made is not ended"))),
        None => Ok(()),
    }
}

/// That no stream was set: MIOpen's handles have the default one from the beginning.
pub fn no_new_stream(record: &gate::Record) -> Result<(), Failure> {
    match record.calls.iter().find(|call| call.name.contains("SetStream") && call.name != "cudnnSetStream") {
        Some(call) => Err(Failure(format!("{} is called, and the stream is as it was", call.name))),
        None => Ok(()),
    }
}
