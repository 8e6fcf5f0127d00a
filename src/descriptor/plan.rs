//! EXECUTION_PLAN: a graph compiled by an engine, ready to run.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use hipdnn_plugin_sdk::graph::ApiVersion;
use hipdnn_plugin_sdk::wire::{self, Layout, TensorSummary};

use super::attribute::{Incoming, Outgoing, unknown};
use super::engine_config::FrozenConfig;
use super::overrides::Overrides;
use super::{Descriptor, Draft, Pack, compile, stored_plan, take_checked};
use crate::ffi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type, hipdnnSeverity_t as Severity,
};
use crate::lock::Mutex;
use crate::plugin::{Context, Engine, EngineRef, Owner, PluginSet, Session, check};
use crate::status::{Error, Result};
use crate::{log, trace};

const KIND: &str = "execution plan";

/// How many things that are odd about a pack are told.
const MOST_REMARKS: usize = 4;

const HANDLE: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_HANDLE as c_int;
const ENGINE_CONFIG: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG as c_int;
const WORKSPACE_SIZE: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE as c_int;
const JSON: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION as c_int;
const TENSOR_UIDS: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT as c_int;
const ENGINE_GLOBAL_INDEX: c_int = Name::HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT as c_int;
const IS_OVERRIDE_SHAPE_ENABLED: c_int =
    Name::HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT as c_int;

/// The first plugin interface with shapes that change from one execution to the next.
const OVERRIDES_SINCE: ApiVersion = ApiVersion::new(1, 1, 0);

/// A plan that is being set up.
#[derive(Default)]
pub struct PlanDraft {
    config: Option<Arc<FrozenConfig>>,
}

/// A finalized plan.
pub struct FrozenPlan {
    context: Context<Source>,
    /// The plugins that the context's plugin is one of, kept by the source: only to compare.
    set: Identity,
    /// The place of the context's plugin among them.
    plugin: u32,
    is_override_shape_enabled: bool,
    /// All alignments of the graph's tensors in one: a set bit is one that no address may have.
    alignment_mask: usize,
    workspace_size: i64,
    /// The bytes of the saved plan, between a call that asks for their number and one that fetches them.
    saved: Mutex<Option<Vec<u8>>>,
    /// Whether the log has what is odd about a pack; said once for each plan.
    has_told: AtomicBool,
    /// What the profile and the trace say of the plan, once they do.
    label: OnceLock<&'static trace::Plan>,
}

/// Which set of plugins it is.
#[derive(Clone, Copy, PartialEq)]
struct Identity(*const PluginSet);

// SAFETY: it is compared and never followed.
unsafe impl Send for Identity {}
// SAFETY: it is compared and never followed.
unsafe impl Sync for Identity {}

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

    /// The name of the graph; a saved plan does not have it.
    pub(super) fn graph_name(&self) -> Option<String> {
        match self {
            Self::Config(config) => config.engine.graph.name(),
            Self::Saved(_) => None,
        }
    }

    fn engine_name(&self) -> String {
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
        let (context, workspace_size) = compiled.with_owner(Source::Config(config))?;
        let plan = FrozenPlan::new(context, workspace_size, is_override_shape_enabled);
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
fn alignment_bits(alignment: i64) -> usize {
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
    ) -> Self {
        let (session, engine) = context.owner().engine();
        let (set, plugin) = (Identity(Arc::as_ptr(session.set())), engine.plugin);
        let tensors = context.owner().tensors();
        let alignment_mask = tensors.iter().fold(0, |mask, tensor| mask | alignment_bits(tensor.alignment));
        let (saved, has_told, label) = (Mutex::new(None), AtomicBool::new(false), OnceLock::new());
        Self {
            has_told,
            label,
            context,
            set,
            plugin,
            is_override_shape_enabled,
            alignment_mask,
            workspace_size,
            saved,
        }
    }

    /// The plugin's context.
    pub(super) fn context(&self) -> &Context<Source> {
        &self.context
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

    /// Hands the plan and the memory of its tensors to the plugin, with the plugin handle of `session`.
    ///
    /// Returns when the plugin does, which need not be when the work is done. Takes no lock and allocates nothing.
    #[inline]
    pub fn execute(&self, session: &Session, pack: &Pack) -> Result<()> {
        if log::is_watched(Severity::HIPDNN_SEV_WARN) {
            return self.execute_and_tell(session, pack);
        }
        self.run(session, pack).map_err(|error| self.with_remarks(error, pack))
    }

    /// The same with lines of the log, the profile and the trace: what was run for how long, and what is odd about the pack.
    #[cold]
    fn execute_and_tell(&self, session: &Session, pack: &Pack) -> Result<()> {
        let range = trace::ranges::push(|| self.label().title.clone());
        let label = trace::in_place().map(|_| self.label());
        let memory = pack.buffers().iter().map(|buffer| buffer.ptr.cast_const());
        // SAFETY: whoever set the handle's stream vouches for it.
        let launch = label.and_then(|_| unsafe { trace::device::begin(session.stream(), memory) });
        let begin = trace::now();
        let result = self.run(session, pack);
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

    /// Records that the plan was made, from `begin` until now.
    #[cold]
    pub(super) fn record_making(&self, begin: u64) {
        // What is said of the plan takes time, too.
        let end = trace::now();
        trace::record(begin, end, trace::Event::Planned(self.label()));
    }

    /// What the profile and the trace say of the plan.
    #[cold]
    fn label(&self) -> &'static trace::Plan {
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

    /// What is odd about the pack beside what a plugin says, which may be its cause.
    #[cold]
    fn with_remarks(&self, error: Error, pack: &Pack) -> Error {
        match self.remarks(pack) {
            Some(remark) => Error::new(error.status, format!("{}; {remark}", error.message)),
            None => error,
        }
    }

    /// What is odd about a pack, and allowed: engines pass over what they do not need.
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
            remarks.push(format!("{more} more such"));
        }
        (!remarks.is_empty()).then(|| format!("the variant pack binds {}", remarks.join(", ")))
    }

    // Always: the one use that counts is above, and the other is cold.
    #[inline(always)]
    fn run(&self, session: &Session, pack: &Pack) -> Result<()> {
        if Identity(Arc::as_ptr(session.set())) != self.set {
            return Err(Error::bad_param(
                "the handle has other plugins loaded than those that made the execution plan",
            ));
        }
        let plugin = session.plugin(self.plugin)?;
        let handle = session.plugin_handle(self.plugin)?;
        if pack.addresses() & self.alignment_mask != 0 {
            self.check_alignment(pack)?;
        }
        if let Some(overrides) = pack.overrides() {
            return self.execute_with_overrides(session, pack, overrides);
        }
        let buffers = pack.buffers();
        // SAFETY: handle and context are the plugin's own; the caller vouches for the memory behind the pointers.
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

    /// The same with the shapes that the pack names in place of those planned.
    #[cold]
    fn execute_with_overrides(&self, session: &Session, pack: &Pack, overrides: &Overrides) -> Result<()> {
        let plugin = session.plugin(self.plugin)?;
        let handle = session.plugin_handle(self.plugin)?;
        if !self.is_override_shape_enabled {
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
        // SAFETY: handle and context are the plugin's own, and the arrays live as long as the pack; the caller vouches
        // for the memory behind the pointers.
        let status = unsafe {
            plugin.api.execute_with_overrides(
                handle,
                self.context.as_ptr(),
                pack.workspace(),
                pack.buffers(),
                overrides.arrays(),
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

    /// Finds the tensor whose memory is not aligned as its descriptor promised, if there is one.
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
