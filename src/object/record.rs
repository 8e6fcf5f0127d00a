//! Each thread's record for [`super::Table`]: the handles that it is using, and free slots.

use std::cell::{Cell, RefCell, RefMut};
use std::ffi::c_void;
use std::ptr;

use super::{FREE, TABLES};
use crate::graph::recent::Recent;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicUsize, GROUPS, Ordering, SPARES, at_thread_end, left_for_thread_end,
    prepare_thread, thread_local,
};

/// Objects that one thread may use at a time: three for a call, and those of nested calls from callbacks.
pub const HAZARDS: usize = 7;

/// A thread's record: the handles that it is using, visible to all, and private data. Records are never freed; a record
/// whose thread has ended is reused.
#[repr(align(128))]
pub struct Record {
    pub hazards: [AtomicUsize; HAZARDS],
    taken: AtomicBool,
    /// The next record of the same group.
    next: AtomicPtr<Record>,
    /// The bit of the record's group.
    pub group: u64,
    /// How many hazards are in use.
    pub depth: Cell<usize>,
    /// For each table, a few slots that the thread freed; it takes these before those in `stores`.
    spares: [Spares; TABLES],
    /// Further free slots of each table.
    stores: RefCell<[Vec<u32>; TABLES]>,
    /// The graphs that it received last.
    pub graphs: RefCell<Recent>,
}

/// Up to [`SPARES`] slots, of which the last one given is taken first.
#[derive(Default)]
pub struct Spares {
    count: Cell<usize>,
    slots: [Cell<u32>; SPARES],
}

impl Spares {
    /// Takes the slot that was given last.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        let last = self.count.get().checked_sub(1)?;
        let slot = self.slots.get(last)?.get();
        self.count.set(last);
        Some(slot)
    }

    /// Keeps a slot; false if there is no room for it.
    #[inline]
    pub fn give(&self, slot: u32) -> bool {
        let count = self.count.get();
        let Some(place) = self.slots.get(count) else { return false };
        place.set(slot);
        self.count.set(count + 1);
        true
    }
}

// SAFETY: only the thread that has taken the record uses `depth`, `spares`, `stores` and `graphs`; everything else is atomic.
unsafe impl Sync for Record {}

/// All groups.
pub const ALL: u64 = u64::MAX;

/// The records, in one group for each bit of a word, so that a word tells which groups may use a handle.
static RECORDS: [AtomicPtr<Record>; GROUPS] = [const { AtomicPtr::new(ptr::null_mut()) }; GROUPS];
/// The number of records.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The records of some groups.
pub fn records(groups: u64) -> impl Iterator<Item = &'static Record> {
    let chosen = RECORDS.iter().enumerate().filter(move |(group, _)| groups & (1 << group) != 0);
    chosen.flat_map(|(_, head)| {
        // SAFETY: records are leaked, so every pointer in the list stays valid.
        let mut at = unsafe { head.load(Ordering::SeqCst).as_ref() };
        std::iter::from_fn(move || {
            let record = at?;
            // SAFETY: records are leaked, so `next` is null or stays valid.
            at = unsafe { record.next.load(Ordering::Acquire).as_ref() };
            Some(record)
        })
    })
}

/// Whether a thread of one of the groups has announced a handle. The caller must first have cleared the handle by a sequentially
/// consistent operation, so that a thread that announces it later finds it dead.
pub fn is_in_use(handle: usize, groups: u64) -> bool {
    records(groups).any(|record| record.uses(handle))
}

thread_local! {
    // Without a destructor, so that the common path is one load, and it works until the thread has ended.
    static RECORD: Cell<Option<&'static Record>> = const { Cell::new(None) };
}

/// Releases the ending thread's record for reuse.
///
/// # Safety
/// `record` is a thread's record; the thread ends and does not use it again.
unsafe extern "C" fn give_back(record: *mut c_void) {
    RECORD.set(None);
    // SAFETY: the pointer is that of a record, which is never freed.
    let record = unsafe { &*record.cast_const().cast::<Record>() };
    // Other threads cannot use slots in a thread's store. The few in `spares` stay with the record, for its next thread.
    for (free, store) in FREE.iter().zip(record.stores.borrow_mut().iter_mut()) {
        free.lock().indices.append(store);
    }
    record.graphs.take();
    record.taken.store(false, Ordering::Release);
}

impl Record {
    /// This thread's record.
    #[inline]
    pub fn of_thread() -> &'static Self {
        RECORD.get().unwrap_or_else(Self::take)
    }

    #[cold]
    fn take() -> &'static Self {
        // Some compilers destroy thread-locals before the thread ends; then it already has a record.
        // SAFETY: the pointer is null or that of a record, which is never freed.
        if let Some(own) = unsafe { left_for_thread_end().cast_const().cast::<Self>().as_ref() } {
            RECORD.set(Some(own));
            return own;
        }
        let free = records(ALL).find(|record| {
            record.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        let record = free.unwrap_or_else(Self::add);
        RECORD.set(Some(record));
        prepare_thread();
        at_thread_end(give_back, ptr::from_ref(record).cast_mut().cast());
        record
    }

    fn add() -> &'static Self {
        let group = COUNT.fetch_add(1, Ordering::Relaxed) % RECORDS.len();
        let head = RECORDS.get(group).unwrap_or(&RECORDS[0]);
        let record: &'static Self = Box::leak(Box::new(Self {
            hazards: [const { AtomicUsize::new(0) }; HAZARDS],
            taken: AtomicBool::new(true),
            next: AtomicPtr::new(head.load(Ordering::Acquire)),
            group: 1 << group,
            depth: Cell::new(0),
            spares: std::array::from_fn(|_| Spares::default()),
            stores: RefCell::new([const { Vec::new() }; TABLES]),
            graphs: RefCell::default(),
        }));
        let new = ptr::from_ref(record).cast_mut();
        loop {
            let next = record.next.load(Ordering::Relaxed);
            match head.compare_exchange(next, new, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => break record,
                Err(actual) => record.next.store(actual, Ordering::Relaxed),
            }
        }
    }

    /// The record's number: its address.
    #[inline]
    pub fn number(&self) -> usize {
        ptr::from_ref(self).expose_provenance()
    }

    /// Whether this thread's own record announces a handle. Most calls run outside of any other, and then nothing is searched.
    #[inline]
    pub fn uses_itself(&self, handle: usize) -> bool {
        self.depth.get() > 0 && self.uses(handle)
    }

    /// Whether the record announces a handle.
    pub fn uses(&self, handle: usize) -> bool {
        self.hazards.iter().any(|hazard| hazard.load(Ordering::SeqCst) == handle)
    }

    /// The few slots of a table that this thread freed and takes first.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "`Table::new` has checked the number")]
    pub fn spares(&self, table: usize) -> &Spares {
        &self.spares[table]
    }

    /// The free slots of a table that this thread stores.
    #[expect(clippy::indexing_slicing, reason = "`Table::new` has checked the number")]
    pub fn store(&self, table: usize) -> RefMut<'_, Vec<u32>> {
        RefMut::map(self.stores.borrow_mut(), |stores| &mut stores[table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spares_give_back_the_last_first_and_refuse_when_full() {
        let spares = Spares::default();
        assert_eq!(spares.take(), None);
        for slot in 0..SPARES as u32 {
            assert!(spares.give(slot + 40));
        }
        assert!(!spares.give(7));
        for slot in (0..SPARES as u32).rev() {
            assert_eq!(spares.take(), Some(slot + 40));
        }
        assert_eq!(spares.take(), None);
        assert!(spares.give(8));
        assert_eq!(spares.take(), Some(8));
    }
}
