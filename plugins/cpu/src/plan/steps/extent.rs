//! The memory of a step's tensors, to detect indices that the step would overwrite.

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_sdk::graph::{DataType, Tensor};

use crate::kernel::Refusal;
use crate::layout::{Layout, storage_size};

/// The memory range of a tensor of a step.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) uid: i64,
    /// Its slot among the tensors of the step.
    pub(super) slot: usize,
    /// Its size in bytes.
    pub(super) size: usize,
    /// Its end if its sequences end earlier.
    end: Option<RaggedEnd>,
}

/// The last offset of a ragged tensor, of which only the memory of its sequences need be bound.
#[derive(Clone, Copy)]
struct RaggedEnd {
    /// The slot of the offsets among the tensors of the step.
    slot: usize,
    /// The byte position of the last offset.
    at: usize,
    is_wide: bool,
    /// Bytes per unit of an offset.
    unit: usize,
}

impl Extent {
    /// The extents of those tensors of the step that are in `among`.
    pub(super) fn of(
        step: &[i64],
        among: &HashSet<i64>,
        tensors: &HashMap<i64, &Tensor>,
    ) -> Result<Box<[Self]>, Refusal> {
        let mut extents = Vec::new();
        for (index, uid) in step.iter().enumerate().filter(|(_, uid)| among.contains(uid)) {
            let Some(tensor) = tensors.get(uid) else { continue };
            let size = storage_size(tensor.data_type, Layout::of(tensor)?.extent())?;
            extents.push(Self { uid: *uid, slot: index, size, end: RaggedEnd::of(tensor, step, tensors)? });
        }
        Ok(extents.into_boxed_slice())
    }

    /// The tensor's address and size in this execution. If offsets are out of range, the whole tensor.
    fn memory(&self, tensors: &[*mut u8]) -> Option<(*mut u8, usize)> {
        let end = self.end.as_ref().and_then(|end| end.bytes(tensors));
        Some((*tensors.get(self.slot)?, end.map_or(self.size, |end| end.min(self.size))))
    }

    /// Whether it overlaps another tensor.
    pub(super) fn meets(&self, other: &Self, tensors: &[*mut u8]) -> bool {
        other.memory(tensors).is_some_and(|other| self.lies_in(other, tensors))
    }

    /// Whether it overlaps this memory.
    pub(super) fn lies_in(&self, (other, other_size): (*mut u8, usize), tensors: &[*mut u8]) -> bool {
        self.memory(tensors).is_some_and(|(own, size)| {
            own.addr() < other.addr().saturating_add(other_size)
                && other.addr() < own.addr().saturating_add(size)
        })
    }
}

impl RaggedEnd {
    fn of(tensor: &Tensor, step: &[i64], tensors: &HashMap<i64, &Tensor>) -> Result<Option<Self>, Refusal> {
        let Some(uid) = tensor.ragged_offset_uid else { return Ok(None) };
        let index = step.iter().position(|of_step| *of_step == uid);
        let (Some(index), Some(offsets)) = (index, tensors.get(&uid)) else { return Ok(None) };
        let is_wide = match offsets.data_type {
            DataType::Int64 => true,
            DataType::Int32 => false,
            _ => return Ok(None),
        };
        let last = Layout::of(offsets)?.extent().checked_sub(1);
        let multiplier = usize::try_from(tensor.ragged_offset_multiplier).ok();
        let (Some(last), Some(multiplier)) = (last, multiplier) else { return Ok(None) };
        let at = storage_size(offsets.data_type, last)?;
        Ok(Some(Self { slot: index, at, is_wide, unit: storage_size(tensor.data_type, multiplier)? }))
    }

    fn bytes(&self, tensors: &[*mut u8]) -> Option<usize> {
        let last = tensors.get(self.slot)?.wrapping_add(self.at);
        // SAFETY: whoever binds the offsets guarantees their extent, and this is the last element.
        let last = unsafe {
            match self.is_wide {
                true => last.cast::<i64>().read_unaligned(),
                false => i64::from(last.cast::<i32>().read_unaligned()),
            }
        };
        usize::try_from(last).ok()?.checked_mul(self.unit)
    }
}
