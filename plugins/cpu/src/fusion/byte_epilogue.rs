//! Finds the nodes that the epilogue of an int8 product can compute.

use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use crate::fusion::dequantized::{Dequantized, Number, are_bytes, dequantized};
use crate::fusion::state::result;
use crate::fusion::table::Function;
use crate::fusion::uses::Uses;
use crate::int8::epilogue::{NO_CLIPS, Quantize, Round};
use crate::pointwise::lookup::Table;
use crate::prepare::Prepared;
use crate::problem::Problem;
use crate::problem::pointwise::Pointwise;
use crate::simd::isa::Isa;

/// Adding this to a small single-precision value rounds it to an integer: 3 · 2²².
const NO_FRACTION: f32 = 12_582_912.0;

/// The last stage of the epilogue so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    /// Bytes, from which a zero point may be subtracted.
    Bytes,
    Scale,
    Shift,
    Residual,
    Clips,
    Factor,
    Before,
    /// Between the two nodes that together round to even.
    HalfRounded,
    Rounded,
    ZeroPoint,
}

/// What the sums of a single-precision product are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Sums of integers, which a scale may follow.
    Whole,
    /// Sums of scaled values.
    Scaled,
}

/// Single-precision stages after the sums, as [`crate::int8::epilogue::Scaled`] but without slots.
#[derive(Clone, Debug)]
pub(crate) struct Requantization {
    /// The zero point of the bytes that the stages start from.
    pub(crate) zero: Option<Number>,
    pub(crate) scales: Vec<Number>,
    /// The scale of a second node, since a product of scales would be rounded elsewhere than the graph rounds.
    pub(crate) second: Option<Number>,
    pub(crate) shift: Vec<Number>,
    pub(crate) residual: Option<Dequantized>,
    pub(crate) clips: [f32; 2],
    pub(crate) quantize: Option<Quantize>,
    pub(crate) factor: Option<Number>,
    pub(crate) after: Option<Number>,
    /// The type of the last result.
    pub(crate) output: DataType,
    at: At,
}

/// A stage that follows bytes.
#[derive(Clone, Debug)]
pub(crate) enum FusedPostOp {
    /// A table for a function of a byte, and the type of its results.
    Table(Box<Table>, DataType),
    /// Treats the bytes as sums.
    Round(Box<Requantization>),
}

impl Requantization {
    /// No operations yet, at the given stage. Boxed from the start because of its size.
    #[inline(never)]
    fn from(at: At) -> Box<Self> {
        Box::new(Self {
            zero: None,
            scales: Vec::new(),
            second: None,
            shift: Vec::new(),
            residual: None,
            clips: NO_CLIPS,
            quantize: None,
            factor: None,
            after: None,
            output: DataType::Float,
            at,
        })
    }

    fn quantize(&mut self) -> &mut Quantize {
        self.quantize.get_or_insert(Quantize {
            factor: None,
            divides: false,
            before: 0.0,
            clips_before: NO_CLIPS,
            round: Round::Cut,
            after: None,
            clips_after: NO_CLIPS,
        })
    }
}

/// The nodes to fuse into the epilogue of a product, the product first.
#[derive(Clone, Debug)]
pub(crate) struct ByteEpilogue {
    pub(crate) members: Vec<usize>,
    pub(crate) result: i64,
    /// Integers added to the sums.
    pub(crate) bias: Option<Number>,
    pub(crate) scaled: Option<Box<Requantization>>,
    /// What follows the bytes that the single-precision stages produce.
    pub(crate) post_ops: Vec<FusedPostOp>,
    /// Nodes that dequantize operands of the members.
    pub(crate) before: Vec<usize>,
}

/// Clips bounds to further bounds.
fn narrowed([low, high]: [f32; 2], [least, most]: [f32; 2]) -> [f32; 2] {
    [low.max(least).min(most), high.min(most).max(least)]
}

/// A node after a product.
struct Follower<'a, 'b> {
    prepared: &'a Prepared,
    uses: &'a Uses<'b>,
    pointwise: &'a Pointwise,
    is_float: bool,
    is_whole: bool,
    /// The other operand, if there are two.
    other: Option<i64>,
    /// Whether the product's value is the first operand.
    is_first: bool,
    /// The dimension of the columns.
    axis: usize,
}

impl ByteEpilogue {
    /// The longest run of nodes that can be computed with a product, whose result is single precision if
    /// `start` is given; `None` if its own result cannot be stored. At most `most` stages follow bytes.
    pub(crate) fn of(
        prepared: &Prepared,
        uses: &Uses<'_>,
        taken: &[bool],
        (producer, axis): (usize, usize),
        start: Option<Start>,
        (isa, most): (Isa, usize),
    ) -> Option<Self> {
        let own = result(&prepared.graph.nodes.get(producer)?.operation)?;
        let scaled = start.map(|start| match start {
            Start::Whole => Requantization::from(At::Scale),
            Start::Scaled => Requantization::from(At::Shift),
        });
        let (bias, post_ops, before) = (None, Vec::new(), Vec::new());
        let mut state = Self { members: vec![producer], result: own, bias, scaled, post_ops, before };
        let mut largest = None;
        loop {
            let tensor = uses.tensors.get(&state.result)?;
            if state.is_complete(tensor.data_type) {
                largest = Some(state.clone());
            }
            if !tensor.is_virtual {
                return largest;
            }
            if are_bytes(tensor.data_type) {
                if state.scaled.is_none() || state.post_ops.len() == most {
                    return largest;
                }
                if in_own_frame(|| state.look_up(prepared, uses, taken, isa))? {
                    continue;
                }
                state.post_ops.push(FusedPostOp::Round(Requantization::from(At::Bytes)));
            }
            let [reader] = uses.readers(state.result) else { return largest };
            let is_free = taken.get(*reader) == Some(&false);
            if !is_free || in_own_frame(|| state.follow(prepared, uses, *reader, axis)).is_none() {
                return largest;
            }
        }
    }

    /// Appends a table if a function of bytes follows; `None` if its result has no tensor.
    fn look_up(&mut self, prepared: &Prepared, uses: &Uses<'_>, taken: &[bool], isa: Isa) -> Option<bool> {
        let function = in_own_frame(|| Function::of(prepared, uses, taken, self.result, (isa, true)));
        let Some(function) = function else { return Some(false) };
        let of = uses.tensors.get(&function.result)?.data_type;
        self.members.extend(function.members);
        self.post_ops.push(FusedPostOp::Table(Box::new(function.table), of));
        self.result = function.result;
        Some(true)
    }

    /// Whether the kernel can end here with a result of this type.
    fn is_complete(&self, data_type: DataType) -> bool {
        match self.post_ops.last() {
            Some(FusedPostOp::Table(..)) => return true,
            Some(FusedPostOp::Round(numbers)) => {
                return are_bytes(data_type) && numbers.at != At::HalfRounded;
            }
            None => {}
        }
        match (&self.scaled, data_type) {
            (None, DataType::Int32) => true,
            (Some(numbers), DataType::Float) => numbers.quantize.is_none(),
            (Some(numbers), _) => are_bytes(data_type) && numbers.at != At::HalfRounded,
            (None, _) => are_bytes(data_type),
        }
    }

    /// The number of residual tensors.
    fn residuals(&self) -> usize {
        let later = self.post_ops.iter().filter_map(|post_op| match post_op {
            FusedPostOp::Round(numbers) => Some(numbers.as_ref()),
            FusedPostOp::Table(..) => None,
        });
        self.scaled.as_deref().into_iter().chain(later).filter(|numbers| numbers.residual.is_some()).count()
    }

    /// Adds a node.
    fn follow(&mut self, prepared: &Prepared, uses: &Uses<'_>, index: usize, axis: usize) -> Option<()> {
        let checked = prepared.node(index)?;
        let Problem::Pointwise(pointwise) = checked.problem else { return None };
        let inputs = checked.node.operation.inputs();
        let uid = result(&checked.node.operation)?;
        let output = uses.tensors.get(&uid)?;
        if output.dims != uses.tensors.get(&self.result)?.dims || inputs.len() > 2 {
            return None;
        }
        let first = inputs.iter().position(|input| *input == self.result)?;
        let other = (inputs.len() == 2).then(|| inputs.get(1 - first).copied()).flatten();
        if other == Some(self.result) {
            return None;
        }
        let follower = Follower {
            prepared,
            uses,
            pointwise,
            is_float: checked.node.compute_type == DataType::Float,
            is_whole: checked.node.compute_type == DataType::Int32,
            other,
            is_first: first == 0,
            axis,
        };
        let mut next = self.clone();
        let numbers = match next.post_ops.last_mut() {
            Some(FusedPostOp::Round(numbers)) => Some(numbers.as_mut()),
            Some(FusedPostOp::Table(..)) => return None,
            None => next.scaled.as_deref_mut(),
        };
        match numbers {
            None => follower.of_sums(&mut next, output.data_type)?,
            Some(numbers) => {
                let is_number = output.data_type == DataType::Float || are_bytes(output.data_type);
                if !follower.is_float || !is_number {
                    return None;
                }
                follower.of_numbers(numbers, &mut next.before)?;
                numbers.output = output.data_type;
            }
        }
        if next.residuals() > 1 {
            return None;
        }
        next.members.push(index);
        next.result = uid;
        *self = next;
        Some(())
    }
}

impl Follower<'_, '_> {
    /// Adds a node that works on the integer sums.
    fn of_sums(&self, state: &mut ByteEpilogue, output: DataType) -> Option<()> {
        let is_numbers = self.is_float && output == DataType::Float;
        match self.pointwise.mode {
            PointwiseMode::Add if self.is_whole && output == DataType::Int32 && state.bias.is_none() => {
                let bias = self.number()?;
                let is_whole = matches!(bias.data_type, DataType::Int32 | DataType::Int8 | DataType::Uint8);
                bias.along(Some(self.axis)).filter(|_| is_whole)?;
                state.bias = Some(bias);
            }
            PointwiseMode::Identity if self.is_float || self.is_whole => {
                state.scaled = match output {
                    DataType::Float => Some(Requantization::from(At::Scale)),
                    other if are_bytes(other) => None,
                    _ => return None,
                };
            }
            PointwiseMode::Mul if is_numbers => {
                let scale = self.number()?;
                scale.along(Some(self.axis))?;
                let numbers = state.scaled.insert(Requantization::from(At::Shift));
                numbers.scales.push(scale);
            }
            PointwiseMode::Add if is_numbers => {
                let mut numbers = Requantization::from(At::Scale);
                self.of_numbers(&mut numbers, &mut state.before)?;
                state.scaled = Some(numbers);
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds a node that works on single-precision values.
    fn of_numbers(&self, numbers: &mut Requantization, before: &mut Vec<usize>) -> Option<()> {
        use PointwiseMode as M;
        match self.pointwise.mode {
            M::Identity => {}
            M::ReluFwd if self.pointwise.activation.lower_clip_slope == 0.0 => {
                let activation = &self.pointwise.activation;
                let most = activation.upper_clip.unwrap_or(f32::INFINITY);
                clip(numbers, [activation.lower_clip, most])?;
            }
            M::Max => clip(numbers, [self.constant()?, f32::INFINITY])?,
            M::Min => clip(numbers, [f32::NEG_INFINITY, self.constant()?])?,
            M::Mul | M::Div => {
                let divides = self.pointwise.mode == M::Div;
                let factor = self.number().filter(|_| !divides || self.is_first)?;
                // Another scale must be per column: a single one is the quantization factor.
                let is_scale = numbers.at < At::Shift || factor.along(None).is_none();
                let may_be_scale = numbers.at <= At::Shift && numbers.shift.is_empty();
                if !divides && is_scale && may_be_scale {
                    factor.along(Some(self.axis))?;
                    match numbers.second {
                        _ if numbers.at < At::Shift => numbers.scales.push(factor),
                        None => numbers.second = Some(factor),
                        Some(_) => return None,
                    }
                    numbers.at = At::Shift;
                    return Some(());
                }
                factor.along(None).filter(|_| numbers.at < At::Factor)?;
                numbers.quantize().divides = divides;
                numbers.factor = Some(factor);
                numbers.at = At::Factor;
            }
            M::Sub if numbers.at == At::Bytes => {
                let zero = self.number().filter(|zero| self.is_first && zero.along(None).is_some())?;
                numbers.zero = Some(zero);
                numbers.at = At::Scale;
            }
            M::Floor if numbers.at < At::HalfRounded => {
                numbers.quantize().round = Round::Down;
                numbers.at = At::Rounded;
            }
            M::Sub if numbers.at == At::HalfRounded => {
                (self.is_first && self.constant()? == NO_FRACTION).then_some(())?;
                numbers.quantize().round = Round::Even;
                numbers.at = At::Rounded;
            }
            M::Add if numbers.at == At::HalfRounded => {
                (self.constant()? == -NO_FRACTION).then_some(())?;
                numbers.quantize().round = Round::Even;
                numbers.at = At::Rounded;
            }
            M::Add => self.add(numbers, before)?,
            _ => return None,
        }
        Some(())
    }

    /// An addition: of a bias, a residual, a constant before rounding, or a zero point.
    fn add(&self, numbers: &mut Requantization, before: &mut Vec<usize>) -> Option<()> {
        let constant = self.constant();
        if constant == Some(NO_FRACTION) && numbers.at < At::HalfRounded {
            numbers.quantize();
            numbers.at = At::HalfRounded;
            return Some(());
        }
        let number = self.number()?;
        if numbers.at >= At::Rounded {
            number.along(None).filter(|_| numbers.at < At::ZeroPoint)?;
            numbers.after = Some(number);
            numbers.at = At::ZeroPoint;
        } else if let Some(constant) = constant.filter(|_| numbers.at == At::Factor) {
            numbers.quantize().before = constant;
            numbers.at = At::Before;
        } else if numbers.at >= At::Factor {
            // A zero point added after rounding.
            number.along(None)?;
            numbers.after = Some(number);
            numbers.at = At::ZeroPoint;
        } else if number.along(Some(self.axis)).is_some() && numbers.at < At::Residual {
            if numbers.at > At::Shift || !numbers.shift.is_empty() {
                return None;
            }
            numbers.shift = self.bias(before)?;
            numbers.at = At::Shift;
        } else {
            (numbers.at < At::Residual).then_some(())?;
            let residual = self.residual()?;
            before.extend(&residual.nodes);
            numbers.residual = Some(residual);
            numbers.at = At::Residual;
        }
        Some(())
    }

    /// The other operand as a residual: single precision of the result's shape, or dequantized bytes.
    fn residual(&self) -> Option<Dequantized> {
        let uid = self.other?;
        let tensor = self.uses.tensors.get(&uid)?;
        let dims = self.pointwise.output.layout.dims();
        if tensor.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).ne(dims.iter().copied()) {
            return None;
        }
        let bytes = dequantized(self.prepared, self.uses, uid, are_bytes).filter(|found| {
            let zero = found.zero.is_none_or(|zero| zero.along(None).is_some());
            zero && found.scales.len() < 2 && found.scales.iter().all(|scale| scale.along(None).is_some())
        });
        let is_float = tensor.data_type == DataType::Float;
        let stored = Dequantized {
            uid,
            data_type: tensor.data_type,
            zero: None,
            scales: Vec::new(),
            nodes: Vec::new(),
        };
        bytes.or_else(|| is_float.then_some(stored))
    }

    /// The other operand as a [`Number`].
    fn number(&self) -> Option<Number> {
        let broadcast = self.pointwise.inputs.get(usize::from(self.is_first))?;
        Some(Number::of(self.other?, broadcast, self.pointwise.output.layout.dims()))
    }

    /// The other operand as a bias: a stored integer, perhaps times a scale.
    fn bias(&self, before: &mut Vec<usize>) -> Option<Vec<Number>> {
        let number = self.number().filter(|number| number.along(Some(self.axis)).is_some())?;
        let is_stored = |of| matches!(of, DataType::Int32 | DataType::Int8 | DataType::Uint8);
        let found = dequantized(self.prepared, self.uses, number.uid, is_stored).filter(|found| {
            let numbers = found.scales.iter().all(|scale| scale.along(Some(self.axis)).is_some());
            let rank = self.uses.tensors.get(&found.uid).map(|tensor| tensor.dims.len());
            let is_of_rank = rank == Some(self.pointwise.output.layout.rank());
            let is_one = found.scales.len() < 2;
            !found.nodes.is_empty() && found.zero.is_none() && numbers && is_of_rank && is_one
        });
        Some(match found {
            None => vec![number],
            Some(found) => {
                before.extend(&found.nodes);
                let stored = Number::of_tensor(self.uses, found.uid)?;
                [stored].into_iter().chain(found.scales).collect()
            }
        })
    }

    /// The other operand's value, if the graph contains it.
    fn constant(&self) -> Option<f32> {
        let value = self.uses.tensors.get(&self.other?)?.value.as_ref()?;
        Some(value.as_f64()? as f32)
    }
}

/// Clips at the current stage.
fn clip(numbers: &mut Requantization, bounds: [f32; 2]) -> Option<()> {
    if bounds.iter().any(|bound| bound.is_nan()) {
        return None;
    }
    match numbers.at {
        At::Bytes | At::Scale | At::Shift | At::Residual | At::Clips => {
            numbers.clips = narrowed(numbers.clips, bounds);
            numbers.at = At::Clips;
        }
        At::Factor | At::Before => {
            let quantize = numbers.quantize();
            quantize.clips_before = narrowed(quantize.clips_before, bounds);
            numbers.at = At::Before;
        }
        At::HalfRounded => return None,
        At::Rounded => {
            // Bounds that are integers commute with rounding, so they may be applied before it.
            bounds.iter().all(|bound| bound.is_infinite() || bound.fract() == 0.0).then_some(())?;
            let quantize = numbers.quantize();
            quantize.clips_before = narrowed(quantize.clips_before, bounds);
        }
        At::ZeroPoint => {
            let quantize = numbers.quantize();
            quantize.clips_after = narrowed(quantize.clips_after, bounds);
        }
    }
    Some(())
}
