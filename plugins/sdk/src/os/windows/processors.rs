//! The machine's processors, and those that a thread may use.

use super::api;

/// Number of processors in the machine, in all groups.
pub fn count() -> usize {
    // SAFETY: the call has no pointers.
    unsafe { api::GetActiveProcessorCount(api::ALL_GROUPS) as usize }
}

/// Number of processors this process may use: all, unless its affinity is restricted.
pub fn available() -> usize {
    let (mut own, mut system) = (0, 0);
    // SAFETY: the handle of the own process needs no owner, and the function writes only to the two locals.
    unsafe { api::GetProcessAffinityMask(api::GetCurrentProcess(), &mut own, &mut system) };
    // Both are 0 if the process has threads in several groups.
    if own == system { count() } else { own.count_ones() as usize }.max(1)
}

/// Model name of the processor.
pub fn model() -> Option<String> {
    brand()
}

/// The brand string of x86 processors, in three parts of sixteen bytes.
#[cfg(target_arch = "x86_64")]
fn brand() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    const FIRST: u32 = 0x8000_0002;
    const LAST: u32 = 0x8000_0004;
    if __cpuid(0x8000_0000).eax < LAST {
        return None;
    }
    let answers = (FIRST..=LAST).map(__cpuid);
    let bytes: Vec<u8> = answers
        .flat_map(|answer| [answer.eax, answer.ebx, answer.ecx, answer.edx])
        .flat_map(u32::to_le_bytes)
        .take_while(|byte| *byte != 0)
        .collect();
    Some(String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|model| !model.is_empty())
}

/// Other processors have none.
#[cfg(not(target_arch = "x86_64"))]
fn brand() -> Option<String> {
    None
}

/// The processor that this thread is running on: not queried, as Windows wakes threads on idle processors.
pub fn current() -> Option<usize> {
    None
}

/// Whether the system saves AMX tile state for this process: not queried.
pub fn allow_tiles() -> bool {
    false
}

/// A set of processors.
#[derive(Clone, Copy, PartialEq)]
pub struct Set(());

impl Set {
    /// The processors of the calling thread, which is moved to the next group if there are several: threads
    /// start in their creator's group.
    pub fn of_thread() -> Option<Self> {
        use std::sync::atomic::{AtomicU16, Ordering};
        static NEXT: AtomicU16 = AtomicU16::new(1);
        // SAFETY: the call has no pointers.
        let groups = unsafe { api::GetActiveProcessorGroupCount() };
        if groups > 1 {
            let group = NEXT.fetch_add(1, Ordering::Relaxed) % groups;
            // SAFETY: the calls read a struct, and the thread is this one.
            unsafe {
                let count = api::GetActiveProcessorCount(group);
                let mask = usize::MAX.checked_shr(usize::BITS.saturating_sub(count)).unwrap_or(0);
                let wanted = api::GroupAffinity { mask, group, ..api::GroupAffinity::default() };
                api::SetThreadGroupAffinity(api::GetCurrentThread(), &wanted, std::ptr::null_mut());
            }
        }
        Some(Self(()))
    }

    /// Number of processors in the set.
    pub fn count(&self) -> usize {
        available()
    }

    /// Whether a processor is in the set.
    pub fn has(&self, processor: usize) -> bool {
        processor < available()
    }

    /// The set, unchanged: the system decides.
    #[must_use]
    pub fn without(self, _: usize) -> Self {
        self
    }

    /// Does nothing.
    pub fn give_to(&self, _: i32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_processors_to_use() {
        assert!((1..=count()).contains(&available()), "{} of {}", available(), count());
    }
}
