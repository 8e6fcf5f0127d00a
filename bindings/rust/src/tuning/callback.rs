//! Callbacks for a tuning plugin during its search.
//!
//! A search belongs to the thread that runs it. The plugin gets a number, not an address, so that a call from another thread, or
//! after the search, finds nothing and accesses nothing.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_BAD_PARAM, HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE,
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED, HIPDNN_PLUGIN_STATUS_SUCCESS, hipdnnPluginConstData_t,
    hipdnnPluginStatus_t,
};
use hipdnn_plugin_sdk::wire;

use super::convert;
use super::ffi::types::{hipdnnTuningHost_t, hipdnnTuningMeasurement_t, hipdnnTuningProblem_t};
use super::problem::{Candidate, Configuration, Measure, Outcome, Problem};

/// A search of this thread.
struct Search {
    token: usize,
    candidates: *const [Candidate],
    measure: *mut (dyn Measure + 'static),
    /// The numbers of measured configurations.
    measured: Vec<usize>,
    ranking: Option<Vec<usize>>,
}

thread_local! {
    /// Empty outside of a search, and while the host measures.
    static SEARCH: RefCell<Option<Search>> = const { RefCell::new(None) };
}

/// Runs a plugin's search, and returns its ranking and status.
pub fn during(
    problem: &Problem,
    measure: &mut dyn Measure,
    search: impl FnOnce(*const hipdnnTuningProblem_t, *const hipdnnTuningHost_t) -> hipdnnPluginStatus_t,
) -> (Option<Vec<usize>>, hipdnnPluginStatus_t) {
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
        budget_ns: u64::try_from(measure.remaining().as_nanos()).unwrap_or(u64::MAX),
    };
    let host = hipdnnTuningHost_t {
        size: size_of::<hipdnnTuningHost_t>(),
        context: ptr::without_provenance_mut(token),
        measure: Some(self::measure),
        rank: Some(rank),
    };
    // SAFETY: only the lifetime changes. The pointer is used only while this function runs, and removed before it returns.
    let measure =
        unsafe { std::mem::transmute::<*mut (dyn Measure + '_), *mut (dyn Measure + 'static)>(measure) };
    let own = Search {
        token,
        candidates: &raw const *problem.candidates,
        measure,
        measured: Vec::new(),
        ranking: None,
    };
    // Searches cannot be nested within a measurement.
    let outer = SEARCH.replace(Some(own));
    let status = catch_unwind(AssertUnwindSafe(|| search(&raw const raw, &raw const host)));
    let own = SEARCH.replace(outer);
    let ranking = own.and_then(|own| own.ranking);
    (ranking, status.unwrap_or(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR))
}

/// Runs `f` with this thread's search if the token matches. A call from within `f` finds no search.
fn with(context: *mut c_void, f: impl FnOnce(&mut Search) -> hipdnnPluginStatus_t) -> hipdnnPluginStatus_t {
    let taken = SEARCH.try_with(|cell| {
        let mut cell = cell.try_borrow_mut().ok()?;
        cell.take_if(|search| search.token == context.addr())
    });
    let Ok(Some(mut search)) = taken else { return HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED };
    let status = catch_unwind(AssertUnwindSafe(|| f(&mut search)));
    SEARCH.set(Some(search));
    status.unwrap_or(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR)
}

/// `hipdnnTuningHost_t::measure`.
unsafe extern "C" fn measure(
    context: *mut c_void,
    engine_config: *const hipdnnPluginConstData_t,
    num_runs: u32,
    measurement: *mut hipdnnTuningMeasurement_t,
) -> hipdnnPluginStatus_t {
    with(context, |search| {
        if engine_config.is_null() || measurement.is_null() || num_runs == 0 {
            return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
        }
        // SAFETY: the pointer is not null, and the plugin guarantees the struct during the call.
        let data = unsafe { engine_config.read_unaligned() };
        // SAFETY: the plugin guarantees its bytes during the call.
        let bytes = unsafe { bytes_at(&data) };
        // SAFETY: the problem outlives the search, and thus this call.
        let candidates = unsafe { &*search.candidates };
        let Some(configuration) = bytes.and_then(|bytes| read(bytes, candidates)) else {
            return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
        };
        // SAFETY: the pointer comes from `during`, which has not returned, and is not used elsewhere meanwhile.
        let host = unsafe { &mut *search.measure };
        let outcome = host.measure(&configuration, num_runs);
        let remaining_ns = u64::try_from(host.remaining().as_nanos()).unwrap_or(u64::MAX);
        let mut found = hipdnnTuningMeasurement_t { remaining_ns, ..hipdnnTuningMeasurement_t::default() };
        match outcome {
            Outcome::Measured(measured) => {
                search.measured.push(measured.configuration);
                found.configuration = u32::try_from(measured.configuration).unwrap_or(u32::MAX);
                found.num_runs = measured.runs;
                found.time_ns = u64::try_from(measured.time.as_nanos()).unwrap_or(u64::MAX);
            }
            Outcome::Over => {}
            Outcome::Failed(_) => return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE,
        }
        // SAFETY: the pointer is not null, and the plugin guarantees the room.
        unsafe { measurement.write_unaligned(found) };
        HIPDNN_PLUGIN_STATUS_SUCCESS
    })
}

/// `hipdnnTuningHost_t::rank`.
unsafe extern "C" fn rank(
    context: *mut c_void,
    configurations: *const u32,
    num_configurations: usize,
) -> hipdnnPluginStatus_t {
    with(context, |search| {
        if configurations.is_null() || !(1..=search.measured.len()).contains(&num_configurations) {
            return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
        }
        let mut ranking = Vec::new();
        for at in 0..num_configurations {
            // SAFETY: the pointer is not null, and the plugin guarantees this many numbers.
            let number = unsafe { configurations.add(at).read_unaligned() } as usize;
            if ranking.contains(&number) || !search.measured.contains(&number) {
                return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
            }
            ranking.push(number);
        }
        search.ranking = Some(ranking);
        HIPDNN_PLUGIN_STATUS_SUCCESS
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
