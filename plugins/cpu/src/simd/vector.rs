//! The traits of vectors of one register, and of the floats that they hold.

use half::{bf16, f16};

use crate::dtype::element::Real;
use crate::simd::isa::{Isa, IsaTask};

/// Added to a number of single precision, it leaves no room for a fraction, and the whole number is in the lowest bits.
pub(crate) const WHOLE: f32 = 12_582_912.0;

/// The most lanes of a vector.
pub(crate) const MAX_LANES: usize = 16;

/// A [`Real`] that fast kernels compute in.
pub(crate) trait Float: Real {
    /// The vector of [`crate::simd::isa::Isa::Portable`].
    type Portable: Vector<Scalar = Self>;
    /// The vector of [`crate::simd::isa::Isa::Avx2`].
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Scalar = Self>;
    /// The vector of [`crate::simd::isa::Isa::Avx512`].
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Scalar = Self>;

    /// `self * factor + summand`, rounded once where the target can do that in one instruction.
    fn fused(self, factor: Self, summand: Self) -> Self;
    /// `self` times 2 to the power of a whole number. Where the result has fewer bits than usual, it may be rounded twice.
    fn scaled(self, exponent: Self) -> Self;
    /// Of a number above 0 one from 0.75 to 1.5 and a whole one, the power of 2 that it is to be multiplied by. Of infinity and
    /// of what is not above 0 these are any two.
    fn parted(self) -> (Self, Self);

    /// From single precision.
    fn from_single(stored: f32) -> Self;
    /// From double precision.
    fn from_double(stored: f64) -> Self;
    /// From half precision.
    fn from_half(stored: f16) -> Self;
    /// From bfloat16.
    fn from_bfloat16(stored: bf16) -> Self;
    /// To the nearest of single precision.
    fn into_single(self) -> f32;
    /// To the nearest of double precision.
    fn into_double(self) -> f64;
    /// To the nearest of half precision.
    fn into_half(self) -> f16;
    /// To the nearest of bfloat16.
    fn into_bfloat16(self) -> bf16;
}

/// A register full of numbers.
///
/// # Safety
/// An implementation's functions need no instructions but those of its instruction set. They are
/// `#[inline(always)]`, and fast only below [`Isa::run`].
pub(crate) unsafe trait Vector: PartialVector {
    /// The instruction set whose instructions the functions need.
    const ISA: Isa;
    /// How many numbers there are.
    const LANES: usize;

    /// Does work compiled for the vector's instruction set.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output;

    /// All lanes 0.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn zero() -> Self;

    /// All lanes the same number.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn splat(number: Self::Scalar) -> Self;

    /// Reads `LANES` numbers; no alignment is needed.
    ///
    /// # Safety
    /// As [`Vector::zero`], and `LANES` numbers are readable.
    unsafe fn load(from: *const Self::Scalar) -> Self;

    /// Writes `LANES` numbers; no alignment is needed.
    ///
    /// # Safety
    /// As [`Vector::zero`], and `LANES` numbers are writable.
    unsafe fn store(self, to: *mut Self::Scalar);

    /// Writes `LANES` numbers around the caches where the instruction set can do that.
    /// [`crate::simd::stream::settle`] is to be called afterwards.
    ///
    /// # Safety
    /// As [`Vector::store`], and `to` is aligned to the size of the vector.
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self::Scalar) {
        // SAFETY: the processor has the vector's instructions, and there are writable numbers.
        unsafe { self.store(to) };
    }

    /// `self * factor + summand`, in each lane.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self;

    /// The sum of all lanes.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn sum(self) -> Self::Scalar;

    /// An operation on each lane of one or two vectors.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn lanewise(self, operation: Lanewise, other: Self) -> Self;

    /// Exchanges lanes that are this far apart, a power of 2 below [`Vector::LANES`].
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn swapped(self, distance: usize) -> Self;

    /// In each lane `yes` where the number is above 0, else `no`, as where it is NaN.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    unsafe fn where_above_0(self, yes: Self, no: Self) -> Self;

    /// Whether [`Vector::look_up`] is about as fast as an addition.
    const LOOKS_UP: bool = false;

    /// In each lane the number of the table with the index n, from 0 to 15, where this one's is [`WHOLE`] + n; any number of the table
    /// where it is something else.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    #[inline(always)]
    unsafe fn look_up(self, table: &[Self::Scalar; 16]) -> Self {
        let mut numbers = [Self::Scalar::ZERO; MAX_LANES];
        // SAFETY: the processor has the instructions, as this function requires; no vector has more lanes.
        unsafe {
            self.store(numbers.as_mut_ptr());
            for number in &mut numbers {
                *number = table[(number.to_f64() - f64::from(WHOLE)) as usize % 16];
            }
            Self::load(numbers.as_ptr())
        }
    }

    /// Of each number above 0 one from 0.75 to 1.5 and a whole one, the power of 2 that it is to be multiplied by. Of infinity and of
    /// what is not above 0 these are any two.
    ///
    /// # Safety
    /// As [`Vector::zero`].
    #[inline(always)]
    unsafe fn parted(self) -> (Self, Self) {
        let mut numbers = [[Self::Scalar::ZERO; MAX_LANES]; 2];
        // SAFETY: the processor has the instructions, as this function requires; no vector has more lanes.
        unsafe {
            self.store(numbers[0].as_mut_ptr());
            let [parts, powers] = &mut numbers;
            for (part, power) in parts.iter_mut().zip(powers) {
                (*part, *power) = part.parted();
            }
            (Self::load(numbers[0].as_ptr()), Self::load(numbers[1].as_ptr()))
        }
    }
}

/// What a kernel of images does with a register besides arithmetic: rows end where no register does.
///
/// # Safety
/// As [`Vector`].
pub(crate) unsafe trait PartialVector: Copy {
    /// One number.
    type Scalar: Float;
    /// A register of half as many numbers, or the same where there is none.
    type Half: Vector<Scalar = Self::Scalar>;
    /// Some lanes side by side.
    type Lanes: Copy;

    /// The lanes from `low` on, up to but not including `high`; none where `high` is not larger.
    ///
    /// # Safety
    /// The processor has the vector's instructions; neither is more than the number of lanes.
    unsafe fn lanes(low: usize, high: usize) -> Self::Lanes;

    /// Reads these lanes' numbers, and zeros into all others, whose memory is not touched.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the numbers of the lanes are readable.
    unsafe fn load_lanes(from: *const Self::Scalar, lanes: Self::Lanes) -> Self;

    /// Writes these lanes' numbers and nothing else.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the numbers of the lanes are writable.
    unsafe fn store_lanes(self, to: *mut Self::Scalar, lanes: Self::Lanes);

    /// The numbers at even and at odd places of this vector and the next together.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn unzip(self, next: Self) -> (Self, Self);

    /// The numbers of this vector and of the other by turns: the first half of both, and the second one.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn zip(self, other: Self) -> (Self, Self);

    /// In each lane the number of the next one, and any number in the last.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn following(self) -> Self;

    /// Each number, but at least the one of `low` and at most the one of `high`, which are no NaN; NaN stays.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn clamp(self, low: Self, high: Self) -> Self;

    /// In each lane the number of `yes` where this one is larger than `than`, or NaN where that is not, else the number of `no`.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn where_larger(self, than: Self, yes: Self, no: Self) -> Self;
}

/// Operations on each lane of x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanewise {
    /// x + y.
    Add,
    /// x - y.
    Sub,
    /// x · y.
    Mul,
    /// x / y.
    Div,
    /// x where x ≥ y or x is NaN, else y.
    Max,
    /// x where x ≤ y or x is NaN, else y.
    Min,
    /// |x|.
    Abs,
    /// -x.
    Neg,
    /// 0 where x ≤ 0, else x, or the largest number where x is infinite.
    Relu,
    /// x.
    Identity,
    /// The root of x.
    Sqrt,
    /// y where x < y, else x, NaN included.
    NotBelow,
    /// y where x > y, else x, NaN included.
    NotAbove,
    /// x · 2^y for a whole y. Where the result has fewer bits than usual, it may be rounded twice.
    Scale,
}

/// What RELU makes of a number: 0 unless it is above, the largest one of infinity, and NaN of NaN.
#[inline(always)]
pub(crate) fn relu<T: Real>(number: T) -> T {
    let bounded = if number >= T::LARGEST { T::LARGEST } else { number };
    if number <= T::ZERO { T::ZERO } else { bounded }
}

/// A [`IsaTask`] that is written with the vectors of its instruction set.
pub(crate) trait VectorTask<T> {
    /// What the computation yields.
    type Output;

    /// Does it. Must be `#[inline(always)]`.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn run<V: Vector<Scalar = T>>(self) -> Self::Output;
}

/// A computation with one vector.
struct With<V, W>(W, std::marker::PhantomData<V>);

impl<V: Vector, W: VectorTask<V::Scalar>> IsaTask for With<V, W> {
    type Output = W::Output;

    #[inline(always)]
    fn run(self) -> W::Output {
        // SAFETY: `Isa::run_vectors` runs the work at the vector's instruction set.
        unsafe { self.0.run::<V>() }
    }
}

impl Isa {
    /// Runs the work with the vectors of this instruction set.
    ///
    /// # Safety
    /// The instruction set is one of [`Isa::available`].
    #[inline]
    pub(crate) unsafe fn run_vectors<T: Float, W: VectorTask<T>>(self, work: W) -> W::Output {
        use std::marker::PhantomData;
        // Not `Isa::run`, of which each vector would get the code of every instruction set.
        // SAFETY: the processor supports the instruction set. This function requires it.
        unsafe {
            match self {
                Self::Portable => T::Portable::dispatch(With::<T::Portable, W>(work, PhantomData)),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => T::Avx2::dispatch(With::<T::Avx2, W>(work, PhantomData)),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => T::Avx512::dispatch(With::<T::Avx512, W>(work, PhantomData)),
            }
        }
    }
}

/// Declares a vector by its intrinsics.
macro_rules! implement_vector {
    ($name:ident, $isa:ident, $run:ident, $register:ty, $number:ty, $lanes:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident,
        |$v:ident| $sum:expr, |$operation:ident, $x:ident, $y:ident| $lanewise:expr,
        |$c:ident, $yes:ident, $no:ident| $where:expr, |$swap:ident, $distance:ident| $swapped:expr
        $(, stream $stream:ident)? $(, look up |$at:ident, $table:ident| $look_up:expr)? $(, |$whole:ident| $parted:expr)?) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $register);

        // SAFETY: what the functions need is named in the trait's contract.
        unsafe impl Vector for $name {
            const ISA: Isa = Isa::$isa;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                unsafe { $run(work) }
            }

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $zero() })
            }

            #[inline(always)]
            unsafe fn splat(number: $number) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $splat(number) })
            }

            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: the processor has the vector's instructions, and there are readable
                // numbers.
                Self(unsafe { $load(from) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: the processor has the vector's instructions, and there are writable
                // numbers.
                unsafe { $store(to, self.0) };
            }

            #[inline(always)]
            unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $fma(self.0, factor.0, summand.0) })
            }

            #[inline(always)]
            unsafe fn sum(self) -> $number {
                let $v = self.0;
                // SAFETY: the processor has the vector's instructions, as this function requires.
                unsafe { $sum }
            }

            #[inline(always)]
            unsafe fn lanewise(self, $operation: Lanewise, other: Self) -> Self {
                let ($x, $y) = (self.0, other.0);
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $lanewise })
            }

            #[inline(always)]
            unsafe fn swapped(self, $distance: usize) -> Self {
                let $swap = self.0;
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $swapped })
            }

            #[inline(always)]
            unsafe fn where_above_0(self, yes: Self, no: Self) -> Self {
                let ($c, $yes, $no) = (self.0, yes.0, no.0);
                // SAFETY: the processor has the vector's instructions, as this function requires.
                Self(unsafe { $where })
            }
            $(
                #[inline(always)]
                unsafe fn stream(self, to: *mut $number) {
                    // SAFETY: the processor has the vector's instructions, and there are
                    // aligned, writable numbers.
                    unsafe { $stream(to, self.0) };
                }
            )?
            $(
                const LOOKS_UP: bool = true;

                #[inline(always)]
                unsafe fn look_up(self, $table: &[$number; 16]) -> Self {
                    let $at = self.0;
                    // SAFETY: the processor has the instructions, as this function requires; the table
                    // has a number for each lane.
                    Self(unsafe { $look_up })
                }
            )?
            $(
                #[inline(always)]
                unsafe fn parted(self) -> (Self, Self) {
                    let $whole = self.0;
                    // SAFETY: the processor has the vector's instructions, as this function
                    // requires.
                    let (part, power) = unsafe { $parted };
                    (Self(part), Self(power))
                }
            )?
        }
    };
}
pub(crate) use implement_vector;
