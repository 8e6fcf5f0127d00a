//! Functions of numbers that hipDNN lacks.

use super::divided;
use crate::lowering::{Item, OnHost, Shared, Slab};
use crate::model::Element;
use crate::threads::Parallel;

/// A function of each element of a packed tensor of single or double precision.
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
    /// The function in single precision. Inverse hyperbolic functions have squares in between, which overflow.
    fn single(self) -> fn(f32) -> f32 {
        match self {
            Self::Cos => f32::cos,
            Self::Acos => f32::acos,
            Self::Asin => f32::asin,
            Self::Atan => f32::atan,
            Self::Sinh => f32::sinh,
            Self::Cosh => f32::cosh,
            Self::Asinh => |x| f64::from(x).asinh() as f32,
            Self::Acosh => |x| f64::from(x).acosh() as f32,
            Self::Atanh => |x| f64::from(x).atanh() as f32,
            Self::Round => f32::round_ties_even,
        }
    }

    fn double(self) -> fn(f64) -> f64 {
        match self {
            Self::Cos => f64::cos,
            Self::Acos => f64::acos,
            Self::Asin => f64::asin,
            Self::Atan => f64::atan,
            Self::Sinh => f64::sinh,
            Self::Cosh => f64::cosh,
            Self::Asinh => f64::asinh,
            Self::Acosh => f64::acosh,
            Self::Atanh => f64::atanh,
            Self::Round => f64::round_ties_even,
        }
    }
}

/// The elements that a thread computes before it writes them.
const BLOCK: usize = 256;

/// Writes a function of each element.
///
/// # Safety
/// The tensors are readable and writable, and have as many elements.
unsafe fn each<T: Item>(
    from: &Slab<'_>,
    writes: &[Slab<'_>],
    parallel: Parallel<'_>,
    f: fn(T) -> T,
) -> Result<(), String> {
    // SAFETY: the tensors are readable and writable, and have as many elements, as this function requires.
    let (numbers, to) = (unsafe { from.items::<T>() }?, Shared(writes));
    divided(numbers.len().div_ceil(BLOCK), BLOCK * 64, parallel, &|range| {
        let own = numbers.chunks(BLOCK).enumerate().skip(range.start).take(range.len());
        for (at, block) in own {
            let results: Vec<T> = block.iter().map(|x| f(*x)).collect();
            // SAFETY: the result has as many elements as the operand, and only this thread writes these.
            to.get(0).into_iter().for_each(|to| unsafe { to.put(at * BLOCK, &results) });
        }
    })
}

impl OnHost for Function {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let ([from], [_]) = (reads, writes) else { return Err("a function of no tensor".to_owned()) };
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe {
            match from.bound.element {
                Element::Double => each(from, writes, parallel, self.double()),
                _ => each(from, writes, parallel, self.single()),
            }
        }
    }
}

/// A function of two numbers, of packed tensors of single or double precision: the second ones are as many as the first, or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairwise {
    /// A power.
    Power,
    /// The rest of a division, which has the sign of the dividend.
    Remainder,
}

/// # Safety
/// The tensors are readable and writable; the result has as many elements as the first one.
unsafe fn each_pair<T: Item>(
    [a, b]: [&Slab<'_>; 2],
    writes: &[Slab<'_>],
    parallel: Parallel<'_>,
    f: impl Fn(T, T) -> T + Sync,
) -> Result<(), String> {
    // SAFETY: the tensors are readable, as this function requires.
    let (first, second) = unsafe { (a.items::<T>()?, b.items::<T>()?) };
    let to = Shared(writes);
    divided(first.len().div_ceil(BLOCK), BLOCK * 256, parallel, &|range| {
        for (at, block) in first.chunks(BLOCK).enumerate().skip(range.start).take(range.len()) {
            let results: Vec<T> = match second.as_ref() {
                [one] => block.iter().map(|x| f(*x, *one)).collect(),
                all => {
                    block.iter().zip(all.get(at * BLOCK..).unwrap_or(&[])).map(|(x, y)| f(*x, *y)).collect()
                }
            };
            // SAFETY: the result has as many elements as the first tensor, and only this thread writes these.
            to.get(0).into_iter().for_each(|to| unsafe { to.put(at * BLOCK, &results) });
        }
    })
}

impl OnHost for Pairwise {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [a, b] = reads else { return Err("a function of other than two tensors".to_owned()) };
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe {
            match (self, a.bound.element) {
                (Self::Power, Element::Double) => each_pair([a, b], writes, parallel, f64::powf),
                (Self::Power, _) => each_pair([a, b], writes, parallel, f32::powf),
                (Self::Remainder, Element::Double) => each_pair([a, b], writes, parallel, |x: f64, y| x % y),
                (Self::Remainder, _) => each_pair([a, b], writes, parallel, |x: f32, y| x % y),
            }
        }
    }
}
