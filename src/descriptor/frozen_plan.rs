//! A graph compiled by an engine, ready to run.

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
    /// The plugins that the context's plugin is one of, kept by the source: only to compare.
    pub(super) set: Identity,
    /// The place of the context's plugin among them.
    pub(super) plugin: u32,
    is_override_shape_enabled: bool,
    /// The tensors of the graph, found without a way through the source.
    tensors: Tensors,
    /// All alignments of the graph's tensors in one: a set bit is one that no address may have.
    pub(super) alignment_mask: usize,
    workspace_size: i64,
    /// How the context calls the tensors, where it was made for an equal graph with other uids.
    pub(super) renaming: Option<Box<Renaming>>,
    /// The bytes of the saved plan, between a call that asks for their number and one that fetches them.
    saved: Mutex<Option<Vec<u8>>>,
    /// Whether the log has what is odd about a pack; said once for each plan.
    pub(super) has_told: AtomicBool,
    /// What the profile and the trace say of the plan, once they do.
    label: OnceLock<&'static trace::Plan>,
}

/// Which set of plugins it is.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Identity(pub(super) *const PluginSet);

// SAFETY: it is compared and never followed.
unsafe impl Send for Identity {}
// SAFETY: it is compared and never followed.
unsafe impl Sync for Identity {}

/// The tensors of a plan's graph. They belong to the source of the plan's context, which keeps them as they are for as long as the plan
/// lives.
#[derive(Clone, Copy)]
struct Tensors(*const [TensorSummary]);

// SAFETY: what it points to never changes.
unsafe impl Send for Tensors {}
// SAFETY: what it points to never changes, so threads may read it together.
unsafe impl Sync for Tensors {}

/// The low bits of an address that an alignment forbids; none where it is not a power of two.
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
        // SAFETY: the context's source has the list on the heap and lives as long as this plan, which does not give it away.
        unsafe { &*self.tensors.0 }
    }

    /// The plugin's context.
    pub(super) fn context(&self) -> &Context<Source> {
        &self.context
    }

    /// Calls `f` with a context that calls the tensors as the graph does: for what the plugin tells of it, or makes of it.
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

    /// Where the bytes of the saved plan wait to be fetched.
    pub(super) fn saved(&self) -> &Mutex<Option<Vec<u8>>> {
        &self.saved
    }

    /// Records that the plan was made, from `begin` until now.
    #[cold]
    pub(super) fn record_making(&self, begin: u64) {
        // What is said of the plan takes time, too.
        let end = trace::now();
        trace::record(begin, end, trace::Event::Planned(self.label()));
    }

    /// What the profile and the trace say of the plan.
    #[cold]
    pub(super) fn label(&self) -> &'static trace::Plan {
        if let Some(label) = self.label.get() {
            return label;
        }
        // An engine that needs a device has loaded what it takes by now.
        if trace::in_place().is_some() {
            trace::device::look();
        }
        let source = self.context.owner();
        let graph = match source {
            Source::Config(config) => config.engine.graph.bytes(Layout::G2).ok().map(wire::read),
            Source::Saved(_) => None,
        };
        let (engine, graph) = (source.engine_name(), graph.and_then(std::result::Result::ok));
        // The plugin may log, and a callback that gets the line may execute this plan.
        let description = self.context.description();
        let label = trace::Plan::of(&trace::About {
            engine: &engine,
            graph: graph.as_ref(),
            description: description.as_deref(),
        });
        self.label.get_or_init(|| label)
    }
}
