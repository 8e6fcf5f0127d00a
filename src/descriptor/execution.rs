//! Execution of plans.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t as DeviceBuffer;
use hipdnn_plugin_sdk::graph::ApiVersion;
use smallvec::SmallVec;

use super::Pack;
use super::frozen_plan::{FrozenPlan, Identity, alignment_bits};
use super::overrides::Overrides;
use super::renaming::Renaming;
use crate::ffi::hipdnnSeverity_t as Severity;
use crate::graph::VerifiedGraph;
use crate::overlap::{self, Clash};
use crate::plugin::{OverrideArrays, Session, check};
use crate::status::{Error, Result};
use crate::{log, trace};

/// How many remarks about a pack are logged.
const MOST_REMARKS: usize = 4;

/// The first plugin interface with override shapes.
const OVERRIDES_SINCE: ApiVersion = ApiVersion::new(1, 1, 0);

impl FrozenPlan {
    /// Passes the plan, whose handle is `own`, and the memory of its tensors to the plugin, with the plugin handle of `session`.
    ///
    /// Returns when the plugin does, possibly before the work is done. Takes no lock and allocates nothing.
    #[inline(always)]
    pub fn execute(&self, own: usize, session: &Session, pack: &Pack) -> Result<()> {
        if log::is_watched(Severity::HIPDNN_SEV_WARN) {
            return self.execute_and_tell(own, session, pack);
        }
        self.run(own, session, pack).map_err(|error| self.with_remarks(error, pack))
    }

    /// The same with log, profile and trace: what ran for how long, and remarks about the pack.
    #[cold]
    fn execute_and_tell(&self, own: usize, session: &Session, pack: &Pack) -> Result<()> {
        let range = trace::ranges::push(|| self.label().title.clone());
        let label = trace::in_place().map(|_| self.label());
        let memory = pack.buffers().iter().map(|buffer| buffer.ptr.cast_const());
        // SAFETY: `hipdnnSetStream` requires that the stream stays alive while the handle has it.
        let launch = label.and_then(|_| unsafe { trace::device::begin(session.stream(), memory) });
        let begin = trace::now();
        let result = self.run(own, session, pack);
        let end = trace::now();
        let taken = end.saturating_sub(begin);
        drop(range);
        if let Some(label) = label {
            if let Some(launch) = launch {
                launch.end(label, begin);
            }
            trace::record(begin, end, trace::Event::Executed(label, result.is_err()));
        }
        let source = self.context.owner();
        log::info(|| {
            let name = source.engine_name();
            let graph =
                source.graph_name().map_or_else(|| "a graph".into(), |name| format!("graph {name:?}"));
            let end = if result.is_ok() { "returned" } else { "failed" };
            format!("execute: {name} ran {graph} and {end} after {:.1} µs", taken as f64 / 1e3)
        });
        match result {
            Ok(()) if !log::is_on(Severity::HIPDNN_SEV_WARN) => Ok(()),
            Ok(()) => {
                let remark = self.remarks(pack);
                if let Some(remark) = remark.filter(|_| !self.has_told.swap(true, Ordering::Relaxed)) {
                    log::warn(|| remark);
                }
                Ok(())
            }
            Err(error) => Err(self.with_remarks(error, pack)),
        }
    }

    /// Appends remarks about the pack to a plugin's error, since they may explain it.
    #[cold]
    fn with_remarks(&self, error: Error, pack: &Pack) -> Error {
        match self.remarks(pack) {
            Some(remark) => Error::new(error.status, format!("{}; {remark}", error.message)),
            None => error,
        }
    }

    /// Bindings of a pack that are probably mistakes but allowed, since engines ignore what they do not need.
    #[cold]
    fn remarks(&self, pack: &Pack) -> Option<String> {
        let tensors: HashMap<i64, bool> =
            self.context.owner().tensors().iter().map(|tensor| (tensor.uid, tensor.is_virtual)).collect();
        let mut seen = HashSet::new();
        let mut remarks = Vec::new();
        for uid in pack.buffers().iter().map(|buffer| buffer.uid) {
            match tensors.get(&uid) {
                _ if !seen.insert(uid) => remarks.push(format!("tensor {uid} twice")),
                None => remarks.push(format!("tensor {uid}, which the graph does not have")),
                Some(true) => remarks.push(format!("tensor {uid}, which is virtual")),
                Some(false) => {}
            }
        }
        let more = remarks.len().saturating_sub(MOST_REMARKS);
        remarks.truncate(MOST_REMARKS);
        if more > 0 {
            remarks.push(format!("{more} more"));
        }
        (!remarks.is_empty()).then(|| format!("the variant pack binds {}", remarks.join(", ")))
    }

    // Always inlined: the use above is the hot one, and the other is cold.
    #[inline(always)]
    fn run(&self, own: usize, session: &Session, pack: &Pack) -> Result<()> {
        if Identity(Arc::as_ptr(session.set())) != self.set {
            return Err(Error::bad_param(
                "the handle has other plugins loaded than those that made the execution plan",
            ));
        }
        let plugin = session.plugin(self.plugin)?;
        let handle = session.plugin_handle(self.plugin)?;
        // Neither the plan nor the pack changes, and no other plan ever has this handle.
        if !pack.is_checked_for(own) {
            self.check_memory(pack)?;
            pack.set_checked_for(own);
        }
        if let Some(renaming) = &self.renaming {
            return self.execute_renamed(session, pack, renaming);
        }
        if let Some(overrides) = pack.overrides() {
            return self.execute_with_overrides(session, pack, pack.buffers(), overrides.arrays());
        }
        let buffers = pack.buffers();
        // SAFETY: handle and context are the plugin's own; the pointers are those of the variant pack, whose memory the program keeps
        // until the work is done, as `hipdnnBackendExecute` requires.
        let status = unsafe {
            plugin.api.execute(
                handle,
                self.context.as_ptr(),
                pack.workspace(),
                buffers.as_ptr(),
                buffers.len() as u32,
            )
        };
        check(&plugin.api, "execute op graph", status)
    }

    /// The same with the context's uids of the tensors.
    #[inline(never)]
    fn execute_renamed(&self, session: &Session, pack: &Pack, renaming: &Renaming) -> Result<()> {
        let buffers = renaming.buffers(pack.buffers());
        let done = match pack.overrides() {
            Some(overrides) => {
                let uids: SmallVec<[i64; 16]> =
                    overrides.uids().iter().map(|uid| renaming.of(*uid)).collect();
                let arrays = OverrideArrays { uids: uids.as_ptr(), ..overrides.arrays() };
                self.execute_with_overrides(session, pack, &buffers, arrays)
            }
            None => {
                let plugin = session.plugin(self.plugin)?;
                let handle = session.plugin_handle(self.plugin)?;
                let count = buffers.len() as u32;
                // SAFETY: handle and context are the plugin's own; the pointers are those of the variant pack, whose memory the program
                // keeps until the work is done, as `hipdnnBackendExecute` requires.
                let status = unsafe {
                    plugin.api.execute(
                        handle,
                        self.context.as_ptr(),
                        pack.workspace(),
                        buffers.as_ptr(),
                        count,
                    )
                };
                check(&plugin.api, "execute op graph", status)
            }
        };
        done.map_err(|error| {
            Error::new(error.status, format!("{}; {}", error.message, renaming.explanation()))
        })
    }

    /// The same with the pack's override shapes.
    #[cold]
    fn execute_with_overrides(
        &self,
        session: &Session,
        pack: &Pack,
        buffers: &[DeviceBuffer],
        overrides: OverrideArrays,
    ) -> Result<()> {
        let plugin = session.plugin(self.plugin)?;
        let handle = session.plugin_handle(self.plugin)?;
        if !self.is_override_shape_enabled() {
            return Err(Error::not_supported(
                "the variant pack overrides shapes, and the execution plan was made without HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT",
            ));
        }
        if plugin.api_version < OVERRIDES_SINCE {
            return Err(Error::not_supported(format!(
                "the variant pack overrides shapes: plugin {} speaks plugin API {}, expected {OVERRIDES_SINCE} or newer",
                plugin.name, plugin.api_version
            )));
        }
        // SAFETY: handle and context are the plugin's own, and the arrays live as long as the pack; the pointers are those of the variant
        // pack, whose memory the program keeps until the work is done, as `hipdnnBackendExecute` requires.
        let status = unsafe {
            plugin.api.execute_with_overrides(
                handle,
                self.context.as_ptr(),
                pack.workspace(),
                buffers,
                overrides,
            )
        };
        match status {
            Some(status) => check(&plugin.api, "execute op graph with overrides", status),
            None => Err(Error::not_supported(format!(
                "the variant pack overrides shapes: plugin {} has no hipdnnEnginePluginExecuteOpGraphWithOverrides",
                plugin.name
            ))),
        }
    }

    /// Fails for memory that the plan cannot use.
    #[inline(always)]
    fn check_memory(&self, pack: &Pack) -> Result<()> {
        if pack.addresses() & self.alignment_mask != 0 {
            self.check_alignment(pack)?;
        }
        if overlap::may_meet(self.tensors(), pack.buffers()) || pack.overrides().is_some() {
            self.check_overlap(pack)?;
        }
        Ok(())
    }

    /// Fails if a written tensor overlaps another one, unless each element only overwrites the element it is computed from.
    #[cold]
    fn check_overlap(&self, pack: &Pack) -> Result<()> {
        let Some(sharing) = self.context.owner().graph().and_then(VerifiedGraph::sharing) else {
            return Ok(());
        };
        let layouts = pack.overrides().into_iter().flat_map(Overrides::layouts);
        let Some(clash) = overlap::clash(sharing, pack.buffers(), layouts) else { return Ok(()) };
        let Clash { written, other, is_other_written } = clash;
        let (does, expected) = if is_other_written {
            ("writes, too", "memory of its own for each")
        } else {
            (
                "reads",
                "memory of its own for each, or the same place and layout where each element is computed from that element alone",
            )
        };
        Err(Error::bad_param(format!(
            "the variant pack binds tensor {written}, which the graph writes, and tensor {other}, which it {does}, to memory that overlaps, expected {expected}"
        )))
    }

    /// Fails for a tensor whose memory is not aligned as its descriptor promised.
    #[cold]
    fn check_alignment(&self, pack: &Pack) -> Result<()> {
        let tensors = self.context.owner().tensors();
        for buffer in pack.buffers() {
            let tensor = tensors.iter().find(|tensor| tensor.uid == buffer.uid);
            let bits = tensor.map_or(0, |tensor| alignment_bits(tensor.alignment));
            if buffer.ptr.addr() & bits != 0 {
                return Err(Error::bad_param(format!(
                    "the data pointer {:p} of tensor {} in the variant pack is not aligned to {} bytes",
                    buffer.ptr,
                    buffer.uid,
                    bits + 1
                )));
            }
        }
        Ok(())
    }
}
