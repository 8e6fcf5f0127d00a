//! The peak rates of the processor: multiplications and copies.

use crate::*;
use std::hint::black_box;
use std::time::Instant;

/// GB/s that a copy of 16 MiB reads and writes with one thread per processor.
pub(crate) fn copy_rate() -> f64 {
    const BYTES: usize = 16 << 20;
    let from = vec![1_u8; BYTES];
    let mut to = vec![2_u8; BYTES];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    best_rate(|| {
        std::thread::scope(|scope| {
            let parts = from.chunks(BYTES.div_ceil(threads)).zip(to.chunks_mut(BYTES.div_ceil(threads)));
            parts.for_each(|(from, to)| drop(scope.spawn(|| to.copy_from_slice(from))));
        });
        2.0 * BYTES as f64
    })
}

/// GFLOP/s of one thread that only executes fused multiply-adds of vectors.
pub(crate) fn peak() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions.
            return best_rate(|| unsafe { fused_512() });
        }
        if is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the instructions.
            return best_rate(|| unsafe { fused_256() });
        }
    }
    best_rate(fused_plain)
}

/// The peak of several threads together.
pub(crate) fn peak_of(threads: usize) -> f64 {
    let (mut best, begin) = (0.0_f64, Instant::now());
    while begin.elapsed() < PATIENCE {
        let rates = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(peak)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        best = best.max(rates);
    }
    best
}

/// The best rate in many runs of a function that returns the number of its operations.
pub(crate) fn best_rate(mut run: impl FnMut() -> f64) -> f64 {
    let mut best = 0.0_f64;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let start = Instant::now();
        let operations = run();
        best = best.max(operations / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

macro_rules! fused {
    ($name:ident, $features:literal, $lanes:literal, $splat:ident, $fma:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $name() -> f64 {
            use std::arch::x86_64::{$fma, $splat};
            let mut sums = [$splat(0.5); 12];
            let factor = black_box($splat(0.999));
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = $fma(*sum, factor, factor);
                }
            }
            black_box(sums);
            (2 * $lanes * 12 * ROUNDS) as f64
        }
    };
}

fused!(fused_512, "avx512f", 16, _mm512_set1_ps, _mm512_fmadd_ps);

fused!(fused_256, "avx,fma", 8, _mm256_set1_ps, _mm256_fmadd_ps);

pub(crate) fn fused_plain() -> f64 {
    let mut sums = [[0.5_f32; 4]; 12];
    let factor = black_box(0.999_f32);
    for _ in 0..ROUNDS {
        for sum in sums.iter_mut().flatten() {
            *sum = *sum * factor + factor;
        }
    }
    black_box(sums);
    (2 * 4 * 12 * ROUNDS) as f64
}
