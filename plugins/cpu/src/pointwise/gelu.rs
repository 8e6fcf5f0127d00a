//! GELU by a table of polynomials, for vectors with fast table lookups.
//!
//! x · Φ(x) is max(x, 0) - h(|x|) with h(a) = a · (1 - Φ(a)), which is below 0.17 everywhere and negligible
//! from 5.6 on. So little of the result depends on h, and it needs no division: each sixteenth of its range
//! has its own polynomial.

use crate::simd::vector::{Lanewise, Vector, WHOLE};

/// The distance between middles of the range's parts; the first part starts at its middle, 0, and the last
/// ends at its middle.
const STEP: f32 = 0.375;

/// The coefficients of the 16 polynomials in the distance from the middle, highest power first. Their error
/// is below 2⁻²⁶, and in the first part below 2⁻²⁶ of the argument.
const COEFFICIENTS: [[f32; 16]; 6] = [
    [
        -0.004_631_392_7,
        -0.018_940_508,
        -0.022_633_32,
        -0.011_256_536,
        0.002_627_601_8,
        0.008_834_02,
        0.007_148_133,
        0.002_892_157_3,
        2.553_382_7e-5,
        -0.000_834_996_3,
        -0.000_671_491_1,
        -0.000_335_034_89,
        -0.000_124_558_65,
        -3.666_162_6e-5,
        -8.792_206e-6,
        -0.017_273_214,
    ],
    [
        0.067_246_61,
        0.046_727_95,
        0.004_880_905_6,
        -0.028_403_949,
        -0.035_832_517,
        -0.023_608_917,
        -0.007_774_402,
        0.001_628_941_7,
        0.004_021_498,
        0.003_014_611_8,
        0.001_525_973_2,
        0.000_592_081,
        0.000_184_597_14,
        4.734_738_5e-5,
        1.012_878_4e-5,
        -0.008_836_643,
    ],
    [
        -5.048_929_6e-5,
        0.089_691_31,
        0.129_390_94,
        0.108_627_625,
        0.056_666_125,
        0.010_414_058,
        -0.012_645_679,
        -0.016_092_049,
        -0.011_080_154,
        -0.005_575_579_6,
        -0.002_217_525_2,
        -0.000_720_657_76,
        -0.000_194_770_59,
        -4.424_504e-5,
        -8.507_103e-6,
        -0.001_659_818,
    ],
    [
        -0.398_941_1,
        -0.345_705_06,
        -0.216_444_2,
        -0.077_803_13,
        0.016_186_312,
        0.052_126_63,
        0.048_602_56,
        0.031_115_815,
        0.015_512_011,
        0.006_297_019_3,
        0.002_126_486,
        0.000_604_593_6,
        0.000_145_808_85,
        2.997_741_1e-5,
        5.272_59e-6,
        -0.000_137_508_8,
    ],
    [
        0.5,
        0.214_384_6,
        0.000_774_300_6,
        -0.108_066_71,
        -0.127_469_2,
        -0.098_577_92,
        -0.059_189_748,
        -0.029_068_526,
        -0.011_945_644,
        -0.004_157_196_3,
        -0.001_233_816_4,
        -0.000_313_692_8,
        -6.852_933_4e-5,
        -1.289_125_7e-5,
        -2.091_423_5e-6,
        -5.158_897e-6,
    ],
    [
        0.0,
        0.132_686_33,
        0.169_970_51,
        0.146_581_34,
        0.100_210_81,
        0.056_993_18,
        0.027_505_06,
        0.011_372_674,
        0.004_049_693_2,
        0.001_245_639_6,
        0.000_331_565_04,
        7.646_422e-5,
        1.528_961_2e-5,
        2.652_235_5e-6,
        3.992_685e-7,
        0.0,
    ],
];

/// x · Φ(x).
#[inline(always)]
pub(crate) fn gelu<V: Vector<Scalar = f32>>(x: V) -> V {
    let size = x.lanewise(Lanewise::Abs, x);
    let near = size.lanewise(Lanewise::NotAbove, x.broadcast(15.0 * STEP));
    let part = near.mul_add(x.broadcast(1.0 / STEP), x.broadcast(WHOLE));
    let rounded = part.lanewise(Lanewise::Sub, x.broadcast(WHOLE));
    let rest = rounded.mul_add(x.broadcast(-STEP), near);
    let [first, others @ ..] = &COEFFICIENTS;
    let mut sum = part.look_up(first);
    for coefficients in others {
        sum = sum.mul_add(rest, part.look_up(coefficients));
    }
    let relu = x.lanewise(Lanewise::NotBelow, x.broadcast(0.0));
    relu.lanewise(Lanewise::Sub, sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::isa::Isa;
    use crate::testing::{Function, each};

    #[derive(Clone, Copy)]
    struct Gelu;

    impl Function for Gelu {
        #[inline(always)]
        fn of<V: Vector<Scalar = f32>>(self, x: V) -> V {
            gelu(x)
        }
    }

    #[test]
    fn results_are_accurate() {
        let dense = (-400_000..=400_000).map(|step| step as f32 * 2e-5);
        // Every exponent, some mantissas, both signs.
        let all = (0..0x7f80_0000_u32).step_by(0x3_1415).map(f32::from_bits);
        let x: Vec<f32> = dense.chain(all.clone()).chain(all.map(|x| -x)).collect();
        for isa in Isa::available() {
            for (x, y) in x.iter().zip(each(*isa, Gelu, &x)) {
                let (x, y) = (f64::from(*x), f64::from(y));
                let exact = x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
                // The error of the result, of h, which is 0 after the table, and of values with fewer bits.
                let h = if x < -5.0 { 2.0_f64.powi(-24) } else { x.abs().min(0.2) * 2.0_f64.powi(-25) };
                let bound = exact.abs() * 2.0_f64.powi(-22) + h + 2.0_f64.powi(-148);
                assert!((y - exact).abs() <= bound, "{y} of {x} at {isa:?}, expected {exact}");
            }
        }
    }

    #[test]
    fn special_values_are_exact() {
        for isa in Isa::available() {
            let y = each(
                *isa,
                Gelu,
                &[f32::INFINITY, f32::MAX, f32::MIN, 0.0, -0.0, f32::NAN, f32::NEG_INFINITY],
            );
            assert_eq!(y[..5], [f32::INFINITY, f32::MAX, 0.0, 0.0, 0.0]);
            assert!(y[5].is_nan() && y[6] == 0.0);
        }
    }
}
