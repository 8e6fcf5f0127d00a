//! Memory of Vulkan devices: the functions of `hipdnn_vulkan.h`, which the plugin of `VULKAN_ENGINE` exports.
//!
//! The plugin knows which addresses are its memory, so they come from the file that the library has loaded.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use crate::dynlib::Error;
use crate::dynlib::loaded::{Table, table_of_loaded};
use crate::ffi::{
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, HIPDNN_PLUGIN_STATUS_BAD_PARAM, HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED,
};
use crate::lock::Mutex;
use crate::os::library;
use crate::{PluginError, function_table, objects};

function_table! {
    /// The functions of `hipdnn_vulkan.h` for memory that the plugin allocates.
    #[expect(non_snake_case, reason = "the names of the header")]
    pub struct Vulkan: "memory of Vulkan devices", ["libhipdnn_vulkan_plugin.so"] {
        required {
            /// The number of devices.
            fn hipdnnVulkanGetDeviceCount_ext(count: *mut i32) -> c_int;
            /// Describes a device.
            fn hipdnnVulkanGetDevice_ext(number: i32, device: *mut DeviceInfo) -> c_int;
            /// Makes a device the one of handles that have none yet.
            fn hipdnnVulkanChooseDevice_ext(number: i32) -> c_int;
            /// Allocates device memory.
            fn hipdnnVulkanAllocate_ext(number: i32, bytes: usize, memory: *mut *mut c_void) -> c_int;
            /// Frees it when the device's work is done.
            fn hipdnnVulkanFree_ext(number: i32, memory: *mut c_void) -> c_int;
            /// Copies from the host.
            fn hipdnnVulkanCopyToDevice_ext(number: i32, to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
            /// Copies to the host.
            fn hipdnnVulkanCopyToHost_ext(number: i32, to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
            /// Copies on the device.
            fn hipdnnVulkanCopy_ext(number: i32, to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
            /// Waits for the device's work.
            fn hipdnnVulkanSynchronize_ext(number: i32) -> c_int;
            /// The device whose memory has an address, or -1.
            fn hipdnnVulkanFindDevice_ext(memory: *const c_void, number: *mut i32) -> c_int;
            /// The reason of this thread's last failure.
            fn hipdnnVulkanGetLastError_ext(text: *mut c_char, size: usize);
        }
        optional {}
    }
}

/// The name of the plugin's file without what systems add to it.
const STEM: &str = "hipdnn_vulkan_plugin";

/// `hipdnnVulkanDevice`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header describes them")]
pub struct DeviceInfo {
    pub name: [c_char; 256],
    pub uuid: [u8; 16],
    pub kind: i32,
    pub major_version: u32,
    pub minor_version: u32,
    pub subgroup: u32,
    pub shares_memory: i32,
    pub is_usable: i32,
    pub memory_bytes: u64,
}

impl DeviceInfo {
    /// A device without properties, for a function to fill.
    pub const fn empty() -> Self {
        Self {
            name: [0; 256],
            uuid: [0; 16],
            kind: 0,
            major_version: 0,
            minor_version: 0,
            subgroup: 0,
            shares_memory: 0,
            is_usable: 0,
            memory_bytes: 0,
        }
    }

    /// The name as text.
    pub fn name(&self) -> String {
        let bytes = self.name.map(|byte| byte as u8);
        CStr::from_bytes_until_nul(&bytes).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Vulkan {
    /// The functions of the plugin at this path; the same for the life of the process.
    ///
    /// # Errors
    /// Why the file cannot be opened, or which functions it lacks.
    pub fn of(file: &Path) -> Result<&'static Self, PluginError> {
        static KNOWN: Mutex<Vec<(String, &'static Vulkan)>> = Mutex::new(Vec::new());
        let name = file.to_string_lossy();
        let find = || KNOWN.lock().iter().find(|(known, _)| *known == name).map(|(_, vulkan)| *vulkan);
        if let Some(known) = find() {
            return Ok(known);
        }
        let opened: &'static Self = Box::leak(Box::new(Self::load_from(&[&*name])?));
        KNOWN.lock().push((name.into_owned(), opened));
        Ok(opened)
    }

    /// The functions of the plugin that the process has loaded, if it has. Loads nothing.
    pub fn loaded() -> Option<&'static Self> {
        static LOADED: Table<Vulkan> = Table::new();
        table_of_loaded(&LOADED, Self::LIBRARIES, |candidate| {
            let name = CString::new(&*library::vendor_name(candidate.file)).unwrap_or_default();
            // The loader finds a library again by the path that it was loaded from only.
            let find = |object: objects::Object<'_>| {
                object.is_named(&name).then(|| object.function(c"hipdnnVulkanFindDevice_ext"))
            };
            let function = objects::find(find).flatten();
            let file = function.and_then(|function| library::file_of(function.cast()));
            match file {
                Some(file) => Self::load_from(&[&*file.to_string_lossy()]),
                None => Err(Error(format!("{} does not find devices of memory", candidate.file))),
            }
        })
    }

    /// The device whose memory has this address, allocated or named by the program. The address may be any.
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "the function compares addresses and reads none")]
    pub fn device_of(&'static self, pointer: *const c_void) -> Option<Device> {
        let mut number = -1;
        // SAFETY: the function writes only to the local `number`, and any address is fine.
        let status = unsafe { (self.hipdnnVulkanFindDevice_ext)(pointer, &mut number) };
        (status == 0 && number >= 0).then_some(Device { vulkan: self, number })
    }

    /// Whether a plugin's file is the one that has these functions, by its name.
    pub fn is_plugin(file: &Path) -> bool {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        stem.strip_prefix("lib").unwrap_or(&stem) == STEM
    }

    /// An error with this status's meaning and the plugin's reason.
    #[cold]
    fn error(&self, status: c_int) -> PluginError {
        let mut text = [0 as c_char; 1024];
        // SAFETY: the buffer has the given size, and one character stays NUL.
        unsafe { (self.hipdnnVulkanGetLastError_ext)(text.as_mut_ptr(), text.len() - 1) };
        // SAFETY: the last character is NUL.
        let reason = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
        match status {
            status if status == HIPDNN_PLUGIN_STATUS_ALLOC_FAILED as c_int => {
                PluginError::alloc_failed(reason)
            }
            status if status == HIPDNN_PLUGIN_STATUS_BAD_PARAM as c_int => PluginError::bad_param(reason),
            status if status == HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED as c_int => {
                PluginError::not_initialized(reason)
            }
            _ => PluginError::internal(reason),
        }
    }

    fn check(&self, status: c_int) -> Result<(), PluginError> {
        if status == 0 { Ok(()) } else { Err(self.error(status)) }
    }

    /// The devices, in the order of their numbers.
    ///
    /// # Errors
    /// Why there is no Vulkan.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>, PluginError> {
        let mut count = 0;
        // SAFETY: the function writes only to the local `count`.
        self.check(unsafe { (self.hipdnnVulkanGetDeviceCount_ext)(&mut count) })?;
        let describe = |number| {
            let mut info = DeviceInfo::empty();
            // SAFETY: the function writes only to the local `info`, whose layout is the header's.
            self.check(unsafe { (self.hipdnnVulkanGetDevice_ext)(number, &mut info) })?;
            Ok(info)
        };
        (0..count).map(describe).collect()
    }
}

/// A Vulkan device, by its number. Its work and copies run in the order in which they were started.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// The plugin's functions.
    pub vulkan: &'static Vulkan,
    /// Its number.
    pub number: i32,
}

impl Device {
    /// Opens a device, which handles that have not planned yet compute on.
    ///
    /// # Errors
    /// Why there is no such device, or it cannot be used.
    pub fn choose(vulkan: &'static Vulkan, number: i32) -> Result<Self, PluginError> {
        // SAFETY: the function refuses numbers that no device has.
        vulkan.check(unsafe { (vulkan.hipdnnVulkanChooseDevice_ext)(number) })?;
        Ok(Self { vulkan, number })
    }

    /// Allocates device memory.
    ///
    /// # Errors
    /// The plugin's.
    pub fn allocate(&self, bytes: usize) -> Result<*mut c_void, PluginError> {
        let mut memory = std::ptr::null_mut();
        let allocate = self.vulkan.hipdnnVulkanAllocate_ext;
        // SAFETY: the function writes only to the local `memory`.
        self.vulkan.check(unsafe { allocate(self.number, bytes, &mut memory) })?;
        Ok(memory)
    }

    /// Frees device memory when the device's work is done. Failures are ignored.
    ///
    /// # Safety
    /// The memory is from [`Device::allocate`] and not freed.
    pub unsafe fn free(&self, memory: *mut c_void) {
        // SAFETY: the plugin looks the address up, and this is the memory's last use, as this function requires.
        unsafe { (self.vulkan.hipdnnVulkanFree_ext)(self.number, memory) };
    }

    /// Copies bytes to the device and waits. The plugin looks the address up, and refuses those that are not its memory.
    ///
    /// # Errors
    /// The plugin's.
    pub fn upload(&self, to: usize, from: &[u8]) -> Result<(), PluginError> {
        let copy = self.vulkan.hipdnnVulkanCopyToDevice_ext;
        // SAFETY: the slice has these bytes, and the plugin looks the other address up.
        self.vulkan.check(unsafe {
            copy(self.number, with_exposed_provenance_mut(to), from.as_ptr().cast(), from.len())
        })
    }

    /// Copies bytes from the device after its earlier work. The plugin looks the address up, and refuses those that are not its memory.
    ///
    /// # Errors
    /// The plugin's.
    pub fn download(&self, to: &mut [u8], from: usize) -> Result<(), PluginError> {
        let copy = self.vulkan.hipdnnVulkanCopyToHost_ext;
        // SAFETY: the slice has room for these bytes, and the plugin looks the other address up.
        self.vulkan.check(unsafe {
            copy(self.number, to.as_mut_ptr().cast(), with_exposed_provenance(from), to.len())
        })
    }

    /// Refuses an address that is not this device's memory.
    ///
    /// # Errors
    /// The address, and what was expected.
    pub fn check_address(&self, address: usize) -> Result<(), PluginError> {
        self.download(&mut [], address)
    }

    /// Copies bytes on the device after its earlier work. May return before the copy is done.
    ///
    /// # Errors
    /// The plugin's.
    ///
    /// # Safety
    /// The `bytes` bytes at `to` and at `from` do not overlap.
    pub unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize) -> Result<(), PluginError> {
        let copy = self.vulkan.hipdnnVulkanCopy_ext;
        // SAFETY: the plugin looks both addresses up, and they do not overlap, as this function requires.
        self.vulkan.check(unsafe { copy(self.number, to, from, bytes) })
    }

    /// Waits for the device's work.
    ///
    /// # Errors
    /// The plugin's, including those of the work.
    pub fn synchronize(&self) -> Result<(), PluginError> {
        // SAFETY: the function refuses numbers that no device has.
        self.vulkan.check(unsafe { (self.vulkan.hipdnnVulkanSynchronize_ext)(self.number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_the_plugin_is_refused_with_what_it_lacks() {
        let name = crate::os::library::vendor_name("libm.so.6");
        let error = Vulkan::of(Path::new(&*name)).err().unwrap();
        assert!(error.message().contains("it lacks hipdnnVulkanGetDeviceCount_ext"), "{error}");
        let error = Vulkan::of(Path::new("/no/such/libhipdnn_vulkan_plugin.so")).err().unwrap();
        assert!(error.message().contains("/no/such/libhipdnn_vulkan_plugin.so"), "{error}");
    }

    #[test]
    fn the_plugin_is_known_by_its_file_name() {
        assert!(Vulkan::is_plugin(Path::new("/lib/hipdnn_plugins/engines/libhipdnn_vulkan_plugin.so")));
        assert!(Vulkan::is_plugin(Path::new("hipdnn_vulkan_plugin.dll")));
        assert!(!Vulkan::is_plugin(Path::new("/lib/hipdnn_plugins/engines/libhipdnn_cpu_plugin.so")));
    }
}
