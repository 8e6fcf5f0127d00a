//! The processors that threads run on.

/// Pins this thread to one of its processors, chosen by number, if the process is limited to some of the machine's (by taskset, for
/// instance), since migration between processors would affect the measurement.
pub fn keep_to_one(number: usize) {
    let allowed = allowed();
    // SAFETY: the call has no other argument.
    let all = usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) });
    if all.is_ok_and(|all| all <= allowed.len()) {
        return;
    }
    let Some(&processor) = number.checked_rem(allowed.len()).and_then(|index| allowed.get(index)) else {
        return;
    };
    // SAFETY: a set of processors is bits, of which none is set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel returned this number for a set of the same size, which the calls write and read.
    unsafe {
        libc::CPU_SET(processor, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
}

/// The numbers of the processors that this thread may use.
fn allowed() -> Vec<usize> {
    // SAFETY: a set of processors is bits, of which none is set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes a set of this size.
    assert_eq!(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) }, 0);
    // SAFETY: the numbers are those of the set's bits.
    (0..8 * size_of_val(&set)).filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) }).collect()
}
