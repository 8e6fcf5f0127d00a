//! Rows of a tensor into shared memory.

use super::Tensor;
use super::sequence::Source;
use crate::builder::Builder;
use crate::form::{Local, Memory, Shared, Value};
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
    /// Where they begin in the array, if not at its first element.
    pub(super) begin: Option<Value>,
}

impl Rows {
    pub(super) fn new(b: &mut Builder, scalar: Scalar, rows: usize, elements: usize, turned: bool) -> Self {
        let (stride, length) = Self::sizes(scalar, rows, elements, turned);
        let array = b.shared(scalar, length);
        Self { array, scalar, stride, rows, elements, turned, begin: None }
    }

    /// As [`Rows::new`], in an array that there is.
    pub(super) fn within(array: Shared, scalar: Scalar, rows: usize, elements: usize, turned: bool) -> Self {
        let (stride, _) = Self::sizes(scalar, rows, elements, turned);
        Self { array, scalar, stride, rows, elements, turned, begin: None }
    }

    /// Elements with padding.
    pub(super) fn length(&self) -> usize {
        Self::sizes(self.scalar, self.rows, self.elements, self.turned).1
    }

    /// The index in the array of what is so far behind the first element.
    pub(super) fn at(&self, b: &mut Builder, offset: Value) -> Value {
        match self.begin {
            Some(begin) => b.add(begin, offset),
            None => offset,
        }
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

/// Rows on their way to shared memory: those from `first` on that are there; other rows and the padding are 0. Where there are pages,
/// `first` is a multiple of the copied rows.
#[derive(Clone, Copy)]
pub(super) struct Copy<'a> {
    /// The thread in the workgroup, and how many there are.
    pub(super) thread: Value,
    pub(super) threads: usize,
    pub(super) first: Value,
    pub(super) source: &'a Source,
    /// Where a row's elements begin.
    pub(super) from: usize,
    pub(super) to: &'a Rows,
}

/// The place of a row in shared memory.
type Place<'a> = &'a dyn Fn(&mut Builder, Value) -> Value;

/// A vector of a row in memory: its row, its first element, its index, and whether it is there.
struct Vector {
    row: Value,
    element: Value,
    at: Value,
    there: Value,
}

impl Copy<'_> {
    fn depth(&self) -> usize {
        self.source.bound.elements.saturating_sub(self.from)
    }

    /// Elements that are fetched together.
    fn width(&self) -> usize {
        vector(&self.source.bound.tensor, self.depth(), self.to.scalar)
    }

    fn count(&self) -> usize {
        self.to.rows * (self.to.elements / self.width())
    }

    /// The place of the first row if all are in one page.
    fn together(&self, b: &mut Builder) -> Option<Value> {
        let is_together = self.source.page().is_some_and(|rows| rows.is_multiple_of(self.to.rows));
        is_together.then(|| self.source.line(b, self.first))
    }

    /// A vector by its number.
    fn vector(&self, b: &mut Builder, index: Value, together: Option<Value>) -> Vector {
        let Self { source, to, .. } = self;
        let tensor = &source.bound.tensor;
        let base = b.add(source.base, self.from * tensor.strides[3]);
        let (row, near) = b.div_rem(index, to.elements / self.width());
        let element = b.mul(near, self.width());
        let own = b.add(self.first, row);
        let mut there = b.less(own, source.valid);
        if to.elements != self.depth() {
            let inside = b.less(element, self.depth());
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
        let at = b.add(base, line);
        let at = b.add(at, along);
        Vector { row, element, at, there }
    }

    /// Loads a vector, or zeros.
    fn load(&self, b: &mut Builder, index: Value, together: Option<Value>) -> Local {
        let own = self.vector(b, index, together);
        let (scalar, width) = (self.source.bound.tensor.scalar, self.width());
        let zero = if scalar.is_float() { b.float(0.0, scalar) } else { b.int(0, scalar) };
        let zeros = b.build(&vec![zero; width]);
        let local = b.local(scalar.by(width as u8), zeros);
        b.when(own.there, |b| {
            let loaded = b.load_vector(Memory::Global(self.source.bound.data), own.at, width);
            b.set(local, loaded);
        });
        local
    }

    /// Stores a loaded vector.
    fn store(&self, b: &mut Builder, index: Value, local: Local, place: Place<'_>) {
        let (to, width) = (self.to, self.width());
        let (row, near) = b.div_rem(index, to.elements / width);
        let element = b.mul(near, width);
        let line = place(b, row);
        let own = b.get(local);
        if !to.turned && self.source.bound.tensor.scalar == to.scalar {
            let line = b.mul(line, to.stride);
            let at = b.add(line, element);
            let at = to.at(b, at);
            return b.store(Memory::Shared(to.array), at, own);
        }
        for (lane, part) in converted(b, own, width, to.scalar).into_iter().enumerate() {
            let element = b.add(element, lane);
            let (major, minor) = if to.turned { (element, line) } else { (line, element) };
            let major = b.mul(major, to.stride);
            let at = b.add(major, minor);
            let at = to.at(b, at);
            b.store(Memory::Shared(to.array), at, part);
        }
    }

    /// Calls `each` with the number of each vector of this thread. Those beyond the last are in a branch.
    fn rounds(&self, b: &mut Builder, each: &mut dyn FnMut(&mut Builder, Value)) {
        let (count, threads) = (self.count(), self.threads);
        for round in 0..count.div_ceil(threads) {
            let index = b.add(self.thread, round * threads);
            if (round + 1) * threads > count {
                let inside = b.less(index, count);
                b.when(inside, |b| each(b, index));
            } else {
                each(b, index);
            }
        }
    }

    /// Copies this thread's vectors from `first` on, as many as are under way at once.
    fn several(&self, b: &mut Builder, first: Value, together: Option<Value>, place: Place<'_>) {
        let mut fetched = Vec::with_capacity(UNDER_WAY);
        for round in 0..UNDER_WAY {
            let index = b.add(first, round * self.threads);
            let inside = b.less(index, self.count());
            b.when(inside, |b| fetched.push((index, inside, self.load(b, index, together))));
        }
        for (index, inside, local) in fetched {
            b.when(inside, |b| self.store(b, index, local, place));
        }
    }

    /// Loads this thread's vectors into registers, beside other work.
    pub(super) fn fetch(&self, b: &mut Builder) -> Vec<Local> {
        let mut all = Vec::new();
        let together = self.together(b);
        self.rounds(b, &mut |b, index| all.push(self.load(b, index, together)));
        all
    }

    /// Stores what [`Copy::fetch`] loaded.
    pub(super) fn keep(&self, b: &mut Builder, fetched: &[Local], place: Place<'_>) {
        let mut all = fetched.iter();
        self.rounds(b, &mut |b, index| {
            if let Some(local) = all.next() {
                self.store(b, index, *local, place);
            }
        });
    }
}

/// Vectors of a thread that code is written for; more are copied in a loop, some under way at once. Compilers take what does not change in the
/// loops around them, as each vector's row, out of these, and run out of registers.
const WRITTEN: usize = 16;
const UNDER_WAY: usize = 8;

/// Copies rows. `place` gives a row's place.
pub(super) fn copy(b: &mut Builder, copy: &Copy<'_>, place: Place<'_>) {
    if b.target().language == Language::SpirV && !b.target().wants_small_kernels() {
        // All loads are under way before the first is waited for.
        if copy.count().div_ceil(copy.threads) <= WRITTEN {
            let fetched = copy.fetch(b);
            return copy.keep(b, &fetched, place);
        }
        let together = copy.together(b);
        return b.for_range(copy.thread, copy.count(), UNDER_WAY * copy.threads, |b, first| {
            copy.several(b, first, together, place);
        });
    }
    let Copy { source, to, .. } = copy;
    let tensor = &source.bound.tensor;
    let bytes = copy.width() * tensor.scalar.size();
    let together = copy.together(b);
    let mut each = |b: &mut Builder, index: Value| {
        if to.turned || bytes < 4 || tensor.scalar != to.scalar {
            let local = copy.load(b, index, together);
            return copy.store(b, index, local, place);
        }
        let Vector { row, element, at: from, there } = copy.vector(b, index, together);
        let line = place(b, row);
        let line = b.mul(line, to.stride);
        let at = b.add(line, element);
        let at = to.at(b, at);
        let from = b.select(there, from, 0);
        b.async_copy((to.array, at), (source.bound.data, from), bytes, Some(there));
    };
    if b.target().wants_small_kernels() {
        return b.for_range(copy.thread, copy.count(), copy.threads, each);
    }
    copy.rounds(b, &mut each);
}
