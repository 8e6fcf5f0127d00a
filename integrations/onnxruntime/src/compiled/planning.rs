//! The plans of a shape.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use hipdnn::graph::Graph;
use hipdnn::{ExecutionPlan, OperationGraph};

use super::device::Copies;
use super::record::{self, Recording};
use super::{Integers, Prepared, Ready, Subgraph, division, overlap, replay};
use crate::best::Best;
use crate::failure::{Failure, Result};
use crate::hash::Map;
use crate::lowering::{Place, Work, weights};

/// A graph's plan, as long as something uses it.
struct Planned {
    graph: Graph,
    constant_weights: bool,
    /// Whether it shares packed weights.
    shares: bool,
    plan: Weak<ExecutionPlan>,
}

impl Planned {
    fn is_like(&self, other: &Self) -> bool {
        let settings = |of: &Self| (of.constant_weights, of.shares);
        settings(self) == settings(other) && self.graph == other.graph
    }

    /// By which compiled models find the plan.
    fn text(&self) -> String {
        format!("{} {}", self.constant_weights, division::key(&self.graph))
    }
}

/// The plans in use, by the digest of their graphs.
#[derive(Default)]
pub(super) struct Stages {
    plans: Map<u64, Vec<Planned>>,
    /// The number of digests at which those without a plan are removed.
    most: usize,
}

impl Stages {
    fn all(&self) -> impl Iterator<Item = &Planned> {
        self.plans.values().flatten()
    }

    fn find(&self, stage: &Planned) -> Option<Arc<ExecutionPlan>> {
        let list = self.plans.get(&division::digest(&stage.graph))?;
        list.iter().find(|of| of.is_like(stage))?.plan.upgrade()
    }

    fn add(&mut self, stage: Planned) {
        if self.plans.len() >= self.most {
            self.plans.retain(|_, list| {
                list.retain(|of| of.plan.strong_count() > 0);
                !list.is_empty()
            });
            self.most = 2 * self.plans.len() + 16;
        }
        let list = self.plans.entry(division::digest(&stage.graph)).or_default();
        list.retain(|of| !of.is_like(&stage));
        list.push(stage);
    }
}

impl Subgraph {
    /// The plans for a shape.
    pub(super) fn prepare(&self, dims: &[&[i64]], integers: &Integers) -> Result<Prepared> {
        let (graphs, late) = self.lower(dims, integers)?;
        let on_gpu = self.on_gpu.is_some();
        let copies = match &self.on_gpu {
            Some(on_gpu) => Copies::of(on_gpu.gpu(), &graphs)?,
            None => Copies::default(),
        };
        let mut prepared = Prepared {
            stages: Vec::new(),
            scratch: graphs.scratch,
            workspace: 0,
            outputs: graphs.outputs,
            late,
            data: graphs.data,
            copies,
            continued: Vec::new(),
            captures: AtomicUsize::new(0),
        };
        let mut may_capture = self.options.capture;
        // Kept alive until all stages hold theirs.
        let _plans = if on_gpu { division::plan_together(self, &graphs.stages) } else { Vec::new() };
        for (place, stage) in graphs.stages.into_iter().enumerate() {
            prepared.stages.push(match stage.work {
                Work::Host { origin, host, reads, writes } => {
                    let title = format!("{}: {origin} [{host:?}]", self.name);
                    Ready::Host { title, host, reads, writes }
                }
                Work::Graph { graph, bindings, constant_weights, origins } => {
                    let title = self.title(&graph);
                    let shares = constant_weights && self.keeps_weights(&graph, &bindings, &prepared);
                    // A plan that packs weights for itself is one layer's.
                    let is_of_one = constant_weights && !shares && !on_gpu;
                    let (graph, bindings) =
                        if is_of_one { (*graph, bindings) } else { division::as_planned(*graph, bindings) };
                    let recording = self.options.record.is_some().then(|| {
                        let name = record::plain_name(&self.name);
                        let mut graph = graph.clone();
                        for (node, origin) in graph.nodes.iter_mut().zip(&origins) {
                            node.name = origin.to_string();
                        }
                        Box::new(Recording { name: format!("{name}-{place:04}"), graph })
                    });
                    let (plan, can_be_captured) = self.stage(graph, [constant_weights, shares], &title)?;
                    may_capture &= can_be_captured;
                    prepared.workspace = prepared.workspace.max(plan.workspace_size()?);
                    Ready::Plan { title, origins, plan, bindings, recording }
                }
            });
        }
        prepared.continued = overlap::continued(&prepared.stages);
        if may_capture {
            prepared.captures = AtomicUsize::new(replay::MOST);
        }
        Ok(prepared)
    }

    /// Whether all weights that a graph is given are constants that stay where they are as long as the session does: not in
    /// memory that is used for something else later.
    fn keeps_weights(&self, graph: &Graph, bindings: &[(i64, Place)], prepared: &Prepared) -> bool {
        if self.weights.is_none() {
            return false;
        }
        let is_kept = |id: i64| match bindings.iter().find(|(uid, _)| *uid == id) {
            Some((_, Place::Input(at, _))) => self.is_constant(*at),
            Some((_, Place::Data(at, _))) => {
                let folds = self.folds.lock().unwrap_or_else(PoisonError::into_inner);
                let memory = prepared.data.get(at);
                memory.is_some_and(|memory| folds.values().any(|fold| Arc::ptr_eq(fold, memory)))
            }
            Some((_, Place::Scratch(_) | Place::Output(..))) => false,
            // Computed in the graph, or a number.
            None => true,
        };
        graph.nodes.iter().filter_map(|node| weights(&node.operation)).all(is_kept)
    }

    fn stages(&self) -> MutexGuard<'_, Stages> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A graph's title in profiles: its first nodes.
    fn title(&self, graph: &Graph) -> String {
        let names: Vec<&str> = graph.nodes.iter().take(3).map(|node| node.name.as_str()).collect();
        let more = if graph.nodes.len() > 3 {
            format!(" and {} more", graph.nodes.len() - 3)
        } else {
            String::new()
        };
        format!("{}: {}{more}", self.name, names.join(", "))
    }

    /// The existing plans as bytes, each with the text of its graph.
    pub fn plans(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let stages = self.stages();
        let alive = stages.all().filter_map(|stage| Some((stage.text(), stage.plan.upgrade()?)));
        alive
            .map(|(key, plan)| {
                Ok((key, plan.bytes().map_err(|error| self.failure(&Failure::from(error).text))?))
            })
            .collect()
    }

    /// The plan of a graph, shared between shapes and between layers that are alike, and whether its executions can be
    /// captured.
    pub(super) fn stage(
        &self,
        graph: Graph,
        [constant_weights, shares]: [bool; 2],
        title: &str,
    ) -> Result<(Arc<ExecutionPlan>, bool)> {
        let mut stage = Planned { graph, constant_weights, shares, plan: Weak::new() };
        let best = Best::of(&stage.graph);
        let known = self.stages().find(&stage);
        let saved = if self.saved.is_empty() { None } else { self.saved.get(&stage.text()) };
        let plan = || {
            self.library.with_handle(|handle| {
                let build = || Ok(OperationGraph::from_graph(handle, &stage.graph)?);
                // A plan that cannot be read is made anew.
                let read = |bytes: &Vec<u8>| ExecutionPlan::from_bytes(handle, bytes).ok().map(Arc::new);
                if let Some(plan) = known.clone().or_else(|| saved.and_then(read)) {
                    let can_be_captured = self.engines.capture(&plan, build);
                    return Ok((plan, can_be_captured));
                }
                let graph = build()?;
                let plan = self.engines.plan(&graph, &self.options.settings(constant_weights), best)?;
                let can_be_captured = self.engines.capture(&plan, || Ok(graph));
                Ok((Arc::new(plan), can_be_captured))
            })
        };
        let plan = match self.weights.as_ref().filter(|_| shares && known.is_none()) {
            Some(weights) => weights.sharing(plan),
            None => plan(),
        };
        let plan = plan.map_err(|failure| Failure::ep(format!("subgraph {title}: {}", failure.text)))?;
        if known.is_none() {
            stage.plan = Arc::downgrade(&plan.0);
            self.stages().add(stage);
        }
        Ok(plan)
    }
}
