//! Memory that is filled once with packed weights.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use hipdnn_plugin_sdk::os::memory::advise_large_pages;

/// The alignment of the memory: that of a cache line.
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its size and alignment matter")] [u8; 64]);

/// The size of a cache line.
pub(crate) const LINE: usize = size_of::<Line>();

/// The size of large pages. With pages of 4 KiB, the addresses of large weights exceed the TLB.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// The memory is empty.
const EMPTY: u8 = 0;

/// An execution is filling it.
const FILLING: u8 = 1;

/// It is complete and never changes again.
const FULL: u8 = 2;

/// The memory, its state, and whose weights it has.
pub(crate) struct Packed {
    /// Room for all bytes, or no room if the system refused it or weights are not prepacked.
    lines: Vec<MaybeUninit<Line>>,
    first: *mut u8,
    state: AtomicU8,
    /// The address of the packed weights, and what `fill` returned. Written before the state becomes FULL.
    source: AtomicPtr<u8>,
    note: AtomicBool,
}

// SAFETY: only the thread that set the state to FILLING, and those that share its work, write the memory; it
// is read only after the state is FULL, when it no longer changes.
unsafe impl Send for Packed {}

// SAFETY: only the thread that set the state to FILLING, and those that share its work, write the memory; it
// is read only after the state is FULL, when it no longer changes.
unsafe impl Sync for Packed {}

impl Packed {
    /// Memory of this many bytes at a multiple of an alignment, or none if memory is short.
    pub(crate) fn new([bytes, alignment]: [usize; 2]) -> Self {
        let mut lines: Vec<MaybeUninit<Line>> = Vec::new();
        // The bytes before that address are unused.
        let most = bytes.saturating_add(alignment - LINE);
        if lines.try_reserve_exact(most.div_ceil(LINE)).is_err() {
            lines = Vec::new();
        }
        let first: *mut u8 = lines.as_mut_ptr().cast();
        let first = first.map_addr(|address| address.next_multiple_of(alignment));
        if alignment >= LARGE_PAGE && lines.capacity() > 0 {
            advise_large_pages(first, bytes);
        }
        Self { first, ..Self::of(lines) }
    }

    /// No memory.
    pub(crate) fn none() -> Self {
        Self::of(Vec::new())
    }

    fn of(lines: Vec<MaybeUninit<Line>>) -> Self {
        let (state, source, note) = (AtomicU8::new(EMPTY), AtomicPtr::default(), AtomicBool::new(false));
        Self { lines, first: ptr::null_mut(), state, source, note }
    }

    /// Its bytes, with those before the first.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.capacity() * LINE
    }

    /// Its first byte.
    #[cfg(test)]
    pub(crate) fn first(&self) -> *mut u8 {
        self.first
    }

    /// The address after its last byte.
    #[cfg(test)]
    pub(crate) fn end(&self) -> usize {
        self.lines.as_ptr().addr() + self.bytes()
    }

    /// The packed weights of `source`, and what `fill` returned for them. Unless the memory has them already,
    /// calls `fill` with a destination: the memory if it is still empty, else `scratch`.
    pub(crate) fn get(
        &self,
        source: *mut u8,
        scratch: *mut u8,
        fill: impl FnOnce(*mut u8) -> bool,
    ) -> (*const u8, bool) {
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
        let begun = self.state.compare_exchange(EMPTY, FILLING, Ordering::Acquire, Ordering::Relaxed);
        if begun.is_err() {
            return (scratch, fill(scratch));
        }
        // A program that ends the execution unwinds through this.
        let filling = Filling(self);
        let note = fill(self.first);
        std::mem::forget(filling);
        self.note.store(note, Ordering::Relaxed);
        self.source.store(source, Ordering::Relaxed);
        self.state.store(FULL, Ordering::Release);
        (self.first, note)
    }
}

/// Empties the memory if an execution does not fill it to the end.
struct Filling<'a>(&'a Packed);

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.0.state.store(EMPTY, Ordering::Release);
    }
}
