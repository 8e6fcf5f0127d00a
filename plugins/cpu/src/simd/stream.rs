//! Results that go around the caches.
//!
//! What is written is read into the caches first, and throws out something else. Where the tensors of a kernel are
//! larger than any cache, neither is of use to anybody: streamed results take a third of the traffic away.

use crate::simd::vector::Vector;

/// Bytes that a kernel reads and writes from which on its results are streamed: about the largest last-level cache that one
/// program has for itself. Below, streaming is slower, and who reads the results next finds them in a cache.
const LARGE: usize = 32 << 20;

/// Numbers side by side from which on it pays to look for the first line of the cache that all of is written.
const LONG: usize = 512;

/// Whether the results of a kernel are to be streamed that reads and writes `numbers`, and as many as `run` side by side.
pub(crate) fn is_worth<T>(numbers: usize, run: usize) -> bool {
    numbers * size_of::<T>() >= LARGE && run >= LONG
}

/// How many numbers there are before the first place from `to` on that a vector can be [streamed](Vector::stream) to; none where
/// there is no such place.
#[inline(always)]
pub(crate) fn before_aligned<V: Vector>(to: *const V::Scalar) -> Option<usize> {
    let size = size_of::<V::Scalar>();
    let behind = to.addr() % (V::LANES * size);
    (behind % size == 0).then(|| (V::LANES - behind / size) % V::LANES)
}

/// Makes what was streamed visible to other threads before anything that this one writes later.
#[inline(always)]
pub(crate) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of the target has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
