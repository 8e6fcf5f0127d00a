//! Device memory for tensors.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::c_void;

use half::{bf16, f16};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_tool::computation::Arrays;
use hipdnn_tool::tensor::{Array, steps};

use crate::Failure;

/// Device memory, freed on drop.
pub struct DeviceMemory {
    gpu: Gpu,
    /// Its address.
    pub pointer: *mut c_void,
    size: usize,
}

impl DeviceMemory {
    /// Allocates `size` bytes, at least one.
    pub fn new(gpu: Gpu, size: usize) -> Result<Self, Failure> {
        Ok(Self { gpu, pointer: gpu.allocate(size)?, size })
    }

    /// Allocates memory with these bytes.
    pub fn with(gpu: Gpu, bytes: &[u8]) -> Result<Self, Failure> {
        let memory = Self::new(gpu, bytes.len())?;
        memory.fill(bytes)?;
        Ok(memory)
    }

    /// Writes bytes to the beginning, and waits.
    pub fn fill(&self, bytes: &[u8]) -> Result<(), Failure> {
        let fitting = bytes.get(..self.size).unwrap_or(bytes);
        // SAFETY: the memory has at least as many bytes.
        Ok(unsafe { self.gpu.upload(self.pointer, fitting) }?)
    }

    /// The bytes in it.
    pub fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0_u8; self.size];
        // SAFETY: the vector and the memory, which this object owns, both have `self.size` bytes.
        unsafe { self.gpu.download(&mut bytes, self.pointer) }?;
        Ok(bytes)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: this owns the memory.
        unsafe { self.gpu.free(self.pointer) };
    }
}

/// Values as the tool takes them.
pub fn array(values: &[f32]) -> Array {
    Array { dims: vec![values.len()], values: values.iter().map(|value| f64::from(*value)).collect() }
}

/// The same of several tensors, in the order of their memory.
pub fn arrays(values: &HashMap<i64, Vec<f32>>) -> Arrays {
    values.iter().map(|(uid, values)| (*uid, array(values))).collect()
}

/// Half a step of a type at 1.
pub fn half_step(data_type: DataType) -> f64 {
    hipdnn_tool::data_type::DataType::named(data_type.name()).map_or(0.0, |data_type| steps(data_type).0)
}

/// Numbers as the bytes of a type.
pub fn pack(data_type: DataType, values: &[f32]) -> Result<Vec<u8>, Failure> {
    Ok(match data_type {
        DataType::Float => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
        DataType::Half => values.iter().flat_map(|v| f16::from_f32(*v).to_ne_bytes()).collect(),
        DataType::Bfloat16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_ne_bytes()).collect(),
        DataType::Int32 => values.iter().flat_map(|v| (*v as i32).to_ne_bytes()).collect(),
        DataType::Double => values.iter().flat_map(|v| f64::from(*v).to_ne_bytes()).collect(),
        DataType::Int64 => values.iter().flat_map(|v| (*v as i64).to_ne_bytes()).collect(),
        DataType::Int8 => values.iter().map(|v| (*v as i8).cast_unsigned()).collect(),
        DataType::Uint8 => values.iter().map(|v| *v as u8).collect(),
        DataType::Boolean => values.iter().map(|v| u8::from(*v > 0.0)).collect(),
        DataType::Fp8E4m3 => values.iter().map(|v| nearest(*v, e4m3)).collect(),
        DataType::Fp8E5m2 => values.iter().map(|v| nearest(*v, e5m2)).collect(),
        DataType::Fp8E8m0 => values.iter().map(|v| nearest(*v, e8m0)).collect(),
        DataType::Fp8E4m3Fnuz => values.iter().map(|v| nearest(*v, e4m3_fnuz)).collect(),
        DataType::Fp8E5m2Fnuz => values.iter().map(|v| nearest(*v, e5m2_fnuz)).collect(),
        DataType::Fp6E2m3 => packed(6, values.iter().map(|v| nearest(*v, e2m3))),
        DataType::Fp6E3m2 => packed(6, values.iter().map(|v| nearest(*v, e3m2))),
        DataType::Fp4E2m1 => packed(4, values.iter().map(|v| nearest(*v, e2m1))),
        DataType::Int4 => packed(4, values.iter().map(|v| nearest(*v, int4))),
        other => return Err(Failure(format!("no test data of type {}", other.name()))),
    })
}

/// The numbers in the bytes of a type.
pub fn unpack(data_type: DataType, bytes: &[u8]) -> Result<Vec<f32>, Failure> {
    let two = |f: fn([u8; 2]) -> f32| bytes.as_chunks::<2>().0.iter().map(|chunk| f(*chunk)).collect();
    let four = |f: fn([u8; 4]) -> f32| bytes.as_chunks::<4>().0.iter().map(|chunk| f(*chunk)).collect();
    let eight = |f: fn([u8; 8]) -> f32| bytes.as_chunks::<8>().0.iter().map(|chunk| f(*chunk)).collect();
    Ok(match data_type {
        DataType::Float => four(f32::from_ne_bytes),
        DataType::Half => two(|bytes| f16::from_ne_bytes(bytes).to_f32()),
        DataType::Bfloat16 => two(|bytes| bf16::from_ne_bytes(bytes).to_f32()),
        DataType::Int32 => four(|bytes| i32::from_ne_bytes(bytes) as f32),
        DataType::Double => eight(|bytes| f64::from_ne_bytes(bytes) as f32),
        DataType::Int64 => eight(|bytes| i64::from_ne_bytes(bytes) as f32),
        DataType::Int8 => bytes.iter().map(|byte| f32::from(byte.cast_signed())).collect(),
        DataType::Uint8 | DataType::Boolean => bytes.iter().map(|byte| f32::from(*byte)).collect(),
        DataType::Fp8E4m3 => bytes.iter().map(|byte| e4m3(*byte)).collect(),
        DataType::Fp8E5m2 => bytes.iter().map(|byte| e5m2(*byte)).collect(),
        DataType::Fp8E8m0 => bytes.iter().map(|byte| e8m0(*byte)).collect(),
        DataType::Fp8E4m3Fnuz => bytes.iter().map(|byte| e4m3_fnuz(*byte)).collect(),
        DataType::Fp8E5m2Fnuz => bytes.iter().map(|byte| e5m2_fnuz(*byte)).collect(),
        DataType::Fp6E2m3 => codes(6, bytes).map(e2m3).collect(),
        DataType::Fp6E3m2 => codes(6, bytes).map(e3m2).collect(),
        DataType::Fp4E2m1 => codes(4, bytes).map(e2m1).collect(),
        DataType::Int4 => codes(4, bytes).map(int4).collect(),
        other => return Err(Failure(format!("no test data of type {}", other.name()))),
    })
}

/// An 8-bit float with 4 bits of exponent, 3 of mantissa, and no infinities.
fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 8.0 * 2_f32.powi(-6),
        _ => (1.0 + mantissa / 8.0) * 2_f32.powi(exponent - 7),
    };
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}

/// An 8-bit float with 5 bits of exponent: the upper half of a 16-bit float.
fn e5m2(byte: u8) -> f32 {
    f16::from_bits(u16::from(byte) << 8).to_f32()
}

/// A power of two, by its exponent.
fn e8m0(byte: u8) -> f32 {
    if byte == u8::MAX { f32::NAN } else { 2_f64.powi(i32::from(byte) - 127) as f32 }
}

/// The value of a code without infinities and NaN. Bits above the format are ignored.
fn small(code: u8, exponent: u32, mantissa: u32, bias: i32) -> f32 {
    let fraction = f32::from(code & ((1 << mantissa) - 1)) / (1 << mantissa) as f32;
    let magnitude = match i32::from(code >> mantissa & ((1 << exponent) - 1)) {
        0 => fraction * 2_f32.powi(1 - bias),
        exponent => (1.0 + fraction) * 2_f32.powi(exponent - bias),
    };
    if code >> (exponent + mantissa) & 1 == 0 { magnitude } else { -magnitude }
}

fn e4m3_fnuz(byte: u8) -> f32 {
    if byte == 0x80 { f32::NAN } else { small(byte, 4, 3, 8) }
}

fn e5m2_fnuz(byte: u8) -> f32 {
    if byte == 0x80 { f32::NAN } else { small(byte, 5, 2, 16) }
}

fn e2m3(code: u8) -> f32 {
    small(code, 2, 3, 1)
}

fn e3m2(code: u8) -> f32 {
    small(code, 3, 2, 3)
}

fn e2m1(code: u8) -> f32 {
    small(code, 2, 1, 1)
}

/// Two's complement of 4 bits.
fn int4(code: u8) -> f32 {
    f32::from((code << 4).cast_signed() >> 4)
}

/// Codes one after the other, the first in the lowest bits.
fn packed(bits: usize, codes: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut waiting, mut count) = (0_u32, 0);
    for code in codes {
        waiting |= (u32::from(code) & ((1 << bits) - 1)) << count;
        count += bits;
        while count >= 8 {
            bytes.push(waiting as u8);
            waiting >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        bytes.push(waiting as u8);
    }
    bytes
}

fn codes(bits: usize, bytes: &[u8]) -> impl Iterator<Item = u8> {
    let bit = |place: usize| bytes.get(place / 8).map_or(0, |byte| byte >> (place % 8) & 1);
    (0..8 * bytes.len() / bits)
        .map(move |code| (0..bits).map(|place| bit(code * bits + place) << place).sum())
}

/// The byte with the nearest value, ties to even.
fn nearest(value: f32, number: fn(u8) -> f32) -> u8 {
    let finite = (0..=u8::MAX).filter(|byte| number(*byte).is_finite());
    let distance = |byte: &u8| ((number(*byte) - value).abs(), byte & 1);
    finite.min_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap_or(Ordering::Equal)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_are_rounded_to_the_nearest() {
        let small = |data_type, value| unpack(data_type, &pack(data_type, &[value]).unwrap()).unwrap()[0];
        for (value, expected) in [(1.0, 1.0), (-1.06, -1.0), (1.0625, 1.0), (1.19, 1.25), (500.0, 448.0)] {
            assert_eq!(small(DataType::Fp8E4m3, value), expected, "{value}");
        }
        for (value, expected) in [(1.0, 1.0), (-1.2, -1.25), (1.125, 1.0), (2e-6, 0.0), (1e6, 57344.0)] {
            assert_eq!(small(DataType::Fp8E5m2, value), expected, "{value}");
        }
        for (value, expected) in [(1.0, 1.0), (0.3, 0.25), (5.0, 4.0), (2_f32.powi(-20), 2_f32.powi(-20))] {
            assert_eq!(small(DataType::Fp8E8m0, value), expected, "{value}");
        }
        for (data_type, values) in [
            (DataType::Fp4E2m1, [0.5, -6.0, 4.0]),
            (DataType::Fp6E2m3, [0.125, -7.5, 1.0]),
            (DataType::Fp6E3m2, [0.0625, -28.0, 5.0]),
            (DataType::Int4, [7.0, -8.0, 1.0]),
        ] {
            let bytes = pack(data_type, &values).unwrap();
            assert_eq!(unpack(data_type, &bytes).unwrap()[..3], values);
        }
        assert_eq!(pack(DataType::Fp4E2m1, &[1.0, -1.0, 6.0]).unwrap(), [0xa2, 0x07]);
        assert_eq!(pack(DataType::Fp8E4m3, &[2_f32.powi(-9), 448.0]).unwrap(), [1, 0x7e]);
    }
}
