//! Finalized plans: graphs compiled by an engine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hipdnn_plugin_sdk::wire::{self, Layout, TensorSummary};

use super::renaming::Renaming;
use super::source::Source;
use crate::lock::{Mutex, OnceLock};
use crate::plugin::{Context, Owner, PluginSet};
use crate::status::Result;
use crate::trace;

/// A finalized plan.
pub struct FrozenPlan {
    pub(super) context: Context<Source>,
    /// Identifies the plugin set of the context's plugin; only compared. The source keeps the set alive.
    pub(super) set: Identity,
    /// The index of the context's plugin in the set.
    pub(super) plugin: u32,
    is_override_shape_enabled: bool,
    /// The tensors of the graph, here for quick access.
    tensors: Tensors,
    /// All tensor alignments combined: bits that no address may have set.
    pub(super) alignment_mask: usize,
    workspace_size: i64,
    /// The context's uids of the tensors, if it was made for an equal graph with other uids.
    pub(super) renaming: Option<Box<Renaming>>,
    /// The bytes of the saved plan, between the call that asks for their number and the call that fetches them.
    saved: Mutex<Option<Vec<u8>>>,
    /// Whether remarks about a pack were logged; once for each plan.
    pub(super) has_told: AtomicBool,
    /// The plan's label in the profile and the trace, made on first use.
    label: OnceLock<&'static trace::Plan>,
}

/// The identity of a plugin set.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Identity(pub(super) *const PluginSet);

// SAFETY: the pointer is compared and never dereferenced.
unsafe impl Send for Identity {}
// SAFETY: the pointer is compared and never dereferenced.
unsafe impl Sync for Identity {}

/// The tensors of a plan's graph, owned by the source of the plan's context, which keeps them unchanged while the plan lives.
#[derive(Clone, Copy)]
struct Tensors(*const [TensorSummary]);

// SAFETY: the list never changes.
unsafe impl Send for Tensors {}
// SAFETY: the list never changes, so threads may share it.
unsafe impl Sync for Tensors {}

/// The low bits of an address that an alignment forbids; 0 if it is not a power of two.
pub(super) fn alignment_bits(alignment: i64) -> usize {
    match usize::try_from(alignment) {
        Ok(alignment) if alignment.is_power_of_two() => alignment - 1,
        _ => 0,
    }
}

impl FrozenPlan {
    /// A plan of a context.
    #[inline]
    pub(super) fn new(
        context: Context<Source>,
        workspace_size: i64,
        is_override_shape_enabled: bool,
        renaming: Option<Box<Renaming>>,
    ) -> Self {
        let (session, engine) = context.owner().engine();
        let (set, plugin) = (Identity(Arc::as_ptr(session.set())), engine.plugin);
        let tensors = context.owner().tensors();
        let alignment_mask = tensors.iter().fold(0, |mask, tensor| mask | alignment_bits(tensor.alignment));
        let (saved, has_told, label) = (Mutex::new(None), AtomicBool::new(false), OnceLock::new());
        let tensors = Tensors(tensors);
        Self {
            has_told,
            label,
            tensors,
            context,
            set,
            plugin,
            is_override_shape_enabled,
            alignment_mask,
            workspace_size,
            renaming,
            saved,
        }
    }

    /// The tensors of the graph.
    #[inline(always)]
    pub(super) fn tensors(&self) -> &[TensorSummary] {
        // SAFETY: the context's source owns the list on the heap and lives as long as this plan.
        unsafe { &*self.tensors.0 }
    }

    /// The plugin's context.
    pub(super) fn context(&self) -> &Context<Source> {
        &self.context
    }

    /// Calls `f` with a context that uses the graph's own uids, for what the plugin reports about it or saves.
    pub(super) fn with_own_names<R>(&self, f: impl FnOnce(&Context<Source>) -> Result<R>) -> Result<R> {
        match self.context.owner() {
            Source::Config(config) if self.renaming.is_some() => {
                let made = config.compile()?;
                f(&Context::new(made.context, Source::Config(Arc::clone(config))))
            }
            _ => f(&self.context),
        }
    }

    /// Bytes of workspace that an execution needs.
    pub(super) fn workspace_size(&self) -> i64 {
        self.workspace_size
    }

    /// Whether shapes may be replaced at execution.
    pub(super) fn is_override_shape_enabled(&self) -> bool {
        self.is_override_shape_enabled
    }

    /// The bytes of the saved plan that wait to be fetched.
    pub(super) fn saved(&self) -> &Mutex<Option<Vec<u8>>> {
        &self.saved
    }

    /// Records that the plan was made, from `begin` until now.
    #[cold]
    pub(super) fn record_making(&self, begin: u64) {
        // Before the label, which takes time to make.
        let end = trace::now();
        trace::record(begin, end, trace::Event::Planned(self.label()));
    }

    /// The plan's label in the profile and the trace.
    #[cold]
    pub(super) fn label(&self) -> &'static trace::Plan {
        if let Some(label) = self.label.get() {
            return label;
        }
        // By now an engine that needs a device has loaded its library.
        if trace::in_place().is_some() {
            trace::device::look();
        }
        let source = self.context.owner();
        let graph = match source {
            Source::Config(config) => config.engine.graph.bytes(Layout::G2).ok().map(wire::read),
            Source::Saved(_) => None,
        };
        let (engine, graph) = (source.engine_name(), graph.and_then(std::result::Result::ok));
        // Outside the lock: the plugin may log, and a log callback may execute this plan.
        let description = self.context.description();
        let label = trace::Plan::of(&trace::About {
            engine: &engine,
            graph: graph.as_ref(),
            description: description.as_deref(),
        });
        self.label.get_or_init(|| label)
    }
}
