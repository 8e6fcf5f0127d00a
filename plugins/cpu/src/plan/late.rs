//! Operands that a step reads after it has written its result.
//!
//! A result may be bound to the memory of an operand that is added to a product, say. A kernel that computes the product into the memory of
//! the result would find the product there and not the operand: then it reads a copy.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::Tensor;

use crate::kernel::{MAX_TENSORS, Part, Refusal};
use crate::layout::{Layout, Walk, storage_size};

/// Copies begin at multiples of this.
const ALIGNMENT: usize = 64;

/// An operand of a step that may have the place of the result.
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

/// Those of a part, whose result has this uid.
pub(super) fn of(part: &Part, result: i64, tensors: &HashMap<i64, &Tensor>) -> Result<Box<[Late]>, Refusal> {
    let slot = part.tensors.iter().position(|uid| *uid == result);
    let (Some(place), Some(of_result)) = (slot.filter(|_| part.writes_early), tensors.get(&result)) else {
        return Ok(Box::default());
    };
    let mut late = Vec::new();
    // A normalization in place has the result twice.
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

/// The bytes for copies of all of a step's.
pub(super) fn bytes(late: &[Late]) -> Result<usize, Refusal> {
    let sum = late.iter().try_fold(ALIGNMENT, |sum, late| sum.checked_add(late.bytes));
    sum.ok_or_else(|| "copies of its operands have too many bytes".to_owned())
}

impl Late {
    /// Whether the operand is where the result is.
    #[inline]
    pub(super) fn meets(&self, tensors: &[*mut u8]) -> bool {
        tensors.get(self.slot) == tensors.get(self.result)
    }

    /// Copies the operand.
    ///
    /// # Safety
    /// `from` is valid for the tensor's extent, and `to` for as many bytes of its own.
    unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        if self.layout.elements() == self.layout.extent() {
            // SAFETY: without gaps the elements are all bytes of the extent.
            unsafe { to.copy_from_nonoverlapping(from, self.layout.extent() * self.size) };
            return;
        }
        // What lies between the elements may be someone else's.
        for (_, [offset]) in Walk::new(self.layout.dims(), [self.layout.strides()]) {
            let at = offset * self.size;
            // SAFETY: the element is inside of the extent.
            unsafe { to.add(at).copy_from_nonoverlapping(from.add(at), self.size) };
        }
    }
}

/// Copies the operands that are where the result is to `memory`, and has their pointers lead there.
///
/// # Safety
/// The pointers are those of the step's tensors, each valid for its extent, and `memory` is valid for [`bytes`] of the operands.
pub(super) unsafe fn copy(late: &[Late], pointers: &mut [*mut u8; MAX_TENSORS], memory: *mut u8) {
    let mut to = memory.wrapping_add(memory.addr().wrapping_neg() % ALIGNMENT);
    let before = *pointers;
    for operand in late.iter().filter(|operand| operand.meets(&before)) {
        if let Some(pointer) = pointers.get_mut(operand.slot) {
            // SAFETY: the operand is valid for its extent, and the memory has room for all copies, one behind the other.
            unsafe { operand.copy(*pointer, to) };
            *pointer = to;
            to = to.wrapping_add(operand.bytes);
        }
    }
}
