//! Callbacks for a tuning plugin during its search.
//!
//! A search runs on a thread of its own, and its measurements on the thread that waits for it. So the host can go on without a
//! search that does not return when the budget is spent: from then on its calls find nothing. The plugin gets a number, not an
//! address, so that a call from another thread, or after the search, finds nothing and accesses nothing.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_BAD_PARAM, HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE,
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED, HIPDNN_PLUGIN_STATUS_SUCCESS, hipdnnPluginConstData_t,
    hipdnnPluginStatus_t,
};
use hipdnn_plugin_sdk::wire;

use super::convert;
use super::ffi::types::{hipdnnTuningHost_t, hipdnnTuningMeasurement_t, hipdnnTuningProblem_t};
use super::problem::{Candidate, Configuration, Measure, Outcome, Problem};

/// The stack of a search's thread, as large as a main thread's by default.
const STACK: usize = 8 << 20;

/// The least time that a search has to return once the budget is spent.
const LEAST_GRACE: Duration = Duration::from_millis(200);

/// How long each further call of a search takes that goes on without the host, so that it keeps no processor busy.
const DELAY: Duration = Duration::from_millis(100);

/// What a search tells the host.
enum Message {
    Measure(Configuration, u32),
    Ranked(Vec<usize>),
    Returned(hipdnnPluginStatus_t),
}

/// What the host answers to a measurement: the outcome, and what is left of the budget in nanoseconds.
type Reply = (Outcome, u64);

/// A search of this thread.
struct Search {
    token: usize,
    candidates: Vec<Candidate>,
    messages: Sender<Message>,
    replies: Receiver<Reply>,
    /// The numbers of measured configurations.
    measured: Vec<usize>,
    /// Whether the host went on without it.
    is_alone: bool,
}

impl Search {
    fn ask(&self, configuration: Configuration, runs: u32) -> Option<Reply> {
        self.messages.send(Message::Measure(configuration, runs)).ok()?;
        self.replies.recv().ok()
    }
}

thread_local! {
    /// Empty outside of a search.
    static SEARCH: RefCell<Option<Search>> = const { RefCell::new(None) };
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How a plugin's search ended.
pub struct Ended {
    /// The last ranking that it gave.
    pub ranking: Option<Vec<usize>>,
    /// Its status; none if it went on past its budget.
    pub status: Option<hipdnnPluginStatus_t>,
}

/// Runs a plugin's search until it returns, or until the budget's end plus the time of the longest measurement.
///
/// # Errors
/// There is no thread for it.
pub fn during(
    problem: &Problem,
    measure: &mut dyn Measure,
    search: impl FnOnce(*const hipdnnTuningProblem_t, *const hipdnnTuningHost_t) -> hipdnnPluginStatus_t
    + Send
    + 'static,
) -> Result<Ended, String> {
    let (messages, from_search) = channel();
    let (to_search, replies) = channel();
    let budget = measure.remaining();
    let problem = problem.clone();
    let thread = std::thread::Builder::new().name("hipdnn tuning".to_owned()).stack_size(STACK);
    // If the host goes on without it, the thread still owns all that its plugin was given.
    let started = thread.spawn(move || {
        let status = run(&problem, budget, messages.clone(), replies, search);
        let _ = messages.send(Message::Returned(status));
    });
    started.map_err(|error| format!("there is no thread for the search: {error}"))?;
    let (mut ranking, mut longest, mut over) = (None, LEAST_GRACE, None);
    loop {
        let patience = match measure.remaining() {
            Duration::ZERO => {
                let since: Instant = *over.get_or_insert_with(Instant::now);
                longest.saturating_sub(since.elapsed())
            }
            remaining => remaining,
        };
        match from_search.recv_timeout(patience) {
            Ok(Message::Returned(status)) => return Ok(Ended { ranking, status: Some(status) }),
            Ok(Message::Ranked(given)) => ranking = Some(given),
            Ok(Message::Measure(..)) if over.is_some_and(|since| since.elapsed() > longest) => {
                return Ok(Ended { ranking, status: None });
            }
            Ok(Message::Measure(configuration, runs)) => {
                let begun = Instant::now();
                let outcome = measure.measure(&configuration, runs);
                longest = longest.max(begun.elapsed());
                // If the search has ended meanwhile, it misses nothing.
                let _ = to_search.send((outcome, nanoseconds(measure.remaining())));
            }
            Err(RecvTimeoutError::Timeout) if over.is_none() => {}
            Err(_) => return Ok(Ended { ranking, status: None }),
        }
    }
}

/// Runs a plugin's search on this thread.
fn run(
    problem: &Problem,
    budget: Duration,
    messages: Sender<Message>,
    replies: Receiver<Reply>,
    search: impl FnOnce(*const hipdnnTuningProblem_t, *const hipdnnTuningHost_t) -> hipdnnPluginStatus_t,
) -> hipdnnPluginStatus_t {
    static TOKENS: AtomicUsize = AtomicUsize::new(1);
    let token = TOKENS.fetch_add(1, Ordering::Relaxed);
    let candidates: Vec<Vec<u8>> =
        problem.candidates.iter().map(|of| wire::write_engine_details(&convert::details(of))).collect();
    let similar: Vec<Vec<u8>> =
        problem.similar.iter().map(|of| wire::write_engine_config(&convert::config(of))).collect();
    let data = |bytes: &Vec<u8>| hipdnnPluginConstData_t { ptr: bytes.as_ptr().cast(), size: bytes.len() };
    let candidate_data: Vec<_> = candidates.iter().map(data).collect();
    let similar_data: Vec<_> = similar.iter().map(data).collect();
    let raw = hipdnnTuningProblem_t {
        size: size_of::<hipdnnTuningProblem_t>(),
        graph: data(&problem.graph),
        device: data(&problem.device),
        candidates: candidate_data.as_ptr(),
        num_candidates: candidate_data.len(),
        similar: similar_data.as_ptr(),
        num_similar: similar_data.len(),
        budget_ns: nanoseconds(budget),
    };
    let host = hipdnnTuningHost_t {
        size: size_of::<hipdnnTuningHost_t>(),
        context: ptr::without_provenance_mut(token),
        measure: Some(self::measure),
        rank: Some(rank),
    };
    let candidates = problem.candidates.clone();
    let own = Search { token, candidates, messages, replies, measured: Vec::new(), is_alone: false };
    SEARCH.set(Some(own));
    let status = catch_unwind(AssertUnwindSafe(|| search(&raw const raw, &raw const host)));
    SEARCH.set(None);
    status.unwrap_or(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR)
}

/// Runs `f` with this thread's search if the token matches, until the host has gone on without it.
fn with(
    context: *mut c_void,
    f: impl FnOnce(&mut Search) -> Option<hipdnnPluginStatus_t>,
) -> hipdnnPluginStatus_t {
    let taken = SEARCH.try_with(|cell| {
        let mut cell = cell.try_borrow_mut().ok()?;
        cell.take_if(|search| search.token == context.addr())
    });
    let Ok(Some(mut search)) = taken else { return HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED };
    let status = if search.is_alone {
        std::thread::sleep(DELAY);
        None
    } else {
        let status = catch_unwind(AssertUnwindSafe(|| f(&mut search)));
        status.unwrap_or(Some(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR))
    };
    search.is_alone = status.is_none();
    SEARCH.set(Some(search));
    status.unwrap_or(HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED)
}

/// `hipdnnTuningHost_t::measure`.
///
/// # Safety
/// `engine_config` is null or bytes with their length, and `measurement` null or writable.
unsafe extern "C" fn measure(
    context: *mut c_void,
    engine_config: *const hipdnnPluginConstData_t,
    num_runs: u32,
    measurement: *mut hipdnnTuningMeasurement_t,
) -> hipdnnPluginStatus_t {
    with(context, |search| {
        if engine_config.is_null() || measurement.is_null() || num_runs == 0 {
            return Some(HIPDNN_PLUGIN_STATUS_BAD_PARAM);
        }
        // SAFETY: the pointer is not null, and the plugin guarantees the struct during the call.
        let data = unsafe { engine_config.read_unaligned() };
        // SAFETY: the plugin guarantees its bytes during the call.
        let bytes = unsafe { bytes_at(&data) };
        let Some(configuration) = bytes.and_then(|bytes| read(bytes, &search.candidates)) else {
            return Some(HIPDNN_PLUGIN_STATUS_BAD_PARAM);
        };
        let (outcome, remaining_ns) = search.ask(configuration, num_runs)?;
        let mut found = hipdnnTuningMeasurement_t { remaining_ns, ..hipdnnTuningMeasurement_t::default() };
        match outcome {
            Outcome::Measured(measured) => {
                search.measured.push(measured.configuration);
                found.configuration = u32::try_from(measured.configuration).unwrap_or(u32::MAX);
                found.num_runs = measured.runs;
                found.time_ns = nanoseconds(measured.time);
            }
            Outcome::Over => {}
            Outcome::Failed(_) => return Some(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE),
        }
        // SAFETY: the pointer is not null, and the plugin guarantees the room.
        unsafe { measurement.write_unaligned(found) };
        Some(HIPDNN_PLUGIN_STATUS_SUCCESS)
    })
}

/// `hipdnnTuningHost_t::rank`.
///
/// # Safety
/// `configurations` is null or has `num_configurations` numbers.
unsafe extern "C" fn rank(
    context: *mut c_void,
    configurations: *const u32,
    num_configurations: usize,
) -> hipdnnPluginStatus_t {
    with(context, |search| {
        if configurations.is_null() || !(1..=search.measured.len()).contains(&num_configurations) {
            return Some(HIPDNN_PLUGIN_STATUS_BAD_PARAM);
        }
        let mut ranking = Vec::new();
        for at in 0..num_configurations {
            // SAFETY: the pointer is not null, and the plugin guarantees this many numbers.
            let number = unsafe { configurations.add(at).read_unaligned() } as usize;
            if ranking.contains(&number) || !search.measured.contains(&number) {
                return Some(HIPDNN_PLUGIN_STATUS_BAD_PARAM);
            }
            ranking.push(number);
        }
        search.messages.send(Message::Ranked(ranking)).ok()?;
        Some(HIPDNN_PLUGIN_STATUS_SUCCESS)
    })
}

/// The bytes that a plugin points to; none if the pointer or size is impossible.
///
/// # Safety
/// A non-null pointer is valid for reads of this many bytes.
unsafe fn bytes_at(data: &hipdnnPluginConstData_t) -> Option<&[u8]> {
    let is_there = !data.ptr.is_null() && isize::try_from(data.size).is_ok();
    // SAFETY: the pointer is not null, so it is valid for this many bytes, which is at most the largest object size.
    is_there.then(|| unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) })
}

/// Reads a configuration: of a candidate, with each knob at most once and a value that it lists.
fn read(bytes: &[u8], candidates: &[Candidate]) -> Option<Configuration> {
    let mut configuration = convert::read(&wire::read_engine_config(bytes).ok()?);
    let candidate = candidates.iter().find(|candidate| candidate.engine == configuration.engine)?;
    let settings = std::mem::take(&mut configuration.knobs);
    let mut ids: Vec<&str> = settings.iter().map(|setting| setting.id.as_str()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair.first() == pair.last()) {
        return None;
    }
    for setting in &settings {
        let tunable = candidate.knobs.iter().find(|tunable| tunable.knob.id == setting.id)?;
        if !convert::takes(tunable, &setting.value) {
            return None;
        }
        configuration = configuration.with(tunable, &setting.value);
    }
    Some(configuration)
}

/// Forwards a plugin's log to this crate's.
///
/// # Safety
/// `text` is null or ends with a NUL.
pub unsafe extern "C" fn log(severity: c_int, text: *const c_char) {
    if text.is_null() {
        return;
    }
    // SAFETY: the pointer is not null, so it is a NUL terminated text.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let level = match severity {
        0 => ::log::Level::Info,
        1 => ::log::Level::Warn,
        _ => ::log::Level::Error,
    };
    // The program's logger may panic, which must not cross into C.
    let _ = catch_unwind(AssertUnwindSafe(|| ::log::log!(target: "hipdnn", level, "{text}")));
}
