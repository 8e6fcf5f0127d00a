//! A test of a device's conversions from float to bfloat16: Vulkan lets drivers round them as they like.

use half::bf16;
use hipdnn_kernels::form::{Index, Kernel, Memory};
use hipdnn_kernels::print::spirv::Features;
use hipdnn_kernels::{Builder, Scalar, Target};
use hipdnn_plugin_sdk::PluginError;

use crate::gpu::Gpu;
use crate::target::{features, target};
use crate::trial::execute_with;

/// Elements that a thread converts at once.
const LANES: usize = 4;

/// Checks that floats are rounded to the nearest, ties to even. Subnormal floats may become 0.
///
/// # Errors
/// The driver's, or which float is rounded wrongly.
pub fn check(gpu: &Gpu) -> Result<(), PluginError> {
    let properties = &gpu.device.properties;
    let numbers = numbers();
    let kernel = kernel(&target(properties, Vec::new()), numbers.len());
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let native = Features { shader_bfloat16_type: true, ..features(properties) };
    let words = execute_with(gpu, &native, &kernel, &[bytes], numbers.len() / 2)?;
    let halves = words.iter().flat_map(|word| [*word as u16, (word >> 16) as u16]);
    match numbers.iter().zip(halves).find(|(number, half)| !is_right(**number, *half)) {
        None => Ok(()),
        Some((number, half)) => Err(PluginError::internal(format!(
            "the float with the bits {:#010x} became {half:#06x} as a bfloat16, expected {:#06x}",
            number.to_bits(),
            bf16::from_f32(*number).to_bits()
        ))),
    }
}

fn is_right(number: f32, half: u16) -> bool {
    if number.is_nan() {
        return bf16::from_bits(half).is_nan();
    }
    let is_zero = half == (number.to_bits() >> 16) as u16 & 0x8000;
    half == bf16::from_f32(number).to_bits() || (number.is_subnormal() && is_zero)
}

/// Floats between neighbouring bfloats: also ties, those that round up to another power of two or to infinity, and numbers that are none.
fn numbers() -> Vec<f32> {
    let upper =
        [0x0000, 0x0001, 0x007f, 0x0080, 0x3f7f, 0x3f80, 0x3f81, 0x4049, 0x42ff, 0x7f7e, 0x7f7f, 0x7fc0];
    let lower = [0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff];
    let signs = [0, 1 << 31];
    let bits = upper.iter().flat_map(|upper| lower.map(|lower| upper << 16 | lower));
    let infinite = f32::INFINITY.to_bits();
    let bits = bits.chain([infinite, infinite, infinite + 1, u32::MAX >> 1]);
    let all: Vec<f32> = bits.flat_map(|bits| signs.map(|sign| f32::from_bits(bits | sign))).collect();
    debug_assert!(all.len().is_multiple_of(LANES), "each thread has as many");
    all
}

fn kernel(target: &Target, count: usize) -> Kernel {
    let mut b = Builder::new("rounding", target.subgroup, target);
    let [from, to] = [b.pointer(Scalar::F32), b.output(Scalar::Bf16)];
    let (thread, threads) = (b.index(Index::Thread), target.subgroup as usize);
    for round in 0..(count / LANES).div_ceil(threads) {
        let item = b.add(thread, round * threads);
        let inside = b.less(item, count / LANES);
        b.when(inside, |b| {
            let place = b.mul(item, LANES);
            let floats = b.load_vector(Memory::Global(from), place, LANES);
            let bfloats = b.convert(floats, Scalar::Bf16);
            b.store(Memory::Global(to), place, bfloats);
        });
    }
    b.finish()
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::instance;

    /// A number of each kind for halves: also ties, subnormal ones, those that become 0 or infinity, and numbers that are none.
    fn near_halves() -> Vec<f32> {
        let upper = (0..=0x7f_u32).flat_map(|power| {
            [0, 0x1000, 0x2000, 0x3000, 0x7f_e000, 0x7f_f000].map(|low| ((power * 2) << 23) | low)
        });
        let close = upper.flat_map(|bits| [bits.saturating_sub(1), bits, bits + 1]);
        let small = (0..64).map(|place| ((place as f32 + 0.5) * 2_f32.powi(-24)).to_bits());
        let others = [65504_f32, 65519.996, 65520.0, 65536.0, f32::MAX, f32::INFINITY].map(f32::to_bits);
        let random = (0..4096_u32).map(|place| place.wrapping_mul(0x9e37_79b9) & 0x0fff_ffff | 0x3000_0000);
        let bits = close.chain(small).chain(others).chain(random).chain([f32::NAN.to_bits(), 0x7f80_0001]);
        let mut all: Vec<f32> = bits.flat_map(|bits| [bits, bits | 1 << 31]).map(f32::from_bits).collect();
        all.truncate(all.len() / LANES * LANES);
        all
    }

    #[test]
    fn halves_and_bfloats_between_operations_are_rounded_to_the_nearest() {
        let Ok(gpu) = instance::device(0) else { return };
        let numbers = near_halves();
        for scalar in [Scalar::F16, Scalar::Bf16] {
            let target = target(&gpu.device.properties, Vec::new());
            let mut b = Builder::new("between", target.subgroup, &target);
            let [from, to] = [b.pointer(Scalar::F32), b.output(Scalar::F32)];
            let (thread, threads) = (b.index(Index::Thread), target.subgroup as usize);
            b.for_range(thread, numbers.len() / LANES, threads, |b, item| {
                let place = b.mul(item, LANES);
                let floats = b.load_vector(Memory::Global(from), place, LANES);
                let rounded = b.convert(floats, scalar);
                let back = b.convert(rounded, Scalar::F32);
                b.store(Memory::Global(to), place, back);
            });
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let own = crate::trust::features(&gpu);
            let got = execute_with(&gpu, &own, &b.finish(), &[bytes], numbers.len()).unwrap();
            for (number, got) in numbers.iter().zip(got.into_iter().map(f32::from_bits)) {
                let expected = match scalar {
                    Scalar::F16 => f16::from_f32(*number).to_f32(),
                    _ => bf16::from_f32(*number).to_f32(),
                };
                let is_same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                let is_flushed = number.is_subnormal() && got == 0.0;
                assert!(is_same || is_flushed, "{scalar:?} {number:e}: {got:e}, expected {expected:e}");
            }
        }
    }

    #[test]
    fn wrong_roundings_are_noticed() {
        let all = numbers();
        assert!(all.iter().all(|number| is_right(*number, bf16::from_f32(*number).to_bits())));
        let cut = |number: f32| (number.to_bits() >> 16) as u16;
        assert!(all.iter().any(|number| !is_right(*number, cut(*number))));
        let away = |number: f32| (number.to_bits().wrapping_add(0x8000) >> 16) as u16;
        assert!(all.iter().any(|number| !number.is_nan() && !is_right(*number, away(*number))));
        assert!(is_right(f32::from_bits(0x0001_8000), 0) && !is_right(1.0, 0));
    }
}
