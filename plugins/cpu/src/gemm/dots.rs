//! Products of few rows and a matrix whose columns are contiguous, as the weights of linear layers are: dot products,
//! for which each element of the matrix is read once, in place.

#![expect(clippy::needless_range_loop, reason = "iterators over registers are calls, see `simd::array`")]

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::DataType;

use crate::simd::array;
use crate::simd::convert;
use crate::simd::isa::Isa;
use crate::simd::stored::Stored;
use crate::simd::vector::{Float, Vector, VectorTask};

/// Rows of the largest tile of sums.
pub(crate) const MOST_ROWS: usize = 4;

/// Operands of dot products: `to[r][j] = Σ a[r][l] · b[j][l]`. Terms are contiguous.
pub(crate) struct DotProducts<T> {
    /// The first row, their stride, and their number.
    pub(crate) a: *const T,
    pub(crate) a_stride: usize,
    pub(crate) rows: usize,
    /// The first column, their stride in elements, and their number.
    pub(crate) b: *const u8,
    pub(crate) b_stride: usize,
    pub(crate) columns: usize,
    pub(crate) terms: usize,
    /// The sums, row by row.
    pub(crate) to: *mut T,
    pub(crate) to_stride: usize,
}

/// Computes dot products with columns of one dtype.
pub(crate) type Dots<T> = unsafe fn(Isa, &DotProducts<T>);

/// The routine for columns of a dtype, if there is one.
pub(crate) fn dots_of<T: Float>(data_type: DataType) -> Option<Dots<T>> {
    match data_type {
        DataType::Float => Some(run::<f32, T>),
        DataType::Half => Some(run::<f16, T>),
        DataType::Bfloat16 => Some(run::<bf16, T>),
        _ => None,
    }
}

/// # Safety
/// The processor has the instruction set, and operands and sums are valid.
unsafe fn run<S: Stored, T: Float>(isa: Isa, products: &DotProducts<T>) {
    // SAFETY: this function requires the instructions and the operands.
    unsafe { isa.run_vectors::<T, _>(Task { products, b: products.b.cast::<S>() }) };
}

struct Task<'a, S, T> {
    products: &'a DotProducts<T>,
    b: *const S,
}

impl<S: Stored, T: Float> VectorTask<T> for Task<'_, S, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        if !V::HAS_SPECIAL_CASES {
            unreachable!("dot products are planned for vectors with special cases");
        }
        let rows = self.products.rows;
        let mut row = 0;
        while row < rows {
            // With 16 registers, four rows and columns of sums would not fit.
            // SAFETY: `run` is called with these rows, and with the vector's instructions.
            row += unsafe {
                match rows - row {
                    MOST_ROWS.. if cfg!(target_arch = "aarch64") || is_wide(V::ISA) => {
                        self.columns::<V, MOST_ROWS, 4>(row)
                    }
                    2.. => self.columns::<V, 2, 4>(row),
                    _ => self.columns::<V, 1, 8>(row),
                }
            };
        }
    }
}

/// Whether there are 32 registers.
const fn is_wide(isa: Isa) -> bool {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => true,
        _ => false,
    }
}

impl<S: Stored, T: Float> Task<'_, S, T> {
    /// Computes all columns of `ROWS` rows, `COLUMNS` at a time. Returns how many rows that are.
    ///
    /// # Safety
    /// As [`run`]; the rows exist.
    #[inline(always)]
    unsafe fn columns<V: Vector<Scalar = T>, const ROWS: usize, const COLUMNS: usize>(
        &self,
        row: usize,
    ) -> usize {
        let all = self.products.columns;
        let whole = all - all % COLUMNS;
        // SAFETY: this function requires the rows, and both loops end at the operand's last column.
        unsafe {
            for column in (0..whole).step_by(COLUMNS) {
                self.tile::<V, ROWS, COLUMNS>(row, column);
            }
            for column in whole..all {
                self.tile::<V, ROWS, 1>(row, column);
            }
        }
        ROWS
    }

    /// # Safety
    /// As [`run`]; the rows and columns exist.
    #[inline(always)]
    unsafe fn tile<V: Vector<Scalar = T>, const ROWS: usize, const COLUMNS: usize>(
        &self,
        row: usize,
        column: usize,
    ) {
        let DotProducts { a, a_stride, b_stride, terms, to, to_stride, .. } = *self.products;
        let (a, b) = (a.wrapping_add(row * a_stride), self.b.wrapping_add(column * b_stride));
        let whole = terms - terms % V::LANES;
        // SAFETY: rows and columns have these terms, and the result has room for the sums.
        unsafe {
            let mut sums = [[V::zero(); ROWS]; COLUMNS];
            for at in (0..whole).step_by(V::LANES) {
                let values: [V; ROWS] = array::from_fn(|r| V::load(a.add(r * a_stride + at)));
                for c in 0..COLUMNS {
                    let column = convert::load::<S, V>(b.add(c * b_stride + at));
                    for r in 0..ROWS {
                        sums[c][r] = column.mul_add(values[r], sums[c][r]);
                    }
                }
            }
            for c in 0..COLUMNS {
                for r in 0..ROWS {
                    let mut sum = sums[c][r].sum();
                    for at in whole..terms {
                        let weight: T = b.add(c * b_stride + at).read_unaligned().value();
                        sum = weight.fused(a.add(r * a_stride + at).read_unaligned(), sum);
                    }
                    to.add((row + r) * to_stride + column + c).write(sum);
                }
            }
        }
    }
}
