//! Windows of adjacent channels: one lane per channel. Several vectors are computed together, of neighbouring
//! channels or of the same channels in neighbouring windows.

use crate::dtype::element::ComputeType;
use crate::pooling::shape::{Lines, Shape, Span, Zero};
use crate::simd::array;
use crate::simd::row::read;
use crate::simd::vector::{Float, Lanewise, Vector};

/// How many vectors are computed together, so that their maxima or sums overlap.
pub(crate) const TOGETHER: usize = 4;

/// The vectors that are computed together.
#[derive(Clone, Copy)]
pub(crate) struct Vectors<L, const N: usize> {
    /// Their offsets from the first one, in elements of the image.
    pub(crate) offsets: [usize; N],
    /// By how many columns of x their windows follow that of the first one.
    pub(crate) columns: [usize; N],
    /// Their lanes, if not all.
    pub(crate) lanes: Option<L>,
}

impl<L, const N: usize> Vectors<L, N> {
    /// Vectors of channels of one window.
    #[inline(always)]
    pub(crate) fn of_channels(length: usize, lanes: Option<L>) -> Self {
        Self { offsets: array::from_fn(|n| n * length), columns: [0; N], lanes }
    }

    /// Windows with this stride, in columns, of an image with this stride between columns.
    #[inline(always)]
    pub(crate) fn of_windows(stride: usize, column: usize, lanes: Option<L>) -> Self {
        let columns = array::from_fn(|n| n * stride);
        Self { offsets: array::map(columns, |at| at * column), columns, lanes }
    }
}

/// An image whose channels are adjacent.
#[derive(Clone, Copy)]
pub(crate) struct Windows<T> {
    /// The first channel of the first element.
    pub(crate) from: *const T,
    /// Strides of depth, rows and columns.
    pub(crate) strides: [usize; 3],
    /// Whether indices are wanted.
    pub(crate) indexed: bool,
}

/// Maxima of the elements so far, and their indices.
struct Best<V, const N: usize> {
    best: [V; N],
    indices: [V; N],
    /// The difference between an element's indices and those of the first vector.
    behind: [V; N],
    /// Whether there were elements.
    begun: bool,
}

impl<V: Vector, const N: usize> Best<V, N> {
    /// Compares with values whose first vector has this index.
    #[inline(always)]
    fn add(&mut self, values: [V; N], first: V, is_first: bool) {
        for (n, value) in values.iter().enumerate() {
            let own = first.lanewise(Lanewise::Add, self.behind[n]);
            (self.best[n], self.indices[n]) = match is_first {
                true => (*value, own),
                false => larger((*value, own), (self.best[n], self.indices[n])),
            };
        }
    }

    /// Compares with a zero of the padding.
    #[inline(always)]
    fn add_zero(&mut self) {
        for (best, index) in self.best.iter_mut().zip(&mut self.indices) {
            (*best, *index) = with_zero(*best, *index);
        }
    }
}

impl<T: Float> Windows<T> {
    /// The address of an element.
    #[inline(always)]
    fn at(&self, [depth, row, column]: [usize; 3]) -> *const T {
        let [depths, rows, columns] = self.strides;
        self.from.wrapping_add(depth * depths + row * rows + column * columns)
    }

    /// The maxima of windows in `N` vectors, and their indices, or the means. The first vector has the
    /// channels from `first` on in the window with these lines and columns; the other windows have as many
    /// columns inside, and meet zeros at the same time.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the channels and windows exist.
    #[inline(always)]
    pub(crate) unsafe fn value<V: Vector<Scalar = T>, const N: usize>(
        &self,
        shape: &Shape,
        first: usize,
        (lines, columns): (&Lines, &Span),
        vectors: &Vectors<V::Lanes, N>,
    ) -> [[V; N]; 2] {
        let channels = Self { from: self.from.wrapping_add(first), ..*self };
        // SAFETY: this function requires the channels, and the instructions.
        unsafe {
            if !shape.is_maximum() {
                [channels.mean(shape, lines, columns, vectors), [V::zero(); N]]
            } else if self.indexed {
                channels.largest::<V, N, true>(shape, lines, columns, vectors)
            } else {
                channels.largest::<V, N, false>(shape, lines, columns, vectors)
            }
        }
    }

    /// The maxima of a window, and their indices.
    ///
    /// # Safety
    /// As [`Windows::value`].
    #[inline(always)]
    unsafe fn largest<V: Vector<Scalar = T>, const N: usize, const INDEXED: bool>(
        &self,
        shape: &Shape,
        lines: &Lines,
        columns: &Span,
        vectors: &Vectors<V::Lanes, N>,
    ) -> [[V; N]; 2] {
        let zero = shape.zero(lines, columns);
        // SAFETY: the processor has the vector's instructions.
        let mut so_far = unsafe {
            Best {
                best: [V::zero(); N],
                indices: [V::splat(-T::ONE); N],
                behind: array::map(vectors.columns, |column| V::splat(T::from_f64(column as i64 as f64))),
                begun: zero == Zero::First,
            }
        };
        if lines.count() == 0 || columns.len == 0 {
            if zero == Zero::Never {
                // SAFETY: the processor has the vector's instructions.
                so_far.best = unsafe { [V::splat(T::from_f64(f64::NEG_INFINITY)); N] };
            }
            return [so_far.best, so_far.indices];
        }
        let last_row = lines.rows.first + lines.rows.len - 1;
        // SAFETY: depths, rows and columns of spans are inside x, which has the channels.
        unsafe {
            for depth in lines.depth.first..lines.depth.first + lines.depth.len {
                for row in lines.rows.first..=last_row {
                    self.row::<V, N, INDEXED>(shape, [depth, row], columns, vectors, &mut so_far);
                    let is_first = depth == lines.depth.first;
                    if (zero == Zero::AfterRow && is_first && row == lines.rows.first)
                        || (zero == Zero::AfterRows && is_first && row == last_row)
                    {
                        so_far.add_zero();
                    }
                }
            }
            if zero == Zero::Last {
                so_far.add_zero();
            }
            [so_far.best, so_far.indices]
        }
    }

    /// Adds a row of a window to the maxima.
    ///
    /// # Safety
    /// As [`Windows::value`]; the columns are inside.
    #[inline(always)]
    unsafe fn row<V: Vector<Scalar = T>, const N: usize, const INDEXED: bool>(
        &self,
        shape: &Shape,
        [depth, row]: [usize; 2],
        columns: &Span,
        vectors: &Vectors<V::Lanes, N>,
        so_far: &mut Best<V, N>,
    ) {
        for column in columns.first..columns.first + columns.len {
            let from = self.at([depth, row, column]);
            // SAFETY: the element is inside x, and has the channels.
            unsafe {
                let values: [V; N] =
                    array::map(vectors.offsets, |offset| read::<V>(from.wrapping_add(offset), vectors.lanes));
                // The first element counts even if it is minus infinity.
                let is_first = !so_far.begun;
                so_far.begun = true;
                if !INDEXED {
                    so_far.best = if is_first {
                        values
                    } else {
                        array::zip(so_far.best, values, |best, value| best.lanewise(Lanewise::Max, value))
                    };
                    continue;
                }
                let first = V::splat(T::from_f64(shape.index(depth, row, column) as i64 as f64));
                so_far.add(values, first, is_first);
            }
        }
    }

    /// The means of a window.
    ///
    /// # Safety
    /// As [`Windows::value`].
    #[inline(always)]
    unsafe fn mean<V: Vector<Scalar = T>, const N: usize>(
        &self,
        shape: &Shape,
        lines: &Lines,
        columns: &Span,
        vectors: &Vectors<V::Lanes, N>,
    ) -> [V; N] {
        // SAFETY: the positions of spans are inside x.
        unsafe {
            let mut sums = [V::zero(); N];
            for depth in lines.depth.first..lines.depth.first + lines.depth.len {
                for row in lines.rows.first..lines.rows.first + lines.rows.len {
                    for column in columns.first..columns.first + columns.len {
                        let from = self.at([depth, row, column]);
                        for (n, sum) in sums.iter_mut().enumerate() {
                            let value = read::<V>(from.wrapping_add(vectors.offsets[n]), vectors.lanes);
                            *sum = sum.lanewise(Lanewise::Add, value);
                        }
                    }
                }
            }
            let divisor = V::splat(shape.divisor(lines, columns));
            for sum in &mut sums {
                *sum = sum.lanewise(Lanewise::Div, divisor);
            }
            sums
        }
    }
}

/// Maxima and indices after some more values.
#[inline(always)]
pub(crate) fn larger<V: Vector>((value, index): (V, V), (best, indices): (V, V)) -> (V, V) {
    (value.where_larger(best, value, best), value.where_larger(best, index, indices))
}

/// Maxima and indices after a zero of the padding.
#[inline(always)]
pub(crate) fn with_zero<V: Vector>(best: V, indices: V) -> (V, V) {
    let none = best.broadcast(-V::Scalar::ONE);
    let zero = best.broadcast(V::Scalar::ZERO);
    (best.lanewise(Lanewise::Max, zero), zero.where_larger(best, none, indices))
}
