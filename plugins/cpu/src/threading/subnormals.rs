//! Flushing of subnormal numbers: a mode of the thread, in which the processor reads and writes them as zeros.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;

/// The mode bits of this architecture: FTZ and DAZ of MXCSR (Intel, "Architectures Software Developer's Manual",
/// volume 1, 10.2.3), FZ of FPCR (Arm, "Architecture Reference Manual", C5.2).
#[cfg(target_arch = "x86_64")]
const FLUSH: u64 = 1 << 15 | 1 << 6;
#[cfg(target_arch = "aarch64")]
const FLUSH: u64 = 1 << 24;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FLUSH: u64 = 0;

/// This thread's floating-point control register.
fn read() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word = 0_u32;
        // SAFETY: stores 4 bytes in the variable; every x86-64 processor has the register.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        u64::from(word)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let word: u64;
        // SAFETY: reads a register that user programs may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        word
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Sets this thread's floating-point control register.
///
/// # Safety
/// The word is one that [`read`] returned, with or without [`FLUSH`]: rounding and exceptions stay as they are.
unsafe fn write(word: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        let word = word as u32;
        // SAFETY: loads 4 bytes of the variable. The word has no reserved bit, because the processor wrote it.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: writes a register that user programs may write, a word that the processor wrote.
    unsafe {
        asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = word;
}

/// The thread's mode before, which is restored when this ends, also by a panic.
struct Before(u64);

impl Drop for Before {
    fn drop(&mut self) {
        // SAFETY: `read` returned the word.
        unsafe { write(self.0) };
    }
}

/// Calls `work` in the mode. The threads of a program have their own mode again afterwards.
///
/// The compiler takes the mode for the default one. It may compute constants without the flush, and moves no operation on
/// memory out of `work`, which is a call that is never inlined here.
pub(crate) fn flushed<R>(work: impl FnOnce() -> R) -> R {
    #[inline(never)]
    fn call<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    let before = Before(read());
    if before.0 & FLUSH == FLUSH {
        return call(work);
    }
    // SAFETY: `read` returned the word without the bits.
    unsafe { write(before.0 | FLUSH) };
    call(work)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn half_of_the_least_normal() -> f32 {
        black_box(f32::MIN_POSITIVE) * black_box(0.5)
    }

    #[test]
    fn the_mode_ends_with_the_work_and_with_its_panic() {
        let exact = half_of_the_least_normal();
        assert!(exact > 0.0);
        assert_eq!(flushed(half_of_the_least_normal), 0.0);
        assert_eq!(flushed(|| black_box(exact) * black_box(2.0)), 0.0, "operands are flushed too");
        assert_eq!(flushed(|| flushed(half_of_the_least_normal) + half_of_the_least_normal()), 0.0);
        assert_eq!(half_of_the_least_normal(), exact);
        let panics = AssertUnwindSafe(|| flushed(|| std::panic::resume_unwind(Box::new(()))));
        assert!(catch_unwind(panics).is_err());
        assert_eq!(half_of_the_least_normal(), exact);
    }
}
