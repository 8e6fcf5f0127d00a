//! The machine's peak: multiply-adds, and copying.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::array::Array;

/// The best measurements.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// GFLOP/s of one thread.
    pub one: f64,
    /// GFLOP/s of all threads together.
    pub all: f64,
    /// GB/s that all threads together read and write while copying.
    pub copy: f64,
}

/// A kernel and its operations per call: chains × lanes × steps × 2.
type Kernel = (unsafe fn() -> f32, f64);

const STEPS: usize = 20_000;

/// Independent chains: at least latency times width, and few enough to stay in 16 registers besides the factor. Compilers use
/// only 16 if just AVX-512F is enabled, and spilled chains would measure memory instead of arithmetic.
const CHAINS: usize = 12;

/// Values that a thread copies: far more than caches hold.
const NUMBERS: usize = 16 << 20;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_cvtss_f32, _mm512_fmadd_ps, _mm512_set1_ps,
    };
    use std::hint::black_box;

    use super::{CHAINS, STEPS};

    #[target_feature(enable = "avx512f")]
    pub fn avx512() -> f32 {
        let factor = _mm512_set1_ps(black_box(0.5));
        let mut sums = [_mm512_set1_ps(black_box(1.0)); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, factor);
            }
        }
        sums.iter().map(|sum| _mm512_cvtss_f32(*sum)).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn avx2() -> f32 {
        let factor = _mm256_set1_ps(black_box(0.5));
        let mut sums = [_mm256_set1_ps(black_box(1.0)); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, factor);
            }
        }
        sums.iter().map(|sum| _mm256_cvtss_f32(*sum)).sum()
    }

    pub const AVX512_OPERATIONS: f64 = (2 * 16 * CHAINS * STEPS) as f64;
    pub const AVX2_OPERATIONS: f64 = (2 * 8 * CHAINS * STEPS) as f64;
}

/// The same for any processor.
fn portable() -> f32 {
    let factor = black_box(0.5_f32);
    let mut sums = [[black_box(1.0_f32); 4]; CHAINS];
    for _ in 0..STEPS {
        for sum in sums.iter_mut().flatten() {
            *sum = *sum * factor + factor;
        }
    }
    sums.iter().flatten().sum()
}

fn kernel() -> Kernel {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return (x86::avx512, x86::AVX512_OPERATIONS);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return (x86::avx2, x86::AVX2_OPERATIONS);
        }
    }
    (portable, (2 * 4 * CHAINS * STEPS) as f64)
}

/// Measures the machine repeatedly.
pub struct Gauge {
    /// For each thread, the source and the destination of copies.
    arrays: Vec<(Array, Array)>,
}

impl Gauge {
    /// For so many threads.
    pub fn new(threads: usize) -> Self {
        Self { arrays: (0..threads).map(|_| (Array::new(NUMBERS, 1.0), Array::new(NUMBERS, 0.0))).collect() }
    }

    /// GFLOP/s of all threads.
    pub fn peak(&self, length: Duration) -> f64 {
        peak(self.arrays.len(), length)
    }

    /// GB/s that all threads read and write while copying.
    pub fn copy(&mut self, length: Duration) -> f64 {
        let barrier = Barrier::new(self.arrays.len());
        let one = |from: &Array, to: &mut Array| {
            barrier.wait();
            let start = Instant::now();
            let mut bytes = 0.0;
            while start.elapsed() < length {
                black_box(&mut *to).copy_from(black_box(from));
                bytes += (2 * NUMBERS * size_of::<f32>()) as f64;
            }
            bytes / start.elapsed().as_secs_f64() / 1e9
        };
        let one = &one;
        std::thread::scope(|scope| {
            let all: Vec<_> =
                self.arrays.iter_mut().map(|(from, to)| scope.spawn(move || one(from, to))).collect();
            all.into_iter().filter_map(|thread| thread.join().ok()).sum()
        })
    }

    /// Everything, each for some time.
    pub fn machine(&mut self, length: Duration) -> Machine {
        Machine { one: peak(1, length), all: self.peak(length), copy: self.copy(length) }
    }
}

/// GFLOP/s of so many threads.
fn peak(threads: usize, length: Duration) -> f64 {
    let (kernel, operations) = kernel();
    let barrier = Barrier::new(threads);
    let one = || {
        barrier.wait();
        let start = Instant::now();
        let mut calls = 0.0;
        while start.elapsed() < length {
            // SAFETY: the processor supports the chosen kernel.
            black_box(unsafe { kernel() });
            calls += 1.0;
        }
        calls * operations / start.elapsed().as_secs_f64() / 1e9
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

impl Machine {
    /// The better of two measurements, for each value.
    pub fn best(self, other: Self) -> Self {
        Self { one: self.one.max(other.one), all: self.all.max(other.all), copy: self.copy.max(other.copy) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_a_rate() {
        let machine = Gauge::new(2).machine(Duration::from_millis(20));
        for rate in [machine.one, machine.all, machine.copy] {
            assert!(rate > 0.01 && rate < 1e6, "{machine:?}");
        }
    }
}
