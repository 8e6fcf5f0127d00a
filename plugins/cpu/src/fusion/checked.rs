//! Sums of products of large integers: in double precision if it holds them, which depends on their values,
//! else by the reference.

use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::problem::terms;
use crate::dtype::element::Compute;
use crate::dtype::sums;
use crate::kernel::{Choice, Facts, Kernel, Refusal};
use crate::prepare::CheckedNode;
use crate::problem::convolution::Direction;
use crate::problem::{Operand, Problem};
use crate::reference;
use crate::tensor::loop_nest::LoopNest;

/// A product of two kernels.
struct Checked {
    fast: Box<dyn Kernel>,
    reference: Box<dyn Kernel>,
    operands: [Integers; 2],
    terms: f64,
}

/// An operand, and where its integers are.
struct Integers {
    slot: usize,
    data_type: DataType,
    nest: LoopNest<1>,
}

/// The operands of a product of integers, and the number of products in a sum.
fn product(problem: &Problem) -> Option<([&Operand; 2], f64)> {
    match problem {
        Problem::Matmul(matmul) => Some(([&matmul.a, &matmul.b], matmul.k as f64)),
        Problem::Convolution(convolution) if convolution.direction == Direction::Forward => {
            Some(([&convolution.x, &convolution.w], terms(convolution)))
        }
        _ => None,
    }
}

/// Whether a node's sums may exceed what double precision holds.
pub(crate) fn may_exceed(problem: &Problem) -> bool {
    product(problem)
        .is_some_and(|(operands, terms)| sums::may_exceed(operands.map(|operand| operand.data_type), terms))
}

/// Completes the kernel of a node that computes in double precision: it runs only where its sums are exact.
pub(crate) fn plan(node: &CheckedNode<'_>, fast: Box<dyn Kernel>) -> Result<Box<dyn Kernel>, Refusal> {
    let Some((operands, terms)) = product(node.problem).filter(|_| may_exceed(node.problem)) else {
        return Ok(fast);
    };
    let operands = operands.map(|operand| Integers {
        slot: operand.slot,
        data_type: operand.data_type,
        nest: LoopNest::new(operand.layout.dims(), [operand.layout.strides()], 0),
    });
    Ok(Box::new(Checked { fast, reference: reference::plan_node(node)?, operands, terms }))
}

impl Integers {
    /// The largest magnitude: of the values, or of the type if that is small.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    unsafe fn largest(&self, tensors: &[*mut u8]) -> f64 {
        let of_type = sums::largest(self.data_type).unwrap_or(f64::INFINITY);
        // SAFETY: the tensor has the integers, as this function requires.
        unsafe {
            match (self.data_type, tensors.get(self.slot)) {
                (DataType::Int32, Some(from)) => f64::from(self.fold(from.cast::<i32>(), i32::unsigned_abs)),
                (DataType::Int64, Some(from)) => self.fold(from.cast::<i64>(), i64::unsigned_abs) as f64,
                _ => of_type,
            }
        }
    }

    /// The largest magnitude of the values.
    ///
    /// # Safety
    /// `from` is readable at each element of the nest.
    unsafe fn fold<T: Copy, U: Copy + Ord + Default>(&self, from: *const T, size: fn(T) -> U) -> U {
        let mut largest = U::default();
        let [stride] = self.nest.inner_strides;
        for run in 0..self.nest.runs() {
            let [first] = self.nest.position(run).offsets;
            for at in 0..self.nest.len {
                // SAFETY: the tensor has the element, as this function requires.
                let value = unsafe { from.add(first + at * stride).read_unaligned() };
                largest = largest.max(size(value));
            }
        }
        largest
    }
}

impl Kernel for Checked {
    fn scratch_size(&self) -> usize {
        self.fast.scratch_size().max(self.reference.scratch_size())
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let [a, b] = &self.operands;
        // SAFETY: both kernels are of this operation, and there is scratch memory for each.
        unsafe {
            let most = a.largest(tensors) * b.largest(tensors) * self.terms;
            if most < sums::most(Compute::Double) {
                self.fast.run(tensors, scratch);
            } else {
                self.reference.run(tensors, scratch);
            }
        }
    }

    fn facts(&self) -> Facts {
        self.fast.facts()
    }

    fn choices(&self) -> Vec<&Choice> {
        self.fast.choices()
    }
}
