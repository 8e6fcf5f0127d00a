//! A chain with reductions along the last dimensions of its shape: softmax, norms and their kin, row by row.
//!
//! A row is what a reduction makes one number of. It is small enough that the results of all operations on it stay in a near
//! cache, so the tensors are read once and the result is written once.

use hipdnn_plugin_sdk::graph::ReductionMode;

use super::chain::{Chain, Operation, Step as Spec, Value};
use super::functions::Functions;
use super::line::{self, Link, Side};
use super::mode::Mode;
use super::program::REGISTERS;
use crate::fast::join::{along, finished, with_join};
use crate::fast::lanes::{Lanes, Threads};
use crate::fast::level::{Level, VectorWork};
use crate::fast::nest::Nest;
use crate::fast::real::Run;
use crate::fast::row::Row;
use crate::fast::scratch::{Scratch, Shared, Tensors};
use crate::fast::vector::{Lanewise, Vector};
use crate::kernel::{Kernel, Refusal};
use crate::layout::MAX_RANK;
use crate::problem::Operand;
use crate::reference::Numbers;

/// The longest row, whose results still stay in the second cache.
const LONGEST: usize = 1 << 15;
/// Inputs and results.
const TENSORS: usize = super::chain::MOST_INPUTS + 1;
/// Rows of numbers that are made of one that all elements share.
const SPREADS: usize = 3;

/// How a tensor's part of a row is read or written.
enum Access<T> {
    /// Elements of its own for the elements of the row.
    Row(Box<Row<T>>),
    /// One element for all of the row.
    One(usize, Run<T>),
}

/// What is done with an operand.
#[derive(Clone, Copy)]
struct Source {
    place: Place,
    /// Whether it is one number for the row.
    one: bool,
}

#[derive(Clone, Copy)]
enum Place {
    Input(usize),
    Register(usize),
}

/// An operation on a row, or on numbers that a row shares.
enum Work<T> {
    /// One that has a form in registers.
    Lanewise(Lanewise, Mode<T>),
    Mode(Mode<T>),
    Reduce(ReductionMode),
}

struct Step<T> {
    work: Work<T>,
    operands: Vec<Source>,
    register: usize,
    /// Whether the result is one number for the row.
    one: bool,
    rounded: Option<Run<T>>,
}

/// A chain with reductions, every decision made.
pub(super) struct Rows<T> {
    level: Level,
    steps: Vec<Step<T>>,
    inputs: Vec<Access<T>>,
    output: Access<T>,
    /// The loops over rows, by input and, last, the result.
    nest: Nest<TENSORS>,
    /// Elements of a row.
    len: usize,
    lanes: Lanes,
}

impl<T: Functions> Rows<T> {
    /// Plans a chain over `dims`, where `reduced` says which dimensions its reductions make one.
    pub(super) fn plan(
        chain: &Chain,
        dims: &[usize],
        reduced: &[bool],
        output: &Operand,
        level: Level,
        threads: Threads,
    ) -> Result<Self, Refusal> {
        let count = chain.inputs.len();
        if count >= TENSORS {
            return Err(format!("a chain of {count} inputs, expected at most {}", TENSORS - 1));
        }
        let pick = |numbers: &[usize], within: bool| -> Vec<usize> {
            let kept = numbers.iter().zip(reduced).filter(|(_, reduced)| **reduced == within);
            kept.map(|(number, _)| *number).collect()
        };
        let len: usize = pick(dims, true).iter().product();
        if len > LONGEST {
            return Err(format!("a row of {len} elements, expected at most {LONGEST}"));
        }
        let (steps, time) = plan_steps::<T>(chain, dims, reduced, level)?;
        let one = steps.last().is_some_and(|step| step.one);
        let mut end = [0; MAX_RANK];
        end[..output.layout.rank()].copy_from_slice(output.layout.strides());
        // Rows are walked through in the order of the result, or of the first input where the result has one element of each.
        let by = if one { chain.inputs.first().map_or(end, |input| input.strides) } else { end };
        let by = pick(&by[..dims.len()], true);
        let access = |slot, data_type, strides: &[usize], one: bool| -> Result<Access<T>, Refusal> {
            let within = pick(&strides[..dims.len()], true);
            let along = pick(dims, true);
            let shared = within.iter().zip(&along).all(|(stride, dim)| *stride == 0 || *dim == 1);
            if one || shared {
                return Ok(Access::One(slot, Run::of_number(data_type)?));
            }
            Ok(Access::Row(Box::new(Row::of(slot, data_type, &along, &by, &within)?)))
        };
        let inputs =
            chain.inputs.iter().map(|input| access(input.slot, input.data_type, &input.strides, false));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let mut strides = vec![vec![0; dims.len() - by.len()]; TENSORS];
        for (to, input) in strides.iter_mut().zip(&chain.inputs) {
            *to = pick(&input.strides[..dims.len()], false);
        }
        strides[TENSORS - 1] = pick(&end[..dims.len()], false);
        let outer = pick(dims, false);
        let nest = Nest::new(&outer, std::array::from_fn(|i| strides[i].as_slice()), TENSORS - 1);
        let rows = nest.runs() * nest.len;
        let lanes = threads.lanes(rows as f64 * (len as f64 * time + 50.0), rows);
        let output = access(output.slot, output.data_type, &end, one)?;
        Ok(Self { level, steps, inputs, output, nest, len, lanes })
    }

    /// Numbers of a buffer for a row.
    fn pitch(&self) -> usize {
        Scratch::padded::<T>(self.len)
    }

    /// Numbers that a lane needs: a row for each input, register and spread number, and one for the result.
    fn room(&self) -> usize {
        (self.inputs.len() + REGISTERS + SPREADS + 1) * self.pitch()
    }

    /// Computes the row whose first elements have these offsets.
    ///
    /// # Safety
    /// As [`Kernel::run`]; `buffers` has [`Rows::room`] numbers.
    unsafe fn row(&self, tensors: &[*mut u8], offsets: &[usize; TENSORS], buffers: *mut T) {
        // SAFETY: the caller promises room for all rows.
        let buffer = |number: usize| unsafe { buffers.add(number * self.pitch()) };
        let registers = self.inputs.len();
        let mut inputs = [std::ptr::null::<T>(); TENSORS];
        for (number, input) in self.inputs.iter().enumerate() {
            // SAFETY: the caller promises the tensors.
            inputs[number] = unsafe {
                match input {
                    Access::Row(row) => row.numbers(tensors, offsets[number], buffer(number)),
                    Access::One(slot, run) => {
                        (run.load)(tensors[*slot].add(offsets[number] * run.size), 0, buffer(number), 1);
                        buffer(number)
                    }
                }
            };
        }
        let end = offsets[TENSORS - 1];
        let last = buffer(registers + REGISTERS + SPREADS);
        for (number, step) in self.steps.iter().enumerate() {
            let is_last = number + 1 == self.steps.len();
            // SAFETY: the caller promises the tensors; a register was written before it is read.
            unsafe {
                let out = match (&self.output, is_last) {
                    (Access::Row(row), true) => row.target(tensors, end, last),
                    _ => buffer(registers + step.register),
                };
                let address = |source: &Source| match source.place {
                    Place::Input(input) => inputs[input],
                    Place::Register(register) => buffer(registers + register).cast_const(),
                };
                self.step(step, address, out, |spread| buffer(registers + REGISTERS + spread));
                let len = if step.one { 1 } else { self.len };
                if let (Some(rounded), false) = (&step.rounded, is_last) {
                    // What is stored is no larger than the numbers.
                    (rounded.store)(out, last.cast(), 1, len);
                    (rounded.load)(last.cast(), 1, out, len);
                }
                if is_last {
                    match &self.output {
                        Access::Row(row) => row.written(tensors, end, out),
                        Access::One(slot, run) => (run.store)(out, tensors[*slot].add(end * run.size), 1, 1),
                    }
                }
            }
        }
    }

    /// Does one step.
    ///
    /// # Safety
    /// The operands are readable for a row, or one number, `out` and the spreads are writable for a row.
    unsafe fn step(
        &self,
        step: &Step<T>,
        address: impl Fn(&Source) -> *const T,
        out: *mut T,
        spread: impl Fn(usize) -> *mut T,
    ) {
        let len = if step.one { 1 } else { self.len };
        // SAFETY: the caller promises operands and result.
        unsafe {
            let (mode, done) = match &step.work {
                Work::Reduce(mode) => {
                    let Some(source) = step.operands.first() else { return };
                    let reduce = Reduce { mode: *mode, x: address(source), len: self.len };
                    out.write(self.level.run_vectors(reduce));
                    return;
                }
                Work::Lanewise(operation, mode) if !step.one => {
                    // The first operand goes through the registers, so it is the one that has a row of its own.
                    let (first, other, side) = match step.operands.as_slice() {
                        [x] => (x, None, Side::Both),
                        [x, y] if !x.one => (x, Some(y), Side::First),
                        [x, y] => (y, Some(x), Side::Second),
                        _ => return,
                    };
                    let links = [Link {
                        operation: *operation,
                        side,
                        other: usize::from(other.is_some()),
                        one: other.is_some_and(|other| other.one),
                    }];
                    let operands = [address(first), other.map_or(std::ptr::null(), &address)];
                    (mode, if first.one { 0 } else { line::run(self.level, &links, &operands, out, len) })
                }
                Work::Lanewise(_, mode) | Work::Mode(mode) => (mode, 0),
            };
            if done == len {
                return;
            }
            let mut operands = [out.cast_const(); 3];
            for (number, (to, source)) in operands.iter_mut().zip(&step.operands).enumerate() {
                let from = address(source);
                *to = if source.one && !step.one {
                    let row = spread(number);
                    let value = from.read();
                    (done..len).for_each(|i| row.add(i).write(value));
                    row.add(done)
                } else {
                    from.add(done)
                };
            }
            for number in step.operands.len()..3 {
                operands[number] = operands[0];
            }
            mode.run(operands, out.add(done), len - done);
        }
    }
}

/// Plans the steps, and says how many nanoseconds one element takes.
fn plan_steps<T: Functions>(
    chain: &Chain,
    dims: &[usize],
    reduced: &[bool],
    level: Level,
) -> Result<(Vec<Step<T>>, f64), Refusal> {
    let input_is_one = |input: usize| {
        let strides = chain.inputs.get(input).map(|input| input.strides).unwrap_or_default();
        (0..dims.len()).all(|axis| !reduced[axis] || dims[axis] == 1 || strides[axis] == 0)
    };
    let mut steps: Vec<Step<T>> = Vec::with_capacity(chain.steps.len());
    let last_read = |result: usize| {
        let reads = |step: &Spec| step.operands.contains(&Value::Step(result));
        chain.steps.iter().rposition(reads).unwrap_or(result)
    };
    let mut owners: [Option<usize>; REGISTERS] = [None; REGISTERS];
    let mut time = 0.0;
    for (number, spec) in chain.steps.iter().enumerate() {
        let source = |value: &Value| match *value {
            Value::Input(input) => Source { place: Place::Input(input), one: input_is_one(input) },
            Value::Step(step) => {
                Source { place: Place::Register(steps[step].register), one: steps[step].one }
            }
        };
        let operands: Vec<Source> = spec.operands.iter().map(source).collect();
        let (work, one) = match &spec.operation {
            Operation::Reduce(mode) => {
                if operands.first().is_none_or(|operand| operand.one) {
                    return Err("a reduction of what is one number".to_owned());
                }
                time += 0.1;
                (Work::Reduce(*mode), true)
            }
            Operation::Pointwise(mode, activation) => {
                let planned = Mode::of(*mode, Numbers::of(activation), level)
                    .ok_or_else(|| format!("{} is no function of its operands", mode.name()))?;
                let one = spec.one;
                if one && operands.iter().any(|operand| !operand.one) {
                    return Err("one number of what is a row".to_owned());
                }
                time += if one { 0.0 } else { planned.time };
                match line::lanewise(spec) {
                    Some(operation) => (Work::Lanewise(operation, planned), one),
                    None => (Work::Mode(planned), one),
                }
            }
        };
        let free = |owner: &Option<usize>| owner.is_none_or(|owner| last_read(owner) < number);
        let register = owners.iter().position(free);
        let register = register.ok_or_else(|| format!("a chain keeps more than {REGISTERS} results"))?;
        owners[register] = Some(number);
        let rounded = Run::of_number(spec.stored)?;
        let rounded = Some(rounded).filter(|run| !run.same && !run.wider);
        steps.push(Step { work, operands, register, one, rounded });
    }
    Ok((steps, time))
}

/// One number made of many.
struct Reduce<T> {
    mode: ReductionMode,
    x: *const T,
    len: usize,
}

impl<T: Functions> VectorWork<T> for Reduce<T> {
    type Output = T;

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) -> T {
        // SAFETY: the caller promises the numbers and the instructions.
        let total = unsafe { with_join!(self.mode, J => along::<V, J>(self.x, self.len)) };
        finished(self.mode, total, self.len)
    }
}

impl<T: Functions> Kernel for Rows<T> {
    fn scratch_size(&self) -> usize {
        let mut scratch = Scratch::default();
        scratch.area::<T>(self.room(), self.lanes.count());
        scratch.size()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (shared, buffers) = (Tensors(tensors), Shared([scratch]));
        let rows = self.nest.runs() * self.nest.len;
        self.lanes.run(|lane| {
            // SAFETY: the scratch memory has buffers for each lane.
            let buffers = unsafe { buffers.get(0).cast::<T>().add(lane * Scratch::padded::<T>(self.room())) };
            let mut elements = crate::fast::nest::Elements::new(&self.nest, self.lanes.share(lane, rows));
            while let Some(offsets) = elements.next() {
                // SAFETY: the caller promises the tensors; each lane computes rows of its own.
                unsafe { self.row(shared.all(), &offsets, buffers) };
            }
        });
    }
}
