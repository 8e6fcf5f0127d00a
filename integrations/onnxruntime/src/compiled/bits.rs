//! Products with block-quantized weights: directly for a few rows, otherwise by unpacking to single precision for an engine's matmul.

use std::borrow::Cow;
use std::slice;

use crate::bits::{Form, Matrix, Rows, Zeros};
use crate::lowering::Slab;
use crate::model::Element;
use crate::threads::Parallel;

/// The least columns that a thread computes at a time.
const COLUMNS: usize = 32;

/// The most parts into which columns are divided.
const PARTS: usize = 64;

/// The output of several threads, each of which writes its own elements.
struct Target(*mut f32);

// SAFETY: each element is written by one thread.
unsafe impl Sync for Target {}

impl Target {
    /// A row with this many elements, whose first one is aligned.
    ///
    /// # Safety
    /// The elements may be written, and only this thread uses them.
    #[expect(clippy::mut_from_ref, reason = "each row is used by one thread")]
    unsafe fn row(&self, row: usize, count: usize) -> &mut [f32] {
        // SAFETY: the elements may be written, and only this thread uses them, as this function requires.
        unsafe { slice::from_raw_parts_mut(self.0.wrapping_add(row * count), count) }
    }

    /// Writes an element.
    ///
    /// # Safety
    /// The element may be written, and only this thread writes it.
    unsafe fn write(&self, at: usize, value: f32) {
        // SAFETY: the element may be written, and only this thread writes it, as this function requires; the write may be unaligned.
        unsafe { self.0.wrapping_add(at).write_unaligned(value) };
    }
}

/// The numbers of a packed float tensor, copied if they are unaligned.
///
/// # Safety
/// The tensor's memory is only read while the result lives.
unsafe fn floats<'a>(slab: &Slab<'a>, count: usize) -> Result<Cow<'a, [f32]>, String> {
    if slab.count() != count {
        return Err(format!("{} numbers, expected {count} of float", slab.count()));
    }
    // SAFETY: the tensor's memory is only read while the result lives, as this function requires.
    unsafe { slab.items() }
}

/// The bytes of a packed tensor.
///
/// # Safety
/// The tensor's memory is only read while the result lives.
unsafe fn bytes<'a>(slab: &Slab<'a>, count: usize) -> Result<&'a [u8], String> {
    if slab.bound.element != Element::Uint8 || slab.count() != count {
        return Err(format!("{} numbers, expected {count} bytes", slab.count()));
    }
    // SAFETY: the tensor's memory is only read while the result lives, as this function requires.
    Ok(unsafe { slice::from_raw_parts(slab.start.cast_const(), count) })
}

/// The matrix of weights, scales and zeros.
///
/// # Safety
/// The tensors' memory is only read while the result lives.
unsafe fn matrix<'a>(form: Form, reads: &[Slab<'a>]) -> Result<Matrix<'a>, String> {
    let ([b, scales], zeros) = match reads {
        [b, scales] => ([b, scales], None),
        [b, scales, zeros] => ([b, scales], Some(zeros)),
        _ => return Err(format!("weights of {} tensors", reads.len())),
    };
    // SAFETY: the tensors' memory is only read while the result lives, as this function requires.
    unsafe {
        let zeros = match zeros {
            None => Zeros::Middle,
            Some(zeros) if zeros.bound.element == Element::Float => {
                Zeros::Floats(floats(zeros, form.scales())?)
            }
            Some(zeros) => Zeros::Packed(bytes(zeros, form.zero_bytes())?),
        };
        Matrix::new(form, bytes(b, form.bytes())?, floats(scales, form.scales())?, zeros)
    }
}

/// Calls `work` with ranges that partition `count`.
fn divided(
    count: usize,
    parallel: Parallel<'_>,
    work: &(dyn Fn(std::ops::Range<usize>) + Sync),
) -> Result<(), String> {
    let parts = count.div_ceil(COLUMNS).min(PARTS);
    parallel(parts, &|part| work(count * part / parts..count * (part + 1) / parts))
}

/// Unpacks the weights to single precision, n rows of k numbers.
///
/// # Safety
/// The tensors are readable, and the result is writable and overlaps none of them.
pub(super) unsafe fn unpack(
    form: Form,
    reads: &[Slab<'_>],
    to: Slab<'_>,
    parallel: Parallel<'_>,
) -> Result<(), String> {
    // SAFETY: the tensors are readable, and the result is writable and overlaps none of them, as this function requires.
    let matrix = unsafe { matrix(form, reads) }?;
    if to.bound.element != Element::Float || to.count() != form.n * form.k {
        return Err(format!("there is room for {} numbers, expected {} × {}", to.count(), form.n, form.k));
    }
    let start = to.start.cast::<f32>();
    if !start.is_aligned() {
        return Err("the memory is not aligned for float".to_owned());
    }
    let target = Target(start);
    divided(form.n, parallel, &|rows| {
        for row in rows {
            // SAFETY: the result has n × k aligned elements, and only this thread writes this row.
            let numbers = unsafe { target.row(row, form.k) };
            matrix.row(row, numbers);
        }
    })
}

/// Multiplies the rows of the first tensor by the weights.
///
/// # Safety
/// The tensors are readable, and the result is writable and overlaps none of them.
pub(super) unsafe fn multiply(
    form: Form,
    reads: &[Slab<'_>],
    to: Slab<'_>,
    parallel: Parallel<'_>,
) -> Result<(), String> {
    let Some((a, weights)) = reads.split_first() else { return Err("a product without operands".to_owned()) };
    let count = a.count() / form.k;
    // SAFETY: the tensors are readable, and the result is writable and overlaps none of them, as this function requires.
    let (a, matrix) = unsafe { (floats(a, count * form.k)?, matrix(form, weights)?) };
    if to.bound.element != Element::Float || to.count() != count * form.n {
        return Err(format!("there is room for {} numbers, expected {count} × {}", to.count(), form.n));
    }
    let rows = Rows::new(form, count, |at| a.get(at).copied().unwrap_or(0.0));
    let target = Target(to.start.cast());
    divided(form.n, parallel, &|columns| {
        matrix.multiply(&rows, columns, &mut |row, column, value| {
            // SAFETY: the result has count × n elements, and only this thread writes this column.
            unsafe { target.write(row * form.n + column, value) };
        });
    })
}
