//! A register as the micro-kernel sees it.

use crate::simd::array;
use crate::simd::isa::IsaTask;
use crate::simd::vector::{Lanewise, Vector, by_contract};

/// A register of accumulators, or of operands, which have as many bits but may hold several smaller values.
///
/// # Safety
/// An implementation's functions only need the instructions that `run` compiles for. They are
/// `#[inline(always)]`.
///
/// Registers exist only on a processor with these instructions, so functions that take one may use them.
pub(crate) unsafe trait Register: Copy {
    /// An accumulator, or an operand of as many bits.
    type Word: Copy + 'static;
    /// Words of a register.
    const LANES: usize;

    /// Zero in all lanes.
    ///
    /// # Safety
    /// The processor has the instructions that [`Register::run`] compiles for.
    unsafe fn zero() -> Self;

    /// The same word in all lanes.
    ///
    /// # Safety
    /// The processor has the instructions that [`Register::run`] compiles for.
    unsafe fn splat(word: Self::Word) -> Self;

    /// Reads words; no alignment is needed.
    ///
    /// # Safety
    /// The processor has the instructions that [`Register::run`] compiles for, and `LANES` words are readable.
    unsafe fn load(from: *const Self::Word) -> Self;

    /// Writes words; no alignment is needed.
    ///
    /// # Safety
    /// `to` is writable for `LANES` words.
    unsafe fn store(self, to: *mut Self::Word);

    /// The accumulators plus the product of two operands in each lane.
    fn add_product(self, a: Self, b: Self) -> Self;

    /// As [`Register::add_product`]; the compiler moves neither reads nor others of these past it, if it can be kept from that.
    #[inline(always)]
    fn add_product_in_order(self, a: Self, b: Self) -> Self {
        self.add_product(a, b)
    }

    /// The sum of two registers of accumulators.
    fn plus(self, other: Self) -> Self;

    /// RELU of accumulators.
    fn relu(self) -> Self;

    /// Accumulators clamped to two bounds.
    fn clamp(self, low: Self::Word, high: Self::Word) -> Self;

    /// Runs a task compiled for the instructions.
    ///
    /// # Safety
    /// The processor has the instructions of this type.
    unsafe fn run<W: IsaTask>(task: W) -> W::Output;
}

// SAFETY: a vector's functions need no instructions but those of its instruction set.
unsafe impl<V: Vector> Register for V {
    type Word = V::Scalar;
    const LANES: usize = V::LANES;

    by_contract! {
        fn zero() -> Self { V::zero() }
        fn splat(word: V::Scalar) -> Self { V::splat(word) }
        fn load(from: *const V::Scalar) -> Self { V::load(from) }
        fn store(self: Self, to: *mut V::Scalar) { Vector::store(self, to) }
        fn run<W: IsaTask>(task: W) -> W::Output { V::dispatch(task) }
    }

    #[inline(always)]
    fn add_product(self, a: Self, b: Self) -> Self {
        a.mul_add(b, self)
    }

    #[inline(always)]
    fn add_product_in_order(self, a: Self, b: Self) -> Self {
        a.mul_add_in_order(b, self)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.lanewise(Lanewise::Add, other)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        self.lanewise(Lanewise::Relu, self)
    }

    #[inline(always)]
    fn clamp(self, low: Self::Word, high: Self::Word) -> Self {
        self.clamp(self.broadcast(low), self.broadcast(high))
    }
}

/// Loads a row of vectors.
///
/// # Safety
/// `from` is readable for `NR` vectors, and the processor has the register's instructions.
#[inline(always)]
pub(crate) unsafe fn load<R: Register, const NR: usize>(from: *const R::Word) -> [R; NR] {
    // SAFETY: this function requires the instructions and the row.
    array::from_fn(|v| unsafe { R::load(from.add(v * R::LANES)) })
}
