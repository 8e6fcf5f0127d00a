//! Non-temporal (streaming) stores.
//!
//! An ordinary store first loads the cache line and evicts another. If a kernel's tensors are larger than any
//! cache, neither is useful: streaming saves a third of the memory traffic.

use crate::simd::vector::Vector;

/// From this many bytes read and written, a kernel streams its results: about the largest last-level cache
/// that one program has for itself. Below, streaming is slower, and the next reader finds the results in a
/// cache.
const LARGE: usize = 32 << 20;

/// From this many contiguous elements, looking for the first aligned cache line pays.
const LONG: usize = 512;

/// Whether non-temporal stores pay for a kernel that reads and writes `elements` elements, `run` contiguous ones at a
/// time.
pub(crate) fn is_worth<T>(elements: usize, run: usize) -> bool {
    elements * size_of::<T>() >= LARGE && run >= LONG
}

/// Elements before the first address, from `to` on, to which a vector can be [streamed](Vector::stream);
/// `None` if no such address exists.
#[inline(always)]
pub(crate) fn before_aligned<V: Vector>(to: *const V::Scalar) -> Option<usize> {
    let size = size_of::<V::Scalar>();
    let behind = to.addr() % (V::LANES * size);
    (behind % size == 0).then(|| (V::LANES - behind / size) % V::LANES)
}

/// Makes streamed stores visible to other threads before any later store of this thread.
#[inline(always)]
pub(crate) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of the target has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
