//! Copies of the factors as the tiles read them: numbers of the compute type, rows side by side.

use hipdnn_plugin_sdk::graph::DataType;

use super::super::level::{Level, VectorWork};
use super::super::real::{FastReal, Stored, with_stored};
use super::super::vector::Vector;
use crate::kernel::Refusal;

/// A matrix to copy.
pub(super) struct Copy {
    /// Its first element.
    pub(super) from: *const u8,
    /// Its rows and their distance in elements.
    pub(super) rows: usize,
    pub(super) row: usize,
    /// Its columns and their distance in elements.
    pub(super) columns: usize,
    pub(super) column: usize,
    /// Columns of the copy, of which those beyond the matrix get zeros.
    pub(super) width: usize,
    /// Distance of rows in the copy, at least `width`.
    pub(super) pitch: usize,
}

/// Copies a matrix whose elements are of one data type.
pub(super) type Pack<T> = unsafe fn(Level, &Copy, *mut T);

/// The function that copies from a data type.
pub(super) fn pack_of<T: FastReal>(argument: &str, data_type: DataType) -> Result<Pack<T>, Refusal> {
    Ok(with_stored!(data_type, S => pack::<S, T>, other => match other {
        DataType::Int8 => pack::<i8, T>,
        DataType::Uint8 => pack::<u8, T>,
        DataType::Int32 => pack::<i32, T>,
        other => return Err(format!(
            "{argument}: data type is {}, expected float, double, half, bfloat16, int32, int8 or uint8",
            other.name()
        )),
    }))
}

/// # Safety
/// The level is one that the processor has, the matrix is readable, and rows of `width` numbers `pitch` apart are writable.
unsafe fn pack<S: Stored, T: FastReal>(level: Level, copy: &Copy, to: *mut T) {
    // SAFETY: the caller promises the level.
    unsafe { level.run_vectors(Packing::<S, T> { copy, from: copy.from.cast(), to }) };
}

struct Packing<'a, S, T> {
    copy: &'a Copy,
    from: *const S,
    to: *mut T,
}

/// Columns that are read side by side where a row's elements do not lie so.
const STREAMS: usize = 16;

/// Rows ahead of the one that is copied that are asked for: rows are often a page apart, which no processor foresees.
pub(super) const AHEAD: usize = 16;

impl<S: Stored, T: FastReal> VectorWork<T> for Packing<'_, S, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) {
        let Self { copy: Copy { rows, row, columns, column, width, pitch, .. }, from, to } = self;
        let (rows, row, columns, column, width, pitch) = (*rows, *row, *columns, *column, *width, *pitch);
        // SAFETY: `pack` is called with a readable matrix and room for the copy.
        unsafe {
            if column == 1 {
                for i in 0..rows {
                    let (from, to) = (from.add(i * row), to.add(i * pitch));
                    let ahead = from.wrapping_add(AHEAD * row);
                    (0..columns * size_of::<S>())
                        .step_by(64)
                        .for_each(|byte| prefetch(ahead.wrapping_byte_add(byte)));
                    copy_row::<S, V>(from, to, columns);
                }
            } else {
                for first in (0..columns).step_by(STREAMS) {
                    let last = (first + STREAMS).min(columns);
                    for i in 0..rows {
                        let (from, to) = (from.add(i * row), to.add(i * pitch));
                        for j in first..last {
                            to.add(j).write(from.add(j * column).read_unaligned().number());
                        }
                    }
                }
            }
            if columns < width {
                (0..rows).for_each(|i| to.add(i * pitch + columns).write_bytes(0, width - columns));
            }
        }
    }
}

/// Copies `len` elements that lie side by side.
///
/// # Safety
/// They are readable, `to` is writable, and the processor has the vector's instructions.
#[inline(always)]
unsafe fn copy_row<S: Stored, V: Vector>(from: *const S, to: *mut V::Number, len: usize) {
    let mut j = 0;
    // SAFETY: as the caller promises.
    unsafe {
        if std::any::TypeId::of::<S>() == std::any::TypeId::of::<V::Number>() {
            while j + V::LANES <= len {
                V::load(from.add(j).cast()).store(to.add(j));
                j += V::LANES;
            }
        } else {
            while j + STREAMS <= len {
                let elements = from.add(j).cast::<[S; STREAMS]>().read_unaligned();
                let to = to.add(j).cast::<[V::Number; STREAMS]>();
                to.write_unaligned(elements.map(|element| element.number()));
                j += STREAMS;
            }
        }
        while j < len {
            to.add(j).write(from.add(j).read_unaligned().number());
            j += 1;
        }
    }
}

/// Asks for a cache line that is read soon, wherever it is.
#[inline(always)]
pub(super) fn prefetch<S>(at: *const S) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
