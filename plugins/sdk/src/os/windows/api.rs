//! The Windows functions that these modules call, as declared in its documentation.

use std::ffi::{c_char, c_int, c_void};

pub type Handle = *mut c_void;
pub type Bool = c_int;

pub const INFINITE: u32 = u32::MAX;

// Modules.
pub const MODULE_PIN: u32 = 1;
pub const MODULE_UNCHANGED_REFCOUNT: u32 = 2;
pub const MODULE_FROM_ADDRESS: u32 = 4;

// Text conversion.
pub const CODE_PAGE_OF_SYSTEM: u32 = 0;
pub const ERROR_ON_INVALID: u32 = 8;

// Threads.
pub const NO_INDEX: u32 = u32::MAX;
pub const THREAD_ENDS: u32 = 3;
pub const THREAD_QUERY_LIMITED_INFORMATION: u32 = 0x800;
pub const ALL_GROUPS: u16 = u16::MAX;

// Files.
pub const GENERIC_READ: u32 = 0x8000_0000;
pub const GENERIC_WRITE: u32 = 0x4000_0000;
pub const STANDARD_ERROR: u32 = -12_i32 as u32;

// Time zones.
pub const IN_DAYLIGHT_TIME: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ModuleInformation {
    pub base: *mut c_void,
    pub size: u32,
    pub entry: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GroupAffinity {
    pub mask: usize,
    pub group: u16,
    pub reserved: [u16; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct SystemTime([u16; 8]);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct TimeZone {
    pub bias: i32,
    pub standard_name: [u16; 32],
    pub standard_date: SystemTime,
    pub standard_bias: i32,
    pub daylight_name: [u16; 32],
    pub daylight_date: SystemTime,
    pub daylight_bias: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Version {
    pub size: u32,
    pub major: u32,
    pub minor: u32,
    pub build: u32,
    pub platform: u32,
    pub pack: [u16; 128],
}

impl Default for Version {
    fn default() -> Self {
        Self { size: 0, major: 0, minor: 0, build: 0, platform: 0, pack: [0; 128] }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Memory {
    pub size: u32,
    pub load: u32,
    pub total: u64,
    pub available: u64,
    pub total_with_files: u64,
    pub available_with_files: u64,
    pub total_addresses: u64,
    pub available_addresses: u64,
    pub extended: u64,
}

#[link(name = "ntdll")]
unsafe extern "system" {
    pub fn RtlGetVersion(version: *mut Version) -> i32;
}

#[link(name = "kernel32")]
unsafe extern "system" {
    pub fn GetModuleHandleExW(flags: u32, name: *const u16, module: *mut Handle) -> Bool;
    pub fn GetModuleHandleA(name: *const c_char) -> Handle;
    pub fn GetModuleFileNameW(module: Handle, name: *mut u16, room: u32) -> u32;
    pub fn GetProcAddress(module: Handle, name: *const c_char) -> *const ();
    pub fn GetCurrentProcess() -> Handle;
    pub fn GetCurrentThread() -> Handle;
    pub fn GetCurrentThreadId() -> u32;
    pub fn K32EnumProcessModules(process: Handle, modules: *mut Handle, room: u32, needed: *mut u32) -> Bool;
    pub fn K32GetModuleInformation(
        process: Handle,
        module: Handle,
        information: *mut ModuleInformation,
        room: u32,
    ) -> Bool;
    pub fn MultiByteToWideChar(
        page: u32,
        flags: u32,
        text: *const u8,
        length: c_int,
        wide: *mut u16,
        room: c_int,
    ) -> c_int;
    pub fn CreateThread(
        attributes: *const c_void,
        stack: usize,
        start: unsafe extern "system" fn(*mut c_void) -> u32,
        argument: *mut c_void,
        flags: u32,
        number: *mut u32,
    ) -> Handle;
    pub fn OpenThread(access: u32, inherit: Bool, number: u32) -> Handle;
    pub fn CloseHandle(handle: Handle) -> Bool;
    pub fn LocalFree(memory: *mut c_void) -> *mut c_void;
    pub fn TlsAlloc() -> u32;
    pub fn TlsGetValue(index: u32) -> *mut c_void;
    pub fn TlsSetValue(index: u32, value: *mut c_void) -> Bool;
    pub fn GetTickCount64() -> u64;
    pub fn QueryPerformanceCounter(count: *mut i64) -> Bool;
    pub fn QueryPerformanceFrequency(frequency: *mut i64) -> Bool;
    pub fn GetTimeZoneInformation(zone: *mut TimeZone) -> u32;
    pub fn GetActiveProcessorCount(group: u16) -> u32;
    pub fn GetActiveProcessorGroupCount() -> u16;
    pub fn GetProcessAffinityMask(process: Handle, own: *mut usize, system: *mut usize) -> Bool;
    pub fn SetThreadGroupAffinity(
        thread: Handle,
        wanted: *const GroupAffinity,
        before: *mut GroupAffinity,
    ) -> Bool;
    pub fn GlobalMemoryStatusEx(memory: *mut Memory) -> Bool;
    pub fn GetStdHandle(which: u32) -> Handle;
    pub fn WriteFile(
        file: Handle,
        bytes: *const u8,
        length: u32,
        written: *mut u32,
        overlapped: *mut c_void,
    ) -> Bool;
}

#[link(name = "synchronization")]
unsafe extern "system" {
    pub fn WaitOnAddress(word: *const c_void, value: *const c_void, size: usize, milliseconds: u32) -> Bool;
    pub fn WakeByAddressSingle(word: *const c_void);
    pub fn WakeByAddressAll(word: *const c_void);
}

// It also unwinds the frames that call it, which end without continuing.
#[link(name = "kernel32")]
unsafe extern "system-unwind" {
    pub fn RtlUnwindEx(
        frame: *mut c_void,
        place: *const c_void,
        record: *mut c_void,
        value: *mut c_void,
        context: *mut c_void,
        history: *mut c_void,
    );
}
