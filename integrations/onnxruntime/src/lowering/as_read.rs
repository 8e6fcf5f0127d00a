//! Moves cheap operations into the shape in which their results are read.
//!
//! A graph's tensor has one shape, so reading it in another shape divides a program into two graphs that communicate through memory.
//! It is better to repeat dequantization behind the bytes, in the graph that reads its result, and likewise every pointwise
//! operation whose result gets leading ones.

use hipdnn::graph::operation::Pointwise;
use hipdnn::graph::{Operation, PointwiseMode};

use super::View;
use super::plan::pointwise;
use super::program::{Kind, Operand, Program, Step};
use crate::hash::Map;
use crate::model::Element;

/// The state while steps are visited in order.
#[derive(Default)]
struct Known {
    /// The pointwise operations that are the only writers of their buffers, by their steps.
    makers: Map<usize, Option<usize>>,
    /// Earlier copies, by view.
    again: Map<View, i64>,
}

impl Program {
    /// Inserts such operations before the steps that read their results in another shape.
    pub(super) fn compute_as_read(&mut self) {
        let mut known = Known::default();
        for mut step in std::mem::take(&mut self.steps) {
            if let Step::Node { operation, .. } = &mut step {
                for id in operands(operation) {
                    *id = self.read(*id, &mut known).unwrap_or(*id);
                }
            }
            let made = pointwise(&step).map(|_| self.steps.len());
            for buffer in step.tensors().1.into_iter().filter_map(|id| Some(self.view(id)?.buffer)) {
                known.makers.entry(buffer).and_modify(|made| *made = None).or_insert(made);
            }
            self.steps.push(step);
        }
    }

    /// A tensor with the elements of another one, but computed in its shape; none if unnecessary or impossible.
    fn read(&mut self, id: i64, known: &mut Known) -> Option<i64> {
        let view = self.view(id)?;
        if let Some(own) = known.again.get(view) {
            return Some(*own);
        }
        let step = self.steps.get((*known.makers.get(&view.buffer)?)?)?;
        let Step::Node { label, operation: Operation::Pointwise(operation), compute } = step else {
            return None;
        };
        let whole = self.view(operation.out_0)?;
        let is_scratch = matches!(self.buffers.get(view.buffer)?.kind, Kind::Scratch);
        if whole == view || !is_scratch || !whole.is_packed() || whole.elements() != view.elements() {
            return None;
        }
        let (view, whole) = (view.clone(), whole.clone());
        let (label, operation, compute) = (label.clone(), operation.clone(), *compute);
        let ones = view.rank().saturating_sub(whole.rank());
        let (front, back) = view.dims.split_at(ones);
        let is_wider = ones > 0 && front.iter().all(|dim| *dim == 1) && whole.dims == back;
        let maker = |buffer: usize| pointwise(self.steps.get((*known.makers.get(&buffer)?)?)?);
        (is_wider || self.is_of_bytes(&operation, &maker)).then_some(())?;
        let mut again = operation.clone();
        for operand in [Some(&mut again.in_0), again.in_1.as_mut(), again.in_2.as_mut()].into_iter().flatten()
        {
            *operand = match self.get(*operand)?.clone() {
                Operand::Number(value, _) => self.operand(Operand::Number(value, view.rank().max(1))),
                Operand::View(of) => {
                    let own = seen(&of, &whole, &view)?;
                    let own = self.tensor(&own);
                    self.read(own, known).unwrap_or(own)
                }
            };
        }
        let to = View::packed(self.scratch(view.element, &view.dims), view.element, &view.dims);
        let again_id = self.tensor(&to);
        again.out_0 = again_id;
        known.again.insert(view, again_id);
        known.makers.insert(to.buffer, None);
        self.steps.push(Step::Node { label, operation: (*again).into(), compute });
        Some(again_id)
    }

    /// Whether the operation is part of dequantization. `maker` returns the only operation that writes a buffer.
    pub(super) fn is_of_bytes<'a>(
        &self,
        operation: &Pointwise,
        maker: &dyn Fn(usize) -> Option<&'a Pointwise>,
    ) -> bool {
        if !matches!(operation.operation, PointwiseMode::Sub | PointwiseMode::Mul) {
            return false;
        }
        self.view(operation.in_0).is_some_and(|view| {
            matches!(view.element, Element::Int8 | Element::Uint8)
                || maker(view.buffer).is_some_and(|made| self.is_of_bytes(made, maker))
        })
    }
}

/// The operands that can be computed in another shape.
fn operands(operation: &mut Operation) -> Vec<&mut i64> {
    match operation {
        Operation::Pointwise(of) => {
            [Some(&mut of.in_0), of.in_1.as_mut(), of.in_2.as_mut()].into_iter().flatten().collect()
        }
        Operation::Matmul(of) => vec![&mut of.a, &mut of.b],
        Operation::ConvolutionForward(of) => vec![&mut of.x, &mut of.w],
        Operation::ConvolutionBackwardData(of) => vec![&mut of.dy, &mut of.w],
        Operation::Layernorm(of) => vec![&mut of.x, &mut of.scale, &mut of.bias],
        Operation::Reduction(of) => vec![&mut of.in_],
        Operation::ResampleForward(of) => vec![&mut of.x],
        _ => Vec::new(),
    }
}

/// An operand of an operation, viewed to match another view of the result, `whole`.
fn seen(operand: &View, whole: &View, view: &View) -> Option<View> {
    if operand.dims == whole.dims && operand.is_packed() {
        let offset = operand.offset + view.offset - whole.offset;
        let (dims, strides) = (view.dims.clone(), view.strides.clone());
        return Some(View { offset, dims, strides, ..operand.clone() });
    }
    if operand.elements() == 1 {
        return operand.reshaped(&vec![1; view.rank()]);
    }
    // The dimensions of the result, permuted and with other ones between.
    let wide = operand.expanded(&whole.dims).filter(|_| view.offset == whole.offset)?;
    let ones = whole.rank() - operand.rank();
    let (mut dims, mut strides) = (Vec::new(), Vec::new());
    for (dim, stride) in view.dims.iter().zip(&view.strides) {
        let is_own = |at: &usize| (whole.dims.get(*at), whole.strides.get(*at)) == (Some(dim), Some(stride));
        let at = if *dim == 1 { None } else { Some((0..whole.rank()).find(is_own)?) };
        let own = at.and_then(|at| operand.dims.get(at.checked_sub(ones)?).copied()).unwrap_or(1);
        dims.push(own);
        strides.push(at.filter(|_| own > 1).and_then(|at| wide.strides.get(at).copied()).unwrap_or(1));
    }
    (super::elements(&dims) == operand.elements()).then(|| View {
        dims: dims.into(),
        strides: strides.into(),
        ..operand.clone()
    })
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::DataType;
    use hipdnn::graph::operation::Matmul;

    use super::*;
    use crate::lowering::{Work, packed};

    fn pointwise(program: &mut Program, mode: PointwiseMode, a: &View, b: &View, dims: &[i64]) -> View {
        let to = View::packed(program.scratch(Element::Float, dims), Element::Float, dims);
        let [a, b, out] = [a, b, &to].map(|view| program.tensor(view));
        program.node("", Pointwise::new(mode, a, Some(b), out).into()).unwrap();
        to
    }

    /// The product of x, [2, 3], with byte weights, [4, 3], that are dequantized and then transposed.
    #[test]
    fn weights_are_dequantized_in_the_graph_that_reads_them_transposed() {
        let mut program = Program::default();
        let mut input = |element, dims: &[i64], is_constant| {
            View::packed(program.input(element, dims, is_constant), element, dims)
        };
        let x = input(Element::Float, &[2, 3], false);
        let w = input(Element::Int8, &[4, 3], true);
        let [zero, scale] = [Element::Int8, Element::Float].map(|element| input(element, &[4, 1], true));
        let numbers = pointwise(&mut program, PointwiseMode::Sub, &w, &zero, &[4, 3]);
        let numbers = pointwise(&mut program, PointwiseMode::Mul, &numbers, &scale, &[4, 3]);
        let y = View::packed(program.scratch(Element::Float, &[2, 4]), Element::Float, &[2, 4]);
        let [a, b, c] = [x, numbers.transposed().unwrap(), y.clone()].map(|view| program.tensor(&view));
        program.node("", Matmul { a, b, c }.into()).unwrap();
        program.finish(&[y]).unwrap();
        let graphs = program.divide("").unwrap();
        let [stage] = graphs.stages.as_slice() else { panic!("{} stages", graphs.stages.len()) };
        let Work::Graph { graph, constant_weights, .. } = &stage.work else { panic!("no graph") };
        assert!(*constant_weights);
        let of = |dims: &[i64], kind: DataType| {
            let mut found =
                graph.tensors.iter().filter(|tensor| tensor.dims == dims && tensor.data_type == kind);
            found.next().map(|tensor| tensor.strides.clone())
        };
        assert_eq!(of(&[3, 4], DataType::Int8), Some(vec![1, 3]));
        assert_eq!(of(&[1, 4], DataType::Float), Some(vec![1, 1]));
        assert_eq!(of(&[3, 4], DataType::Float), Some(packed(&[3, 4]).to_vec()));
    }
}
