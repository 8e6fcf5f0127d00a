//! Small calls of each operation, to compare PyTorch's functions with its stable interface.

use std::ffi::CStr;

use super::arguments::{CPU, Kind, dtype};
use super::functions::Functions;
use super::owned::Owned;
use super::recipe::{Made, packed};

/// A value of a call.
pub enum Sample {
    /// A tensor of floats with these sizes.
    T(&'static [i64]),
    /// Nothing.
    N,
    /// A number, or a boolean.
    I(i64),
    F(f64),
    /// A list.
    L(&'static [i64]),
    S(&'static str),
}

use Sample::{F, I, L, N, S, T};

/// A row of attention's arguments: query, key and value.
const Q: Sample = T(&[1, 2, 3, 4]);

/// The values of a call for an operation; none if it is unknown, or computes on GPUs only. The pieces of each result differ, and every
/// optional value is there where one is left out by another operation's call.
pub fn of(operation: &CStr) -> Option<&'static [Sample]> {
    Some(match operation.to_bytes() {
        b"aten::convolution" => &[
            T(&[1, 2, 5, 4]),
            T(&[3, 2, 2, 1]),
            T(&[3]),
            L(&[2, 1]),
            L(&[1, 0]),
            L(&[1, 1]),
            I(0),
            L(&[0, 0]),
            I(1),
        ],
        b"aten::convolution_backward" => &[
            T(&[1, 3, 3, 4]),
            T(&[1, 2, 5, 4]),
            T(&[3, 2, 2, 1]),
            L(&[3]),
            L(&[2, 1]),
            L(&[1, 0]),
            L(&[1, 1]),
            I(0),
            L(&[0, 0]),
            I(1),
            L(&[1, 0, 1]),
        ],
        b"aten::mm" => &[T(&[2, 3]), T(&[3, 4])],
        b"aten::bmm" => &[T(&[2, 2, 3]), T(&[2, 3, 4])],
        b"aten::mm.out" => &[T(&[2, 3]), T(&[3, 4]), T(&[2, 4])],
        b"aten::bmm.out" => &[T(&[2, 2, 3]), T(&[2, 3, 4]), T(&[2, 2, 4])],
        b"aten::native_layer_norm" => &[T(&[2, 4]), L(&[4]), T(&[4]), N, F(0.1)],
        b"aten::native_layer_norm_backward" => {
            &[T(&[2, 4]), T(&[2, 4]), L(&[4]), T(&[2, 1]), T(&[2, 1]), T(&[4]), N, L(&[1, 1, 0])]
        }
        b"aten::native_batch_norm" => &[T(&[3, 2, 2, 1]), T(&[2]), N, T(&[2]), T(&[2]), I(1), F(0.3), F(0.1)],
        b"aten::native_batch_norm_backward" => &[
            T(&[3, 2, 2, 1]),
            T(&[3, 2, 2, 1]),
            T(&[2]),
            N,
            N,
            T(&[2]),
            T(&[2]),
            I(1),
            F(0.1),
            L(&[1, 0, 1]),
        ],
        b"aten::native_group_norm" => &[T(&[2, 4, 3]), N, T(&[4]), I(2), I(4), I(3), I(2), F(0.1)],
        b"aten::native_group_norm_backward" => &[
            T(&[2, 4, 3]),
            T(&[2, 4, 3]),
            T(&[2, 2]),
            T(&[2, 2]),
            T(&[4]),
            I(2),
            I(4),
            I(3),
            I(2),
            L(&[1, 0, 1]),
        ],
        b"aten::_fused_rms_norm" => &[T(&[2, 4]), L(&[4]), T(&[4]), F(0.1)],
        b"aten::_softmax" | b"aten::_log_softmax" => &[T(&[2, 3]), I(1), I(0)],
        b"aten::_softmax_backward_data" | b"aten::_log_softmax_backward_data" => {
            &[T(&[2, 3]), T(&[2, 3]), I(1), I(dtype::FLOAT as i64)]
        }
        b"aten::_scaled_dot_product_flash_attention_for_cpu" => &[Q, Q, Q, F(0.0), I(0), T(&[3, 3]), F(0.3)],
        b"aten::_scaled_dot_product_flash_attention_for_cpu_backward" => {
            &[Q, Q, Q, Q, Q, T(&[1, 2, 3]), F(0.0), I(0), T(&[3, 3]), F(0.3)]
        }
        b"aten::gelu" => &[T(&[3]), S("tanh")],
        b"aten::gelu_backward" => &[T(&[3]), T(&[3]), S("tanh")],
        b"aten::silu" | b"aten::silu_" => &[T(&[3])],
        b"aten::silu_backward" => &[T(&[3]), T(&[3])],
        b"aten::max_pool2d_with_indices" => {
            &[T(&[1, 2, 6, 5]), L(&[3, 2]), L(&[2, 1]), L(&[1, 0]), L(&[1, 2]), I(1)]
        }
        b"aten::avg_pool2d" => &[T(&[1, 2, 6, 5]), L(&[3, 2]), L(&[2, 1]), L(&[1, 0]), I(1), I(0), I(7)],
        b"aten::avg_pool2d_backward" => {
            &[T(&[1, 2, 4, 4]), T(&[1, 2, 6, 5]), L(&[3, 2]), L(&[2, 1]), L(&[1, 0]), I(1), I(0), I(7)]
        }
        _ => return None,
    })
}

/// A new value of a kind for the stack, which then owns it.
pub fn value(f: &Functions, sample: &Sample, kind: Kind) -> Option<u64> {
    let plain = match sample {
        N => return (kind != Kind::Tensor).then_some(0),
        T(dims) => tensor(f, dims)?,
        I(number) => number.cast_unsigned(),
        F(number) => number.to_bits(),
        L(numbers) => list(f, numbers)?,
        S(text) => {
            let mut made = std::ptr::null_mut();
            // SAFETY: the address and length are those of a string, and the function writes only to the local `made`.
            let status = unsafe { (f.new_text?)(text.as_ptr().cast(), text.len(), &raw mut made) };
            (status == 0).then(|| made.expose_provenance() as u64)?
        }
    };
    if !kind.is_optional() {
        return Some(plain);
    }
    // SAFETY: the size is that of a value, whose memory is written before anything reads it.
    unsafe {
        let place = (f.allocate?)(size_of::<u64>());
        place.write(plain);
        Some(place.expose_provenance() as u64)
    }
}

/// A tensor of different numbers, most below one.
fn tensor(f: &Functions, dims: &[i64]) -> Option<u64> {
    let made = Made { dtype: dtype::FLOAT, dims: dims.to_vec(), strides: packed(dims) };
    let owned = Owned::new(f, &made, (CPU, 0)).ok()?;
    let count = usize::try_from(dims.iter().product::<i64>()).ok()?;
    // SAFETY: the tensor is new, and has this many floats without gaps.
    let numbers = unsafe { std::slice::from_raw_parts_mut(owned.data.cast::<f32>(), count) };
    numbers
        .iter_mut()
        .enumerate()
        .for_each(|(at, number)| *number = 0.9 - 0.37 * (at * 7 % 5) as f32 + 0.01 * at as f32);
    Some(owned.give())
}

fn list(f: &Functions, numbers: &[i64]) -> Option<u64> {
    let mut made = std::ptr::null_mut();
    // SAFETY: the function writes only to the local `made`.
    if unsafe { (f.new_list?)(numbers.len(), &raw mut made) } != 0 {
        return None;
    }
    for number in numbers {
        // SAFETY: `made` was just created, and nothing else has its handle.
        if unsafe { (f.push?)(made, number.cast_unsigned()) } != 0 {
            return None;
        }
    }
    Some(made.expose_provenance() as u64)
}
