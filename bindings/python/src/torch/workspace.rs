//! Workspaces: host memory is kept for the next call, GPU memory comes from PyTorch.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr;

use super::arguments::CPU;
use super::functions::{Functions, RawTensor};
use super::owned::memory;
use crate::forks::Lock;

/// The most bytes kept between calls, for all threads together.
const KEPT: usize = 96 << 20;

/// The largest vector registers have 64 bytes; pages are larger.
const ALIGNMENT: usize = 256;

/// Idle host memory.
#[derive(Default)]
struct Idle {
    kept: Vec<Host>,
    bytes: usize,
}

static IDLE: std::sync::LazyLock<Lock<Idle>> = std::sync::LazyLock::new(Lock::default);

/// Host memory.
struct Host {
    address: *mut u8,
    layout: Layout,
}

// SAFETY: the memory is this object's own.
unsafe impl Send for Host {}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.address, self.layout) };
    }
}

/// Memory for one execution.
pub enum Workspace<'a> {
    Nothing,
    Host(HostWorkspace),
    /// PyTorch's memory, which it keeps for work queued on the stream.
    Tensor(&'a Functions, RawTensor, *mut c_void),
}

/// Host memory for one execution, kept afterwards.
pub struct HostWorkspace(Option<Host>);

impl<'a> Workspace<'a> {
    pub fn new(f: &'a Functions, bytes: usize, device: (i32, i32)) -> Option<Self> {
        if bytes == 0 {
            return Some(Self::Nothing);
        }
        if device.0 != CPU {
            let (tensor, data) = memory(f, bytes, device)?;
            return Some(Self::Tensor(f, tensor, data));
        }
        let taken = {
            let mut idle = IDLE.lock();
            let fits = |of: &Host| of.layout.size() >= bytes;
            let best = (0..idle.kept.len())
                .filter(|at| idle.kept.get(*at).is_some_and(fits))
                .min_by_key(|at| idle.kept.get(*at).map_or(usize::MAX, |of| of.layout.size()));
            let taken = best.map(|at| idle.kept.swap_remove(at));
            idle.bytes -= taken.as_ref().map_or(0, |of| of.layout.size());
            taken
        };
        if taken.is_some() {
            return Some(Self::Host(HostWorkspace(taken)));
        }
        let layout = Layout::from_size_align(bytes.next_power_of_two(), ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let address = unsafe { alloc(layout) };
        (!address.is_null()).then_some(Self::Host(HostWorkspace(Some(Host { address, layout }))))
    }

    pub fn address(&self) -> *mut c_void {
        match self {
            Self::Nothing => ptr::null_mut(),
            Self::Host(of) => of.0.as_ref().map_or(ptr::null_mut(), |host| host.address.cast()),
            Self::Tensor(_, _, data) => *data,
        }
    }

    /// Keeps the memory for later calls, if there is room.
    pub fn done(&mut self) {
        let Self::Host(of) = self else { return };
        let Some(host) = of.0.take() else { return };
        let mut gone = Vec::new();
        let mut idle = IDLE.lock();
        if host.layout.size() <= KEPT {
            // The largest memory fits every call.
            while idle.bytes + host.layout.size() > KEPT && !idle.kept.is_empty() {
                let smallest = (0..idle.kept.len())
                    .min_by_key(|at| idle.kept.get(*at).map_or(0, |of| of.layout.size()))
                    .unwrap_or(0);
                let dropped = idle.kept.swap_remove(smallest);
                idle.bytes -= dropped.layout.size();
                gone.push(dropped);
            }
            idle.bytes += host.layout.size();
            idle.kept.push(host);
        } else {
            gone.push(host);
        }
        drop(idle);
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        if let Self::Tensor(f, tensor, _) = self {
            // SAFETY: the tensor belongs to this object. A failure cannot be handled.
            unsafe { (f.delete_tensor)(*tensor) };
        }
    }
}

/// Frees the kept memory.
pub fn clear() {
    let kept = std::mem::take(&mut *IDLE.lock());
    drop(kept);
}
