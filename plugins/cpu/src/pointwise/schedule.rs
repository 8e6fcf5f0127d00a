//! Divides the steps of a chain into lines.

use hipdnn_plugin_sdk::graph::ReductionMode;

use crate::kernel::Refusal;
use crate::pointwise::chain::{MAX_STEPS, Operation, Step as Spec, Value};
use crate::pointwise::functions::{Functions, RowFunction};
use crate::pointwise::line::{Applied, MAX_TOTALS, Side};
use crate::pointwise::mode::Mode;
use crate::simd::isa::Isa;

/// A step of a line whose operands do not have rows yet.
pub(crate) enum LinkDraft<T> {
    Load(Value),
    /// The index of the step, and its operand that is not in registers.
    Apply(usize, Applied<T>, Side, Value),
    Combine(usize, ReductionMode),
}

/// A loop whose operands do not have rows yet.
pub(crate) enum Draft<T> {
    Line(Vec<LinkDraft<T>>),
    /// The index of its last step, and its operand.
    Softmax(usize, Value, RowFunction<T>),
    Mode(usize, Mode<T>),
    One(usize, Mode<T>),
}

/// The loops so far, and the line that the next operation may continue.
pub(crate) struct Schedule<T> {
    pub(crate) items: Vec<Draft<T>>,
    pub(crate) line: Vec<LinkDraft<T>>,
    /// The value in registers.
    pub(crate) near: Option<Value>,
    /// The reductions of the line.
    pub(crate) totals: Vec<usize>,
    /// The results that are read from memory.
    pub(crate) stored: [bool; MAX_STEPS],
    pub(crate) time: f64,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            line: Vec::new(),
            near: None,
            totals: Vec::new(),
            stored: [false; MAX_STEPS],
            time: 0.0,
        }
    }
}

impl<T: Functions> Schedule<T> {
    /// Adds the next operation.
    pub(crate) fn add(
        &mut self,
        index: usize,
        spec: &Spec,
        isa: Isa,
        is_one: &impl Fn(&Value) -> bool,
    ) -> Result<(), Refusal> {
        let waits = |value: &Value| matches!(value, Value::Step(step) if self.totals.contains(step));
        if spec.operands.iter().any(waits) {
            self.close();
        }
        match &spec.operation {
            Operation::Reduce(mode) => {
                let Some(value) = spec.operands.first().filter(|value| !is_one(value)) else {
                    return Err("a reduction of a single value".to_owned());
                };
                if self.totals.len() == MAX_TOTALS {
                    self.close();
                }
                self.load(*value);
                self.line.push(LinkDraft::Combine(index, *mode));
                self.totals.push(index);
                self.time += 0.1;
            }
            Operation::Pointwise(mode, activation) => {
                let rows: Vec<Value> = spec.operands.iter().filter(|value| !is_one(value)).copied().collect();
                if spec.one && !rows.is_empty() {
                    return Err("a single value computed from a row".to_owned());
                }
                let applied = Applied::of(spec).filter(|_| !rows.is_empty());
                if let Some(applied) = applied {
                    self.time += applied.time();
                    self.apply(index, spec, applied, &rows);
                    return Ok(());
                }
                let mode = Mode::of(*mode, activation, isa)
                    .ok_or_else(|| format!("{} is not a function of its operands", mode.name()))?;
                if spec.one {
                    // It reads nothing of the line, so it comes before it.
                    self.items.push(Draft::One(index, mode));
                } else {
                    self.time += mode.time;
                    self.close();
                    rows.iter().for_each(|value| self.read(value));
                    self.stored[index] = true;
                    self.items.push(Draft::Mode(index, mode));
                }
            }
        }
        Ok(())
    }

    /// Adds the operations of a softmax.
    pub(crate) fn add_softmax(&mut self, last: usize, value: Value, run: RowFunction<T>) {
        self.close();
        self.read(&value);
        self.stored[last] = true;
        self.time += 2.0 * T::TIME;
        self.items.push(Draft::Softmax(last, value, run));
    }

    /// Continues the line with an operation; `rows` are the operands that are rows.
    pub(crate) fn apply(&mut self, index: usize, spec: &Spec, applied: Applied<T>, rows: &[Value]) {
        let is_near = rows.iter().any(|value| Some(*value) == self.near);
        if let (false, Some(first)) = (is_near, rows.first()) {
            self.load(*first);
        }
        let (side, other) = match spec.operands.as_slice() {
            [x, y] if Some(*x) == self.near && x != y => (Side::First, *y),
            [x, y] if Some(*y) == self.near && x != y => (Side::Second, *x),
            [x, ..] => (Side::Both, *x),
            [] => return,
        };
        if side != Side::Both && rows.contains(&other) {
            self.read(&other);
        }
        self.line.push(LinkDraft::Apply(index, applied, side, other));
        self.near = Some(Value::Step(index));
    }

    /// Loads a value into registers.
    pub(crate) fn load(&mut self, value: Value) {
        if self.near != Some(value) {
            self.read(&value);
            self.line.push(LinkDraft::Load(value));
            self.near = Some(value);
        }
    }

    /// Notes that a value is read from memory.
    pub(crate) fn read(&mut self, value: &Value) {
        if let Value::Step(step) = value {
            self.stored[*step] = true;
        }
    }

    /// Ends the line.
    pub(crate) fn close(&mut self) {
        if !self.line.is_empty() {
            self.items.push(Draft::Line(std::mem::take(&mut self.line)));
        }
        self.near = None;
        self.totals.clear();
    }
}
