//! Pointwise operations that are computed together, with reductions in between.

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, ReductionMode};

use crate::layout::MAX_RANK;
use crate::problem::Operand;
use crate::problem::pointwise::{Activation, Broadcast, Pointwise};
use crate::simd::clip::Clip;

/// The most inputs of a chain.
pub(crate) const MAX_INPUTS: usize = 11;

/// The most operations of a chain.
pub(crate) const MAX_STEPS: usize = 32;

/// An operand in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The input with this index.
    Input(usize),
    /// The result of the step with this index.
    Step(usize),
}

/// An input of a chain: a tensor broadcast to the chain's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Input {
    /// The slot of its pointer.
    pub(crate) slot: usize,
    /// Its dtype.
    pub(crate) data_type: DataType,
    /// Its strides along the dimensions of the shape: 0 where it repeats.
    pub(crate) strides: [usize; MAX_RANK],
    /// Whether the result overwrites it.
    pub(crate) replaced: bool,
}

impl Input {
    /// A tensor of the chain's shape that the result overwrites.
    pub(crate) fn replaced(operand: &Operand) -> Self {
        let mut strides = [0; MAX_RANK];
        strides[..operand.layout.rank()].copy_from_slice(operand.layout.strides());
        Self { slot: operand.slot, data_type: operand.data_type, strides, replaced: true }
    }

    fn of(broadcast: &Broadcast) -> Self {
        let Operand { slot, data_type, .. } = broadcast.operand;
        Self { slot, data_type, strides: broadcast.strides, replaced: false }
    }
}

/// The operation of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// A function of each element, with its parameters.
    Pointwise(PointwiseMode, Activation),
    /// A reduction of each row.
    Reduce(ReductionMode),
}

/// A step of a chain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The operation.
    pub(crate) operation: Operation,
    /// Whether the result is one value per row.
    pub(crate) one: bool,
    /// Its operands.
    pub(crate) operands: Vec<Value>,
    /// The dtype of its result, to which it is rounded.
    pub(crate) stored: DataType,
}

impl Step {
    /// Whether it is max(x, 0).
    pub(crate) fn is_relu(&self) -> bool {
        let Operation::Pointwise(PointwiseMode::ReluFwd, activation) = &self.operation else { return false };
        activation.lower_clip == 0.0 && activation.lower_clip_slope == 0.0 && activation.upper_clip.is_none()
    }

    /// The bounds that it clamps values to, if it is a RELU that is constant outside of them.
    pub(crate) fn clips(&self) -> Option<[f32; 2]> {
        let Operation::Pointwise(PointwiseMode::ReluFwd, activation) = &self.operation else { return None };
        let (low, high) = (activation.lower_clip, activation.upper_clip.unwrap_or(f32::INFINITY));
        (activation.lower_clip_slope == 0.0 && low <= high).then_some([low, high])
    }

    /// The same as the last operation of an epilogue.
    pub(crate) fn clip(&self) -> Option<Clip<f32>> {
        if self.is_relu() {
            return Some(Clip::Relu);
        }
        self.clips().map(|[low, high]| Clip::Clamp(low, high))
    }
}

/// A chain of operations; the result of the last one is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chain {
    /// The inputs.
    pub(crate) inputs: Vec<Input>,
    /// The steps, which read inputs and earlier steps.
    pub(crate) steps: Vec<Step>,
}

impl Chain {
    /// The chain of one operation.
    pub(crate) fn of(pointwise: &Pointwise) -> Self {
        let mut chain = Self::default();
        let operands = pointwise.inputs.iter().map(|input| chain.input(input)).collect();
        chain.push(pointwise, operands);
        chain
    }

    /// The value of an input, which is added if it is new.
    pub(crate) fn input(&mut self, broadcast: &Broadcast) -> Value {
        let input = Input::of(broadcast);
        let index = self.inputs.iter().position(|known| *known == input).unwrap_or_else(|| {
            self.inputs.push(input);
            self.inputs.len() - 1
        });
        Value::Input(index)
    }

    /// Adds an operation on these operands.
    pub(crate) fn push(&mut self, pointwise: &Pointwise, operands: Vec<Value>) -> Value {
        self.steps.push(Step {
            operation: Operation::Pointwise(pointwise.mode, pointwise.activation),
            one: false,
            operands,
            stored: pointwise.output.data_type,
        });
        Value::Step(self.steps.len() - 1)
    }

    /// Adds an operation without parameters.
    pub(crate) fn push_mode(&mut self, mode: PointwiseMode, operands: Vec<Value>, stored: DataType) -> Value {
        let operation = Operation::Pointwise(mode, Activation::default());
        self.steps.push(Step { operation, one: false, operands, stored });
        Value::Step(self.steps.len() - 1)
    }

    /// Adds a reduction of a value to one per row.
    pub(crate) fn push_reduction(&mut self, mode: ReductionMode, value: Value, stored: DataType) -> Value {
        self.steps.push(Step {
            operation: Operation::Reduce(mode),
            one: true,
            operands: vec![value],
            stored,
        });
        Value::Step(self.steps.len() - 1)
    }

    /// Whether some step is a reduction.
    pub(crate) fn reduces(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.operation, Operation::Reduce(_)))
    }

    /// The residual that is added to input 0, and whether RELU follows, if the chain is only that, in this
    /// dtype.
    pub(crate) fn sum_and_relu(&self, dtype: DataType) -> Option<(Option<Input>, bool)> {
        let (sum, relu) = match self.steps.as_slice() {
            [relu] if relu.is_relu() => (None, Some(relu)),
            [sum] => (Some(sum), None),
            [sum, relu] if relu.is_relu() => (Some(sum), Some(relu)),
            _ => return None,
        };
        let mut last = Value::Input(0);
        let mut added = None;
        if let Some(sum) = sum {
            let other = match sum.operands.as_slice() {
                [Value::Input(0), Value::Input(other)] | [Value::Input(other), Value::Input(0)] => *other,
                _ => return None,
            };
            let input = *self.inputs.get(other).filter(|input| other > 0 && input.data_type == dtype)?;
            if !matches!(sum.operation, Operation::Pointwise(PointwiseMode::Add, _)) {
                return None;
            }
            (last, added) = (Value::Step(0), Some(input));
        }
        let is_exact = self.steps.iter().all(|step| step.stored == dtype);
        let is_of_last = relu.is_none_or(|relu| relu.operands == [last]);
        (is_exact && is_of_last).then_some((added, relu.is_some()))
    }

    /// The bias along `axis` that the first step adds to input 0 of these dimensions, and the remaining
    /// chain, whose input 0 is the sum. `None` if the chain does not begin with a bias, reads input 0 again,
    /// or has another dtype than `dtype` before or after the sum.
    pub(crate) fn without_row(&self, dims: &[usize], axis: usize, dtype: DataType) -> Option<(Input, Self)> {
        let first = self.steps.first()?;
        let row = match first.operands.as_slice() {
            [Value::Input(0), Value::Input(row)] | [Value::Input(row), Value::Input(0)] if *row > 0 => *row,
            _ => return None,
        };
        let is_sum = matches!(first.operation, Operation::Pointwise(PointwiseMode::Add, _));
        let own = self.inputs.first()?;
        let row = *self.inputs.get(row)?;
        let repeats = dims
            .iter()
            .zip(row.strides)
            .enumerate()
            .all(|(at, (dim, stride))| at == axis || *dim == 1 || stride == 0);
        let is_exact = [own.data_type, row.data_type, first.stored].iter().all(|stored| *stored == dtype);
        if !is_sum || !repeats || !is_exact {
            return None;
        }
        Some((row, self.after(1)?))
    }

    /// What remains after the first `count` steps, at least one: its input 0 is their last result. `None` if it reads
    /// another of their values.
    pub(crate) fn after(&self, count: usize) -> Option<Self> {
        let rest = self.steps.get(count..)?;
        let reads = |value| rest.iter().any(|step| step.operands.contains(&value));
        if reads(Value::Input(0)) || (0..count - 1).any(|step| reads(Value::Step(step))) {
            return None;
        }
        let mut left = Self { inputs: vec![*self.inputs.first()?], steps: rest.to_vec() };
        let mut indices = vec![0; self.inputs.len()];
        for (input, (index, known)) in indices.iter_mut().zip(&self.inputs).enumerate().skip(1) {
            if reads(Value::Input(input)) {
                *index = left.inputs.len();
                left.inputs.push(*known);
            }
        }
        for operand in left.steps.iter_mut().flat_map(|step| &mut step.operands) {
            *operand = match *operand {
                Value::Step(step) if step < count => Value::Input(0),
                Value::Step(step) => Value::Step(step - count),
                Value::Input(input) => Value::Input(indices[input]),
            };
        }
        Some(left)
    }
}
