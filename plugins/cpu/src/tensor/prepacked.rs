//! Prepacked weights: packed by the first execution of a plan with constant weights.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use hipdnn_plugin_sdk::os::memory::advise_large_pages;

/// The alignment of the memory: that of a cache line.
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its size and alignment matter")] [u8; 64]);

/// The size of large pages. With pages of 4 KiB, the addresses of large weights exceed the TLB.
const LARGE_PAGE: usize = 2 << 20;

/// The memory is empty.
const EMPTY: u8 = 0;

/// An execution is filling it.
const FILLING: u8 = 1;

/// It is complete and never changes again.
const FULL: u8 = 2;

/// A kernel's memory for packed weights, if the caller promises that the weights are constant
/// ([`Settings::constant_weights`](crate::settings::Settings)). The first execution fills it, later ones read
/// it.
///
/// Executions never wait. While one fills the memory, others use their scratch memory, as do executions whose
/// weights are at another address than the packed ones. If filling does not finish, or the process forks
/// meanwhile, the memory is never used.
pub(crate) struct Prepacked<T> {
    /// Capacity for all elements; empty if nothing is prepacked.
    lines: Vec<MaybeUninit<Line>>,
    first: *mut T,
    state: AtomicU8,
    /// The address of the packed weights, and what `fill` returned. Written before the state becomes FULL.
    source: AtomicPtr<u8>,
    note: AtomicBool,
}

// SAFETY: only the thread that set the state to FILLING, and those that share its work, write the memory; it
// is read only after the state is FULL, when it no longer changes.
unsafe impl<T: Send> Send for Prepacked<T> {}

// SAFETY: only the thread that set the state to FILLING, and those that share its work, write the memory; it
// is read only after the state is FULL, when it no longer changes.
unsafe impl<T: Sync> Sync for Prepacked<T> {}

impl<T> Prepacked<T> {
    /// Memory for this many elements if `wanted`. Without it, or if memory is short, every execution packs anew.
    pub(crate) fn new(elements: usize, wanted: bool) -> Self {
        Self::aligned(elements.saturating_mul(size_of::<T>()), wanted, size_of::<Line>())
    }

    /// Uses large pages, if the memory is large enough and the system has them: faster for data that is read
    /// only a few times.
    pub(crate) fn in_large_pages(elements: usize, wanted: bool) -> Self {
        let bytes = elements.saturating_mul(size_of::<T>());
        if bytes < LARGE_PAGE {
            return Self::new(elements, wanted);
        }
        let prepacked = Self::aligned(bytes, wanted, LARGE_PAGE);
        if prepacked.lines.capacity() > 0 {
            // SAFETY: the memory has these bytes, and advice does not change them. Failure is harmless.
            unsafe { advise_large_pages(prepacked.first.cast(), bytes) };
        }
        prepacked
    }

    /// Memory whose first element is at a multiple of `alignment`.
    fn aligned(bytes: usize, wanted: bool, alignment: usize) -> Self {
        let mut lines: Vec<MaybeUninit<Line>> = Vec::new();
        // The bytes before that address are unused.
        let most = bytes.saturating_add(alignment - size_of::<Line>());
        if wanted && lines.try_reserve_exact(most.div_ceil(size_of::<Line>())).is_err() {
            lines = Vec::new();
        }
        let first: *mut T = lines.as_mut_ptr().cast();
        Self {
            first: first.map_addr(|address| address.next_multiple_of(alignment)),
            lines,
            state: AtomicU8::new(EMPTY),
            source: AtomicPtr::default(),
            note: AtomicBool::new(false),
        }
    }

    /// The packed weights of `source`, and what `fill` returned for them. Unless they are already prepacked,
    /// calls `fill` with a destination: the prepacked memory if it is still empty, else `scratch`.
    pub(crate) fn get(
        &self,
        source: *mut u8,
        scratch: *mut T,
        fill: impl FnOnce(*mut T) -> bool,
    ) -> (*const T, bool) {
        if self.lines.capacity() == 0 {
            return (scratch, fill(scratch));
        }
        if self.state.load(Ordering::Acquire) == FULL {
            return if self.source.load(Ordering::Relaxed) == source {
                (self.first, self.note.load(Ordering::Relaxed))
            } else {
                (scratch, fill(scratch))
            };
        }
        let begun = self.state.compare_exchange(EMPTY, FILLING, Ordering::Relaxed, Ordering::Relaxed);
        if begun.is_err() {
            return (scratch, fill(scratch));
        }
        let note = fill(self.first);
        self.note.store(note, Ordering::Relaxed);
        self.source.store(source, Ordering::Relaxed);
        self.state.store(FULL, Ordering::Release);
        (self.first, note)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Weights, and their packed form.
    fn doubled(
        prepacked: &Prepacked<u32>,
        weights: &mut [u32],
        fills: &AtomicUsize,
    ) -> (Vec<u32>, bool, bool) {
        let mut scratch = vec![0; weights.len()];
        let (made, note) = prepacked.get(weights.as_mut_ptr().cast(), scratch.as_mut_ptr(), |to| {
            fills.fetch_add(1, Ordering::Relaxed);
            // SAFETY: both memories have as many values.
            weights.iter().enumerate().for_each(|(i, weight)| unsafe { to.add(i).write(weight * 2) });
            weights.contains(&7)
        });
        // SAFETY: all values are written.
        let values = unsafe { std::slice::from_raw_parts(made, weights.len()) }.to_vec();
        (values, note, std::ptr::eq(made, scratch.as_ptr()))
    }

    #[test]
    fn the_first_execution_fills_it_for_all_later_ones() {
        let (prepacked, fills) = (Prepacked::<u32>::new(3, true), AtomicUsize::new(0));
        assert_eq!(prepacked.first.align_offset(64), 0);
        let mut weights = [1, 7, 3];
        for _ in 0..3 {
            assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![2, 14, 6], true, false));
            // Breaks the promise, to show that the weights are not read again.
            weights[0] = 100;
        }
        assert_eq!(fills.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn weights_at_another_address_are_not_prepacked() {
        let (prepacked, fills) = (Prepacked::new(2, true), AtomicUsize::new(0));
        let (mut first, mut second) = ([1, 2], [3, 7]);
        for _ in 0..2 {
            assert_eq!(doubled(&prepacked, &mut first, &fills), (vec![2, 4], false, false));
            assert_eq!(doubled(&prepacked, &mut second, &fills), (vec![6, 14], true, true));
        }
        assert_eq!(fills.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn without_the_promise_nothing_is_prepacked() {
        let (prepacked, fills) = (Prepacked::new(1, false), AtomicUsize::new(0));
        let mut weights = [1];
        assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![2], false, true));
        weights[0] = 5;
        assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![10], false, true));
        assert_eq!(Prepacked::<u32>::new(usize::MAX, true).lines.capacity(), 0);
    }

    #[test]
    fn large_memory_begins_with_a_large_page() {
        const MANY: usize = LARGE_PAGE / size_of::<u32>() + 100;
        for (elements, alignment) in [(3, 64), (MANY, LARGE_PAGE)] {
            let (prepacked, fills) = (Prepacked::<u32>::in_large_pages(elements, true), AtomicUsize::new(0));
            assert_eq!(prepacked.first.addr() % alignment, 0);
            let end = prepacked.lines.as_ptr().addr() + prepacked.lines.capacity() * size_of::<Line>();
            assert!(prepacked.first.addr() + elements * size_of::<u32>() <= end);
            let mut weights = vec![7; elements];
            for _ in 0..2 {
                assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![14; elements], true, false));
            }
            assert_eq!(fills.load(Ordering::Relaxed), 1);
        }
        assert_eq!(Prepacked::<u32>::in_large_pages(MANY, false).lines.capacity(), 0);
        assert_eq!(Prepacked::<u32>::in_large_pages(usize::MAX, true).lines.capacity(), 0);
    }

    #[test]
    fn executions_at_the_same_time_do_not_wait_for_the_first() {
        let (prepacked, fills) = (Prepacked::new(1, true), AtomicUsize::new(0));
        let mut weights = [1_u32];
        let source = weights.as_mut_ptr().cast();
        let mut own = 0;
        prepacked.get(source, &raw mut own, |to| {
            assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![2], false, true));
            // SAFETY: there is one value.
            unsafe { to.write(2) };
            false
        });
        assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![2], false, false));
        assert_eq!(fills.load(Ordering::Relaxed), 1);

        for _ in 0..100 {
            let (prepacked, start) = (Prepacked::new(4, true), Barrier::new(3));
            let mut weights = [[1, 2, 3, 4]; 3];
            std::thread::scope(|scope| {
                for weights in &mut weights {
                    scope.spawn(|| {
                        start.wait();
                        for _ in 0..3 {
                            assert_eq!(doubled(&prepacked, weights, &fills).0, [2, 4, 6, 8]);
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn incompletely_filled_memory_is_not_used() {
        let (prepacked, fills) = (Prepacked::new(1, true), AtomicUsize::new(0));
        let mut weights = [1];
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            prepacked.get(weights.as_mut_ptr().cast(), std::ptr::null_mut(), |_| std::panic::panic_any(1))
        }));
        assert!(broken.is_err());
        for _ in 0..2 {
            assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![2], false, true));
        }
    }
}
