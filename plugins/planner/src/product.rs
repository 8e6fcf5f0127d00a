//! A product as the libraries see it: columns first, with one batch dimension.

use crate::Refusal;
use crate::layout::MAX_RANK;
use crate::problem::Operand;
use crate::problem::matmul::Matmul;
use hipdnn_plugin_sdk::graph::DataType;

/// The most calls that one product may take. Batch dimensions that cannot be walked with one distance take more than one.
const MAX_CALLS: usize = 1024;

/// The most matrices of a product: its factors, its result, the summand and the auxiliary one.
pub const MATRICES: usize = 5;

/// A matrix, or one for each index of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The type of the elements.
    pub data_type: DataType,
    /// Whether it is read transposed.
    pub transposed: bool,
    /// Elements from one column in memory to the next.
    pub leading: usize,
    /// Elements from one matrix of the batch to the next.
    pub stride: usize,
}

/// c = a · b, and perhaps a summand, for every index of the batch. What the libraries call a is the operation's b where `swapped`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Rows of c in the libraries' sense, whose elements are neighbours in memory along them.
    pub m: usize,
    /// Columns of c.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// The left operand, m x k.
    pub a: Matrix,
    /// The right operand, k x n.
    pub b: Matrix,
    /// The result, m x n.
    pub c: Matrix,
    /// What is added, m x n.
    pub summand: Option<Matrix>,
    /// What an activation keeps of its input, or its gradient reads, m x n.
    pub auxiliary: Option<Matrix>,
    /// The number of matrices that one call walks over.
    pub batch: usize,
    /// For each call the elements from the beginning of a, b, c, the summand and the auxiliary matrix.
    pub calls: Vec<[usize; MATRICES]>,
    /// Whether rows here are the operation's columns, and a its b.
    pub swapped: bool,
}

/// One of the matrices while the shape is worked out.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    data_type: DataType,
    /// Rows and columns, and the elements from one to the next.
    dims: [usize; 2],
    strides: [usize; 2],
}

/// A batch dimension: its length, and the elements from one index to the next in each matrix.
type Axis = (usize, [usize; MATRICES]);

/// A matrix of the shape of the result, and its strides there.
pub type Spread<'a> = Option<(&'a Operand, [usize; MAX_RANK])>;

impl Product {
    /// The product of an operation, with a summand and an auxiliary matrix of the shape of the result or spread over its batch dimensions.
    /// `by_column` says that a bias with an element for each column of the operation's result is to be added or made, which takes columns
    /// whose elements the libraries call rows.
    ///
    /// # Errors
    /// The first thing that the libraries do not take.
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
        let mut added = [other("the summand", summand), other("what the activation is of", auxiliary)];
        let mut axes = axes(matmul, others.map(|other| other.map(|(_, strides)| strides)))?;
        // Rows in the libraries' sense are those of the operation where it stores columns first.
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

    /// Whether all numbers are within 32 bits, as rocBLAS and the kernels take them.
    ///
    /// # Errors
    /// The first that is not.
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
                "elements between columns of what the activation is of",
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
    /// The matrix as it is, or transposed.
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

    /// The matrix as it is: the result cannot be written transposed.
    fn plain(&self, stride: usize) -> Result<Matrix, Refusal> {
        self.lying(false).map(|matrix| Matrix { stride, ..matrix }).ok_or_else(|| {
            format!(
                "{}: strides {:?} of {:?} rows and columns (swapped where the columns of c lie side by side), expected 1 along the first, as in c",
                self.name, self.strides, self.dims
            )
        })
    }

    /// None where the elements do not lie so. Strides along a dimension of 1 count for nothing.
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

/// The batch dimensions of the product, outermost first. One whose matrices several neighbours share becomes several.
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
        // From the outermost: indices that differ by `unit` are neighbours on the axis.
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

/// Joins neighbouring axes that can be walked with one distance.
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

/// Makes columns of the innermost axes along which the left operand is the same and columns go on: one large product is faster
/// than many small ones.
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

/// Takes out the longest axis, which one call walks over.
fn batch_axis(axes: &mut Vec<Axis>) -> Axis {
    let longest = axes.iter().enumerate().max_by_key(|(_, (count, _))| *count).map(|(place, _)| place);
    longest.map_or((1, [0; MATRICES]), |place| axes.remove(place))
}

/// Where the matrices of each call begin.
fn calls(axes: &[Axis]) -> Result<Vec<[usize; MATRICES]>, Refusal> {
    let count = axes.iter().try_fold(1_usize, |count, (dim, _)| count.checked_mul(*dim));
    if count.is_none_or(|count| count > MAX_CALLS) {
        let dims: Vec<usize> = axes.iter().map(|(dim, _)| *dim).collect();
        return Err(format!(
            "c: batch dimensions {dims:?} are left that cannot be walked together, expected at most {MAX_CALLS} indices"
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
