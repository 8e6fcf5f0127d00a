//! Rows of a tensor into shared memory.

use super::Tensor;
use super::sequence::Source;
use crate::builder::Builder;
use crate::form::{Memory, Shared, Value};
use crate::scalar::Scalar;
use crate::target::Language;

/// An array of rows in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) array: Shared,
    /// The type of elements.
    pub(super) scalar: Scalar,
    /// The distance of rows, or of elements if it is turned.
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// Elements of a row, with padding to whole tiles.
    pub(super) elements: usize,
    /// Whether elements of a column are neighbours.
    pub(super) turned: bool,
}

impl Rows {
    pub(super) fn new(b: &mut Builder, scalar: Scalar, rows: usize, elements: usize, turned: bool) -> Self {
        let (stride, length) = Self::sizes(scalar, rows, elements, turned);
        Self { array: b.shared(scalar, length), scalar, stride, rows, elements, turned }
    }

    /// As [`Rows::new`], in an array that there is.
    pub(super) fn within(array: Shared, scalar: Scalar, rows: usize, elements: usize, turned: bool) -> Self {
        let (stride, _) = Self::sizes(scalar, rows, elements, turned);
        Self { array, scalar, stride, rows, elements, turned }
    }

    /// The distance of lines, and all elements.
    pub(super) fn sizes(scalar: Scalar, rows: usize, elements: usize, turned: bool) -> (usize, usize) {
        let pad = 16 / scalar.size();
        let (lines, length) = if turned { (elements, rows) } else { (rows, elements) };
        let stride = length.next_multiple_of(pad) + pad;
        (stride, lines * stride)
    }
}

/// The most elements that are fetched together.
fn vector(tensor: &Tensor, depth: usize, to: Scalar) -> usize {
    let size = tensor.scalar.size();
    let [begin, head, row] = tensor.steps();
    let mut most = 16 / size.max(to.size());
    let fits = |most: usize| {
        tensor.strides[3] == 1
            && tensor.alignment.is_multiple_of(most * size)
            && [begin, head, row, depth].iter().all(|own| own.is_multiple_of(most))
    };
    while most > 1 && !fits(most) {
        most /= 2;
    }
    most
}

/// A vector's elements in another type.
fn converted(b: &mut Builder, vector: Value, lanes: usize, scalar: Scalar) -> Vec<Value> {
    let parts = (0..lanes).map(|lane| {
        let part = b.extract(vector, lane);
        b.convert(part, scalar)
    });
    parts.collect()
}

/// Copies rows from `first_row` on, those that are there; other rows and the padding are 0. `from_element` is where a row's elements begin,
/// and `place` gives a row's place. Where there are pages, `first_row` is a multiple of the copied rows.
pub(super) fn copy(
    b: &mut Builder,
    [thread, first_row]: [Value; 2],
    source: &Source,
    from_element: usize,
    to: &Rows,
    threads: usize,
    place: &dyn Fn(&mut Builder, Value) -> Value,
) {
    let tensor = &source.bound.tensor;
    let pointer = source.bound.data;
    let depth = source.bound.elements.saturating_sub(from_element);
    let vector = vector(tensor, depth, to.scalar);
    let across = to.elements / vector;
    let count = to.rows * across;
    let bytes = vector * tensor.scalar.size();
    let base = b.add(source.base, from_element * tensor.strides[3]);
    // All rows are in one page.
    let together =
        source.page().filter(|rows| rows.is_multiple_of(to.rows)).map(|_| source.line(b, first_row));
    let fetch = |b: &mut Builder, index: Value| {
        let (row, near) = b.div_rem(index, across);
        let element = b.mul(near, vector);
        let own = b.add(first_row, row);
        let mut there = b.less(own, source.valid);
        if to.elements != depth {
            let inside = b.less(element, depth);
            there = b.and(there, inside);
        }
        let line = match together {
            Some(first) => {
                let within = b.mul(row, tensor.strides[2]);
                b.add(first, within)
            }
            None => source.line(b, own),
        };
        let along = b.mul(element, tensor.strides[3]);
        let from = b.add(base, line);
        let from = b.add(from, along);
        let line = place(b, row);
        if !to.turned && bytes >= 4 && tensor.scalar == to.scalar {
            let line = b.mul(line, to.stride);
            let at = b.add(line, element);
            let from = b.select(there, from, 0);
            b.async_copy((to.array, at), (pointer, from), bytes, Some(there));
            return;
        }
        let zero =
            if tensor.scalar.is_float() { b.float(0.0, tensor.scalar) } else { b.int(0, tensor.scalar) };
        let zeros = b.build(&vec![zero; vector]);
        let local = b.local(tensor.scalar.by(vector as u8), zeros);
        b.when(there, |b| {
            let own = b.load_vector(Memory::Global(pointer), from, vector);
            b.set(local, own);
        });
        let own = b.get(local);
        for (lane, part) in converted(b, own, vector, to.scalar).into_iter().enumerate() {
            let element = b.add(element, lane);
            let (major, minor) = if to.turned { (element, line) } else { (line, element) };
            let major = b.mul(major, to.stride);
            let at = b.add(major, minor);
            b.store(Memory::Shared(to.array), at, part);
        }
    };
    if b.target().language == Language::SpirV {
        // Compilers of CPUs take long for branches between barriers.
        return b.for_range(thread, count, threads, fetch);
    }
    for round in 0..count.div_ceil(threads) {
        let index = b.add(thread, round * threads);
        if (round + 1) * threads > count {
            let inside = b.less(index, count);
            b.when(inside, |b| fetch(b, index));
        } else {
            fetch(b, index);
        }
    }
}
