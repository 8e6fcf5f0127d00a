//! Block scale quantization and its inverse, in double precision, so that a result is rounded once.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of x, at most MAX_RANK")]

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::small_float;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::block_scale as problem;
use crate::problem::block_scale::BlockScale;
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers};

pub(crate) fn plan(problem: BlockScale) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match problem {
        BlockScale::Quantize(problem) => Box::new(Quantize {
            x: Memory::of("x", &problem.x)?,
            y: Memory::of_any("y", &problem.y)?,
            largest: largest_of(problem.y.data_type)?,
            whole: matches!(problem.y.data_type, DataType::Int4 | DataType::Int8),
            scale: Memory::of_any("scale", &problem.scale)?,
            scale_type: scale_type(problem.scale.data_type)?,
            problem: *problem,
        }),
        BlockScale::Dequantize(problem) => Box::new(Dequantize {
            x: Memory::of_any("x", &problem.x)?,
            scale: Memory::of_any("scale", &problem.scale)?,
            y: Memory::of("y", &problem.y)?,
            problem: *problem,
        }),
    })
}

/// The largest value of a dtype to quantize to.
fn largest_of(data_type: DataType) -> Result<f64, Refusal> {
    use DataType as D;
    Ok(match data_type {
        D::Fp6E2m3 => small_float::E2M3.largest(),
        D::Fp6E3m2 => small_float::E3M2.largest(),
        D::Fp4E2m1 => small_float::E2M1.largest(),
        D::Int4 => 7.0,
        D::Int8 => 127.0,
        D::Fp8E4m3 | D::Fp8E5m2 | D::Fp8E4m3Fnuz | D::Fp8E5m2Fnuz => scale_type(data_type)?.largest,
        other => {
            return Err(format!(
                "y: data type is {}, expected a floating-point type of 4 to 8 bits with a sign, int4 or int8",
                other.name()
            ));
        }
    })
}

/// A dtype of scales: its largest value, and the conversion of values to codes, which are in the order of the values, and back.
#[derive(Clone, Copy)]
struct ScaleType {
    largest: f64,
    code: fn(f64) -> u64,
    value: fn(u64) -> f64,
}

impl ScaleType {
    /// The smallest value of the dtype that is not below the finite value `exact`; at most the largest.
    fn round_up(&self, exact: f64) -> f64 {
        if exact >= self.largest {
            return self.largest;
        }
        let code = (self.code)(exact);
        let near = (self.value)(code);
        if near < exact { (self.value)(code + 1) } else { near }
    }
}

fn scale_type(data_type: DataType) -> Result<ScaleType, Refusal> {
    macro_rules! small {
        ($format:ident) => {
            ScaleType {
                largest: small_float::$format.largest(),
                code: |v| u64::from(small_float::$format.encode(v)),
                value: |c| small_float::$format.decode(c as u8),
            }
        };
    }
    Ok(match data_type {
        DataType::Fp8E8m0 => ScaleType {
            largest: small_float::decode_e8m0(u8::MAX - 1),
            code: |v| u64::from(small_float::encode_e8m0(v)),
            value: |c| small_float::decode_e8m0(c as u8),
        },
        DataType::Fp8E4m3 => small!(E4M3),
        DataType::Fp8E5m2 => small!(E5M2),
        DataType::Fp8E4m3Fnuz => small!(E4M3_FNUZ),
        DataType::Fp8E5m2Fnuz => small!(E5M2_FNUZ),
        DataType::Half => ScaleType {
            largest: f16::MAX.to_f64(),
            code: |v| u64::from(f16::from_f64(v).to_bits()),
            value: |c| f16::from_bits(c as u16).to_f64(),
        },
        DataType::Bfloat16 => ScaleType {
            largest: bf16::MAX.to_f64(),
            code: |v| u64::from(bf16::from_f64(v).to_bits()),
            value: |c| bf16::from_bits(c as u16).to_f64(),
        },
        DataType::Float => ScaleType {
            largest: f64::from(f32::MAX),
            code: |v| u64::from((v as f32).to_bits()),
            value: |c| f64::from(f32::from_bits(c as u32)),
        },
        DataType::Double => {
            ScaleType { largest: f64::MAX, code: |v: f64| v.to_bits(), value: f64::from_bits }
        }
        other => {
            return Err(format!(
                "scale: data type is {}, expected fp8_e8m0 or another floating-point type of 8 bits or more",
                other.name()
            ));
        }
    })
}

struct Quantize {
    problem: problem::Quantize,
    x: Memory<f64>,
    y: Memory<f64>,
    /// The largest value of y's dtype.
    largest: f64,
    /// Whether y's dtype has integers only.
    whole: bool,
    scale: Memory<f64>,
    scale_type: ScaleType,
}

impl Quantize {
    /// The number of elements of the block at `index`.
    fn len(&self, index: &[usize; MAX_RANK]) -> usize {
        let p = &self.problem;
        let dim = p.x.layout.dims()[p.axis];
        p.block.min(dim - index[p.axis] * p.block)
    }

    /// The blocks, with the offsets of their first elements in x, y and scale.
    fn blocks(&self) -> Walk<3> {
        let p = &self.problem;
        let (mut dims, mut x_strides, mut y_strides) = ([1; MAX_RANK], [0; MAX_RANK], p.y_strides);
        let rank = p.x.layout.rank();
        dims[..rank].copy_from_slice(p.x.layout.dims());
        x_strides[..rank].copy_from_slice(p.x.layout.strides());
        dims[p.axis] = dims[p.axis].div_ceil(p.block);
        // With a single block this stride is not used, and may be anything.
        x_strides[p.axis] = x_strides[p.axis].wrapping_mul(p.block);
        y_strides[p.axis] = y_strides[p.axis].wrapping_mul(p.block);
        Walk::new(&dims[..rank], [&x_strides, &y_strides, &p.scale_strides])
    }
}

impl Reference for Quantize {
    fn check_values(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        let layout = &self.problem.x.layout;
        let x = self.x.bind(tensors);
        for (index, [at]) in Walk::new(layout.dims(), [layout.strides()]) {
            let value = x.get(at);
            if !value.is_finite() {
                let index = &index[..layout.rank()];
                return Err(format!("x: is {value} at {index:?}, expected finite numbers"));
            }
        }
        Ok(())
    }

    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let p = &self.problem;
        let (x_step, y_step) = (p.x.layout.strides()[p.axis], p.y_strides[p.axis]);
        let (x, y, scales) = (self.x.bind(tensors), self.y.bind(tensors), self.scale.bind(tensors));
        for (index, [x_at, y_at, scale_at]) in self.blocks() {
            let len = self.len(&index);
            let amax = (0..len).map(|i| x.get(x_at + i * x_step).abs()).fold(0.0, f64::max);
            let scale = self.scale_type.round_up(amax / self.largest);
            scales.set(scale_at, scale);
            for i in 0..len {
                let value = if scale == 0.0 { 0.0 } else { x.get(x_at + i * x_step) / scale };
                let value = value.clamp(-self.largest, self.largest);
                // Stores of integers truncate.
                let value = if self.whole { value.round_ties_even() } else { value };
                y.set(y_at + i * y_step, value);
            }
        }
    }
}

struct Dequantize {
    problem: problem::Dequantize,
    x: Memory<f64>,
    scale: Memory<f64>,
    y: Memory<f64>,
}

impl Reference for Dequantize {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let p = &self.problem;
        let strides = p.scale.layout.strides();
        let (x, y, scales) = (self.x.bind(tensors), self.y.bind(tensors), self.scale.bind(tensors));
        for (index, [x_at, y_at]) in
            Walk::new(p.x.layout.dims(), [p.x.layout.strides(), p.y.layout.strides()])
        {
            let blocks = strides.iter().enumerate();
            let scale = scales.get(blocks.map(|(axis, stride)| index[axis] / p.block[axis] * stride).sum());
            let factor = if p.is_negative_scale { (-scale).exp2() } else { scale };
            y.set(y_at, x.get(x_at) * factor);
        }
    }
}
