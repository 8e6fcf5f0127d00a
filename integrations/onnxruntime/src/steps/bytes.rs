//! The gates of an LSTM whose weights are bytes: states are quantized, too, and products are summed as integers.

#![expect(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "arrays are indexed below their length; iterators over them are not inlined in loops of this size"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_dpbusd_avx_epi32,
    _mm256_dpbusd_epi32, _mm256_hadd_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_permute4x64_epi64,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_storeu_si256,
};
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use super::gates::{Block, Step, UNITS};

/// The gates of an LSTM.
const GATES: usize = 4;

/// The numbers of a state that are multiplied at once.
const QUAD: usize = 4;

/// The weights of the units of a block for these numbers.
type Quad = [u8; UNITS * QUAD];

/// What is known of a row of weights.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What a unit of its bytes stands for.
    pub scale: f32,
    /// The byte that stands for zero.
    pub zero: i32,
}

/// The bytes of the packed weights of a direction.
pub fn packed_size_of_bytes(size: usize) -> usize {
    let rows = size.div_ceil(UNITS) * GATES * UNITS;
    rows * (size.div_ceil(QUAD) * QUAD + 12)
}

/// Packs weights: for each block and gate the scales, zero points and sums of its rows, then for each block, gate and four numbers of a
/// state those of each unit. `of` returns a row and one of its bytes, which are signed.
pub fn pack_bytes(size: usize, row: impl Fn(usize) -> Row, of: impl Fn(usize, usize) -> i8) -> Vec<u8> {
    let rows = || {
        let gates = (0..size.div_ceil(UNITS)).flat_map(|block| (0..GATES).map(move |gate| (block, gate)));
        gates.map(|(block, gate)| {
            std::array::from_fn::<_, UNITS, _>(|unit| {
                let unit = block * UNITS + unit;
                (unit < size).then_some(gate * size + unit)
            })
        })
    };
    let given = |at: Option<usize>| at.map_or(Row { scale: 0.0, zero: 0 }, &row);
    let mut packed = Vec::with_capacity(packed_size_of_bytes(size));
    packed.extend(rows().flatten().flat_map(|at| given(at).scale.to_ne_bytes()));
    packed.extend(rows().flatten().flat_map(|at| given(at).zero.to_ne_bytes()));
    let sum = |row: usize| (0..size).map(|at| i32::from(of(row, at))).sum::<i32>();
    packed.extend(rows().flatten().flat_map(|at| at.map_or(0, sum).to_ne_bytes()));
    for block in rows() {
        for first in (0..size).step_by(QUAD) {
            for at in block {
                let byte = |number: usize| match at {
                    Some(row) if number < size => of(row, number).cast_unsigned(),
                    _ => 0,
                };
                packed.extend((first..first + QUAD).map(byte));
            }
        }
    }
    packed
}

/// The packed weights of a direction.
pub struct Bytes<'a> {
    scales: Vec<Block>,
    zeros: Vec<[i32; UNITS]>,
    sums: Vec<[i32; UNITS]>,
    weights: &'a [Quad],
    quads: usize,
}

impl<'a> Bytes<'a> {
    /// Those that [`pack_bytes`] packed for states of this size.
    pub fn new(size: usize, packed: &'a [u8]) -> Self {
        let rows = size.div_ceil(UNITS) * GATES * UNITS * size_of::<f32>();
        let (scales, rest) = packed.split_at(rows.min(packed.len()));
        let (zeros, rest) = rest.split_at(rows.min(rest.len()));
        let (sums, weights) = rest.split_at(rows.min(rest.len()));
        let scales = scales.as_chunks().0.as_chunks::<UNITS>().0.iter();
        let integers = |of: &[u8]| {
            let of = of.as_chunks().0.as_chunks::<UNITS>().0.iter();
            of.map(|of| of.map(i32::from_ne_bytes)).collect()
        };
        Self {
            scales: scales.map(|of| of.map(f32::from_ne_bytes)).collect(),
            zeros: integers(zeros),
            sums: integers(sums),
            weights: weights.as_chunks().0,
            quads: size.div_ceil(QUAD),
        }
    }
}

/// Quantized states of `M` sequences, less the byte that stands for zero.
#[derive(Clone, Debug)]
pub struct States<const M: usize> {
    /// Four numbers at a time.
    quads: Vec<[[i16; QUAD]; M]>,
    /// Their bytes.
    bytes: Vec<[[u8; QUAD]; M]>,
    /// The byte that stands for zero.
    zero: i32,
    /// Their sums.
    sums: [i32; M],
    /// What a unit stands for.
    scale: f32,
}

impl<const M: usize> States<M> {
    /// Zeros.
    pub fn new(size: usize) -> Self {
        let quads = size.div_ceil(QUAD);
        Self {
            quads: vec![[[0; QUAD]; M]; quads],
            bytes: vec![[[0; QUAD]; M]; quads],
            zero: 0,
            sums: [0; M],
            scale: 1.0,
        }
    }

    /// Replaces them by the bytes of others, of which `zero` stands for zero.
    pub fn set(&mut self, states: &[[f32; M]], (scale, zero): (f32, u8), byte: impl Fn(f32) -> u8) {
        (self.scale, self.zero) = (scale, i32::from(zero));
        self.sums = [0; M];
        let quads = self.quads.iter_mut().zip(&mut self.bytes);
        for ((quad, bytes), states) in quads.zip(states.chunks(QUAD)) {
            for (at, states) in states.iter().enumerate() {
                for m in 0..M {
                    let byte = byte(states[m]);
                    let number = i16::from(byte) - i16::from(zero);
                    (quad[m][at], bytes[m][at]) = (number, byte);
                    self.sums[m] += i32::from(number);
                }
            }
        }
    }
}

/// How products are summed.
trait Sum {
    /// The sums of products of rows, whose own sums are given.
    fn of<const M: usize>(weights: &[Quad], sums: &[i32; UNITS], states: &States<M>) -> [[i32; UNITS]; M];
}

/// On any processor.
struct Portable;

impl Sum for Portable {
    fn of<const M: usize>(weights: &[Quad], _: &[i32; UNITS], states: &States<M>) -> [[i32; UNITS]; M] {
        let mut sums = [[0; UNITS]; M];
        for (weights, states) in weights.iter().zip(&states.quads) {
            for m in 0..M {
                for at in 0..UNITS * QUAD {
                    let product = i32::from(weights[at].cast_signed()) * i32::from(states[m][at % QUAD]);
                    sums[m][at / QUAD] += product;
                }
            }
        }
        sums
    }
}

/// Only where the processor has AVX2.
#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Sum for Avx2 {
    #[inline(always)]
    fn of<const M: usize>(weights: &[Quad], _: &[i32; UNITS], states: &States<M>) -> [[i32; UNITS]; M] {
        // SAFETY: only `compute_avx2` uses it, which is called where the processor has AVX2; loads may be unaligned, and each is of a part
        // of an array as long as that.
        let sums = unsafe {
            let mut sums: [[__m256i; 2]; M] = [[_mm256_setzero_si256(); 2]; M];
            for (weights, states) in weights.iter().zip(&states.quads) {
                let half = |at: usize| {
                    _mm256_cvtepi8_epi16(_mm_loadu_si128(weights.as_ptr().wrapping_add(at * 16).cast()))
                };
                let halves = [half(0), half(1)];
                for m in 0..M {
                    let state = _mm256_set1_epi64x(states[m].as_ptr().cast::<i64>().read_unaligned());
                    for at in 0..2 {
                        let products = _mm256_madd_epi16(halves[at], state);
                        sums[m][at] = _mm256_add_epi32(sums[m][at], products);
                    }
                }
            }
            sums
        };
        let mut to = [[0; UNITS]; M];
        for (to, [first, second]) in to.iter_mut().zip(sums) {
            // Pairs of a unit's sums are side by side; halves of registers alternate.
            // SAFETY: only `compute_avx2` uses it, where the processor has AVX2; the store may be unaligned, and fills the array.
            unsafe {
                let joined = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(first, second));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), joined);
            }
        }
        to
    }
}

/// Where the processor has dot products of bytes, by an instruction of one of two extensions.
#[cfg(target_arch = "x86_64")]
macro_rules! dot_products {
    ($name:ident, $function:ident, $dot:ident) => {
        #[doc = concat!("Only in `", stringify!($function), "`.")]
        struct $name;

        impl Sum for $name {
            #[inline(always)]
            fn of<const M: usize>(
                weights: &[Quad],
                row_sums: &[i32; UNITS],
                states: &States<M>,
            ) -> [[i32; UNITS]; M] {
                /// Sums that do not wait for each other.
                const APART: usize = 4;
                // SAFETY: only one function uses it, which is called where the processor has the instructions.
                let mut sums: [[__m256i; APART]; M] = [[unsafe { _mm256_setzero_si256() }; APART]; M];
                let (all, rest) = weights.as_chunks::<APART>();
                let (bytes, last) = states.bytes.as_chunks::<APART>();
                let mut add = |weights: &Quad, bytes: &[[u8; QUAD]; M], at: usize| {
                    // SAFETY: the processor has the instructions, since one function alone uses it; the load may be unaligned, and is of the whole array.
                    unsafe {
                        let weights = _mm256_loadu_si256(weights.as_ptr().cast());
                        for m in 0..M {
                            let state = _mm256_set1_epi32(i32::from_ne_bytes(bytes[m]));
                            sums[m][at] = $dot(sums[m][at], state, weights);
                        }
                    }
                };
                for (weights, bytes) in all.iter().zip(bytes) {
                    for at in 0..APART {
                        add(&weights[at], &bytes[at], at);
                    }
                }
                for (weights, bytes) in rest.iter().zip(last) {
                    add(weights, bytes, 0);
                }
                let mut to = [[0; UNITS]; M];
                for (to, [a, b, c, d]) in to.iter_mut().zip(sums) {
                    // SAFETY: the processor has the instructions, since one function alone uses it; the store may be unaligned, and fills the array.
                    unsafe {
                        let joined = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
                        _mm256_storeu_si256(to.as_mut_ptr().cast(), joined);
                    }
                    for (sum, row_sum) in to.iter_mut().zip(row_sums) {
                        *sum -= states.zero * row_sum;
                    }
                }
                to
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
dot_products!(Avx512Vnni, compute_avx512_vnni, _mm256_dpbusd_epi32);
#[cfg(target_arch = "x86_64")]
dot_products!(AvxVnni, compute_avx_vnni, _mm256_dpbusd_avx_epi32);

/// The instructions that a processor has for this.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    Avx512Vnni,
    AvxVnni,
    Avx2,
    Neither,
}

#[cfg(target_arch = "x86_64")]
impl Has {
    fn found() -> Self {
        static FOUND: OnceLock<Has> = OnceLock::new();
        *FOUND.get_or_init(|| {
            if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
                Self::Neither
            } else if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl") {
                Self::Avx512Vnni
            } else if is_x86_feature_detected!("avxvnni") {
                Self::AvxVnni
            } else {
                Self::Avx2
            }
        })
    }
}

/// Weights and the states that they are multiplied with.
pub struct ProductOfBytes<'a, const M: usize> {
    /// The weights.
    pub bytes: &'a Bytes<'a>,
    /// The states.
    pub states: &'a States<M>,
}

impl<const M: usize> ProductOfBytes<'_, M> {
    #[inline(always)]
    fn each<S: Sum>(&self, blocks: Range<usize>, step: &mut impl Step<M, GATES>) {
        let Bytes { scales, zeros, sums: row_sums, weights, quads } = self.bytes;
        for block in blocks {
            let mut sums = step.start(block);
            for gate in 0..GATES {
                let row = block * GATES + gate;
                let own = weights.get(row * quads..(row + 1) * quads).unwrap_or(&[]);
                let found = S::of(own, &row_sums[row], self.states);
                let (scales, zeros) = (&scales[row], &zeros[row]);
                for m in 0..M {
                    for unit in 0..UNITS {
                        let sum = found[m][unit] - zeros[unit] * self.states.sums[m];
                        sums[m][gate][unit] += sum as f32 * (self.states.scale * scales[unit]);
                    }
                }
            }
            step.finish(block, &sums);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn compute_avx2(&self, blocks: Range<usize>, step: &mut impl Step<M, GATES>) {
        self.each::<Avx2>(blocks, step);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,avx512vnni,avx512vl")]
    fn compute_avx512_vnni(&self, blocks: Range<usize>, step: &mut impl Step<M, GATES>) {
        self.each::<Avx512Vnni>(blocks, step);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,avxvnni")]
    fn compute_avx_vnni(&self, blocks: Range<usize>, step: &mut impl Step<M, GATES>) {
        self.each::<AvxVnni>(blocks, step);
    }

    /// Computes a range of blocks.
    pub fn compute(&self, blocks: Range<usize>, step: &mut impl Step<M, GATES>) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor was found to have what each function needs.
        unsafe {
            match Has::found() {
                Has::Avx512Vnni => return self.compute_avx512_vnni(blocks, step),
                Has::AvxVnni => return self.compute_avx_vnni(blocks, step),
                Has::Avx2 => return self.compute_avx2(blocks, step),
                Has::Neither => {}
            }
        }
        self.each::<Portable>(blocks, step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::gates::tests::Kept;

    #[test]
    fn every_size_is_multiplied() {
        fn check<const M: usize>(size: usize) {
            let row = |at: usize| Row { scale: 0.5 + at as f32, zero: at as i32 % 7 - 3 };
            let weight = |row: usize, at: usize| ((row * 31 + at * 17) % 256) as u8 as i8;
            let state = |at: usize, m: usize| ((at * 29 + m * 5) % 256) as f32;
            let packed = pack_bytes(size, row, weight);
            assert_eq!(packed.len(), packed_size_of_bytes(size));
            let bytes = Bytes::new(size, &packed);
            let mut states = States::<M>::new(size);
            let given: Vec<[f32; M]> = (0..size).map(|at| std::array::from_fn(|m| state(at, m))).collect();
            states.set(&given, (0.25, 77), |x| x as u8);
            let product = ProductOfBytes { bytes: &bytes, states: &states };
            let blocks = size.div_ceil(UNITS);
            let (mut fast, mut plain) = (Kept(Vec::new()), Kept(Vec::new()));
            product.compute(0..blocks, &mut fast);
            product.each::<Portable>(0..blocks, &mut plain);
            assert_eq!(fast.0, plain.0);
            #[cfg(target_arch = "x86_64")]
            if Has::found() != Has::Neither {
                let mut avx2 = Kept(Vec::new());
                // SAFETY: every other processor has AVX2 and FMA.
                unsafe { product.compute_avx2(0..blocks, &mut avx2) };
                assert_eq!(avx2.0, plain.0);
            }
            for (block, m, gate, unit) in (0..blocks).flat_map(|block| {
                (0..M).flat_map(move |m| {
                    (0..GATES).flat_map(move |gate| (0..UNITS).map(move |unit| (block, m, gate, unit)))
                })
            }) {
                let at = block * UNITS + unit;
                if at >= size {
                    continue;
                }
                let of = gate * size + at;
                let sum =
                    |at: usize| (f32::from(weight(of, at)) - row(of).zero as f32) * (state(at, m) - 77.0);
                let want = block as f32 + (0..size).map(sum).sum::<f32>() * 0.25 * row(of).scale;
                let have = fast.0[((block * M + m) * GATES + gate) * UNITS + unit];
                // Sums of bytes are exact: both round their product with the scale, and what is added to it.
                let most = f32::EPSILON * (2.0 * want.abs() + block as f32);
                assert!((have - want).abs() <= most, "size {size}: {have}, {want}");
            }
        }
        for size in [1, 4, 7, 8, 17, 40] {
            check::<1>(size);
            check::<2>(size);
        }
    }
}
