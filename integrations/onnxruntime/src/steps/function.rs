//! Functions of numbers that hipDNN lacks.

use super::divided;
use crate::lowering::{OnHost, Shared, Slab};
use crate::threads::Parallel;

/// A function of each element of a packed tensor of single precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of ONNX's operators")]
pub enum Function {
    Cos,
    Acos,
    Asin,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    Round,
}

impl Function {
    fn of(self) -> fn(f32) -> f32 {
        match self {
            Self::Cos => f32::cos,
            Self::Acos => f32::acos,
            Self::Asin => f32::asin,
            Self::Atan => f32::atan,
            Self::Sinh => f32::sinh,
            Self::Cosh => f32::cosh,
            Self::Asinh => f32::asinh,
            Self::Acosh => f32::acosh,
            Self::Atanh => f32::atanh,
            Self::Round => f32::round_ties_even,
        }
    }
}

/// The elements that a thread computes before it writes them.
const BLOCK: usize = 256;

impl OnHost for Function {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let ([from], [_]) = (reads, writes) else { return Err("a function of no tensor".to_owned()) };
        // SAFETY: the caller vouches for the tensor.
        let numbers = unsafe { from.items::<f32>() }?;
        let (f, to) = (self.of(), Shared(writes));
        divided(numbers.len().div_ceil(BLOCK), BLOCK * 64, parallel, &|range| {
            let own = numbers.chunks(BLOCK).enumerate().skip(range.start).take(range.len());
            for (at, block) in own {
                let results: Vec<f32> = block.iter().map(|x| f(*x)).collect();
                // SAFETY: the result has as many elements as the operand, and only this thread writes these.
                to.get(0).into_iter().for_each(|to| unsafe { to.put(at * BLOCK, &results) });
            }
        })
    }
}

/// Powers of packed tensors of single precision: the exponents are as many as the bases, or one.
#[derive(Clone, Copy, Debug)]
pub struct Power;

impl OnHost for Power {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [bases, exponents] = reads else { return Err("a power of no tensor".to_owned()) };
        // SAFETY: the caller vouches for the tensors.
        let (bases, exponents) = unsafe { (bases.items::<f32>()?, exponents.items::<f32>()?) };
        let to = Shared(writes);
        divided(bases.len().div_ceil(BLOCK), BLOCK * 256, parallel, &|range| {
            for (at, block) in bases.chunks(BLOCK).enumerate().skip(range.start).take(range.len()) {
                let exponent = |index: usize| match exponents.as_ref() {
                    [one] => *one,
                    all => all.get(at * BLOCK + index).copied().unwrap_or(1.0),
                };
                let results: Vec<f32> =
                    block.iter().enumerate().map(|(index, x)| x.powf(exponent(index))).collect();
                // SAFETY: the result has as many elements as the bases, and only this thread writes these.
                to.get(0).into_iter().for_each(|to| unsafe { to.put(at * BLOCK, &results) });
            }
        })
    }
}
