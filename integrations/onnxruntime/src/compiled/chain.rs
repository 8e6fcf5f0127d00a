//! A fused node as parts that run one after the other: shapes of later ones depend on elements that earlier ones compute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::overlap::overlap;
use super::{Input, Output, Residence, Saved, Subgraph};
use crate::failure::{Failure, Result};
use crate::library::{Engines, Library};
use crate::memory::Memory;
use crate::model::{Model, ValueId};
use crate::options::Options;
use crate::threads::{Parallel, Threads};
use crate::weights::Weights;

/// Where a part finds an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An input of the node.
    Input(usize),
    /// A result of an earlier part.
    Result(usize),
}

/// A part.
struct Part {
    subgraph: Subgraph,
    reads: Vec<Source>,
    /// For each of its outputs the result, and the node's output that it is.
    writes: Vec<(usize, Option<usize>)>,
}

/// Memory for results that pass from one part to another, by result.
type Slots = Vec<Option<Memory>>;

/// A fused node.
#[derive(Default)]
pub struct Chain {
    name: String,
    /// Its nodes, if there are several parts.
    model: Model,
    parts: Vec<Part>,
    /// The number of results of all parts.
    results: usize,
    /// Memory of earlier runs.
    idle: Mutex<Vec<Slots>>,
}

/// A run's results so far.
struct Run<'a> {
    inputs: &'a [Input],
    made: Vec<Option<Input>>,
    slots: Slots,
    /// Results that are copied at the end: from, to, bytes.
    copies: Vec<(*const u8, *mut u8, usize)>,
}

/// The name of a part. Names of recordings keep no other punctuation.
fn title(name: &str, part: usize) -> String {
    format!("{name}_part{part}")
}

impl Chain {
    /// A fused node, whose nodes belong to the parts of these numbers, from 0 on.
    pub fn new(
        (name, model): (&str, Model),
        parts: &[usize],
        options: &Options,
        (library, engines, residence): (&'static Library, &Engines, Residence),
        (weights, saved): (Option<&Arc<Weights>>, Saved),
    ) -> Result<Self> {
        let place = || (library, engines.clone(), residence);
        let count = parts.iter().max().map_or(1, |last| last + 1);
        if count == 1 {
            let saved = (weights.cloned(), saved);
            let subgraph = Subgraph::new(name, model, options.clone(), place(), saved)?;
            let parts = vec![Part { subgraph, reads: vec![], writes: vec![] }];
            return Ok(Self { name: name.to_owned(), parts, ..Self::default() });
        }
        let mut chain = Self { name: name.to_owned(), model, ..Self::default() };
        let mut results: HashMap<ValueId, usize> = HashMap::new();
        for part in 0..count {
            let Model { inputs, outputs, .. } = &chain.model;
            let (own, read, written) = chain.model.part(&|at| parts.get(at) == Some(&part));
            let from = |id: &ValueId| match results.get(id) {
                Some(result) => Ok(Source::Result(*result)),
                None => inputs.iter().position(|of| of == id).map(Source::Input).ok_or(()),
            };
            let reads = read.iter().map(from).collect::<std::result::Result<_, ()>>();
            let reads = reads.map_err(|()| Failure::ep(format!("subgraph {name}: an input is unknown")))?;
            let first = results.len();
            let writes = written
                .iter()
                .enumerate()
                .map(|(at, id)| (first + at, outputs.iter().position(|output| output == id)));
            let writes = writes.collect();
            results.extend(written.iter().enumerate().map(|(at, id)| (*id, first + at)));
            let title = title(name, part);
            let saved = (weights.cloned(), saved.clone());
            let subgraph = Subgraph::new(&title, own, options.clone(), place(), saved)?;
            chain.parts.push(Part { subgraph, reads, writes });
        }
        chain.results = results.len();
        Ok(chain)
    }

    /// The name of the fused node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its nodes.
    pub fn model(&self) -> &Model {
        match self.parts.as_slice() {
            [only] => only.subgraph.model(),
            _ => &self.model,
        }
    }

    /// How the engine borrows the session's threads, if it computes on those.
    pub fn threads(&self) -> Option<Threads> {
        self.parts.first()?.subgraph.threads()
    }

    /// The engine's threads for loops between executions, and the most of them; 0 for all.
    pub fn loops(&self) -> (Option<Threads>, usize) {
        self.parts.first().map_or((None, 0), |part| part.subgraph.loops())
    }

    /// Where ONNX Runtime keeps its tensors.
    pub fn residence(&self) -> Residence {
        self.parts.first().map_or(Residence::Host, |part| part.subgraph.residence())
    }

    /// The existing plans as bytes, each with the text of its graph.
    pub fn plans(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(part.subgraph.plans()?);
        }
        Ok(all)
    }

    /// Executes the node. `output` makes output `at` with its dimensions, and returns its memory; `parallel` has threads for the
    /// provider's own computations.
    ///
    /// # Safety
    /// The inputs' memory has as many elements as their dimensions say, and so does the memory that `output` returns.
    pub unsafe fn execute(
        &self,
        inputs: &[Input],
        parallel: Parallel<'_>,
        mut output: impl FnMut(usize, &[i64]) -> Result<Output>,
    ) -> Result<()> {
        if let [Part { subgraph, .. }] = self.parts.as_slice() {
            // SAFETY: inputs and outputs have as many elements as this function requires.
            return unsafe { subgraph.execute(inputs, parallel, output) };
        }
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = idle().pop().unwrap_or_else(|| (0..self.results).map(|_| None).collect());
        let made = vec![None; self.results];
        let mut run = Run { inputs, made, slots, copies: Vec::new() };
        // SAFETY: inputs and outputs have as many elements as this function requires.
        let result = unsafe { self.run(&mut run, parallel, &mut output) };
        idle().push(run.slots);
        result
    }

    /// # Safety
    /// The same as for `execute`.
    unsafe fn run(
        &self,
        run: &mut Run<'_>,
        parallel: Parallel<'_>,
        output: &mut impl FnMut(usize, &[i64]) -> Result<Output>,
    ) -> Result<()> {
        let missing = || Failure::ep(format!("subgraph {}: an input is absent", self.name));
        for (place, Part { subgraph, reads, writes }) in self.parts.iter().enumerate() {
            let find = |from: &Source| match from {
                Source::Input(at) => run.inputs.get(*at).cloned(),
                Source::Result(at) => run.made.get(*at).cloned().flatten(),
            };
            let own = reads.iter().map(find).collect::<Option<Vec<_>>>().ok_or_else(missing)?;
            let make = |at: usize, dims: &[i64]| {
                let (result, of_node) = writes.get(at).copied().ok_or_else(missing)?;
                let id = subgraph.model().outputs.get(at).and_then(|id| subgraph.model().values.get(*id));
                let mut made = Input {
                    dims: dims.to_vec(),
                    element: id.and_then(|value| value.element),
                    data: std::ptr::null(),
                    is_on_gpu: false,
                };
                let bytes = made.bytes();
                let memory = of_node.map(|at| output(at, dims)).transpose()?;
                let is_read_later = |memory: &Output| {
                    let later =
                        self.parts.get(place + 1..).unwrap_or(&[]).iter().flat_map(|part| &part.reads);
                    let inputs = later.filter_map(|from| match from {
                        Source::Input(at) => run.inputs.get(*at),
                        Source::Result(_) => None,
                    });
                    let target = (memory.data.cast_const(), bytes);
                    inputs.into_iter().any(|input| overlap((input.data, input.bytes()), target))
                };
                let own = match memory {
                    Some(memory) if !is_read_later(&memory) => memory,
                    other => {
                        let slot = run.slots.get_mut(result).ok_or_else(missing)?;
                        let room = match slot.take() {
                            Some(room) if room.bytes() >= bytes => room,
                            _ => Memory::new(bytes)?,
                        };
                        let data = slot.insert(room).as_ptr();
                        if let Some(to) = other {
                            run.copies.push((data, to.data.cast(), bytes));
                        }
                        Output { data: data.cast(), is_on_gpu: false }
                    }
                };
                made.data = own.data;
                if let Some(to) = run.made.get_mut(result) {
                    *to = Some(made);
                }
                Ok(own)
            };
            // SAFETY: inputs and outputs have as many elements as this function requires, and so do results of earlier parts, which live
            // in outputs and slots until the run ends.
            unsafe { subgraph.execute(&own, parallel, make) }?;
        }
        for (from, to, bytes) in run.copies.drain(..) {
            // SAFETY: both have this many bytes; slots are the provider's own memory, so they do not overlap an output.
            unsafe { to.copy_from_nonoverlapping(from, bytes) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiled::record::plain_name;

    #[test]
    fn recordings_of_parts_have_names_of_their_own() {
        let names = |at: usize| {
            let name = format!("HipDNNExecutionProvider_HipDNN_{at}");
            [plain_name(&title(&name, 2)), plain_name(&name)]
        };
        let all: std::collections::HashSet<String> = (0..40).flat_map(names).collect();
        assert_eq!(all.len(), 80);
        assert!(all.contains("HipDNN_1_part2"), "{all:?}");
    }
}
