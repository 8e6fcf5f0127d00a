//! Memory for tensors between pages that nothing may touch. On a device that computes on the host's processor, an address that a kernel
//! reads or writes outside a tensor ends the process there.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use hipdnn_plugin_sdk::function_table;

use super::plugin;
use crate::Failure;

function_table! {
    /// The functions that make a program's memory a device's.
    #[expect(non_snake_case, reason = "the names of the header")]
    pub struct Functions: "memory of a program for Vulkan devices", ["libhipdnn_vulkan_plugin.so"] {
        required {
            fn hipdnnVulkanAddMemory_ext(number: i32, memory: *mut c_void, bytes: usize) -> c_int;
            fn hipdnnVulkanRemoveMemory_ext(number: i32, memory: *mut c_void) -> c_int;
            fn hipdnnVulkanSynchronize_ext(number: i32) -> c_int;
        }
        optional {}
    }
}

const PAGE: usize = 4096;

/// What plans align tensors to, at most. It may be between a tensor and the page after it.
const ALIGNMENT: usize = 16;

/// What the bytes between a tensor and a page have.
const UNTOUCHED: u8 = 0xa5;

/// The first device's memory, of which a kernel sees nothing but tensors.
pub struct Guards {
    functions: Functions,
}

/// Tensors of one execution.
pub struct Guarded<'a> {
    guards: &'a Guards,
    /// Whether tensors end where a page begins, rather than begin where one ends.
    at_end: bool,
    tensors: Vec<Tensor>,
}

struct Tensor {
    /// With a page before and after what can be used.
    pages: *mut u8,
    usable: usize,
    /// Where the bytes that belong to no tensor are.
    slack: std::ops::Range<usize>,
}

impl Guards {
    /// For the plugin beside a library.
    pub fn new(library: &Path) -> Result<Self, Failure> {
        let functions = Functions::load_from(&[&*plugin(library)?]);
        Ok(Self { functions: functions.map_err(|error| Failure(error.to_string()))? })
    }

    /// Memory for the tensors of an execution.
    pub fn memory(&self, at_end: bool) -> Guarded<'_> {
        Guarded { guards: self, at_end, tensors: Vec::new() }
    }

    /// Waits for the device.
    pub fn wait(&self) -> Result<(), Failure> {
        // SAFETY: the function takes a number.
        match unsafe { (self.functions.hipdnnVulkanSynchronize_ext)(0) } {
            0 => Ok(()),
            status => Err(Failure(format!("hipdnnVulkanSynchronize_ext: status {status}"))),
        }
    }
}

impl Guarded<'_> {
    /// Memory for a tensor.
    pub fn allocate(&mut self, bytes: usize) -> Result<*mut c_void, Failure> {
        let usable = bytes.max(1).next_multiple_of(PAGE);
        let (none, both) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the system chooses a place where nothing is.
        let pages = unsafe { libc::mmap(null_mut(), usable + 2 * PAGE, none, flags, -1, 0) };
        if pages == libc::MAP_FAILED {
            return Err(Failure(format!(
                "{usable} bytes between pages: {}",
                std::io::Error::last_os_error()
            )));
        }
        let pages = pages.cast::<u8>();
        let first = pages.wrapping_add(PAGE);
        let rounded = bytes.next_multiple_of(ALIGNMENT).min(usable);
        let (start, slack) = match self.at_end {
            true => (usable - rounded, usable - rounded + bytes..usable),
            false => (0, bytes..usable),
        };
        self.tensors.push(Tensor { pages, usable, slack });
        // SAFETY: the pages are this value's, and nothing uses them yet.
        let added = unsafe {
            if libc::mprotect(first.cast(), usable, both) != 0 {
                return Err(Failure(format!("mprotect: {}", std::io::Error::last_os_error())));
            }
            first.write_bytes(UNTOUCHED, usable);
            (self.guards.functions.hipdnnVulkanAddMemory_ext)(0, first.cast(), usable)
        };
        match added {
            0 => Ok(first.wrapping_add(start).cast()),
            status => Err(Failure(format!("hipdnnVulkanAddMemory_ext: status {status}"))),
        }
    }

    /// Checks that nothing was written beside the tensors. The device is done.
    pub fn check(&self) -> Result<(), Failure> {
        for tensor in &self.tensors {
            // SAFETY: the pages are this value's, and no work uses them.
            let all = unsafe { std::slice::from_raw_parts(tensor.pages.wrapping_add(PAGE), tensor.usable) };
            let beside = all.get(tensor.slack.clone()).unwrap_or_default();
            if let Some(place) = beside.iter().position(|byte| *byte != UNTOUCHED) {
                return Err(Failure(format!("a kernel wrote {place} bytes after the end of a tensor")));
            }
        }
        Ok(())
    }
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        for tensor in &self.tensors {
            // SAFETY: the functions take addresses; removing waits for the device, so nothing uses the pages, which are this value's.
            unsafe {
                let first = tensor.pages.wrapping_add(PAGE).cast();
                (self.guards.functions.hipdnnVulkanRemoveMemory_ext)(0, first);
                libc::munmap(tensor.pages.cast(), tensor.usable + 2 * PAGE);
            }
        }
    }
}
