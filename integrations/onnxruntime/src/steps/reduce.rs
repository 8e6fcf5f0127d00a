//! Reductions of integers along the last axis of packed tensors. Sums and products wrap.

use super::divided;
use crate::lowering::{Item, OnHost, Shared, Slab};
use crate::model::Element;
use crate::threads::Parallel;

/// What becomes of a row of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of ONNX's operators")]
pub enum Reduce {
    Sum,
    Mean,
    Max,
    Min,
    Product,
    Norm1,
    SumOfSquares,
    Norm2,
    LogSum,
    LogSumExp,
}

/// Integers that are reduced.
trait Whole: Item + Ord {
    fn number(self) -> i64;
    fn of(number: i64) -> Self;
}

impl Whole for i32 {
    fn number(self) -> i64 {
        i64::from(self)
    }

    fn of(number: i64) -> Self {
        // The logarithm of no number.
        if number == i64::MIN { Self::MIN } else { number as Self }
    }
}

impl Whole for i64 {
    fn number(self) -> i64 {
        self
    }

    fn of(number: i64) -> Self {
        number
    }
}

/// The integer below a number, toward zero; the least one if the number is none.
fn cut(number: f64) -> i64 {
    if number.is_nan() { i64::MIN } else { number as i64 }
}

impl Reduce {
    fn row(self, row: impl Iterator<Item = i64> + Clone) -> i64 {
        let sum = |row: &mut dyn Iterator<Item = i64>| row.fold(0_i64, i64::wrapping_add);
        match self {
            Self::Sum => sum(&mut row.clone()),
            Self::Mean => {
                let count = i64::try_from(row.clone().count()).unwrap_or(1).max(1);
                sum(&mut row.clone()) / count
            }
            Self::Max => row.max().unwrap_or(i64::MIN),
            Self::Min => row.min().unwrap_or(i64::MAX),
            Self::Product => row.fold(1, i64::wrapping_mul),
            Self::Norm1 => sum(&mut row.map(i64::wrapping_abs)),
            Self::SumOfSquares => sum(&mut row.map(|number| number.wrapping_mul(number))),
            Self::Norm2 => cut(row.map(|number| (number as f64).powi(2)).sum::<f64>().sqrt()),
            Self::LogSum => cut((sum(&mut row.clone()) as f64).ln()),
            // The powers of differences below zero are no whole numbers: the largest ones are counted.
            Self::LogSumExp => {
                let most = row.clone().max().unwrap_or(0);
                cut((row.filter(|number| *number == most).count() as f64).ln() + most as f64)
            }
        }
    }
}

impl OnHost for Reduce {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        /// # Safety
        /// The tensors are readable and writable.
        unsafe fn of<T: Whole>(
            own: Reduce,
            from: &Slab<'_>,
            writes: &[Slab<'_>],
            parallel: Parallel<'_>,
        ) -> Result<(), String> {
            let size = from.bound.dims.last().map_or(1, |size| usize::try_from(*size).unwrap_or(0));
            // SAFETY: the tensors are readable and writable, as this function requires.
            let (items, to) = (unsafe { from.items::<T>() }?, Shared(writes));
            divided(items.len() / size.max(1), size * 2 * size_of::<T>(), parallel, &|rows| {
                for row in rows {
                    let all = items.get(row * size..(row + 1) * size).unwrap_or(&[]);
                    let result = [T::of(own.row(all.iter().map(|item| item.number())))];
                    // SAFETY: the result has an element for each row, which only this thread writes.
                    to.get(0).into_iter().for_each(|to| unsafe { to.put(row, &result) });
                }
            })
        }
        let [from] = reads else { return Err("a reduction of no tensor".to_owned()) };
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe {
            match from.bound.element {
                Element::Int32 => of::<i32>(*self, from, writes, parallel),
                Element::Int64 => of::<i64>(*self, from, writes, parallel),
                other => Err(format!("elements are {}", other.name())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_integers_are_reduced() {
        let of = |reduce: Reduce| reduce.row([-7, 3, 2].into_iter());
        assert_eq!([of(Reduce::Sum), of(Reduce::Mean), of(Reduce::Max), of(Reduce::Min)], [-2, 0, 3, -7]);
        assert_eq!([of(Reduce::Norm2), of(Reduce::LogSum), of(Reduce::LogSumExp)], [7, i64::MIN, 3]);
        assert_eq!([of(Reduce::Product), of(Reduce::Norm1), of(Reduce::SumOfSquares)], [-42, 12, 62]);
    }
}
