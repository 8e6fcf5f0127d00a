//! Elementary functions by arithmetic alone.
//!
//! Vulkan lets a driver's own be off by many units in the last place, has none for doubles, and no error function. These are within a few
//! units of the last place of their kind. Those of floats rest on the device's 2^x, which is good where its argument is exact. Series are
//! those of analysis; fits are the best polynomials of their degree.

use rspirv::spirv::{GlslStd450Op, Op, Word};

use super::Printer;
use super::ids::{F32, F64, Kind, U32, U64};

/// erf(x) / x for |x| < 1, by x².
const ERF_SMALL: [f64; 7] = [
    1.128_379_165_913_751,
    -0.376_126_271_359_656_87,
    0.112_836_001_762_558_2,
    -0.026_854_444_591_804_11,
    0.005_189_535_339_051_614,
    -0.000_802_084_127_638_124_5,
    7.889_119_517_798_554e-5,
];

/// log2 erfc(x) for x ≥ 1. Its last factor is below 0, so that it falls on where its fit ends, at 4.2.
const ERFC_LARGE: [f64; 8] = [
    0.000_271_284_736_024_668_4,
    -1.629_637_191_225_630_9,
    -0.913_543_198_890_064_1,
    -0.156_414_944_738_429_65,
    0.036_367_827_634_693_43,
    -0.006_065_900_836_103_347,
    0.000_636_713_862_709_329,
    -3.128_751_635_667_546e-5,
];

/// tanh(x) / x for |x| < 0.6, by x².
const TANH_SMALL: [f64; 6] = [
    0.999_999_997_643_264_5,
    -0.333_332_850_852_041_45,
    0.133_317_294_449_830_93,
    -0.053_771_846_220_043_11,
    0.020_763_584_749_152_83,
    -0.005_863_215_967_448_13,
];

/// The last power in series of e^x and tanh of doubles.
const EXP_POWER: i32 = 14;
const TANH_POWER: i32 = 19;

/// Numbers that depend on the kind.
struct Width {
    /// Bits of a number, and of its fraction.
    bits: u32,
    fraction: u32,
    bias: i64,
    /// Where e^x is 0, and where it is infinite.
    exp: [f64; 2],
    /// The natural logarithm of 2 in two parts.
    ln2: [f64; 2],
    /// π / 2 in parts.
    quarter: [f64; 3],
    /// The last power in series of ln and sine.
    powers: [i32; 2],
    least: f64,
}

const SINGLE: Width = Width {
    bits: 32,
    fraction: 23,
    bias: 127,
    exp: [-104.5, 89.5],
    ln2: [0.693_359_375, -2.121_944_400_546_905_8e-4],
    quarter: [1.570_312_5, 4.837_512_969_970_703e-4, 7.549_789_948_768_648e-8],
    powers: [11, 11],
    least: 1.175_494_350_822_287_5e-38,
};

const DOUBLE: Width = Width {
    bits: 64,
    fraction: 52,
    bias: 1023,
    exp: [-746.5, 710.5],
    ln2: [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10],
    quarter: [1.570_796_251_296_997, 7.549_789_415_861_596e-8, 5.390_302_858_158_119e-15],
    powers: [23, 21],
    least: 2.225_073_858_507_201_4e-308,
};

fn width(kind: Kind) -> &'static Width {
    if kind == F64 { &DOUBLE } else { &SINGLE }
}

impl Printer<'_> {
    fn whole_kind(kind: Kind) -> Kind {
        if kind == F64 { U64 } else { U32 }
    }

    fn madd(&mut self, kind: Kind, x: Word, y: Word, z: Word) -> Word {
        self.glsl(GlslStd450Op::Fma, kind, &[x, y, z])
    }

    fn times(&mut self, kind: Kind, x: Word, number: f64) -> Word {
        let number = self.real(kind, number);
        self.op(Op::FMul, kind, &[x, number])
    }

    fn plus(&mut self, kind: Kind, x: Word, number: f64) -> Word {
        let number = self.real(kind, number);
        self.op(Op::FAdd, kind, &[x, number])
    }

    /// A polynomial, the constant first.
    fn polynomial(&mut self, kind: Kind, x: Word, factors: &[f64]) -> Word {
        let Some((last, rest)) = factors.split_last() else { return self.real(kind, 0.0) };
        let mut sum = self.real(kind, *last);
        for factor in rest.iter().rev() {
            let factor = self.real(kind, *factor);
            sum = self.madd(kind, sum, x, factor);
        }
        sum
    }

    /// Where a number is none, itself; else a result.
    fn or_nan(&mut self, kind: Kind, x: Word, result: Word) -> Word {
        let is_nan = self.is_nan(kind, x);
        self.op(Op::Select, kind, &[is_nan, x, result])
    }

    /// The nearest whole number, and it as an integer of 32 bits.
    fn nearest(&mut self, kind: Kind, x: Word) -> (Word, Word) {
        let half = self.plus(kind, x, 0.5);
        let whole = self.glsl(GlslStd450Op::Floor, kind, &[half]);
        (whole, self.op(Op::ConvertFToS, U32, &[whole]))
    }

    /// 2 to the power of an integer that is in the range of exponents.
    fn power_of_two(&mut self, kind: Kind, n: Word) -> Word {
        let w = width(kind);
        let biased = self.whole(Op::IAdd, n, w.bias);
        let whole = Self::whole_kind(kind);
        let wide = if whole == U64 { self.op(Op::UConvert, U64, &[biased]) } else { biased };
        let places = self.int(i64::from(w.fraction));
        let bits = self.op(Op::ShiftLeftLogical, whole, &[wide, places]);
        self.op(Op::Bitcast, kind, &[bits])
    }

    /// e^x of a float: 2 to the rounded power, and what rounding left out as a factor near 1.
    fn exp_single(&mut self, x: Word) -> Word {
        const HIGH: f64 = std::f32::consts::LOG2_E as f64;
        let power = self.times(F32, x, HIGH);
        let power = self.exact(power);
        let back = self.op(Op::FNegate, F32, &[power]);
        let [high, low] = [HIGH, std::f64::consts::LOG2_E - HIGH].map(|part| self.real(F32, part));
        let rest = self.madd(F32, x, high, back);
        let rest = self.madd(F32, x, low, rest);
        let [ln2, one] = [std::f64::consts::LN_2, 1.0].map(|number| self.real(F32, number));
        let factor = self.madd(F32, rest, ln2, one);
        let result = self.glsl(GlslStd450Op::Exp2, F32, &[power]);
        let result = self.op(Op::FMul, F32, &[result, factor]);
        let ends = [(Op::FOrdLessThan, 0.0), (Op::FOrdGreaterThan, f64::INFINITY)];
        SINGLE.exp.into_iter().zip(ends).fold(result, |result, (limit, (beyond, end))| {
            let [limit, end] = [limit, end].map(|number| self.real(F32, number));
            let is_beyond = self.op(beyond, Kind::Bool, &[x, limit]);
            self.op(Op::Select, F32, &[is_beyond, end, result])
        })
    }

    /// e^x.
    pub(super) fn exp(&mut self, kind: Kind, x: Word) -> Word {
        if kind == F32 {
            return self.exp_single(x);
        }
        let w = width(kind);
        let [low, high] = w.exp.map(|number| self.real(kind, number));
        let is_nan = self.is_nan(kind, x);
        let zero = self.real(kind, 0.0);
        let own = self.op(Op::Select, kind, &[is_nan, zero, x]);
        let own = self.glsl(GlslStd450Op::FMax, kind, &[own, low]);
        let own = self.glsl(GlslStd450Op::FMin, kind, &[own, high]);
        let scaled = self.times(kind, own, std::f64::consts::LOG2_E);
        let (whole, n) = self.nearest(kind, scaled);
        let mut rest = own;
        for part in w.ln2 {
            let part = self.real(kind, -part);
            rest = self.madd(kind, whole, part, rest);
        }
        let result = self.scaled_exp(kind, rest, n);
        self.or_nan(kind, x, result)
    }

    /// 2^x; of a float as the device has it.
    pub(super) fn exp2(&mut self, kind: Kind, x: Word) -> Word {
        if kind == F32 {
            return self.glsl(GlslStd450Op::Exp2, kind, &[x]);
        }
        let limits = width(kind).exp.map(|limit| limit * std::f64::consts::LOG2_E);
        let [low, high] = limits.map(|number| self.real(kind, number));
        let is_nan = self.is_nan(kind, x);
        let zero = self.real(kind, 0.0);
        let own = self.op(Op::Select, kind, &[is_nan, zero, x]);
        let own = self.glsl(GlslStd450Op::FMax, kind, &[own, low]);
        let own = self.glsl(GlslStd450Op::FMin, kind, &[own, high]);
        let (whole, n) = self.nearest(kind, own);
        // Exact: both are near each other.
        let rest = self.op(Op::FSub, kind, &[own, whole]);
        let rest = self.times(kind, rest, std::f64::consts::LN_2);
        let result = self.scaled_exp(kind, rest, n);
        self.or_nan(kind, x, result)
    }

    /// e^x · 2^n for a small x.
    fn scaled_exp(&mut self, kind: Kind, x: Word, n: Word) -> Word {
        let mut factors = vec![1.0];
        for power in 1..=EXP_POWER {
            let last = factors.last().copied().unwrap_or(1.0);
            factors.push(last / f64::from(power));
        }
        let series = self.polynomial(kind, x, &factors);
        // In two steps, so that results near both ends of the range are reached.
        let first = self.whole(Op::ShiftRightArithmetic, n, 1);
        let second = self.op(Op::ISub, U32, &[n, first]);
        let [first, second] = [first, second].map(|n| self.power_of_two(kind, n));
        let result = self.op(Op::FMul, kind, &[series, first]);
        self.op(Op::FMul, kind, &[result, second])
    }

    /// The natural logarithm.
    pub(super) fn log(&mut self, kind: Kind, x: Word) -> Word {
        let w = width(kind);
        let whole = Self::whole_kind(kind);
        let least = self.real(kind, w.least);
        let is_small = self.op(Op::FOrdLessThan, Kind::Bool, &[x, least]);
        let up = f64::from(w.fraction);
        let larger = self.times(kind, x, up.exp2());
        let own = self.op(Op::Select, kind, &[is_small, larger, x]);
        let bits = self.op(Op::Bitcast, whole, &[own]);
        let root = std::f64::consts::FRAC_1_SQRT_2;
        let start = if kind == F64 { root.to_bits() } else { u64::from((root as f32).to_bits()) };
        let start = self.constant(whole, start);
        let places = self.int(i64::from(w.fraction));
        let above = self.op(Op::ISub, whole, &[bits, start]);
        let exponent = self.op(Op::ShiftRightArithmetic, whole, &[above, places]);
        let moved = self.op(Op::ShiftLeftLogical, whole, &[exponent, places]);
        let mantissa = self.op(Op::ISub, whole, &[bits, moved]);
        let mantissa = self.op(Op::Bitcast, kind, &[mantissa]);
        let exponent = self.op(Op::ConvertSToF, kind, &[exponent]);
        let lower = self.plus(kind, exponent, -up);
        let exponent = self.op(Op::Select, kind, &[is_small, lower, exponent]);
        // ln m = 2 artanh((m − 1) / (m + 1))
        let [below, sum] = [-1.0, 1.0].map(|number| self.plus(kind, mantissa, number));
        let ratio = self.op(Op::FDiv, kind, &[below, sum]);
        let square = self.op(Op::FMul, kind, &[ratio, ratio]);
        let factors: Vec<f64> = (3..=w.powers[0]).step_by(2).map(|power| 2.0 / f64::from(power)).collect();
        let series = self.polynomial(kind, square, &factors);
        let cube = self.op(Op::FMul, kind, &[ratio, square]);
        let small = self.op(Op::FMul, kind, &[series, cube]);
        let [high, low] = w.ln2.map(|part| self.real(kind, part));
        let two = self.real(kind, 2.0);
        let small = self.madd(kind, exponent, low, small);
        let small = self.madd(kind, ratio, two, small);
        let result = self.madd(kind, exponent, high, small);
        let [zero, infinity, nan] = [0.0, f64::INFINITY, f64::NAN].map(|number| self.real(kind, number));
        let minus = self.real(kind, f64::NEG_INFINITY);
        let is_zero = self.op(Op::FOrdEqual, Kind::Bool, &[x, zero]);
        let is_below = self.op(Op::FOrdLessThan, Kind::Bool, &[x, zero]);
        let is_infinite = self.op(Op::FOrdEqual, Kind::Bool, &[x, infinity]);
        let result = self.op(Op::Select, kind, &[is_infinite, infinity, result]);
        let result = self.op(Op::Select, kind, &[is_below, nan, result]);
        let result = self.op(Op::Select, kind, &[is_zero, minus, result]);
        self.or_nan(kind, x, result)
    }

    /// The factors of a series of even or odd powers with falling factorials, up to a power.
    fn factorials(from: i32, to: i32, alternates: bool) -> Vec<f64> {
        let mut factors = vec![1.0];
        let mut power = from;
        while power + 2 <= to {
            let last: f64 = factors.last().copied().unwrap_or(1.0);
            let next = last / (f64::from(power + 1) * f64::from(power + 2));
            factors.push(if alternates { -next } else { next });
            power += 2;
        }
        factors
    }

    /// x with the sign of another number.
    fn signed(&mut self, kind: Kind, x: Word, sign: Word) -> Word {
        let whole = Self::whole_kind(kind);
        let top = self.constant(whole, 1 << (width(kind).bits - 1));
        let [own, sign] = [x, sign].map(|number| self.op(Op::Bitcast, whole, &[number]));
        let sign = self.op(Op::BitwiseAnd, whole, &[sign, top]);
        let joined = self.op(Op::BitwiseOr, whole, &[own, sign]);
        self.op(Op::Bitcast, kind, &[joined])
    }

    /// The hyperbolic tangent of a float: a polynomial near 0, else 1 − 2 / (e^2x + 1).
    fn tanh_single(&mut self, x: Word) -> Word {
        let square = self.op(Op::FMul, F32, &[x, x]);
        let near = self.polynomial(F32, square, &TANH_SMALL);
        let near = self.op(Op::FMul, F32, &[near, x]);
        let size = self.glsl(GlslStd450Op::FAbs, F32, &[x]);
        let power = self.times(F32, size, 2.0 * std::f64::consts::LOG2_E);
        let power = self.glsl(GlslStd450Op::Exp2, F32, &[power]);
        let below = self.plus(F32, power, 1.0);
        let two = self.real(F32, 2.0);
        let part = self.op(Op::FDiv, F32, &[two, below]);
        self.near_or_far(x, size, (near, 0.6), part)
    }

    /// `near` below a bound of |x| and for a NaN, else 1 − `rest` with the sign of x.
    fn near_or_far(&mut self, x: Word, size: Word, (near, bound): (Word, f64), rest: Word) -> Word {
        let [one, bound] = [1.0, bound].map(|number| self.real(F32, number));
        let far = self.op(Op::FSub, F32, &[one, rest]);
        let far = self.signed(F32, far, x);
        let is_far = self.op(Op::FOrdGreaterThanEqual, Kind::Bool, &[size, bound]);
        self.op(Op::Select, F32, &[is_far, far, near])
    }

    /// The hyperbolic tangent: sinh / cosh by series near 0, else by e^(2x).
    pub(super) fn tanh(&mut self, kind: Kind, x: Word) -> Word {
        if kind == F32 {
            return self.tanh_single(x);
        }
        let square = self.op(Op::FMul, kind, &[x, x]);
        let odd = self.polynomial(kind, square, &Self::factorials(1, TANH_POWER, false));
        let even = self.polynomial(kind, square, &Self::factorials(0, TANH_POWER, false));
        let near = self.op(Op::FMul, kind, &[odd, x]);
        let near = self.op(Op::FDiv, kind, &[near, even]);
        let size = self.glsl(GlslStd450Op::FAbs, kind, &[x]);
        let most = self.real(kind, 20.0);
        let bounded = self.glsl(GlslStd450Op::FMin, kind, &[size, most]);
        let twice = self.times(kind, bounded, 2.0);
        let power = self.exp(kind, twice);
        let below = self.plus(kind, power, 1.0);
        let two = self.real(kind, 2.0);
        let part = self.op(Op::FDiv, kind, &[two, below]);
        let one = self.real(kind, 1.0);
        let far = self.op(Op::FSub, kind, &[one, part]);
        let far = self.signed(kind, far, x);
        let half = self.real(kind, 0.5);
        let is_near = self.op(Op::FOrdLessThan, Kind::Bool, &[size, half]);
        let result = self.op(Op::Select, kind, &[is_near, near, far]);
        self.or_nan(kind, x, result)
    }

    /// The error function.
    pub(super) fn erf(&mut self, kind: Kind, x: Word) -> Word {
        let size = self.glsl(GlslStd450Op::FAbs, kind, &[x]);
        let square = self.op(Op::FMul, kind, &[x, x]);
        if kind == F32 {
            let near = self.polynomial(kind, square, &ERF_SMALL);
            let near = self.op(Op::FMul, kind, &[near, x]);
            let power = self.polynomial(kind, size, &ERFC_LARGE);
            let rest = self.glsl(GlslStd450Op::Exp2, kind, &[power]);
            return self.near_or_far(x, size, (near, 1.0), rest);
        }
        let (near, far) = (self.erf_series(x, square), self.erf_fraction(size, square));
        let [one, bound] = [1.0, 3.0].map(|number| self.real(kind, number));
        let far = self.op(Op::FSub, kind, &[one, far]);
        let far = self.signed(kind, far, x);
        let is_near = self.op(Op::FOrdLessThan, Kind::Bool, &[size, bound]);
        let result = self.op(Op::Select, kind, &[is_near, near, far]);
        self.or_nan(kind, x, result)
    }

    /// erf(x) = 2x e^(−x²) / √π · Σ (2x²)ⁿ / (1 · 3 · 5 ⋯ (2n + 1)), for |x| < 3.
    fn erf_series(&mut self, x: Word, square: Word) -> Word {
        const TERMS: i32 = 64;
        let one = self.real(F64, 1.0);
        let mut sum = one;
        for n in (1..=TERMS).rev() {
            let part = self.times(F64, square, 2.0 / f64::from(2 * n + 1));
            sum = self.madd(F64, part, sum, one);
        }
        let minus = self.op(Op::FNegate, F64, &[square]);
        let power = self.exp(F64, minus);
        let scaled = self.op(Op::FMul, F64, &[sum, power]);
        let scaled = self.op(Op::FMul, F64, &[scaled, x]);
        self.times(F64, scaled, std::f64::consts::FRAC_2_SQRT_PI)
    }

    /// erfc(x) for x ≥ 3, by its continued fraction: e^(−x²) / √π / (x + ½ / (x + 1 / (x + 3⁄2 / …))).
    fn erf_fraction(&mut self, size: Word, square: Word) -> Word {
        const TERMS: i32 = 40;
        let mut below = size;
        for n in (1..=TERMS).rev() {
            let part = self.real(F64, f64::from(n) / 2.0);
            let part = self.op(Op::FDiv, F64, &[part, below]);
            below = self.op(Op::FAdd, F64, &[size, part]);
        }
        let minus = self.op(Op::FNegate, F64, &[square]);
        let power = self.exp(F64, minus);
        let scaled = self.times(F64, power, std::f64::consts::FRAC_2_SQRT_PI / 2.0);
        self.op(Op::FDiv, F64, &[scaled, below])
    }

    /// The sine or cosine.
    pub(super) fn sine(&mut self, kind: Kind, x: Word, is_cosine: bool) -> Word {
        // Doubles bring floats to the first quarter far more exactly.
        let wide = if kind == F32 && self.features.shader_float64 { F64 } else { kind };
        self.need_kind(wide);
        let own = if wide == kind { x } else { self.op(Op::FConvert, wide, &[x]) };
        let quarters = self.times(wide, own, std::f64::consts::FRAC_2_PI);
        let half = self.plus(wide, quarters, 0.5);
        let n = self.glsl(GlslStd450Op::Floor, wide, &[half]);
        let mut rest = own;
        for part in width(wide).quarter {
            let part = self.real(wide, -part);
            rest = self.madd(wide, n, part, rest);
        }
        // Beyond the range of exact reduction the result is meaningless, but within −1 and 1.
        let [low, high] = [-0.8, 0.8].map(|number| self.real(wide, number));
        let rest = self.glsl(GlslStd450Op::FClamp, wide, &[rest, low, high]);
        let quarter = self.times(wide, n, 0.25);
        let turns = self.glsl(GlslStd450Op::Floor, wide, &[quarter]);
        let four = self.real(wide, -4.0);
        let place = self.madd(wide, turns, four, n);
        let place = self.op(Op::ConvertFToS, U32, &[place]);
        let place = if is_cosine { self.whole(Op::IAdd, place, 1) } else { place };
        let rest = if wide == kind { rest } else { self.op(Op::FConvert, kind, &[rest]) };
        let square = self.op(Op::FMul, kind, &[rest, rest]);
        let last = width(kind).powers[1];
        let odd = self.polynomial(kind, square, &Self::factorials(1, last, true));
        let odd = self.op(Op::FMul, kind, &[odd, rest]);
        let even = self.polynomial(kind, square, &Self::factorials(0, last, true));
        let zero = self.int(0);
        let swaps = self.whole(Op::BitwiseAnd, place, 1);
        let swaps = self.op(Op::INotEqual, Kind::Bool, &[swaps, zero]);
        let flips = self.whole(Op::BitwiseAnd, place, 2);
        let flips = self.op(Op::INotEqual, Kind::Bool, &[flips, zero]);
        let value = self.op(Op::Select, kind, &[swaps, even, odd]);
        let negative = self.op(Op::FNegate, kind, &[value]);
        let result = self.op(Op::Select, kind, &[flips, negative, value]);
        // The sine of an infinity is no number.
        let infinity = self.real(kind, f64::INFINITY);
        let size = self.glsl(GlslStd450Op::FAbs, kind, &[x]);
        let is_finite = self.op(Op::FOrdLessThan, Kind::Bool, &[size, infinity]);
        let nan = self.real(kind, f64::NAN);
        self.op(Op::Select, kind, &[is_finite, result, nan])
    }
}
