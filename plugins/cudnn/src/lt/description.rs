//! Describes a chain to cuBLASLt: the matmul, its epilogue and the layouts of its matrices.

use std::ffi::c_int;

use hipdnn_plugin_planner::chain::{Activation, Chain, Summed};
use hipdnn_plugin_planner::product::Matrix;
use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::knob::Options;
use crate::lt::library::{
    COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_64F, CublasLt, DESC_AUX_BATCH_STRIDE, DESC_AUX_LEADING,
    DESC_BIAS_TYPE, DESC_EPILOGUE, DESC_TRANSA, DESC_TRANSB, EPILOGUE_BGRADA, EPILOGUE_BGRADB, EPILOGUE_BIAS,
    EPILOGUE_DEFAULT, EPILOGUE_DGELU, EPILOGUE_DGELU_BGRAD, EPILOGUE_GELU, EPILOGUE_GELU_AUX,
    EPILOGUE_GELU_AUX_BIAS, EPILOGUE_GELU_BIAS, EPILOGUE_RELU, EPILOGUE_RELU_BIAS, LAYOUT_BATCH_COUNT,
    LAYOUT_BATCH_OFFSET, OPERATION_N, OPERATION_T, R_8F_E4M3, R_8F_E5M2, R_16BF, R_16F, R_32F, R_64F,
};

/// A description of a chain for cuBLASLt.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) product: Object,
    pub(crate) a: Object,
    pub(crate) b: Object,
    /// Of the summand, or of the result if there is none.
    pub(crate) c: Object,
    pub(crate) d: Object,
}

impl Description {
    /// Describes the chain with this epilogue.
    pub(crate) fn new(
        lt: &'static CublasLt,
        chain: &Chain,
        epilogue: c_int,
        options: &Options,
    ) -> Result<Self, PluginError> {
        let product = &chain.product;
        let (compute_type, scale_type) = match (chain.double, options.tf32) {
            (true, _) => (COMPUTE_64F, R_64F),
            (false, true) if product.a.data_type == DataType::Float => (COMPUTE_32F_FAST_TF32, R_32F),
            (false, _) => (COMPUTE_32F, R_32F),
        };
        let described = lt.made("cublasLtMatmulDescCreate", lt.cublasLtMatmulDescDestroy, |described| {
            // SAFETY: the pointer is that of a local, the only place that the function writes to.
            unsafe { (lt.cublasLtMatmulDescCreate)(described, compute_type, scale_type) }
        })?;
        let operation = |matrix: &Matrix| if matrix.transposed { OPERATION_T } else { OPERATION_N };
        let mut numbers = vec![
            (DESC_TRANSA, operation(&product.a)),
            (DESC_TRANSB, operation(&product.b)),
            (DESC_EPILOGUE, epilogue),
        ];
        // Sums use the bias pointer and type.
        if let Some(bias) = chain.bias.or(chain.sums.map(|sums| sums.data_type)) {
            numbers.push((DESC_BIAS_TYPE, data_type(bias)));
        }
        for (attribute, value) in numbers {
            // SAFETY: the description is alive, and the value has its size.
            let status = unsafe {
                let value: *const c_int = &value;
                (lt.cublasLtMatmulDescSetAttribute)(
                    described.get(),
                    attribute,
                    value.cast(),
                    size_of::<c_int>(),
                )
            };
            lt.check("cublasLtMatmulDescSetAttribute", status)?;
        }
        if let Some(auxiliary) = product.auxiliary {
            let numbers = [(DESC_AUX_LEADING, auxiliary.leading), (DESC_AUX_BATCH_STRIDE, auxiliary.stride)];
            for (attribute, value) in numbers {
                let value = value as i64;
                // SAFETY: the description is alive, and the value has its size.
                let status = unsafe {
                    let value = (&raw const value).cast();
                    (lt.cublasLtMatmulDescSetAttribute)(described.get(), attribute, value, size_of::<i64>())
                };
                lt.check("cublasLtMatmulDescSetAttribute", status)?;
            }
        }
        let layout = |matrix: &Matrix, rows, columns| layout(lt, matrix, rows, columns, product.batch);
        let summand = product.summand.unwrap_or(product.c);
        Ok(Self {
            product: described,
            a: layout(&product.a, product.m, product.k)?,
            b: layout(&product.b, product.k, product.n)?,
            c: layout(&summand, product.m, product.n)?,
            d: layout(&product.c, product.m, product.n)?,
        })
    }
}

/// Required multiple of the strides between columns and matrices of the auxiliary matrix, in elements.
const AUXILIARY: usize = 8;

/// cuBLASLt's number of the chain's epilogue.
pub(crate) fn epilogue(chain: &Chain) -> Result<c_int, Refusal> {
    let auxiliary = chain.product.auxiliary;
    let steps = auxiliary.map_or([0; 2], |matrix| [matrix.leading, matrix.stride]);
    if let Some(step) = steps.into_iter().find(|step| !step.is_multiple_of(AUXILIARY)) {
        return Err(Refusal::new(format!(
            "the input of GELU: a stride is {step}, expected a multiple of {AUXILIARY} elements if it is saved or for its gradient"
        )));
    }
    let (bias, kept) = (chain.bias.is_some(), auxiliary.is_some());
    Ok(match (chain.activation, bias, chain.sums.map(|sums| sums.of)) {
        (None, false, None) => EPILOGUE_DEFAULT,
        (None, false, Some(Summed::A)) => EPILOGUE_BGRADA,
        (None, false, Some(Summed::B)) => EPILOGUE_BGRADB,
        (None, true, None) => EPILOGUE_BIAS,
        (Some(Activation::Relu), false, None) => EPILOGUE_RELU,
        (Some(Activation::Relu), true, None) => EPILOGUE_RELU_BIAS,
        (Some(Activation::Gelu), false, None) if kept => EPILOGUE_GELU_AUX,
        (Some(Activation::Gelu), true, None) if kept => EPILOGUE_GELU_AUX_BIAS,
        (Some(Activation::Gelu), false, None) => EPILOGUE_GELU,
        (Some(Activation::Gelu), true, None) => EPILOGUE_GELU_BIAS,
        (Some(Activation::GeluBackward), false, None) => EPILOGUE_DGELU,
        (Some(Activation::GeluBackward), false, Some(Summed::Result)) => EPILOGUE_DGELU_BGRAD,
        (Some(Activation::Swish), ..) => {
            return Err(
                "operation: is SWISH after a matmul, expected RELU or GELU with the tanh approximation"
                    .into(),
            );
        }
        // Cannot occur in a chain.
        _ => return Err("operation: sums of what cuBLASLt does not sum beside a product".into()),
    })
}

/// CUDA's number of a data type that occurs in chains.
fn data_type(data_type: DataType) -> c_int {
    match data_type {
        DataType::Half => R_16F,
        DataType::Bfloat16 => R_16BF,
        DataType::Double => R_64F,
        DataType::Fp8E4m3 => R_8F_E4M3,
        DataType::Fp8E5m2 => R_8F_E5M2,
        _ => R_32F,
    }
}

/// The layout of a matrix with this many rows and columns after any transposition.
fn layout(
    lt: &'static CublasLt,
    matrix: &Matrix,
    rows: usize,
    columns: usize,
    batch: usize,
) -> Result<Object, PluginError> {
    let (rows, columns) = if matrix.transposed { (columns, rows) } else { (rows, columns) };
    let data_type = data_type(matrix.data_type);
    let layout = lt.made("cublasLtMatrixLayoutCreate", lt.cublasLtMatrixLayoutDestroy, |layout| {
        let (rows, columns, leading) = (rows as u64, columns as u64, matrix.leading as i64);
        // SAFETY: the pointer is that of a local, the only place that the function writes to.
        unsafe { (lt.cublasLtMatrixLayoutCreate)(layout, data_type, rows, columns, leading) }
    })?;
    let (count, stride) = (batch as i32, matrix.stride as i64);
    // SAFETY: the layout is alive, and the values have their sizes.
    unsafe {
        let set = lt.cublasLtMatrixLayoutSetAttribute;
        let status = set(layout.get(), LAYOUT_BATCH_COUNT, (&raw const count).cast(), size_of::<i32>());
        lt.check("cublasLtMatrixLayoutSetAttribute", status)?;
        let status = set(layout.get(), LAYOUT_BATCH_OFFSET, (&raw const stride).cast(), size_of::<i64>());
        lt.check("cublasLtMatrixLayoutSetAttribute", status)?;
    }
    Ok(layout)
}
