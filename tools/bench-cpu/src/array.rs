//! Single-precision arrays, aligned to a cache line and filled with random numbers.

use std::ffi::c_void;
use std::fs;
use std::path::Path;

use hipdnn_tool::failure::{Failure, Result};

/// Numbers in a cache line.
const LINE: usize = 16;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([f32; LINE]);

/// An array.
pub struct Array {
    lines: Vec<Line>,
    len: usize,
}

impl Array {
    /// `len` copies of a value.
    pub fn new(len: usize, value: f32) -> Self {
        Self { lines: vec![Line([value; LINE]); len.div_ceil(LINE)], len }
    }

    /// Random numbers of a range, the same for the same seed.
    pub fn random(len: usize, (least, most): (f32, f32), seed: u64) -> Self {
        let mut array = Self::new(len, 0.0);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for line in &mut array.lines {
            for value in &mut line.0 {
                // xorshift64: fast, and random enough for test data.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *value = least + (most - least) * ((state >> 40) as f32 / (1 << 24) as f32);
            }
        }
        array
    }

    /// Random integers of a type, the same for the same seed: any bytes, or small numbers of 32 bits.
    pub fn integers(len: usize, data_type: &str, seed: u64) -> Self {
        let mut array = Self::random(len, (0.0, (1 << 24) as f32), seed);
        let mut before = 0_u32;
        for value in array.lines.iter_mut().flat_map(|line| &mut line.0) {
            let number = *value as u32;
            let word = match data_type {
                "int32" => (number % 8192).wrapping_sub(4096),
                // The number has 24 bits.
                _ => number << 8 ^ before >> 12,
            };
            (before, *value) = (number, f32::from_bits(word));
        }
        array
    }

    /// The bytes.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.values().flat_map(f32::to_ne_bytes)
    }

    /// The numbers.
    pub fn values(&self) -> impl Iterator<Item = f32> + '_ {
        self.lines.iter().flat_map(|line| line.0).take(self.len)
    }

    /// Copies the values of another array of the same length.
    pub fn copy_from(&mut self, other: &Self) {
        for (to, from) in self.lines.iter_mut().zip(&other.lines) {
            *to = *from;
        }
    }

    /// The address of the first value.
    pub fn pointer(&mut self) -> *mut c_void {
        self.lines.as_mut_ptr().cast()
    }

    /// Writes the bytes to a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes: Vec<u8> = self.bytes().collect();
        fs::write(path, bytes).map_err(|error| Failure::work(format!("{}: {error}", path.display())))
    }
}

/// Reads what a peer wrote.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Failure::work(format!("{}: {error}", path.display())))
}

/// Reads numbers that a peer wrote.
pub fn read(path: &Path) -> Result<Vec<f32>> {
    let bytes = read_bytes(path)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
}

/// The largest difference, relative to the largest magnitude. Infinite if the lengths differ or there is nothing to compare.
pub fn difference(ours: &Array, theirs: &[f32]) -> f64 {
    if ours.len != theirs.len() {
        return f64::INFINITY;
    }
    let largest = theirs.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let mut most = 0.0_f64;
    for (ours, theirs) in ours.values().zip(theirs) {
        let away = f64::from((ours - theirs).abs());
        // A NaN is never close.
        if !away.is_finite() {
            return f64::INFINITY;
        }
        most = most.max(away);
    }
    most / f64::from(largest).max(f64::MIN_POSITIVE)
}

/// The largest difference of bytes, and the percentage that differs. None if there is nothing to compare.
pub fn steps(ours: &Array, theirs: &[u8], is_signed: bool) -> Option<(i32, f64)> {
    let value = |byte: u8| if is_signed { i32::from(byte.cast_signed()) } else { i32::from(byte) };
    let (mut most, mut count) = (0, 0);
    for (ours, theirs) in ours.bytes().zip(theirs) {
        let away = (value(ours) - value(*theirs)).abs();
        most = most.max(away);
        count += i32::from(away > 0);
    }
    let is_whole = !theirs.is_empty() && ours.len == theirs.len().div_ceil(size_of::<f32>());
    is_whole.then(|| (most, 100.0 * f64::from(count) / theirs.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_differ_are_counted() {
        let ours = Array::new(1, f32::from_bits(u32::from_ne_bytes([0, 127, 128, 5])));
        assert_eq!(steps(&ours, &[0, 127, 128, 5], false), Some((0, 0.0)));
        assert_eq!(steps(&ours, &[0, 127, 127, 4], false), Some((1, 50.0)));
        assert_eq!(steps(&ours, &[0, 127, 127, 5], true), Some((255, 25.0)));
        assert_eq!(steps(&ours, &[], true), None);
    }

    #[test]
    fn integers_have_all_bytes_or_are_small() {
        let bytes = Array::integers(1000, "int8", 3);
        assert!((0..=255).all(|byte| bytes.bytes().any(|other| other == byte)));
        let words = Array::integers(1000, "int32", 3);
        assert!(words.values().all(|value| (value.to_bits().cast_signed()).abs() <= 4096));
    }

    #[test]
    fn a_wrong_number_is_seen() {
        let ours = Array::new(20, 2.0);
        assert_eq!(difference(&ours, &[2.0; 20]), 0.0);
        let mut theirs = [2.0; 20];
        theirs[19] = 2.5;
        assert_eq!(difference(&ours, &theirs), 0.2);
        theirs[3] = f32::NAN;
        assert_eq!(difference(&ours, &theirs), f64::INFINITY);
        assert_eq!(difference(&ours, &[2.0; 19]), f64::INFINITY);
    }

    #[test]
    fn random_numbers_stay_in_their_range() {
        let array = Array::random(1000, (0.5, 1.5), 7);
        assert!(array.values().all(|value| (0.5..1.5).contains(&value)));
        assert!(array.values().any(|value| value < 0.75) && array.values().any(|value| value > 1.25));
    }
}
