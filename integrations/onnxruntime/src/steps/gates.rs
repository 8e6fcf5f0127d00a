//! The gates of recurrent cells: states are multiplied with packed weights, and activations applied to the sums in registers.

#![expect(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "arrays are indexed below their length; iterators over them are not inlined in loops of this size"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps};
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// The units of a block, which are computed side by side.
pub const UNITS: usize = 8;

/// A number for each unit of a block.
pub type Block = [f32; UNITS];

/// The weights of a block: for each number of the state one block for each gate.
pub type Panel<'a, const G: usize> = &'a [[Block; G]];

/// Packs rows of weights, `[gates · size, size]`, in panels for blocks of units, with zeros beyond the last unit.
pub fn pack(rows: &[f32], gates: usize, size: usize) -> Vec<f32> {
    let blocks = size.div_ceil(UNITS);
    let mut packed = vec![0.0; blocks * size * gates * UNITS];
    for (at, row) in rows.chunks_exact(size.max(1)).enumerate().take(gates * size) {
        let (gate, unit) = (at / size, at % size);
        let first = (unit / UNITS * size * gates + gate) * UNITS + unit % UNITS;
        let places = packed.iter_mut().skip(first).step_by(gates * UNITS);
        places.zip(row).for_each(|(to, weight)| *to = *weight);
    }
    packed
}

/// A vector register, or what is as good as one.
trait Vector: Copy {
    fn load(from: &Block) -> Self;
    fn plus(self, weights: &Block, by: f32) -> Self;
    fn store(self) -> Block;
}

impl Vector for Block {
    #[inline(always)]
    fn load(from: &Block) -> Self {
        *from
    }

    #[inline(always)]
    fn plus(mut self, weights: &Block, by: f32) -> Self {
        for unit in 0..UNITS {
            self[unit] += weights[unit] * by;
        }
        self
    }

    #[inline(always)]
    fn store(self) -> Block {
        self
    }
}

/// Only made where the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Avx2(__m256);

#[cfg(target_arch = "x86_64")]
impl Vector for Avx2 {
    #[inline(always)]
    fn load(from: &Block) -> Self {
        // SAFETY: the processor has AVX; there are eight numbers, which may be unaligned.
        Self(unsafe { _mm256_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn plus(self, weights: &Block, by: f32) -> Self {
        let Self(weights) = Self::load(weights);
        // SAFETY: only `each_avx2` makes these blocks, which is called where the processor has AVX2 and FMA.
        Self(unsafe { _mm256_fmadd_ps(weights, _mm256_set1_ps(by), self.0) })
    }

    #[inline(always)]
    fn store(self) -> Block {
        let mut to = [0.0; UNITS];
        // SAFETY: the processor has AVX; there is room for eight numbers, which may be unaligned.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) };
        to
    }
}

/// Adds the products of the weights of a block with the states of `M` sequences.
#[inline(always)]
fn one<V: Vector, const M: usize, const G: usize>(
    panel: Panel<'_, G>,
    states: &[[f32; M]],
    sums: &mut [[Block; G]; M],
) {
    let mut own = [[V::load(&[0.0; UNITS]); G]; M];
    for m in 0..M {
        for g in 0..G {
            own[m][g] = V::load(&sums[m][g]);
        }
    }
    for (weights, states) in panel.iter().zip(states) {
        for m in 0..M {
            for g in 0..G {
                own[m][g] = own[m][g].plus(&weights[g], states[m]);
            }
        }
    }
    for m in 0..M {
        for g in 0..G {
            sums[m][g] = own[m][g].store();
        }
    }
}

/// Two blocks at once, so that sums of a single sequence do not wait for each other.
#[inline(always)]
fn two<V: Vector, const M: usize, const G: usize>(
    [first, second]: [Panel<'_, G>; 2],
    states: &[[f32; M]],
    sums: &mut [[[Block; G]; M]; 2],
) {
    let mut own = [[[V::load(&[0.0; UNITS]); G]; M]; 2];
    for p in 0..2 {
        for m in 0..M {
            for g in 0..G {
                own[p][m][g] = V::load(&sums[p][m][g]);
            }
        }
    }
    for ((a, b), states) in first.iter().zip(second).zip(states) {
        for m in 0..M {
            for g in 0..G {
                own[0][m][g] = own[0][m][g].plus(&a[g], states[m]);
                own[1][m][g] = own[1][m][g].plus(&b[g], states[m]);
            }
        }
    }
    for p in 0..2 {
        for m in 0..M {
            for g in 0..G {
                sums[p][m][g] = own[p][m][g].store();
            }
        }
    }
}

/// What is computed of blocks. Methods are inlined, so that they use the processor's vectors.
pub trait Step<const M: usize, const G: usize> {
    /// The sums that a block of each sequence begins with.
    fn start(&self, block: usize) -> [[Block; G]; M];

    /// Uses the sums of a block.
    fn finish(&mut self, block: usize, sums: &[[Block; G]; M]);
}

/// Weights in panels, one for each block, and the states of some sequences that they are multiplied with.
#[derive(Clone, Copy)]
pub struct Product<'a, const M: usize, const G: usize> {
    /// As many weights in each panel as a state has numbers.
    pub panels: &'a [[Block; G]],
    /// The numbers of the states.
    pub states: &'a [[f32; M]],
}

impl<const M: usize, const G: usize> Product<'_, M, G> {
    fn panel(&self, block: usize) -> Panel<'_, G> {
        let size = self.states.len();
        self.panels.get(block * size..(block + 1) * size).unwrap_or(&[])
    }

    #[inline(always)]
    fn each<V: Vector>(&self, blocks: Range<usize>, step: &mut impl Step<M, G>) {
        let (mut at, end) = (blocks.start, blocks.end);
        while M == 1 && at + 2 <= end {
            let mut sums = [step.start(at), step.start(at + 1)];
            two::<V, M, G>([self.panel(at), self.panel(at + 1)], self.states, &mut sums);
            let [first, second] = &sums;
            step.finish(at, first);
            step.finish(at + 1, second);
            at += 2;
        }
        for block in at..end {
            let mut sums = step.start(block);
            one::<V, M, G>(self.panel(block), self.states, &mut sums);
            step.finish(block, &sums);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn each_avx2(&self, blocks: Range<usize>, step: &mut impl Step<M, G>) {
        self.each::<Avx2>(blocks, step);
    }

    /// Computes a range of blocks.
    pub fn compute(&self, blocks: Range<usize>, step: &mut impl Step<M, G>) {
        #[cfg(target_arch = "x86_64")]
        {
            static FOUND: OnceLock<bool> = OnceLock::new();
            if *FOUND.get_or_init(|| is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
                // SAFETY: the processor was just found to have AVX2 and FMA.
                return unsafe { self.each_avx2(blocks, step) };
            }
        }
        self.each::<Block>(blocks, step);
    }
}

/// The factors of a series, the highest power first.
#[inline(always)]
fn series<const N: usize>(x: f32, factors: [f32; N]) -> f32 {
    let mut sum = 0.0;
    for at in 0..N {
        sum = sum * x + factors[at];
    }
    sum
}

/// e^x, to a few units in the last place; the smallest and largest numbers beyond the type's range.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Sums with it have no fractional bits, and the number itself in their lowest ones.
    const ROUNDER: f32 = 12_582_912.0;
    /// The natural logarithm of 2 in two parts, of which multiples of the first one are exact.
    const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let whole = rounded - ROUNDER;
    let [high, low] = LN_2;
    let rest = x - whole * high - whole * low;
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    power * series(rest, [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0])
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let far = 1.0 - 2.0 / (1.0 + exp(2.0 * x.abs()));
    let square = x * x;
    // Taylor's series: far from 0 its result is not used.
    let near =
        series(square, [-1382.0 / 155_925.0, 62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0]);
    if x.abs() < 0.35 { x * near } else { far.copysign(x) }
}

/// A function of each number of a block.
#[inline(always)]
pub fn each(x: &Block, f: impl Fn(f32) -> f32) -> Block {
    let mut to = [0.0; UNITS];
    for unit in 0..UNITS {
        to[unit] = f(x[unit]);
    }
    to
}

/// a · b + c.
#[inline(always)]
pub fn with_product(a: &Block, b: &Block, c: &Block) -> Block {
    let mut to = *c;
    for unit in 0..UNITS {
        to[unit] += a[unit] * b[unit];
    }
    to
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn activations_are_those_of_the_library() {
        // Two units in the last place for the power, and one for each sum and quotient.
        const MOST: f32 = 4.0 * f32::EPSILON;
        for at in -4000..4000 {
            let x = at as f32 / 100.0;
            let (have, want) = (tanh(x), x.tanh());
            assert!((have - want).abs() <= MOST * want.abs(), "tanh of {x} is {have}, expected {want}");
            let (have, want) = (sigmoid(x), 1.0 / (1.0 + (-x).exp()));
            assert!((have - want).abs() <= MOST * want, "sigmoid of {x} is {have}, expected {want}");
        }
        for (x, of_tanh, of_sigmoid) in [(f32::INFINITY, 1.0, 1.0), (f32::NEG_INFINITY, -1.0, 0.0)] {
            assert_eq!(tanh(x), of_tanh);
            // The argument of the power ends at 88.
            assert!((sigmoid(x) - of_sigmoid).abs() <= f32::MIN_POSITIVE);
        }
        assert!(tanh(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
        assert_eq!([tanh(0.0), sigmoid(0.0)], [0.0, 0.5]);
    }

    /// Keeps each block's sums.
    pub struct Kept(pub Vec<f32>);

    impl<const M: usize, const G: usize> Step<M, G> for Kept {
        fn start(&self, block: usize) -> [[Block; G]; M] {
            [[[block as f32; UNITS]; G]; M]
        }

        fn finish(&mut self, _: usize, sums: &[[Block; G]; M]) {
            self.0.extend(sums.iter().flatten().flatten());
        }
    }

    #[test]
    fn every_size_is_multiplied() {
        fn check<const M: usize>(size: usize) {
            const G: usize = 3;
            let rows: Vec<f32> = (0..G * size * size).map(|at| ((at * 7) % 13) as f32 - 6.0).collect();
            let state = |of: usize, at: usize| ((at * 5 + of) % 11) as f32 - 5.0;
            let states: Vec<[f32; M]> = (0..size).map(|at| std::array::from_fn(|of| state(of, at))).collect();
            let packed = pack(&rows, G, size);
            let panels = packed.as_chunks::<UNITS>().0.as_chunks::<G>().0;
            let mut have = Kept(Vec::new());
            let blocks = size.div_ceil(UNITS);
            Product { panels, states: &states }.compute(0..blocks, &mut have);
            for block in 0..blocks {
                for (of, gate) in (0..M).flat_map(|of| (0..G).map(move |gate| (of, gate))) {
                    for unit in block * UNITS..((block + 1) * UNITS).min(size) {
                        let row = &rows[(gate * size + unit) * size..][..size];
                        let sum: f32 =
                            row.iter().enumerate().map(|(at, weight)| weight * state(of, at)).sum();
                        let have = have.0[((block * M + of) * G + gate) * UNITS + unit % UNITS];
                        assert_eq!(have, block as f32 + sum, "size {size}, unit {unit} of gate {gate}");
                    }
                }
            }
        }
        for size in [1, 7, 8, 17, 40] {
            check::<1>(size);
            check::<2>(size);
            check::<3>(size);
        }
    }
}
