//! Operands that a step still reads after it has begun to write its result.
//!
//! A result may share memory with, say, an operand added to a product. A kernel that first writes the product
//! there would overwrite the operand, so it reads a copy instead.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::Tensor;

use crate::kernel::{MAX_TENSORS, Part, Refusal};
use crate::layout::{Layout, Walk, storage_size};

/// Alignment of copies, in bytes.
const ALIGNMENT: usize = 64;

/// An operand of a step that may share the result's memory.
pub(super) struct Late {
    slot: usize,
    /// The slot of the result.
    result: usize,
    layout: Layout,
    /// Bytes of an element.
    size: usize,
    /// Bytes of a copy.
    bytes: usize,
}

/// The late operands of a part whose result has this uid.
pub(super) fn of(part: &Part, result: i64, tensors: &HashMap<i64, &Tensor>) -> Result<Box<[Late]>, Refusal> {
    let slot = part.tensors.iter().position(|uid| *uid == result);
    let (Some(place), Some(of_result)) = (slot.filter(|_| part.writes_early), tensors.get(&result)) else {
        return Ok(Box::default());
    };
    let mut late = Vec::new();
    // A normalization in place lists its result twice.
    for (slot, uid) in part.tensors.iter().enumerate().filter(|(_, uid)| **uid != result) {
        let Some(tensor) = tensors.get(uid) else { continue };
        let Some(size) = tensor.data_type.size() else { continue };
        if !tensor.is_virtual && tensor.value.is_none() && tensor.has_view_of(of_result) {
            let layout = Layout::of(tensor)?;
            let bytes = storage_size(tensor.data_type, layout.extent())?.next_multiple_of(ALIGNMENT);
            late.push(Late { slot, result: place, layout, size, bytes });
        }
    }
    Ok(late.into_boxed_slice())
}

/// Bytes for the copies of all late operands of a step.
pub(super) fn bytes(late: &[Late]) -> Result<usize, Refusal> {
    let sum = late.iter().try_fold(ALIGNMENT, |sum, late| sum.checked_add(late.bytes));
    sum.ok_or_else(|| "copies of its operands are too large".to_owned())
}

impl Late {
    /// Whether the operand and the result have the same address.
    #[inline]
    pub(super) fn meets(&self, tensors: &[*mut u8]) -> bool {
        tensors.get(self.slot) == tensors.get(self.result)
    }

    /// Copies the operand.
    ///
    /// # Safety
    /// `from` is valid for the tensor's extent, and `to` for as many bytes that overlap nothing.
    unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        if self.layout.elements() == self.layout.extent() {
            // SAFETY: without gaps the elements are all bytes of the extent.
            unsafe { to.copy_from_nonoverlapping(from, self.layout.extent() * self.size) };
            return;
        }
        // The gaps between elements may belong to others.
        for (_, [offset]) in Walk::new(self.layout.dims(), [self.layout.strides()]) {
            let at = offset * self.size;
            // SAFETY: this function requires all elements of the layout on both sides, and the walk yields only their
            // offsets.
            unsafe { to.add(at).copy_from_nonoverlapping(from.add(at), self.size) };
        }
    }
}

/// Copies operands that share the result's address to `memory`, and redirects their pointers to the copies.
///
/// # Safety
/// The pointers are those of the step's tensors, each valid for its extent, and `memory` is valid for
/// [`bytes`] bytes.
pub(super) unsafe fn copy(late: &[Late], pointers: &mut [*mut u8; MAX_TENSORS], memory: *mut u8) {
    let mut to = memory.wrapping_add(memory.addr().wrapping_neg() % ALIGNMENT);
    let before = *pointers;
    for operand in late.iter().filter(|operand| operand.meets(&before)) {
        if let Some(pointer) = pointers.get_mut(operand.slot) {
            // SAFETY: the operand is valid for its extent, and the memory has room for all copies in a row.
            unsafe { operand.copy(*pointer, to) };
            *pointer = to;
            to = to.wrapping_add(operand.bytes);
        }
    }
}
