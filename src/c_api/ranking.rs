//! Measured rankings of engines.

use super::guard::{guard, require};
use crate::descriptor::Descriptor;
use crate::ffi::{
    hipdnnAutotuneCacheWriteOutcome_ext_t as Outcome, hipdnnBackendDescriptor_t, hipdnnHandle_t, raw,
};
use crate::policies;
use crate::selection::Stored;
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
        let session = handles::session(handle.addr())?;
        let graph = Descriptor::with(graphDescriptor.addr(), Descriptor::finalized_graph)?;
        // SAFETY: the array is null or holds as many ids as stated, as this function requires.
        let engines = unsafe { read_ids(engineIdsInRankOrder, engineIdCount) }?;
        let result = match graph {
            _ if engines.is_empty() => Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES,
            None => Outcome::HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED,
            Some(graph) => match policies::store_ranking(&session, &graph, &engines) {
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
    })
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
