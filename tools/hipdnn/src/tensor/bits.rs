//! The bits of a tensor's elements.

use super::array::{elements, for_each};
use super::element::Elements;
use crate::failure::Result;
use crate::graph::Tensor;

/// The bits and the value of each element, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Bits(Vec<(u64, f64)>);

impl Bits {
    /// Reads a tensor from its memory.
    pub fn read(tensor: &Tensor, memory: &[u8]) -> Result<Self> {
        let elements = elements(tensor)?;
        let mut all = Vec::new();
        for_each(tensor, |place| {
            all.push((Elements::bits(tensor.data_type, memory, place), elements.get(memory, place)));
        })?;
        Ok(Self(all))
    }

    /// One of `count` equal parts.
    pub fn part(&self, at: usize, count: usize) -> Self {
        let size = self.0.len() / count.max(1);
        Self(self.0.get(at * size..(at + 1) * size).unwrap_or_default().to_vec())
    }

    /// The first element with other bits, and both; all NaNs are equal.
    pub fn first_difference(&self, other: &Self) -> Option<(usize, [(u64, f64); 2])> {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        let is_other = |a: &(u64, f64), b: &(u64, f64)| a.0 != b.0 && !(a.1.is_nan() && b.1.is_nan());
        pairs
            .filter(|(_, (own, other))| is_other(own, other))
            .map(|(at, (own, other))| (at, [*own, *other]))
            .next()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zeros_of_both_signs_differ_and_nans_do_not() {
        let tensor = json!({"uid": 1, "name": "t", "dims": [2, 2], "strides": [2, 1], "data_type": "float"});
        let tensor = Tensor::read(&tensor).unwrap();
        let read = |values: [f32; 4]| {
            Bits::read(&tensor, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
                .unwrap()
        };
        let own = read([f32::NAN, 1.0, 0.0, 2.0]);
        let other = read([-f32::NAN, 1.0, -0.0, 2.0]);
        assert_eq!(own.first_difference(&other), Some((2, [(0, 0.0), (0x8000_0000, -0.0)])));
        assert_eq!(own.part(0, 2).first_difference(&other.part(0, 2)), None);
    }
}
