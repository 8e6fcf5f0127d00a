//! The machine's memory.

/// Requests huge pages for this memory. Failure is harmless.
pub fn advise_large_pages(address: *mut u8, bytes: usize) {
    // SAFETY: this advice changes no bytes, and the call refuses addresses without memory.
    unsafe { libc::madvise(address.cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Bytes that programs can still allocate.
pub fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

/// Returns freed memory to the system, if the C library can be told to.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}
