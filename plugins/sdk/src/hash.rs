//! The hash that identifies engines and detects damaged data.

/// The 64-bit FNV-1a hash of bytes. Changing one byte always changes it.
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash of no bytes.
    #[expect(clippy::new_without_default, reason = "a hash is computed, and has no default")]
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Appends bytes.
    #[must_use]
    pub const fn add(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        let mut rest = bytes;
        while let [byte, tail @ ..] = rest {
            hash = (hash ^ *byte as u64).wrapping_mul(0x100_0000_01b3);
            rest = tail;
        }
        Self(hash)
    }

    /// The hash.
    pub const fn number(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_algorithm() {
        assert_eq!(Fnv1a::new().number(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv1a::new().add(b"a").number(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv1a::new().add(b"foo").add(b"bar").number(), 0x8594_4171_f739_67e8);
    }
}
