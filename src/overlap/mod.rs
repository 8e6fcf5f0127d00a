//! Detects tensors of an execution that overlap in memory.
//!
//! A written tensor that overlaps another one is an error of the program and would silently give wrong results. The first execution of
//! a plan with a pack compares the address ranges of its tensors, in less than a nanosecond each. If ranges overlap, [`Sharing`]
//! decides: interleaved tensors do not share an element, and an operation that computes each element from the same one may
//! write in place. Undecidable cases pass.

mod lattice;
mod structure;

pub use structure::Sharing;

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t as DeviceBuffer;
use hipdnn_plugin_sdk::wire::{Span, TensorSummary};
use smallvec::SmallVec;

use self::structure::{Known, View};

/// Two tensors that illegally share an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash {
    /// The written tensor.
    pub written: i64,
    /// The other tensor.
    pub other: i64,
    /// Whether the other tensor is also written.
    pub is_other_written: bool,
}

/// The most tensors compared on the stack; few graphs have more.
const MOST: usize = 64;

/// Up to so many tensors, and overridden layouts, are checked closely without allocating.
const USUAL: usize = 16;

/// The address range of a tensor's elements; empty if unknown.
#[derive(Clone, Copy)]
struct Range {
    begin: usize,
    end: usize,
}

impl Range {
    const EMPTY: Self = Self { begin: usize::MAX, end: 0 };

    #[inline(always)]
    fn of(span: Span, address: usize) -> Self {
        let at = |offset: i64| address.wrapping_add(offset as usize);
        Self { begin: at(span.begin), end: at(span.end) }
    }

    #[inline(always)]
    fn meets(&self, other: &Self) -> bool {
        (self.begin < other.end) & (other.begin < self.end)
    }
}

/// The tensor with this uid and its index: most likely the buffer's own, or that after or before `last`, as packs usually bind in
/// the graph's order or its reverse.
#[inline(always)]
fn find(tensors: &[TensorSummary], uid: i64, place: usize, last: usize) -> Option<(usize, &TensorSummary)> {
    match tensors.get(place) {
        Some(tensor) if tensor.uid == uid => Some((place, tensor)),
        _ => find_elsewhere(tensors, uid, last),
    }
}

#[inline]
fn find_elsewhere(tensors: &[TensorSummary], uid: i64, last: usize) -> Option<(usize, &TensorSummary)> {
    for place in [last.wrapping_add(1), last.wrapping_sub(1)] {
        if let Some(tensor) = tensors.get(place).filter(|tensor| tensor.uid == uid) {
            return Some((place, tensor));
        }
    }
    tensors.iter().enumerate().find(|(_, tensor)| tensor.uid == uid)
}

/// Whether a written tensor's bytes may overlap another tensor's. Also true if that is expensive to decide.
#[inline]
pub fn may_meet(tensors: &[TensorSummary], buffers: &[DeviceBuffer]) -> bool {
    match buffers.len() {
        0 | 1 => false,
        2 => few_meet::<2>(tensors, buffers),
        3 => few_meet::<3>(tensors, buffers),
        _ => many_may_meet(tensors, buffers),
    }
}

#[inline(never)]
fn many_may_meet(tensors: &[TensorSummary], buffers: &[DeviceBuffer]) -> bool {
    match buffers.len().max(tensors.len()) {
        0..=8 => many_meet::<8>(tensors, buffers),
        9..=16 => many_meet::<16>(tensors, buffers),
        17..=MOST => many_meet::<MOST>(tensors, buffers),
        _ => true,
    }
}

/// Compares every pair without a branch.
#[inline(always)]
fn few_meet<const N: usize>(tensors: &[TensorSummary], buffers: &[DeviceBuffer]) -> bool {
    let Some(buffers) = buffers.first_chunk::<N>() else { return false };
    let mut place = 0;
    let found: [(Range, bool); N] = buffers.each_ref().map(|buffer| {
        let tensor = find(tensors, buffer.uid, place, usize::MAX);
        place += 1;
        match tensor {
            Some((_, tensor)) => (Range::of(tensor.span, buffer.ptr.addr()), tensor.is_written),
            None => (Range::EMPTY, false),
        }
    });
    let mut met = false;
    for (place, (range, is_written)) in found.iter().enumerate() {
        for (other, is_other_written) in found.iter().skip(place + 1) {
            met |= (is_written | is_other_written) & range.meets(other);
        }
    }
    met
}

#[inline(always)]
fn many_meet<const N: usize>(tensors: &[TensorSummary], buffers: &[DeviceBuffer]) -> bool {
    let mut ranges = [Range::EMPTY; N];
    let mut written = 0_u64;
    let mut last = usize::MAX;
    for (place, (buffer, range)) in buffers.iter().zip(&mut ranges).enumerate() {
        if let Some((found, tensor)) = find(tensors, buffer.uid, place, last) {
            *range = Range::of(tensor.span, buffer.ptr.addr());
            written |= u64::from(tensor.is_written) << place;
            last = found;
        }
    }
    let ranges = ranges.get(..buffers.len()).unwrap_or(&ranges);
    let mut met = false;
    while written != 0 {
        let own = ranges.get(written.trailing_zeros() as usize).copied().unwrap_or(Range::EMPTY);
        written &= written - 1;
        // One is the overlap with itself.
        met |= ranges.iter().map(|range| usize::from(own.meets(range))).sum::<usize>() > 1;
    }
    met
}

/// The first two tensors that illegally share an element. `layouts` are override sizes and strides of this execution; each such
/// execution comes here, so it does not allocate for usual numbers of tensors.
#[cold]
pub fn clash<'a>(
    sharing: &Sharing,
    buffers: &[DeviceBuffer],
    layouts: impl Iterator<Item = (i64, &'a [i64], &'a [i64])>,
) -> Option<Clash> {
    let layouts: SmallVec<[(i64, View); USUAL]> = layouts
        .filter_map(|(uid, dims, strides)| Some((uid, sharing.tensor(uid)?.view.with_layout(dims, strides))))
        .collect();
    let mut bound: SmallVec<[Bound<'_>; USUAL]> = SmallVec::new();
    for buffer in buffers.iter().filter(|buffer| !buffer.ptr.is_null()) {
        let Some(tensor) = sharing.tensor(buffer.uid) else { continue };
        let other = layouts.iter().find(|(uid, _)| *uid == buffer.uid).map(|(_, view)| view);
        let view = other.unwrap_or(&tensor.view);
        let Some(span) = view.span() else { continue };
        let address = buffer.ptr.addr();
        bound.push(Bound { uid: buffer.uid, address, range: Range::of(span, address), tensor, view });
    }
    // After sorting, a tensor can only overlap those that begin before it ends.
    bound.sort_unstable_by_key(|one| (one.range.begin, one.uid));
    for (place, one) in bound.iter().enumerate() {
        let behind = bound.iter().skip(place + 1).take_while(|other| other.range.begin < one.range.end);
        for other in behind {
            if let Some(clash) = judge(sharing, one, other) {
                return Some(clash);
            }
        }
    }
    None
}

/// A tensor and its memory.
struct Bound<'a> {
    uid: i64,
    address: usize,
    range: Range,
    tensor: &'a Known,
    view: &'a View,
}

fn judge(sharing: &Sharing, one: &Bound<'_>, other: &Bound<'_>) -> Option<Clash> {
    let (written, other) = if one.tensor.is_written { (one, other) } else { (other, one) };
    let is_other_written = other.tensor.is_written;
    if written.uid == other.uid || !written.tensor.is_written || !(is_other_written || other.tensor.is_read) {
        return None;
    }
    let distance = (other.address as i64).wrapping_sub(written.address as i64);
    let is_in_place = distance == 0
        && !is_other_written
        && sharing.may_be_in_place(written.uid, other.uid)
        && written.view.is_same(other.view);
    if is_in_place || !lattice::share(written.view, other.view, distance) {
        return None;
    }
    Some(Clash { written: written.uid, other: other.uid, is_other_written })
}

#[cfg(test)]
mod tests;
