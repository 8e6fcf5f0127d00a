//! Several operations in one loop, whose results stay in registers.
//!
//! A loop per operation would read and write the L1 cache each time. Here some vectors go through all
//! operations, each of which uses the previous result. Only results that are read again later are stored.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::{PointwiseMode, ReductionMode};

use crate::dtype::element::ComputeType;
use crate::pointwise::chain::{Operation, Step};
use crate::pointwise::functions::{All, Functions};
use crate::pointwise::smooth::Smooth;
use crate::simd::convert;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::row::{read, write};
use crate::simd::stored::Stored;
use crate::simd::stream::before_aligned;
use crate::simd::vector::{Lanewise, MAX_LANES, Vector, VectorTask};
use crate::tensor::combine::{Combine, finalized, fold_lanes, with_combine};
use crate::tensor::row_converter::{Float16, RowConverter};

/// How many vectors go through the operations together: enough to hide each operation's latency.
const TOGETHER: usize = 8;

/// The most reductions of a line.
pub(crate) const MAX_TOTALS: usize = 2;

/// The most rows that a line reads and writes.
pub(crate) const MAX_ROWS: usize = 24;

/// An operation in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Applied<T> {
    /// A few instructions.
    Lanewise(Lanewise),
    /// Clamps to two bounds.
    Clamp(T, T),
    /// A function, with its parameter.
    Smooth(Smooth, T),
}

impl<T: Functions> Applied<T> {
    /// The operation in registers, if it can be computed there.
    pub(crate) fn of(step: &Step) -> Option<Self> {
        use PointwiseMode as M;
        let Operation::Pointwise(mode, activation) = &step.operation else { return None };
        Some(Self::Lanewise(match mode {
            M::Add => Lanewise::Add,
            M::Sub => Lanewise::Sub,
            M::Mul => Lanewise::Mul,
            M::Div => Lanewise::Div,
            M::Max => Lanewise::Max,
            M::Min => Lanewise::Min,
            M::Abs => Lanewise::Abs,
            M::Neg => Lanewise::Neg,
            M::Identity => Lanewise::Identity,
            M::ReluFwd if step.is_relu() => Lanewise::Relu,
            M::ReluFwd => {
                return step
                    .clips()
                    .map(|[low, high]| Self::Clamp(T::from_single(low), T::from_single(high)));
            }
            M::Sqrt => Lanewise::Sqrt,
            _ => {
                let smooth = Smooth::of(*mode, activation).filter(|smooth| T::in_registers(*smooth))?;
                return Some(Self::Smooth(smooth, T::from_f64(f64::from(smooth.parameter(activation)))));
            }
        }))
    }

    /// Estimated nanoseconds per element.
    pub(crate) fn time(&self) -> f64 {
        match self {
            Self::Lanewise(_) | Self::Clamp(..) => 0.1,
            Self::Smooth(..) => T::TIME,
        }
    }
}

/// Which operand the previous result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
    /// Both operands, or the only one.
    Both,
}

/// The other operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// Contiguous values, by their row.
    Row(usize),
    /// A single value: its index.
    One(usize),
}

/// A step of a line.
#[derive(Clone, Copy)]
pub(crate) enum Link<T> {
    /// Loads a row.
    Load(usize),
    /// Computes an operation.
    Apply(Applied<T>, Side, Other),
    /// Rounds to a dtype.
    Round(RowConverter<T>),
    /// Stores to a row.
    Store(usize),
    /// Adds the values to a reduction.
    Combine(ReductionMode, usize),
}

/// Operations over all values of a row.
pub(crate) struct Line<T> {
    pub(crate) links: Vec<Link<T>>,
}

/// The operands of a line.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a, T> {
    /// Contiguous values, by index of the row.
    pub(crate) rows: &'a [*mut T; MAX_ROWS],
    /// Single values.
    pub(crate) ones: *const T,
    /// The row that is written with non-temporal stores, until [`crate::simd::stream::settle`].
    pub(crate) streamed: Option<usize>,
}

impl<T: Functions> Line<T> {
    /// Runs `len` values through the line, and returns its reductions.
    ///
    /// # Safety
    /// The processor supports the instruction set. Rows that are loaded are readable and rows that are stored
    /// are writable for `len` values, with any alignment. Two rows are identical or do not overlap.
    pub(crate) unsafe fn run(&self, isa: Isa, memory: &Memory<'_, T>, len: usize) -> [T; MAX_TOTALS] {
        // SAFETY: the instruction set is valid, as this function requires.
        unsafe { isa.run_vectors::<T, _>(LineTask { links: &self.links, memory, len }) }
    }
}

struct LineTask<'a, T> {
    links: &'a [Link<T>],
    memory: &'a Memory<'a, T>,
    len: usize,
}

/// Independent accumulators, so that additions overlap.
const SUMS: usize = 4;

/// The accumulators of a line's reductions.
struct Totals<V: Vector> {
    vectors: [[V; SUMS]; MAX_TOTALS],
    /// For the values after the last whole vector.
    rest: [V::Scalar; MAX_TOTALS],
}

impl<T: Functions> VectorTask<T> for LineTask<'_, T> {
    type Output = [T; MAX_TOTALS];

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) -> [T; MAX_TOTALS] {
        let Self { links, memory, len } = self;
        // SAFETY: this function requires the instructions.
        let zero = unsafe { V::zero() };
        let mut totals = Totals { vectors: [[zero; SUMS]; MAX_TOTALS], rest: [T::ZERO; MAX_TOTALS] };
        for link in links {
            if let Link::Combine(mode, total) = *link {
                totals.rest[total] = with_combine!(mode, J => J::start::<T>());
                totals.vectors[total] = [zero.broadcast(totals.rest[total]); SUMS];
            }
        }
        // If no element of the row can be aligned, nothing is streamed.
        let aligned = memory.streamed.map(|row| before_aligned::<V>(memory.rows[row]));
        let unaligned = Memory { streamed: None, ..*memory };
        let memory = if aligned == Some(None) { &unaligned } else { memory };
        let mut at = aligned.flatten().unwrap_or(0).min(len);
        if at > 0 {
            // SAFETY: the values before the first aligned one are below `len`, up to which the rows have values.
            unsafe { rest::<T, V>(links, memory, 0..at, &mut totals) };
        }
        if let (
            [
                Link::Load(from),
                Link::Apply(Applied::Smooth(smooth, parameter), Side::Both, _),
                Link::Store(to),
            ],
            None,
        ) = (links, memory.streamed)
        {
            // A single function reads and writes the rows itself.
            let (from, to, count) = (memory.rows[*from].cast_const(), memory.rows[*to], len / V::LANES);
            let all = All { smooth: *smooth, parameter: *parameter, from: [(from, V::LANES); 2], to, count };
            // SAFETY: the rows have `count` vectors, and the processor has the vector's instructions.
            unsafe { V::call(FunctionTask::<'_, T, V>(&all, PhantomData)) };
            at = count * V::LANES;
        }
        while at + TOGETHER * V::LANES <= len {
            // SAFETY: the vectors end at most at `len`.
            unsafe { block::<T, V, TOGETHER>(links, memory, at, (V::LANES, None), &mut totals) };
            at += TOGETHER * V::LANES;
        }
        if at + TOGETHER / 2 * V::LANES <= len {
            // SAFETY: the vectors end at most at `len`.
            unsafe { block::<T, V, { TOGETHER / 2 }>(links, memory, at, (V::LANES, None), &mut totals) };
            at += TOGETHER / 2 * V::LANES;
        }
        if at < len {
            // SAFETY: the range ends at `len`.
            unsafe { rest::<T, V>(links, memory, at..len, &mut totals) };
        }
        let mut results = [T::ZERO; MAX_TOTALS];
        for link in links {
            if let Link::Combine(mode, total) = *link {
                let sum =
                    with_combine!(mode, J => combined::<V, J>(&totals.vectors[total], totals.rest[total]));
                results[total] = finalized(mode, sum, len);
            }
        }
        results
    }
}

/// Combines accumulators.
#[inline(always)]
fn combined<V: Vector, J: Combine>(vectors: &[V; SUMS], rest: V::Scalar) -> V::Scalar {
    let [a, b, c, d] = *vectors;
    let all = J::merge_vector(J::merge_vector(a, b), J::merge_vector(c, d));
    J::merge(fold_lanes::<V, J>(all), rest)
}

/// Processes values vector by vector, the last ones in some lanes.
///
/// # Safety
/// As [`Line::run`], for the values in the range.
#[inline(always)]
unsafe fn rest<T: Functions, V: Vector<Scalar = T>>(
    links: &[Link<T>],
    memory: &Memory<'_, T>,
    range: std::ops::Range<usize>,
    totals: &mut Totals<V>,
) {
    let mut at = range.start;
    while at < range.end {
        let count = V::LANES.min(range.end - at);
        // SAFETY: the values, and the instructions are valid, as this function requires.
        unsafe {
            let part = (count < V::LANES).then(|| V::lanes(0, count));
            let streamed = memory.streamed.filter(|_| part.is_none());
            let memory = Memory { streamed, ..*memory };
            block::<T, V, 1>(links, &memory, at, (count, part), totals);
        }
        at += count;
    }
}

/// Processes `K` vectors, or the first `lanes` of one vector, which `part` then masks.
///
/// # Safety
/// As [`Line::run`], for the vectors from `at` on.
#[inline(always)]
unsafe fn block<T: Functions, V: Vector<Scalar = T>, const K: usize>(
    links: &[Link<T>],
    memory: &Memory<'_, T>,
    at: usize,
    (lanes, part): (usize, Option<V::Lanes>),
    totals: &mut Totals<V>,
) {
    // SAFETY: this function requires the instructions.
    let mut vectors = unsafe { [V::zero(); K] };
    for link in links {
        match *link {
            // SAFETY: the row has the vectors from `at` on, or the lanes of one.
            Link::Load(row) => vectors = unsafe { loaded(memory.rows[row].add(at), part) },
            Link::Apply(Applied::Lanewise(operation), side, other) => {
                // The other operand is loaded first, so that each operation has one loop.
                let mut others = vectors;
                if side != Side::Both {
                    // SAFETY: a single value exists, and a row has the vectors from `at` on, or the lanes of one.
                    others = unsafe {
                        match other {
                            Other::One(one) => [V::splat(memory.ones.add(one).read()); K],
                            Other::Row(row) => loaded(memory.rows[row].add(at), part),
                        }
                    };
                }
                // Not `swap`, which passes all of them through memory.
                if side == Side::Second {
                    (vectors, others) = (others, vectors);
                }
                macro_rules! all {
                    ($($name:ident),*) => {
                        match operation {
                            $(Lanewise::$name => {
                                for i in 0..K {
                                    vectors[i] = vectors[i].lanewise(Lanewise::$name, others[i]);
                                }
                            })*
                            Lanewise::Identity => {}
                        }
                    };
                }
                all!(Add, Sub, Mul, Div, Max, Min, Abs, Neg, Relu, Sqrt, NotBelow, NotAbove, Scale);
            }
            Link::Apply(Applied::Clamp(low, high), ..) => {
                for vector in &mut vectors {
                    *vector = vector.clamp(vector.broadcast(low), vector.broadcast(high));
                }
            }
            Link::Apply(Applied::Smooth(smooth, parameter), side, other) => {
                // SAFETY: the other operand has the vectors from `at` on, or the lanes of one.
                vectors = unsafe {
                    functions::<T, V, K>(vectors, (smooth, parameter), (side, other), memory, (at, part))
                };
            }
            // SAFETY: a vector exists only on a processor with its instructions.
            Link::Round(run) => vectors = unsafe { rounded::<T, V, K>(vectors, run) },
            Link::Store(row) => {
                let to = memory.rows[row].wrapping_add(at);
                for (i, vector) in vectors.iter().enumerate() {
                    // SAFETY: the row has the vectors from `at` on, or the lanes of one; of a streamed row they are aligned.
                    unsafe {
                        let to = to.add(i * V::LANES);
                        if memory.streamed == Some(row) {
                            vector.stream(to);
                        } else {
                            write(*vector, to, part);
                        }
                    }
                }
            }
            Link::Combine(mode, total) if lanes == V::LANES => {
                let mut sums = totals.vectors[total];
                with_combine!(mode, J => {
                    for (i, vector) in vectors.iter().enumerate() {
                        sums[i % SUMS] = J::vector(sums[i % SUMS], *vector);
                    }
                });
                totals.vectors[total] = sums;
            }
            Link::Combine(mode, total) => {
                let (values, rest) = (vectors[0].values(), &mut totals.rest[total]);
                with_combine!(mode, J => {
                    for value in &values[..lanes] {
                        *rest = J::value(*rest, *value);
                    }
                });
            }
        }
    }
}

/// Consecutive vectors, or some lanes of one.
///
/// # Safety
/// The processor has the vector's instructions; the values are readable.
#[inline(always)]
unsafe fn loaded<V: Vector, const K: usize>(from: *const V::Scalar, part: Option<V::Lanes>) -> [V; K] {
    // SAFETY: this function requires the instructions and the values.
    unsafe {
        let mut vectors = [V::zero(); K];
        for (i, vector) in vectors.iter_mut().enumerate() {
            *vector = read::<V>(from.add(i * V::LANES), part);
        }
        vectors
    }
}

/// A function of each vector. The vectors pass through memory, so that each function is compiled once.
///
/// # Safety
/// As [`block`].
#[inline(always)]
unsafe fn functions<T: Functions, V: Vector<Scalar = T>, const K: usize>(
    vectors: [V; K],
    (smooth, parameter): (Smooth, T),
    (side, other): (Side, Other),
    memory: &Memory<'_, T>,
    (at, part): (usize, Option<V::Lanes>),
) -> [V; K] {
    let mut near = vectors;
    let mut spread = [T::ZERO; MAX_LANES];
    let to = near.as_mut_ptr().cast::<T>();
    let own = (to.cast_const(), V::LANES);
    let others = match other {
        _ if side == Side::Both => own,
        Other::Row(row) => {
            let from = memory.rows[row].wrapping_add(at).cast_const();
            if part.is_some() {
                // SAFETY: the row has the lanes.
                spread = unsafe { read::<V>(from, part) }.values();
            }
            (if part.is_some() { spread.as_ptr() } else { from }, V::LANES)
        }
        Other::One(one) => {
            // SAFETY: `ones` has a number for each operand that the program reads as `Other::One`.
            spread = [unsafe { memory.ones.add(one).read() }; MAX_LANES];
            (spread.as_ptr(), 0)
        }
    };
    let from = if side == Side::Second { [others, own] } else { [own, others] };
    // SAFETY: both operands have `K` vectors, or one value for all, and the results overwrite the first.
    unsafe {
        V::call(FunctionTask::<'_, T, V>(&All { smooth, parameter, from, to, count: K }, PhantomData));
    }
    near
}

/// The function of some vectors, compiled once for all loops that use it.
pub(crate) struct FunctionTask<'a, T, V>(&'a All<T>, PhantomData<V>);

impl<'a, T, V> FunctionTask<'a, T, V> {
    /// The function of vectors that outlive the task.
    ///
    /// # Safety
    /// As [`Functions::smooth`].
    pub(crate) unsafe fn new(all: &'a All<T>) -> Self {
        Self(all, PhantomData)
    }
}

impl<T: Functions, V: Vector<Scalar = T>> IsaTask for FunctionTask<'_, T, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // SAFETY: made for valid operands, and run on a processor with the vector's instructions.
        unsafe { T::smooth::<V>(self.0) };
    }
}

/// Rounds vectors to a dtype.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
unsafe fn rounded<T: Functions, V: Vector<Scalar = T>, const K: usize>(
    vectors: [V; K],
    run: RowConverter<T>,
) -> [V; K] {
    // SAFETY: the processor has the vector's instructions, which suffice for the conversions.
    unsafe {
        if V::ISA != Isa::Portable && convert::same::<T, f32>() {
            match run.float16 {
                Some(Float16::Half) => return as_stored::<f16, V, K>(vectors),
                Some(Float16::Bfloat16) => return as_stored::<bf16, V, K>(vectors),
                None => {}
            }
        }
        one_by_one(vectors, run)
    }
}

/// The same with instructions for these elements.
///
/// # Safety
/// As [`rounded`].
#[inline(always)]
unsafe fn as_stored<S: Stored, V: Vector, const K: usize>(mut vectors: [V; K]) -> [V; K] {
    let mut stored = [S::nearest(V::Scalar::ZERO); MAX_LANES];
    for vector in &mut vectors {
        // SAFETY: the processor has the instructions, as this function requires; no vector has more lanes than there
        // are elements.
        unsafe {
            convert::store(*vector, stored.as_mut_ptr());
            *vector = convert::load(stored.as_ptr());
        }
    }
    vectors
}

/// The same for any dtype, through memory.
///
/// # Safety
/// As [`rounded`].
#[inline(always)]
unsafe fn one_by_one<T: Functions, V: Vector<Scalar = T>, const K: usize>(
    mut vectors: [V; K],
    run: RowConverter<T>,
) -> [V; K] {
    let mut values = [T::ZERO; MAX_LANES * TOGETHER];
    // No element is larger than a value.
    let mut stored = [T::ZERO; MAX_LANES * TOGETHER];
    // SAFETY: the processor has the instructions, as this function requires; there is room for all vectors.
    unsafe {
        for (i, vector) in vectors.iter().enumerate() {
            vector.store(values.as_mut_ptr().add(i * V::LANES));
        }
        (run.store)(values.as_ptr(), stored.as_mut_ptr().cast(), 1, K * V::LANES);
        (run.load)(stored.as_ptr().cast(), 1, values.as_mut_ptr(), K * V::LANES);
        for (i, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(values.as_ptr().add(i * V::LANES));
        }
    }
    vectors
}
