//! Packing: copies operands in the order in which micro-kernels read them, and stores accumulators as
//! results.

use std::any::TypeId;

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::prefetch::{PREFETCH_ROWS, prefetch_all};
use crate::kernel::Refusal;
use crate::simd::array;
use crate::simd::convert::{block, narrow, transpose, widen};
use crate::simd::isa::Isa;
use crate::simd::stored::{Stored, with_float};
use crate::simd::vector::{Float, Vector, VectorTask};

/// A matrix to pack.
pub(crate) struct PackSource {
    /// Its first element.
    pub(crate) from: *const u8,
    /// Its rows, and their stride in elements.
    pub(crate) rows: usize,
    pub(crate) row: usize,
    /// Its columns, and their stride in elements.
    pub(crate) columns: usize,
    pub(crate) column: usize,
    /// Columns of the copy; those beyond the matrix are zero.
    pub(crate) width: usize,
    /// Row stride of the copy, at least `width`.
    pub(crate) row_stride: usize,
}

/// Accumulators to store.
pub(crate) struct Accumulators<T> {
    /// The first one.
    pub(crate) from: *const T,
    /// Their row stride.
    pub(crate) row_stride: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Row and column stride of the destination, in elements.
    pub(crate) row: usize,
    pub(crate) column: usize,
}

/// Packs a matrix of one dtype.
pub(crate) type Pack<T> = unsafe fn(Isa, &PackSource, *mut T);

/// Stores accumulators as one dtype.
pub(crate) type Store<T> = unsafe fn(Isa, &Accumulators<T>, *mut u8);

/// The routine that packs from a dtype; `name` is the operand's in a refusal.
pub(crate) fn pack_of<T: Float>(name: &str, data_type: DataType) -> Result<Pack<T>, Refusal> {
    Ok(with_float!(data_type, S => pack::<S, T>, other => match other {
        DataType::Int8 => pack::<i8, T>,
        DataType::Uint8 => pack::<u8, T>,
        DataType::Int32 => pack::<i32, T>,
        other => return Err(is_other(name, other)),
    }))
}

/// The routine that stores to a dtype.
pub(crate) fn store_of<T: Float>(name: &str, data_type: DataType) -> Result<Store<T>, Refusal> {
    Ok(with_float!(data_type, S => store::<S, T>, other => match other {
        DataType::Int8 => store::<i8, T>,
        DataType::Uint8 => store::<u8, T>,
        DataType::Int32 => store::<i32, T>,
        other => return Err(is_other(name, other)),
    }))
}

/// The refusal of a dtype.
fn is_other(name: &str, data_type: DataType) -> Refusal {
    format!(
        "{name}: data type is {}, expected float, double, half, bfloat16, int32, int8, uint8 or a float of 8 bits",
        data_type.name()
    )
}

/// # Safety
/// The processor supports the instruction set, the matrix is readable, and rows of `width` values with stride
/// `row_stride` are writable.
unsafe fn pack<S: Stored, T: Float>(isa: Isa, copy: &PackSource, to: *mut T) {
    // SAFETY: this function requires the instruction set, the matrix and the room for the result.
    unsafe { isa.run_vectors(Packing::<S, T> { copy, from: copy.from.cast(), to }) };
}

/// # Safety
/// The processor supports the instruction set, the accumulators are readable, and the elements are writable.
unsafe fn store<S: Stored, T: Float>(isa: Isa, accumulators: &Accumulators<T>, to: *mut u8) {
    // SAFETY: this function requires the instruction set, the matrix and the room for the result.
    unsafe { isa.run_vectors(Storing::<S, T> { accumulators, to: to.cast() }) };
}

struct Packing<'a, S, T> {
    copy: &'a PackSource,
    from: *const S,
    to: *mut T,
}

/// Columns that are read in parallel if a row's elements are not contiguous.
const STREAMS: usize = 16;

impl<S: Stored, T: Float> VectorTask<T> for Packing<'_, S, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let Self { copy: PackSource { rows, row, columns, column, width, row_stride, .. }, from, to } = self;
        let (rows, row, columns, column, width, row_stride) =
            (*rows, *row, *columns, *column, *width, *row_stride);
        if column == 1 {
            for i in 0..rows {
                prefetch_all(from.wrapping_add((i + PREFETCH_ROWS) * row), columns);
                // SAFETY: `pack` is called with a readable matrix and room for the copy.
                unsafe { copy_row::<S, V>(from.add(i * row), to.add(i * row_stride), columns) };
            }
        } else {
            let side = block::<S, V::Scalar>(V::ISA);
            for first in (0..columns).step_by(STREAMS) {
                // The last block ends with the last column, so it may overlap the previous one.
                let is_short = side > 0 && !(width - first).min(STREAMS).is_multiple_of(side);
                let first = if is_short && row == 1 { first.min(width.saturating_sub(side)) } else { first };
                let present = (columns - first).min(STREAMS);
                let room = (width - first).min(STREAMS);
                let mut i = 0;
                if row == 1 {
                    let (from, to) = (from.wrapping_add(first * column), to.wrapping_add(first));
                    // SAFETY: the matrix has these columns, and the copy room for them.
                    i = unsafe {
                        copy_columns::<S, V>((from, column), present, rows, (to, row_stride, room))
                    };
                }
                for i in i..rows {
                    for j in first..first + present {
                        // SAFETY: the matrix has the row and the column, and the copy room for both.
                        unsafe {
                            let element = from.add(i * row + j * column).read_unaligned();
                            to.add(i * row_stride + j).write(element.value());
                        }
                    }
                }
            }
        }
        if columns < width {
            for i in 0..rows {
                // SAFETY: rows of the copy are `width` long.
                unsafe { to.add(i * row_stride + columns).write_bytes(0, width - columns) };
            }
        }
    }
}

/// Packs up to [`STREAMS`] contiguous columns by transposing blocks, as far as the instruction set allows;
/// returns the number of rows done.
///
/// # Safety
/// The columns are readable, rows of `room` values are writable, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn copy_columns<S: Stored, V: Vector>(
    (from, column): (*const S, usize),
    columns: usize,
    rows: usize,
    (to, row_stride, room): (*mut V::Scalar, usize, usize),
) -> usize {
    let side = block::<S, V::Scalar>(V::ISA);
    if side == 0 || !room.is_multiple_of(side) {
        return 0;
    }
    if rows < side {
        return 0;
    }
    // As with columns, the last block ends with the last row.
    for block in 0..rows.div_ceil(side) {
        let i = (block * side).min(rows - side);
        for j in (0..columns).step_by(side) {
            // SAFETY: the block has `side` rows, and as many columns in the copy.
            unsafe {
                let from = from.add(j * column + i);
                transpose(
                    V::ISA,
                    (from, column),
                    (columns - j).min(side),
                    (to.add(i * row_stride + j), row_stride),
                );
            }
        }
    }
    rows
}

/// Copies `len` contiguous elements.
///
/// # Safety
/// `from` is readable and `to` writable for `len` elements, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn copy_row<S: Stored, V: Vector>(from: *const S, to: *mut V::Scalar, len: usize) {
    let mut j = 0;
    let together = if TypeId::of::<S>() == TypeId::of::<V::Scalar>() { V::LANES } else { STREAMS };
    if TypeId::of::<S>() == TypeId::of::<V::Scalar>() {
        while j + V::LANES <= len {
            // SAFETY: a vector remains on both sides, and the caller guarantees the instructions.
            unsafe { V::load(from.add(j).cast()).store(to.add(j)) };
            j += V::LANES;
        }
    } else {
        // SAFETY: `len` elements are on both sides.
        j = unsafe { widen(V::ISA, from, to, len) };
        while j + STREAMS <= len {
            // SAFETY: this many elements remain on both sides.
            unsafe {
                let elements = from.add(j).cast::<[S; STREAMS]>().read_unaligned();
                let values = array::map(elements, S::value::<V::Scalar>);
                to.add(j).cast::<[V::Scalar; STREAMS]>().write_unaligned(values);
            }
            j += STREAMS;
        }
    }
    for i in 0..(len - j) % together {
        // SAFETY: an element remains on both sides.
        unsafe { to.add(j + i).write(from.add(j + i).read_unaligned().value()) };
    }
}

struct Storing<'a, S, T> {
    accumulators: &'a Accumulators<T>,
    to: *mut S,
}

impl<S: Stored, T: Float> VectorTask<T> for Storing<'_, S, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let Self { accumulators: Accumulators { from, row_stride, rows, columns, row, column }, to } = self;
        for i in 0..*rows {
            // SAFETY: `store` is called with readable accumulators and writable elements.
            unsafe {
                let (from, to) = (from.add(i * row_stride), to.add(i * row));
                let mut j = 0;
                if *column == 1 {
                    if TypeId::of::<S>() == TypeId::of::<T>() {
                        while j + V::LANES <= *columns {
                            V::load(from.add(j)).store(to.add(j).cast());
                            j += V::LANES;
                        }
                    } else {
                        j = narrow(V::ISA, from, to, *columns);
                    }
                }
                while j < *columns {
                    to.add(j * column).write_unaligned(S::nearest(from.add(j).read()));
                    j += 1;
                }
            }
        }
    }
}
