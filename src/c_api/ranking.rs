//! Measured rankings of engines.

use super::guard::{guard, require};
use crate::descriptor::Descriptor;
use crate::ffi::{
    hipdnnAutotuneCacheWriteOutcome_ext_t as Outcome, hipdnnBackendDescriptor_t, hipdnnHandle_t, raw,
};
use crate::policies;
use crate::selection::{Record, Stored};
use crate::status::{Error, Result};
use crate::{handle as handles, log};

/// More engines than any process has: a larger count is a mistake, and reading that far would be unsafe.
const MAX_ENGINES: usize = 1 << 16;

/// Stores on disk which engines are best for a graph on this thread's device. From then on the policy
/// SelectionHeuristic::Config offers engines in this order, in every process, for every graph that computes the same.
///
/// The call succeeds even if the ranking is not stored: the outcome says what happened, the log why.
///
/// @param[in] handle The handle.
/// @param[in] graphDescriptor The operation graph.
/// @param[in] engineIdsInRankOrder The ids of all engines that can run the graph, best first, each once. An incomplete
///     ranking is not used.
/// @param[in] engineIdCount How many ids there are.
/// @param[out] outcome Null, or receives what happened: HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN; _UNCHANGED when the ranking,
///     or one of more engines, is already stored; _DECLINED_NO_ENGINES when `engineIdCount` is 0;
///     _DECLINED_UNKEYABLE_OR_UNFINALIZED when the graph is not finalized; _DECLINED_DISABLED when rankings are switched off or
///     the file cannot be used.
///
/// @return HIPDNN_STATUS_SUCCESS;
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `handle` or `graphDescriptor` is null, or the array when there are ids;
///     HIPDNN_STATUS_BAD_PARAM when `handle` is not a live handle, `graphDescriptor` not a live operation graph, an id occurs
///     twice, or `engineIdCount` is beyond reason.
///
/// # Safety
/// `engineIdsInRankOrder` is null or holds `engineIdCount` ids, `outcome` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendWriteEngineRankingResults_ext(
    handle: hipdnnHandle_t,
    graphDescriptor: hipdnnBackendDescriptor_t,
    engineIdsInRankOrder: *const i64,
    engineIdCount: usize,
    outcome: *mut raw::hipdnnAutotuneCacheWriteOutcome_ext_t,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!("handle={handle:p}, graphDescriptor={graphDescriptor:p}, engineIdCount={engineIdCount}")
    };
    guard("hipdnnBackendWriteEngineRankingResults_ext", describe, || {
        require!(handle);
        require!(graphDescriptor);
        // SAFETY: the array is null or holds as many ids as stated, and `outcome` is null or writable, as this function requires.
        unsafe {
            let engines = read_ids(engineIdsInRankOrder, engineIdCount);
            store(handle, graphDescriptor, engines.map(|engines| Record::new(&engines, &[])), outcome)
        }
    })
}

/// Stores on disk which engines are best for a graph on this thread's device, as hipdnnBackendWriteEngineRankingResults_ext does,
/// and how long each one took. From then on these times are the predictions of the engines with their default knobs.
///
/// @param[in] handle The handle.
/// @param[in] graphDescriptor The operation graph.
/// @param[in] engineIdsInRankOrder The ids of all engines that can run the graph, best first, each once.
/// @param[in] milliseconds The time of each of them with its default knobs; 0 where it is not known.
/// @param[in] engineIdCount How many ids, and how many times, there are.
/// @param[out] outcome As for hipdnnBackendWriteEngineRankingResults_ext. Times that differ by less than a tenth from those that are
///     stored are UNCHANGED.
///
/// @return As hipdnnBackendWriteEngineRankingResults_ext; also
///     HIPDNN_STATUS_BAD_PARAM_NULL_POINTER when `milliseconds` is null and there are ids;
///     HIPDNN_STATUS_BAD_PARAM when a time is negative or no number.
///
/// # Safety
/// `engineIdsInRankOrder` and `milliseconds` are null or hold `engineIdCount` elements, `outcome` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnBackendWriteEngineTimes_ext(
    handle: hipdnnHandle_t,
    graphDescriptor: hipdnnBackendDescriptor_t,
    engineIdsInRankOrder: *const i64,
    milliseconds: *const f64,
    engineIdCount: usize,
    outcome: *mut raw::hipdnnAutotuneCacheWriteOutcome_ext_t,
) -> raw::hipdnnStatus_t {
    let describe = move || {
        format!("handle={handle:p}, graphDescriptor={graphDescriptor:p}, engineIdCount={engineIdCount}")
    };
    guard("hipdnnBackendWriteEngineTimes_ext", describe, || {
        require!(handle);
        require!(graphDescriptor);
        // SAFETY: the arrays are null or have as many elements as stated, and `outcome` is null or writable, as this function
        // requires. `read_ids` refuses counts beyond reason.
        unsafe {
            let measured = read_ids(engineIdsInRankOrder, engineIdCount)
                .and_then(|engines| Ok(Record::new(&engines, &read_times(milliseconds, engines.len())?)));
            store(handle, graphDescriptor, measured, outcome)
        }
    })
}

/// # Safety
/// `outcome` is null or writable.
unsafe fn store(
    handle: hipdnnHandle_t,
    graph: hipdnnBackendDescriptor_t,
    measured: Result<Record>,
    outcome: *mut raw::hipdnnAutotuneCacheWriteOutcome_ext_t,
) -> Result<()> {
    let session = handles::session(handle.addr())?;
    let graph = Descriptor::with(graph.addr(), Descriptor::finalized_graph)?;
    let measured = measured?;
    let result = match graph {
        _ if measured.is_empty() => Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES,
        None => Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED,
        Some(graph) => match policies::store_ranking(&session, &graph, &measured) {
            Some(Ok(Stored::Written)) => Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN,
            Some(Ok(Stored::Unchanged)) => Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED,
            Some(Err(reason)) => {
                log::warn(|| format!("the ranking is not stored: {reason}"));
                Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED
            }
            None => Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED,
        },
    };
    if !outcome.is_null() {
        // SAFETY: `outcome` is not null here, and this function requires that it is writable otherwise.
        unsafe { outcome.write_unaligned(result as _) };
    }
    Ok(())
}

/// # Safety
/// `times` is null or holds `count` numbers.
unsafe fn read_times(times: *const f64, count: usize) -> Result<Vec<f64>> {
    if count > 0 && times.is_null() {
        return Err(Error::null_pointer(format!("milliseconds is null, expected {count} times")));
    }
    // SAFETY: `times` is not null here, and this function requires that it holds `count` numbers.
    let times: Vec<f64> = (0..count).map(|i| unsafe { times.add(i).read_unaligned() }).collect();
    match times.iter().find(|time| !time.is_finite() || time.is_sign_negative()) {
        Some(time) => Err(Error::bad_param(format!("milliseconds has {time}, expected 0 or more"))),
        None => Ok(times),
    }
}

/// # Safety
/// `ids` is null or holds `count` ids.
unsafe fn read_ids(ids: *const i64, count: usize) -> Result<Vec<i64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if ids.is_null() {
        return Err(Error::null_pointer(format!("engineIdsInRankOrder is null, expected {count} ids")));
    }
    if count > MAX_ENGINES {
        return Err(Error::bad_param(format!("engineIdCount is {count}, expected at most {MAX_ENGINES}")));
    }
    // SAFETY: the array holds as many ids.
    let ids: Vec<i64> = (0..count).map(|i| unsafe { ids.add(i).read_unaligned() }).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    match sorted.array_windows().find(|[a, b]| a == b) {
        Some([id, _]) => Err(Error::bad_param(format!("engineIdsInRankOrder has {id} twice"))),
        None => Ok(ids),
    }
}
