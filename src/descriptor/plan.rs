//! EXECUTION_PLAN: setting up a plan, reading its attributes, saving and loading it.

use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::wire;

use super::attribute::{Incoming, Outgoing, unknown};
use super::engine_config::FrozenConfig;
use super::frozen_plan::FrozenPlan;
use super::source::{SavedSource, Source};
use super::{Descriptor, Draft, Lifecycle, compile, saved_plan, stored_plan, take_checked};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::memory;
use crate::plugin::{Context, Session, context};
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

/// An open plan.
#[derive(Default)]
pub struct PlanDraft {
    config: Option<Arc<FrozenConfig>>,
}

impl Draft for PlanDraft {
    type Frozen = FrozenPlan;

    const ASKS_PLUGINS: bool = true;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            // Only checked, for compatibility: plans use the graph's handle.
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

    // Inlined, so that the frozen form is built in place.
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
            store(&plan);
        }
        if let Some(begin) = begin {
            plan.record_making(begin);
        }
        Ok(plan)
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        let source = frozen.context().owner();
        match outgoing.name() {
            ENGINE_CONFIG => match source {
                Source::Config(config) => {
                    outgoing.exactly_one_descriptor(|| Descriptor::of_engine_config(Arc::clone(config)))
                }
                Source::Saved(_) => Err(Error::not_supported(
                    "HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG cannot be read of an execution plan that was loaded: it has no graph",
                )),
            },
            WORKSPACE_SIZE => outgoing.exactly_one(Type::HIPDNN_TYPE_INT64, frozen.workspace_size()),
            JSON => outgoing.text(&frozen.json()?),
            TENSOR_UIDS => {
                let uids: Vec<i64> = source.tensors().iter().map(|tensor| tensor.uid).collect();
                outgoing.many(Type::HIPDNN_TYPE_INT64, &uids)
            }
            ENGINE_GLOBAL_INDEX => outgoing.one(Type::HIPDNN_TYPE_INT64, source.engine_id()),
            IS_OVERRIDE_SHAPE_ENABLED => {
                outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(frozen.is_override_shape_enabled()))
            }
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

/// Stores a plan for other processes.
#[cold]
fn store(plan: &FrozenPlan) {
    if let Source::Config(config) = plan.context().owner() {
        stored_plan::store(plan, config);
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

    /// The plan of a finalized execution plan, for execution.
    #[inline]
    pub fn plan(&self) -> Result<&FrozenPlan> {
        match self {
            Self::Plan(lifecycle) => {
                lifecycle.frozen().ok_or_else(|| Error::bad_param("the execution plan is not finalized"))
            }
            other => Err(other.wrong_kind(KIND)),
        }
    }

    /// The bytes of a finalized execution plan, as its plugin saves it now.
    pub fn save_plan(&self) -> Result<Vec<u8>> {
        self.plan_to_save()?.save(true)
    }

    /// Takes the bytes that [`Descriptor::keep_saved_plan`] kept; without any, the same as [`Descriptor::save_plan`].
    pub fn take_saved_plan(&self) -> Result<Vec<u8>> {
        let plan = self.plan_to_save()?;
        let kept = plan.saved().lock().take();
        kept.map_or_else(|| plan.save(true), Ok)
    }

    /// Keeps the bytes of a plan whose number was returned, so that the call that fetches them gets as many.
    pub fn keep_saved_plan(&self, bytes: Vec<u8>) -> Result<()> {
        *self.plan_to_save()?.saved().lock() = Some(bytes);
        Ok(())
    }

    fn plan_to_save(&self) -> Result<&FrozenPlan> {
        self.check_plan()?;
        self.plan().map_err(|error| Error::not_initialized(error.message.clone()))
    }

    /// A finalized execution plan from the bytes of a plan or of a container.
    pub fn plan_from_bytes(session: &Arc<Session>, argument: &str, bytes: &[u8]) -> Result<Self> {
        let bytes = saved_plan::plan_in(argument, bytes)?;
        // A uid of eight bytes becomes a summary of six words, and the list may double.
        memory::require("the plan", bytes.len().saturating_mul(12))?;
        let plan = wire::read_plan(bytes).map_err(|error| saved_plan::about(argument, bytes, &error))?;
        saved_plan::check(&plan)?;
        let engine = saved_plan::engine_of(session, &plan)?;
        let begin = trace::begin();
        let made = context::load(session, engine, plan.payload)?;
        let graph = saved_plan::graph_of(&plan);
        let source = Source::Saved(Box::new(SavedSource {
            session: Arc::clone(session),
            engine,
            engine_id: plan.engine_id,
            tensors: saved_plan::tensors_of(&plan, graph.as_deref()),
            graph,
        }));
        let context = Context::new(made.context, source);
        let frozen = FrozenPlan::new(context, made.workspace_size, plan.is_override_shape_enabled, None);
        if let Some(begin) = begin {
            frozen.record_making(begin);
        }
        Ok(Self::Plan(Lifecycle::finalized(PlanDraft::default(), frozen)))
    }
}
