//! A handle: the plugins of a library, their engines, the policies.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

use hipdnn_plugin_sdk::engine_kind::{EngineDevice, EngineKind, Implementation};

use crate::backend::text_of;
use crate::constants::{
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED, HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES,
    HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED, HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED,
    HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN,
};
use crate::error::{Error, Result};
use crate::functions::{RawHandle, Status};
use crate::{Backend, OperationGraph};

/// Longer texts are rejected.
const LONGEST: usize = 1 << 20;

/// A `hipdnnHandle_t`, destroyed when it is dropped.
pub struct Handle {
    backend: Backend,
    raw: RawHandle,
}

// SAFETY: the library identifies a handle by a number that is bound to no thread. Only one thread at a time sets its stream, because this
// type is not `Sync`.
unsafe impl Send for Handle {}

/// The library's description of an engine.
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
    /// The type of its plugin.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it computes on, and where its kernels come from.
    #[serde(skip)]
    pub of: EngineKind,
}

impl EngineInfo {
    /// Whether it takes memory of the host.
    pub fn is_of_host(&self) -> bool {
        self.of.device == EngineDevice::Host
    }

    /// Whether it is only for comparison.
    pub fn is_reference(&self) -> bool {
        self.of.implementation == Implementation::Reference
    }

    /// Whether its kernels are generated for each graph.
    pub fn is_generated(&self) -> bool {
        self.of.implementation == Implementation::Generated
    }
}

/// The library's description of a heuristic policy.
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
    /// The interface version of its plugin.
    pub api_version: String,
}

/// The outcome of writing a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingOutcome {
    /// It was written.
    Written,
    /// The same ranking was there already.
    Unchanged,
    /// The cache is disabled.
    Disabled,
    /// The graph cannot be recognized again.
    Unkeyable,
    /// It had no engines.
    NoEngines,
    /// A number without a name.
    Unknown(c_int),
}

impl RankingOutcome {
    fn of(number: c_int) -> Self {
        match number {
            HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN => Self::Written,
            HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED => Self::Unchanged,
            HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED => Self::Disabled,
            HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED => Self::Unkeyable,
            HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES => Self::NoEngines,
            other => Self::Unknown(other),
        }
    }
}

impl Handle {
    /// A new handle, which loads the plugins.
    pub fn new(backend: &Backend) -> Result<Self> {
        let create = backend.functions.hipdnnCreate()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the function writes only to the local `raw`.
        backend.check("creating a handle", unsafe { create(&raw mut raw) })?;
        Ok(Self { backend: backend.clone(), raw })
    }

    /// The C handle.
    pub fn raw(&self) -> RawHandle {
        self.raw
    }

    /// Its library.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Sets the device stream for executions; null is the default stream.
    ///
    /// # Safety
    /// The stream lives as long as executions with this handle.
    pub unsafe fn set_stream(&self, stream: *mut c_void) -> Result<()> {
        let set = self.backend.functions.hipdnnSetStream()?;
        // SAFETY: the handle is alive, and the caller guarantees the stream.
        self.backend.check("setting the stream", unsafe { set(self.raw, stream) })
    }

    /// Every loaded engine, in the library's order.
    pub fn engines(&self) -> Result<Vec<EngineInfo>> {
        let functions = &self.backend.functions;
        let (count_of, info) = (functions.hipdnnGetEngineCount_ext()?, functions.hipdnnGetEngineInfo_ext()?);
        let mut count = 0;
        // SAFETY: the handle lives as long as this object, and the function writes only to the local `count`.
        self.backend.check("counting engines", unsafe { count_of(self.raw, &raw mut count) })?;
        (0..count)
            .map(|index| {
                let mut id = 0;
                let [name, plugin, version, kind] = self.texts("describing an engine", |[a, b, c, d]| {
                    // SAFETY: the handle is alive, and the buffers have the given lengths.
                    unsafe { info(self.raw, index, &raw mut id, a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1) }
                })?;
                let of = self.kind_of(index, &name)?;
                Ok(EngineInfo { name, id, plugin, version, kind, of })
            })
            .collect()
    }

    /// What an engine computes on; for libraries that do not tell, by its name.
    fn kind_of(&self, index: usize, name: &str) -> Result<EngineKind> {
        let Ok(kind) = self.backend.functions.hipdnnGetEngineKind_ext() else {
            return Ok(EngineKind::by_name(name));
        };
        let (mut device, mut implementation) = (0, 0);
        // SAFETY: the handle is alive and the function writes only to the locals `device` and `implementation`.
        let status = unsafe { kind(self.raw, index, &raw mut device, &raw mut implementation) };
        self.backend.check("asking what an engine computes on", status)?;
        Ok(EngineKind::from_numbers(device, implementation))
    }

    /// The files of the engine plugins that are loaded.
    pub fn engine_plugin_paths(&self) -> Result<Vec<PathBuf>> {
        let paths = self.backend.functions.hipdnnGetLoadedEnginePluginPaths_ext()?;
        let (what, mut count, mut length) = ("naming the engine plugins", 0, 0);
        // SAFETY: the handle is alive and the numbers are valid; without buffers only they are written.
        let status = unsafe { paths(self.raw, &raw mut count, ptr::null_mut(), &raw mut length) };
        self.backend.check(what, status)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if length == 0 || length > LONGEST {
            return Err(Error::answer(format!("{what}: a path is said to have {length} bytes")));
        }
        let mut texts = vec![0_u8; count.saturating_mul(length)];
        let mut buffers: Vec<*mut c_char> =
            texts.chunks_exact_mut(length).map(|buffer| buffer.as_mut_ptr().cast()).collect();
        // SAFETY: the handle is alive, and there are as many buffers of that length.
        let status = unsafe { paths(self.raw, &raw mut count, buffers.as_mut_ptr(), &raw mut length) };
        self.backend.check(what, status)?;
        Ok(texts.chunks_exact(length).map(|text| PathBuf::from(text_of(text))).collect())
    }

    /// Every heuristic policy, in the library's order.
    pub fn policies(&self) -> Result<Vec<PolicyInfo>> {
        let functions = &self.backend.functions;
        let count_of = functions.hipdnnGetHeuristicPolicyCount_ext()?;
        let info = functions.hipdnnGetHeuristicPolicyInfo_ext()?;
        let mut count = 0;
        // SAFETY: the handle lives as long as this object, and the function writes only to the local `count`.
        self.backend.check("counting policies", unsafe { count_of(self.raw, &raw mut count) })?;
        (0..count)
            .map(|index| {
                let mut id = 0;
                let [name, plugin, version, api_version] =
                    self.texts("describing a policy", |[a, b, c, d]| {
                        // SAFETY: the handle is alive, and the buffers have the given lengths.
                        unsafe { info(self.raw, index, &raw mut id, a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1) }
                    })?;
                Ok(PolicyInfo { name, id, plugin, version, api_version })
            })
            .collect()
    }

    /// Four texts from a function that is called twice: for their lengths, then for the texts.
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

    /// Records the best engines for a graph, best first.
    pub fn write_ranking(&self, graph: &OperationGraph, best_first: &[i64]) -> Result<RankingOutcome> {
        let write = self.backend.functions.hipdnnBackendWriteEngineRankingResults_ext()?;
        let mut outcome = 0;
        // SAFETY: handle and graph are alive, and the array has the given number of ids.
        let status = unsafe {
            write(self.raw, graph.descriptor().raw(), best_first.as_ptr(), best_first.len(), &raw mut outcome)
        };
        self.backend.check("writing the ranking", status)?;
        Ok(RankingOutcome::of(outcome))
    }

    /// Records the best engines for a graph, best first, and how long each took with its default knobs, as far as that is known.
    /// A library that keeps no times gets the order.
    pub fn write_times(
        &self,
        graph: &OperationGraph,
        best_first: &[(i64, Option<Duration>)],
    ) -> Result<RankingOutcome> {
        let ids: Vec<i64> = best_first.iter().map(|(id, _)| *id).collect();
        let Ok(write) = self.backend.functions.hipdnnBackendWriteEngineTimes_ext() else {
            return self.write_ranking(graph, &ids);
        };
        let ms = |time: &Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let times: Vec<f64> = best_first.iter().map(|(_, time)| ms(time)).collect();
        let mut outcome = 0;
        // SAFETY: handle and graph are alive, and both arrays have the given number of elements.
        let status = unsafe {
            write(
                self.raw,
                graph.descriptor().raw(),
                ids.as_ptr(),
                times.as_ptr(),
                ids.len(),
                &raw mut outcome,
            )
        };
        self.backend.check("writing the times of engines", status)?;
        Ok(RankingOutcome::of(outcome))
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
