//! PyTorch's operations with kernels: their arguments, and the graphs that calls become.

mod activation;
mod attention;
mod convolution;
mod group;
mod normalization;
mod pooling;
mod product;
mod softmax;

use std::sync::atomic::AtomicBool;

use super::arguments::{Kind, TensorValue, Value};
use super::functions::Kernel;
use super::kernels::enter;
use super::planning::{Class, Op};
use super::proof::Proof;
use super::recipe::Reason;

/// Declares operations: name, arguments, number of results, class, and the function that makes the recipe.
macro_rules! operations {
    ($($name:literal: [$($kind:ident),*] -> $answers:literal, $class:ident, $recipe:path;)*) => {
        /// Every operation, with its kernel.
        pub static OPERATIONS: &[(&Op, Kernel)] = &[$({
            /// # Safety
            /// `stack` has a value for each argument of the schema, and room for the results.
            unsafe extern "C-unwind" fn kernel(stack: *mut u64, _: u64, _: u64) {
                // SAFETY: PyTorch calls it with a value for each argument in the schema, and room for the results.
                unsafe { enter(&OP, stack) };
            }
            static OP: Op = Op {
                name: $name,
                kinds: &[$(Kind::$kind),*],
                answers: $answers,
                class: Class::$class,
                recipe: $recipe,
                direct: Proof::new(),
                is_left: AtomicBool::new(false),
            };
            (&OP, kernel)
        }),*];
    };
}

operations! {
    c"aten::convolution": [Tensor, Tensor, OptionalTensor, Ints, Ints, Ints, Bool, Ints, Int]
        -> 1, Product, convolution::forward;
    c"aten::convolution_backward":
        [Tensor, Tensor, Tensor, OptionalInts, Ints, Ints, Ints, Bool, Ints, Int, Bools]
        -> 3, Product, convolution::backward;
    c"aten::mm": [Tensor, Tensor] -> 1, Product, product::mm;
    c"aten::bmm": [Tensor, Tensor] -> 1, Product, product::bmm;
    c"aten::mm.out": [Tensor, Tensor, Tensor] -> 1, Product, product::mm_out;
    c"aten::bmm.out": [Tensor, Tensor, Tensor] -> 1, Product, product::bmm_out;
    c"aten::native_layer_norm": [Tensor, Ints, OptionalTensor, OptionalTensor, Float]
        -> 3, Faster, normalization::layer_norm;
    c"aten::native_layer_norm_backward":
        [Tensor, Tensor, Ints, Tensor, Tensor, OptionalTensor, OptionalTensor, Bools]
        -> 3, Faster, normalization::layer_norm_backward;
    c"aten::_fused_rms_norm": [Tensor, Ints, OptionalTensor, OptionalFloat]
        -> 2, Faster, normalization::rms_norm;
    c"aten::_fused_rms_norm_backward": [Tensor, Tensor, Ints, Tensor, OptionalTensor, Bools]
        -> 2, Faster, normalization::rms_norm_backward;
    c"aten::native_batch_norm":
        [Tensor, OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor, Bool, Momentum, Float]
        -> 3, Plain, normalization::batch_norm;
    c"aten::native_batch_norm_backward":
        [Tensor, Tensor, OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor, Bool, Float, Bools]
        -> 3, Plain, normalization::batch_norm_backward;
    c"aten::native_group_norm": [Tensor, OptionalTensor, OptionalTensor, Int, Int, Int, Int, Float]
        -> 3, FasterOnGpus, group::forward;
    c"aten::native_group_norm_backward":
        [Tensor, Tensor, Tensor, Tensor, OptionalTensor, Int, Int, Int, Int, Bools]
        -> 3, FasterOnGpus, group::backward;
    c"aten::_softmax": [Tensor, Int, Bool] -> 1, Plain, softmax::forward;
    c"aten::_softmax_backward_data": [Tensor, Tensor, Int, Int] -> 1, Plain, softmax::backward;
    c"aten::_log_softmax": [Tensor, Int, Bool] -> 1, Plain, softmax::log_forward;
    c"aten::_log_softmax_backward_data": [Tensor, Tensor, Int, Int] -> 1, Plain, softmax::log_backward;
    c"aten::gelu": [Tensor, Text] -> 1, Plain, activation::gelu;
    c"aten::gelu_backward": [Tensor, Tensor, Text] -> 1, Plain, activation::gelu_backward;
    c"aten::silu": [Tensor] -> 1, Plain, activation::silu;
    c"aten::silu_": [Tensor] -> 1, Plain, activation::silu_in_place;
    c"aten::silu_backward": [Tensor, Tensor] -> 1, Plain, activation::silu_backward;
    c"aten::max_pool2d_with_indices": [Tensor, Ints, Ints, Ints, Ints, Bool] -> 2, Plain, pooling::maximum;
    c"aten::avg_pool2d": [Tensor, Ints, Ints, Ints, Bool, Bool, OptionalInt] -> 1, Plain, pooling::average;
    c"aten::avg_pool2d_backward": [Tensor, Tensor, Ints, Ints, Ints, Bool, Bool, OptionalInt]
        -> 1, Plain, pooling::average_backward;
    c"aten::_scaled_dot_product_flash_attention_for_cpu":
        [Tensor, Tensor, Tensor, Float, Bool, OptionalTensor, OptionalFloat]
        -> 2, Product, attention::forward;
    c"aten::_scaled_dot_product_flash_attention_for_cpu_backward":
        [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Float, Bool, OptionalTensor, OptionalFloat]
        -> 3, Product, attention::backward;
    c"aten::_scaled_dot_product_flash_attention_backward":
        [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, MaybeTensor, MaybeTensor, Int, Int, Float, Bool,
            UnusedTensor, UnusedTensor, OptionalFloat]
        -> 3, FasterProduct, attention::flash_backward;
}

/// The argument at an index, which must be a tensor.
fn tensor(values: &[Value], at: usize) -> Result<&TensorValue, Reason> {
    match values.get(at) {
        Some(Value::Tensor(of)) => Ok(of),
        Some(Value::None) => Err("a tensor is left out".to_owned()),
        _ => Err("an argument of another kind".to_owned()),
    }
}

/// The argument at an index, if it is a tensor.
fn optional(values: &[Value], at: usize) -> Option<&TensorValue> {
    tensor(values, at).ok()
}

fn int(values: &[Value], at: usize) -> Result<i64, Reason> {
    match values.get(at) {
        Some(Value::Int(number)) => Ok(*number),
        _ => Err("an argument of another kind".to_owned()),
    }
}

fn float(values: &[Value], at: usize) -> Result<f64, Reason> {
    match values.get(at) {
        Some(Value::Float(number)) => Ok(*number),
        _ => Err("an argument of another kind".to_owned()),
    }
}

fn ints(values: &[Value], at: usize) -> Result<&[i64], Reason> {
    match values.get(at) {
        Some(Value::Ints(numbers)) => Ok(numbers),
        _ => Err("an argument of another kind".to_owned()),
    }
}

fn text(values: &[Value], at: usize) -> Result<&str, Reason> {
    match values.get(at) {
        Some(Value::Text(text)) => Ok(text),
        _ => Err("an argument of another kind".to_owned()),
    }
}

/// Leaves a call to PyTorch unless a condition holds.
fn require(holds: bool, reason: &str) -> Result<(), Reason> {
    if holds { Ok(()) } else { Err(reason.to_owned()) }
}

/// Leaves a call to PyTorch unless all tensors have the same type.
fn same_type(tensors: &[&TensorValue]) -> Result<(), Reason> {
    let Some(first) = tensors.first() else { return Ok(()) };
    require(tensors.iter().all(|of| of.dtype == first.dtype), "tensors of several types")
}

/// The number of elements; larger than any tensor on overflow.
fn product(dims: &[i64]) -> i64 {
    dims.iter().fold(1, |product: i64, size| product.saturating_mul(*size))
}
