//! The random generator of dropout: Philox 4×32 with 10 rounds (Salmon, Moraes, Dror and Shaw, "Parallel
//! random numbers: as easy as 1, 2, 3", 2011). A counter and a key give four words, so any word can be
//! computed directly.

/// The words of a counter under a key.
#[inline(always)]
pub(crate) fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        let [a, b] = [u64::from(counter[0]) * 0xD251_1F53, u64::from(counter[2]) * 0xCD9E_8D57];
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}

/// The value in [0, 1) for the score with this index: a word in units of 2⁻³².
///
/// Four neighbours share a counter, whose lower half is a fourth of the index and whose upper half is the offset.
pub(crate) fn uniform(seed: i64, offset: i64, index: u64) -> f64 {
    let halves = |bits: u64| [bits as u32, (bits >> 32) as u32];
    let ([low, high], [offset_low, offset_high]) = (halves(index / 4), halves(offset.cast_unsigned()));
    let words = philox([low, high, offset_low, offset_high], halves(seed.cast_unsigned()));
    f64::from(words[(index % 4) as usize]) / f64::from(2.0_f32.powi(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with their library.
    #[test]
    fn known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn values_follow_the_order_of_words() {
        let words = [0x6627_e8d5_u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        for (index, word) in words.into_iter().enumerate() {
            assert_eq!(uniform(0, 0, index as u64), f64::from(word) / 4_294_967_296.0);
        }
        let seed = 0x299f_31d0_a409_3822_i64;
        let offset = 0x0370_7344_1319_8a2e_i64;
        // Our own vector: the published counters would need an index of more than 64 bits.
        let words = philox([7, 1, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        assert_eq!(uniform(seed, offset, 4 * ((1 << 32) + 7) + 2), f64::from(words[2]) / 4_294_967_296.0);
        assert_eq!(uniform(-1, 0, 0), f64::from(philox([0; 4], [!0; 2])[0]) / 4_294_967_296.0);
    }
}
