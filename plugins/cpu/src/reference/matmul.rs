//! Matrix multiplications, each element as one sum.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of the operands, at most MAX_RANK")]

use crate::dtype::element::Real;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::matmul::Matmul;
use crate::reference::memory::{Memory, View};

struct PortableVector<R> {
    problem: Matmul,
    a: Memory<R>,
    b: Memory<R>,
    c: Memory<R>,
}

pub(crate) fn plan<R: Real>(problem: Matmul) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(PortableVector::<R> {
        a: Memory::of_numbers("a", &problem.a)?,
        b: Memory::of_numbers("b", &problem.b)?,
        c: Memory::of_numbers("c", &problem.c)?,
        problem,
    }))
}

impl<R: Real> Kernel for PortableVector<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract.
        let (a, b, c) = unsafe { (self.a.bind(tensors), self.b.bind(tensors), self.c.bind(tensors)) };
        let p = &self.problem;
        let mut at = Walk::new(&p.c.layout.dims()[..p.batch], [p.c.layout.strides()]);
        loop {
            let a_at = matrix(&at.index, &p.a_share, &p.a.layout.strides()[..p.batch]);
            let b_at = matrix(&at.index, &p.b_share, &p.b.layout.strides()[..p.batch]);
            // SAFETY: the walk is over the matrices of c, and a shared index is below the dim of its factor.
            unsafe { self.multiply([&a, &b, &c], [a_at, b_at, at.offsets[0]]) };
            if !at.advance() {
                break;
            }
        }
    }
}

impl<R: Real> PortableVector<R> {
    /// Computes one matrix of c.
    ///
    /// # Safety
    /// The views are those of the problem's tensors, each offset is that of one of its matrices, and c may be written.
    unsafe fn multiply(&self, [a, b, c]: [&View<R>; 3], [a_at, b_at, c_at]: [usize; 3]) {
        let p = &self.problem;
        let [a_strides, b_strides, c_strides] = [&p.a, &p.b, &p.c].map(|operand| {
            let strides = &operand.layout.strides()[p.batch..];
            [strides[0], strides[1]]
        });
        for i in 0..p.m {
            for j in 0..p.n {
                let mut sum = R::ZERO;
                for l in 0..p.k {
                    // SAFETY: i, j and l are below the dims of the factors.
                    sum = sum
                        + unsafe {
                            a.get(a_at + i * a_strides[0] + l * a_strides[1])
                                * b.get(b_at + l * b_strides[0] + j * b_strides[1])
                        };
                }
                // SAFETY: i and j are below the dims of c.
                unsafe { c.set(c_at + i * c_strides[0] + j * c_strides[1], sum) };
            }
        }
    }
}

/// Where the matrix begins that the matrix of c at `index` uses.
fn matrix(index: &[usize; MAX_RANK], share: &[usize; MAX_RANK], strides: &[usize]) -> usize {
    strides.iter().enumerate().map(|(axis, stride)| index[axis] / share[axis] * stride).sum()
}
