//! Device memory with the elements of a tensor.

use std::ffi::c_void;

use half::{bf16, f16};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::DataType;

use crate::Failure;

/// Device memory, freed when it is dropped.
pub struct DeviceMemory {
    gpu: Gpu,
    /// Where it begins.
    pub pointer: *mut c_void,
    size: usize,
}

impl DeviceMemory {
    /// So many bytes, at least one.
    pub fn new(gpu: Gpu, size: usize) -> Result<Self, Failure> {
        Ok(Self { gpu, pointer: gpu.allocate(size)?, size })
    }

    /// Memory with these bytes.
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
        // SAFETY: the memory has as many bytes.
        unsafe { self.gpu.download(&mut bytes, self.pointer) }?;
        Ok(bytes)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        unsafe { self.gpu.free(self.pointer) };
    }
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
        other => return Err(Failure(format!("no test data of type {}", other.name()))),
    })
}
