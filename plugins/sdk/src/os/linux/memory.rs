//! The machine's memory.

/// Asks for large pages where so many bytes lie. Failure is harmless.
///
/// # Safety
/// The bytes are allocated.
pub unsafe fn advise_large_pages(address: *mut u8, bytes: usize) {
    // SAFETY: the memory has these bytes, and advice does not change them.
    unsafe { libc::madvise(address.cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// The bytes that programs may still allocate.
pub fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

/// Gives memory that was freed back to the system, where the C library can be told to.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}
