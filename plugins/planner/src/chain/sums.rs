//! Sums that the libraries compute along with a matmul: bias gradients.

use hipdnn_plugin_sdk::graph::{DataType, Operation, ReductionMode};

use super::{Activation, Builder, is_small};
use crate::prepare::CheckedNode;
use crate::problem::Problem;

/// What is summed, in the library's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Summed {
    /// Each row of the result.
    Result,
    /// Each row of the left operand.
    A,
    /// Each column of the right operand.
    B,
}

/// Sums computed along with a matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sums {
    /// What is summed.
    pub of: Summed,
    /// The type of the sums.
    pub data_type: DataType,
}

/// Sums requested by a node.
pub(super) struct Asked {
    pub(super) node: usize,
    pub(super) uid: i64,
    /// Whether the result is summed per column rather than per row of the operation's result; none for an
    /// operand.
    pub(super) by_column: Option<bool>,
    of: Summed,
    data_type: DataType,
}

impl Asked {
    /// The sums in the library's view, in which a is b if `swapped`.
    pub(super) fn seen(&self, swapped: bool) -> Sums {
        let of = match self.of {
            Summed::A if swapped => Summed::B,
            Summed::B if swapped => Summed::A,
            of => of,
        };
        Sums { of, data_type: self.data_type }
    }
}

impl Builder<'_> {
    /// The sums that the call supports: of an operand if only scalars follow the matmul, of the result behind
    /// a gradient.
    pub(super) fn sums(&self) -> Vec<Asked> {
        let small = is_small(self.matmul.a.data_type);
        let candidates = match self.activation {
            _ if self.double || small || self.bias.is_some() => Vec::new(),
            None => vec![(self.node.a, Summed::A), (self.node.b, Summed::B)],
            Some(Activation::GeluBackward) => vec![(self.result, Summed::Result)],
            Some(_) => Vec::new(),
        };
        let readers = candidates.into_iter().flat_map(|(uid, of)| {
            let readers = self.readers.get(&uid).into_iter().flatten();
            readers.filter(|reader| self.taken.get(**reader) != Some(&true)).map(move |reader| (*reader, of))
        });
        readers.filter_map(|(reader, of)| self.asked(self.prepared.node(reader)?, of)).collect()
    }

    fn asked(&self, node: CheckedNode<'_>, of: Summed) -> Option<Asked> {
        let (Operation::Reduction(operation), Problem::Reduction(reduction)) =
            (&node.node.operation, node.problem)
        else {
            return None;
        };
        let data_type = reduction.y.data_type;
        let waited_for = self.readers.get(&operation.out).is_some_and(|readers| !readers.is_empty());
        self.check_compute_type(node.node).ok()?;
        self.in_memory("out", operation.out).ok()?;
        if reduction.mode != ReductionMode::Add || data_type != self.matmul.c.data_type || waited_for {
            return None;
        }
        let dims = reduction.x.layout.dims();
        let (row, column) = (self.matmul.batch, self.matmul.batch + 1);
        if dims.len() != column + 1 {
            return None;
        }
        let is_reduced = |axis: usize| reduction.reduced.get(axis) == Some(&true);
        let is_one = |axis: usize| dims.get(axis) == Some(&1);
        // Operands are summed along K, which is a different axis of each.
        let kept = match of {
            Summed::A => row,
            Summed::B => column,
            Summed::Result if is_reduced(column) => row,
            Summed::Result => column,
        };
        let others = (0..=column).filter(|axis| *axis != kept);
        let of_factor = of != Summed::Result;
        let mut all =
            others.map(
                |axis| {
                    if of_factor && axis < row { is_one(axis) } else { is_reduced(axis) || is_one(axis) }
                },
            );
        let side_by_side = is_one(kept) || reduction.y.layout.strides().get(kept) == Some(&1);
        let fits = all.all(|fits| fits) && !is_reduced(kept) && side_by_side;
        let by_column = (of == Summed::Result).then_some(kept == column);
        fits.then_some(Asked { node: node.place, uid: operation.out, by_column, of, data_type })
    }
}
