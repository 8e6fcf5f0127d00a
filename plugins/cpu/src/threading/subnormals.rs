//! Flushing of subnormal numbers: a mode of the thread, in which the processor reads and writes them as zeros.
//!
//! What Rust promises of such a mode, and why this form is chosen:
//!
//! - An `asm!` block must leave the floating-point control register as it was. So one block sets the mode, calls the work and
//!   restores the register; the mode never reaches the code around the block, into which the compiler may move operations.
//! - The work is a function behind a pointer that a register holds. The compiler can neither inline it into code that runs
//!   without the mode, nor move operations between the two.
//! - A panic must not leave the block, which would skip the restoration: the function catches it, and it continues behind.
//! - What remains is the work itself. Rust has no attribute for a function that runs in another mode (LLVM's `denormal-fp-math`),
//!   and the only form that its rules cover is work in assembly alone. The compiler takes the mode for the default one: it may
//!   compute a constant, or an operation that it proves exact, without the flush. So a subnormal result may stay what it is
//!   where the compiler knows it in advance; any other number has the bits that it has without the mode. The knob promises no
//!   more: subnormal numbers may count as zeros.

use std::any::Any;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A function with one argument, with the calling convention of the blocks below.
#[cfg(target_arch = "x86_64")]
type Work<T> = unsafe extern "sysv64" fn(*mut T);
#[cfg(not(target_arch = "x86_64"))]
type Work<T> = unsafe extern "C" fn(*mut T);

/// Calls `work` with subnormal numbers flushed: FTZ and DAZ of MXCSR (Intel, "Architectures Software Developer's Manual",
/// volume 1, 10.2.3).
///
/// # Safety
/// `work` may be called with `argument`, and does not unwind.
#[cfg(target_arch = "x86_64")]
unsafe fn call<T>(work: Work<T>, argument: *mut T) {
    const FLUSH: u32 = 1 << 15 | 1 << 6;
    // The register before, and in the mode.
    let mut words = [0_u32; 2];
    // SAFETY: `work` may be called, and does not unwind, as this function requires; the stack is aligned for a call. r12 keeps its
    // value over it, so that the last instruction finds the word that the first one stored. No reserved bit is set.
    unsafe {
        asm!(
            "stmxcsr [r12]",
            "mov eax, [r12]",
            "or eax, {flush}",
            "mov [r12 + 4], eax",
            "ldmxcsr [r12 + 4]",
            "call {work}",
            "ldmxcsr [r12]",
            flush = const FLUSH,
            work = in(reg) work,
            in("r12") &raw mut words,
            inout("rdi") argument => _,
            inout("rax") 0_u64 => _,
            clobber_abi("sysv64"),
        );
    }
}

/// Calls `work` with subnormal numbers flushed: FZ of FPCR (Arm, "Architecture Reference Manual", C5.2).
///
/// # Safety
/// `work` may be called with `argument`, and does not unwind.
#[cfg(target_arch = "aarch64")]
unsafe fn call<T>(work: Work<T>, argument: *mut T) {
    const FLUSH: u64 = 1 << 24;
    // SAFETY: `work` may be called, and does not unwind, as this function requires; the stack is aligned for a call. x20 keeps its
    // value over it. User programs may write the register, and the processor wrote its other bits.
    unsafe {
        asm!(
            "mrs x20, fpcr",
            "orr x9, x20, #{flush}",
            "msr fpcr, x9",
            "blr {work}",
            "msr fpcr, x20",
            flush = const FLUSH,
            work = in(reg) work,
            out("x20") _,
            inout("x0") argument => _,
            inout("x9") 0_u64 => _,
            clobber_abi("C"),
        );
    }
}

/// Calls `work`; the mode of other processors is not known.
///
/// # Safety
/// `work` may be called with `argument`.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn call<T>(work: Work<T>, argument: *mut T) {
    // SAFETY: `work` may be called with it, as this function requires.
    unsafe { work(argument) }
}

/// A closure to call, and then its result or the panic that ended it.
struct Job<F, R> {
    work: Option<F>,
    result: Result<R, Box<dyn Any + Send>>,
}

impl<F: FnOnce() -> R, R> Job<F, R> {
    fn run(&mut self) {
        if let Some(work) = self.work.take() {
            // The panic continues where the mode has ended.
            self.result = catch_unwind(AssertUnwindSafe(work));
        }
    }
}

macro_rules! entry {
    ($convention:literal) => {
        /// Runs a job.
        ///
        /// # Safety
        /// `job` is a job that nothing else uses during the call.
        unsafe extern $convention fn enter<F: FnOnce() -> R, R>(job: *mut Job<F, R>) {
            // SAFETY: the pointer is of a job that nothing else uses, as this function requires.
            unsafe { &mut *job }.run();
        }
    };
}

#[cfg(target_arch = "x86_64")]
entry!("sysv64");
#[cfg(not(target_arch = "x86_64"))]
entry!("C");

/// Calls `work` in the mode. The threads of a program have their own mode again afterwards, also if it panics.
pub(crate) fn flushed<F: FnOnce() -> R, R>(work: F) -> R {
    let mut job = Job { work: Some(work), result: Err(Box::new(())) };
    // SAFETY: `enter` gets the job, which nothing else uses until it returns. It catches panics of the work.
    unsafe { call(enter::<F, R>, &raw mut job) };
    job.result.unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

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
        let panics = AssertUnwindSafe(|| flushed(|| resume_unwind(Box::new("told"))));
        assert_eq!(catch_unwind(panics).unwrap_err().downcast_ref(), Some(&"told"));
        assert_eq!(half_of_the_least_normal(), exact);
    }

    #[test]
    fn work_gets_its_environment_and_returns_what_it_computes() {
        let texts = ["a".to_owned(), "b".to_owned()];
        let numbers: Vec<f64> = (0..12).map(f64::from).collect();
        let (text, sum) =
            flushed(|| (texts.concat(), numbers.iter().map(|x| black_box(*x) * 0.5).sum::<f64>()));
        assert_eq!((text.as_str(), sum), ("ab", 33.0));
    }
}
