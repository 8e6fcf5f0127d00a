//! In which types sums of integers are exact.

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::Compute;

/// The largest magnitude up to which a type holds every integer.
pub(crate) fn most(compute: Compute) -> f64 {
    let digits = match compute {
        Compute::Single => f32::MANTISSA_DIGITS,
        Compute::Double => f64::MANTISSA_DIGITS,
    };
    (1_u64 << digits) as f64
}

/// The largest magnitude of a type's integers; `None` for floats.
pub(crate) fn largest(data_type: DataType) -> Option<f64> {
    Some(match data_type {
        DataType::Boolean => 1.0,
        DataType::Int4 => 8.0,
        DataType::Int8 => 128.0,
        DataType::Uint8 => 255.0,
        DataType::Int32 => 2_147_483_648.0,
        DataType::Int64 => 9_223_372_036_854_775_808.0,
        _ => return None,
    })
}

/// The largest magnitude of a sum of products; `None` if an operand has floats, whose sums are rounded.
fn of_products(operands: [DataType; 2], terms: f64) -> Option<f64> {
    let [a, b] = operands.map(largest);
    Some(a? * b? * terms)
}

/// The type in which `terms` products of these types are summed: the given one, unless integers exceed it.
pub(crate) fn exact(operands: [DataType; 2], terms: f64, compute: Compute) -> Compute {
    match of_products(operands, terms) {
        Some(sum) if sum > most(compute) => Compute::Double,
        _ => compute,
    }
}

/// Whether even double precision holds such sums only if the integers are small.
pub(crate) fn may_exceed(operands: [DataType; 2], terms: f64) -> bool {
    of_products(operands, terms).is_some_and(|sum| sum >= most(Compute::Double))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_the_narrowest_type_that_holds_them() {
        use Compute::{Double, Single};
        use DataType::{Boolean, Float, Int8, Int32, Int64, Uint8};
        assert_eq!(exact([Int8, Int8], 1024.0, Single), Single);
        assert_eq!(exact([Int8, Int8], 1025.0, Single), Double);
        assert_eq!(exact([Uint8, Boolean], 65_793.0, Single), Single);
        assert_eq!(exact([Int32, Int8], 1.0, Single), Double);
        assert_eq!(exact([Float, Int32], 1e6, Single), Single);
        assert!(!may_exceed([Int32, Int8], 32_767.0) && may_exceed([Int32, Int8], 32_768.0));
        assert!(may_exceed([Int32, Int32], 1.0) && may_exceed([Int64, Boolean], 1.0));
        assert!(!may_exceed([Float, Int64], 1e9));
    }
}
