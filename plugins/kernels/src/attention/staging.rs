//! Rows of a tensor into shared memory.

use super::Tensor;
use crate::builder::Builder;
use crate::form::{Memory, Pointer, Shared, Value};
use crate::target::Language;

/// The offset of a sequence's head.
pub(super) fn base(b: &mut Builder, tensor: &Tensor, sequence: Value, head: Value) -> Value {
    let sequence = b.mul(sequence, tensor.strides[0]);
    let head = b.mul(head, tensor.strides[1]);
    b.add(sequence, head)
}

/// An array of rows in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) array: Shared,
    /// The distance of rows, or of elements if it is turned.
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// Elements of a row, with padding to whole tiles.
    pub(super) elements: usize,
    /// Whether elements of a column are neighbours.
    pub(super) turned: bool,
}

impl Rows {
    pub(super) fn new(b: &mut Builder, tensor: &Tensor, rows: usize, elements: usize, turned: bool) -> Self {
        let (stride, length) = Self::sizes(tensor, rows, elements, turned);
        Self { array: b.shared(tensor.scalar, length), stride, rows, elements, turned }
    }

    /// As [`Rows::new`], in an array that there is.
    pub(super) fn within(array: Shared, tensor: &Tensor, rows: usize, elements: usize, turned: bool) -> Self {
        let (stride, _) = Self::sizes(tensor, rows, elements, turned);
        Self { array, stride, rows, elements, turned }
    }

    /// The distance of lines, and all elements.
    pub(super) fn sizes(tensor: &Tensor, rows: usize, elements: usize, turned: bool) -> (usize, usize) {
        let pad = 16 / tensor.scalar.size();
        let (lines, length) = if turned { (elements, rows) } else { (rows, elements) };
        let stride = length.next_multiple_of(pad) + pad;
        (stride, lines * stride)
    }
}

/// The most elements that are fetched together.
fn vector(tensor: &Tensor, depth: usize) -> usize {
    let size = tensor.scalar.size();
    let [batch, head, row, element] = tensor.strides;
    let mut most = 16 / size;
    let fits = |most: usize| {
        element == 1
            && tensor.alignment.is_multiple_of(most * size)
            && [batch, head, row, depth].iter().all(|own| own.is_multiple_of(most))
    };
    while most > 1 && !fits(most) {
        most /= 2;
    }
    most
}

/// Copies rows from `first_row` on, those below `valid`, of a tensor from `base` on; other rows and the padding are 0. `place` gives a row's place.
pub(super) fn copy(
    b: &mut Builder,
    [thread, base, first_row, valid]: [Value; 4],
    (pointer, tensor, depth): (Pointer, &Tensor, usize),
    to: &Rows,
    threads: usize,
    place: &dyn Fn(&mut Builder, Value) -> Value,
) {
    let vector = vector(tensor, depth);
    let across = to.elements / vector;
    let count = to.rows * across;
    let bytes = vector * tensor.scalar.size();
    let fetch = |b: &mut Builder, index: Value| {
        let (row, near) = b.div_rem(index, across);
        let element = b.mul(near, vector);
        let own = b.add(first_row, row);
        let mut there = b.less(own, valid);
        if to.elements != depth {
            let inside = b.less(element, depth);
            there = b.and(there, inside);
        }
        let line = b.mul(own, tensor.strides[2]);
        let along = b.mul(element, tensor.strides[3]);
        let from = b.add(base, line);
        let from = b.add(from, along);
        let line = place(b, row);
        if !to.turned && bytes >= 4 {
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
        for lane in 0..vector {
            let element = b.add(element, lane);
            let (major, minor) = if to.turned { (element, line) } else { (line, element) };
            let major = b.mul(major, to.stride);
            let at = b.add(major, minor);
            let part = b.extract(own, lane);
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
