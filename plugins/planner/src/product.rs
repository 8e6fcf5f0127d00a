//! A matmul in the libraries' view: column-major, with one batch dimension.

use crate::Refusal;
use crate::layout::MAX_RANK;
use crate::problem::Operand;
use crate::problem::matmul::Matmul;
use hipdnn_plugin_sdk::graph::DataType;

/// Maximum number of calls per matmul. Batch dimensions that do not merge into one with a single stride need
/// several calls.
const MAX_CALLS: usize = 1024;

/// Maximum number of matrices: both operands, the result, the summand and the auxiliary matrix.
pub const MATRICES: usize = 5;

/// A matrix, or one per batch index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The type of the elements.
    pub data_type: DataType,
    /// Whether it is transposed when read.
    pub transposed: bool,
    /// Leading dimension: the stride between columns in memory.
    pub leading: usize,
    /// Stride between the matrices of the batch.
    pub stride: usize,
}

/// c = a · b, optionally plus a summand, for every batch index. The libraries' a is the operation's b if
/// `swapped`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Rows of c in the libraries' view; elements of a column are contiguous.
    pub m: usize,
    /// Columns of c.
    pub n: usize,
    /// Length of the dot products.
    pub k: usize,
    /// The left operand, m x k.
    pub a: Matrix,
    /// The right operand, k x n.
    pub b: Matrix,
    /// The output, m x n.
    pub c: Matrix,
    /// The summand, m x n.
    pub summand: Option<Matrix>,
    /// Written by an activation that saves its input, or read by its gradient, m x n.
    pub auxiliary: Option<Matrix>,
    /// Batch size of one call.
    pub batch: usize,
    /// For each call the offsets in elements of a, b, c, the summand and the auxiliary matrix.
    pub calls: Vec<[usize; MATRICES]>,
    /// Whether rows here are the operation's columns, and a is its b.
    pub swapped: bool,
}

/// A matrix during the analysis of the shape.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    data_type: DataType,
    /// Rows and columns, with their strides.
    dims: [usize; 2],
    strides: [usize; 2],
}

/// A batch dimension: its size, and its stride in each matrix.
type Axis = (usize, [usize; MATRICES]);

/// A matrix of the result's shape, and its strides there.
pub type Spread<'a> = Option<(&'a Operand, [usize; MAX_RANK])>;

impl Product {
    /// The matmul of an operation, with a summand and an auxiliary matrix of the result's shape or broadcast
    /// over its batch dimensions. `by_column` means that a bias has (or receives) an element for each column
    /// of the operation's result, which must be the rows in the libraries' view.
    ///
    /// # Errors
    /// The first feature that the libraries do not support.
    pub fn of(matmul: &Matmul, others: [Spread<'_>; 2], by_column: Option<bool>) -> Result<Self, Refusal> {
        let batch = matmul.batch;
        let part = |name, operand: &Operand| {
            let (dims, strides) = (operand.layout.dims(), operand.layout.strides());
            Part {
                name,
                data_type: operand.data_type,
                dims: [at(dims, batch), at(dims, batch + 1)],
                strides: [at(strides, batch), at(strides, batch + 1)],
            }
        };
        let mut a = part("a", &matmul.a);
        let mut b = part("b", &matmul.b);
        let mut c = part("c", &matmul.c);
        let other = |name, other: Spread<'_>| {
            other.map(|(operand, strides)| Part {
                name,
                data_type: operand.data_type,
                dims: c.dims,
                strides: [at(&strides, batch), at(&strides, batch + 1)],
            })
        };
        let [summand, auxiliary] = others;
        let mut added = [other("the summand", summand), other("the input of the activation", auxiliary)];
        let mut axes = axes(matmul, others.map(|other| other.map(|(_, strides)| strides)))?;
        // The libraries' rows are the operation's rows if its result is column-major.
        let swapped = by_column.unwrap_or(!(c.dims[0] > 1 && c.strides[0] == 1));
        if swapped {
            std::mem::swap(&mut a, &mut b);
            for part in [&mut a, &mut b, &mut c].into_iter().chain(added.iter_mut().flatten()) {
                part.dims.swap(0, 1);
                part.strides.swap(0, 1);
            }
            for (_, strides) in &mut axes {
                strides.swap(0, 1);
            }
        }
        merge(&mut axes);
        into_columns(&mut axes, &mut b, &mut c, &mut added);
        let (batch, strides) = batch_axis(&mut axes);
        let [m, n] = c.dims;
        let k = a.dims.get(1).copied().unwrap_or(1);
        let [summand, auxiliary] = added;
        Ok(Self {
            m,
            n,
            k,
            a: a.matrix(at(&strides, 0))?,
            b: b.matrix(at(&strides, 1))?,
            c: c.plain(at(&strides, 2))?,
            summand: summand.map(|part| part.plain(at(&strides, 3))).transpose()?,
            auxiliary: auxiliary.map(|part| part.plain(at(&strides, 4))).transpose()?,
            batch,
            calls: calls(&axes)?,
            swapped,
        })
    }

    /// Whether all numbers fit 32 bits, as rocBLAS and the kernels require.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check_numbers(&self) -> Result<(), Refusal> {
        let numbers = [
            ("rows", self.m),
            ("columns", self.n),
            ("terms", self.k),
            ("matrices", self.batch),
            ("elements between columns of the left operand", self.a.leading),
            ("elements between columns of the right operand", self.b.leading),
            ("elements between columns of the result", self.c.leading),
            ("elements between columns of the summand", self.summand.map_or(0, |part| part.leading)),
            (
                "elements between columns of the input of the activation",
                self.auxiliary.map_or(0, |part| part.leading),
            ),
        ];
        match numbers.iter().find(|(_, number)| i32::try_from(*number).is_err()) {
            Some((what, number)) => Err(format!("{number} {what}, expected at most {}", i32::MAX)),
            None => Ok(()),
        }
    }
}

impl Part {
    /// The matrix, possibly transposed.
    fn matrix(&self, stride: usize) -> Result<Matrix, Refusal> {
        self.lying(false).or_else(|| self.lying(true)).map(|matrix| Matrix { stride, ..matrix }).ok_or_else(
            || {
                format!(
                    "{}: strides {:?} of {:?} rows and columns, expected 1 along one of them and no overlap along the other",
                    self.name, self.strides, self.dims
                )
            },
        )
    }

    /// The matrix untransposed, because the result cannot be written transposed.
    fn plain(&self, stride: usize) -> Result<Matrix, Refusal> {
        self.lying(false).map(|matrix| Matrix { stride, ..matrix }).ok_or_else(|| {
            format!(
                "{}: strides {:?} of {:?} rows and columns (swapped where the columns of c lie side by side), expected 1 along the first, as in c",
                self.name, self.strides, self.dims
            )
        })
    }

    /// None if the layout does not allow it. Strides along a dimension of 1 are ignored.
    fn lying(&self, transposed: bool) -> Option<Matrix> {
        let ([mut inner, mut outer], [mut step, mut leading]) = (self.dims, self.strides);
        if transposed {
            std::mem::swap(&mut inner, &mut outer);
            std::mem::swap(&mut step, &mut leading);
        }
        if outer == 1 {
            leading = inner;
        }
        let lies = (inner == 1 || step == 1) && leading >= inner;
        lies.then_some(Matrix { data_type: self.data_type, transposed, leading, stride: 0 })
    }
}

fn at(values: &[usize], place: usize) -> usize {
    values.get(place).copied().unwrap_or(0)
}

/// The batch dimensions of the matmul, outermost first. A dimension along which several indices share a
/// matrix is split.
fn axes(matmul: &Matmul, others: [Option<[usize; MAX_RANK]>; 2]) -> Result<Vec<Axis>, Refusal> {
    let mut axes = Vec::new();
    for axis in 0..matmul.batch {
        let dim = at(matmul.c.layout.dims(), axis);
        let shares = [at(&matmul.a_share, axis), at(&matmul.b_share, axis)].map(|share| share.max(1));
        let (fewer, more) = (shares[0].min(shares[1]), shares[0].max(shares[1]));
        if more % fewer != 0 {
            return Err(format!(
                "a and b: {} and {} neighbours along dimension {axis} share a matrix, expected one a multiple of the other",
                shares[0], shares[1]
            ));
        }
        // Outermost first: indices that differ by `unit` are neighbours on the axis.
        for (count, unit) in [(dim / more, more), (more / fewer, fewer), (fewer, 1)] {
            if count <= 1 {
                continue;
            }
            let step = |stride: usize, share: usize| if unit < share { 0 } else { unit / share * stride };
            let [summand, auxiliary] =
                others.map(|strides| strides.map_or(0, |strides| step(at(&strides, axis), 1)));
            axes.push((
                count,
                [
                    step(at(matmul.a.layout.strides(), axis), shares[0]),
                    step(at(matmul.b.layout.strides(), axis), shares[1]),
                    step(at(matmul.c.layout.strides(), axis), 1),
                    summand,
                    auxiliary,
                ],
            ));
        }
    }
    Ok(axes)
}

/// Merges neighbouring axes that a single stride can cover.
fn merge(axes: &mut Vec<Axis>) {
    let mut merged: Vec<Axis> = Vec::with_capacity(axes.len());
    for (count, strides) in axes.drain(..) {
        match merged.last_mut() {
            Some((outer, outer_strides))
                if outer_strides.iter().zip(&strides).all(|(outer, inner)| *outer == inner * count) =>
            {
                *outer *= count;
                *outer_strides = strides;
            }
            _ => merged.push((count, strides)),
        }
    }
    *axes = merged;
}

/// Turns innermost axes into columns, if the left operand is constant along them and the columns continue:
/// one large GEMM is faster than many small ones.
fn into_columns(axes: &mut Vec<Axis>, b: &mut Part, c: &mut Part, others: &mut [Option<Part>; 2]) {
    while let Some((count, [a_step, b_step, c_step, other_steps @ ..])) = axes.last().copied() {
        let follows = |part: &Part, step: usize| {
            let [_, columns] = part.dims;
            columns == 1 || part.strides.get(1).is_some_and(|stride| stride * columns == step)
        };
        let mut pairs = others.iter().zip(other_steps);
        let others_follow = pairs.all(|(part, step)| part.as_ref().is_none_or(|part| follows(part, step)));
        if a_step != 0 || !follows(b, b_step) || !follows(c, c_step) || !others_follow {
            return;
        }
        let others =
            others.iter_mut().zip(other_steps).filter_map(|(part, step)| Some((part.as_mut()?, step)));
        for (part, step) in [(b as &mut Part, b_step), (c, c_step)].into_iter().chain(others) {
            let [_, columns] = &mut part.dims;
            if *columns == 1 {
                let [_, stride] = &mut part.strides;
                *stride = step;
            }
            *columns *= count;
        }
        axes.pop();
    }
}

/// Removes the longest axis, which becomes the batch of each call.
fn batch_axis(axes: &mut Vec<Axis>) -> Axis {
    let longest = axes.iter().enumerate().max_by_key(|(_, (count, _))| *count).map(|(place, _)| place);
    longest.map_or((1, [0; MATRICES]), |place| axes.remove(place))
}

/// The offsets of the matrices for each call.
fn calls(axes: &[Axis]) -> Result<Vec<[usize; MATRICES]>, Refusal> {
    let count = axes.iter().try_fold(1_usize, |count, (dim, _)| count.checked_mul(*dim));
    if count.is_none_or(|count| count > MAX_CALLS) {
        let dims: Vec<usize> = axes.iter().map(|(dim, _)| *dim).collect();
        return Err(format!(
            "c: batch dimensions {dims:?} cannot be merged, expected at most {MAX_CALLS} indices"
        ));
    }
    let mut calls = vec![[0; MATRICES]];
    for (dim, strides) in axes {
        calls = calls
            .iter()
            .flat_map(|begin: &[usize; MATRICES]| {
                (0..*dim)
                    .map(move |index| std::array::from_fn(|part| at(begin, part) + index * at(strides, part)))
            })
            .collect();
    }
    Ok(calls)
}

#[cfg(test)]
mod tests;
