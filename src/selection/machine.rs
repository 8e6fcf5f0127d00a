//! The processor's peaks, measured once, when the first estimate is asked for.

use std::hint::black_box;
use std::time::Instant;

use hipdnn_plugin_sdk::os::processors;

use crate::lock::OnceLock;

/// What the processors can do.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Operations on floats a second, of all processors together.
    pub operations: f64,
    /// The same of one processor without vectors.
    pub scalar: f64,
    /// Bytes a second between one processor and memory.
    pub bytes: f64,
}

impl Machine {
    /// This machine's peaks. The first call takes a few milliseconds.
    pub fn peaks() -> &'static Self {
        static MEASURED: OnceLock<Machine> = OnceLock::new();
        MEASURED.get_or_init(|| {
            let processors = processors::available().max(1) as f64;
            let scalar = scalars();
            // Vectors are never the slower ones, whatever other programs or an unoptimized build did to the measurement.
            let vectors = vectors().max(2.0 * scalar);
            Self { operations: vectors * processors, scalar, bytes: memory() }
        })
    }
}

/// The best of a few runs, since other programs disturb them.
fn best(amount: f64, mut run: impl FnMut()) -> f64 {
    let mut seconds = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        run();
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    amount / seconds.max(1e-9)
}

const ROUNDS: usize = 20_000;

/// Chains of products and sums: as many as hide the latency of vectors of 16 floats.
#[inline(always)]
fn chains(mul_add: impl Fn(f32, f32, f32) -> f32) {
    let (factor, summand) = (black_box(0.999_f32), black_box(0.001_f32));
    let mut sums = black_box([[1.0_f32; 16]; 10]);
    for _ in 0..ROUNDS {
        for chain in &mut sums {
            for sum in chain {
                *sum = mul_add(*sum, factor, summand);
            }
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
fn chains_of_avx512() {
    chains(f32::mul_add);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn chains_of_avx2() {
    chains(f32::mul_add);
}

fn vectors() -> f64 {
    best((2 * 16 * 10 * ROUNDS) as f64, || {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
                // SAFETY: the processor has these instructions.
                return unsafe { chains_of_avx512() };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the processor has these instructions.
                return unsafe { chains_of_avx2() };
            }
        }
        chains(|sum, factor, summand| sum * factor + summand);
    })
}

fn scalars() -> f64 {
    const STEPS: usize = 200_000;
    best((2 * STEPS) as f64, || {
        let mut sum = black_box(1.0_f32);
        for _ in 0..STEPS {
            sum = black_box(sum) * 0.999 + 0.001;
        }
        black_box(sum);
    })
}

fn memory() -> f64 {
    const BYTES: usize = 16 << 20;
    let from = vec![1_u8; BYTES];
    let mut to = vec![2_u8; BYTES];
    best((2 * BYTES) as f64, || black_box(&mut to).copy_from_slice(black_box(&from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_a_processor() {
        let peaks = Machine::peaks();
        assert!(peaks.scalar > 1e6 && peaks.operations >= peaks.scalar && peaks.bytes > 1e7, "{peaks:?}");
        assert!(peaks.operations < 1e15 && peaks.bytes < 1e13, "{peaks:?}");
    }
}
