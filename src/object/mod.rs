//! Opaque handles: numbers given to C, never dereferenced as pointers.
//!
//! A handle consists of a slot of a table and the slot's generation, so null, stale, twice destroyed or forged handles are
//! detected by comparing numbers. Reading takes no lock and writes to no memory that threads share: a thread announces the
//! handle it is about to use in its own record (a hazard), and a destroyer first scans the records. An object that another
//! thread uses while it is destroyed is dropped when that use ends. A call that changes an object takes the object's lock
//! instead: see `lock.rs`.
//!
//! Soundness: a user stores the hazard, fences, and loads the slot's handle; a destroyer clears the slot's handle and loads the
//! hazards; fence, load, clear and loads are sequentially consistent. Either the user's load comes after the clear and finds
//! the handle dead, or its fence comes before the destroyer's loads, which find the hazard or a later value. Hazards are only
//! stored with release, so a destroyer that finds a later one also sees the end of the use before it. A handle includes its
//! slot's generation and is never issued twice, so a refilled slot is not mistaken for the old one, and a slot is refilled
//! only after its object was dropped.
//!
//! A destroyer scans only the records of threads that have looked the handle up. A slot stores its maker's record, and a bit for
//! each group of others: a thread that looks the handle up with another record first sets its group's bit and then checks again
//! that the handle is live. Bit, check, clear and the destroyer's load of the bits are sequentially consistent. So either that
//! second check comes after the clear and finds the handle dead, or the destroyer finds the bit and scans that group's records.

mod lock;
mod record;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

pub use self::lock::{Access, Taken};

use self::lock::Lock;
use self::record::{ALL, Record, is_in_use};
use crate::lock::Mutex;
use crate::status::{Error, Result};
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, BATCH, Ordering, fence, leak_zeroed,
    slots_of_chunk,
};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a handle packs a generation, an index and a tag into 64 bits");

/// Chunks in a table, which limits it to 4 million live objects or more.
const CHUNKS: usize = 8192;
/// The generation's first bit in a handle; below are the index and, in the lowest four bits, the table's tag.
const GENERATION_SHIFT: u32 = 32;

/// A slot for one object, on its own cache lines to avoid false sharing.
#[repr(C, align(64))]
struct Slot<T> {
    /// The handle of the object here; 0 while there is none to look up.
    handle: AtomicUsize,
    /// The address of the maker's record.
    owner: AtomicUsize,
    /// The groups of the other records that were used to look the object up.
    others: AtomicU64,
    /// The generation of the last object here; only the thread that has taken the slot touches it.
    generation: AtomicU32,
    /// Held by a call with exclusive access.
    lock: Lock,
    /// Initialized from before `handle` is set until the last use after it was cleared. Placed after the fields that every
    /// look-up reads, so that it starts on the same cache line.
    object: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only the thread that has taken the slot writes and drops the object, while no handle names it, no thread has announced
// its handle, and none holds the lock; in between it is only shared.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// All objects of one kind.
pub struct Table<T: 'static> {
    /// The kind's name in messages.
    name: &'static str,
    tag: usize,
    /// The index of this table in each thread's stores of free slots.
    store: usize,
    /// The first slot of each chunk.
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
}

/// The slots of a table that no thread has taken.
pub struct Free {
    indices: Vec<u32>,
    /// The first slot that was never taken.
    next: u32,
}

impl Default for Free {
    /// Without slots, since it is unknown which are in use.
    fn default() -> Self {
        Self { indices: Vec::new(), next: u32::MAX }
    }
}

/// The free slots of each table.
pub static FREE: [Mutex<Free>; TABLES] =
    [const { Mutex::new(Free { indices: Vec::new(), next: 0 }) }; TABLES];

impl<T: Send + Sync> Table<T> {
    /// Slots in a chunk.
    const CHUNK: usize = slots_of_chunk(size_of::<Slot<T>>());

    /// An empty table. `tag` is odd and below 16; `store` is below [`TABLES`]; both are unique.
    pub const fn new(name: &'static str, tag: usize, store: usize) -> Self {
        assert!(tag < 16 && tag % 2 == 1 && store < TABLES);
        Self { name, tag, store, chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS] }
    }

    #[expect(clippy::indexing_slicing, reason = "`new` has checked the number")]
    fn free(&self) -> &'static Mutex<Free> {
        &FREE[self.store]
    }

    #[inline]
    fn slot(&self, index: usize) -> Option<&Slot<T>> {
        let chunk = self.chunks.get(index / Self::CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk that has been published is never freed, and has this many slots.
        (!chunk.is_null()).then(|| unsafe { &*chunk.add(index % Self::CHUNK) })
    }

    #[inline]
    fn slot_of(&self, handle: usize) -> Option<&Slot<T>> {
        if handle & 0xf != self.tag {
            return None;
        }
        self.slot((handle & 0xffff_ffff) >> 4)
    }

    /// Inserts an object and returns its handle.
    pub fn insert(&self, object: T) -> Result<usize> {
        self.insert_with(|| object)
    }

    /// Inserts the object that `make` builds in place, and returns its handle.
    #[inline(always)]
    pub fn insert_with(&self, make: impl FnOnce() -> T) -> Result<usize> {
        let record = Record::of_thread();
        let index = self.take_slot(record)?;
        let Some(slot) = self.slot(index as usize) else {
            return Err(Error::internal(format!("slot {index} of the {} table does not exist", self.name)));
        };
        let generation = slot.generation.load(Ordering::Relaxed) + 1;
        slot.generation.store(generation, Ordering::Relaxed);
        // SAFETY: this thread has taken the slot, which is empty.
        unsafe { (*slot.object.get()).write(make()) };
        slot.owner.store(record.number(), Ordering::Relaxed);
        // Before its handle is set, no other thread writes to the slot, except harmless bits set by users of dead handles.
        if slot.others.load(Ordering::Relaxed) != 0 {
            slot.others.store(0, Ordering::Relaxed);
        }
        let handle = ((generation as usize) << GENERATION_SHIFT) | ((index as usize) << 4) | self.tag;
        slot.handle.store(handle, Ordering::Release);
        Ok(handle)
    }

    /// Removes an object; it is dropped now, or when the last call that uses it ends.
    #[inline(always)]
    pub fn remove(&'static self, handle: usize) -> Result<()> {
        let slot = self.slot_of(handle).ok_or_else(|| self.dead(handle))?;
        if slot.handle.compare_exchange(handle, 0, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Err(self.dead(handle));
        }
        let record = Record::of_thread();
        let is_own = slot.owner.load(Ordering::SeqCst) == record.number();
        let others = slot.others.load(Ordering::SeqCst);
        if slot.lock.is_taken()
            || record.uses_itself(handle)
            || ((!is_own || others != 0) && self.has_users(handle, slot, others))
        {
            self.leave_to_users(handle, &slot.lock);
        } else {
            self.empty(handle, slot, record);
        }
        // A use that ended just before the object was left to its users did not see it.
        bury_some();
        Ok(())
    }

    /// Whether the maker's record or one of the groups in `others` still announces a cleared handle.
    #[cold]
    fn has_users(&self, handle: usize, slot: &Slot<T>, others: u64) -> bool {
        let owner: *const Record = ptr::with_exposed_provenance(slot.owner.load(Ordering::Relaxed));
        // SAFETY: records are never freed, and the maker's was stored before the handle was published.
        unsafe { owner.as_ref() }.is_some_and(|owner| owner.uses(handle)) || is_in_use(handle, others)
    }

    /// Has an object dropped when its last use ends. Out of line, like everything that locks, to keep the common path short.
    #[cold]
    #[inline(never)]
    fn leave_to_users(&'static self, handle: usize, lock: &'static Lock) {
        let burial = move || {
            if let Some(slot) = self.slot_of(handle) {
                self.empty(handle, slot, Record::of_thread());
            }
        };
        GRAVEYARD.lock().push(Grave { handle, lock, burial: Box::new(burial) });
        GRAVEYARD_HAS_SOME.store(true, Ordering::SeqCst);
    }

    /// Drops the unused object of a cleared handle, and frees its slot.
    fn empty(&self, handle: usize, slot: &Slot<T>, record: &Record) {
        // SAFETY: the call that cleared the handle, or the burial it deferred to, has exclusive access to the slot.
        unsafe { (*slot.object.get()).assume_init_drop() };
        self.give_slot(((handle & 0xffff_ffff) >> 4) as u32, slot, record);
    }

    /// Looks up a handle and calls `f` with its object, which stays alive meanwhile.
    #[inline(always)]
    pub fn with<R>(&self, handle: usize, f: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        with_handles([handle], |using| f(using.find::<0, T>(self)?))
    }

    /// The same, with the means to get exclusive access.
    #[inline(always)]
    pub fn with_access<R>(&self, handle: usize, f: impl FnOnce(&T, Access) -> Result<R>) -> Result<R> {
        with_handles([handle], |using| {
            let slot = using.slot::<0, T>(self)?;
            // SAFETY: `slot` has found the handle to be live.
            f(unsafe { (*slot.object.get()).assume_init_ref() }, Access::shared(&slot.lock))
        })
    }

    /// Looks up a handle and calls `f` with exclusive access to its object; if another call has that, with shared access, and `f`
    /// may wait for that call.
    #[inline(always)]
    pub fn alone<R>(&self, handle: usize, f: impl FnOnce(&T, Access) -> Result<R>) -> Result<R> {
        let slot = self.slot_of(handle).ok_or_else(|| self.dead(handle))?;
        let Some(taken) = slot.lock.take() else { return self.with_access_out_of_line(handle, f) };
        if slot.handle.load(Ordering::SeqCst) != handle {
            return Err(self.dead(handle));
        }
        // SAFETY: the handle was live after the lock was taken, so its object is dropped only after `taken` is dropped.
        f(unsafe { (*slot.object.get()).assume_init_ref() }, Access::alone(&taken))
    }

    #[cold]
    #[inline(never)]
    fn with_access_out_of_line<R>(
        &self,
        handle: usize,
        f: impl FnOnce(&T, Access) -> Result<R>,
    ) -> Result<R> {
        self.with_access(handle, f)
    }

    /// The number of objects in the table.
    pub fn count(&self) -> usize {
        let taken = self.free().lock().next as usize;
        let slots = (0..taken).map_while(|index| self.slot(index));
        slots.filter(|slot| slot.handle.load(Ordering::Acquire) != 0).count()
    }

    /// The error for a handle without a live object.
    #[cold]
    fn dead(&self, handle: usize) -> Error {
        if handle == 0 {
            return Error::null_pointer(format!("the {} is null", self.name));
        }
        let slot = self.slot_of(handle);
        let known = slot.is_some_and(|slot| {
            let generation = handle >> GENERATION_SHIFT;
            generation > 0 && generation <= slot.generation.load(Ordering::Relaxed) as usize
        });
        let what = if known { "was destroyed before" } else { "was not made by this library as one" };
        Error::bad_param(format!("the {} {handle:#x} {what}", self.name))
    }

    #[inline]
    fn take_slot(&self, record: &Record) -> Result<u32> {
        match record.spares(self.store).take() {
            Some(spare) => Ok(spare),
            None => self.take_stored_slot(record),
        }
    }

    fn take_stored_slot(&self, record: &Record) -> Result<u32> {
        let mut store = record.store(self.store);
        if store.is_empty() {
            self.refill(&mut store);
        }
        store.pop().ok_or_else(|| {
            let room = Self::CHUNK * CHUNKS;
            Error::alloc_failed(format!(
                "{room} objects of kind {} are alive, the most that are possible",
                self.name
            ))
        })
    }

    /// Moves a batch of adjacent free slots into `store`, so that each thread uses its own memory.
    #[cold]
    #[inline(never)]
    fn refill(&self, store: &mut Vec<u32>) {
        let mut free = self.free().lock();
        if free.indices.is_empty() {
            for _ in 0..BATCH {
                let index = free.next;
                let Some(chunk) = self.chunks.get(index as usize / Self::CHUNK) else { break };
                if chunk.load(Ordering::Relaxed).is_null() {
                    chunk.store(new_chunk(Self::CHUNK), Ordering::Release);
                }
                free.next += 1;
                store.push(index);
            }
            // Taken from the end: those side by side first, so that few pages are touched.
            store.reverse();
        } else {
            let keep = free.indices.len().saturating_sub(BATCH);
            store.extend(free.indices.drain(keep..));
        }
    }

    fn give_slot(&self, index: u32, slot: &Slot<T>, record: &Record) {
        // A slot whose generations are exhausted is never reused, so no handle becomes valid again.
        if slot.generation.load(Ordering::Relaxed) == u32::MAX {
            return;
        }
        if !record.spares(self.store).give(index) {
            self.store_slot(record, index);
        }
    }

    /// Returns half of a thread's free slots to the table.
    #[cold]
    #[inline(never)]
    fn give_batch(&self, store: &mut Vec<u32>) {
        self.free().lock().indices.extend(store.drain(BATCH..));
    }

    fn store_slot(&self, record: &Record, index: u32) {
        let mut store = record.store(self.store);
        if store.len() >= 2 * BATCH {
            self.give_batch(&mut store);
        }
        store.push(index);
    }
}

/// A chunk of empty slots. Their memory is zero as the system gives it, so that a process pays for those that it uses.
fn new_chunk<T>(count: usize) -> *mut Slot<T> {
    let empty = || Slot {
        handle: AtomicUsize::new(0),
        object: UnsafeCell::new(MaybeUninit::uninit()),
        owner: AtomicUsize::new(0),
        others: AtomicU64::new(0),
        generation: AtomicU32::new(0),
        lock: Lock::new(),
    };
    // SAFETY: zeros are as good as an empty slot: its object is not initialized, everything else, the open lock too, is 0.
    unsafe { leak_zeroed(count, empty) }
}

/// The number of tables: the library's two, and those of the tests.
pub const TABLES: usize = if cfg!(test) { 6 } else { 2 };

/// Handles that this thread has announced: their objects stay alive until this is dropped.
pub struct Using<const N: usize> {
    record: &'static Record,
    /// The handles' hazards in the record; those of nested calls from callbacks follow.
    hazards: &'static [AtomicUsize; N],
    depth: usize,
}

/// Announces handles, valid or not, and calls `f` to look them up. The only place that announces, so that announcements
/// end in reverse order.
#[inline(always)]
pub fn with_handles<const N: usize, R>(
    handles: [usize; N],
    f: impl FnOnce(&Using<N>) -> Result<R>,
) -> Result<R> {
    let record = Record::of_thread();
    let depth = record.depth.get();
    let Some(hazards) = record.hazards.get(depth..).and_then(|hazards| hazards.first_chunk()) else {
        return Err(Error::internal("calls from within callbacks are nested too deeply"));
    };
    for (hazard, handle) in hazards.iter().zip(handles) {
        // Release: a destroyer that finds this handle instead of the previous one may drop the previous object, and must see
        // the end of its use.
        hazard.store(handle, Ordering::Release);
    }
    // The announcement must be visible before the look-up, or a destroyer in between would miss it.
    fence(Ordering::SeqCst);
    record.depth.set(depth + N);
    f(&Using { record, hazards, depth })
}

impl<const N: usize> Using<N> {
    /// Looks up handle number `I` of those announced.
    #[inline(always)]
    pub fn find<const I: usize, T: Send + Sync>(&self, table: &Table<T>) -> Result<&T> {
        let slot = self.slot::<I, T>(table)?;
        // SAFETY: the handle was live after the announcement, so its object is dropped only after the hazard is cleared,
        // which happens when `self` is dropped.
        Ok(unsafe { (*slot.object.get()).assume_init_ref() })
    }

    /// The slot of handle number `I`, which is live.
    #[inline(always)]
    fn slot<'a, const I: usize, T: Send + Sync>(&self, table: &'a Table<T>) -> Result<&'a Slot<T>> {
        let place = const { if I < N { I } else { panic!("there are not as many handles") } };
        let handle = self.hazards.get(place).map_or(0, |hazard| hazard.load(Ordering::Relaxed));
        let slot = table.slot_of(handle).ok_or_else(|| table.dead(handle))?;
        if slot.handle.load(Ordering::SeqCst) != handle {
            return Err(table.dead(handle));
        }
        if slot.owner.load(Ordering::Relaxed) != self.record.number() {
            let group = self.record.group;
            if slot.others.load(Ordering::SeqCst) & group == 0 {
                slot.others.fetch_or(group, Ordering::SeqCst);
            }
            // A destroyer that did not see the bit has already cleared the handle.
            if slot.handle.load(Ordering::SeqCst) != handle {
                return Err(table.dead(handle));
            }
        }
        Ok(slot)
    }
}

impl<const N: usize> Drop for Using<N> {
    #[inline(always)]
    fn drop(&mut self) {
        for hazard in self.hazards {
            hazard.store(0, Ordering::Release);
        }
        self.record.depth.set(self.depth);
        bury_some();
    }
}

/// A non-zero number of this thread. Another thread may reuse it after this one has ended.
#[inline]
pub fn thread_number() -> usize {
    Record::of_thread().number()
}

/// Whether this thread is inside an execution, the only call that announces three handles; others announce at most one.
pub fn is_executing() -> bool {
    Record::of_thread().depth.get() >= 3
}

/// This thread's record.
pub fn thread_store() -> &'static Record {
    Record::of_thread()
}

/// Drops an object that was destroyed while in use.
type Burial = Box<dyn FnOnce() + Send>;

/// An object that was destroyed while in use.
pub struct Grave {
    handle: usize,
    lock: &'static Lock,
    burial: Burial,
}

/// The objects to drop later.
pub static GRAVEYARD: Mutex<Vec<Grave>> = Mutex::new(Vec::new());
static GRAVEYARD_HAS_SOME: AtomicBool = AtomicBool::new(false);

/// Drops unused objects, if there may be any.
#[inline(always)]
fn bury_some() {
    if GRAVEYARD_HAS_SOME.load(Ordering::Relaxed) {
        bury();
    }
}

/// Drops unused objects.
#[cold]
fn bury() {
    let unused: Vec<_> = {
        let Some(mut graveyard) = GRAVEYARD.try_lock() else { return };
        let is_used = |grave: &Grave| grave.lock.is_taken() || is_in_use(grave.handle, ALL);
        let (used, unused) = graveyard.drain(..).partition(is_used);
        *graveyard = used;
        GRAVEYARD_HAS_SOME.store(!graveyard.is_empty(), Ordering::SeqCst);
        unused
    };
    // After unlocking: dropping may call a plugin, which may call anything.
    for grave in unused {
        (grave.burial)();
    }
}

#[cfg(test)]
mod tests;
