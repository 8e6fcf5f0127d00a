//! Elements of types that kernels do not have: floating-point types of 4 to 8 bits by their codes, and `int4`.

use hipdnn_kernels::form::{Binary, Memory, Pointer};
use hipdnn_kernels::{Builder, Scalar, Value};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::graph::DataType;

/// The type of elements in memory.
///
/// # Errors
/// The types that kernels do not have.
pub fn scalar(data_type: DataType) -> Result<Scalar, Refusal> {
    Ok(match data_type {
        DataType::Float => Scalar::F32,
        DataType::Double => Scalar::F64,
        DataType::Half => Scalar::F16,
        DataType::Bfloat16 => Scalar::Bf16,
        DataType::Int64 => Scalar::I64,
        DataType::Int32 => Scalar::I32,
        DataType::Int8 => Scalar::I8,
        DataType::Uint8 => Scalar::U8,
        DataType::Boolean => Scalar::Bool,
        DataType::Fp8E4m3 => Scalar::Fp8E4m3,
        DataType::Fp8E5m2 => Scalar::Fp8E5m2,
        other => {
            return Err(format!(
                "data type is {}, expected float, double, half, bfloat16, fp8_e4m3, fp8_e5m2, an integer of 8, 32 or 64 bits, or boolean",
                other.name()
            ));
        }
    })
}

/// The type as which kernels see elements that they gather: bytes if they have no such type.
pub(crate) fn seen(data_type: DataType) -> Scalar {
    scalar(data_type).unwrap_or(Scalar::U8)
}

/// Bits of a float's fraction.
const FRACTION: u32 = 23;

/// A sign, an exponent and a mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    /// The code of the largest finite value.
    most: i64,
    /// Whether the code of a negative zero is the only NaN.
    is_fnuz: bool,
}

const fn format(exponent: u32, mantissa: u32, bias: i32, most: i64, is_fnuz: bool) -> Format {
    Format { exponent, mantissa, bias, most, is_fnuz }
}

/// How elements of a type are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// As one of the kernels' types.
    Own(Scalar),
    /// As a code in the low bits of a byte, or packed if it is smaller.
    Float(Format),
    /// A power of two: its exponent plus 127; 255 is a NaN.
    Exponent,
    /// Two's complement of 4 bits.
    Int4,
}

impl Code {
    /// How elements of a type are stored.
    ///
    /// # Errors
    /// The types that kernels do not read.
    pub fn of(data_type: DataType) -> Result<Self, Refusal> {
        use DataType as D;
        Ok(match data_type {
            D::Fp4E2m1 => Self::Float(format(2, 1, 1, 0x7, false)),
            D::Fp6E2m3 => Self::Float(format(2, 3, 1, 0x1f, false)),
            D::Fp6E3m2 => Self::Float(format(3, 2, 3, 0x1f, false)),
            D::Fp8E4m3 => Self::Float(format(4, 3, 7, 0x7e, false)),
            D::Fp8E5m2 => Self::Float(format(5, 2, 15, 0x7b, false)),
            D::Fp8E4m3Fnuz => Self::Float(format(4, 3, 8, 0x7f, true)),
            D::Fp8E5m2Fnuz => Self::Float(format(5, 2, 16, 0x7f, true)),
            D::Fp8E8m0 => Self::Exponent,
            D::Int4 => Self::Int4,
            other => Self::Own(scalar(other)?),
        })
    }

    /// The type of what kernels load.
    pub fn scalar(self) -> Scalar {
        match self {
            Self::Own(scalar) => scalar,
            _ => Scalar::U8,
        }
    }

    /// Bits of an element in memory.
    pub fn bits(self) -> usize {
        match self {
            Self::Own(scalar) => 8 * scalar.size(),
            Self::Float(format) => (1 + format.exponent + format.mantissa) as usize,
            Self::Exponent => 8,
            Self::Int4 => 4,
        }
    }

    /// The largest value; of whole numbers the largest whose negative is one, too.
    pub fn largest(self) -> f64 {
        match self {
            Self::Own(Scalar::I8) => 127.0,
            Self::Own(Scalar::F16) => 65504.0,
            Self::Own(Scalar::Bf16) => f64::from(f32::from_bits(0x7f7f_0000)),
            Self::Own(_) => f64::from(f32::MAX),
            Self::Float(format) => format.value(format.most),
            Self::Exponent => 127_f64.exp2(),
            Self::Int4 => 7.0,
        }
    }

    /// The element at `index` of a tensor whose storage ends with the byte `last`.
    pub fn load(self, b: &mut Builder, pointer: Pointer, index: Value, last: usize, real: Scalar) -> Value {
        let memory = Memory::Global(pointer);
        let bits = self.bits();
        if bits >= 8 {
            let own = b.load(memory, index);
            // Kernels have some of these types.
            let is_code = b.type_of(own).scalar == Scalar::U8;
            return if is_code { self.decode(b, own, real) } else { b.convert(own, real) };
        }
        let (byte, shift) = place(b, index, bits);
        let own = b.load(memory, byte);
        let mut code = b.convert(own, Scalar::I32);
        if 8 % bits != 0 {
            let next = b.add(byte, 1);
            let next = b.min(next, last);
            let upper = b.load(memory, next);
            let upper = b.convert(upper, Scalar::I32);
            let upper = b.binary(Binary::Shl, upper, 8);
            code = b.or(code, upper);
        }
        let code = b.binary(Binary::Shr, code, shift);
        let code = b.and(code, (1_i64 << bits) - 1);
        self.decode(b, code, real)
    }

    /// Writes a code, a whole number, at `index` of a tensor whose storage ends with the byte `last`. The other bits of a byte stay.
    pub fn store(self, b: &mut Builder, pointer: Pointer, index: Value, last: usize, code: Value) {
        let memory = Memory::Global(pointer);
        let bits = self.bits();
        if bits >= 8 {
            let code = b.convert(code, self.scalar());
            b.store(memory, index, code);
            return;
        }
        let (byte, shift) = place(b, index, bits);
        let code = b.and(code, (1_i64 << bits) - 1);
        let code = b.binary(Binary::Shl, code, shift);
        let mask = b.int((1 << bits) - 1, Scalar::I32);
        let mask = b.binary(Binary::Shl, mask, shift);
        let parts = if 8 % bits == 0 { 1 } else { 2 };
        for part in 0..parts {
            let down = 8 * part;
            let [code, mask] = [code, mask].map(|word| b.binary(Binary::Shr, word, down));
            let [code, mask] = [code, mask].map(|word| b.and(word, 0xff));
            let own = b.add(byte, part);
            // A byte without bits of this element may be another thread's.
            let none = b.int(0, Scalar::I32);
            let [is_inside, is_met] = [b.less_equal(own, last), b.less(none, mask)];
            let is_needed = b.and(is_inside, is_met);
            b.when(is_needed, |b| {
                let before = b.load(memory, own);
                let before = b.convert(before, Scalar::I32);
                let all = b.int(0xff, Scalar::I32);
                let kept = b.binary(Binary::Xor, mask, all);
                let kept = b.and(before, kept);
                let after = b.or(kept, code);
                let after = b.convert(after, Scalar::U8);
                b.store(memory, own, after);
            });
        }
    }

    /// A code as a number.
    fn decode(self, b: &mut Builder, code: Value, real: Scalar) -> Value {
        let code = b.convert(code, Scalar::I32);
        let value = match self {
            Self::Own(_) => return b.convert(code, real),
            Self::Int4 => {
                let eight = b.int(8, Scalar::I32);
                let turned = b.binary(Binary::Xor, code, eight);
                let value = b.sub(turned, 8);
                return b.convert(value, real);
            }
            Self::Float(format) => format.decode(b, code),
            Self::Exponent => {
                let normal = b.binary(Binary::Shl, code, FRACTION);
                let is_least = b.equal(code, 0);
                // 2^-127 is no normal float.
                let bits = b.select(is_least, i64::from(1 << (FRACTION - 1)), normal);
                let is_nan = b.equal(code, 255);
                let bits = b.select(is_nan, i64::from(f32::NAN.to_bits()), bits);
                b.bits(bits, Scalar::F32)
            }
        };
        b.convert(value, real)
    }

    /// The code of a finite float whose magnitude is at most the largest value.
    pub fn encode(self, b: &mut Builder, value: Value) -> Value {
        match self {
            Self::Float(format) => format.encode(b, value),
            // The last bits of the sum are the nearest whole number.
            Self::Int4 | Self::Own(Scalar::I8) => {
                let large = 1.5 * f64::from(1 << FRACTION);
                let sum = b.add(value, large);
                let bits = b.bits(sum, Scalar::I32);
                b.sub(bits, i64::from((large as f32).to_bits()))
            }
            Self::Own(_) | Self::Exponent => b.convert(value, Scalar::I32),
        }
    }

    /// How kernels count the values of a type of scales.
    fn counted(self) -> Self {
        match self {
            Self::Own(Scalar::F16) => Self::Float(format(5, 10, 15, 0x7bff, false)),
            Self::Own(Scalar::Bf16) => Self::Float(format(8, 7, 127, 0x7f7f, false)),
            other => other,
        }
    }

    /// The least value of a type of scales that is at least `most / divisor`, limited to the largest, and what is stored of it. `most` is not
    /// negative.
    pub fn round_up(self, b: &mut Builder, most: Value, divisor: f64) -> (Value, Value) {
        let counted = self.counted();
        let quotient = b.mul(most, 1.0 / divisor);
        let quotient = b.min(quotient, self.largest());
        let bits = b.bits(quotient, Scalar::I32);
        let (near, last) = match counted {
            Self::Float(format) => (format.encode(b, quotient), format.most),
            Self::Exponent => (b.binary(Binary::Shr, bits, FRACTION), 254),
            _ => (bits, i64::from(f32::MAX.to_bits())),
        };
        let value = |b: &mut Builder, code: Value| match counted {
            Self::Own(_) | Self::Int4 => b.bits(code, Scalar::F32),
            coded => coded.decode(b, code, Scalar::F32),
        };
        // The quotient is off by less than a step: the last of three candidates is enough in any case.
        let mut code = b.add(near, 1);
        code = b.min(code, last);
        let mut scale = value(b, code);
        for step in [0, 1] {
            let less = b.sub(near, step);
            let less = b.max(less, 0);
            let own = value(b, less);
            let by = b.float(divisor, Scalar::F32);
            let rest = remainder(b, most, own, by);
            let suffices = b.less_equal(rest, 0.0);
            code = b.select(suffices, less, code);
            scale = b.select(suffices, own, scale);
        }
        let stored = match self {
            Self::Own(scalar) => b.convert(scale, scalar),
            _ => b.convert(code, Scalar::U8),
        };
        (scale, stored)
    }
}

/// x − y · z where that is much smaller than x: by halves of both factors, whose products are exact. Not every device rounds `fma` once.
pub(crate) fn remainder(b: &mut Builder, x: Value, y: Value, z: Value) -> Value {
    let [y, z] = [y, z].map(|whole| {
        let bits = b.bits(whole, Scalar::I32);
        let upper = b.and(bits, !0xfff_i64);
        let upper = b.bits(upper, Scalar::F32);
        [upper, b.sub(whole, upper)]
    });
    let mut rest = x;
    for (y, z) in [(y[0], z[0]), (y[0], z[1]), (y[1], z[0]), (y[1], z[1])] {
        let product = b.mul(y, z);
        rest = b.sub(rest, product);
    }
    rest
}

/// A float that was rounded toward zero, and whose last bit tells whether it is inexact, from the nearest one and the sign of what it lacks.
pub(crate) fn to_odd(b: &mut Builder, near: Value, rest: Value) -> Value {
    let bits = b.bits(near, Scalar::I32);
    let is_exact = b.equal(rest, 0.0);
    let signs = b.mul(rest, near);
    let is_beyond = b.less(signs, 0.0);
    let down = b.sub(bits, 1);
    let inexact = b.select(is_beyond, down, bits);
    let inexact = b.or(inexact, 1);
    let bits = b.select(is_exact, bits, inexact);
    b.bits(bits, Scalar::F32)
}

/// The byte in which an element begins, and its first bit there.
fn place(b: &mut Builder, index: Value, bits: usize) -> (Value, Value) {
    let bit = b.mul(index, bits);
    let byte = b.binary(Binary::Shr, bit, 3);
    let shift = b.and(bit, 7);
    (byte, shift)
}

impl Format {
    /// The value of a code without a sign.
    fn value(self, code: i64) -> f64 {
        let fraction = code & ((1 << self.mantissa) - 1);
        let exponent = (code >> self.mantissa) as i32;
        let part = fraction as f64 / f64::from(1 << self.mantissa);
        let (whole, exponent) = if exponent == 0 { (part, 1) } else { (1.0 + part, exponent) };
        whole * f64::from(exponent - self.bias).exp2()
    }

    fn sign(self) -> i64 {
        1 << (self.exponent + self.mantissa)
    }

    fn decode(self, b: &mut Builder, code: Value) -> Value {
        let size = b.and(code, self.sign() - 1);
        let normal = b.binary(Binary::Shl, size, FRACTION - self.mantissa);
        let normal = b.add(normal, i64::from(127 - self.bias) << FRACTION);
        let least = f64::from(1 - self.bias - self.mantissa as i32).exp2();
        let count = b.convert(size, Scalar::F32);
        let subnormal = b.mul(count, least);
        let subnormal = b.bits(subnormal, Scalar::I32);
        let is_small = b.less(size, 1_i64 << self.mantissa);
        let mut bits = b.select(is_small, subnormal, normal);
        let nan = i64::from(f32::NAN.to_bits());
        if self.is_fnuz {
            let is_nan = b.equal(code, self.sign());
            bits = b.select(is_nan, nan, bits);
        } else if self.exponent + self.mantissa == 7 {
            let is_beyond = b.greater(size, self.most);
            // With two bits of mantissa the first code beyond the largest is infinity.
            let first = if self.mantissa == 2 { i64::from(f32::INFINITY.to_bits()) } else { nan };
            let is_first = b.equal(size, self.most + 1);
            let special = b.int(nan, Scalar::I32);
            let special = b.select(is_first, first, special);
            bits = b.select(is_beyond, special, bits);
        }
        let sign = b.and(code, self.sign());
        let sign = b.binary(Binary::Shl, sign, 31 - self.exponent - self.mantissa);
        let bits = b.or(bits, sign);
        b.bits(bits, Scalar::F32)
    }

    /// To the nearest, ties to even.
    fn encode(self, b: &mut Builder, value: Value) -> Value {
        let bits = b.bits(value, Scalar::I32);
        let size = b.and(bits, i64::from(i32::MAX));
        let below = FRACTION - self.mantissa;
        let lowest = 1 - self.bias;
        let last = b.binary(Binary::Shr, size, below);
        let last = b.and(last, 1);
        let half = b.add(last, (1_i64 << (below - 1)) - 1);
        let normal = b.add(size, half);
        let normal = b.binary(Binary::Shr, normal, below);
        let normal = b.sub(normal, i64::from(126 + lowest) << self.mantissa);
        // The last bit of such a sum is the smallest magnitude.
        let large = f64::from(lowest - self.mantissa as i32 + FRACTION as i32).exp2();
        let magnitude = b.bits(size, Scalar::F32);
        let sum = b.add(magnitude, large);
        let sum = b.bits(sum, Scalar::I32);
        let subnormal = b.sub(sum, i64::from((large as f32).to_bits()));
        let is_small = b.less(magnitude, f64::from(lowest).exp2());
        let code = b.select(is_small, subnormal, normal);
        let code = b.min(code, self.most);
        let sign = b.binary(Binary::Shr, bits, 31);
        let sign = b.binary(Binary::Shl, sign, self.exponent + self.mantissa);
        let signed = b.or(code, sign);
        if !self.is_fnuz {
            return signed;
        }
        // Zero has no sign.
        let is_zero = b.equal(code, 0);
        b.select(is_zero, 0, signed)
    }
}
