//! The modes over contiguous values.
//!
//! Modes of a few instructions that [`crate::pointwise::line`] does not compute in registers are compiled
//! into loops over vectors for each instruction set. Modes in registers come here only with a single value
//! per row, which gets the same bits in a vector. The others call the scalar function per value: sines take
//! longer than the call.

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::pointwise::functions::{All, Functions};
use crate::pointwise::line::FunctionTask;
use crate::pointwise::scalar::{ActivationParameters, Function, function};
use crate::pointwise::smooth::Smooth;
use crate::problem::pointwise::Activation;
use crate::simd::array::Each;
use crate::simd::isa::{Isa, IsaTask};
use crate::simd::vector::{MAX_LANES, Vector, VectorTask};

/// Computes `len` values. Operands that the mode does not read are readable too.
pub(crate) type Loop<T> = unsafe fn(&Mode<T>, [*const T; 3], *mut T, usize);

/// A mode with its loop.
pub(crate) struct Mode<T> {
    parameters: ActivationParameters<T>,
    upper_clip: T,
    function: Function<T>,
    run: Loop<T>,
    isa: Isa,
    /// The mode as a function in registers, with its parameter.
    smooth: Option<(Smooth, T)>,
    /// Estimated nanoseconds per element.
    pub(crate) time: f64,
}

impl<T: Functions> Mode<T> {
    /// The mode for an instruction set; `None` if it is not a function of its operands.
    pub(crate) fn of(mode: PointwiseMode, activation: &Activation, isa: Isa) -> Option<Self> {
        let function = function::<T>(mode)?;
        let parameters = ActivationParameters::of(activation);
        let smooth = Smooth::of(mode, activation).filter(|smooth| T::in_registers(*smooth));
        let smooth = smooth.map(|smooth| (smooth, T::from_single(smooth.parameter(activation))));
        let (run, time) = if smooth.is_some() {
            (by_vectors::<T> as Loop<T>, 8.0)
        } else if let Some(run) = simple_loop(mode, isa) {
            (run, 0.3)
        } else {
            (by_function::<T> as Loop<T>, 8.0)
        };
        let upper_clip = parameters.upper_clip.unwrap_or(T::from_single(f32::INFINITY));
        Some(Self { parameters, upper_clip, function, run, isa, smooth, time })
    }

    /// Computes `len` values.
    ///
    /// # Safety
    /// The processor supports the instruction set. The operands are readable and `out` is writable for `len`
    /// values, with any alignment; `out` is not one of the operands.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, operands: [*const T; 3], out: *mut T, len: usize) {
        // SAFETY: the operands are readable and `out` is writable for `len` values, which is this function's contract.
        unsafe { (self.run)(self, operands, out, len) };
    }
}

/// Calls the mode's function.
///
/// # Safety
/// As [`Mode::run`].
unsafe fn by_function<T: Functions>(mode: &Mode<T>, operands: [*const T; 3], out: *mut T, len: usize) {
    for i in 0..len {
        // SAFETY: the index is below `len`, up to which this function requires all values.
        unsafe {
            let values = operands.each(|operand| operand.add(i).read_unaligned());
            out.add(i).write_unaligned((mode.function)(values, &mode.parameters));
        }
    }
}

/// Computes the mode's function in registers.
///
/// # Safety
/// As [`Mode::run`].
unsafe fn by_vectors<T: Functions>(mode: &Mode<T>, [x, y, _]: [*const T; 3], out: *mut T, len: usize) {
    /// A vector of values.
    struct Few<'a, T>(&'a All<T>);

    impl<T: Functions> VectorTask<T> for Few<'_, T> {
        type Output = ();

        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = T>>(self) {
            // SAFETY: the processor has the instructions, and the operands are as long as any vector.
            unsafe { V::call(FunctionTask::<'_, T, V>::new(self.0)) };
        }
    }

    let Some((smooth, parameter)) = mode.smooth else { return };
    for i in 0..len {
        // SAFETY: the index is below `len`, up to which this function requires all values.
        let operands = unsafe { [x, y].each(|operand| [operand.add(i).read_unaligned(); MAX_LANES]) };
        let mut results = [T::ZERO; MAX_LANES];
        let from = operands.each_ref().map(|values| (values.as_ptr(), 0));
        let all = All { smooth, parameter, from, to: results.as_mut_ptr(), count: 1 };
        // SAFETY: the processor supports the instruction set, as this function requires, as it does the result.
        unsafe {
            mode.isa.run_vectors(Few(&all));
            out.add(i).write_unaligned(results[0]);
        }
    }
}

/// A mode of a few instructions.
trait Simple<T> {
    fn apply(mode: &Mode<T>, operands: [T; 3]) -> T;
}

/// The loop of one simple mode.
struct SimpleTask<'a, T, S> {
    mode: &'a Mode<T>,
    operands: [*const T; 3],
    out: *mut T,
    len: usize,
    simple: std::marker::PhantomData<S>,
}

impl<T: Functions, S: Simple<T>> IsaTask for SimpleTask<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let [x, y, z] = self.operands;
        for i in 0..self.len {
            // SAFETY: the operands are valid for `len` values, as `Mode::run` requires.
            unsafe {
                let operands =
                    [x.add(i).read_unaligned(), y.add(i).read_unaligned(), z.add(i).read_unaligned()];
                self.out.add(i).write_unaligned(S::apply(self.mode, operands));
            }
        }
    }
}

/// The loop for one instruction set, passed as an integer because const arguments must be.
///
/// # Safety
/// As [`Mode::run`].
unsafe fn simple<T: Functions, S: Simple<T>, const ISA: usize>(
    mode: &Mode<T>,
    operands: [*const T; 3],
    out: *mut T,
    len: usize,
) {
    let isa = match ISA {
        #[cfg(target_arch = "x86_64")]
        1 => Isa::Avx2,
        #[cfg(target_arch = "x86_64")]
        2 => Isa::Avx512,
        _ => Isa::Portable,
    };
    let work = SimpleTask { mode, operands, out, len, simple: std::marker::PhantomData::<S> };
    // SAFETY: the instruction set is valid, as this function requires.
    unsafe { isa.run(work) };
}

fn dispatch<T: Functions, S: Simple<T>>(isa: Isa) -> Loop<T> {
    match isa {
        Isa::Portable => simple::<T, S, 0>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => simple::<T, S, 1>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => simple::<T, S, 2>,
    }
}

/// Declares a mode's function, and its loop for an instruction set.
macro_rules! declared {
    ($isa:ident, |$mode:ident, $x:ident, $y:ident, $z:ident| $result:expr) => {{
        struct This;
        impl<T: Functions> Simple<T> for This {
            #[inline(always)]
            fn apply($mode: &Mode<T>, [$x, $y, $z]: [T; 3]) -> T {
                $result
            }
        }
        dispatch::<T, This>($isa)
    }};
}

/// The loop of a simple mode; `None` for the others.
fn simple_loop<T: Functions>(mode: PointwiseMode, isa: Isa) -> Option<Loop<T>> {
    use PointwiseMode as M;
    macro_rules! simple {
        ($($function:tt)*) => { declared!(isa, $($function)*) };
    }
    Some(match mode {
        M::Ceil => simple!(|_m, x, _y, _z| x.ceil()),
        M::Floor => simple!(|_m, x, _y, _z| x.floor()),
        M::Rsqrt => simple!(|_m, x, _y, _z| T::ONE / x.sqrt()),
        M::Reciprocal => simple!(|_m, x, _y, _z| T::ONE / x),
        M::AddSquare => simple!(|_m, x, y, _z| x + y * y),
        M::CmpEq => simple!(|_m, x, y, _z| truth(x == y)),
        M::CmpNeq => simple!(|_m, x, y, _z| truth(x != y)),
        M::CmpGe => simple!(|_m, x, y, _z| truth(x >= y)),
        M::CmpGt => simple!(|_m, x, y, _z| truth(x > y)),
        M::CmpLe => simple!(|_m, x, y, _z| truth(x <= y)),
        M::CmpLt => simple!(|_m, x, y, _z| truth(x < y)),
        M::LogicalAnd => simple!(|_m, x, y, _z| truth((x != T::ZERO) & (y != T::ZERO))),
        M::LogicalOr => simple!(|_m, x, y, _z| truth((x != T::ZERO) | (y != T::ZERO))),
        M::LogicalNot => simple!(|_m, x, _y, _z| truth(x == T::ZERO)),
        M::BinarySelect => simple!(|_m, x, y, z| if z != T::ZERO { x } else { y }),
        M::ReluFwd => simple!(|m, x, _y, _z| {
            let lower = m.parameters.lower_clip;
            // A slope of 0 is flat even at minus infinity.
            let slope = m.parameters.lower_clip_slope;
            let below = if slope == T::ZERO { T::ZERO } else { slope * (x - lower) } + lower;
            let above = if x >= m.upper_clip { m.upper_clip } else { x };
            if x <= lower { below } else { above }
        }),
        M::ReluBwd => simple!(|m, dy, x, _z| {
            // A slope of 0 blocks even an infinite gradient.
            let slope = m.parameters.lower_clip_slope;
            let below = if slope == T::ZERO { T::ZERO } else { slope * dy };
            let ends = m.parameters.upper_clip.is_some();
            let above = if ends & (x > m.upper_clip) { T::ZERO } else { dy };
            if x <= m.parameters.lower_clip { below } else { above }
        }),
        _ => return None,
    })
}

#[inline(always)]
fn truth<T: Functions>(holds: bool) -> T {
    if holds { T::ONE } else { T::ZERO }
}
