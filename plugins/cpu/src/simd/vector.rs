//! The traits of SIMD vectors and of the floats in them.
//!
//! Kernels are written once over [`Vector`] and compiled for each instruction set by [`Isa::run_vectors`].

use half::{bf16, f16};

use crate::dtype::element::ComputeType;
use crate::simd::isa::{Isa, IsaTask};

/// Adding this to a single-precision value rounds it to an integer, which is then in the lowest bits.
pub(crate) const WHOLE: f32 = 12_582_912.0;

/// The most lanes of a vector.
pub(crate) const MAX_LANES: usize = 16;

/// A compute type of kernels: a [`ComputeType`] with vectors.
pub(crate) trait Float: ComputeType {
    /// The vector of [`Isa::Portable`].
    type Portable: Vector<Scalar = Self>;
    /// The vector of [`Isa::Avx2`].
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Scalar = Self>;
    /// The vector of [`Isa::Avx512`].
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Scalar = Self>;

    /// `self * factor + summand`, rounded once if the target has an instruction for it.
    fn fused(self, factor: Self, summand: Self) -> Self;
    /// `self` times 2 to the power of an integer (ldexp). Subnormal results may be rounded twice.
    fn scaled(self, exponent: Self) -> Self;
    /// A positive value as a mantissa from 0.75 to 1.5 and an integer exponent of 2 (frexp). Unspecified for
    /// infinity, NaN and values that are not positive.
    fn parted(self) -> (Self, Self);

    /// From single precision.
    fn from_single(stored: f32) -> Self;
    /// From double precision.
    fn from_double(stored: f64) -> Self;
    /// From half precision.
    fn from_half(stored: f16) -> Self;
    /// From bfloat16.
    fn from_bfloat16(stored: bf16) -> Self;
    /// To single precision, rounded to nearest.
    fn into_single(self) -> f32;
    /// To double precision.
    fn into_double(self) -> f64;
    /// To half precision, rounded to nearest.
    fn into_half(self) -> f16;
    /// To bfloat16, rounded to nearest.
    fn into_bfloat16(self) -> bf16;
    /// To an integer, without the fraction.
    fn into_whole(self) -> i32;
}

/// Defines unsafe trait functions that are one expression each. The trait's contract makes them sound:
/// callers ensure that the processor has the instructions and that pointers are valid.
macro_rules! by_contract {
    ($(fn $name:ident $(<$generic:ident: $bound:ident>)? ($($argument:ident: $type:ty),*) $(-> $result:ty)? {
        $body:expr
    })*) => { $(
        #[inline(always)]
        unsafe fn $name $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
            // SAFETY: the processor has the instructions and memory is valid, as the trait requires of callers.
            unsafe { $body }
        }
    )* };
}
pub(crate) use by_contract;

/// Defines trait functions that take vectors and no pointers, one expression each.
macro_rules! of_values {
    ($(fn $name:ident ($($argument:ident: $type:ty),*) -> $result:ty { $body:expr })*) => { $(
        #[inline(always)]
        fn $name ($($argument: $type),*) -> $result {
            // SAFETY: a vector exists only on a processor with its instructions; only arguments are accessed.
            unsafe { $body }
        }
    )* };
}
pub(crate) use of_values;

/// A vector register.
///
/// # Safety
/// An implementation's functions only need the instructions of its instruction set. They are
/// `#[inline(always)]`, and fast only when called below [`Isa::run`].
///
/// Callers create vectors only on a processor with these instructions, so functions that take a vector may
/// use them. Pointers are valid for a whole vector, or for the named lanes.
pub(crate) unsafe trait Vector: PartialVector {
    /// The instruction set that the functions need.
    const ISA: Isa;
    /// Number of lanes.
    const LANES: usize;
    /// Whether frequent shapes have loops of their own with this vector, beside those for any shape. Double precision and
    /// x86-64 processors without AVX2 are rare enough to do without: each such loop is compiled for each vector.
    const HAS_SPECIAL_CASES: bool = has_special_cases::<Self::Scalar>(Self::ISA);

    /// Runs a task compiled for the vector's instruction set.
    ///
    /// # Safety
    /// The processor has the instructions of [`Vector::ISA`].
    unsafe fn dispatch<W: IsaTask>(work: W) -> W::Output;

    /// The same with code that all callers share.
    ///
    /// # Safety
    /// The processor has the instructions of [`Vector::ISA`].
    #[inline(always)]
    unsafe fn call<W: IsaTask>(work: W) -> W::Output {
        // SAFETY: the processor has the instructions, as this function requires.
        unsafe { Self::dispatch(work) }
    }

    /// Zero in all lanes.
    ///
    /// # Safety
    /// The processor has the instructions of [`Vector::ISA`].
    unsafe fn zero() -> Self;

    /// The same value in all lanes.
    ///
    /// # Safety
    /// The processor has the instructions of [`Vector::ISA`].
    unsafe fn splat(value: Self::Scalar) -> Self;

    /// The same value in all lanes of a vector like this one.
    #[inline(always)]
    fn broadcast(self, value: Self::Scalar) -> Self {
        // SAFETY: a vector exists only on a processor with its instructions.
        unsafe { Self::splat(value) }
    }

    /// The values of the lanes, followed by zeros.
    #[inline(always)]
    fn values(self) -> [Self::Scalar; MAX_LANES] {
        let mut values = [Self::Scalar::ZERO; MAX_LANES];
        // SAFETY: a vector exists only on a processor with its instructions, and none has more lanes.
        unsafe { self.store(values.as_mut_ptr()) };
        values
    }

    /// A vector like this one with other values.
    #[inline(always)]
    fn with_values(self, values: &[Self::Scalar; MAX_LANES]) -> Self {
        // SAFETY: a vector exists only on a processor with its instructions, and none has more lanes.
        unsafe { Self::load(values.as_ptr()) }
    }

    /// Reads `LANES` values; no alignment is needed.
    ///
    /// # Safety
    /// The processor has the instructions of [`Vector::ISA`], and `LANES` values are readable.
    unsafe fn load(from: *const Self::Scalar) -> Self;

    /// Writes `LANES` values; no alignment is needed.
    ///
    /// # Safety
    /// `to` is writable for `LANES` values.
    unsafe fn store(self, to: *mut Self::Scalar);

    /// Writes `LANES` values with a non-temporal store if the instruction set has one. Call
    /// [`crate::simd::stream::settle`] afterwards. `to` is aligned to the size of the vector.
    ///
    /// # Safety
    /// `LANES` values are writable, and `to` is aligned to the size of the vector.
    #[inline(always)]
    unsafe fn stream(self, to: *mut Self::Scalar) {
        // SAFETY: `to` is writable for a vector, and `store` needs no alignment.
        unsafe { self.store(to) };
    }

    /// `self * factor + summand` in each lane.
    fn mul_add(self, factor: Self, summand: Self) -> Self;

    /// As [`Vector::mul_add`]; the compiler moves neither reads nor others of these past it, if it can be kept from that.
    #[inline(always)]
    fn mul_add_in_order(self, factor: Self, summand: Self) -> Self {
        self.mul_add(factor, summand)
    }

    /// The sum of all lanes.
    fn sum(self) -> Self::Scalar;

    /// An element-wise operation on one or two vectors.
    fn lanewise(self, operation: Lanewise, other: Self) -> Self;

    /// Exchanges lanes at this distance, a power of 2 below [`Vector::LANES`].
    fn swapped(self, distance: usize) -> Self;

    /// In each lane `yes` if the value is above 0, else `no`, also for NaN.
    fn where_above_0(self, yes: Self, no: Self) -> Self;

    /// Whether [`Vector::look_up`] is about as fast as an addition.
    const LOOKS_UP: bool = false;

    /// In each lane entry n of the table, from 0 to 15, if the value is [`WHOLE`] + n; otherwise any entry.
    #[inline(always)]
    fn look_up(self, table: &[Self::Scalar; 16]) -> Self {
        let mut values = self.values();
        for value in &mut values {
            *value = table[(value.to_f64() - f64::from(WHOLE)) as usize % 16];
        }
        self.with_values(&values)
    }

    /// [`Float::parted`] in each lane.
    #[inline(always)]
    fn parted(self) -> (Self, Self) {
        let (mut parts, mut powers) = (self.values(), [Self::Scalar::ZERO; MAX_LANES]);
        for (part, power) in parts.iter_mut().zip(&mut powers) {
            (*part, *power) = part.parted();
        }
        (self.with_values(&parts), self.with_values(&powers))
    }
}

/// Loads, stores and permutations of some lanes, for image rows that do not end with a whole register.
///
/// # Safety
/// As [`Vector`].
pub(crate) unsafe trait PartialVector: Copy {
    /// The type of an element.
    type Scalar: Float;
    /// A vector of half as many lanes, or the same type if none exists.
    type Half: Vector<Scalar = Self::Scalar>;
    /// A range of lanes.
    type Lanes: Copy;

    /// The lanes `low..high`; neither bound is more than their number.
    ///
    /// # Safety
    /// The processor has the instructions of [`Vector::ISA`].
    unsafe fn lanes(low: usize, high: usize) -> Self::Lanes;

    /// Reads these lanes and zeros the others, without touching their memory.
    ///
    /// # Safety
    /// The processor has the instructions of [`Vector::ISA`], and the lanes' values are readable.
    unsafe fn load_lanes(from: *const Self::Scalar, lanes: Self::Lanes) -> Self;

    /// Writes only these lanes.
    ///
    /// # Safety
    /// `to` is writable at each of the lanes.
    unsafe fn store_lanes(self, to: *mut Self::Scalar, lanes: Self::Lanes);

    /// The even and the odd elements of this vector followed by the next.
    fn unzip(self, next: Self) -> (Self, Self);

    /// The elements of both vectors interleaved, as two vectors.
    fn zip(self, other: Self) -> (Self, Self);

    /// In each lane the next lane's element; unspecified in the last lane.
    fn following(self) -> Self;

    /// Each element clamped to `low` and `high`, which are not NaN; NaN stays NaN.
    fn clamp(self, low: Self, high: Self) -> Self;

    /// In each lane `yes` if this element is larger than `than`, or if it is NaN and `than` is not; else `no`.
    fn where_larger(self, than: Self, yes: Self, no: Self) -> Self;
}

/// [`Vector::HAS_SPECIAL_CASES`] of the vectors of an instruction set.
pub(crate) const fn has_special_cases<T: Float>(isa: Isa) -> bool {
    size_of::<T>() == size_of::<f32>() && is_common(isa)
}

/// Whether most processors of the target have the instruction set or a wider one: all but those of x86-64 without AVX2.
pub(crate) const fn is_common(isa: Isa) -> bool {
    !(cfg!(target_arch = "x86_64") && matches!(isa, Isa::Portable))
}

/// Element-wise operations on x and y.
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
    /// x if x ≥ y or x is NaN, else y.
    Max,
    /// x if x ≤ y or x is NaN, else y.
    Min,
    /// |x|.
    Abs,
    /// -x.
    Neg,
    /// 0 if x ≤ 0, else x, also if x is NaN.
    Relu,
    /// x.
    Identity,
    /// √x.
    Sqrt,
    /// y if x < y, else x, also if x is NaN.
    NotBelow,
    /// y if x > y, else x, also if x is NaN.
    NotAbove,
    /// x · 2^y for an integer y (ldexp). Subnormal results may be rounded twice.
    Scale,
}

/// RELU: 0 for values up to 0, NaN for NaN.
#[inline(always)]
pub(crate) fn relu<T: ComputeType>(value: T) -> T {
    if value <= T::ZERO { T::ZERO } else { value }
}

/// A computation written over the vectors of an instruction set. As in [`IsaTask`], each instance is compiled once, in the
/// codegen unit of the task's module.
pub(crate) trait VectorTask<T: Float>: Sized {
    /// The result.
    type Output;

    /// Whether double precision has vectors of AVX-512. Otherwise it has those of AVX2 on such processors, too: it is rare, and
    /// most kernels wait for memory with twice the bytes.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other processors have vectors of one size")
    )]
    const HAS_WIDE_DOUBLES: bool = false;

    /// Runs the computation. Must be `#[inline(always)]`.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn run<V: Vector<Scalar = T>>(self) -> Self::Output;

    /// Runs it with the vectors of the target's baseline. Not inlined on x86-64, where other instruction sets need a function
    /// of their own as well.
    ///
    /// # Safety
    /// As [`VectorTask::run`].
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    unsafe fn run_portable(self) -> Self::Output {
        // SAFETY: every processor of the target has the baseline.
        unsafe { self.run::<T::Portable>() }
    }

    /// Runs it with the vectors of AVX2.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn run_avx2(self) -> Self::Output {
        // SAFETY: the processor has the instructions, as this function requires.
        unsafe { self.run::<T::Avx2>() }
    }

    /// Runs it with the vectors of AVX-512.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    unsafe fn run_avx512(self) -> Self::Output {
        // SAFETY: the processor has the instructions, as this function requires.
        unsafe { self.run::<T::Avx512>() }
    }
}

impl Isa {
    /// Runs a task with the vectors of this instruction set.
    ///
    /// # Safety
    /// The instruction set is one of [`Isa::available`].
    #[inline]
    pub(crate) unsafe fn run_vectors<T: Float, W: VectorTask<T>>(self, work: W) -> W::Output {
        // SAFETY: this function requires a processor with the instruction set.
        unsafe {
            match self {
                Self::Portable => work.run_portable(),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => work.run_avx2(),
                // Processors with AVX-512 have AVX2, see `Isa::available`.
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 if const { size_of::<T>() > size_of::<f32>() && !W::HAS_WIDE_DOUBLES } => {
                    work.run_avx2()
                }
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => work.run_avx512(),
            }
        }
    }
}

/// Implements [`Vector`] by intrinsics.
macro_rules! implement_vector {
    ($name:ident, $isa:ident, $run:ident, $register:ty, $scalar:ty, $lanes:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident,
        |$v:ident| $sum:expr, |$operation:ident, $x:ident, $y:ident| $lanewise:expr,
        |$c:ident, $yes:ident, $no:ident| $where:expr, |$swap:ident, $distance:ident| $swapped:expr
        $(, stream $stream:ident)? $(, in order $in_order:ident)? $(, look up |$at:ident, $table:ident| $look_up:expr)? $(, |$whole:ident| $parted:expr)?) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $register);

        // SAFETY: the trait's contract guarantees what the functions need.
        unsafe impl Vector for $name {
            const ISA: Isa = Isa::$isa;
            const LANES: usize = $lanes;

            crate::simd::vector::by_contract! {
                fn dispatch<W: IsaTask>(work: W) -> W::Output { $run(work) }
                fn zero() -> Self { Self($zero()) }
                fn splat(value: $scalar) -> Self { Self($splat(value)) }
                fn load(from: *const $scalar) -> Self { Self($load(from)) }
                fn store(self: Self, to: *mut $scalar) { $store(to, self.0) }
                $( fn stream(self: Self, to: *mut $scalar) { $stream(to, self.0) } )?
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn call<W: IsaTask>(work: W) -> W::Output {
                // SAFETY: the processor has the instructions, as this function requires.
                unsafe { work.$run() }
            }

            crate::simd::vector::of_values! {
                fn mul_add(self: Self, factor: Self, summand: Self) -> Self { Self($fma(self.0, factor.0, summand.0)) }
                $(
                    fn mul_add_in_order(self: Self, factor: Self, summand: Self) -> Self {
                        Self($in_order(self.0, factor.0, summand.0))
                    }
                )?
                fn sum(self: Self) -> $scalar { match self.0 { $v => $sum } }
                fn lanewise(self: Self, $operation: Lanewise, other: Self) -> Self {
                    match (self.0, other.0) { ($x, $y) => Self($lanewise) }
                }
                fn swapped(self: Self, $distance: usize) -> Self { match self.0 { $swap => Self($swapped) } }
                fn where_above_0(self: Self, yes: Self, no: Self) -> Self {
                    match (self.0, yes.0, no.0) { ($c, $yes, $no) => Self($where) }
                }
                $(
                    fn parted(self: Self) -> (Self, Self) {
                        match self.0 { $whole => match $parted { (part, power) => (Self(part), Self(power)) } }
                    }
                )?
            }
            $(
                const LOOKS_UP: bool = true;

                crate::simd::vector::of_values! {
                    fn look_up(self: Self, $table: &[$scalar; 16]) -> Self { match self.0 { $at => Self($look_up) } }
                }
            )?
        }
    };
}
pub(crate) use implement_vector;
