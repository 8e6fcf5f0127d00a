//! Elementary functions by arithmetic alone.
//!
//! Vulkan lets a driver's own be off by many units in the last place, has none for doubles, and no error function. These are within a few
//! units of the last place of their kind. Series are those of analysis; the two fits are by Chebyshev polynomials.

use rspirv::spirv::{GlslStd450Op, Op, Word};

use super::Printer;
use super::ids::{F32, F64, Kind, U32, U64};

/// erf(x) / x for |x| < 1, by t = 2x² − 1.
const ERF_SMALL: [f64; 8] = [
    0.965_468_738_637_551_1,
    -0.140_536_089_015_53,
    0.019_852_497_722_779_97,
    -0.002_285_485_656_951_858,
    0.000_217_511_989_757_779_3,
    -1.753_682_469_052_275_6e-5,
    1.231_640_172_516_535e-6,
    -7.557_492_676_113_498e-8,
];

/// erfc(x) · e^(x²) for 1 ≤ x < 4, by t = (x − 2.5) / 1.5.
const ERFC_LARGE: [f64; 13] = [
    0.210_806_364_275_941_04,
    -0.111_521_004_695_384_74,
    0.056_110_472_584_281_49,
    -0.027_005_725_289_698_676,
    0.012_489_703_671_511_74,
    -0.005_567_332_909_717_032,
    0.002_401_701_695_307_179,
    -0.001_017_117_773_935_316_5,
    0.000_414_508_098_119_492_63,
    -0.000_143_948_598_220_422_5,
    5.494_724_798_982_275_6e-05,
    -3.692_872_346_405_806_6e-05,
    1.381_908_907_305_273_7e-05,
];

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
    /// The last power in series of e^x, ln, tanh and sine.
    powers: [i32; 4],
    least: f64,
}

const SINGLE: Width = Width {
    bits: 32,
    fraction: 23,
    bias: 127,
    exp: [-104.5, 89.5],
    ln2: [0.693_359_375, -2.121_944_400_546_905_8e-4],
    quarter: [1.570_312_5, 4.837_512_969_970_703e-4, 7.549_789_948_768_648e-8],
    powers: [7, 11, 9, 11],
    least: 1.175_494_350_822_287_5e-38,
};

const DOUBLE: Width = Width {
    bits: 64,
    fraction: 52,
    bias: 1023,
    exp: [-746.5, 710.5],
    ln2: [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10],
    quarter: [1.570_796_251_296_997, 7.549_789_415_861_596e-8, 5.390_302_858_158_119e-15],
    powers: [14, 23, 19, 21],
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

    /// e^x.
    pub(super) fn exp(&mut self, kind: Kind, x: Word) -> Word {
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

    /// 2^x.
    pub(super) fn exp2(&mut self, kind: Kind, x: Word) -> Word {
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
        for power in 1..=width(kind).powers[0] {
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
        let factors: Vec<f64> = (3..=w.powers[1]).step_by(2).map(|power| 2.0 / f64::from(power)).collect();
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

    /// The hyperbolic tangent: sinh / cosh by series near 0, else by e^(2x).
    pub(super) fn tanh(&mut self, kind: Kind, x: Word) -> Word {
        let last = width(kind).powers[2];
        let square = self.op(Op::FMul, kind, &[x, x]);
        let odd = self.polynomial(kind, square, &Self::factorials(1, last, false));
        let even = self.polynomial(kind, square, &Self::factorials(0, last, false));
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
        let (near, bound, far) = if kind == F64 {
            (self.erf_series(x, square), 3.0, self.erf_fraction(size, square))
        } else {
            let t = self.times(kind, square, 2.0);
            let t = self.plus(kind, t, -1.0);
            let ratio = self.polynomial(kind, t, &ERF_SMALL);
            let near = self.op(Op::FMul, kind, &[ratio, x]);
            let four = self.real(kind, 4.0);
            let bounded = self.glsl(GlslStd450Op::FMin, kind, &[size, four]);
            let t = self.plus(kind, bounded, -2.5);
            let t = self.times(kind, t, 1.0 / 1.5);
            let scaled = self.polynomial(kind, t, &ERFC_LARGE);
            let minus = self.op(Op::FMul, kind, &[bounded, bounded]);
            let minus = self.op(Op::FNegate, kind, &[minus]);
            let power = self.exp(kind, minus);
            let rest = self.op(Op::FMul, kind, &[scaled, power]);
            (near, 1.0, rest)
        };
        let one = self.real(kind, 1.0);
        let far = self.op(Op::FSub, kind, &[one, far]);
        let far = self.signed(kind, far, x);
        let bound = self.real(kind, bound);
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
        let last = width(kind).powers[3];
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
