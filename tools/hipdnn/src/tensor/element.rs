//! Conversion between elements in memory and numbers.
//!
//! Types of less than a byte are packed, the first element in the lowest bits.

use half::{bf16, f16};
use hipdnn_plugin_sdk::rounding::{to_bfloat16, to_half};
use hipdnn_plugin_sdk::small_float::{self, Format, decode_e8m0};

use crate::data_type::DataType;

/// Reads and writes the elements of one type.
pub struct Elements {
    data_type: DataType,
    /// The value of each code, for small types.
    codes: Vec<f64>,
    /// The codes sorted by value, without NaN.
    rising: Vec<(f64, u8)>,
}

fn format(data_type: DataType) -> Option<Format> {
    match data_type {
        DataType::Fp8E4m3 => Some(small_float::E4M3),
        DataType::Fp8E5m2 => Some(small_float::E5M2),
        DataType::Fp8E4m3Fnuz => Some(small_float::E4M3_FNUZ),
        DataType::Fp8E5m2Fnuz => Some(small_float::E5M2_FNUZ),
        DataType::Fp6E2m3 => Some(small_float::E2M3),
        DataType::Fp6E3m2 => Some(small_float::E3M2),
        DataType::Fp4E2m1 => Some(small_float::E2M1),
        _ => None,
    }
}

impl Elements {
    /// The elements of a type; none if the type is not set.
    pub fn of(data_type: DataType) -> Option<Self> {
        if data_type == DataType::Unset {
            return None;
        }
        let count = 1_u32 << data_type.bits().min(8);
        let code = |code: u32| code.to_le_bytes()[0];
        let codes: Vec<f64> = match (format(data_type), data_type) {
            (Some(format), _) => (0..count).map(|number| format.decode(code(number))).collect(),
            (None, DataType::Fp8E8m0) => (0..count).map(|number| decode_e8m0(code(number))).collect(),
            (None, DataType::Int4) => (0..count)
                .map(|number| f64::from(number.cast_signed() - if number > 7 { 16 } else { 0 }))
                .collect(),
            (None, _) => Vec::new(),
        };
        let mut rising: Vec<(f64, u8)> = codes
            .iter()
            .zip(0..=255)
            .filter(|(number, _)| number.is_finite())
            .map(|(n, c)| (*n, c))
            .collect();
        // Of the two zeros, the positive one with the smaller code comes first and is used.
        rising.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal).then(a.1.cmp(&b.1)));
        rising.dedup_by_key(|entry| entry.0);
        Some(Self { data_type, codes, rising })
    }

    /// The bytes of `count` elements.
    pub fn bytes(data_type: DataType, count: usize) -> Option<usize> {
        count.checked_mul(data_type.bits()).map(|bits| bits.div_ceil(8))
    }

    /// The bits at an index; 0 beyond the end.
    pub fn bits(data_type: DataType, bytes: &[u8], index: usize) -> u64 {
        let size = data_type.bits() / 8;
        if size == 0 || !data_type.bits().is_multiple_of(8) {
            return u64::from(code_at(bytes, index, data_type.bits()));
        }
        let start = index.saturating_mul(size);
        let element = bytes.get(start..start.saturating_add(size)).unwrap_or_default();
        element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
    }

    /// The value at an index; NaN beyond the end.
    pub fn get(&self, bytes: &[u8], index: usize) -> f64 {
        fn at<const N: usize>(bytes: &[u8], index: usize) -> Option<[u8; N]> {
            bytes.get(index.checked_mul(N)?..)?.first_chunk().copied()
        }
        let number = match self.data_type {
            DataType::Float => at(bytes, index).map(|b| f64::from(f32::from_le_bytes(b))),
            DataType::Double => at(bytes, index).map(f64::from_le_bytes),
            DataType::Half => at(bytes, index).map(|b| f16::from_le_bytes(b).to_f64()),
            DataType::Bfloat16 => at(bytes, index).map(|b| bf16::from_le_bytes(b).to_f64()),
            DataType::Int32 => at(bytes, index).map(|b| f64::from(i32::from_le_bytes(b))),
            DataType::Int64 => at(bytes, index).map(|b| i64::from_le_bytes(b) as f64),
            DataType::Int8 => at(bytes, index).map(|b| f64::from(i8::from_le_bytes(b))),
            DataType::Uint8 => at(bytes, index).map(|[b]| f64::from(b)),
            DataType::Boolean => at(bytes, index).map(|[b]: [u8; 1]| f64::from(u8::from(b != 0))),
            _ => self.codes.get(usize::from(code_at(bytes, index, self.data_type.bits()))).copied(),
        };
        number.unwrap_or(f64::NAN)
    }

    /// Writes the nearest value of the type. Beyond its range that is infinity if it has one, else the end of the range; NaN
    /// becomes NaN if it has one, else 0.
    pub fn set(&self, bytes: &mut [u8], index: usize, number: f64) {
        fn put<const N: usize>(bytes: &mut [u8], index: usize, value: [u8; N]) {
            let place = index.checked_mul(N).and_then(|start| bytes.get_mut(start..));
            if let Some(place) = place.and_then(|rest| rest.first_chunk_mut()) {
                *place = value;
            }
        }
        match self.data_type {
            DataType::Float => put(bytes, index, (number as f32).to_le_bytes()),
            DataType::Double => put(bytes, index, number.to_le_bytes()),
            DataType::Half => put(bytes, index, to_half(number).to_le_bytes()),
            DataType::Bfloat16 => put(bytes, index, to_bfloat16(number).to_le_bytes()),
            DataType::Int32 => put(bytes, index, (number as i32).to_le_bytes()),
            DataType::Int64 => put(bytes, index, (number as i64).to_le_bytes()),
            DataType::Int8 => put(bytes, index, (number as i8).to_le_bytes()),
            DataType::Uint8 => put(bytes, index, [number as u8]),
            DataType::Boolean => put(bytes, index, [u8::from(number != 0.0)]),
            _ => put_code(bytes, index, self.data_type.bits(), self.code(number)),
        }
    }

    /// The code of the nearest value, ties to even.
    fn code(&self, number: f64) -> u8 {
        let find = |wanted: fn(&f64) -> bool| {
            self.codes.iter().zip(0..=255).find(|(n, _)| wanted(n)).map(|(_, c)| c)
        };
        if number.is_nan() {
            return find(|n| n.is_nan()).unwrap_or(0);
        }
        let (first, last) = (self.rising.first(), self.rising.last());
        let (Some((least, lowest)), Some((greatest, highest))) = (first, last) else { return 0 };
        // Beyond half a step from the end, the next number would be nearer.
        let step = self.rising.iter().rev().nth(1).map_or(0.0, |(before, _)| greatest - before);
        if number >= *greatest {
            let infinity = find(|n| *n == f64::INFINITY);
            return infinity.filter(|_| number >= greatest + step / 2.0).unwrap_or(*highest);
        }
        if number <= *least {
            let infinity = find(|n| *n == f64::NEG_INFINITY);
            return infinity.filter(|_| number <= least - step / 2.0).unwrap_or(*lowest);
        }
        let above = self.rising.partition_point(|(n, _)| *n < number);
        let (Some(low), Some(high)) = (self.rising.get(above.saturating_sub(1)), self.rising.get(above))
        else {
            return *highest;
        };
        let (down, up) = (number - low.0, high.0 - number);
        if down < up || (down == up && low.1 % 2 == 0) { low.1 } else { high.1 }
    }
}

/// The largest number of a type.
pub fn largest(data_type: DataType) -> f64 {
    match data_type {
        DataType::Float | DataType::Unset => f64::from(f32::MAX),
        DataType::Double => f64::MAX,
        DataType::Half => f16::MAX.to_f64(),
        DataType::Bfloat16 => bf16::MAX.to_f64(),
        _ if data_type.is_integer() => data_type.whole_range().1,
        _ => {
            Elements::of(data_type).and_then(|it| it.rising.last().map(|(last, _)| *last)).unwrap_or(f64::MAX)
        }
    }
}

/// The bits of an element.
fn code_at(bytes: &[u8], index: usize, bits: usize) -> u8 {
    let at = index.saturating_mul(bits);
    let byte = |offset: usize| bytes.get(at / 8 + offset).copied().unwrap_or(0);
    let pair = u16::from_le_bytes([byte(0), byte(1)]) >> (at % 8) & ((1 << bits) - 1);
    pair.to_le_bytes()[0]
}

fn put_code(bytes: &mut [u8], index: usize, bits: usize, code: u8) {
    let at = index.saturating_mul(bits);
    let mask = ((1_u16 << bits) - 1) << (at % 8);
    let value = u16::from(code) << (at % 8);
    for (offset, (mask, value)) in mask.to_le_bytes().into_iter().zip(value.to_le_bytes()).enumerate() {
        if let Some(byte) = bytes.get_mut(at / 8 + offset)
            && mask != 0
        {
            *byte = (*byte & !mask) | (value & mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_round_trips() {
        for data_type in DataType::ALL.iter().copied().filter(|data_type| (1..=8).contains(&data_type.bits()))
        {
            let elements = Elements::of(data_type).unwrap();
            let count = if data_type == DataType::Boolean { 2 } else { 1_usize << data_type.bits() };
            let mut bytes = vec![0; Elements::bytes(data_type, 5).unwrap()];
            for code in 0..count {
                let mut one = vec![0; 8];
                put_code(&mut one, 3, data_type.bits(), code as u8);
                let number = elements.get(&one, 3);
                elements.set(&mut bytes, 3, number);
                let again = elements.get(&bytes, 3);
                assert!(
                    number == again || (number.is_nan() && again.is_nan()),
                    "{data_type} {code}: {number} {again}"
                );
            }
        }
    }

    #[test]
    fn doubles_round_once() {
        // Just above the middle of two values, by less than a bit of single precision.
        for (data_type, bits) in [(DataType::Half, 10), (DataType::Bfloat16, 7)] {
            let (next, above) = (2.0_f64.powi(-bits), 2.0_f64.powi(-40));
            let mut bytes = [0; 2];
            let elements = Elements::of(data_type).unwrap();
            elements.set(&mut bytes, 0, 1.0 + next / 2.0 + above);
            assert_eq!(elements.get(&bytes, 0), 1.0 + next, "{data_type}");
        }
    }

    #[test]
    fn neighbours_are_left_alone() {
        for data_type in [DataType::Fp4E2m1, DataType::Int4, DataType::Fp6E2m3] {
            let elements = Elements::of(data_type).unwrap();
            let mut bytes = vec![0; 8];
            for index in 0..8 {
                elements.set(&mut bytes, index, if index % 2 == 0 { 1.0 } else { 2.0 });
            }
            elements.set(&mut bytes, 3, 3.0);
            let numbers: Vec<f64> = (0..8).map(|index| elements.get(&bytes, index)).collect();
            assert_eq!(numbers, [1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 1.0, 2.0], "{data_type}");
        }
    }

    #[test]
    fn known_values_of_the_small_types() {
        let largest = |data_type| {
            let elements = Elements::of(data_type).unwrap();
            elements.rising.last().unwrap().0
        };
        assert_eq!(largest(DataType::Fp8E4m3), 448.0);
        assert_eq!(largest(DataType::Fp8E5m2), 57344.0);
        assert_eq!(largest(DataType::Fp8E4m3Fnuz), 240.0);
        assert_eq!(largest(DataType::Fp8E5m2Fnuz), 57344.0);
        assert_eq!(largest(DataType::Fp6E2m3), 7.5);
        assert_eq!(largest(DataType::Fp6E3m2), 28.0);
        assert_eq!(largest(DataType::Fp4E2m1), 6.0);
        assert_eq!(largest(DataType::Fp8E8m0), 127_f64.exp2());
        assert_eq!(super::largest(DataType::Fp8E4m3), 448.0);
        assert_eq!(super::largest(DataType::Half), 65504.0);
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let rounded = |data_type, number| {
            let elements = Elements::of(data_type).unwrap();
            let mut bytes = [0; 8];
            elements.set(&mut bytes, 0, number);
            elements.get(&bytes, 0)
        };
        // Halfway between 1 and 1.125 the even code is that of 1, halfway to the next it is that of 1.25.
        assert_eq!(rounded(DataType::Fp8E4m3, 1.0625), 1.0);
        assert_eq!(rounded(DataType::Fp8E4m3, 1.1875), 1.25);
        assert_eq!(rounded(DataType::Fp8E4m3, 1e9), 448.0);
        assert_eq!(rounded(DataType::Fp8E5m2, 1e9), f64::INFINITY);
        assert_eq!(rounded(DataType::Fp8E5m2, 57400.0), 57344.0);
        assert_eq!(rounded(DataType::Fp4E2m1, -5.1), -6.0);
        assert_eq!(rounded(DataType::Fp4E2m1, f64::NAN), 0.0);
        assert!(rounded(DataType::Fp8E4m3Fnuz, f64::NAN).is_nan());
        assert_eq!(rounded(DataType::Half, 65520.0), f64::INFINITY);
        assert_eq!(rounded(DataType::Uint8, 300.0), 255.0);
    }
}
