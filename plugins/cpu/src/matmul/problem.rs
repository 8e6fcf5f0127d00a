//! A matrix multiplication as the kernels see it: result rows are along the contiguous dimension, and batch
//! dimensions are merged into rows if possible.

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::accumulator::Accumulator;
use crate::layout::MAX_RANK;
use crate::problem::Operand;
use crate::problem::matmul::Matmul;

/// An operand, or the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices {
    /// Its index among the kernel's pointers.
    pub(crate) slot: usize,
    pub(crate) data_type: DataType,
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Row stride.
    pub(crate) row: usize,
    /// Column stride.
    pub(crate) column: usize,
    /// For each batch dimension, how many neighbours share a matrix, and the stride of matrices.
    batch: [(usize, usize); MAX_RANK],
}

impl Matrices {
    /// Whether elements are of this type.
    pub(crate) fn holds<T: Accumulator>(&self) -> bool {
        self.data_type == T::TYPE
    }
}

/// c = a · b for each matrix of c.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) a: Matrices,
    pub(crate) b: Matrices,
    pub(crate) c: Matrices,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Number of matrices of c.
    pub(crate) matrices: usize,
    /// Remaining batch dimensions of c.
    rank: usize,
    dims: [usize; MAX_RANK],
    /// Batch dimensions of c before some were merged into rows.
    whole: usize,
    whole_dims: [usize; MAX_RANK],
    /// Rows of c before merging; columns, if c is transposed.
    own_rows: usize,
    /// Whether rows here are columns of the operation.
    transposed: bool,
}

/// A box of the operation's result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) rank: usize,
    pub(crate) origin: [usize; MAX_RANK],
    pub(crate) size: [usize; MAX_RANK],
}

impl Problem {
    pub(crate) fn of(p: &Matmul) -> Self {
        let rank = p.batch;
        let matrices = |operand: &Operand, share: &[usize; MAX_RANK]| {
            let strides = operand.layout.strides();
            let mut batch = [(1, 0); MAX_RANK];
            for axis in 0..rank {
                batch[axis] = (share[axis], strides[axis]);
            }
            let (slot, data_type) = (operand.slot, operand.data_type);
            let size = data_type.size().unwrap_or(1);
            Matrices { slot, data_type, size, row: strides[rank], column: strides[rank + 1], batch }
        };
        let dims = p.c.layout.dims();
        let mut whole_dims = [1; MAX_RANK];
        whole_dims[..rank].copy_from_slice(&dims[..rank]);
        let mut problem = Self {
            a: matrices(&p.a, &p.a_share),
            b: matrices(&p.b, &p.b_share),
            c: matrices(&p.c, &[1; MAX_RANK]),
            m: p.m,
            n: p.n,
            k: p.k,
            matrices: 1,
            rank,
            dims: whole_dims,
            whole: rank,
            whole_dims,
            own_rows: p.m,
            transposed: false,
        };
        // Vectors run along the rows of c; if columns have the smaller stride, the product is transposed.
        let (row, column) = (problem.c.row, problem.c.column);
        if p.n == 1 && p.m > 1 || (p.m > 1 && p.n > 1 && row < column) {
            problem.transpose();
        }
        problem.merge();
        problem.matrices = problem.dims[..problem.rank].iter().product();
        problem
    }

    /// cᵀ = bᵀ · aᵀ.
    fn transpose(&mut self) {
        std::mem::swap(&mut self.a, &mut self.b);
        std::mem::swap(&mut self.m, &mut self.n);
        for matrices in [&mut self.a, &mut self.b, &mut self.c] {
            std::mem::swap(&mut matrices.row, &mut matrices.column);
        }
        self.own_rows = self.m;
        self.transposed = !self.transposed;
    }

    /// Merges the last batch dimensions into rows, as long as all their matrices share one operand B and are
    /// consecutive in operand A and in c.
    fn merge(&mut self) {
        while let Some(last) = self.rank.checked_sub(1) {
            let dim = self.dims[last];
            let one = dim == 1 || self.b.batch[last].0 == dim;
            let follows = |matrices: &Matrices| {
                let (share, stride) = matrices.batch[last];
                dim == 1 || (share == 1 && (stride == matrices.row * self.m || self.m == 1))
            };
            if !one || !follows(&self.a) || !follows(&self.c) {
                return;
            }
            if self.m == 1 && dim > 1 {
                self.a.row = self.a.batch[last].1;
                self.c.row = self.c.batch[last].1;
            }
            self.m *= dim;
            self.rank = last;
        }
    }

    /// Whether there is a single matrix B, in the layout of the operation.
    pub(crate) fn has_one_rhs(&self) -> bool {
        let shared = |axis: usize| {
            let (share, stride) = self.b.batch[axis];
            stride == 0 || share == self.dims[axis]
        };
        !self.transposed && (0..self.rank).all(shared)
    }

    /// The dimension of the operation's result along which rows lie here.
    pub(crate) fn columns_axis(&self) -> usize {
        self.whole + usize::from(!self.transposed)
    }

    /// The offsets of a matrix's elements in a, b and c.
    pub(crate) fn offsets(&self, matrix: usize) -> [usize; 3] {
        let mut offsets = [0; 3];
        let mut rest = matrix;
        for axis in (0..self.rank).rev() {
            let index = rest % self.dims[axis];
            rest /= self.dims[axis];
            for (offset, matrices) in offsets.iter_mut().zip([&self.a, &self.b, &self.c]) {
                let (share, stride) = matrices.batch[axis];
                *offset += index / share * stride;
            }
        }
        offsets
    }

    /// Calls `work` with each box of the operation's result that the given rows and columns of a matrix form.
    pub(crate) fn areas(
        &self,
        matrix: usize,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
        mut work: impl FnMut(&Area),
    ) {
        let mut row = rows.start;
        while row < rows.end {
            // Numbering continues across matrices that are merged into rows.
            let merged = self.m / self.own_rows;
            let mut rest = matrix * merged + row / self.own_rows;
            let first = row % self.own_rows;
            let count = (self.own_rows - first).min(rows.end - row);
            let mut area = Area { rank: self.whole + 2, origin: [0; MAX_RANK], size: [1; MAX_RANK] };
            for axis in (0..self.whole).rev() {
                area.origin[axis] = rest % self.whole_dims[axis];
                rest /= self.whole_dims[axis];
            }
            let (of_rows, of_columns) =
                if self.transposed { (self.whole + 1, self.whole) } else { (self.whole, self.whole + 1) };
            (area.origin[of_rows], area.size[of_rows]) = (first, count);
            (area.origin[of_columns], area.size[of_columns]) = (columns.start, columns.len());
            work(&area);
            row += count;
        }
    }
}
