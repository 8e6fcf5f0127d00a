//! Instruction sets: detection at run time, and code compiled for each.

#[cfg(target_arch = "x86_64")]
use hipdnn_plugin_sdk::cpu_isa::CpuIsa;
use hipdnn_plugin_sdk::lock::OnceLock;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The baseline of the target.
    Portable,
    /// AVX2, FMA and F16C: 256-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ and VL: 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// A computation compiled once per instruction set. `run`, and everything it calls, must be
/// `#[inline(always)]`, so that the code is compiled with the caller's instructions.
///
/// The other functions are not inlined, and are methods: rustc compiles each once, in the codegen unit of the task's module.
pub(crate) trait IsaTask: Sized {
    /// The result.
    type Output;

    /// Runs the computation.
    fn run(self) -> Self::Output;

    /// Runs it with the baseline of the target. Not inlined on x86-64, where other instruction sets need a function of their
    /// own as well.
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn run_portable(self) -> Self::Output {
        self.run()
    }

    /// Runs it with AVX2.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run_avx2(self) -> Self::Output {
        self.run()
    }

    /// Runs it with AVX-512.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    unsafe fn run_avx512(self) -> Self::Output {
        self.run()
    }
}

impl Isa {
    /// The widest instruction set of this processor.
    pub fn detect() -> Self {
        // Cached, because conversions of short runs call this every time.
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(|| Self::available().last().copied().unwrap_or(Self::Portable))
    }

    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable if cfg!(target_arch = "aarch64") => "NEON",
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "AVX-512",
        }
    }

    /// All instruction sets that this processor supports and the environment permits, the widest last.
    pub fn available() -> &'static [Self] {
        #[cfg(target_arch = "x86_64")]
        {
            match (CpuIsa::Avx2.is_available(), CpuIsa::Avx512.is_available()) {
                (true, true) => &[Self::Portable, Self::Avx2, Self::Avx512],
                (true, false) => &[Self::Portable, Self::Avx2],
                _ => &[Self::Portable],
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        &[Self::Portable]
    }

    /// Whether the processor has full 512-bit vector units. If it splits 512-bit operations in two, like
    /// AMD's Zen 4, multiplications leave twice the time for everything else.
    pub(crate) fn has_whole_vectors(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            static WHOLE: OnceLock<bool> = OnceLock::new();
            self == Self::Avx512 && *WHOLE.get_or_init(|| !is_zen_4())
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Whether vectors have 512 bits, but the processor [splits](Isa::has_whole_vectors) operations on them in two.
    pub(crate) fn splits_vectors(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            self == Self::Avx512 && !self.has_whole_vectors()
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Runs a task compiled for this instruction set.
    ///
    /// # Safety
    /// The instruction set is one of [`Isa::available`].
    #[inline]
    pub(crate) unsafe fn run<W: IsaTask>(self, work: W) -> W::Output {
        match self {
            Self::Portable => work.run_portable(),
            // SAFETY: this function requires a processor with the instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { work.run_avx2() },
            // SAFETY: this function requires a processor with the instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { work.run_avx512() },
        }
    }
}

/// Whether the processor is of AMD's family 0x19 (AMD, "Processor Programming Reference" of that family), whose
/// members with AVX-512 are Zen 4.
#[cfg(target_arch = "x86_64")]
fn is_zen_4() -> bool {
    use std::arch::x86_64::__cpuid;
    let (vendor, signature) = (__cpuid(0), __cpuid(1).eax);
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat();
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    name == b"AuthenticAMD" && family == 0x19
}

/// Runs a task with the baseline of the target, where it is called: for tiles, which are compiled beside their register's type.
#[inline]
pub(crate) fn run_portable<W: IsaTask>(work: W) -> W::Output {
    work.run()
}

/// The same with AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn run_avx2<W: IsaTask>(work: W) -> W::Output {
    work.run()
}

/// The same with AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(crate) fn run_avx512<W: IsaTask>(work: W) -> W::Output {
    work.run()
}
