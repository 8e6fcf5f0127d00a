//! Comparison of a result with the reference.

use super::{Array, Tolerance};

/// How a result compares with the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The number of elements.
    pub count: usize,
    /// The number of elements beyond the tolerance.
    pub beyond: usize,
    /// The largest difference of two numbers.
    pub largest: f64,
    /// The largest fraction of the tolerance used; infinite if a number meets a NaN.
    pub used: f64,
    /// The index of the worst element.
    pub worst: Vec<usize>,
    /// The result and the reference there.
    pub pair: (f64, f64),
}

/// Compares element by element. NaN must meet NaN, and infinity the same infinity. `undecided` elements may differ by 1.
pub fn compare(
    result: &Array,
    reference: &Array,
    tolerance: Tolerance,
    undecided: impl Fn(usize) -> bool,
) -> Comparison {
    let largest =
        reference.values.iter().copied().filter(|r| r.is_finite()).fold(0.0, |a: f64, r| a.max(r.abs()));
    let mut comparison = Comparison {
        count: reference.values.len(),
        beyond: 0,
        largest: 0.0,
        used: 0.0,
        worst: vec![0; reference.dims.len()],
        pair: (0.0, 0.0),
    };
    for (at, (x, r)) in result.values.iter().zip(&reference.values).enumerate() {
        let used = if x == r || (x.is_nan() && r.is_nan()) {
            0.0
        } else {
            let difference = (x - r).abs();
            if difference.is_finite() {
                comparison.largest = comparison.largest.max(difference);
            }
            let allowed = tolerance.relative * x.abs().max(r.abs())
                + tolerance.of_largest * largest
                + tolerance.absolute
                + f64::from(u8::from(undecided(at)));
            match difference.is_finite() && x.is_finite() {
                true if allowed > 0.0 => difference / allowed,
                _ => f64::INFINITY,
            }
        };
        comparison.beyond += usize::from(used > 1.0);
        if used > comparison.used {
            comparison.used = used;
            comparison.worst = index(&reference.dims, at);
            comparison.pair = (*x, *r);
        }
    }
    comparison
}

/// The index of an element at a row-major position.
fn index(dims: &[usize], mut at: usize) -> Vec<usize> {
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|dim| {
            let digit = at % dim.max(&1);
            at /= dim.max(&1);
            digit
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(values: &[f64]) -> Array {
        Array { dims: vec![2, values.len() / 2], values: values.to_vec() }
    }

    const TOLERANCE: Tolerance = Tolerance { relative: 0.0, of_largest: 0.01, absolute: 0.0 };

    #[test]
    fn the_worst_element_is_found() {
        let found =
            compare(&array(&[1.0, 2.0, 3.05, 4.01]), &array(&[1.0, 2.0, 3.0, 4.0]), TOLERANCE, |_| false);
        assert_eq!((found.count, found.beyond, found.worst), (4, 1, vec![1, 0]));
        assert!((found.used - 1.25).abs() < 1e-9 && (found.largest - 0.05).abs() < 1e-9);
    }

    #[test]
    fn integers_are_equal_unless_they_are_undecided() {
        let exact = Tolerance { relative: 0.0, of_largest: 0.0, absolute: 0.0 };
        let (got, expected) = (array(&[1.0, 2.0, 4.0, 6.0]), array(&[1.0, 3.0, 3.0, 4.0]));
        assert_eq!(compare(&got, &expected, exact, |_| false).beyond, 3);
        assert_eq!(compare(&got, &expected, exact, |at| at != 2).beyond, 2);
    }

    #[test]
    fn nan_must_meet_nan_and_infinity_the_same_infinity() {
        let inf = f64::INFINITY;
        let same = array(&[f64::NAN, inf, -inf, 0.0]);
        assert_eq!(compare(&same, &same, TOLERANCE, |_| false).beyond, 0);
        let other = array(&[0.0, -inf, 1.0, f64::NAN]);
        assert_eq!(compare(&other, &same, TOLERANCE, |_| false).beyond, 4);
    }
}
