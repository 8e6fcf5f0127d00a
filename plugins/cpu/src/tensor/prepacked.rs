//! Prepacked weights: packed by the first execution of a plan with constant weights.

use std::marker::PhantomData;
use std::sync::Arc;

use hipdnn_plugin_sdk::lock::OnceLock;

use crate::tensor::packed::{LARGE_PAGE, LINE, Packed};
use crate::tensor::store::{PackedForm, Store};

/// A kernel's memory for packed weights, if the caller promises that the weights are constant
/// ([`Settings::constant_weights`](crate::settings::Settings)). The first execution fills it, later ones read
/// it. In a [`Store`], plans share it.
///
/// Executions never wait for one that fills the memory: they use their scratch memory, as do executions whose
/// weights are at another address than the packed ones. If filling does not finish, a later execution begins
/// again; if the process forks meanwhile, the child never uses the memory.
pub(crate) struct Prepacked<T> {
    memory: Memory,
    elements: PhantomData<*mut T>,
}

// SAFETY: the memory is written by one execution, and is read only once it no longer changes.
unsafe impl<T: Send> Send for Prepacked<T> {}

// SAFETY: the memory is written by one execution, and is read only once it no longer changes.
unsafe impl<T: Sync> Sync for Prepacked<T> {}

enum Memory {
    /// The kernel's own; empty if nothing is prepacked.
    Own(Packed),
    /// That of the store, for the weights of each address that executions bind.
    Shared { store: Arc<Store>, form: PackedForm, size: [usize; 2], first: OnceLock<Box<Found>> },
}

/// What the store has for an address, and for those bound later.
struct Found {
    source: usize,
    packed: Arc<Packed>,
    next: OnceLock<Box<Found>>,
}

/// The most addresses: layers of a network that are alike and share a plan.
const MOST_FOUND: usize = 256;

impl<T> Prepacked<T> {
    /// Memory for this many elements if `wanted`. Without it, or if memory is short, every execution packs anew.
    /// Plans that this thread makes for a store share it with those of the same `form`.
    pub(crate) fn new(elements: usize, wanted: bool, form: Option<PackedForm>) -> Self {
        Self::aligned(elements, wanted, LINE, form)
    }

    /// Uses large pages, if the memory is large enough and the system has them: faster for data that is read
    /// only a few times.
    pub(crate) fn in_large_pages(elements: usize, wanted: bool, form: Option<PackedForm>) -> Self {
        let is_large = elements.saturating_mul(size_of::<T>()) >= LARGE_PAGE;
        Self::aligned(elements, wanted, if is_large { LARGE_PAGE } else { LINE }, form)
    }

    /// Memory whose first element is at a multiple of `alignment`.
    fn aligned(elements: usize, wanted: bool, alignment: usize, form: Option<PackedForm>) -> Self {
        let size = [elements.saturating_mul(size_of::<T>()), alignment];
        let shared = if wanted { form.zip(Store::of_thread()) } else { None };
        let memory = match shared {
            Some((form, store)) => Memory::Shared { store, form, size, first: OnceLock::new() },
            None if wanted => Memory::Own(Packed::new(size)),
            None => Memory::Own(Packed::none()),
        };
        Self { memory, elements: PhantomData }
    }

    /// Whether executions keep packed weights.
    pub(crate) fn is_wanted(&self) -> bool {
        match &self.memory {
            Memory::Own(packed) => packed.bytes() > 0,
            Memory::Shared { .. } => true,
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
        let packed = match &self.memory {
            Memory::Own(packed) => packed,
            Memory::Shared { store, form, size, first } => {
                let make = || {
                    let packed = store.packed(source, form, *size);
                    Box::new(Found { source: source.addr(), packed, next: OnceLock::new() })
                };
                let mut found = first.get_or_init(make);
                let mut count = 1;
                while found.source != source.addr() {
                    if count == MOST_FOUND {
                        return (scratch, fill(scratch));
                    }
                    (found, count) = (found.next.get_or_init(make), count + 1);
                }
                &found.packed
            }
        };
        let (first, note) = packed.get(source, scratch.cast(), |to| fill(to.cast()));
        (first.cast(), note)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    impl<T> Prepacked<T> {
        /// The kernel's own memory.
        fn own(&self) -> &Packed {
            let Memory::Own(packed) = &self.memory else { panic!("it is shared") };
            packed
        }
    }

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
        let (prepacked, fills) = (Prepacked::<u32>::new(3, true, None), AtomicUsize::new(0));
        assert_eq!(prepacked.own().first().align_offset(64), 0);
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
        let (prepacked, fills) = (Prepacked::new(2, true, None), AtomicUsize::new(0));
        let (mut first, mut second) = ([1, 2], [3, 7]);
        for _ in 0..2 {
            assert_eq!(doubled(&prepacked, &mut first, &fills), (vec![2, 4], false, false));
            assert_eq!(doubled(&prepacked, &mut second, &fills), (vec![6, 14], true, true));
        }
        assert_eq!(fills.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn without_the_promise_nothing_is_prepacked() {
        let (prepacked, fills) = (Prepacked::new(1, false, None), AtomicUsize::new(0));
        let mut weights = [1];
        assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![2], false, true));
        weights[0] = 5;
        assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![10], false, true));
        assert_eq!(Prepacked::<u32>::new(usize::MAX, true, None).own().bytes(), 0);
    }

    #[test]
    fn large_memory_begins_with_a_large_page() {
        const MANY: usize = LARGE_PAGE / size_of::<u32>() + 100;
        for (elements, alignment) in [(3, 64), (MANY, LARGE_PAGE)] {
            let (prepacked, fills) =
                (Prepacked::<u32>::in_large_pages(elements, true, None), AtomicUsize::new(0));
            assert_eq!(prepacked.own().first().addr() % alignment, 0);
            assert!(prepacked.own().end() >= prepacked.own().first().addr() + elements * size_of::<u32>());
            let mut weights = vec![7; elements];
            for _ in 0..2 {
                assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![14; elements], true, false));
            }
            assert_eq!(fills.load(Ordering::Relaxed), 1);
        }
        assert_eq!(Prepacked::<u32>::in_large_pages(MANY, false, None).own().bytes(), 0);
        assert_eq!(Prepacked::<u32>::in_large_pages(usize::MAX, true, None).own().bytes(), 0);
    }

    #[test]
    fn executions_at_the_same_time_do_not_wait_for_the_first() {
        let (prepacked, fills) = (Prepacked::new(1, true, None), AtomicUsize::new(0));
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
            let (prepacked, start) = (Prepacked::new(4, true, None), Barrier::new(3));
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
    fn incompletely_filled_memory_is_filled_again() {
        let (prepacked, fills) = (Prepacked::<u32>::new(1, true, None), AtomicUsize::new(0));
        let mut weights = [1];
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            prepacked.get(weights.as_mut_ptr().cast(), std::ptr::null_mut(), |to| {
                // SAFETY: there is one value.
                unsafe { to.write(100) };
                std::panic::panic_any(1)
            })
        }));
        assert!(broken.is_err());
        for _ in 0..2 {
            assert_eq!(doubled(&prepacked, &mut weights, &fills), (vec![2], false, false));
        }
        assert_eq!(fills.load(Ordering::Relaxed), 1);
    }
}
