//! The machine's processors, and those that a thread may use.

use std::io::{self, Read};

use crate::os::cancel;

/// Number of processors in the machine.
pub fn count() -> usize {
    // SAFETY: the call has no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(0)
}

/// Number of processors this process may use: its affinity, limited by its cgroup's CPU quota.
pub fn available() -> usize {
    // The quota is read from files.
    let _off = cancel::disable();
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Model name of the first processor.
pub fn model() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    if let Some(model) = told_model() {
        return Some(model);
    }
    listed_model()
}

/// The name that the processor tells, which is the one in the kernel's list: that takes ten times as long.
#[cfg(target_arch = "x86_64")]
fn told_model() -> Option<String> {
    use std::arch::x86_64::__cpuid;

    const NAME: std::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if __cpuid(0x8000_0000).eax < *NAME.end() {
        return None;
    }
    let parts = NAME.map(__cpuid).flat_map(|part| [part.eax, part.ebx, part.ecx, part.edx]);
    let bytes: Vec<u8> = parts.flat_map(u32::to_le_bytes).take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8(bytes).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The name in the kernel's list.
fn listed_model() -> Option<String> {
    let _off = cancel::disable();
    let mut list = std::fs::File::open("/proc/cpuinfo").ok()?;
    // The first processors alone: the kernel writes what is read, and asks each processor for its clock.
    let mut beginning = [0; 2048];
    let count = read_once(&mut list, &mut beginning).ok()?;
    first_model(&String::from_utf8_lossy(beginning.get(..count)?))
}

/// One read, begun again where a signal interrupts it.
fn read_once(file: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Model name of the first processor in the kernel's list.
fn first_model(list: &str) -> Option<String> {
    let line = list.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned()).filter(|model| !model.is_empty())
}

/// The processor that this thread is running on.
pub fn current() -> Option<usize> {
    // SAFETY: the call has no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Asks the system to save AMX tile state for this process, which it only does on request (see "Using XSTATE
/// features in user space applications" in the kernel's documentation). Returns whether it does.
#[cfg(target_arch = "x86_64")]
pub fn allow_tiles() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call reads and writes no memory of the process, and fails where the processor has no tiles.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// A set of processors.
#[derive(Clone, Copy)]
pub struct Set(libc::cpu_set_t);

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: the function takes any sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

impl Set {
    /// The processors that the calling thread may use.
    pub fn of_thread() -> Option<Self> {
        // SAFETY: a set is a number for each processor, of which 0 is valid, and the call writes at most its size.
        let (status, set) = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set), set)
        };
        (status == 0).then_some(Self(set))
    }

    /// Number of processors in the set.
    pub fn count(&self) -> usize {
        // SAFETY: the function takes any set.
        usize::try_from(unsafe { libc::CPU_COUNT(&self.0) }).unwrap_or(0)
    }

    /// Whether a processor is in the set.
    pub fn has(&self, processor: usize) -> bool {
        // SAFETY: the function takes any set, and numbers below its size.
        processor < 8 * size_of::<libc::cpu_set_t>() && unsafe { libc::CPU_ISSET(processor, &self.0) }
    }

    /// The set without this processor.
    #[must_use]
    pub fn without(mut self, processor: usize) -> Self {
        if self.has(processor) {
            // SAFETY: the function takes any set, and numbers below its size.
            unsafe { libc::CPU_CLR(processor, &mut self.0) };
        }
        self
    }

    /// Restricts a thread to this set. If the kernel refuses, the thread stays where it is.
    pub fn give_to(&self, thread: i32) {
        // SAFETY: the set has the stated size, and the kernel takes any number for a thread.
        unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let list = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(first_model(list).as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(first_model("model name\t:\n"), None);
        assert_eq!(first_model("processor\t: 0\n"), None);
    }

    #[test]
    fn an_interrupted_read_is_repeated_and_a_failed_one_is_not() {
        struct Signals(Vec<io::ErrorKind>);
        impl Read for Signals {
            fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
                self.0.pop().map_or(Ok(room.len()), |kind| Err(kind.into()))
            }
        }
        let mut room = [0; 3];
        let interrupted = io::ErrorKind::Interrupted;
        assert_eq!(read_once(&mut Signals(vec![interrupted; 2]), &mut room).unwrap(), 3);
        let fails = &mut Signals(vec![io::ErrorKind::PermissionDenied, interrupted]);
        assert_eq!(read_once(fails, &mut room).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_beginning_of_the_list_has_the_model() {
        let list = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        assert_eq!(listed_model(), first_model(&list));
        assert_eq!(model(), first_model(&list));
    }
}
