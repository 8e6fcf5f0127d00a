//! Results of a program in the layout in which they leave it.
//!
//! Convolutions of bytes write channels last, as the next one reads them. Where there is no next one, the convolution and what follows
//! it write the output's own layout: changing it afterwards takes longer than a small convolution.

use hipdnn::graph::Operation;
use hipdnn::graph::operation::Pointwise;

use super::View;
use super::plan::{Use, pointwise};
use super::program::{Kind, Operand, Program, Step};
use super::view::packed;
use crate::hash::{Map, Set};

impl Program {
    /// Changes the layout of images with channels last that nothing but outputs reads, back to their convolutions; and the outputs' views.
    pub(super) fn write_as_outputs(&mut self, outputs: &mut [View]) {
        if !outputs.iter().any(View::is_channels_last) {
            return;
        }
        let uses = self.uses();
        for at in 0..outputs.len() {
            let Some(view) = outputs.get(at).filter(|view| view.is_channels_last()).cloned() else {
                continue;
            };
            let Some(changed) = self.behind(&view, &uses) else { continue };
            let buffers: Set<usize> = changed.iter().filter_map(|id| Some(self.view(*id)?.buffer)).collect();
            for id in changed {
                self.pack(id);
            }
            for view in outputs.iter_mut().filter(|view| buffers.contains(&view.buffer)) {
                view.strides = packed(&view.dims);
            }
        }
    }

    /// The tensors between an output and its convolutions, if only they read each other.
    fn behind(&self, output: &View, uses: &Map<usize, Use>) -> Option<Set<i64>> {
        let (mut found, mut rest) = (Set::default(), vec![self.id_of(output)?]);
        while let Some(id) = rest.pop() {
            let view = self.view(id)?;
            let buffer = self.buffers.get(view.buffer)?;
            let is_whole = view.offset == 0 && view.elements() == buffer.elements && view.is_channels_last();
            let [(writer, written)] = uses.get(&view.buffer)?.writers.as_slice() else { return None };
            if !is_whole || *written != id || !matches!(buffer.kind, Kind::Scratch) {
                return None;
            }
            if !found.insert(id) {
                continue;
            }
            let step = self.steps.get(*writer)?;
            match step {
                Step::Node { operation: Operation::ConvolutionForward(of), .. } => {
                    self.may_write_packed(of.x, uses).then_some(())?;
                }
                _ => {
                    pointwise(step)?;
                    let operands = step.tensors().0.into_iter();
                    rest.extend(operands.filter(|id| self.view(*id).is_some_and(View::is_channels_last)));
                }
            }
        }
        // Others would read the elements in another order than they are read in now.
        let is_known = |(at, read): &(usize, i64)| {
            found.contains(read)
                && self
                    .steps
                    .get(*at)
                    .is_some_and(|step| step.tensors().1.iter().all(|id| found.contains(id)))
        };
        let all = found.iter().all(|id| {
            let of = self.view(*id).and_then(|view| uses.get(&view.buffer));
            of.is_some_and(|of| of.readers.iter().all(is_known))
        });
        all.then_some(found)
    }

    /// Whether a convolution of an image writes any layout as fast: one that is not channels last, or of bytes.
    fn may_write_packed(&self, x: i64, uses: &Map<usize, Use>) -> bool {
        let maker = |buffer: usize| -> Option<&Pointwise> {
            match uses.get(&buffer)?.writers.as_slice() {
                [(at, _)] => pointwise(self.steps.get(*at)?),
                _ => None,
            }
        };
        let Some(view) = self.view(x) else { return false };
        !view.is_channels_last() || maker(view.buffer).is_some_and(|of| self.is_of_bytes(of, &maker))
    }

    /// Packs a tensor.
    fn pack(&mut self, id: i64) {
        let Some(mut view) = self.view(id).cloned() else { return };
        self.forget(&view);
        view.strides = packed(&view.dims);
        self.replace(id, Operand::View(view));
    }
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::PointwiseMode;
    use hipdnn::graph::operation::ConvolutionForward;

    use super::*;
    use crate::lowering::Work;
    use crate::model::Element;

    const DIMS: [i64; 4] = [1, 8, 5, 5];

    /// A convolution whose result is channels last, and its ReLU; a second one reads that if there is a `next`.
    fn strides(has_next: bool) -> Vec<Vec<i64>> {
        let mut program = Program::default();
        let input = |program: &mut Program, dims: &[i64]| {
            View::packed(program.input(Element::Float, dims, false), Element::Float, dims)
        };
        let (x, w) = (input(&mut program, &DIMS), input(&mut program, &[8, 8, 1, 1]));
        let last = |program: &mut Program| {
            let order = View::packed(program.scratch(Element::Float, &DIMS), Element::Float, &[1, 5, 5, 8]);
            order.permuted(&[0, 3, 1, 2]).unwrap()
        };
        let conv = |program: &mut Program, x: &View| {
            let to = last(program);
            let [x, w, y] = [x, &w, &to].map(|view| program.tensor(view));
            program.node("conv", ConvolutionForward::new(x, w, y, 2).into()).unwrap();
            to
        };
        let sum = conv(&mut program, &x);
        let y = last(&mut program);
        let [from, to] = [&sum, &y].map(|view| program.tensor(view));
        program.node("relu", Pointwise::new(PointwiseMode::ReluFwd, from, None, to).into()).unwrap();
        let mut outputs = vec![y.clone()];
        if has_next {
            outputs.push(conv(&mut program, &y));
        }
        program.finish(&outputs).unwrap();
        let graphs = program.divide("").unwrap();
        let [stage] = graphs.stages.as_slice() else { panic!("{} stages", graphs.stages.len()) };
        let Work::Graph { graph, .. } = &stage.work else { panic!("no graph") };
        assert_eq!(graph.nodes.len(), if has_next { 5 } else { 2 });
        graph.tensors.iter().filter(|of| of.dims == DIMS).map(|of| of.strides.clone()).collect()
    }

    #[test]
    fn a_result_that_only_leaves_is_written_in_its_own_layout() {
        assert!(strides(false).iter().all(|of| packed(&DIMS) == *of));
        assert!(strides(true).contains(&vec![200, 1, 40, 8]));
    }
}
