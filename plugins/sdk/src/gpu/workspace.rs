//! The workspace of a plan in device memory.

use std::ffi::{c_int, c_void};

use crate::{PluginError, Refusal};

/// Alignment in bytes of what lies in a workspace, the same as device allocations have.
pub const ALIGNMENT: usize = 256;

/// Up to this size the plan owns its workspace and callers are asked for none. It suffices for rounding up
/// and a few rows; 1000 plans use 64 MB.
const SMALL: usize = 64 << 10;

/// Layout of a plan's workspace: virtual tensors from an aligned address, then the scratch memory of the
/// largest step. The caller's memory may begin at any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    virtuals: usize,
    size: usize,
}

impl Workspace {
    /// For this many bytes of virtual tensors and of step scratch memory.
    ///
    /// # Errors
    /// When the sum exceeds the address space.
    pub fn new(virtuals: usize, step: usize) -> Result<Self, Refusal> {
        let size = virtuals
            .checked_add(step)
            .and_then(|size| if size == 0 { Some(0) } else { size.checked_add(ALIGNMENT - 1) })
            .ok_or_else(|| Refusal::new("the workspace would be larger than the address space"))?;
        Ok(Self { virtuals, size })
    }

    /// Bytes that an execution needs, at any address.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes that callers are asked for: 0 if the plan owns them.
    pub fn asked(&self) -> usize {
        if self.size <= SMALL { 0 } else { self.size }
    }

    /// The addresses of the virtual tensors and of the step's scratch memory within this memory.
    #[inline]
    pub fn places(&self, memory: *mut c_void) -> [*mut c_void; 2] {
        let aligned = memory.wrapping_byte_add(memory.addr().wrapping_neg() % ALIGNMENT);
        [aligned, aligned.wrapping_byte_add(self.virtuals)]
    }
}

/// Checks that the handle works on the device that the plan was made on.
///
/// # Errors
/// When the handle works on another device.
#[inline]
pub fn same_device(plan: c_int, handle: c_int) -> Result<(), PluginError> {
    if plan == handle {
        return Ok(());
    }
    Err(PluginError::bad_param(format!(
        "the plan was made for device {plan} and the handle works on device {handle}, expected the same"
    )))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn scratch_memory_follows_the_virtual_tensors() {
        let workspace = Workspace::new(512, 100).unwrap();
        assert_eq!(workspace.size(), 512 + 100 + 255);
        for (address, aligned) in [(0x1000, 0x1000), (0x1001, 0x1100), (0x10ff, 0x1100)] {
            let [virtuals, step] = workspace.places(ptr::without_provenance_mut(address));
            assert_eq!((virtuals.addr(), step.addr()), (aligned, aligned + 512));
            assert!(step.addr() + 100 <= address + workspace.size());
        }
    }

    #[test]
    fn only_large_workspaces_are_requested() {
        let asked = |virtuals, step| {
            let workspace = Workspace::new(virtuals, step).unwrap();
            (workspace.size(), workspace.asked())
        };
        assert_eq!(asked(0, 0), (0, 0));
        assert_eq!(asked(0, 64), (319, 0));
        assert_eq!(asked(SMALL - 255, 0), (SMALL, 0));
        assert_eq!(asked(SMALL - 255, 1), (SMALL + 1, SMALL + 1));
    }

    #[test]
    fn sizes_beyond_the_address_space_are_refused() {
        for [virtuals, step] in [[usize::MAX, 1], [1, usize::MAX], [usize::MAX - 254, 0]] {
            let refusal = Workspace::new(virtuals, step).unwrap_err().to_string();
            assert!(refusal.contains("larger than the address space"), "{refusal}");
        }
    }

    #[test]
    fn a_plan_of_another_device_is_refused() {
        assert!(same_device(1, 1).is_ok());
        let error = same_device(0, 1).unwrap_err();
        assert!(
            error.message().starts_with("the plan was made for device 0 and the handle works on device 1")
        );
    }
}
