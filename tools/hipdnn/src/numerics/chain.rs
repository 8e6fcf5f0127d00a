//! The nodes of a graph one after the other: as an engine computes them, and exactly.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use crate::computation::{Arrays, Computation, Loaded, place_of, plan, settings};
use crate::double;
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Node};
use crate::steps::{self, Numerics, Step};
use crate::tensor::{Array, Place};
use crate::views::Views;
use hipdnn::{EngineInfo, Handle, OperationGraph};

/// Arrays by the uids of their tensors.
pub type Values = HashMap<i64, Array>;

/// A graph, and the engine that computes its nodes.
pub struct Chain<'a> {
    handle: &'a Handle,
    engine: &'a EngineInfo,
    knobs: &'a [String],
    memory: Option<Place>,
    /// The graph.
    pub graph: &'a Graph,
    /// The tensors that have others' elements.
    pub views: &'a Views,
    text: Value,
    runs: Vec<Range<usize>>,
    kept: HashSet<i64>,
    /// What the steps of the whole graph's plan say.
    steps: Vec<Step>,
}

impl<'a> Chain<'a> {
    /// The nodes of a graph.
    pub fn new(
        handle: &'a Handle,
        loaded: &'a Loaded,
        (engine, knobs): (&'a EngineInfo, &'a [String]),
        memory: Option<Place>,
    ) -> Result<Self> {
        let text = double::text(&loaded.operations)?;
        let kept = double::kept(&loaded.graph);
        let (graph, views) = (&loaded.graph, &loaded.views);
        let runs = views.runs(graph);
        let mut steps = Vec::new();
        for (run, part) in runs.iter().zip(parts(handle, loaded)?) {
            let operations = part.as_ref().map_or(&loaded.operations, |(operations, _)| operations);
            let made = plan(operations, engine, &accepted(operations, engine, knobs))?;
            for mut step in steps::of(&made)?.unwrap_or_default() {
                step.nodes.iter_mut().for_each(|node| *node += run.start);
                steps.push(step);
            }
        }
        Ok(Self { handle, engine, knobs, memory, graph, views, text, runs, kept, steps })
    }

    /// Whether a node is computed in double precision.
    pub fn is_exact(&self, node: &Node) -> bool {
        !node.outputs.iter().any(|port| self.kept.contains(&port.uid))
    }

    /// What a node and those after it write in double precision, from what the nodes before wrote.
    pub fn exactly_from(&self, first: usize, values: &Values) -> Result<Values> {
        let mut written = Values::new();
        for run in self.runs.iter().filter(|run| run.end > first) {
            let part = double::part(self.graph, &self.text, run.start.max(first)..run.end);
            let made = self.exactly(part, |uid| written.get(&uid).or_else(|| values.get(&uid)))?;
            written.extend(made);
            let views = self.views.made(self.graph, |uid| written.get(&uid).or_else(|| values.get(&uid)));
            written.extend(views);
        }
        Ok(written)
    }

    /// What a node writes in double precision.
    pub fn exactly_one(&self, place: usize, values: &Values) -> Result<Values> {
        self.exactly(double::part(self.graph, &self.text, place..place + 1), |uid| values.get(&uid))
    }

    /// What a node writes in double precision if types of integers held every number.
    pub fn without_integers(&self, place: usize, values: &Values) -> Result<Values> {
        let mut part = double::part(self.graph, &self.text, place..place + 1);
        let written = |tensor: &Value| {
            let ports = self.graph.nodes.get(place).into_iter().flat_map(|node| &node.outputs);
            tensor["uid"].as_i64().is_some_and(|uid| ports.into_iter().any(|port| port.uid == uid))
        };
        for tensor in part.iter_mut().filter_map(|part| double::list(part, "tensors")).flatten() {
            if written(tensor) {
                double::set(tensor, "data_type", "double");
            }
        }
        self.exactly(part, |uid| values.get(&uid))
    }

    /// The values that a node reads.
    pub fn read_by(&self, node: &Node, values: &Values) -> Values {
        let tensors = node.inputs.iter().filter_map(|port| self.graph.tensor(port.uid));
        let uids = tensors.flat_map(|tensor| [Some(tensor.uid), tensor.ragged_offset]);
        uids.flatten().filter_map(|uid| Some((uid, values.get(&uid)?.clone()))).collect()
    }

    /// What a sum writes in double precision if each of its terms is positive. Winograd and FFT add up all values of a tile: each
    /// counts as the largest.
    pub fn sizes_of_terms(&self, place: usize, values: &Values, notes: Option<&Numerics>) -> Result<Values> {
        let has_tiles =
            notes.is_some_and(|notes| notes.notes.iter().any(|note| note == "WINOGRAD" || note == "FFT"));
        let node = self.graph.nodes.get(place).filter(|_| has_tiles);
        let of_tiles = node.and_then(|node| node.input("x").or_else(|| node.input("dy")));
        let mut part = double::part(self.graph, &self.text, place..place + 1);
        for node in part.iter_mut().filter_map(|part| double::list(part, "nodes")).flatten() {
            if let Some(inputs) = node.get_mut("inputs").filter(|inputs| inputs["operation"] == "sub") {
                double::set(inputs, "operation", "add");
            }
        }
        for tensor in part.iter_mut().filter_map(|part| double::list(part, "tensors")).flatten() {
            if let Some(value) = tensor["value"].as_f64().filter(|value| *value < 0.0) {
                double::set(tensor, "value", -value);
            }
        }
        let sizes = |(uid, array): (&i64, &Array)| {
            let greatest = array.values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
            let size = |value: &f64| if of_tiles == Some(*uid) { greatest } else { value.abs() };
            (*uid, Array { dims: array.dims.clone(), values: array.values.iter().map(size).collect() })
        };
        let sizes: Values = values.iter().map(sizes).collect();
        self.exactly(part, |uid| sizes.get(&uid))
    }

    fn exactly<'v>(&self, part: Option<Value>, values: impl Fn(i64) -> Option<&'v Array>) -> Result<Values> {
        let mut part = part.ok_or_else(|| Failure::work("a node of the graph is missing in its JSON"))?;
        double::widen(&mut part, &self.kept, |_| true)?;
        let inputs = inputs_of(&Graph::from_json(&part.to_string())?, values);
        let results = double::exactly(self.handle, &part, &inputs);
        let results = results.map_err(|failure| failure.during("in double precision"))?;
        Ok(results.into_iter().collect())
    }

    /// What the whole graph's plan does to the numbers of a node.
    pub fn notes(&self, place: usize) -> Option<Numerics> {
        let step = self.steps.iter().find(|step| step.nodes.contains(&place))?;
        Some(step.numerics.clone())
    }

    /// What the engine's plan of one node writes, and what it does to numbers.
    pub fn by_engine(&self, place: usize, values: &Values) -> Result<(Values, Option<Numerics>)> {
        let part = double::part(self.graph, &self.text, place..place + 1)
            .ok_or_else(|| Failure::work("a node of the graph is missing in its JSON"))?;
        let (operations, graph) = double::load(self.handle, &part)?;
        let plan = plan(&operations, self.engine, &accepted(&operations, self.engine, self.knobs))?;
        let inputs = inputs_of(&graph, |uid| values.get(&uid));
        let place = place_of(self.engine, self.memory);
        let mut computation = Computation::new(self.handle, &graph, plan, &inputs, place)?;
        computation.execute(self.handle)?;
        let notes = computation.steps().into_iter().flatten().next().map(|step| step.numerics);
        Ok((computation.outputs(&graph)?.into_iter().collect(), notes))
    }
}

/// The values of what a graph reads.
fn inputs_of<'v>(graph: &Graph, values: impl Fn(i64) -> Option<&'v Array>) -> Arrays {
    let read = graph.bound().filter(|tensor| graph.producer(tensor.uid).is_none());
    read.filter_map(|tensor| Some((tensor.uid, values(tensor.uid)?.clone()))).collect()
}

/// The knobs of the whole graph's plan that a part of it has, too.
fn accepted(operations: &OperationGraph, engine: &EngineInfo, knobs: &[String]) -> Vec<String> {
    let has = |knob: &&String| settings(operations, engine, &[(*knob).clone()]).is_ok();
    knobs.iter().filter(has).cloned().collect()
}

/// The graphs between views; none for a graph without these, which is one itself.
fn parts(handle: &Handle, loaded: &Loaded) -> Result<Vec<Option<(OperationGraph, Graph)>>> {
    let (graph, views) = (&loaded.graph, &loaded.views);
    if views.all.is_empty() {
        return Ok(vec![None]);
    }
    let text = double::text(&loaded.operations)?;
    let made = |run| {
        let part = double::part_alone(graph, &text, run);
        double::load(handle, &part.ok_or_else(|| Failure::work("the graph has no part of this kind"))?)
    };
    views.runs(graph).into_iter().map(|run| made(run).map(Some)).collect()
}

/// What an engine's plan of a graph writes; views divide it into a plan for each part.
pub fn results(
    handle: &Handle,
    loaded: &Loaded,
    (engine, knobs): (&EngineInfo, &[String]),
    inputs: &Arrays,
    memory: Option<Place>,
) -> Result<Arrays> {
    // Of the whole graph, so that a knob that it lacks is an error.
    let whole = plan(&loaded.operations, engine, knobs)?;
    let place = place_of(engine, memory);
    let computed = |plan, graph, inputs: &Arrays| {
        let mut computation = Computation::new(handle, graph, plan, inputs, place)?;
        computation.execute(handle).map_err(|failure| failure.during(&engine.name))?;
        computation.outputs(graph)
    };
    if loaded.views.all.is_empty() {
        return computed(whole, &loaded.graph, inputs);
    }
    let mut known: Values = inputs.iter().cloned().collect();
    known.extend(loaded.views.made(&loaded.graph, |uid| known.get(&uid)));
    let mut results = Arrays::new();
    for (operations, graph) in parts(handle, loaded)?.iter().flatten() {
        let plan = plan(operations, engine, &accepted(operations, engine, knobs))?;
        let written = computed(plan, graph, &inputs_of(graph, |uid| known.get(&uid)))?;
        known.extend(written.iter().cloned());
        known.extend(loaded.views.made(&loaded.graph, |uid| known.get(&uid)));
        results.extend(written);
    }
    Ok(results)
}
