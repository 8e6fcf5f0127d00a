//! The operations of a chain over numbers that lie side by side.

use super::chain::{Chain, MOST_STEPS, Operation, Value};
use super::functions::Functions;
use super::line::{self, Link, Side};
use super::mode::Mode;
use crate::element::Compute;
use crate::fast::level::Level;
use crate::fast::real::Run;
use crate::kernel::Refusal;
use crate::reference::Numbers;

/// Results of a chain that are needed at the same time, at most.
pub(super) const REGISTERS: usize = 8;

/// Bytes of a buffer: few enough that all of them stay in the first cache.
const BYTES: usize = 2048;

/// Memory for some numbers.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct Buffer(std::mem::MaybeUninit<[u8; BYTES]>);

impl Buffer {
    /// Memory that holds nothing yet.
    pub(super) const EMPTY: Self = Self(std::mem::MaybeUninit::uninit());

    /// How many numbers there is room for.
    pub(super) const fn len<T>() -> usize {
        BYTES / size_of::<T>()
    }

    /// The numbers.
    pub(super) fn numbers<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// Where an operation finds an operand.
#[derive(Clone, Copy)]
enum Source {
    Input(usize),
    Register(usize),
}

/// An operation of the chain.
struct Step<T> {
    mode: Mode<T>,
    operands: [Source; 3],
    /// The register that the result goes to, unless it is the last.
    register: usize,
    /// How the result is rounded, where its type is smaller than the number's.
    rounded: Option<Run<T>>,
}

/// Some operations of the chain that are done one by one, or while their results are in registers of the processor.
struct Piece {
    /// The operations, by number.
    steps: std::ops::Range<usize>,
    /// The operations in registers, and their operands; none where there is but one operation.
    links: Vec<Link>,
    operands: Vec<Source>,
}

/// A chain with its loops.
pub(super) struct Program<T> {
    level: Level,
    steps: Vec<Step<T>>,
    pieces: Vec<Piece>,
    /// Nanoseconds that one number takes, about.
    pub(super) time: f64,
}

impl<T: Functions> Program<T> {
    /// Plans a chain for a level.
    pub(super) fn plan(chain: &Chain, level: Level) -> Result<Self, Refusal> {
        let count = chain.steps.len();
        if !(1..=MOST_STEPS).contains(&count) {
            return Err(format!("a chain of {count} operations, expected 1 to {MOST_STEPS}"));
        }
        // The last step that reads each result.
        let mut last = [0; MOST_STEPS];
        for (number, step) in chain.steps.iter().enumerate() {
            for operand in &step.operands {
                if let Value::Step(read) = operand {
                    last[*read] = number;
                }
            }
        }
        let mut time = 0.0;
        let mut steps: Vec<Step<T>> = Vec::with_capacity(count);
        let mut owners = [None; REGISTERS];
        for (number, step) in chain.steps.iter().enumerate() {
            let Operation::Pointwise(mode, activation) = &step.operation else {
                return Err("a reduction, expected functions of each element".to_owned());
            };
            let mode = Mode::of(*mode, Numbers::of(activation), level)
                .ok_or_else(|| format!("{} is no function of its operands", mode.name()))?;
            time += mode.time;
            // A result is not written over what the same step reads.
            let free = owners
                .iter()
                .position(|owner: &Option<usize>| owner.is_none_or(|owner| last[owner] < number));
            let register = free.ok_or_else(|| format!("a chain keeps more than {REGISTERS} results"))?;
            owners[register] = Some(number);
            let source = |value: &Value| match *value {
                Value::Input(input) => Source::Input(input),
                Value::Step(step) => Source::Register(steps[step].register),
            };
            let first = step.operands.first().map_or(Source::Input(0), source);
            let mut operands = [first; 3];
            for (operand, value) in operands.iter_mut().zip(&step.operands) {
                *operand = source(value);
            }
            let rounded = (number + 1 < count).then(|| Run::of_number(step.stored)).transpose()?;
            let rounded = rounded.filter(|run| !run.same && !run.wider);
            time += if rounded.is_some() { 1.0 } else { 0.0 };
            steps.push(Step { mode, operands, register, rounded });
        }
        let pieces = pieces(chain, &steps);
        // What stays in registers costs a fraction of a loop of its own.
        time -= pieces.iter().map(|piece| 0.2 * piece.links.len() as f64).sum::<f64>();
        Ok(Self { level, steps, pieces, time })
    }

    /// Whether it is a single operation, which needs no registers.
    pub(super) fn is_single(&self) -> bool {
        self.steps.len() == 1
    }

    /// Computes `len` numbers, at most [`Buffer::len`] of them unless the program is a single operation.
    ///
    /// # Safety
    /// As [`Mode::run`], with an operand for each input.
    #[inline(always)]
    pub(super) unsafe fn run(
        &self,
        inputs: &[*const T],
        registers: &mut [Buffer; REGISTERS],
        out: *mut T,
        len: usize,
    ) {
        let mut places = [std::ptr::null_mut::<T>(); REGISTERS];
        for (place, register) in places.iter_mut().zip(registers) {
            *place = register.numbers();
        }
        let address = |source: Source| match source {
            Source::Input(input) => inputs[input],
            Source::Register(register) => places[register].cast_const(),
        };
        for piece in &self.pieces {
            let steps = &self.steps[piece.steps.clone()];
            let Some(end) = steps.last() else { continue };
            let is_last = piece.steps.end == self.steps.len();
            let to = if is_last { out } else { places[end.register] };
            let mut done = 0;
            // SAFETY: the caller promises the inputs and the output; a register was written before it is read, and has room.
            unsafe {
                if !piece.links.is_empty() {
                    let mut operands = [std::ptr::null(); MOST_STEPS + 1];
                    for (operand, source) in operands.iter_mut().zip(&piece.operands) {
                        *operand = address(*source);
                    }
                    done = line::run(self.level, &piece.links, &operands, to, len);
                }
                // What is left when groups of vectors are done, or all of it.
                let steps = if done == len { &[] } else { steps };
                for (number, step) in steps.iter().enumerate() {
                    let to = if number + 1 == steps.len() { to } else { places[step.register] };
                    let operands = step.operands.map(|source| address(source).add(done));
                    step.mode.run(operands, to.add(done), len - done);
                }
                if let Some(rounded) = &end.rounded {
                    let mut stored = Buffer::EMPTY;
                    (rounded.store)(to, stored.numbers(), 1, len);
                    (rounded.load)(stored.numbers(), 1, to, len);
                }
            }
        }
    }
}

/// Divides the steps of a chain into pieces, as few as can be.
fn pieces<T>(chain: &Chain, steps: &[Step<T>]) -> Vec<Piece> {
    let reads = |result: usize| {
        let operands = chain.steps.iter().map(|step| &step.operands);
        operands.filter(|operands| operands.contains(&Value::Step(result))).count()
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, (spec, step)) in chain.steps.iter().zip(steps).enumerate() {
        let operation = line::lanewise(spec);
        let before = number.checked_sub(1).map(Value::Step);
        // Whether the step goes on with what the one before it has in registers.
        let follows = operation.is_some()
            && before.is_some_and(|before| spec.operands.contains(&before))
            && number.checked_sub(1).is_some_and(|before| reads(before) == 1)
            && pieces.last().is_some_and(|piece| !piece.links.is_empty())
            && number.checked_sub(1).is_some_and(|before| steps[before].rounded.is_none());
        if !follows {
            // The result of the first operand, if it is one in registers at all.
            let first = step.operands[0];
            let operands = if operation.is_some() { vec![first] } else { Vec::new() };
            pieces.push(Piece { steps: number..number, links: Vec::new(), operands });
        }
        let Some(piece) = pieces.last_mut() else { continue };
        piece.steps.end = number + 1;
        let Some(operation) = operation else { continue };
        let is_near = |operand: usize| {
            if follows { spec.operands.get(operand).copied() == before } else { operand == 0 }
        };
        let other = |operand: usize, operands: &mut Vec<Source>| {
            operands.push(step.operands[operand]);
            operands.len() - 1
        };
        let link = match (spec.operands.len(), is_near(0), is_near(1)) {
            (2, true, false) => {
                Link { operation, side: Side::First, other: other(1, &mut piece.operands), one: false }
            }
            (2, false, true) => {
                Link { operation, side: Side::Second, other: other(0, &mut piece.operands), one: false }
            }
            _ => Link { operation, side: Side::Both, other: 0, one: false },
        };
        piece.links.push(link);
    }
    for piece in &mut pieces {
        if piece.links.len() < 2 {
            piece.links.clear();
        }
    }
    pieces
}

/// Whether results of a type can be computed in a chain.
pub(crate) fn can_compute(compute: Compute, stored: hipdnn_plugin_sdk::graph::DataType) -> bool {
    match compute {
        Compute::Single => Run::<f32>::of_number(stored).is_ok(),
        Compute::Double => Run::<f64>::of_number(stored).is_ok(),
    }
}
