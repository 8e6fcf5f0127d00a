//! Opaque handles: what C holds is a number, never a pointer that is dereferenced.
//!
//! A handle names a slot of a table and the generation of what lies in it, so one that is null, stale, destroyed twice or
//! made up is found out by comparing numbers. Reading takes no lock and writes to no memory that threads share: a thread
//! announces the handle it is about to use in a record of its own (a hazard), and whoever destroys an object looks through
//! the records first. An object that is in use by another thread while it is destroyed is dropped when that use has ended.
//! A call that changes an object takes a lock beside it instead: see `lock.rs`.
//!
//! Why that is sound: a user stores the hazard, fences, and loads the slot's handle; a destroyer clears the slot's handle and
//! loads the hazards; fence, load, clear and loads are sequentially consistent. Either the user's load comes after the clear,
//! and finds the handle dead, or its fence comes before the destroyer's loads, and these find the hazard or what was stored
//! there later. Hazards are only stored with release, so a destroyer that finds a later one also sees the end of the use
//! before it. A handle has its slot's generation and is never given out twice, so a slot that was filled anew is not taken
//! for the old one, and a slot is filled anew only after its object was dropped.
//!
//! A destroyer does not look through the records of all threads, only of those that have looked the handle up. A slot has the record of its
//! maker, and a bit for each group of others: whoever looks the handle up with another record first sets its group's bit, and then looks once
//! more whether the handle is live. Bit, look, clear and the destroyer's load of the bits are sequentially consistent. So either that second
//! look comes after the clear, and finds the handle dead, or the destroyer finds the bit and looks through the records of that group.

mod lock;
mod record;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

pub use self::lock::{Access, Taken};

use self::lock::Lock;
use self::record::{ALL, NO_SLOT, Record, is_in_use};
use crate::lock::Mutex;
use crate::status::{Error, Result};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, BATCH, CHUNK, Ordering, fence};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a handle packs a generation, an index and a tag into 64 bits");

/// Chunks in a table, which bounds the objects that live at one time to 4 million.
const CHUNKS: usize = 16_384;
/// Where the generation begins in a handle; below are the index and, in the lowest four bits, the table's tag.
const GENERATION_SHIFT: u32 = 32;

/// A place for one object. On cache lines of its own, so that making and ending one object does not slow down threads that
/// use its neighbour.
#[repr(C, align(64))]
struct Slot<T> {
    /// The handle of what lies here, 0 while nothing does that may be looked up.
    handle: AtomicUsize,
    /// The address of the maker's record.
    owner: AtomicUsize,
    /// The groups of the other records that were used to look the object up.
    others: AtomicU64,
    /// The generation of the last object here; only the thread that has taken the slot touches it.
    generation: AtomicU32,
    /// Taken by a call that has the object to itself.
    lock: Lock,
    /// Initialized from before `handle` is set until the last use of the object after it was cleared. Behind what every look-up
    /// reads, so that its beginning is on the same cache line.
    object: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the object is written and dropped only by the thread that has taken the slot, while no handle names it, no thread has announced
// one that did, and none has the lock; in between it is only shared.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

type Chunk<T> = [Slot<T>; CHUNK];

/// All objects of one kind.
pub struct Table<T: 'static> {
    /// What the object is called in messages.
    name: &'static str,
    tag: usize,
    /// Which of a thread's stores of free slots is this table's.
    store: usize,
    chunks: [AtomicPtr<Chunk<T>>; CHUNKS],
}

/// The slots of a table that no thread has taken.
pub struct Free {
    indices: Vec<u32>,
    /// The first slot that was never taken.
    next: u32,
}

impl Default for Free {
    /// No slot at all: what lies in which is not known.
    fn default() -> Self {
        Self { indices: Vec::new(), next: u32::MAX }
    }
}

/// For each table.
pub static FREE: [Mutex<Free>; TABLES] =
    [const { Mutex::new(Free { indices: Vec::new(), next: 0 }) }; TABLES];

impl<T: Send + Sync> Table<T> {
    /// An empty table. `tag` is odd and below 16; `store` is below [`TABLES`]; both are the table's alone.
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
        let chunk = self.chunks.get(index / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk that has been published is never freed.
        unsafe { chunk.as_ref() }?.get(index % CHUNK)
    }

    #[inline]
    fn slot_of(&self, handle: usize) -> Option<&Slot<T>> {
        if handle & 0xf != self.tag {
            return None;
        }
        self.slot((handle & 0xffff_ffff) >> 4)
    }

    /// Puts an object into the table and returns its handle.
    pub fn insert(&self, object: T) -> Result<usize> {
        self.insert_with(|| object)
    }

    /// Puts an object that `make` makes into the table and returns its handle. The object is made where it stays.
    #[inline(always)]
    pub fn insert_with(&self, make: impl FnOnce() -> T) -> Result<usize> {
        let record = Record::of_thread();
        let index = self.take_slot(record)?;
        let Some(slot) = self.slot(index as usize) else {
            return Err(Error::internal(format!("slot {index} of the {} table does not exist", self.name)));
        };
        let generation = slot.generation.load(Ordering::Relaxed) + 1;
        slot.generation.store(generation, Ordering::Relaxed);
        // SAFETY: this thread has taken the slot, and nothing lies in it.
        unsafe { (*slot.object.get()).write(make()) };
        slot.owner.store(record.number(), Ordering::Relaxed);
        // No other thread writes to a slot before its handle is there, except a bit that a user of a dead handle sets, which does no harm.
        if slot.others.load(Ordering::Relaxed) != 0 {
            slot.others.store(0, Ordering::Relaxed);
        }
        let handle = ((generation as usize) << GENERATION_SHIFT) | ((index as usize) << 4) | self.tag;
        slot.handle.store(handle, Ordering::Release);
        Ok(handle)
    }

    /// Takes an object out of the table; it is dropped now, or when the last call that uses it ends.
    pub fn remove(&'static self, handle: usize) -> Result<()> {
        let slot = self.slot_of(handle).ok_or_else(|| self.dead(handle))?;
        if slot.handle.compare_exchange(handle, 0, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Err(self.dead(handle));
        }
        let record = Record::of_thread();
        let is_own = slot.owner.load(Ordering::SeqCst) == record.number();
        let others = slot.others.load(Ordering::SeqCst);
        if slot.lock.is_taken()
            || record.uses(handle)
            || ((!is_own || others != 0) && self.has_users(handle, slot, others))
        {
            self.leave_to_users(handle, &slot.lock);
        } else {
            self.empty(handle, slot, record);
        }
        // A use that ended just before the object lay there did not see it.
        bury_some();
        Ok(())
    }

    /// Whether the maker's record or one of the groups in `others` has a handle that was cleared.
    #[cold]
    fn has_users(&self, handle: usize, slot: &Slot<T>, others: u64) -> bool {
        let owner: *const Record = ptr::with_exposed_provenance(slot.owner.load(Ordering::Relaxed));
        // SAFETY: records are never freed, and the one that made the object was put there before its handle was known.
        unsafe { owner.as_ref() }.is_some_and(|owner| owner.uses(handle)) || is_in_use(handle, others)
    }

    /// Has an object dropped when its last use ends. Out of line, as is what else takes a lock, so that the common path stays short.
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

    /// Drops the unused object of a cleared handle, and gives its slot back.
    fn empty(&self, handle: usize, slot: &Slot<T>, record: &Record) {
        // SAFETY: the call that cleared the handle, or the burial that it left this to, has the slot to itself.
        unsafe { (*slot.object.get()).assume_init_drop() };
        self.give_slot(((handle & 0xffff_ffff) >> 4) as u32, slot, record);
    }

    /// Looks a handle up and calls `f` with its object, which stays alive meanwhile.
    #[inline(always)]
    pub fn with<R>(&self, handle: usize, f: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        with_handles([handle], |using| f(using.find::<0, T>(self)?))
    }

    /// The same, with what it takes to have the object alone.
    #[inline(always)]
    pub fn with_access<R>(&self, handle: usize, f: impl FnOnce(&T, Access) -> Result<R>) -> Result<R> {
        with_handles([handle], |using| {
            let slot = using.slot::<0, T>(self)?;
            // SAFETY: `slot` has found the handle to be live.
            f(unsafe { (*slot.object.get()).assume_init_ref() }, Access::shared(&slot.lock))
        })
    }

    /// Looks a handle up and calls `f` with its object, which this call has to itself. Where another call has it, `f` gets it shared, and
    /// may wait for that call.
    #[inline(always)]
    pub fn alone<R>(&self, handle: usize, f: impl FnOnce(&T, Access) -> Result<R>) -> Result<R> {
        let slot = self.slot_of(handle).ok_or_else(|| self.dead(handle))?;
        let Some(taken) = slot.lock.take() else { return self.with_access_out_of_line(handle, f) };
        if slot.handle.load(Ordering::SeqCst) != handle {
            return Err(self.dead(handle));
        }
        // SAFETY: the handle was live after the lock was taken, so its object is dropped only after the lock is given back, which
        // happens when `taken` is dropped.
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

    /// How many objects are in the table.
    pub fn count(&self) -> usize {
        // SAFETY: a chunk that has been published is never freed.
        let chunks = self.chunks.iter().map_while(|chunk| unsafe { chunk.load(Ordering::Acquire).as_ref() });
        chunks.flatten().filter(|slot| slot.handle.load(Ordering::Acquire) != 0).count()
    }

    /// Says what is wrong with a handle that names no live object.
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
        match record.spare(self.store).replace(NO_SLOT) {
            NO_SLOT => self.take_stored_slot(record),
            spare => Ok(spare),
        }
    }

    fn take_stored_slot(&self, record: &Record) -> Result<u32> {
        let mut store = record.store(self.store);
        if store.is_empty() {
            self.refill(&mut store);
        }
        store.pop().ok_or_else(|| {
            let room = CHUNK * CHUNKS;
            Error::alloc_failed(format!(
                "{room} objects of kind {} are alive, and there is no room for more",
                self.name
            ))
        })
    }

    /// Moves a batch of free slots into `store`, neighbours so that a thread keeps to memory of its own.
    #[cold]
    #[inline(never)]
    fn refill(&self, store: &mut Vec<u32>) {
        let mut free = self.free().lock();
        if free.indices.is_empty() {
            for _ in 0..BATCH {
                let index = free.next;
                let Some(chunk) = self.chunks.get(index as usize / CHUNK) else { break };
                if chunk.load(Ordering::Relaxed).is_null() {
                    chunk.store(new_chunk(), Ordering::Release);
                }
                free.next += 1;
                store.push(index);
            }
        } else {
            let keep = free.indices.len().saturating_sub(BATCH);
            store.extend(free.indices.drain(keep..));
        }
    }

    fn give_slot(&self, index: u32, slot: &Slot<T>, record: &Record) {
        // A slot whose generations are used up is never given out again, so no handle comes back to life.
        if slot.generation.load(Ordering::Relaxed) == u32::MAX {
            return;
        }
        let displaced = record.spare(self.store).replace(index);
        if displaced != NO_SLOT {
            self.store_slot(record, displaced);
        }
    }

    /// Gives half of what a thread keeps to all.
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

fn new_chunk<T>() -> *mut Chunk<T> {
    let slots: Box<[Slot<T>]> = (0..CHUNK)
        .map(|_| Slot {
            handle: AtomicUsize::new(0),
            object: UnsafeCell::new(MaybeUninit::uninit()),
            owner: AtomicUsize::new(0),
            others: AtomicU64::new(0),
            generation: AtomicU32::new(0),
            lock: Lock::new(),
        })
        .collect();
    Box::into_raw(slots).cast()
}

/// How many tables there are: the library's two, and those of the tests.
pub const TABLES: usize = if cfg!(test) { 6 } else { 2 };

/// Handles that this thread has announced: what they name stays alive until this is dropped.
pub struct Using<const N: usize> {
    record: &'static Record,
    /// Where the handles stand in the record. Behind them stand those of calls from within callbacks.
    hazards: &'static [AtomicUsize; N],
    depth: usize,
}

/// Announces handles, whether or not they name anything, and calls `f` to look them up. Only here, so that what is announced
/// last ends first.
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
        // Released: whoever finds this handle here, and so not the one before, may drop what that one named, and must see
        // that its use is over.
        hazard.store(handle, Ordering::Release);
    }
    // The announcement must be visible before anything is looked up: a destroyer that looks in between would miss it.
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
            // A destroyer that did not see the bit has cleared the handle before.
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

/// A number that stands for this thread, not 0. Another thread may have it once this one has ended.
#[inline]
pub fn thread_number() -> usize {
    Record::of_thread().number()
}

/// Whether this thread is inside of an execution, the only call that announces three handles; calls that make something announce
/// one at most.
pub fn is_executing() -> bool {
    Record::of_thread().depth.get() >= 3
}

/// What this thread keeps.
pub fn thread_store() -> &'static Record {
    Record::of_thread()
}

/// What drops an object that was destroyed while in use.
type Burial = Box<dyn FnOnce() + Send>;

/// An object that was destroyed while in use.
pub struct Grave {
    handle: usize,
    lock: &'static Lock,
    burial: Burial,
}

/// What is to be dropped later.
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
    // After the lock is gone: what is dropped may call a plugin, and a plugin anything.
    for grave in unused {
        (grave.burial)();
    }
}

#[cfg(test)]
mod tests;
