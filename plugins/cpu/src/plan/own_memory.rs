//! Memory of a plan's own, for executions that bring no workspace.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;

/// How many buffers are kept. More executions than these at a time allocate for the time of the call.
const KEPT: usize = 32;

/// Buffers of one size. There come to be as many as executions ran at a time; they are kept until the plan ends.
#[derive(Default)]
pub struct OwnMemory(OnceLock<Buffers>);

struct Buffers {
    layout: Layout,
    slots: Box<[Slot]>,
}

/// Null, [`TAKEN`] or a buffer that nobody uses. In a cache line of its own, with the one that processors fetch beside it: a
/// thread begins at its own slot, so that threads that run the same plan write no line in common.
#[repr(align(128))]
#[derive(Default)]
struct Slot(AtomicPtr<u8>);

/// In a slot whose buffer is in use.
const TAKEN: *mut u8 = without_provenance_mut(1);

/// A buffer in use. It goes back when this is dropped.
pub struct Taken<'a> {
    memory: *mut u8,
    layout: Layout,
    slot: Option<&'a Slot>,
}

impl OwnMemory {
    /// A buffer of this size, the same in every call, for this execution alone; none where there is no memory. Its bytes were
    /// zeros once. Waits for nobody.
    pub fn take(&self, size: usize) -> Option<Taken<'_>> {
        let layout = Layout::from_size_align(size.max(1), 1).ok()?;
        let Buffers { layout, slots } = self.0.get_or_init(|| Buffers {
            layout,
            slots: std::iter::repeat_with(Slot::default).take(KEPT).collect(),
        });
        let layout = *layout;
        let (before, from) = slots.split_at(thread_number() % slots.len());
        let slots = || from.iter().chain(before);
        for slot in slots() {
            let memory = slot.0.load(Ordering::Relaxed);
            if !memory.is_null() && memory != TAKEN && slot.exchange(memory) {
                return Some(Taken { memory, layout, slot: Some(slot) });
            }
        }
        let slot = slots().find(|slot| slot.0.load(Ordering::Relaxed).is_null() && slot.exchange(null_mut()));
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(layout) };
        // Without memory the slot is left as it was.
        let taken = Taken { memory, layout, slot };
        (!memory.is_null()).then_some(taken)
    }
}

impl Slot {
    /// Takes what is in the slot, if that is still this.
    fn exchange(&self, memory: *mut u8) -> bool {
        self.0.compare_exchange(memory, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl Taken<'_> {
    /// The buffer.
    pub fn memory(&self) -> *mut u8 {
        self.memory
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        match self.slot {
            Some(slot) => slot.0.store(self.memory, Ordering::Release),
            None if self.memory.is_null() => {}
            // SAFETY: it was allocated with this layout, and nobody else knows it.
            None => unsafe { dealloc(self.memory, self.layout) },
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let memory = *slot.0.get_mut();
            if !memory.is_null() && memory != TAKEN {
                // SAFETY: it was allocated with this layout, and is in use no more.
                unsafe { dealloc(memory, self.layout) };
            }
        }
    }
}

/// The number of the calling thread, by the order of their first calls. Without a destructor, which would have to be
/// registered with the thread.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(next));
            next
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_by_one_at_a_time() {
        let own = OwnMemory::default();
        let first = own.take(100).unwrap();
        let second = own.take(100).unwrap();
        let (a, b) = (first.memory(), second.memory());
        assert_ne!(a, b);
        drop(first);
        assert_eq!(own.take(100).unwrap().memory(), a);
        // Another thread, which begins elsewhere, finds it too.
        let (own, address) = (&own, a.addr());
        std::thread::scope(|scope| {
            scope.spawn(move || assert_eq!(own.take(100).unwrap().memory().addr(), address));
        });
        drop(second);
    }

    #[test]
    fn more_than_are_kept_are_had_at_a_time() {
        let own = OwnMemory::default();
        let all: Vec<Taken<'_>> = (0..KEPT + 3).map(|_| own.take(64).unwrap()).collect();
        let addresses: HashSet<*mut u8> = all.iter().map(Taken::memory).collect();
        assert_eq!(addresses.len(), all.len());
        assert_eq!(all.iter().filter(|taken| taken.slot.is_none()).count(), 3);
        drop(all);
        let again = own.take(64).unwrap();
        assert!(addresses.contains(&again.memory()) && again.slot.is_some());
    }

    #[test]
    fn what_cannot_be_had_takes_no_slot() {
        let own = OwnMemory::default();
        for _ in 0..2 * KEPT {
            assert!(own.take(isize::MAX as usize - 4096).is_none());
        }
        let kept = own.0.get().unwrap();
        assert!(kept.slots.iter().all(|slot| slot.0.load(Ordering::Relaxed).is_null()));
        assert!(own.take(usize::MAX).is_none());
    }

    #[test]
    fn threads_never_share_a_buffer() {
        let own = OwnMemory::default();
        std::thread::scope(|scope| {
            for thread in 0..8_u8 {
                let own = &own;
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let taken = own.take(256).unwrap();
                        // SAFETY: the buffer has 256 bytes, for this thread alone.
                        let bytes = unsafe { std::slice::from_raw_parts_mut(taken.memory(), 256) };
                        bytes.fill(thread);
                        std::hint::spin_loop();
                        assert!(bytes.iter().all(|byte| *byte == thread));
                    }
                });
            }
        });
    }
}
