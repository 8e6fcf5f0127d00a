//! Divides a program into stages: hipDNN graphs, and host operations between them, with memory for what passes from one to another.
//!
//! A graph's tensor has one shape, so a tensor read in another shape than written is read by a later stage. Stages with constant
//! weights are separate from those whose weights change: engines pack weights once if they are promised to be constant.

use std::collections::HashMap;
use std::sync::Arc;

use hipdnn::graph::operation::Pointwise;
use hipdnn::graph::{DataType, Graph, Node, Operation};

use super::program::{Host, Kind, Program, Step};
use super::{Dims, View};
use crate::hash::{Map, Set};
use crate::memory::Memory;
use crate::model::Element;

/// The alignment of scratch buffers.
const ALIGNMENT: usize = 64;

/// The position of a tensor, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An offset into an input.
    Input(usize, usize),
    /// An offset into an output.
    Output(usize, usize),
    /// An offset into the scratch memory.
    Scratch(usize),
    /// An offset into a buffer of the program's own data.
    Data(usize, usize),
}

/// The work of a stage.
#[derive(Debug)]
pub enum Work {
    /// hipDNN executes a graph with memory bound to the uids.
    Graph {
        /// The graph.
        graph: Box<Graph>,
        /// Its tensors with memory.
        bindings: Vec<(i64, Place)>,
        /// Whether it has weights, and all are constant.
        constant_weights: bool,
        /// For each of its nodes, the name of the model's node that it belongs to.
        origins: Vec<Arc<str>>,
    },
    /// The provider computes a host operation.
    Host {
        /// The name of the model's node that it belongs to.
        origin: Arc<str>,
        /// The operation.
        host: Host,
        /// The tensors read.
        reads: Vec<Bound>,
        /// The tensors written.
        writes: Vec<Bound>,
    },
}

/// A tensor in memory.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The position of its first element.
    pub place: Place,
    /// The type of an element.
    pub element: Element,
    /// Its dimensions.
    pub dims: Dims,
    /// The stride in elements of each dimension.
    pub strides: Dims,
}

/// A stage.
#[derive(Debug)]
pub struct Stage {
    /// What it does.
    pub work: Work,
}

/// A program ready for engines.
#[derive(Debug)]
pub struct Graphs {
    /// The stages, in order.
    pub stages: Vec<Stage>,
    /// The bytes of scratch memory.
    pub scratch: usize,
    /// The dimensions of each output.
    pub outputs: Vec<Vec<i64>>,
    /// The program's own elements, by buffer.
    pub data: HashMap<usize, Arc<Memory>>,
}

/// The kinds of levels, which alternate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Constant weights: levels 0, 3, 6, ...
    Constant,
    /// Variable weights: levels 1, 4, 7, ...
    Changing,
    /// Host operations: levels 2, 5, 8, ...
    Host,
    /// Graphs of either kind.
    Any,
}

impl Class {
    /// The first level of this kind from `least` on.
    fn level(self, least: usize) -> usize {
        let wanted = |level: &usize| match self {
            Self::Constant => level.is_multiple_of(3),
            Self::Changing => level % 3 == 1,
            Self::Host => level % 3 == 2,
            Self::Any => level % 3 != 2,
        };
        (least..least + 3).find(wanted).unwrap_or(least)
    }
}

/// The operand of an operation that an engine may pack.
pub fn weights(operation: &Operation) -> Option<i64> {
    match operation {
        Operation::ConvolutionForward(conv) => Some(conv.w),
        Operation::ConvolutionBackwardData(conv) => Some(conv.w),
        Operation::Matmul(matmul) => Some(matmul.b),
        // So that graphs with weights stay the same while the past grows.
        Operation::Sdpa(sdpa) => sdpa.seq_len_kv.map(|_| sdpa.k),
        _ => None,
    }
}

pub(super) fn pointwise(step: &Step) -> Option<&Pointwise> {
    match step {
        Step::Node { operation: Operation::Pointwise(operation), .. } => Some(operation),
        _ => None,
    }
}

/// The uses of a buffer.
#[derive(Default)]
pub(super) struct Use {
    /// The steps that write it, each with its tensor.
    pub(super) writers: Vec<(usize, i64)>,
    /// The steps that read it.
    pub(super) readers: Vec<(usize, i64)>,
}

impl Program {
    /// Divides the program.
    pub fn divide(&self, name: &str) -> Result<Graphs, String> {
        let uses = self.uses();
        let levels = self.levels(&uses);
        self.staged(name, &uses, &levels)
    }

    /// The program whose steps have levels.
    pub(super) fn staged(
        &self,
        name: &str,
        uses: &Map<usize, Use>,
        levels: &[usize],
    ) -> Result<Graphs, String> {
        let is_virtual = |buffer: usize| self.is_virtual(buffer, uses, levels);
        let (offsets, scratch) = self.place(uses, levels, &is_virtual);
        let place = |id: i64| -> Option<Place> {
            let view = self.view(id)?;
            let bytes = usize::try_from(view.offset).ok()?.checked_mul(view.element.size())?;
            Some(match &self.buffers.get(view.buffer)?.kind {
                Kind::Input(at) => Place::Input(*at, bytes),
                Kind::Output(at) => Place::Output(*at, bytes),
                Kind::Data(_) => Place::Data(view.buffer, bytes),
                Kind::Scratch => Place::Scratch(offsets.get(&view.buffer)?.checked_add(bytes)?),
            })
        };
        let mut stages = Vec::new();
        let last = levels.iter().copied().max().map_or(0, |last| last + 1);
        for level in 0..last {
            let here: Vec<&Step> =
                self.steps.iter().zip(levels).filter(|(_, of)| **of == level).map(|(step, _)| step).collect();
            let work = self.works(&here, name, uses, &is_virtual, &place);
            let work = work.ok_or("the program names a tensor that it does not have")?;
            stages.extend(work.into_iter().map(|work| Stage { work }));
        }
        let data = self.buffers.iter().enumerate().filter_map(|(at, buffer)| match &buffer.kind {
            Kind::Data(bytes) => Some((at, bytes.clone())),
            _ => None,
        });
        Ok(Graphs { stages, scratch, outputs: self.outputs.clone(), data: data.collect() })
    }

    pub(super) fn uses(&self) -> Map<usize, Use> {
        let mut uses: Map<usize, Use> = Map::default();
        for (at, step) in self.steps.iter().enumerate() {
            let (reads, writes) = step.tensors();
            for id in reads {
                if let Some(view) = self.view(id) {
                    uses.entry(view.buffer).or_default().readers.push((at, id));
                }
            }
            for id in writes {
                if let Some(view) = self.view(id) {
                    uses.entry(view.buffer).or_default().writers.push((at, id));
                }
            }
        }
        uses
    }

    /// The level of each step: at least that of its operands, and higher if they are read in another shape than written.
    fn levels(&self, uses: &Map<usize, Use>) -> Vec<usize> {
        let mut levels: Vec<usize> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let (reads, _) = step.tensors();
            let mut least = 0;
            for id in &reads {
                let mut writers = self.writers(*id, uses, levels.len());
                let (first, second) = (writers.next(), writers.next());
                for (writer, written) in first.into_iter().chain(second).chain(writers) {
                    let level = levels.get(*writer).copied().unwrap_or(0);
                    let same = written == id && second.is_none();
                    least = least.max(level + usize::from(!same));
                }
            }
            let class = match step {
                Step::Host { .. } => Class::Host,
                Step::Node { operation, .. } => match weights(operation) {
                    None => Class::Any,
                    Some(id) if self.is_constant(id, uses) => Class::Constant,
                    // Weights that the same graph computes are never prepacked.
                    Some(id) if self.is_written_at(id, least, uses, &levels) => Class::Any,
                    Some(_) => Class::Changing,
                },
            };
            levels.push(class.level(least));
        }
        self.sink(uses, &mut levels);
        levels
    }

    /// The steps before `end` that write elements of a tensor, each with the tensor that it writes.
    fn writers<'a>(
        &'a self,
        id: i64,
        uses: &'a Map<usize, Use>,
        end: usize,
    ) -> impl Iterator<Item = &'a (usize, i64)> {
        let view = self.view(id);
        let all = view.and_then(|view| uses.get(&view.buffer)).map_or(&[][..], |of| &of.writers);
        all.iter().filter(move |(writer, written)| {
            let both = view.zip(self.view(*written));
            *writer < end
                && both.is_some_and(|(view, other)| other.offset < view.end() && view.offset < other.end())
        })
    }

    /// Whether every execution finds the same elements, or computes them from such.
    fn is_constant(&self, id: i64, uses: &Map<usize, Use>) -> bool {
        let Some(view) = self.view(id) else { return self.get(id).is_some() };
        if self.buffers.get(view.buffer).is_some_and(|buffer| buffer.is_constant) {
            return true;
        }
        let written = uses.get(&view.buffer).map_or(&[][..], |of| of.writers.as_slice());
        let [(writer, same)] = written else { return false };
        *same == id && self.steps.get(*writer).is_some_and(|step| self.is_of_constants(step, uses))
    }

    /// Whether a step computes the same each time.
    fn is_of_constants(&self, step: &Step, uses: &Map<usize, Use>) -> bool {
        matches!(step, Step::Node { operation: Operation::Pointwise(_), .. })
            && step.tensors().0.iter().all(|id| self.is_constant(*id, uses))
    }

    /// Whether a step unpacks weights that are available from the beginning.
    fn unpacks_constants(&self, step: &Step) -> bool {
        let is_constant = |id: &i64| {
            let buffer = self.view(*id).and_then(|view| self.buffers.get(view.buffer));
            buffer.is_some_and(|buffer| buffer.is_constant)
        };
        matches!(step, Step::Host { host: Host::Unpack(_), reads, .. } if reads.iter().all(is_constant))
    }

    /// Moves pointwise operations to the level of their first reader, so that one graph has both: weights along with their sources,
    /// bytes rather than the numbers that they are dequantized to, and otherwise one execution less.
    fn sink(&self, uses: &Map<usize, Use>, levels: &mut [usize]) {
        for (at, step) in self.steps.iter().enumerate().rev() {
            let is_host = self.unpacks_constants(step);
            if !is_host && pointwise(step).is_none() {
                continue;
            }
            let [out] = *step.tensors().1.as_slice() else { continue };
            let readers =
                self.view(out).and_then(|view| uses.get(&view.buffer)).map_or(&[][..], |of| &of.readers);
            // Readers in another shape come later.
            if !is_host && readers.iter().any(|(_, read)| *read != out) {
                continue;
            }
            let first = readers.iter().filter_map(|(reader, _)| levels.get(*reader).copied()).min();
            // Host operations have their own levels.
            let first = if is_host {
                first.and_then(|first| (0..first).rev().find(|level| level % 3 == 2))
            } else {
                first.filter(|level| level % 3 != 2)
            };
            if let (Some(first), Some(level)) = (first, levels.get_mut(at)) {
                *level = first.max(*level);
            }
        }
    }

    fn is_written_at(&self, id: i64, level: usize, uses: &Map<usize, Use>, levels: &[usize]) -> bool {
        let of = self.view(id).and_then(|view| uses.get(&view.buffer));
        of.is_some_and(|of| matches!(of.writers.as_slice(), [(at, same)] if *same == id && levels.get(*at) == Some(&level)))
            && level % 3 != 2
    }

    /// Whether a buffer is one tensor of one graph.
    pub(super) fn is_virtual(&self, buffer: usize, uses: &Map<usize, Use>, levels: &[usize]) -> bool {
        let is_scratch = self.buffers.get(buffer).is_some_and(|buffer| matches!(buffer.kind, Kind::Scratch));
        let Some(of) = uses.get(&buffer) else { return false };
        let [(writer, id)] = of.writers.as_slice() else { return false };
        let level = levels.get(*writer).copied().unwrap_or(0);
        let here = |(at, read): &(usize, i64)| read == id && levels.get(*at) == Some(&level);
        is_scratch && level % 3 != 2 && !of.readers.is_empty() && of.readers.iter().all(here)
    }

    /// Offsets of the scratch buffers that pass from stage to stage, and their total size: memory is reused after the last
    /// stage that reads it.
    fn place(
        &self,
        uses: &Map<usize, Use>,
        levels: &[usize],
        is_virtual: &dyn Fn(usize) -> bool,
    ) -> (Map<usize, usize>, usize) {
        let level = |at: &(usize, i64)| levels.get(at.0).copied().unwrap_or(0);
        // Bytes, first level, last level, buffer; the largest first.
        let mut wanted: Vec<(usize, usize, usize, usize)> = Vec::new();
        for (at, buffer) in self.buffers.iter().enumerate() {
            let Some(of) = uses.get(&at) else { continue };
            if !matches!(buffer.kind, Kind::Scratch) || is_virtual(at) {
                continue;
            }
            let bytes = usize::try_from(buffer.elements).unwrap_or(0).saturating_mul(buffer.element.size());
            let first = of.writers.iter().map(level).min().unwrap_or(0);
            let last = of.writers.iter().chain(&of.readers).map(level).max().unwrap_or(first);
            wanted.push((bytes.next_multiple_of(ALIGNMENT), first, last, at));
        }
        wanted.sort_by_key(|(bytes, first, _, at)| (std::cmp::Reverse(*bytes), *first, *at));
        let mut placed: Vec<(usize, usize, usize, usize)> = Vec::new();
        let (mut offsets, mut end) = (Map::default(), 0);
        for (bytes, first, last, buffer) in wanted {
            let mut taken: Vec<(usize, usize)> = placed
                .iter()
                .filter(|(_, _, from, to)| *from <= last && first <= *to)
                .map(|(offset, bytes, ..)| (*offset, *bytes))
                .collect();
            taken.sort_unstable();
            let mut offset = 0;
            for (at, size) in taken {
                if offset + bytes <= at {
                    break;
                }
                offset = offset.max(at + size);
            }
            placed.push((offset, bytes, first, last));
            offsets.insert(buffer, offset);
            end = end.max(offset + bytes);
        }
        (offsets, end)
    }

    /// The work of the steps of a level: host operations one by one, or a graph.
    pub(super) fn works(
        &self,
        steps: &[&Step],
        name: &str,
        uses: &Map<usize, Use>,
        is_virtual: &dyn Fn(usize) -> bool,
        place: &dyn Fn(i64) -> Option<Place>,
    ) -> Option<Vec<Work>> {
        let mut works = Vec::new();
        let mut graph = Graph {
            name: name.to_owned(),
            compute_type: DataType::Float,
            intermediate_type: DataType::Float,
            io_type: DataType::Float,
            ..Graph::default()
        };
        let (mut bindings, mut known, mut constant_weights) = (Vec::new(), Set::default(), false);
        let mut origins = Vec::new();
        for step in steps {
            match step {
                Step::Host { origin, host, reads, writes } => {
                    let bound = |id: &i64| {
                        let View { element, dims, strides, .. } = self.view(*id)?.clone();
                        Some(Bound { place: place(*id)?, element, dims, strides })
                    };
                    let reads = reads.iter().map(bound).collect::<Option<_>>()?;
                    let writes = writes.iter().map(bound).collect::<Option<_>>()?;
                    works.push(Work::Host { origin: origin.clone(), host: host.clone(), reads, writes });
                }
                Step::Node { label, operation, compute } => {
                    constant_weights |= weights(operation).is_some_and(|id| self.is_constant(id, uses));
                    for id in operation.tensors() {
                        if !known.insert(id) {
                            continue;
                        }
                        let view = self.view(id);
                        let hidden = view.is_some_and(|view| is_virtual(view.buffer));
                        graph.tensors.push(self.as_graph_tensor(id, hidden)?);
                        if view.is_some() && !hidden {
                            bindings.push((id, place(id)?));
                        }
                    }
                    let (name, compute_type) = (label.name.clone(), *compute);
                    origins.push(label.origin.clone());
                    graph.nodes.push(Node { name, compute_type, operation: operation.clone() });
                }
            }
        }
        if !graph.nodes.is_empty() {
            works.push(Work::Graph { graph: Box::new(graph), bindings, constant_weights, origins });
        }
        Some(works)
    }
}
