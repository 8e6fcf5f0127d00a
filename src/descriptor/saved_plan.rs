//! Execution plans as bytes: writing them, and the checks before a plugin sees them.

use std::sync::Arc;

use hipdnn_plugin_sdk::graph::GraphError;
use hipdnn_plugin_sdk::wire::{self, Container, Origin, SAVED_PLAN_VERSION, SavedPlan, Span, TensorSummary};

use super::frozen_plan::FrozenPlan;
use crate::graph::{FrozenGraph, VerifiedGraph};
use crate::plugin::{EngineRef, Owner, Plugin, Session, context};
use crate::status::{Error, Result};
use crate::{device, target};

impl FrozenPlan {
    /// The bytes of the plan, as its plugin saves it now, with the graph inside if `has_graph`.
    pub(super) fn save(&self, has_graph: bool) -> Result<Vec<u8>> {
        let source = self.context().owner();
        let engine_id = source.engine_id();
        let payload = self.with_own_names(|context| context::save(context, engine_id))?;
        let (session, engine) = source.engine();
        let plugin = session.plugin(engine.plugin)?;
        let origin = Origin {
            plugin_name: plugin.name.clone(),
            plugin_version: plugin.version.clone(),
            device: device::fingerprint().to_owned(),
            tensor_alignments: source.tensors().iter().map(|tensor| tensor.alignment).collect(),
        };
        let plan = SavedPlan {
            version: SAVED_PLAN_VERSION,
            engine_id,
            workspace_size: self.workspace_size(),
            tensor_uids: source.tensors().iter().map(|tensor| tensor.uid).collect(),
            payload: &payload,
            graph: source.graph().filter(|_| has_graph).map_or(&[], |graph| graph.written()),
            is_override_shape_enabled: self.is_override_shape_enabled(),
            origin: Some(origin),
        };
        wire::write_plan(&plan).map_err(|error| Error::plugin(format!("plugin {}: {error}", plugin.name)))
    }
}

/// The engine of a saved plan, if this session has it and its origin matches.
pub(super) fn engine_of(session: &Session, plan: &SavedPlan) -> Result<EngineRef> {
    let id = plan.engine_id;
    let engine = session.find_engine(id).ok_or_else(|| {
        let of =
            plan.origin.as_ref().map(|it| format!(" of plugin {} {}", it.plugin_name, it.plugin_version));
        let of = of.unwrap_or_default();
        Error::internal(format!("the plan was made by engine {id}{of}, which no plugin of the handle has"))
    })?;
    if let Some(origin) = &plan.origin {
        check_origin(origin, session.plugin(engine.plugin)?)?;
    }
    Ok(engine)
}

fn check_origin(origin: &Origin, plugin: &Plugin) -> Result<()> {
    let device = device::fingerprint();
    let pairs = [
        ("plugin", origin.plugin_name.as_str(), plugin.name.as_str()),
        ("version", origin.plugin_version.as_str(), plugin.version.as_str()),
        ("device", origin.device.as_str(), device),
    ];
    let differs = |(what, saved, here): &(&str, &str, &str)| {
        saved != here && !(*what == "device" && target::is_here(saved))
    };
    match pairs.into_iter().find(differs) {
        None => Ok(()),
        Some(("version", saved, here)) => Err(Error::not_supported(format!(
            "the plan was made by version {saved:?} of plugin {}, the version here is {here:?}",
            plugin.name
        ))),
        Some((what, saved, here)) => Err(Error::not_supported(format!(
            "the plan was made by another {what}: {saved:?}, the {what} here is {here:?}"
        ))),
    }
}

/// Fails for invalid plans.
pub(super) fn check(plan: &SavedPlan) -> Result<()> {
    if plan.version != SAVED_PLAN_VERSION {
        return Err(Error::not_supported(format!(
            "the plan is of version {}, this library reads version {SAVED_PLAN_VERSION}",
            plan.version
        )));
    }
    let fail = |what: String| Err(Error::bad_param(format!("the plan has {what}")));
    if plan.tensor_uids.is_empty() {
        return fail("no tensors, expected at least one uid".to_owned());
    }
    if plan.payload.is_empty() {
        return fail("nothing for the plugin, expected at least one byte".to_owned());
    }
    if plan.workspace_size < 0 {
        return fail(format!("a workspace of {} bytes, expected 0 or more", plan.workspace_size));
    }
    Ok(())
}

/// Adds the argument to an error.
pub(super) fn about(argument: &str, bytes: &[u8], error: &GraphError) -> Error {
    Error::bad_param(format!("{argument} ({} bytes): {error}", bytes.len()))
}

/// The parts of a container; none if the bytes are something else.
pub(super) fn container<'a>(argument: &str, bytes: &'a [u8]) -> Result<Option<Container<'a>>> {
    let read = || if wire::is_container(bytes)? { wire::read_container(bytes).map(Some) } else { Ok(None) };
    read().map_err(|error| about(argument, bytes, &error))
}

/// The bytes of a plan, which may be in a container.
pub(super) fn plan_in<'a>(argument: &str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    match container(argument, bytes)? {
        None => Ok(bytes),
        Some(Container { plan: [], .. }) => {
            Err(Error::bad_param(format!("{argument} is a container without an execution plan")))
        }
        Some(Container { plan, .. }) => Ok(plan),
    }
}

/// The bytes of a graph, which may be in a container.
pub(super) fn graph_in<'a>(argument: &str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    match container(argument, bytes)? {
        None => Ok(bytes),
        Some(Container { graph: [], .. }) => {
            Err(Error::bad_param(format!("{argument} is a container without a graph")))
        }
        Some(Container { graph, .. }) => Ok(graph),
    }
}

/// Whether saved bytes contain a plan. Bytes without the container's mark count as a graph, for compatibility.
pub fn has_plan(argument: &str, bytes: &[u8]) -> Result<bool> {
    if !matches!(wire::is_container(bytes), Ok(true)) {
        return Ok(false);
    }
    Ok(container(argument, bytes)?.is_some_and(|container| !container.plan.is_empty()))
}

/// The graph of a saved plan, if present and valid.
pub(super) fn graph_of(plan: &SavedPlan<'_>) -> Option<Arc<VerifiedGraph>> {
    if plan.graph.is_empty() {
        return None;
    }
    let graph = FrozenGraph::from_own(plan.graph.to_vec()).ok()?;
    let uids = graph.summary().tensors.iter().map(|tensor| tensor.uid);
    uids.eq(plan.tensor_uids.iter().copied()).then(|| Arc::clone(graph.verified()))
}

/// The tensors of a saved plan.
pub(super) fn tensors_of(plan: &SavedPlan<'_>, graph: Option<&VerifiedGraph>) -> Vec<TensorSummary> {
    // Without an origin, no alignments are known.
    let alignments = plan.origin.iter().flat_map(|origin| origin.tensor_alignments.iter().copied());
    let known = graph.map_or(&[][..], |graph| &graph.summary().tensors);
    let tensors = plan.tensor_uids.iter().zip(alignments.chain(std::iter::repeat(1))).enumerate();
    let summary = |(place, (&uid, alignment))| {
        let known: Option<&TensorSummary> = known.get(place);
        TensorSummary {
            uid,
            alignment,
            is_virtual: known.is_some_and(|known| known.is_virtual),
            is_written: known.is_some_and(|known| known.is_written),
            span: known.map_or_else(Span::default, |known| known.span),
        }
    };
    tensors.map(summary).collect()
}
