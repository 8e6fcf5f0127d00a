//! Prefetches the operands of the next tiles while one is multiplied.

use crate::simd::CACHE_LINE;

/// Prefetch distance in rows of operand B, which are often in different pages, where hardware prefetching
/// does not follow.
pub(crate) const PREFETCH_ROWS: usize = 16;

/// Prefetch distance in words of a packed operand: hardware prefetching stops at the end of each page.
pub(crate) const PREFETCH_WORDS: usize = 512;

/// Prefetch distance in bytes of a packed operand that one row reads once, from memory.
pub(crate) const PREFETCH_BYTES_OF_LINE: usize = 8192;

/// Prefetches a cache line; the address need not be valid.
#[inline(always)]
pub(crate) fn prefetch<S>(at: *const S) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch does not fault and changes neither registers nor memory.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Prefetches a cache line into the L2 cache, which waits for more lines at a time than the L1 cache; the address need
/// not be valid.
#[inline(always)]
pub(crate) fn prefetch_to_l2<S>(at: *const S) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch does not fault and changes neither registers nor memory.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Prefetches a cache line to write it; the address need not be valid. If another core has the line, this fetches it
/// once, where a read and a later write would each ask that core.
#[inline(always)]
pub(crate) fn prefetch_to_write<S>(at: *const S) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault and changes neither registers nor memory; processors that do not know this one ignore it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch does not fault and changes neither registers nor memory.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Prefetches contiguous elements; they need not exist.
#[inline(always)]
pub(crate) fn prefetch_all<S>(first: *const S, len: usize) {
    for byte in (0..len * size_of::<S>()).step_by(CACHE_LINE) {
        prefetch(first.wrapping_byte_add(byte));
    }
}

/// Prefetches contiguous elements to write them; they need not exist.
#[inline(always)]
pub(crate) fn prefetch_all_to_write<S>(first: *const S, len: usize) {
    for byte in (0..len * size_of::<S>()).step_by(CACHE_LINE) {
        prefetch_to_write(first.wrapping_byte_add(byte));
    }
}

/// Cache lines in each of some channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CacheLines {
    pub(crate) first: *const u8,
    /// Contiguous lines of a run, and the runs of a channel with their stride in bytes.
    pub(crate) together: usize,
    pub(crate) runs: (usize, usize),
    pub(crate) channels: usize,
    /// Stride of channels in bytes.
    pub(crate) channel_stride: usize,
    /// Whether they are prefetched to be written.
    pub(crate) is_written: bool,
}

impl CacheLines {
    pub(crate) const NONE: Self = Self::single(std::ptr::null(), 0, 0);

    /// One line in each channel.
    pub(crate) const fn single(first: *const u8, channels: usize, channel_stride: usize) -> Self {
        Self { first, together: 1, runs: (1, 0), channels, channel_stride, is_written: false }
    }

    /// How many lines there are.
    fn count(&self) -> usize {
        self.together * self.runs.0 * self.channels
    }
}

/// The prefetches of one tile. Only a few loads can be in flight, including those that the tile waits for, so
/// lines are requested one by one while the tile multiplies.
#[derive(Clone, Copy)]
pub(crate) struct TilePrefetch {
    pub(crate) now: CacheLines,
    then: [CacheLines; 2],
    /// Progress in the current channel: whole runs, and lines of the next run.
    at: (usize, usize),
    /// Input channels multiplied between two requests, and lines per request.
    every: usize,
    at_once: usize,
}

impl TilePrefetch {
    /// Prefetches nothing.
    pub(crate) const NONE: Self = Self {
        now: CacheLines::NONE,
        then: [CacheLines::NONE; 2],
        at: (0, 0),
        every: usize::MAX,
        at_once: 0,
    };

    /// Prefetches these lines in order, at intervals of at least `least` input channels and at least
    /// `together` lines each time. Entries without channels come last.
    pub(crate) fn of(all: [CacheLines; 3], channels: usize, [least, together]: [usize; 2]) -> Self {
        let lines: usize = all.iter().map(CacheLines::count).sum();
        if lines == 0 || channels == 0 {
            return Self::NONE;
        }
        let [now, then @ ..] = all;
        let every = (together * channels / lines).max(least).min(channels);
        Self { now, then, at: (0, 0), every, at_once: lines.div_ceil(channels / every) }
    }

    /// How many of the remaining channels to multiply before the next request.
    #[inline(always)]
    pub(crate) fn until(&self, left: usize) -> usize {
        self.every.min(left)
    }

    /// Issues the next request.
    #[inline(always)]
    pub(crate) fn prefetch(&mut self) {
        let mut left = self.at_once;
        while left > 0 {
            if self.now.channels == 0 {
                (self.now, self.then) = (self.then[0], [self.then[1], CacheLines::NONE]);
                if self.now.channels == 0 {
                    break;
                }
            }
            let (run, line) = self.at;
            let mut first = self.now.first.wrapping_add(run * self.now.runs.1 + line * CACHE_LINE);
            let count = left.min(self.now.together - line);
            for _ in 0..count {
                if self.now.is_written {
                    prefetch_to_write(first)
                } else {
                    prefetch(first)
                }
                first = first.wrapping_add(CACHE_LINE);
            }
            left -= count;
            self.at.1 += count;
            if self.at.1 == self.now.together {
                self.at = (run + 1, 0);
                if run + 1 == self.now.runs.0 {
                    self.at.0 = 0;
                    self.now.first = self.now.first.wrapping_add(self.now.channel_stride);
                    self.now.channels -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prefetched_in_order_at_intervals() {
        let lines = |number: usize, channels: usize| {
            CacheLines::single(std::ptr::without_provenance(number * 4096), channels, 64)
        };
        let all = [lines(1, 2), lines(3, 3), lines(4, 1)];
        for (channels, every, at_once) in [(20, 3, 1), (6, 1, 1), (4, 1, 2), (1, 1, 6)] {
            let mut tile_prefetch = TilePrefetch::of(all, channels, [1; 2]);
            assert_eq!((tile_prefetch.every, tile_prefetch.at_once), (every, at_once), "{channels}");
            let (mut left, mut states) = (channels, Vec::new());
            while left > 0 {
                left -= tile_prefetch.until(left);
                tile_prefetch.prefetch();
                states.push((tile_prefetch.now.first.addr(), tile_prefetch.now.channels));
            }
            assert!(
                [tile_prefetch.now, tile_prefetch.then[0], tile_prefetch.then[1]]
                    .iter()
                    .all(|lines| lines.channels == 0)
            );
            if channels == 6 {
                assert_eq!(states[5], (4 * 4096 + 64, 0));
                let first = [(4096 + 64, 1), (4096 + 128, 0), (3 * 4096 + 64, 2), (3 * 4096 + 128, 1)];
                assert_eq!(states[..4], first);
            }
        }
        assert_eq!(TilePrefetch::of([CacheLines::NONE; 3], 10, [1; 2]).until(10), 10);
        assert_eq!(TilePrefetch::of(all, 0, [1; 2]).at_once, 0);
    }

    #[test]
    fn channels_are_prefetched_one_by_one() {
        let first = std::ptr::without_provenance(4096);
        let lines = CacheLines {
            first,
            together: 2,
            runs: (3, 256),
            channels: 2,
            channel_stride: 8192,
            is_written: true,
        };
        let mut tile_prefetch = TilePrefetch::of([lines, CacheLines::NONE, CacheLines::NONE], 32, [16, 1]);
        assert_eq!((tile_prefetch.every, tile_prefetch.at_once), (16, 6));
        tile_prefetch.prefetch();
        assert_eq!(
            (tile_prefetch.now.first.addr(), tile_prefetch.now.channels, tile_prefetch.at),
            (4096 + 8192, 1, (0, 0))
        );
        tile_prefetch.at_once = 3;
        tile_prefetch.prefetch();
        assert_eq!(
            (tile_prefetch.now.first.addr(), tile_prefetch.now.channels, tile_prefetch.at),
            (4096 + 8192, 1, (1, 1))
        );
        tile_prefetch.prefetch();
        assert_eq!(tile_prefetch.now.channels, 0);
    }
}
