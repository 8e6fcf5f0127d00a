//! The operations of each instruction set beside the portable ones.

use crate::int8::vector16::*;
use crate::simd::isa::Isa;

const INTS: [i32; 16] =
    [0, 1, -1, 127, 128, -128, -129, 255, 256, 65_535, -65_536, 1 << 24, i32::MAX, i32::MIN, 77, -77];
const FLOATS: [f32; 16] = [
    0.0,
    -0.0,
    0.5,
    1.5,
    -0.5,
    -1.5,
    127.9,
    -128.9,
    255.5,
    1e9,
    -1e9,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    3.99,
    -3.99,
];

/// The results of all operations on the values above.
struct All;

impl Vector16Task for All {
    type Output = (Vec<i32>, Vec<f32>, Vec<u8>);

    #[inline(always)]
    unsafe fn run<S: Vector16>(self) -> Self::Output {
        let (mut ints, mut floats, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let reversed: Vec<i32> = INTS.iter().rev().copied().collect();
        let small: Vec<u8> = (0..16).map(|at| at * 17).collect();
        // SAFETY: all arrays have sixteen elements, and the processor has the instructions.
        let (of_ints, of_floats) = unsafe {
            let (a, b) = (S::load(INTS.as_ptr()), S::load(reversed.as_ptr()));
            let (f, g) = (S::load_floats(FLOATS.as_ptr()), S::floats(1.25));
            let bounded = S::clip(f, S::floats(-1e6), S::floats(1e6));
            let of_bytes = [S::signed(small.as_ptr()), S::unsigned(small.as_ptr())];
            let sums = [S::add(a, b), S::saturating_add(a, b), S::saturating_add(a, S::ints(i32::MAX))];
            let others = [S::less_product(a, b, S::ints(-3)), S::clamp(a, S::ints(-128), S::ints(127))];
            let of_ints = [&sums[..], &others, &of_bytes, &[S::truncate(bounded)]].concat();
            let moved = [S::of_ints(a), S::plus(f, g), S::minus(f, g), S::times(f, g)];
            (of_ints, [&moved[..], &[S::over(f, g), bounded, S::floor(f), S::nearest(f)]].concat())
        };
        for value in of_ints {
            let (mut words, mut low) = ([0; 16], [0; 16]);
            // SAFETY: there is room for sixteen, and the processor has the instructions.
            unsafe {
                S::store(value, words.as_mut_ptr());
                S::bytes(value, low.as_mut_ptr());
            }
            ints.extend(words);
            bytes.extend(low);
        }
        for value in of_floats {
            let mut to = [0.0; 16];
            // SAFETY: there is room for sixteen, and the processor has the instructions.
            unsafe { S::store_floats(value, to.as_mut_ptr()) };
            floats.extend(to);
        }
        (ints, floats, bytes)
    }
}

#[test]
fn every_instruction_set_gives_the_same() {
    // The sign of zeros does not matter.
    let bit = |value: f32| if value.is_nan() { 1 } else { (value + 0.0).to_bits() };
    let bits = |floats: Vec<f32>| floats.into_iter().map(bit).collect::<Vec<_>>();
    // SAFETY: every processor of the target has the instructions.
    let expected = unsafe { run_at(Isa::Portable, All) };
    assert_eq!(
        &expected.0[16..32],
        INTS.map(|a| a.saturating_add(INTS[15 - INTS.iter().position(|b| *b == a).unwrap()]))
    );
    let expected = (expected.0, bits(expected.1), expected.2);
    for isa in Isa::available() {
        // SAFETY: the instruction set is available.
        let got = unsafe { run_at(*isa, All) };
        assert_eq!((got.0, bits(got.1), got.2), expected, "{isa:?}");
    }
}
