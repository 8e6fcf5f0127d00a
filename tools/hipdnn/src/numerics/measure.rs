//! Distances of computed values from exact ones.

use crate::data_type::DataType;
use crate::tensor::{Array, steps};

/// A unit in the last place of a type at a value; 1 for integers.
pub fn ulp(data_type: DataType, value: f64) -> f64 {
    if data_type.is_integer() {
        return 1.0;
    }
    let (half_step, smallest) = steps(data_type);
    let power = value.abs().log2().floor().max(-1022.0).exp2();
    (2.0 * half_step * power).max(smallest)
}

/// The values beside the exact ones.
fn pairs<'a>(values: &'a Array, exact: &'a Array) -> impl Iterator<Item = (f64, f64)> + Clone {
    values.values.iter().copied().zip(exact.values.iter().copied())
}

/// Whether two values are equal, NaN being equal to NaN.
fn is_same((value, exact): (f64, f64)) -> bool {
    value == exact || value.is_nan() && exact.is_nan()
}

/// The largest difference in units in the last place; infinite where one value is not finite and the other is.
pub fn ulps(values: &Array, exact: &Array, data_type: DataType) -> f64 {
    let of = |pair: (f64, f64)| match (is_same(pair), pair.0.is_finite() && pair.1.is_finite()) {
        (true, _) => 0.0,
        (_, false) => f64::INFINITY,
        _ => (pair.0 - pair.1).abs() / ulp(data_type, pair.1),
    };
    pairs(values, exact).map(of).fold(0.0, f64::max)
}

/// The Euclidean norm of the finite values.
pub fn norm(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let sizes = values.map(f64::abs).filter(|value| value.is_finite());
    let largest = sizes.clone().fold(0.0, f64::max);
    if largest == 0.0 {
        0.0
    } else {
        largest * sizes.map(|size| (size / largest).powi(2)).sum::<f64>().sqrt()
    }
}

/// The norm of the difference over the norm of the exact values; infinite where one value is not finite and the other is.
pub fn relative(values: &Array, exact: &Array) -> f64 {
    of_norm(distance(values, exact), exact)
}

/// The norm of the difference; infinite where one value is not finite and the other is.
pub fn distance(values: &Array, exact: &Array) -> f64 {
    let is_kept = |pair: (f64, f64)| is_same(pair) || pair.0.is_finite() && pair.1.is_finite();
    if !pairs(values, exact).all(is_kept) {
        return f64::INFINITY;
    }
    norm(pairs(values, exact).map(|(value, exact)| value - exact))
}

/// The norm of a change over the norm of the exact values; infinite where a finite value became another.
pub fn change(before: &Array, after: &Array, exact: &Array) -> f64 {
    if pairs(before, after).any(|(before, after)| before.is_finite() && !after.is_finite()) {
        return f64::INFINITY;
    }
    of_norm(norm(pairs(before, after).map(|(before, after)| after - before)), exact)
}

/// A norm over that of the exact values.
pub fn of_norm(size: f64, exact: &Array) -> f64 {
    if size == 0.0 { 0.0 } else { size / norm(exact.values.iter().copied()) }
}

/// Whether all values are finite.
pub fn is_finite(values: &Array) -> bool {
    values.values.iter().all(|value| value.is_finite())
}

/// The largest finite magnitude.
pub fn largest(values: &Array) -> f64 {
    values.values.iter().map(|value| value.abs()).filter(|value| value.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(values: &[f64]) -> Array {
        Array { dims: vec![values.len()], values: values.to_vec() }
    }

    #[test]
    fn distances_are_in_units_of_the_type() {
        let exact = array(&[1.0, 4.0, 0.0]);
        let off = array(&[1.0 + (-10_f64).exp2(), 4.0, (-24_f64).exp2()]);
        assert_eq!(ulps(&off, &exact, DataType::Half), 1.0);
        assert_eq!(ulps(&off, &exact, DataType::Bfloat16), 2_f64.powi(133 - 24));
        assert_eq!(ulps(&array(&[3.0]), &array(&[5.0]), DataType::Int8), 2.0);
    }

    #[test]
    fn infinities_count_where_they_differ() {
        let exact = array(&[1.0, f64::INFINITY, f64::NAN]);
        assert_eq!((relative(&exact, &exact), ulps(&exact, &exact, DataType::Float)), (0.0, 0.0));
        assert_eq!(relative(&array(&[f64::NAN, f64::INFINITY, f64::NAN]), &exact), f64::INFINITY);
        assert_eq!(change(&exact, &array(&[2.0, 0.0, 0.0]), &array(&[4.0, 0.0, 3.0])), 0.2);
        assert!((norm([3e200, -4e200].into_iter()) / 5e200 - 1.0).abs() < 1e-15);
    }
}
