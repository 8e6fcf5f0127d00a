//! Operations one behind the other, whose results stay in registers.
//!
//! A loop for each operation would read and write the L1 cache for each. Instead some vectors go through all of
//! them: what an operation makes is what the next one goes on with. Only what is read again later is stored.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::{PointwiseMode, ReductionMode};

use crate::dtype::element::Real;
use crate::pointwise::chain::{Operation, Step};
use crate::pointwise::functions::{All, Functions};
use crate::pointwise::smooth::Smooth;
use crate::simd::convert;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::stored::Stored;
use crate::simd::stream::before_aligned;
use crate::simd::vector::{Lanewise, MAX_LANES, Vector, VectorTask};
use crate::tensor::combine::{Combine, finalized, fold_lanes, with_combine};
use crate::tensor::image::{read, write};
use crate::tensor::row_converter::{Float16, RowConverter};

/// Vectors that go through the operations together: enough that each of the operations has something to wait for.
const TOGETHER: usize = 8;

/// The most reductions of a line.
pub(crate) const MAX_TOTALS: usize = 2;

/// Places that a line reads and writes, at most.
pub(crate) const MAX_PLACES: usize = 24;

/// An operation in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Applied<T> {
    /// Of a few instructions.
    Lanewise(Lanewise),
    /// A function, with the number that it has of its own.
    Smooth(Smooth, T),
}

impl<T: Functions> Applied<T> {
    /// The form in registers of an operation; none where it has none.
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
            M::Sqrt => Lanewise::Sqrt,
            _ => {
                let smooth = Smooth::of(*mode, activation).filter(|smooth| T::in_registers(*smooth))?;
                return Some(Self::Smooth(smooth, T::from_f64(f64::from(smooth.number(activation)))));
            }
        }))
    }

    /// Nanoseconds that one number takes, about.
    pub(crate) fn time(&self) -> f64 {
        match self {
            Self::Lanewise(_) => 0.1,
            Self::Smooth(..) => T::TIME,
        }
    }
}

/// The side of an operation that the result of the one before it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
    /// It is both operands, or the only one.
    Both,
}

/// An operand that is not the result of the operation before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// Numbers side by side, by their place.
    Row(usize),
    /// One number, by its place among those.
    One(usize),
}

/// A step of a line.
#[derive(Clone, Copy)]
pub(crate) enum Link<T> {
    /// Goes on with the numbers of a place.
    Load(usize),
    /// Does an operation.
    Apply(Applied<T>, Side, Other),
    /// Rounds as if the numbers were stored and read again.
    Round(RowConverter<T>),
    /// Writes the numbers to a place.
    Store(usize),
    /// Adds the numbers to a total.
    Combine(ReductionMode, usize),
}

/// Steps over all numbers of a row.
pub(crate) struct Line<T> {
    pub(crate) links: Vec<Link<T>>,
}

/// Where a line finds its numbers.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a, T> {
    /// Numbers side by side, by place.
    pub(crate) rows: &'a [*mut T; MAX_PLACES],
    /// Single numbers.
    pub(crate) ones: *const T,
    /// The place that is written around the caches, until [`crate::simd::stream::settle`].
    pub(crate) streamed: Option<usize>,
}

impl<T: Functions> Line<T> {
    /// Runs `len` numbers through the line, and yields what its reductions make of them.
    ///
    /// # Safety
    /// The processor supports the instruction set. The places that are read are readable and those that are
    /// written are writable for `len` numbers, without alignment; two places may be the same, but not overlap
    /// otherwise.
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

/// Totals next to each other, so that an addition does not wait for the one before.
const SUMS: usize = 4;

/// What the reductions of a line have so far.
struct Totals<V: Vector> {
    vectors: [[V; SUMS]; MAX_TOTALS],
    /// Of the numbers that fill no vector.
    rest: [V::Scalar; MAX_TOTALS],
}

impl<T: Functions> VectorTask<T> for LineTask<'_, T> {
    type Output = [T; MAX_TOTALS];

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) -> [T; MAX_TOTALS] {
        let Self { links, memory, len } = self;
        // SAFETY: the processor has the vector's instructions, and the numbers are valid.
        unsafe {
            let zero = V::zero();
            let mut totals = Totals { vectors: [[zero; SUMS]; MAX_TOTALS], rest: [T::ZERO; MAX_TOTALS] };
            for link in links {
                if let Link::Combine(mode, total) = *link {
                    totals.rest[total] = with_combine!(mode, J => J::start::<T>());
                    totals.vectors[total] = [V::splat(totals.rest[total]); SUMS];
                }
            }
            // Where there is no place that a vector can be streamed to, nothing is.
            let aligned = memory.streamed.map(|place| before_aligned::<V>(memory.rows[place]));
            let unaligned = Memory { streamed: None, ..*memory };
            let memory = if aligned == Some(None) { &unaligned } else { memory };
            let mut at = aligned.flatten().unwrap_or(0).min(len);
            if at > 0 {
                rest::<T, V>(links, memory, 0..at, &mut totals);
            }
            if let (
                [
                    Link::Load(from),
                    Link::Apply(Applied::Smooth(smooth, number), Side::Both, _),
                    Link::Store(to),
                ],
                None,
            ) = (links, memory.streamed)
            {
                // Nothing but a function: it reads and writes the rows itself.
                let (from, to, count) = (memory.rows[*from].cast_const(), memory.rows[*to], len / V::LANES);
                let all = All { smooth: *smooth, number: *number, from: [(from, V::LANES); 2], to, count };
                V::dispatch(FunctionTask::<'_, T, V>(&all, PhantomData));
                at = count * V::LANES;
            }
            while at + TOGETHER * V::LANES <= len {
                block::<T, V, TOGETHER>(links, memory, at, (V::LANES, None), &mut totals);
                at += TOGETHER * V::LANES;
            }
            if at < len {
                rest::<T, V>(links, memory, at..len, &mut totals);
            }
            let mut results = [T::ZERO; MAX_TOTALS];
            for link in links {
                if let Link::Combine(mode, total) = *link {
                    let sum =
                        with_combine!(mode, J => joined::<V, J>(&totals.vectors[total], totals.rest[total]));
                    results[total] = finalized(mode, sum, len);
                }
            }
            results
        }
    }
}

/// The total of vectors and a number.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
unsafe fn joined<V: Vector, J: Combine>(vectors: &[V; SUMS], rest: V::Scalar) -> V::Scalar {
    // SAFETY: the processor has the vector's instructions, as this function requires.
    unsafe {
        let [a, b, c, d] = *vectors;
        let all = J::merge_vector(J::merge_vector(a, b), J::merge_vector(c, d));
        J::merge(fold_lanes::<V, J>(all), rest)
    }
}

/// Takes numbers through the line vector by vector. The last of them may fill only some lanes of one.
///
/// # Safety
/// As [`Line::run`], for the numbers in the range.
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
        // SAFETY: the numbers, and the instructions are valid, as this function requires.
        unsafe {
            let part = (count < V::LANES).then(|| V::lanes(0, count));
            let streamed = memory.streamed.filter(|_| part.is_none());
            let memory = Memory { streamed, ..*memory };
            block::<T, V, 1>(links, &memory, at, (count, part), totals);
        }
        at += count;
    }
}

/// Takes `K` vectors through the line, of which all lanes count, or the first `lanes` of one, which `part` says then.
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
    // SAFETY: the processor has the vector's instructions, and the numbers are valid.
    unsafe {
        let mut vectors = [V::zero(); K];
        for link in links {
            match *link {
                Link::Load(place) => {
                    let from = memory.rows[place].add(at);
                    for (i, vector) in vectors.iter_mut().enumerate() {
                        *vector = read::<V>(from.add(i * V::LANES), part);
                    }
                }
                Link::Apply(Applied::Lanewise(operation), side, other) => {
                    // Whatever the other operand is, it comes into registers first, so that each operation has one loop.
                    let mut others = vectors;
                    if side != Side::Both {
                        match other {
                            Other::One(one) => others = [V::splat(memory.ones.add(one).read()); K],
                            Other::Row(place) => {
                                let from = memory.rows[place].add(at);
                                for (i, other) in others.iter_mut().enumerate() {
                                    *other = read::<V>(from.add(i * V::LANES), part);
                                }
                            }
                        }
                    }
                    if side == Side::Second {
                        std::mem::swap(&mut vectors, &mut others);
                    }
                    macro_rules! all {
                        ($($name:ident),*) => {
                            match operation {
                                $(Lanewise::$name => {
                                    for (vector, other) in vectors.iter_mut().zip(others) {
                                        *vector = vector.lanewise(Lanewise::$name, other);
                                    }
                                })*
                                Lanewise::Identity => {}
                            }
                        };
                    }
                    all!(Add, Sub, Mul, Div, Max, Min, Abs, Neg, Relu, Sqrt, NotBelow, NotAbove, Scale);
                }
                Link::Apply(Applied::Smooth(smooth, number), side, other) => {
                    vectors =
                        functions::<T, V, K>(vectors, (smooth, number), (side, other), memory, (at, part));
                }
                Link::Round(run) => vectors = rounded::<T, V, K>(vectors, run),
                Link::Store(place) => {
                    let to = memory.rows[place].add(at);
                    if memory.streamed == Some(place) {
                        for (i, vector) in vectors.iter().enumerate() {
                            vector.stream(to.add(i * V::LANES));
                        }
                    } else {
                        for (i, vector) in vectors.iter().enumerate() {
                            write(*vector, to.add(i * V::LANES), part);
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
                    let mut numbers = [T::ZERO; MAX_LANES];
                    vectors[0].store(numbers.as_mut_ptr());
                    let rest = &mut totals.rest[total];
                    with_combine!(mode, J => {
                        for number in &numbers[..lanes] {
                            *rest = J::number(*rest, *number);
                        }
                    });
                }
            }
        }
    }
}

/// A function of each vector. The vectors pass through memory, so that there is one copy of each function.
///
/// # Safety
/// As [`block`].
#[inline(always)]
unsafe fn functions<T: Functions, V: Vector<Scalar = T>, const K: usize>(
    vectors: [V; K],
    (smooth, number): (Smooth, T),
    (side, other): (Side, Other),
    memory: &Memory<'_, T>,
    (at, part): (usize, Option<V::Lanes>),
) -> [V; K] {
    let mut near = vectors;
    let mut spread = [T::ZERO; MAX_LANES];
    // SAFETY: the processor has the vector's instructions, and the numbers are valid.
    unsafe {
        let to = near.as_mut_ptr().cast::<T>();
        let own = (to.cast_const(), V::LANES);
        let others = match other {
            _ if side == Side::Both => own,
            Other::Row(place) => {
                let from = memory.rows[place].add(at).cast_const();
                match part {
                    None => (from, V::LANES),
                    Some(_) => {
                        read::<V>(from, part).store(spread.as_mut_ptr());
                        (spread.as_ptr(), V::LANES)
                    }
                }
            }
            Other::One(one) => {
                spread = [memory.ones.add(one).read(); MAX_LANES];
                (spread.as_ptr(), 0)
            }
        };
        let from = if side == Side::Second { [others, own] } else { [own, others] };
        V::dispatch(FunctionTask::<'_, T, V>(&All { smooth, number, from, to, count: K }, PhantomData));
    }
    near
}

/// The function of some vectors, which is compiled apart from the loops that use it.
struct FunctionTask<'a, T, V>(&'a All<T>, PhantomData<V>);

impl<T: Functions, V: Vector<Scalar = T>> IsaTask for FunctionTask<'_, T, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // SAFETY: made where the numbers are, and run at the vector's instruction set.
        unsafe { T::smooth::<V>(self.0) };
    }
}

/// The vectors as they are when they have been stored.
///
/// # Safety
/// The processor has the vector's instructions.
#[inline(always)]
unsafe fn rounded<T: Functions, V: Vector<Scalar = T>, const K: usize>(
    vectors: [V; K],
    run: RowConverter<T>,
) -> [V; K] {
    // SAFETY: the function called requires what this one requires.
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

/// The same with the instructions that the instruction set has for such elements.
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

/// The same by what reads and writes elements of any type.
///
/// # Safety
/// As [`rounded`].
#[inline(always)]
unsafe fn one_by_one<T: Functions, V: Vector<Scalar = T>, const K: usize>(
    mut vectors: [V; K],
    run: RowConverter<T>,
) -> [V; K] {
    let mut numbers = [T::ZERO; MAX_LANES * TOGETHER];
    // What is stored is no larger than the numbers.
    let mut stored = [T::ZERO; MAX_LANES * TOGETHER];
    // SAFETY: the processor has the instructions, as this function requires; there is room for all vectors.
    unsafe {
        for (i, vector) in vectors.iter().enumerate() {
            vector.store(numbers.as_mut_ptr().add(i * V::LANES));
        }
        (run.store)(numbers.as_ptr(), stored.as_mut_ptr().cast(), 1, K * V::LANES);
        (run.load)(stored.as_ptr().cast(), 1, numbers.as_mut_ptr(), K * V::LANES);
        for (i, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(numbers.as_ptr().add(i * V::LANES));
        }
    }
    vectors
}
