//! The properties of dtypes that block scale operations use.

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::rounding::{to_bfloat16, to_half};
use hipdnn_plugin_sdk::small_float;

use crate::kernel::Refusal;
use crate::layout::Walk;
use crate::problem::Operand;
use crate::tensor::view::{Memory, Pointers};

/// The largest value of a dtype to quantize to.
pub(crate) fn largest_of(data_type: DataType) -> Result<f64, Refusal> {
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

/// A dtype of scales: its largest value, and conversions to codes, ordered like the values, and back.
#[derive(Clone, Copy)]
pub(crate) struct ScaleType {
    pub(crate) largest: f64,
    code: fn(f64) -> u64,
    value: fn(u64) -> f64,
}

impl ScaleType {
    /// The smallest value of the dtype that is at least the finite value `exact`, limited to the largest.
    pub(crate) fn round_up(&self, exact: f64) -> f64 {
        if exact >= self.largest {
            return self.largest;
        }
        let code = (self.code)(exact);
        let near = (self.value)(code);
        if near < exact { (self.value)(code + 1) } else { near }
    }
}

/// The dtype of scales.
pub(crate) fn scale_type(data_type: DataType) -> Result<ScaleType, Refusal> {
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
            code: |v| u64::from(to_half(v).to_bits()),
            value: |c| f16::from_bits(c as u16).to_f64(),
        },
        DataType::Bfloat16 => ScaleType {
            largest: bf16::MAX.to_f64(),
            code: |v| u64::from(to_bfloat16(v).to_bits()),
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

/// Whether y only has integers.
pub(crate) fn is_whole(y: DataType) -> bool {
    matches!(y, DataType::Int4 | DataType::Int8)
}

/// An error that names the first element of x that is NaN or infinite.
pub(crate) fn check_finite(x: &Operand, memory: &Memory<f64>, tensors: Pointers<'_>) -> Result<(), Refusal> {
    let x_of_run = memory.bind(tensors);
    for (index, [at]) in Walk::new(x.layout.dims(), [x.layout.strides()]) {
        let value = x_of_run.get(at);
        if !value.is_finite() {
            return Err(format!("x: is {value} at {:?}, expected finite values", &index[..x.layout.rank()]));
        }
    }
    Ok(())
}
