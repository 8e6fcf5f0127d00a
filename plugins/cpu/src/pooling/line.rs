//! A row of windows: combines rows of x into one, and then the columns of that.

use std::ops::Range;

use crate::dtype::element::ComputeType;
use crate::pooling::shape::{COLUMNS, DEPTH, Lines, ROWS, Shape, Zero};
use crate::problem::resample::Pooling;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Lanewise, MAX_LANES, Vector, has_special_cases};
use crate::tensor::combine::{Combine, Largest, LargestNumber, Sum, fold_row};

/// Rows whose padding exceeds this and four times their own elements are computed window by window.
const LONGEST: usize = 4096;

/// The most rows and columns of windows that are read from x itself: each column reads all lines.
const WIDEST: usize = 3;

/// Computes with the number of lines as a constant.
macro_rules! with_lines {
    ($lines:expr, $count:ident => $compute:expr) => {
        match $lines.count() {
            3 => with_lines!(3, $count, $compute),
            2 => with_lines!(2, $count, $compute),
            1 => with_lines!(1, $count, $compute),
            _ => with_lines!(0, $count, $compute),
        }
    };
    ($number:literal, $count:ident, $compute:expr) => {{
        const $count: usize = $number;
        $compute
    }};
}

/// A plane of x, addressed from depth 0 and row 0, with the strides of these.
#[derive(Clone, Copy)]
pub(crate) struct Plane<T> {
    pub(crate) first: *const T,
    pub(crate) depth: usize,
    pub(crate) row: usize,
}

impl<T> Plane<T> {
    /// The first column of a row.
    #[inline(always)]
    pub(crate) fn line(&self, depth: usize, row: usize) -> *const T {
        self.first.wrapping_add(depth * self.depth + row * self.row)
    }
}

/// What all rows have in common.
pub(crate) struct Line<T> {
    /// Elements of a row of x with its padding; 0 if rows are computed window by window.
    padded: usize,
    /// The value of positions outside x.
    outside: T,
    /// `MAX_LANES` times that value, -0, and that value: a load from an offset has it before or from some lane on.
    pub(super) edges: [T; 3 * MAX_LANES],
    /// Columns of y whose windows are inside x, if these are read from x without a combined row.
    inner: Option<Range<usize>>,
    /// For each column of y, how many columns of its window are inside x, if means only count these.
    counts: Vec<T>,
}

impl<T: Float> Line<T> {
    pub(crate) fn of(shape: &Shape, isa: Isa) -> Self {
        let [input, output, window, stride] =
            [&shape.input, &shape.output, &shape.window, &shape.stride].each(|of| of[COLUMNS]);
        let span =
            (output - 1).saturating_mul(stride).saturating_add(window).max(shape.padding[COLUMNS] + input);
        let is_long = span > 4 * input + LONGEST || output == 1;
        let count = |column| T::from_f64(shape.span(COLUMNS, column).len.max(1) as f64);
        let outside = match shape.pooling {
            Pooling::Maximum { zeros: false } => T::from_f64(f64::NEG_INFINITY),
            _ => T::ZERO,
        };
        let mut counts = Vec::new();
        if shape.pooling == Pooling::MeanInside && !is_long {
            counts.extend((0..output).map(count));
            counts.resize(output + MAX_LANES, T::ONE);
        }
        let mut edges = [outside; 3 * MAX_LANES];
        edges[MAX_LANES..2 * MAX_LANES].fill(-T::ZERO);
        let inner = shape.inner();
        let is_small = shape.window[DEPTH] == 1 && shape.window[ROWS].max(window) <= WIDEST;
        let is_near = is_small && stride <= 2 && !inner.is_empty();
        let inner = (has_special_cases::<T>(isa) && is_near && !is_long).then_some(inner);
        Self { padded: if is_long { 0 } else { span }, outside, edges, inner, counts }
    }

    /// Elements of the combined row: vectors may be read after its end.
    pub(crate) fn len(&self) -> usize {
        if self.padded == 0 || self.inner.is_some() { 0 } else { self.padded + 2 * MAX_LANES }
    }

    /// Initializes the row.
    ///
    /// # Safety
    /// The row is writable for [`Line::len`] elements.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, row: *mut T) {
        for i in 0..self.len() {
            // SAFETY: the elements are valid, as this function requires.
            unsafe { row.add(i).write(self.outside) };
        }
    }

    /// Computes a row of y.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the plane has the lines, `row` is [filled](Line::fill), and `to` is writable for the
    /// columns of y.
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector<Scalar = T>>(
        &self,
        shape: &Shape,
        plane: Plane<T>,
        lines: &Lines,
        row: *mut T,
        to: *mut T,
    ) {
        let all = 0..shape.output[COLUMNS];
        // SAFETY: the plane has the lines and `to` the columns; if there is a padded row, `row` holds it.
        unsafe {
            let inner = if V::HAS_SPECIAL_CASES { &self.inner } else { &None };
            match (inner, self.padded, shape.is_maximum()) {
                (Some(_), _, true) => with_lines!(lines, LINES => {
                    // Instructions for maxima drop a NaN: rows with one are computed again.
                    if !self.near::<V, LargestNumber, LINES>(shape, plane, lines, &all, to) {
                        self.near::<V, Largest, LINES>(shape, plane, lines, &all, to);
                    }
                }),
                (Some(inner), _, false) => {
                    single::<V, Sum>(shape, plane, lines, 0..inner.start, to);
                    single::<V, Sum>(shape, plane, lines, inner.end..all.end, to);
                    with_lines!(lines, LINES => {
                        self.near::<V, Sum, LINES>(shape, plane, lines, inner, to);
                    });
                }
                (None, 0, true) => single::<V, Largest>(shape, plane, lines, all, to),
                (None, 0, false) => single::<V, Sum>(shape, plane, lines, all, to),
                (None, _, true) => self.row::<V, Largest>(shape, plane, lines, row, to),
                (None, _, false) => self.row::<V, Sum>(shape, plane, lines, row, to),
            }
        }
    }

    /// What lines have where rows of the window are outside x.
    pub(super) fn start<J: Combine>(&self, lines: &Lines) -> T {
        let is_cut = [lines.depth, lines.rows].iter().any(|span| span.before || span.after);
        if is_cut { self.outside } else { J::start() }
    }

    /// Combines lines into a padded row, and computes its windows.
    ///
    /// # Safety
    /// As [`Line::run`].
    #[inline(always)]
    unsafe fn row<V: Vector<Scalar = T>, J: Combine>(
        &self,
        shape: &Shape,
        plane: Plane<T>,
        lines: &Lines,
        row: *mut T,
        to: *mut T,
    ) {
        let start = self.start::<J>(lines);
        // SAFETY: the columns after the padding are in the row, and the plane has the lines.
        unsafe {
            if shape.stride[COLUMNS] > 2 {
                // The previous row's windows overwrote the padding.
                self.fill(row);
            }
            let middle = row.add(shape.padding[COLUMNS]);
            let mut at = 0;
            while at < shape.input[COLUMNS] {
                let lanes = V::lanes(0, (shape.input[COLUMNS] - at).min(V::LANES));
                let mut total = V::splat(start);
                for depth in lines.depth.first..lines.depth.first + lines.depth.len {
                    for line in lines.rows.first..lines.rows.first + lines.rows.len {
                        total = J::vector(total, V::load_lanes(plane.line(depth, line).add(at), lanes));
                    }
                }
                total.store_lanes(middle.add(at), lanes);
                at += V::LANES;
            }
            self.columns::<V, J>(shape, lines, row, to);
        }
    }

    /// The windows of the combined row.
    ///
    /// # Safety
    /// As [`Line::run`]; the row has been combined.
    #[inline(always)]
    unsafe fn columns<V: Vector<Scalar = T>, J: Combine>(
        &self,
        shape: &Shape,
        lines: &Lines,
        row: *mut T,
        to: *mut T,
    ) {
        let [output, window, stride] = [&shape.output, &shape.window, &shape.stride].each(|of| of[COLUMNS]);
        // SAFETY: vectors begin inside the padded row, and two more follow it; `to` has the columns.
        unsafe {
            if stride > 2 {
                combine_columns::<V, J>(row, (output - 1) * stride + 1, window);
            }
            for column in (0..output).step_by(V::LANES) {
                let count = (output - column).min(V::LANES);
                let first = row.add(column * stride).cast_const();
                let mut total = match stride {
                    1 | 2 => merged::<V, J>(first, stride, window),
                    _ => picked(first, stride, count),
                };
                if !shape.is_maximum() {
                    total = total.lanewise(Lanewise::Div, self.divisors(shape, lines, column));
                }
                total.store_lanes(to.add(column), V::lanes(0, count));
            }
        }
    }

    /// The divisors of some columns' sums.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the column exists.
    #[inline(always)]
    pub(super) unsafe fn divisors<V: Vector<Scalar = T>>(
        &self,
        shape: &Shape,
        lines: &Lines,
        column: usize,
    ) -> V {
        // SAFETY: as many counts as a vector has lanes follow those of the columns.
        unsafe {
            if self.counts.is_empty() {
                return V::splat(T::from_f64(shape.window.iter().map(|side| *side as f64).product()));
            }
            let lines = V::splat(T::from_f64(lines.count().max(1) as f64));
            V::load(self.counts.as_ptr().add(column)).lanewise(Lanewise::Mul, lines)
        }
    }
}

/// The windows of a vector of columns, whose stride is 1 or 2.
///
/// # Safety
/// The processor has the vector's instructions; `window` elements from `from` on are readable, and two
/// vectors after them.
#[inline(always)]
unsafe fn merged<V: Vector, J: Combine>(from: *const V::Scalar, stride: usize, window: usize) -> V {
    // SAFETY: a vector begins at one of the `window` elements or a vector later, and two are readable from
    // each.
    unsafe {
        let mut total = V::splat(J::start());
        if stride == 1 {
            for at in 0..window {
                total = J::merge_vector(total, V::load(from.add(at)));
            }
        } else {
            for at in 0..window {
                let (near, far) = (V::load(from.add(at)), V::load(from.add(at + V::LANES)));
                total = J::merge_vector(total, near.unzip(far).0);
            }
        }
        total
    }
}

/// Combines the elements of the window that begins at each of `len` columns, in place.
///
/// # Safety
/// The processor has the vector's instructions; the row has the windows, and two vectors after them.
#[inline(always)]
unsafe fn combine_columns<V: Vector, J: Combine>(row: *mut V::Scalar, len: usize, window: usize) {
    let mut at = 0;
    // SAFETY: this function requires the elements; vectors only read elements after those already written.
    unsafe {
        while at < len {
            let lanes = V::lanes(0, (len - at).min(V::LANES));
            let mut total = V::load(row.add(at));
            for next in 1..window {
                total = J::merge_vector(total, V::load(row.add(at + next)));
            }
            total.store_lanes(row.add(at), lanes);
            at += V::LANES;
        }
    }
}

/// Every `stride`-th of `count` elements.
///
/// # Safety
/// The processor has the vector's instructions; the elements are readable.
#[inline(always)]
unsafe fn picked<V: Vector>(from: *const V::Scalar, stride: usize, count: usize) -> V {
    let mut values = [V::Scalar::ZERO; MAX_LANES];
    // SAFETY: the elements are readable, as this function requires; no vector has more lanes than there are values.
    unsafe {
        for (i, value) in values[..count].iter_mut().enumerate() {
            *value = from.add(i * stride).read();
        }
        V::load(values.as_ptr())
    }
}

/// Some columns of a row of y, window by window: each is a sum or maximum of runs.
///
/// # Safety
/// As [`Line::run`].
#[inline(always)]
unsafe fn single<V: Vector, J: Combine>(
    shape: &Shape,
    plane: Plane<V::Scalar>,
    lines: &Lines,
    columns: Range<usize>,
    to: *mut V::Scalar,
) {
    let [depth, rows, width] = [DEPTH, ROWS, COLUMNS].each(|axis| shape.input[axis]);
    for column in columns {
        let span = shape.span(COLUMNS, column);
        // Contiguous rows are one run, and so are contiguous depths.
        let are_rows = span.len == width && plane.row == width;
        let are_depths = are_rows && lines.rows.len == rows && (depth == 1 || plane.depth == rows * width);
        let [mut depths, mut of_rows, mut len] = [lines.depth.len, lines.rows.len, span.len];
        if are_rows {
            (of_rows, len) = (of_rows.min(1), len * of_rows);
        }
        if are_depths {
            (depths, len) = (depths.min(1), len * depths);
        }
        let mut total = J::start::<V::Scalar>();
        if len > 0 && shape.is_maximum() && shape.zero(lines, &span) != Zero::Never {
            total = V::Scalar::ZERO;
        }
        // SAFETY: the positions of spans are inside the plane, and `to` has the column.
        unsafe {
            for depth in lines.depth.first..lines.depth.first + depths {
                for row in lines.rows.first..lines.rows.first + of_rows {
                    let from = plane.line(depth, row).wrapping_add(span.first);
                    total = J::merge(total, fold_row::<V, J>(from, len));
                }
            }
            if !shape.is_maximum() {
                total = total / shape.divisor(lines, &span);
            } else if lines.count() * span.len == 0 && shape.zero(lines, &span) != Zero::Never {
                total = V::Scalar::ZERO;
            }
            to.add(column).write_unaligned(total);
        }
    }
}

/// The maximum of a window that meets the padding, and its index.
///
/// # Safety
/// The plane is readable in the rows of `lines` and the columns of the window.
#[inline(always)]
pub(crate) unsafe fn edge<T: Float>(
    shape: &Shape,
    plane: Plane<T>,
    lines: &Lines,
    column: usize,
) -> (T, i32) {
    let columns = shape.span(COLUMNS, column);
    let zero = shape.zero(lines, &columns);
    let is_empty = lines.count() * columns.len == 0;
    let mut best = (T::from_f64(f64::NEG_INFINITY), -1);
    let mut found = zero == Zero::First;
    if found || (zero != Zero::Never && is_empty) {
        best.0 = T::ZERO;
    }
    let [depths, rows] =
        [lines.depth, lines.rows].each(|span| span.first..span.first + if is_empty { 0 } else { span.len });
    for depth in depths {
        for row in rows.clone() {
            for at in columns.first..columns.first + columns.len {
                // SAFETY: the positions of spans are inside the plane.
                let value = unsafe { plane.line(depth, row).wrapping_add(at).read_unaligned() };
                if !found || value > best.0 || (value.is_nan() && !best.0.is_nan()) {
                    (best, found) = ((value, shape.index(depth, row, at) as i32), true);
                }
            }
            let is_first = depth == lines.depth.first;
            let is_now = (zero == Zero::AfterRow && is_first && row == rows.start)
                || (zero == Zero::AfterRows && is_first && row + 1 == rows.end);
            if is_now && T::ZERO > best.0 {
                best = (T::ZERO, -1);
            }
        }
    }
    if zero == Zero::Last && T::ZERO > best.0 { (T::ZERO, -1) } else { best }
}
