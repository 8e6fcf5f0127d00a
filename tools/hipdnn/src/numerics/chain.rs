//! The nodes of a graph one after the other: as an engine computes them, and exactly.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::computation::{Arrays, Computation, Loaded, place_of, plan, settings};
use crate::double;
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Node};
use crate::tensor::{Array, Place};
use hipdnn::{EngineInfo, Handle};

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
    text: Value,
    kept: HashSet<i64>,
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
        Ok(Self { handle, engine, knobs, memory, graph: &loaded.graph, text, kept })
    }

    /// Whether a node is computed in double precision.
    pub fn is_exact(&self, node: &Node) -> bool {
        !node.outputs.iter().any(|port| self.kept.contains(&port.uid))
    }

    /// What a node and those after it write in double precision, from what the nodes before wrote.
    pub fn exactly_from(&self, first: usize, values: &Values) -> Result<Values> {
        let all = first..self.graph.nodes.len();
        if all.is_empty() {
            return Ok(Values::new());
        }
        self.exactly(double::part(self.graph, &self.text, all), values)
    }

    /// What a node writes in double precision.
    pub fn exactly_one(&self, place: usize, values: &Values) -> Result<Values> {
        self.exactly(double::part(self.graph, &self.text, place..place + 1), values)
    }

    /// What a sum writes in double precision if each of its terms is positive.
    pub fn sizes_of_terms(&self, place: usize, values: &Values) -> Result<Values> {
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
        let sizes = |array: &Array| Array {
            dims: array.dims.clone(),
            values: array.values.iter().map(|value| value.abs()).collect(),
        };
        self.exactly(part, &values.iter().map(|(uid, array)| (*uid, sizes(array))).collect())
    }

    fn exactly(&self, part: Option<Value>, values: &Values) -> Result<Values> {
        let mut part = part.ok_or_else(|| Failure::work("a node of the graph is missing in its JSON"))?;
        double::widen(&mut part, &self.kept, |_| true)?;
        let inputs = inputs_of(&Graph::from_json(&part.to_string())?, values);
        let results = double::exactly(self.handle, &part, &inputs);
        let results = results.map_err(|failure| failure.during("in double precision"))?;
        Ok(results.into_iter().collect())
    }

    /// What the engine's plan of one node writes.
    pub fn by_engine(&self, place: usize, values: &Values) -> Result<Values> {
        let part = double::part(self.graph, &self.text, place..place + 1)
            .ok_or_else(|| Failure::work("a node of the graph is missing in its JSON"))?;
        let (operations, graph) = double::load(self.handle, &part)?;
        // Knobs of the whole graph's plan that this one has, too.
        let has = |knob: &&String| settings(&operations, self.engine, &[(*knob).clone()]).is_ok();
        let knobs: Vec<String> = self.knobs.iter().filter(has).cloned().collect();
        let plan = plan(&operations, self.engine, &knobs)?;
        let inputs = inputs_of(&graph, values);
        let place = place_of(self.engine, self.memory);
        let mut computation = Computation::new(self.handle, &graph, plan, &inputs, place)?;
        computation.execute(self.handle)?;
        Ok(computation.outputs(&graph)?.into_iter().collect())
    }
}

/// The values of what a graph reads.
fn inputs_of(graph: &Graph, values: &Values) -> Arrays {
    let read = graph.bound().filter(|tensor| graph.producer(tensor.uid).is_none());
    read.filter_map(|tensor| Some((tensor.uid, values.get(&tensor.uid)?.clone()))).collect()
}
