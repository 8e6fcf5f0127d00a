//! EXECUTION_PLAN: a graph compiled by an engine, ready to run.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hipdnn_plugin_sdk::wire::{self, Layout, TensorSummary};

use super::attribute::{Incoming, Outgoing, unknown};
use super::engine_config::FrozenConfig;
use super::renaming::Renaming;
use super::{Descriptor, Draft, compile, stored_plan, take_checked};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::graph::VerifiedGraph;
use crate::lock::{Mutex, OnceLock};
use crate::plugin::{Context, Engine, EngineRef, Owner, PluginSet, Session};
use crate::status::{Error, Result};
use crate::trace;

const KIND: &str = "execution plan";

const HANDLE: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_HANDLE as c_int;
const ENGINE_CONFIG: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG as c_int;
const WORKSPACE_SIZE: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE as c_int;
const JSON: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION as c_int;
const TENSOR_UIDS: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT as c_int;
const ENGINE_GLOBAL_INDEX: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT as c_int;
const IS_OVERRIDE_SHAPE_ENABLED: c_int =
    Name::HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT as c_int;

/// A plan that is being set up.
#[derive(Default)]
pub struct PlanDraft {
    config: Option<Arc<FrozenConfig>>,
}

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

// SAFETY: what it points to is not changed by anybody.
unsafe impl Send for Tensors {}
// SAFETY: what it points to is not changed by anybody, so threads may read it together.
unsafe impl Sync for Tensors {}

/// What a plan was made from.
pub enum Source {
    /// A configuration, which has the graph.
    Config(Arc<FrozenConfig>),
    /// A saved plan.
    Saved(Box<SavedSource>),
}

/// What is kept of a saved plan.
pub struct SavedSource {
    /// The plugins as the handle had them that the plan was loaded with.
    pub session: Arc<Session>,
    /// The engine among the session's.
    pub engine: EngineRef,
    /// The engine's id.
    pub engine_id: i64,
    /// The tensors of the graph that the plan was made for.
    pub tensors: Vec<TensorSummary>,
    /// The graph that the plan was made for, where the plan says it.
    pub graph: Option<Arc<VerifiedGraph>>,
}

impl Owner for Source {
    fn engine(&self) -> (&Session, EngineRef) {
        match self {
            Self::Config(config) => (&config.engine.session, config.engine.engine),
            Self::Saved(saved) => (&saved.session, saved.engine),
        }
    }
}

impl Source {
    /// The tensors of the graph.
    pub fn tensors(&self) -> &[TensorSummary] {
        match self {
            Self::Config(config) => &config.engine.graph.summary().tensors,
            Self::Saved(saved) => &saved.tensors,
        }
    }

    /// The graph, where it is known.
    pub(super) fn graph(&self) -> Option<&VerifiedGraph> {
        match self {
            Self::Config(config) => Some(config.engine.graph.verified()),
            Self::Saved(saved) => saved.graph.as_deref(),
        }
    }

    /// The name of the graph; a saved plan does not have it.
    pub(super) fn graph_name(&self) -> Option<String> {
        match self {
            Self::Config(config) => config.engine.graph.name(),
            Self::Saved(_) => None,
        }
    }

    pub(super) fn engine_name(&self) -> String {
        let (session, engine) = self.engine();
        session.engine(engine).map(Engine::display_name).unwrap_or_default()
    }

    /// The id of the engine.
    pub fn engine_id(&self) -> i64 {
        match self {
            Self::Config(config) => config.engine.id,
            Self::Saved(saved) => saved.engine_id,
        }
    }
}

impl Draft for PlanDraft {
    type Frozen = FrozenPlan;

    const ASKS_PLUGINS: bool = true;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            // The handle of the graph counts; this one is only checked, as it always was.
            HANDLE => {
                if incoming.one::<usize>(Type::HIPDNN_TYPE_HANDLE)? == 0 {
                    return Err(Error::null_pointer("HIPDNN_ATTR_EXECUTION_PLAN_HANDLE is null"));
                }
            }
            ENGINE_CONFIG => self.config = Some(incoming.descriptor(Descriptor::engine_config)?),
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    // Inline, so that the frozen form is made where it stays.
    #[inline(always)]
    fn finalize(&mut self) -> Result<Self::Frozen> {
        let missing =
            || Error::bad_param("HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG of the execution plan is not set");
        let begin = trace::begin();
        let (config, (compiled, is_new)) =
            take_checked(&mut self.config, missing, |config| compile::compile(config))?;
        let is_override_shape_enabled = config.engine.graph.summary().is_override_shape_enabled;
        let (context, workspace_size, renaming) = compiled.with_owner(Source::Config(config))?;
        let plan = FrozenPlan::new(context, workspace_size, is_override_shape_enabled, renaming);
        if is_new {
            plan.store();
        }
        if let Some(begin) = begin {
            plan.record_making(begin);
        }
        Ok(plan)
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        let source = frozen.context.owner();
        match outgoing.name() {
            ENGINE_CONFIG => match source {
                Source::Config(config) => {
                    outgoing.exactly_one_descriptor(|| Descriptor::of_engine_config(Arc::clone(config)))
                }
                Source::Saved(_) => Err(Error::not_supported(
                    "HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG cannot be read of an execution plan that was loaded: it has no graph",
                )),
            },
            WORKSPACE_SIZE => outgoing.exactly_one(Type::HIPDNN_TYPE_INT64, frozen.workspace_size),
            JSON => outgoing.text(&frozen.json()?),
            TENSOR_UIDS => {
                let uids: Vec<i64> = source.tensors().iter().map(|tensor| tensor.uid).collect();
                outgoing.many(Type::HIPDNN_TYPE_INT64, &uids)
            }
            ENGINE_GLOBAL_INDEX => outgoing.one(Type::HIPDNN_TYPE_INT64, source.engine_id()),
            IS_OVERRIDE_SHAPE_ENABLED => {
                outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(frozen.is_override_shape_enabled))
            }
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

/// The low bits of an address that an alignment forbids; none for what is no power of two, which nobody can promise.
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
                let made = compile::compile_anew(config)?;
                f(&Context::new(made.context, Source::Config(Arc::clone(config))))
            }
            _ => f(&self.context),
        }
    }

    /// Stores the plan for other processes.
    #[cold]
    fn store(&self) {
        if let Source::Config(config) = self.context.owner() {
            stored_plan::store(self, config);
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

impl Descriptor {
    /// Fails unless this is an execution plan.
    #[inline]
    pub fn check_plan(&self) -> Result<()> {
        match self {
            Self::Plan(_) => Ok(()),
            other => Err(other.wrong_kind(KIND)),
        }
    }

    /// The plan in a finalized execution plan, for execution.
    #[inline]
    pub fn plan(&self) -> Result<&FrozenPlan> {
        match self {
            Self::Plan(lifecycle) => {
                lifecycle.frozen().ok_or_else(|| Error::bad_param("the execution plan is not finalized"))
            }
            other => Err(other.wrong_kind(KIND)),
        }
    }
}
