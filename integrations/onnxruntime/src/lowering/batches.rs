//! Products of many matrices in one call: a library steps through its batch by one stride for each operand, so that heads of attention, a
//! part of each row, take a call for every sequence or for every head, unless they are copied side by side first.

use hipdnn::graph::Operation;

use super::program::{Program, Step};
use super::view::{View, elements};

/// Seconds of a call, and of a copy besides those for its bytes, with what passes before the next one on an H200; bytes that a copy moves in a
/// second.
const CALL: f64 = 6e-6;
const COPY: f64 = 3.5e-6;
const MOVED: f64 = 2e12;

/// How many calls a product of matrices with these dimensions and strides takes; 1 where some matrices of an axis share an operand, but not
/// all.
pub fn calls<const N: usize>(matrices: [(&[i64], &[i64]); N]) -> i64 {
    let rank = matrices.iter().map(|(dims, _)| dims.len()).max().unwrap_or(0);
    // Sizes of the batch, outermost first, each with its strides.
    let mut axes: Vec<(i64, [i64; N])> = Vec::new();
    for axis in 0..rank.saturating_sub(2) {
        let sizes = matrices.map(|(dims, _)| dims.get(axis).copied().unwrap_or(1));
        let size = sizes.iter().copied().max().unwrap_or(1);
        if sizes.iter().any(|other| *other != size && *other != 1) {
            return 1;
        }
        // A single matrix is read again.
        let strides = matrices.map(|(dims, strides)| match dims.get(axis) {
            Some(of) if *of == size => strides.get(axis).copied().unwrap_or(0),
            _ => 0,
        });
        match axes.last_mut() {
            _ if size <= 1 => {}
            Some((outer, own)) if own.iter().zip(&strides).all(|(outer, inner)| *outer == inner * size) => {
                *outer *= size;
                *own = strides;
            }
            _ => axes.push((size, strides)),
        }
    }
    // Rows that continue in the next matrix are those of a larger one, if both are multiplied with the same.
    let mut rows = matrices.map(|(dims, _)| dims.iter().rev().nth(1).copied().unwrap_or(1));
    while let Some((size, own)) = axes.last() {
        let row = matrices.map(|(_, strides)| strides.iter().rev().nth(1).copied().unwrap_or(0));
        let continues = |at: usize| match (own.get(at), rows.get(at), row.get(at)) {
            (Some(step), Some(rows), Some(row)) => rows * row == *step,
            _ => false,
        };
        if own.get(1) != Some(&0) || !continues(0) || !continues(2) {
            break;
        }
        rows.iter_mut().for_each(|rows| *rows *= size);
        axes.pop();
    }
    let longest = axes.iter().map(|(size, _)| *size).max().unwrap_or(1);
    axes.iter().map(|(size, _)| *size).product::<i64>() / longest
}

/// Seconds of a product of such matrices besides those for its operations: calls, or copies of operands and one call.
pub fn seconds_of_calls<const N: usize>(matrices: [(&[i64], &[i64]); N], element: usize) -> f64 {
    let uneven = matrices.iter().filter(|of| calls([**of]) > 1);
    let copies: f64 = uneven.map(|(dims, _)| copy(elements(dims), element)).sum();
    (calls(matrices) as f64 * CALL).min(CALL + copies)
}

/// Seconds of a copy of elements of a size.
fn copy(elements: i64, size: usize) -> f64 {
    COPY + 2.0 * elements as f64 * size as f64 / MOVED
}

fn calls_of(views: [&View; 3]) -> i64 {
    calls(views.map(|view| (view.dims.as_slice(), view.strides.as_slice())))
}

/// Whether one stride covers the matrices of a view.
fn is_even(view: &View) -> bool {
    calls([(view.dims.as_slice(), view.strides.as_slice())]) == 1
}

impl Program {
    /// The program with copies of operands of products, where these take less time than calls for each part of a batch.
    pub(super) fn batched(&self) -> Result<Self, String> {
        let mut batched = self.clone();
        batched.steps.clear();
        for step in &self.steps {
            let Step::Node { label, operation: operation @ Operation::Matmul(of), compute } = step else {
                batched.steps.push(step.clone());
                continue;
            };
            let views = [of.a, of.b, of.c].map(|id| self.view(id));
            let uneven = match views {
                [Some(a), Some(b), Some(c)] => worth_copying([a, b, c]),
                _ => Vec::new(),
            };
            let mut own = operation.clone();
            let mut behind = Vec::new();
            for view in uneven {
                let copy = batched.side_by_side(view);
                let (id, tensor) = (batched.tensor(view), batched.tensor(&copy));
                own.for_each_tensor(|uid| *uid = if *uid == id { tensor } else { *uid });
                if id == of.c {
                    behind.push((copy, view));
                } else {
                    batched.copy(view, &copy)?;
                }
            }
            batched.steps.push(Step::Node { label: label.clone(), operation: own, compute: *compute });
            for (from, to) in behind {
                batched.copy(&from, to)?;
            }
        }
        Ok(batched)
    }

    /// A new tensor with matrices side by side, each in its order.
    fn side_by_side(&mut self, view: &View) -> View {
        let is_turned = view.strides.last() != Some(&1);
        let turned = view.transposed().filter(|turned| is_turned && turned.strides.last() == Some(&1));
        let dims = turned.as_ref().map_or(&view.dims, |turned| &turned.dims);
        let copy = View::packed(self.scratch(view.element, dims), view.element, dims);
        turned.and_then(|_| copy.transposed()).unwrap_or(copy)
    }
}

/// The operands and the result whose matrices are worth a copy each.
fn worth_copying(views: [&View; 3]) -> Vec<&View> {
    let mut uneven: Vec<&View> = Vec::new();
    for view in views {
        // An operand may be both.
        if !is_even(view) && !uneven.contains(&view) {
            uneven.push(view);
        }
    }
    let copy = |view: &&View| copy(view.elements(), view.element.size());
    let saved = (calls_of(views) - 1) as f64 * CALL;
    if uneven.iter().map(copy).sum::<f64>() < saved { uneven } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::operation::Matmul;

    use super::*;
    use crate::model::Element;

    /// A view of [B, S, H, D] as [B, H, S, D].
    fn heads(buffer: usize, [batch, rows, count, size]: [i64; 4]) -> View {
        let view = View::packed(buffer, Element::Half, &[batch, rows, count, size]);
        view.permuted(&[0, 2, 1, 3]).unwrap()
    }

    fn of_packed(dims: &[i64]) -> View {
        View::packed(2, Element::Half, dims)
    }

    #[test]
    fn neighbours_of_one_stride_are_one_call() {
        let c = of_packed(&[8, 12, 128, 128]);
        let (q, k) = (heads(0, [8, 128, 12, 64]), heads(1, [8, 128, 12, 64]).transposed().unwrap());
        assert_eq!(calls_of([&q, &k, &c]), 8);
        let (q, k) = (of_packed(&[8, 12, 128, 64]), of_packed(&[8, 12, 64, 128]));
        assert_eq!(calls_of([&q, &k, &c]), 1);
        // One sequence, and weights of all.
        let (q, k) = (heads(0, [1, 128, 12, 64]), heads(1, [1, 128, 12, 64]).transposed().unwrap());
        assert_eq!(calls_of([&q, &k, &of_packed(&[1, 12, 128, 128])]), 1);
        let shared = of_packed(&[1, 1, 64, 128]);
        assert_eq!(calls_of([&of_packed(&[8, 12, 128, 64]), &shared, &c]), 1);
        assert_eq!(calls_of([&heads(0, [8, 128, 12, 64]), &shared, &c]), 8);
        // Rows of 12 of 16 heads.
        let [a, c] = [64, 128].map(|size| of_packed(&[8, 16, 128, size]).sliced(1, 0, 1, 12).unwrap());
        assert_eq!(calls_of([&a, &shared, &c]), 1);
        // Each of two matrices for six heads.
        assert_eq!(calls_of([&a, &of_packed(&[8, 2, 64, 128]), &c]), 1);
    }

    #[test]
    fn an_operand_that_is_both_is_copied_once() {
        let x = heads(0, [8, 64, 12, 64]);
        let c = of_packed(&[8, 12, 64, 64]);
        assert_eq!(worth_copying([&x, &x, &c]), [&x]);
    }

    #[test]
    fn heads_are_copied_where_calls_take_longer() {
        let steps = |sizes: [i64; 4]| {
            let [batch, rows, count, _] = sizes;
            let mut program = Program::default();
            for _ in 0..2 {
                program.input(Element::Half, &sizes, false);
            }
            let scores = [batch, count, rows, rows];
            let c = View::packed(program.scratch(Element::Half, &scores), Element::Half, &scores);
            let views = [heads(0, sizes), heads(1, sizes).transposed().unwrap(), c];
            let [a, b, c] = views.each_ref().map(|view| program.tensor(view));
            program.node("scores", Matmul { a, b, c }.into()).unwrap();
            let batched = program.batched().unwrap();
            for step in &batched.steps {
                let Step::Node { operation: Operation::Matmul(of), .. } = step else { continue };
                let now = [of.a, of.b, of.c].map(|id| batched.view(id).unwrap());
                assert!(now.iter().zip(&views).all(|(view, before)| view.dims == before.dims), "{now:?}");
                // Keys stay contiguous along their elements.
                assert_eq!(now[1].strides[2], 1, "{now:?}");
                assert_eq!(calls_of(now) == 1, batched.steps.len() == 3, "{now:?}");
            }
            let name = |step: &Step| match step {
                Step::Node { label, .. } => label.name.clone(),
                Step::Host { host, .. } => format!("{host:?}"),
            };
            batched.steps.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(steps([8, 128, 12, 64]), ["copy", "copy", "scores"]);
        // Two calls, or copies of 400 MB.
        assert_eq!(steps([2, 128, 12, 64]), ["scores"]);
        assert_eq!(steps([8, 16384, 12, 64]), ["scores"]);
    }
}
