//! A limit on the instructions of x86 processors that kernels use, so that every level runs on one machine.

use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::log;

/// The environment variable that limits the instructions.
const LIMIT_VARIABLE: &str = "HIPDNN_CPU_MAX_ISA";

/// Instructions that kernels may use, each level with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CpuIsa {
    Sse,
    Avx2,
    Avx2Vnni,
    Avx512,
    Avx512Vnni,
    Avx512Bf16,
    Amx,
}

impl CpuIsa {
    /// All levels under the names of the environment variable.
    const NAMES: [(&str, Self); 7] = [
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

    /// Whether the environment permits this level. The variable is read once.
    pub(crate) fn is_permitted(self) -> bool {
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
}
