//! The instructions of x86 processors that kernels use, and a limit on them, so that every level runs on one machine.

use crate::lock::OnceLock;
use crate::log;

/// The environment variable that limits the instructions.
pub const LIMIT_VARIABLE: &str = "HIPDNN_CPU_MAX_ISA";

/// Instructions that kernels may use, in the order of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuIsa {
    /// What every x86-64 processor has.
    Sse,
    /// AVX2, FMA and F16C.
    Avx2,
    /// Dot products of bytes in 256 bits.
    Avx2Vnni,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// Dot products of bytes in 512 bits.
    Avx512Vnni,
    /// Dot products of bfloat16.
    Avx512Bf16,
    /// Tiles of matrices.
    Amx,
}

impl CpuIsa {
    /// All levels under the names of the environment variable.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("sse", Self::Sse),
        ("avx2", Self::Avx2),
        ("avx2_vnni", Self::Avx2Vnni),
        ("avx512", Self::Avx512),
        ("avx512_vnni", Self::Avx512Vnni),
        ("avx512_bf16", Self::Avx512Bf16),
        ("amx", Self::Amx),
    ];

    /// The level of this name; an error says what was expected.
    fn named(word: &str) -> Result<Self, String> {
        let word = word.trim();
        match Self::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
            _ if word.is_empty() => Ok(Self::Amx),
            Some((_, level)) => Ok(*level),
            None => {
                let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
                Err(format!("{LIMIT_VARIABLE} is {word:?}, expected {}; there is no limit", names.join(", ")))
            }
        }
    }

    /// Whether this processor has the instructions; whether the system keeps AMX's tiles is not asked.
    #[cfg(target_arch = "x86_64")]
    pub fn is_present(self) -> bool {
        match self {
            Self::Sse => true,
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            Self::Avx2Vnni => is_x86_feature_detected!("avxvnni") && Self::Avx2.is_present(),
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && Self::Avx2.is_present()
            }
            Self::Avx512Vnni => is_x86_feature_detected!("avx512vnni") && Self::Avx512.is_present(),
            Self::Avx512Bf16 => is_x86_feature_detected!("avx512bf16") && Self::Avx512.is_present(),
            Self::Amx => {
                std::arch::x86_64::__cpuid_count(7, 0).edx & (1 << 24) != 0 && Self::Avx512.is_present()
            }
        }
    }

    /// Whether this processor has the instructions: other architectures have none of these.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_present(self) -> bool {
        false
    }

    /// Whether kernels use the instructions.
    pub fn is_available(self) -> bool {
        self.is_present() && self.is_permitted()
    }

    /// The levels that this processor has, with their names.
    pub fn present() -> impl Iterator<Item = (&'static str, Self)> {
        Self::NAMES.into_iter().filter(|(_, level)| level.is_present())
    }

    /// The highest level that kernels use, and those that the processor has; none where there is no choice.
    pub fn description() -> Option<String> {
        let (used, _) = Self::present().filter(|(_, level)| level.is_permitted()).last()?;
        let present: Vec<_> = Self::present().map(|(name, _)| name).collect();
        let is_limited = Self::present().any(|(_, level)| !level.is_permitted());
        let limit = if is_limited { format!(", the limit by {LIMIT_VARIABLE}") } else { String::new() };
        Some(format!("{used}{limit}; the processor has {}", present.join(", ")))
    }

    /// Whether the environment permits this level. The variable is read once.
    pub fn is_permitted(self) -> bool {
        static MOST: OnceLock<CpuIsa> = OnceLock::new();
        let most = MOST.get_or_init(|| {
            Self::named(&std::env::var(LIMIT_VARIABLE).unwrap_or_default()).unwrap_or_else(|message| {
                log::warn(format_args!("{message}"));
                Self::Amx
            })
        });
        self <= *most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_one_of_the_levels() {
        for (name, level) in CpuIsa::NAMES {
            assert_eq!(CpuIsa::named(name), Ok(level));
        }
        assert_eq!([" AVX2 ", ""].map(CpuIsa::named), [Ok(CpuIsa::Avx2), Ok(CpuIsa::Amx)]);
        let message = CpuIsa::named("avx1024").unwrap_err();
        assert!(message.contains("avx1024") && message.contains("sse, avx2, avx2_vnni"), "{message}");
        assert!(CpuIsa::NAMES.is_sorted_by_key(|(_, level)| level));
    }

    #[test]
    fn a_processor_has_the_levels_that_the_others_need() {
        let has = |level: CpuIsa| CpuIsa::present().any(|(_, own)| own == level);
        assert_eq!(has(CpuIsa::Sse), cfg!(target_arch = "x86_64"));
        for (level, needed) in [
            (CpuIsa::Avx2Vnni, CpuIsa::Avx2),
            (CpuIsa::Avx512, CpuIsa::Avx2),
            (CpuIsa::Avx512Vnni, CpuIsa::Avx512),
            (CpuIsa::Avx512Bf16, CpuIsa::Avx512),
            (CpuIsa::Amx, CpuIsa::Avx512),
        ] {
            assert!(!has(level) || has(needed), "{level:?}");
        }
    }
}
