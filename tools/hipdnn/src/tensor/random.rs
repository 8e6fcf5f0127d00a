//! Random numbers that are the same on every machine: a SplitMix64 generator.

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed and a stream; streams are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        let start = random.bits() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Self(start)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number from `least` to `end`, exclusive.
    pub fn between(&mut self, least: f64, end: f64) -> f64 {
        let unit = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        least + unit * (end - least)
    }

    /// An integer from `least` to `greatest`, inclusive.
    pub fn whole(&mut self, least: i64, greatest: i64) -> i64 {
        let count = greatest.abs_diff(least).saturating_add(1);
        // The product's upper half is nearly uniform for any count that occurs here.
        let scaled = (u128::from(self.bits()) * u128::from(count)) >> 64;
        least.saturating_add(i64::try_from(scaled).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_stay_in_their_range_and_do_not_change() {
        let mut random = Random::new(0, 0);
        for _ in 0..1000 {
            assert!((-2..=3).contains(&random.whole(-2, 3)));
            assert!((0.5..1.5).contains(&random.between(0.5, 1.5)));
        }
        assert_eq!(Random(0).bits(), 0xe220_a839_7b1d_cdaf);
        assert_ne!(Random::new(0, 1).bits(), Random::new(0, 2).bits());
    }
}
