//! The operations of a chain over contiguous values.
//!
//! They are divided into as few lines as possible: a line ends before an operation that reads one of its
//! reductions, and before one that cannot be computed in registers. Results that only the next operation of a
//! line reads are never stored.

use hipdnn_plugin_sdk::graph::{PointwiseMode, ReductionMode};

use crate::dtype::element::{Compute, with_compute};
use crate::kernel::Refusal;
use crate::pointwise::chain::{Chain, MAX_INPUTS, MAX_STEPS, Operation, Step as Spec, Value};
use crate::pointwise::functions::{Functions, RowFunction};
use crate::pointwise::line::{Line, Link, MAX_ROWS, MAX_TOTALS, Memory, Other};
use crate::pointwise::mode::Mode;
use crate::pointwise::schedule::{Draft, LinkDraft, Schedule};
use crate::pointwise::softmax::Softmax;
use crate::simd::isa::Isa;
use crate::tensor::row_converter::RowConverter;

/// The most results of a chain that are stored at the same time.
pub(crate) const REGISTERS: usize = 8;

/// Rows of repeated values for operations outside registers.
pub(crate) const SPREADS: usize = 3;

/// Single values: results, then inputs.
pub(crate) const ONES: usize = MAX_STEPS + MAX_INPUTS;

/// The rows: inputs, registers, repeated values, and the result.
pub(crate) const FIRST_REGISTER: usize = MAX_INPUTS;

pub(crate) const FIRST_SPREAD: usize = FIRST_REGISTER + REGISTERS;

pub(crate) const OUT: usize = FIRST_SPREAD + SPREADS;

const _: () = assert!(OUT < MAX_ROWS);

/// A loop of a program.
pub(crate) enum Item<T> {
    /// Operations in registers, and the results of their reductions.
    Line(Line<T>, Vec<Total<T>>),
    /// Softmax of a row.
    Softmax { run: RowFunction<T>, from: usize, to: usize },
    /// An operation on rows that cannot be computed in registers.
    Mode { mode: Mode<T>, operands: Vec<Other>, to: usize, rounded: Option<RowConverter<T>> },
    /// An operation on single values.
    One { mode: Mode<T>, operands: Vec<usize>, to: usize, rounded: Option<RowConverter<T>> },
}

/// A reduction of a line.
pub(crate) struct Total<T> {
    /// Its index in the line.
    pub(crate) index: usize,
    /// The index of the result.
    pub(crate) to: usize,
    pub(crate) rounded: Option<RowConverter<T>>,
}

/// A chain with its loops.
pub(crate) struct Program<T> {
    pub(crate) isa: Isa,
    pub(crate) items: Vec<Item<T>>,
    /// Registers in use.
    pub(crate) registers: usize,
    /// The index of the result, if it is a single value.
    pub(crate) one: Option<usize>,
    /// Estimated nanoseconds per element.
    pub(crate) time: f64,
}

/// The rows and single values that a run reads and writes.
pub(crate) struct Bindings<T> {
    pub(crate) rows: [*mut T; MAX_ROWS],
    pub(crate) ones: [T; ONES],
    /// Whether the result is written with non-temporal stores.
    pub(crate) streamed: bool,
}

impl<T: Functions> Bindings<T> {
    /// Null rows.
    pub(crate) fn null() -> Self {
        Self { rows: [std::ptr::null_mut(); MAX_ROWS], ones: [T::ZERO; ONES], streamed: false }
    }

    /// The row of an input.
    pub(crate) fn input(&mut self, input: usize) -> &mut *mut T {
        &mut self.rows[input]
    }

    /// An input that is a single value.
    pub(crate) fn one(&mut self, input: usize) -> &mut T {
        &mut self.ones[MAX_STEPS + input]
    }

    /// The row of a register.
    pub(crate) fn register(&mut self, register: usize) -> &mut *mut T {
        &mut self.rows[FIRST_REGISTER + register]
    }

    /// A row for a repeated value.
    pub(crate) fn spread(&mut self, spread: usize) -> &mut *mut T {
        &mut self.rows[FIRST_SPREAD + spread]
    }

    /// The row of the result.
    pub(crate) fn out(&mut self) -> &mut *mut T {
        &mut self.rows[OUT]
    }
}

impl<T: Functions> Program<T> {
    /// Plans a chain for an instruction set; `input_is_one` tells which inputs have one value per row.
    pub(crate) fn plan(
        chain: &Chain,
        isa: Isa,
        input_is_one: impl Fn(usize) -> bool,
    ) -> Result<Self, Refusal> {
        let count = chain.steps.len();
        if !(1..=MAX_STEPS).contains(&count) {
            return Err(format!("a chain of {count} operations, expected 1 to {MAX_STEPS}"));
        }
        if chain.inputs.len() > MAX_INPUTS {
            return Err(format!("a chain of {} inputs, expected at most {MAX_INPUTS}", chain.inputs.len()));
        }
        let is_one = |value: &Value| match *value {
            Value::Input(input) => input_is_one(input),
            Value::Step(step) => chain.steps[step].one,
        };
        let mut schedule = Schedule::<T>::default();
        let mut index = 0;
        while let Some(spec) = chain.steps.get(index) {
            if let (Some(run), Some(value)) = (T::SOFTMAX, softmax::<T>(chain, index, &is_one)) {
                index += SOFTMAX;
                schedule.add_softmax(index - 1, value, run);
            } else {
                schedule.add(index, spec, isa, &is_one)?;
                index += 1;
            }
        }
        schedule.close();
        // The last step writes the result.
        schedule.stored[count - 1] = false;
        let bindings = bindings(chain, &schedule.stored)?;
        let row_of = |value: &Value| match *value {
            Value::Input(input) => input,
            Value::Step(step) if step + 1 == count => OUT,
            Value::Step(step) => FIRST_REGISTER + bindings[step],
        };
        let one = |value: &Value| match *value {
            Value::Input(input) => MAX_STEPS + input,
            Value::Step(step) => step,
        };
        let other =
            |value: &Value| if is_one(value) { Other::One(one(value)) } else { Other::Row(row_of(value)) };
        let rounded = |step: usize| -> Result<Option<RowConverter<T>>, Refusal> {
            let run =
                (step + 1 < count).then(|| RowConverter::of_number(chain.steps[step].stored)).transpose()?;
            Ok(run.filter(|run| !run.same && !run.wider))
        };
        let mut items = Vec::with_capacity(schedule.items.len());
        for item in schedule.items {
            items.push(match item {
                Draft::Line(drafts) => {
                    let (mut links, mut totals) = (Vec::new(), Vec::new());
                    for draft in drafts {
                        match draft {
                            LinkDraft::Load(value) => links.push(Link::Load(row_of(&value))),
                            LinkDraft::Apply(step, applied, side, value) => {
                                links.push(Link::Apply(applied, side, other(&value)));
                                links.extend(rounded(step)?.map(Link::Round));
                                if schedule.stored[step] || step + 1 == count {
                                    links.push(Link::Store(row_of(&Value::Step(step))));
                                }
                            }
                            LinkDraft::Combine(step, mode) => {
                                links.push(Link::Combine(mode, totals.len()));
                                totals.push(Total { index: totals.len(), to: step, rounded: rounded(step)? });
                            }
                        }
                    }
                    Item::Line(Line { links }, totals)
                }
                Draft::Softmax(step, value, run) => {
                    Item::Softmax { run, from: row_of(&value), to: row_of(&Value::Step(step)) }
                }
                Draft::Mode(step, mode) => Item::Mode {
                    mode,
                    operands: chain.steps[step].operands.iter().map(other).collect(),
                    to: row_of(&Value::Step(step)),
                    rounded: rounded(step)?,
                },
                Draft::One(step, mode) => Item::One {
                    mode,
                    operands: chain.steps[step].operands.iter().map(one).collect(),
                    to: step,
                    rounded: rounded(step)?,
                },
            });
        }
        let used = (0..count).filter(|step| schedule.stored[*step]).map(|step| bindings[step] + 1).max();
        let last_is_one = chain.steps[count - 1].one;
        Ok(Self {
            isa,
            items,
            registers: used.unwrap_or(0),
            one: last_is_one.then_some(count - 1),
            time: schedule.time,
        })
    }

    /// Whether the program needs no buffers, so that rows may have any length.
    pub(crate) fn is_single(&self) -> bool {
        self.items.len() == 1 && self.registers == 0 && !matches!(self.items[0], Item::One { .. })
    }

    /// Whether the program is one line.
    pub(crate) fn is_line(&self) -> bool {
        self.is_single() && matches!(self.items[0], Item::Line(..))
    }

    /// The input and the function, if the program is a softmax.
    pub(crate) fn softmax(&self) -> Option<(usize, RowFunction<T>)> {
        match self.items.as_slice() {
            [Item::Softmax { run, from, to: OUT }] if *from < FIRST_REGISTER => Some((*from, *run)),
            _ => None,
        }
    }

    /// Computes `len` values.
    ///
    /// # Safety
    /// The processor supports the instruction set. Inputs are readable; registers, rows of repeated values and the result are writable
    /// for `len` values. The result may be an input if the program is one line.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, bindings: &mut Bindings<T>, len: usize) {
        for item in &self.items {
            match item {
                Item::Line(line, ends) => {
                    let streamed = bindings.streamed.then_some(OUT);
                    let memory = Memory { rows: &bindings.rows, ones: bindings.ones.as_ptr(), streamed };
                    // SAFETY: the rows are readable and writable, as this function requires; a register was written before it is read.
                    let totals: [T; MAX_TOTALS] = unsafe { line.run(self.isa, &memory, len) };
                    for end in ends {
                        bindings.ones[end.to] = rounded_to(totals[end.index], end.rounded.as_ref());
                    }
                }
                Item::Softmax { run, from, to } => {
                    let (x, y) = (bindings.rows[*from].cast_const(), bindings.rows[*to]);
                    // SAFETY: the operand is readable and the result writable for `len` values.
                    unsafe {
                        run(self.isa, Softmax { x, y, len, rows: 1, strides: [0; 2], is_invariant: false });
                    }
                }
                Item::Mode { mode, operands, to, rounded } => {
                    let to = bindings.rows[*to];
                    let mut rows = [to.cast_const(); 3];
                    for (index, operand) in operands.iter().enumerate() {
                        rows[index] = match *operand {
                            Other::Row(row) => bindings.rows[row],
                            Other::One(one) => {
                                let (row, value) = (*bindings.spread(index), bindings.ones[one]);
                                // SAFETY: a row of repeated values is writable for `len` values.
                                (0..len).for_each(|i| unsafe { row.add(i).write(value) });
                                row
                            }
                        };
                    }
                    for index in operands.len()..3 {
                        rows[index] = rows[0];
                    }
                    // SAFETY: the operands are readable and the result is writable for `len` values.
                    unsafe {
                        mode.run(rows, to, len);
                        if let Some(run) = rounded {
                            run.round(to, len);
                        }
                    }
                }
                Item::One { mode, operands, to, rounded } => {
                    let mut result = T::ZERO;
                    let first = operands.first().copied().unwrap_or(0);
                    let mut values = [&raw const bindings.ones[first]; 3];
                    for (value, operand) in values.iter_mut().zip(operands) {
                        *value = &raw const bindings.ones[*operand];
                    }
                    // SAFETY: the operands and the result are single values.
                    unsafe { mode.run(values, &raw mut result, 1) };
                    bindings.ones[*to] = rounded_to(result, rounded.as_ref());
                }
            }
        }
    }
}

/// A value rounded to a dtype, if one is given.
#[inline(always)]
fn rounded_to<T: Functions>(mut value: T, to: Option<&RowConverter<T>>) -> T {
    if let Some(run) = to {
        // SAFETY: the address is that of a local, which is one value.
        unsafe { run.round(&raw mut value, 1) };
    }
    value
}

/// The number of operations of a softmax.
pub(crate) const SOFTMAX: usize = 5;

/// The operand of the softmax that begins at a step; `None` if no softmax begins there, or if other steps read its
/// intermediate results.
pub(crate) fn softmax<T: Functions>(
    chain: &Chain,
    first: usize,
    is_one: &impl Fn(&Value) -> bool,
) -> Option<Value> {
    use Operation::{Pointwise, Reduce};
    let steps = chain.steps.get(first..first + SOFTMAX)?;
    let of = |step: usize| Value::Step(first + step);
    let [largest, less, power, sum, quotient] = steps else { return None };
    let x = *largest.operands.first()?;
    let operations = matches!(largest.operation, Reduce(ReductionMode::Max))
        && matches!(less.operation, Pointwise(PointwiseMode::Sub, _))
        && matches!(power.operation, Pointwise(PointwiseMode::Exp, _))
        && matches!(sum.operation, Reduce(ReductionMode::Add | ReductionMode::NotSet))
        && matches!(quotient.operation, Pointwise(PointwiseMode::Div, _));
    let operands = less.operands == [x, of(0)]
        && power.operands == [of(1)]
        && sum.operands == [of(2)]
        && quotient.operands == [of(2), of(3)];
    let exact =
        |step: &Spec| RowConverter::<T>::of_number(step.stored).is_ok_and(|run| run.same || run.wider);
    let inner = first..first + SOFTMAX - 1;
    let is_inner = |value: &Value| matches!(value, Value::Step(step) if inner.contains(step));
    let mut others = chain.steps.iter().skip(first + SOFTMAX).flat_map(|step| &step.operands);
    let exact = steps.iter().take(SOFTMAX - 1).all(exact);
    (operations && operands && exact && !is_one(&x) && !others.any(is_inner)).then_some(x)
}

/// The registers of stored results, except the last.
pub(crate) fn bindings(chain: &Chain, stored: &[bool; MAX_STEPS]) -> Result<[usize; MAX_STEPS], Refusal> {
    let last_read = |result: usize| {
        let reads = |step: &Spec| step.operands.contains(&Value::Step(result));
        chain.steps.iter().rposition(reads).unwrap_or(result)
    };
    let mut bindings = [0; MAX_STEPS];
    let mut owners: [Option<usize>; REGISTERS] = [None; REGISTERS];
    for step in (0..chain.steps.len()).filter(|step| stored[*step]) {
        // A step does not overwrite its own operands.
        let free = owners.iter().position(|owner| owner.is_none_or(|owner| last_read(owner) < step));
        let register = free.ok_or_else(|| format!("a chain keeps more than {REGISTERS} results"))?;
        owners[register] = Some(step);
        bindings[step] = register;
    }
    Ok(bindings)
}

/// Whether a chain can compute results of a dtype.
pub(crate) fn can_compute(compute: Compute, stored: hipdnn_plugin_sdk::graph::DataType) -> bool {
    with_compute!(compute, T => RowConverter::<T>::of_number(stored).is_ok())
}
