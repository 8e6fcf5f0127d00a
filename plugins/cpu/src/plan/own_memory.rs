//! A plan's own memory, for executions without a workspace.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use hipdnn_plugin_sdk::lock::OnceLock;

/// How many buffers are kept. Further concurrent executions allocate for the duration of the call.
const KEPT: usize = 32;

/// Buffers of one size, as many as executions ever ran concurrently. They are freed with the plan.
#[derive(Default)]
pub struct OwnMemory(OnceLock<Buffers>);

struct Buffers {
    layout: Layout,
    slots: Box<[Slot]>,
}

/// Null, [`TAKEN`] or a free buffer. Aligned to two cache lines, because processors prefetch them in pairs.
/// Each thread starts at a different slot, so that threads running the same plan do not share lines.
#[repr(align(128))]
#[derive(Default)]
struct Slot(AtomicPtr<u8>);

/// Marks a slot whose buffer is in use.
const TAKEN: *mut u8 = without_provenance_mut(1);

/// A buffer in use, returned on drop.
pub struct Taken<'a> {
    memory: *mut u8,
    layout: Layout,
    slot: Option<&'a Slot>,
}

impl OwnMemory {
    /// Takes a buffer for this execution alone; `None` if memory is short. The size must be the same in every
    /// call. The buffer was zeroed when it was allocated. Never blocks.
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
        // If allocation fails, dropping this restores the slot.
        let taken = Taken { memory, layout, slot };
        (!memory.is_null()).then_some(taken)
    }
}

impl Slot {
    /// Takes the buffer in the slot, if it is still this one.
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
            // SAFETY: it was allocated with this layout, and only this value refers to it.
            None => unsafe { dealloc(self.memory, self.layout) },
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let memory = *slot.0.get_mut();
            if !memory.is_null() && memory != TAKEN {
                // SAFETY: it was allocated with this layout, and is no longer in use.
                unsafe { dealloc(memory, self.layout) };
            }
        }
    }
}

/// The number of the calling thread, in the order of first calls. The thread-local has no destructor, which
/// would have to be registered.
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
    fn buffers_are_reused_by_one_execution_at_a_time() {
        let own = OwnMemory::default();
        let first = own.take(100).unwrap();
        let second = own.take(100).unwrap();
        let (a, b) = (first.memory(), second.memory());
        assert_ne!(a, b);
        drop(first);
        assert_eq!(own.take(100).unwrap().memory(), a);
        // Another thread starts at another slot, but finds it too.
        let (own, address) = (&own, a.addr());
        std::thread::scope(|scope| {
            scope.spawn(move || assert_eq!(own.take(100).unwrap().memory().addr(), address));
        });
        drop(second);
    }

    #[test]
    fn more_buffers_than_are_kept_can_be_in_use() {
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
    fn failed_allocations_leave_slots_free() {
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
