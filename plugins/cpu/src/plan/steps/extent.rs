//! Which memory a step's tensors take, to see whether indices lie where it writes.

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_sdk::graph::{DataType, Tensor};

use crate::kernel::Refusal;
use crate::layout::{Layout, storage_size};

/// The memory of a tensor of a step.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) uid: i64,
    /// Its slot among the tensors of the step.
    pub(super) slot: usize,
    /// Its bytes.
    pub(super) size: usize,
    /// Where its sequences end before that.
    end: Option<RaggedEnd>,
}

/// The last offset of a ragged tensor. Only memory for its sequences need be bound to one.
#[derive(Clone, Copy)]
struct RaggedEnd {
    /// The slot of the offsets among the tensors of the step.
    slot: usize,
    /// Where the last offset lies, in bytes.
    at: usize,
    is_wide: bool,
    /// Bytes that an offset counts.
    unit: usize,
}

impl Extent {
    /// Those of the step's tensors that are among some.
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

    /// The tensor's memory in an execution with these tensors, and its bytes. Offsets out of range count as all of it.
    fn memory(&self, tensors: &[*mut u8]) -> Option<(*mut u8, usize)> {
        let end = self.end.as_ref().and_then(|end| end.bytes(tensors));
        Some((*tensors.get(self.slot)?, end.map_or(self.size, |end| end.min(self.size))))
    }

    /// Whether it shares memory with another tensor.
    pub(super) fn meets(&self, other: &Self, tensors: &[*mut u8]) -> bool {
        other.memory(tensors).is_some_and(|other| self.lies_in(other, tensors))
    }

    /// Whether it shares memory with so many bytes.
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
        // SAFETY: the offsets' memory has the tensor's extent, as everyone who binds it makes sure, and this is the last element.
        let last = unsafe {
            match self.is_wide {
                true => last.cast::<i64>().read_unaligned(),
                false => i64::from(last.cast::<i32>().read_unaligned()),
            }
        };
        usize::try_from(last).ok()?.checked_mul(self.unit)
    }
}
