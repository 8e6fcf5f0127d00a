//! Elements: real numbers as the bits of an `f64`, whole ones as those of an `i64`.

use half::{bf16, f16};
use hipdnn_plugin_sdk::rounding::{to_bfloat16, to_half};
use hipdnn_plugin_sdk::small_float::{E4M3, E5M2};

use crate::form::{Binary, Comparison, Unary};
use crate::scalar::Scalar;

/// An element as bytes, of which the first `scalar.size()` count.
pub fn encode(cell: u64, scalar: Scalar) -> [u8; 8] {
    let real = f64::from_bits(cell);
    let bits = match scalar {
        Scalar::F16 => u64::from(to_half(real).to_bits()),
        Scalar::Bf16 => u64::from(to_bfloat16(real).to_bits()),
        Scalar::F32 => u64::from((real as f32).to_bits()),
        Scalar::Fp8E4m3 => u64::from(E4M3.encode(real)),
        Scalar::Fp8E5m2 => u64::from(E5M2.encode(real)),
        _ => cell,
    };
    bits.to_le_bytes()
}

/// An element from bytes.
pub fn decode(bytes: &[u8], scalar: Scalar) -> u64 {
    let mut own = [0; 8];
    own.iter_mut().zip(bytes).take(scalar.size()).for_each(|(to, from)| *to = *from);
    let bits = u64::from_le_bytes(own);
    let shift = 64 - 8 * scalar.size() as u32;
    let real = match scalar {
        Scalar::F16 => f16::from_bits(bits as u16).to_f64(),
        Scalar::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        Scalar::F64 => f64::from_bits(bits),
        Scalar::Fp8E4m3 => E4M3.decode(bits as u8),
        Scalar::Fp8E5m2 => E5M2.decode(bits as u8),
        Scalar::I8 | Scalar::I32 | Scalar::I64 => return ((bits << shift) as i64 >> shift) as u64,
        Scalar::U8 => return bits,
        Scalar::Bool => return u64::from(bits != 0),
    };
    real.to_bits()
}

/// The nearest value of a type.
pub(super) fn rounded(real: f64, scalar: Scalar) -> u64 {
    let near = match scalar {
        Scalar::F16 => to_half(real).to_f64(),
        Scalar::Bf16 => to_bfloat16(real).to_f64(),
        Scalar::F32 => f64::from(real as f32),
        Scalar::F64 => real,
        _ => return decode(&encode(real.to_bits(), scalar), scalar),
    };
    near.to_bits()
}

/// A whole number in a type, with wrapping.
pub(super) fn wrapped(whole: i64, scalar: Scalar) -> u64 {
    match scalar {
        Scalar::I8 => i64::from(whole as i8) as u64,
        Scalar::U8 => u64::from(whole as u8),
        Scalar::I32 => i64::from(whole as i32) as u64,
        Scalar::I64 => whole as u64,
        _ => decode(&encode(whole as u64, scalar), scalar),
    }
}

pub(super) fn convert(cell: u64, from: Scalar, to: Scalar) -> u64 {
    match (from.is_float(), to.is_float()) {
        _ if from == to => cell,
        (true, true) => rounded(f64::from_bits(cell), to),
        (false, true) => rounded(cell as i64 as f64, to),
        (true, false) => {
            let real = f64::from_bits(cell);
            match to {
                Scalar::Bool => u64::from(real != 0.0),
                Scalar::I8 => i64::from(real as i8) as u64,
                Scalar::U8 => u64::from(real as u8),
                Scalar::I32 => i64::from(real as i32) as u64,
                _ => real as i64 as u64,
            }
        }
        (false, false) => match to {
            Scalar::Bool => u64::from(cell != 0),
            Scalar::I8 => (cell as i64).clamp(-128, 127) as u64,
            Scalar::U8 => (cell as i64).clamp(0, 255) as u64,
            _ => wrapped(cell as i64, to),
        },
    }
}

pub(super) fn unary(op: Unary, cell: u64, scalar: Scalar) -> u64 {
    if !scalar.is_float() {
        let x = cell as i64;
        return wrapped(
            match op {
                Unary::Neg => x.wrapping_neg(),
                Unary::Abs => x.wrapping_abs(),
                Unary::Not if scalar == Scalar::Bool => i64::from(x == 0),
                Unary::Not => !x,
                _ => x,
            },
            scalar,
        );
    }
    let x = f64::from_bits(cell);
    let y = match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Exp => x.exp(),
        Unary::Exp2 => x.exp2(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Reciprocal => 1.0 / x,
        Unary::Tanh => x.tanh(),
        Unary::Erf => erf(x),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Not => x,
    };
    rounded(y, scalar)
}

/// The error function, by its series or its continued fraction.
fn erf(x: f64) -> f64 {
    let size = x.abs();
    if size > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

pub(super) fn binary(op: Binary, x: u64, y: u64, scalar: Scalar) -> Result<u64, String> {
    if scalar.is_float() {
        let (x, y) = (f64::from_bits(x), f64::from_bits(y));
        let real = match op {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div => x / y,
            Binary::Rem => x % y,
            Binary::Min if x.is_nan() || y.is_nan() => f64::NAN,
            Binary::Max if x.is_nan() || y.is_nan() => f64::NAN,
            Binary::Min | Binary::MinNumber => x.min(y),
            Binary::Max | Binary::MaxNumber => x.max(y),
            Binary::Pow => x.powf(y),
            _ => return Err(format!("{op:?} of real numbers")),
        };
        return Ok(rounded(real, scalar));
    }
    let (x, y) = (x as i64, y as i64);
    let whole = match op {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div | Binary::Rem if x < 0 || y <= 0 => {
            return Err(format!("{op:?} of {x} and {y}, expected numbers that are not negative"));
        }
        Binary::Div => x / y,
        Binary::Rem => x % y,
        Binary::Min | Binary::MinNumber => x.min(y),
        Binary::Max | Binary::MaxNumber => x.max(y),
        Binary::Pow => return Err("a power of whole numbers".to_owned()),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => x.wrapping_shl(y as u32),
        Binary::Shr if scalar == Scalar::I32 => i64::from((x as u32).wrapping_shr(y as u32)),
        Binary::Shr => (x as u64).wrapping_shr(y as u32) as i64,
    };
    Ok(wrapped(whole, scalar))
}

pub(super) fn compare(op: Comparison, x: u64, y: u64, scalar: Scalar) -> bool {
    let order = if scalar.is_float() {
        f64::from_bits(x).partial_cmp(&f64::from_bits(y))
    } else {
        Some((x as i64).cmp(&(y as i64)))
    };
    match op {
        Comparison::Equal => order.is_some_and(|order| order.is_eq()),
        Comparison::NotEqual => order.is_none_or(|order| order.is_ne()),
        Comparison::Less => order.is_some_and(|order| order.is_lt()),
        Comparison::LessEqual => order.is_some_and(|order| order.is_le()),
        Comparison::Greater => order.is_some_and(|order| order.is_gt()),
        Comparison::GreaterEqual => order.is_some_and(|order| order.is_ge()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_round_once() {
        // Just above the middle of two values, by less than a bit of single precision.
        for (scalar, bits) in [(Scalar::F16, 10), (Scalar::Bf16, 7)] {
            let (next, above) = (2.0_f64.powi(-bits), 2.0_f64.powi(-40));
            let encoded = encode((1.0 + next / 2.0 + above).to_bits(), scalar);
            assert_eq!(f64::from_bits(decode(&encoded, scalar)), 1.0 + next, "{scalar:?}");
        }
    }
}
