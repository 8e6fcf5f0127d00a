//! Divides a program for engines that compute a few operations at a time, such as those of GPUs: each part is a graph that an engine accepts.
//!
//! First, the steps of each model node are tried together. Then pointwise parts are fused as epilogues into the part whose result only
//! they read.

use hipdnn::graph::{Graph, Operation};

use super::plan::{Graphs, Place, Use, Work, pointwise};
use super::program::{Kind, Program, Step};
use super::view::View;
use crate::hash::Map;

/// The most operations of a part: engines refuse more, and are slow to do so.
const MOST: usize = 8;

/// Indices into [`Program::steps`], rising.
type Part = Vec<usize>;

impl Program {
    /// Divides the program into accepted graphs; single operations are not asked about. A library may multiply matrices, one batch a call, and
    /// pack images with gaps in graphs that `packs` names, more slowly than a copy.
    pub fn divide_into_parts(
        &self,
        name: &str,
        accepts: &dyn Fn(&Graph) -> bool,
        by_library: bool,
        packs: &dyn Fn(&Graph) -> bool,
    ) -> Result<Graphs, String> {
        let mut aligned = if by_library { self.batched()? } else { self.clone() };
        aligned.is_aligned = true;
        aligned.packed_where_refused(accepts, packs)?.divided(name, accepts)
    }

    fn divided(&self, name: &str, accepts: &dyn Fn(&Graph) -> bool) -> Result<Graphs, String> {
        let uses = self.uses();
        let is_accepted = |part: &[usize]| {
            part.len() <= MOST
                && self.is_graph(part, &uses)
                && self.graph_of(part, &uses).is_some_and(|graph| accepts(&graph))
        };
        let mut parts: Vec<Option<Part>> =
            self.nodes_of_the_model(&is_accepted).into_iter().map(Some).collect();
        for at in 0..parts.len() {
            while let Some((before, joined)) = self.joined(&parts, at, &uses, &is_accepted) {
                if let Some(slot) = parts.get_mut(before) {
                    *slot = None;
                }
                if let Some(slot) = parts.get_mut(at) {
                    *slot = Some(joined);
                }
            }
        }
        let mut levels = vec![0; self.steps.len()];
        for (at, part) in parts.iter().flatten().enumerate() {
            for step in part {
                let is_host = matches!(self.steps.get(*step), Some(Step::Host { .. }));
                if let Some(level) = levels.get_mut(*step) {
                    *level = 3 * at + if is_host { 2 } else { 0 };
                }
            }
        }
        self.staged(name, &uses, &levels)
    }

    /// The steps of each model node together if accepted, else one by one.
    fn nodes_of_the_model(&self, is_accepted: &dyn Fn(&[usize]) -> bool) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut at = 0;
        let name_of = |at: usize| match self.steps.get(at) {
            Some(Step::Node { label, .. }) => Some(&label.name),
            _ => None,
        };
        while at < self.steps.len() {
            let name = name_of(at);
            let same = (at..self.steps.len()).take_while(|step| name.is_some() && name_of(*step) == name);
            let all: Part = same.collect();
            match all.len() {
                0 | 1 => parts.push(vec![at]),
                _ if is_accepted(&all) => parts.push(all.clone()),
                _ => parts.extend(all.iter().map(|step| vec![*step])),
            }
            at += all.len().max(1);
        }
        parts
    }

    /// An earlier part whose only reader is the pointwise part at an index, and both fused, if that is accepted.
    fn joined(
        &self,
        parts: &[Option<Part>],
        at: usize,
        uses: &Map<usize, Use>,
        is_accepted: &dyn Fn(&[usize]) -> bool,
    ) -> Option<(usize, Part)> {
        let own = parts.get(at)?.as_ref()?;
        if !own.iter().all(|step| self.steps.get(*step).is_some_and(|step| pointwise(step).is_some())) {
            return None;
        }
        let writers = own.iter().filter_map(|step| self.steps.get(*step)).flat_map(|step| step.tensors().0);
        let writers = writers.filter_map(|id| match uses.get(&self.view(id)?.buffer)?.writers.as_slice() {
            [(writer, written)] if *written == id => Some(*writer),
            _ => None,
        });
        for writer in writers.filter(|writer| !own.contains(writer)) {
            let before =
                parts.iter().position(|part| part.as_ref().is_some_and(|part| part.contains(&writer)));
            let Some((place, part)) = before.and_then(|place| Some((place, parts.get(place)?.as_ref()?)))
            else {
                continue;
            };
            if place < at && self.is_read_by(part, own, uses) {
                let joined: Part = part.iter().chain(own).copied().collect();
                if is_accepted(&joined) {
                    return Some((place, joined));
                }
            }
        }
        None
    }

    /// Whether a part writes memory of its own, which only it and one other part read.
    fn is_read_by(&self, part: &[usize], other: &[usize], uses: &Map<usize, Use>) -> bool {
        part.iter().all(|step| {
            let Some(step @ Step::Node { .. }) = self.steps.get(*step) else { return false };
            step.tensors().1.into_iter().all(|id| {
                let Some(view) = self.view(id) else { return false };
                let buffer = self.buffers.get(view.buffer);
                let (Some(of), Some(Kind::Scratch)) = (uses.get(&view.buffer), buffer.map(|of| &of.kind))
                else {
                    return false;
                };
                of.writers.len() == 1
                    && of.readers.iter().all(|(reader, read)| {
                        *read == id && (part.contains(reader) || other.contains(reader))
                    })
            })
        })
    }

    /// Whether a part reads its results in the shape in which it writes them: a graph's tensor has one shape.
    fn is_graph(&self, part: &[usize], uses: &Map<usize, Use>) -> bool {
        let reads = part.iter().filter_map(|step| self.steps.get(*step)).flat_map(|step| step.tensors().0);
        let is_right = |id: i64| {
            let writers =
                self.view(id).and_then(|view| uses.get(&view.buffer)).map(|of| of.writers.as_slice());
            let mut own = writers.unwrap_or_default().iter().filter(|(writer, _)| part.contains(writer));
            own.all(|(_, written)| *written == id && writers.is_some_and(|writers| writers.len() == 1))
        };
        reads.into_iter().all(is_right)
    }

    /// The program with copies of operands and results that have gaps or permuted dimensions, where an operation is refused otherwise; and of
    /// images that a library would copy first, more slowly.
    fn packed_where_refused(
        &self,
        accepts: &dyn Fn(&Graph) -> bool,
        packs: &dyn Fn(&Graph) -> bool,
    ) -> Result<Self, String> {
        let uses = self.uses();
        let mut packed = self.clone();
        packed.steps.clear();
        for (at, step) in self.steps.iter().enumerate() {
            let Step::Node { label, operation, compute } = step else {
                packed.steps.push(step.clone());
                continue;
            };
            let is_loose = |id: &i64| self.view(*id).is_some_and(|view| !view.is_packed());
            let mut loose: Vec<i64> = operation.tensors().into_iter().filter(is_loose).collect();
            let is = |f: &dyn Fn(&Graph) -> bool| self.graph_of(&[at], &uses).is_some_and(|graph| f(&graph));
            if pointwise(step).is_some() || loose.is_empty() {
                loose.clear();
            } else if !is(&|graph| !accepts(graph)) {
                loose = self.image_with_gaps(operation).filter(|_| is(packs)).into_iter().collect();
            }
            if loose.is_empty() {
                packed.steps.push(step.clone());
                continue;
            }
            let mut own = operation.clone();
            let mut behind = Vec::new();
            for id in loose {
                let Some(view) = self.view(id).cloned() else { continue };
                let copy = packed.scratch(view.element, &view.dims);
                let copy = View::packed(copy, view.element, &view.dims);
                let tensor = packed.tensor(&copy);
                own.for_each_tensor(|uid| *uid = if *uid == id { tensor } else { *uid });
                if operation.outputs().contains(&id) {
                    behind.push((copy, view));
                } else {
                    packed.copy(&view, &copy)?;
                }
            }
            packed.steps.push(Step::Node { label: label.clone(), operation: own, compute: *compute });
            for (from, to) in behind {
                packed.copy(&from, &to)?;
            }
        }
        Ok(packed)
    }

    /// The image of a convolution, if it is in neither of the layouts that libraries have kernels for, such as some channels of a larger
    /// one: cuDNN copies these by transposing kernels (of ShuffleNet's 1.5 ms for 32 images on an H200, 13 of them take 0.6).
    fn image_with_gaps(&self, operation: &Operation) -> Option<i64> {
        let Operation::ConvolutionForward(of) = operation else { return None };
        let view = self.view(of.x)?;
        (!view.is_packed() && view.strides.get(1) != Some(&1)).then_some(of.x)
    }

    /// The graph of a step alone.
    pub(super) fn graph_of_step(&self, at: usize) -> Option<Graph> {
        self.graph_of(&[at], &self.uses())
    }

    /// The graph of a part, whose tensors may have any layout.
    fn graph_of(&self, part: &[usize], uses: &Map<usize, Use>) -> Option<Graph> {
        let level = |step: usize| if part.contains(&step) { 0 } else { 3 };
        let levels: Vec<usize> = (0..self.steps.len()).map(level).collect();
        let steps: Vec<&Step> = part.iter().filter_map(|step| self.steps.get(*step)).collect();
        let is_virtual = |buffer: usize| self.is_virtual(buffer, uses, &levels);
        let works = self.works(&steps, "part", uses, &is_virtual, &|_| Some(Place::Scratch(0)))?;
        works.into_iter().find_map(|work| match work {
            Work::Graph { graph, .. } => Some(*graph),
            Work::Host { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::operation::{ConvolutionForward, Matmul, Pointwise};
    use hipdnn::graph::{Node, PointwiseMode};

    use super::*;
    use crate::model::Element;

    /// y = relu(x · w + b), whose product is read as its rows or, if `is_moved`, in another shape.
    fn program(x: &View, is_moved: bool) -> Program {
        let mut program = Program::default();
        for _ in 0..3 {
            program.input(Element::Float, &[4, 4], false);
        }
        let of = |buffer| View::packed(buffer, Element::Float, &[4, 4]);
        let scratch = [0; 3].map(|_| of(program.scratch(Element::Float, &[4, 4])));
        let [product, sum, y] = &scratch;
        let read =
            if is_moved { View { strides: vec![1, 4].into(), ..product.clone() } } else { product.clone() };
        let ids = [x, &of(1), product, &read, &of(2), sum, y].map(|view| program.tensor(view));
        let [x, w, product, read, bias, sum, out] = ids;
        program.node("product", Matmul { a: x, b: w, c: product }.into()).unwrap();
        program.node("sum", Pointwise::new(PointwiseMode::Add, read, Some(bias), sum).into()).unwrap();
        program.node("relu", Pointwise::new(PointwiseMode::ReluFwd, sum, None, out).into()).unwrap();
        program.finish(std::slice::from_ref(y)).unwrap();
        program
    }

    fn x() -> View {
        View::packed(0, Element::Float, &[4, 4])
    }

    fn nodes(graphs: &Graphs) -> Vec<Vec<String>> {
        let names = |nodes: &[Node]| nodes.iter().map(|node| node.name.clone()).collect();
        let of = |work: &Work| match work {
            Work::Graph { graph, .. } => names(&graph.nodes),
            Work::Host { .. } => Vec::new(),
        };
        graphs.stages.iter().map(|stage| of(&stage.work)).collect()
    }

    #[test]
    fn what_follows_a_product_is_its_epilogue_as_far_as_it_is_accepted() {
        let parts = |most: usize| {
            let accepts = |graph: &Graph| graph.nodes.len() <= most;
            nodes(&program(&x(), false).divide_into_parts("n", &accepts, true, &|_| false).unwrap())
        };
        assert_eq!(parts(3), [["product", "sum", "relu"]]);
        assert_eq!(parts(2), [vec!["product", "sum"], vec!["relu"]]);
        assert_eq!(parts(1), [["product"], ["sum"], ["relu"]]);
        // An epilogue that is only accepted whole.
        let is_whole = |graph: &Graph| {
            let is_pointwise = |node: &Node| matches!(node.operation, Operation::Pointwise(_));
            graph.nodes.len() == 3 || graph.nodes.iter().all(is_pointwise)
        };
        let graphs = program(&x(), false).divide_into_parts("n", &is_whole, true, &|_| false).unwrap();
        assert_eq!(nodes(&graphs), [["product", "sum", "relu"]]);
    }

    #[test]
    fn what_is_read_in_another_form_is_in_memory() {
        let graphs = program(&x(), true).divide_into_parts("n", &|_| true, true, &|_| false).unwrap();
        assert_eq!(nodes(&graphs), [vec!["product"], vec!["sum", "relu"]]);
        assert!(graphs.scratch >= 64);
    }

    #[test]
    fn operands_in_an_order_that_is_refused_are_copied() {
        let turned = View { strides: vec![1, 4].into(), ..x() };
        let is_packed = |graph: &Graph| {
            let is_product = graph.nodes.iter().any(|node| matches!(node.operation, Operation::Matmul(_)));
            !is_product || graph.tensors.iter().all(|tensor| tensor.strides == [4, 1])
        };
        let graphs = program(&turned, false).divide_into_parts("n", &is_packed, true, &|_| false).unwrap();
        assert_eq!(nodes(&graphs), [vec!["copy"], vec!["product", "sum", "relu"]]);
        let all = graphs.stages.iter().filter_map(|stage| match &stage.work {
            Work::Graph { graph, .. } => Some(graph),
            Work::Host { .. } => None,
        });
        // All memory is the provider's own.
        assert!(all.flat_map(|graph| &graph.tensors).all(|tensor| tensor.alignment == 16));
    }

    #[test]
    fn some_channels_of_an_image_are_copied_for_a_library() {
        let parts = |channels: i64, packs: bool| {
            let mut program = Program::default();
            let sizes = [[2, 8, 4, 4], [channels, channels, 1, 1]];
            for dims in &sizes {
                program.input(Element::Float, dims, false);
            }
            let [image, w] = [0, 1].map(|at| View::packed(at, Element::Float, &sizes[at]));
            let x = image.sliced(1, 8 - channels, 1, channels).unwrap();
            let y = View::packed(program.scratch(Element::Float, &x.dims), Element::Float, &x.dims);
            let [x, w, out] = [&x, &w, &y].map(|view| program.tensor(view));
            let conv = ConvolutionForward::new(x, w, out, 2);
            program.node("conv", conv.into()).unwrap();
            program.finish(std::slice::from_ref(&y)).unwrap();
            nodes(&program.divide_into_parts("n", &|_| true, true, &|_| packs).unwrap())
        };
        assert_eq!(parts(4, true), [["copy"], ["conv"]]);
        assert_eq!(parts(4, false), [["conv"]]);
        assert_eq!(parts(8, true), [["conv"]]);
    }
}
