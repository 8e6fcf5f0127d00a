//! Activations: functions of each value, computed in one loop instead of operation by operation.
//!
//! Results are bit-identical to those of the separate operations, since each intermediate result is rounded
//! in the same way; only the sign of zeros may differ.

#![expect(clippy::needless_range_loop, reason = "iterators over registers are calls, see `simd::array`")]

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use crate::dtype::element::{Compute, ComputeType, with_compute};
use crate::pointwise::chain::{Chain, Operation, Step, Value};
use crate::pointwise::functions::{All, Functions};
use crate::pointwise::line::FunctionTask;
use crate::pointwise::smooth::Smooth;
use crate::simd::array::{self, Each};
use crate::simd::isa::Isa;
use crate::simd::row::{read, write};
use crate::simd::vector::{Float, Lanewise, Vector, VectorTask};
use crate::tensor::row_converter::is_compute_type;

/// How many vectors are computed together: enough to hide the latency of each operation.
const TOGETHER: usize = 8;

/// A function of a value x, with parameters a and b that are read at each execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    /// x clamped to two bounds.
    Clamp([f32; 2]),
    /// x · a + b clamped to two bounds: hard sigmoid.
    Ramp([f32; 2]),
    /// x times the hard sigmoid: hard swish.
    TimesRamp([f32; 2]),
    /// A function, with its parameter.
    Smooth(Smooth, f32),
    /// x times a function of x, with its parameter.
    TimesSmooth(Smooth, f32),
}

/// An activation in a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Activation {
    function: Function,
    /// The slots of a and b.
    numbers: Option<[usize; 2]>,
    compute: Compute,
    isa: Isa,
}

impl Activation {
    /// The activation of `x` that begins at a step of a chain, and its number of steps. `None` if
    /// intermediate results have another dtype than the compute type.
    pub(crate) fn of(
        chain: &Chain,
        (first, x): (usize, Value),
        compute: Compute,
        isa: Isa,
    ) -> Option<(Self, usize)> {
        with_compute!(compute, T => Self::of_type::<T>(chain, (first, x), compute, isa))
    }

    fn of_type<T: Functions>(
        chain: &Chain,
        (first, x): (usize, Value),
        compute: Compute,
        isa: Isa,
    ) -> Option<(Self, usize)> {
        let steps = chain.steps.get(first..)?;
        let is_exact = |count: usize| steps.iter().take(count).all(|step| is_compute_type::<T>(step.stored));
        let made = |function, numbers, count: usize| {
            is_exact(count).then_some((Self { function, numbers, compute, isa }, count))
        };
        // The product of x and the previous step's result.
        let is_product = |at: usize| {
            let result = Value::Step((first + at).wrapping_sub(1));
            steps.get(at).is_some_and(|step| {
                has_mode(step, PointwiseMode::Mul)
                    && (step.operands == [x, result] || step.operands == [result, x])
            })
        };
        let step = steps.first()?;
        if let Some(bounds) = bounds(step).filter(|_| step.operands == [x]) {
            return made(Function::Clamp(bounds), None, 1);
        }
        if let Some(numbers) = ramp::<T>(chain, (first, x)) {
            let clamped = steps.get(2).filter(|step| step.operands == [Value::Step(first + 1)]);
            let bounds = clamped.and_then(bounds)?;
            return if is_product(3) {
                made(Function::TimesRamp(bounds), Some(numbers), 4)
            } else {
                made(Function::Ramp(bounds), Some(numbers), 3)
            };
        }
        let Operation::Pointwise(mode, activation) = &step.operation else { return None };
        let smooth = Smooth::of(*mode, activation).filter(|smooth| T::in_registers(*smooth))?;
        if step.operands != [x] || step.one {
            return None;
        }
        let parameter = smooth.parameter(activation);
        if is_product(1) {
            made(Function::TimesSmooth(smooth, parameter), None, 2)
        } else {
            made(Function::Smooth(smooth, parameter), None, 1)
        }
    }

    /// Reads a and b.
    ///
    /// # Safety
    /// The tensors are those of the chain.
    pub(crate) unsafe fn numbers(&self, tensors: &[*mut u8]) -> [f64; 2] {
        let Some(slots) = self.numbers else { return [0.0; 2] };
        // SAFETY: the tensors are those of the chain, whose a and b have the compute type.
        slots.map(|slot| unsafe {
            with_compute!(self.compute, T => tensors[slot].cast::<T>().read_unaligned().to_f64())
        })
    }

    /// Computes values in place, of the compute type.
    ///
    /// # Safety
    /// The processor has the instruction set; there are `len` values.
    pub(crate) unsafe fn apply(&self, numbers: [f64; 2], values: *mut u8, len: usize) {
        let run = Run { values: values.cast(), len, bias: Bias::None, residual: std::ptr::null() };
        // SAFETY: this function requires the values, and nothing is added.
        unsafe {
            with_compute!(self.compute, T => self.run::<T>(numbers, false, std::iter::once(run.of::<T>())))
        };
    }

    /// Computes runs of values in place. With `residual_last` the residual is added to the result, else to x.
    ///
    /// # Safety
    /// The processor has the instruction set; the runs have their values.
    pub(crate) unsafe fn run<T: Functions>(
        &self,
        numbers: [f64; 2],
        residual_last: bool,
        runs: impl Iterator<Item = Run<T>>,
    ) {
        let numbers = numbers.each(T::from_f64);
        let task = Activated { function: self.function, numbers, residual_last, runs };
        // SAFETY: the instruction set is valid, as this function requires.
        unsafe { self.isa.run_vectors::<T, _>(task) };
    }

    /// Estimated nanoseconds per element.
    pub(crate) fn time(&self) -> f64 {
        match self.function {
            Function::Smooth(..) | Function::TimesSmooth(..) => {
                with_compute!(self.compute, T => <T as Functions>::TIME)
            }
            _ => 0.1,
        }
    }
}

fn has_mode(step: &Step, wanted: PointwiseMode) -> bool {
    !step.one && matches!(step.operation, Operation::Pointwise(mode, _) if mode == wanted)
}

/// The bounds of a clamp. RELU alone is none: it makes -0 a 0.
fn bounds(step: &Step) -> Option<[f32; 2]> {
    step.clips().filter(|_| !step.one && !step.is_relu())
}

/// The slots of a and b if two steps are x · a + b.
fn ramp<T: Functions>(chain: &Chain, (first, x): (usize, Value)) -> Option<[usize; 2]> {
    let number = |step: usize, wanted: PointwiseMode, x: Value| {
        let step = chain.steps.get(step).filter(|step| has_mode(step, wanted))?;
        let number = match step.operands.as_slice() {
            [of, Value::Input(number)] | [Value::Input(number), of] if *of == x => *number,
            _ => return None,
        };
        let input = chain.inputs.get(number).filter(|_| number > 0)?;
        let is_one = input.strides.iter().all(|stride| *stride == 0) && !input.replaced;
        (is_one && is_compute_type::<T>(input.data_type)).then_some(input.slot)
    };
    let a = number(first, PointwiseMode::Mul, x)?;
    Some([a, number(first + 1, PointwiseMode::Add, Value::Step(first))?])
}

/// The first summand of a run's values.
#[derive(Clone, Copy)]
pub(crate) enum Bias<T> {
    None,
    One(T),
    /// A value per element.
    Row(*const T),
}

/// Contiguous values.
#[derive(Clone, Copy)]
pub(crate) struct Run<T> {
    pub(crate) values: *mut T,
    pub(crate) len: usize,
    pub(crate) bias: Bias<T>,
    /// Null for none.
    pub(crate) residual: *const T,
}

impl Run<()> {
    /// The same run with another element type, without summands.
    fn of<T>(&self) -> Run<T> {
        Run { values: self.values.cast(), len: self.len, bias: Bias::None, residual: std::ptr::null() }
    }
}

struct Activated<T, I> {
    function: Function,
    numbers: [T; 2],
    residual_last: bool,
    runs: I,
}

impl<T: Functions, I: Iterator<Item = Run<T>>> VectorTask<T> for Activated<T, I> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let Self { function, numbers, residual_last, runs } = self;
        let [a, b] = numbers;
        // SAFETY: this function requires the instructions.
        let numbers = unsafe { [V::splat(a), V::splat(b)] };
        let block = Block { function, numbers, residual_last };
        for run in runs {
            let mut at = 0;
            if let (Function::Smooth(smooth, parameter), Bias::None, true) =
                (function, run.bias, run.residual.is_null())
            {
                // The function alone reads and writes the run itself.
                let count = run.len / V::LANES;
                let (parameter, from) = (T::from_single(parameter), [(run.values.cast_const(), V::LANES); 2]);
                let all = All { smooth, parameter, from, to: run.values, count };
                // SAFETY: this function requires the instructions and the values.
                unsafe { V::call(FunctionTask::<'_, T, V>::new(&all)) };
                at = count * V::LANES;
            }
            // SAFETY: the run has its values, which end at `len`.
            unsafe {
                while at + TOGETHER * V::LANES <= run.len {
                    block.compute::<TOGETHER>(&run, at, None);
                    at += TOGETHER * V::LANES;
                }
                while at + V::LANES <= run.len {
                    block.compute::<1>(&run, at, None);
                    at += V::LANES;
                }
                if at < run.len {
                    block.compute::<1>(&run, at, Some(V::lanes(0, run.len - at)));
                }
            }
        }
    }
}

/// What is computed on each block of a run.
struct Block<V> {
    function: Function,
    numbers: [V; 2],
    residual_last: bool,
}

impl<T: Functions, V: Vector<Scalar = T>> Block<V> {
    /// Computes `K` vectors from a position in a run, or some lanes of one.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the run has the values.
    #[inline(always)]
    unsafe fn compute<const K: usize>(&self, run: &Run<T>, at: usize, lanes: Option<V::Lanes>) {
        let to = run.values.wrapping_add(at);
        // SAFETY: this function requires the instructions and the values.
        let mut x = unsafe { [V::zero(); K] };
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: this function requires the values.
            *x = unsafe { read(to.add(i * V::LANES), lanes) };
        }
        match run.bias {
            Bias::None => {}
            Bias::One(bias) => {
                for x in &mut x {
                    *x = x.lanewise(Lanewise::Add, x.broadcast(bias));
                }
            }
            // SAFETY: the bias has a value for each.
            Bias::Row(row) => unsafe { Self::add(&mut x, row.add(at), lanes) },
        }
        let added = (!run.residual.is_null()).then(|| run.residual.wrapping_add(at));
        if let (Some(added), false) = (added, self.residual_last) {
            // SAFETY: the residual has a value for each.
            unsafe { Self::add(&mut x, added, lanes) };
        }
        let mut y = self.of(x);
        if let (Some(added), true) = (added, self.residual_last) {
            // SAFETY: the residual has a value for each.
            unsafe { Self::add(&mut y, added, lanes) };
        }
        for i in 0..K {
            // SAFETY: this function requires the values.
            unsafe { write(y[i], to.add(i * V::LANES), lanes) };
        }
    }

    /// Adds values.
    ///
    /// # Safety
    /// As [`Self::compute`].
    #[inline(always)]
    unsafe fn add<const K: usize>(x: &mut [V; K], from: *const T, lanes: Option<V::Lanes>) {
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: this function requires the values.
            *x = x.lanewise(Lanewise::Add, unsafe { read(from.add(i * V::LANES), lanes) });
        }
    }

    /// The function of some vectors.
    #[inline(always)]
    fn of<const K: usize>(&self, x: [V; K]) -> [V; K] {
        let mut y = x;
        match self.function {
            Function::Clamp(bounds) => {
                for y in &mut y {
                    *y = clamped(*y, bounds);
                }
            }
            Function::Ramp(bounds) => {
                for y in &mut y {
                    *y = self.ramp(*y, bounds);
                }
            }
            Function::TimesRamp(bounds) => {
                for y in &mut y {
                    *y = y.lanewise(Lanewise::Mul, self.ramp(*y, bounds));
                }
            }
            Function::Smooth(smooth, parameter) => y = Self::smooth(x, (smooth, parameter)),
            Function::TimesSmooth(smooth, parameter) => {
                y = Self::smooth(x, (smooth, parameter));
                y = array::zip(x, y, |x, y| x.lanewise(Lanewise::Mul, y));
            }
        }
        y
    }

    #[inline(always)]
    fn ramp(&self, x: V, bounds: [f32; 2]) -> V {
        let [a, b] = self.numbers;
        clamped(x.lanewise(Lanewise::Mul, a).lanewise(Lanewise::Add, b), bounds)
    }

    /// The vectors pass through memory, so that each function is compiled once.
    #[inline(always)]
    fn smooth<const K: usize>(x: [V; K], (smooth, parameter): (Smooth, f32)) -> [V; K] {
        let mut near = x;
        let to = near.as_mut_ptr().cast::<T>();
        let from = [(to.cast_const(), V::LANES); 2];
        let all = All { smooth, parameter: T::from_single(parameter), from, to, count: K };
        // SAFETY: there are `K` vectors, and a vector exists only on a processor with its instructions.
        unsafe { V::call(FunctionTask::<'_, T, V>::new(&all)) };
        near
    }
}

#[inline(always)]
fn clamped<V: Vector>(x: V, [low, high]: [f32; 2]) -> V {
    let (low, high) = (V::Scalar::from_single(low), V::Scalar::from_single(high));
    x.clamp(x.broadcast(low), x.broadcast(high))
}

/// A chain on a kernel's result: sums with other tensors and an activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SumsAndActivation {
    /// The inputs that are added before the activation, in this order.
    pub(crate) before: [Option<usize>; 2],
    pub(crate) activation: Activation,
    /// The input that is added to the activation's result.
    pub(crate) behind: Option<usize>,
}

impl SumsAndActivation {
    /// A chain in this form, if every tensor has the compute type.
    pub(crate) fn of(chain: &Chain, stored: DataType, compute: Compute, isa: Isa) -> Option<Self> {
        let is_exact = |of: DataType| with_compute!(compute, T => is_compute_type::<T>(of));
        if !is_exact(stored) || !chain.inputs.iter().all(|input| is_exact(input.data_type)) {
            return None;
        }
        let (mut at, mut x, mut before) = (0, Value::Input(0), [None; 2]);
        for added in &mut before {
            *added = summand(chain, at, x).filter(|_| is_exact(chain.steps[at].stored));
            if added.is_none() {
                break;
            }
            (at, x) = (at + 1, Value::Step(at));
        }
        let (activation, count) = Activation::of(chain, (at, x), compute, isa)?;
        at += count;
        // A third tensor would need another loop.
        let behind = summand(chain, at, Value::Step(at - 1))
            .filter(|_| before[1].is_none() && is_exact(chain.steps[at].stored));
        at += usize::from(behind.is_some());
        // A copy of the result changes nothing.
        let is_copy = |at: usize, step: &Step| {
            has_mode(step, PointwiseMode::Identity) && step.operands == [Value::Step(at - 1)]
        };
        while chain.steps.get(at).is_some_and(|step| is_copy(at, step) && is_exact(step.stored)) {
            at += 1;
        }
        (at == chain.steps.len()).then_some(Self { before, activation, behind })
    }
}

/// The input that a step adds to `x`.
fn summand(chain: &Chain, step: usize, x: Value) -> Option<usize> {
    let step = chain.steps.get(step).filter(|step| has_mode(step, PointwiseMode::Add))?;
    match step.operands.as_slice() {
        [of, Value::Input(other)] | [Value::Input(other), of] if *of == x && *other > 0 => Some(*other),
        _ => None,
    }
}
