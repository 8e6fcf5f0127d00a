//! Matrix multiplications; each element is a single sum.

#![expect(clippy::indexing_slicing, reason = "axes are below the rank of the operands, at most MAX_RANK")]

use crate::dtype::element::ComputeType;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::matmul::Matmul;
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers};

struct Multiplication<R> {
    problem: Matmul,
    a: Memory<R>,
    b: Memory<R>,
    c: Memory<R>,
}

pub(crate) fn plan<R: ComputeType>(problem: Matmul) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(Multiplication::<R> {
        a: Memory::of_any("a", &problem.a)?,
        b: Memory::of_any("b", &problem.b)?,
        c: Memory::of_any("c", &problem.c)?,
        problem,
    }))
}

impl<R: ComputeType> Reference for Multiplication<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let p = &self.problem;
        let (a, b, c) = (self.a.bind(tensors), self.b.bind(tensors), self.c.bind(tensors));
        let [a_strides, b_strides, c_strides] =
            [&p.a, &p.b, &p.c].map(|operand| operand.layout.strides().split_at(p.batch));
        for (index, [c_base]) in Walk::new(&p.c.layout.dims()[..p.batch], [c_strides.0]) {
            let a_base = matrix(&index, &p.a_share, a_strides.0);
            let b_base = matrix(&index, &p.b_share, b_strides.0);
            let at =
                |base: usize, strides: &[usize], row, column| base + row * strides[0] + column * strides[1];
            for i in 0..p.m {
                for j in 0..p.n {
                    let mut sum = R::ZERO;
                    for l in 0..p.k {
                        let (lhs, rhs) = (at(a_base, a_strides.1, i, l), at(b_base, b_strides.1, l, j));
                        sum = sum + a.get(lhs) * b.get(rhs);
                    }
                    c.set(at(c_base, c_strides.1, i, j), sum);
                }
            }
        }
    }
}

/// Offset of the operand's matrix for the matrix of c at `index`.
fn matrix(index: &[usize; MAX_RANK], share: &[usize; MAX_RANK], strides: &[usize]) -> usize {
    strides.iter().enumerate().map(|(axis, stride)| index[axis] / share[axis] * stride).sum()
}
