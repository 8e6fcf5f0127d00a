//! A handle: the plugins of a library, their engines, the policies.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::backend::text_of;
use crate::constants::{
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED, HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES,
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED, HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED,
    HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN,
};
use crate::error::{Error, Result};
use crate::functions::{RawHandle, Status};
use crate::{Backend, OperationGraph};

/// A text that is longer is not believed.
const LONGEST: usize = 1 << 20;

/// A `hipdnnHandle_t`, destroyed when it is dropped.
pub struct Handle {
    backend: Backend,
    raw: RawHandle,
}

// SAFETY: a handle is a number to the library and bound to no thread. Its stream is set by one thread at a time, because this type is not
// `Sync`.
unsafe impl Send for Handle {}

/// What a library says of an engine.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EngineInfo {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: i64,
    /// The name of its plugin.
    pub plugin: String,
    /// The version of its plugin.
    pub version: String,
    /// The kind of its plugin.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What a library says of a heuristic policy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PolicyInfo {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: i64,
    /// The name of its plugin.
    pub plugin: String,
    /// The version of its plugin.
    pub version: String,
    /// The version of the interface that its plugin speaks.
    pub api_version: String,
}

/// What came of a ranking that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingOutcome {
    /// It was written.
    Written,
    /// The same is there already.
    Unchanged,
    /// The cache is switched off.
    Disabled,
    /// The graph cannot be recognized again.
    Unkeyable,
    /// There was no engine in it.
    NoEngines,
    /// A number that has no name.
    Unknown(c_int),
}

impl Handle {
    /// A new handle, which loads the plugins.
    pub fn new(backend: &Backend) -> Result<Self> {
        let create = backend.functions.hipdnnCreate()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the output is valid.
        backend.check("creating a handle", unsafe { create(&raw mut raw) })?;
        Ok(Self { backend: backend.clone(), raw })
    }

    /// What C calls it.
    pub fn raw(&self) -> RawHandle {
        self.raw
    }

    /// The library it is of.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Sets the stream of a device that executions are put on; null is its default stream.
    ///
    /// # Safety
    /// The stream lives as long as executions with this handle.
    pub unsafe fn set_stream(&self, stream: *mut c_void) -> Result<()> {
        let set = self.backend.functions.hipdnnSetStream()?;
        // SAFETY: the handle is alive, and the caller vouches for the stream.
        self.backend.check("setting the stream", unsafe { set(self.raw, stream) })
    }

    /// Every engine that is loaded, in the library's order.
    pub fn engines(&self) -> Result<Vec<EngineInfo>> {
        let functions = &self.backend.functions;
        let (count_of, info) = (functions.hipdnnGetEngineCount_ext()?, functions.hipdnnGetEngineInfo_ext()?);
        let mut count = 0;
        // SAFETY: the handle is alive and the output valid.
        self.backend.check("counting engines", unsafe { count_of(self.raw, &raw mut count) })?;
        (0..count)
            .map(|index| {
                let mut id = 0;
                let [name, plugin, version, kind] = self.texts("describing an engine", |[a, b, c, d]| {
                    // SAFETY: the handle is alive, the texts have the room that their lengths say.
                    unsafe { info(self.raw, index, &raw mut id, a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1) }
                })?;
                Ok(EngineInfo { name, id, plugin, version, kind })
            })
            .collect()
    }

    /// Every heuristic policy, in the library's order.
    pub fn policies(&self) -> Result<Vec<PolicyInfo>> {
        let functions = &self.backend.functions;
        let count_of = functions.hipdnnGetHeuristicPolicyCount_ext()?;
        let info = functions.hipdnnGetHeuristicPolicyInfo_ext()?;
        let mut count = 0;
        // SAFETY: the handle is alive and the output valid.
        self.backend.check("counting policies", unsafe { count_of(self.raw, &raw mut count) })?;
        (0..count)
            .map(|index| {
                let mut id = 0;
                let [name, plugin, version, api_version] =
                    self.texts("describing a policy", |[a, b, c, d]| {
                        // SAFETY: the handle is alive, the texts have the room that their lengths say.
                        unsafe { info(self.raw, index, &raw mut id, a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1) }
                    })?;
                Ok(PolicyInfo { name, id, plugin, version, api_version })
            })
            .collect()
    }

    /// Four texts from a function that is called twice: for their lengths, and for themselves.
    fn texts(
        &self,
        what: &str,
        mut call: impl FnMut([(*mut c_char, *mut usize); 4]) -> Status,
    ) -> Result<[String; 4]> {
        let mut lengths = [0_usize; 4];
        let status = call(lengths.each_mut().map(|length| (ptr::null_mut(), ptr::from_mut(length))));
        self.backend.check(what, status)?;
        if let Some(length) = lengths.iter().find(|length| **length > LONGEST) {
            return Err(Error::answer(format!("{what}: a text is said to have {length} bytes")));
        }
        let mut texts = lengths.map(|length| vec![0_u8; length.max(1)]);
        let [a, b, c, d] = &mut texts;
        let [la, lb, lc, ld] = &mut lengths;
        let status = call(
            [(a, la), (b, lb), (c, lc), (d, ld)]
                .map(|(text, length)| (text.as_mut_ptr().cast::<c_char>(), ptr::from_mut(length))),
        );
        self.backend.check(what, status)?;
        Ok(texts.each_ref().map(|text| text_of(text)))
    }

    /// Hands over which engines are best for a graph, best first.
    pub fn write_ranking(&self, graph: &OperationGraph, best_first: &[i64]) -> Result<RankingOutcome> {
        let write = self.backend.functions.hipdnnBackendWriteEngineRankingResults_ext()?;
        let mut outcome = 0;
        // SAFETY: handle and graph are alive, the array has the number of ids that is given.
        let status = unsafe {
            write(self.raw, graph.descriptor().raw(), best_first.as_ptr(), best_first.len(), &raw mut outcome)
        };
        self.backend.check("writing the ranking", status)?;
        Ok(match outcome {
            HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN => RankingOutcome::Written,
            HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED => RankingOutcome::Unchanged,
            HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED => RankingOutcome::Disabled,
            HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED => RankingOutcome::Unkeyable,
            HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES => RankingOutcome::NoEngines,
            other => RankingOutcome::Unknown(other),
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Ok(destroy) = self.backend.functions.hipdnnDestroy() {
            // SAFETY: the handle is ours, and this is its last use.
            unsafe { destroy(self.raw) };
        }
    }
}
