//! Sizes that a model leaves open.
//!
//! An open dimension is a symbol, and dimensions of one name are one symbol. What nodes make of symbols – sums, products, quotients,
//! rounded or not, extremes – is what building the nodes computes from a size for each symbol. A choice of sizes may contradict a model's
//! expectations: an axis shorter than a window, or one that does not divide. So there are several choices, and a node is only refused
//! if each of them refuses it.

use crate::hash::{Map, Set};
use crate::lowering::{Lowering, broadcast_dims};
use crate::model::{Dim, Element, Model, Node, ValueId};
use crate::operators::{self, Cost};
use crate::shapes;

/// The choices: the size of a batch, which is a first axis, and that of other axes. The second suits halved images with many levels, the
/// third is long enough for sound, the fourth suits tables of a limited length, the last is a step of a model that keeps a state.
const CHOICES: [(i64, i64); 5] = [(4, 960), (2, 64), (2, 15_360), (64, 256), (1, 1)];

/// A choice of sizes, and what nodes made of them so far.
#[derive(Debug)]
struct Sample {
    batch: i64,
    size: i64,
    /// The dimensions of values.
    dims: Map<ValueId, Vec<i64>>,
    /// Integers that follow from shapes.
    integers: Map<ValueId, Vec<i64>>,
}

/// All choices.
#[derive(Debug)]
pub struct Samples {
    list: Vec<Sample>,
    /// The symbols of first axes.
    batches: Set<usize>,
}

/// A node lowered alone.
pub struct Alone<'m> {
    /// The program.
    pub lowering: Lowering<'m>,
    /// Its weight.
    pub cost: Cost,
}

/// Integers that follow from shapes, for each choice.
pub type Integers = Vec<Map<ValueId, Vec<i64>>>;

/// The operators that read two numbers of a byte.
const OF_4_BITS: [&str; 2] = ["DequantizeLinear", "Cast"];

/// Operators that ONNX Runtime computes whose result has the broadcast dimensions of their inputs.
const OF_INPUTS: [&str; 12] = [
    "Cos",
    "Round",
    "Mod",
    "BitShift",
    "IsInf",
    "Hardmax",
    "CumSum",
    "ReverseSequence",
    "Trilu",
    "ScatterElements",
    "ScatterND",
    "LpNormalization",
];

impl Samples {
    /// The choices for a model: one if it leaves no size open.
    pub fn new(model: &Model) -> Self {
        let (mut batches, mut others) = (Set::default(), Set::default());
        for dims in model.values.iter().filter_map(|value| value.dims.as_ref()) {
            for (axis, dim) in dims.iter().enumerate() {
                let Dim::Open(symbol) = dim else { continue };
                if axis == 0 && dims.len() > 1 && !others.contains(symbol) {
                    batches.insert(*symbol);
                } else if !batches.contains(symbol) {
                    others.insert(*symbol);
                }
            }
        }
        let is_open = !batches.is_empty()
            || !others.is_empty()
            || model.values.iter().any(|value| value.element.is_some() && value.dims.is_none());
        let count = if is_open { CHOICES.len() } else { 1 };
        let sample = |(batch, size)| Sample { batch, size, dims: Map::default(), integers: Map::default() };
        Self { list: CHOICES.into_iter().take(count).map(sample).collect(), batches }
    }

    /// The size of a symbol.
    fn size(&self, sample: &Sample, symbol: usize) -> i64 {
        if self.batches.contains(&symbol) { sample.batch } else { sample.size }
    }

    /// The first lowering of a node that `accept` accepts, and what that returns; or the first refusal. Every choice learns what the node
    /// makes of its sizes.
    pub fn first<'m, R>(
        &mut self,
        model: &'m Model,
        node: &Node,
        accept: &dyn Fn(Alone<'m>) -> Result<R, String>,
    ) -> Result<R, String> {
        let (mut found, mut refusal) = (None, None);
        for at in 0..self.list.len() {
            let Some(sample) = self.list.get(at) else { break };
            let built = self.with_sample(model, node, sample);
            let result = match built {
                Ok(alone) => {
                    if let Some(sample) = self.list.get_mut(at) {
                        sample.learn(node, &alone.lowering);
                    }
                    if found.is_some() { continue } else { accept(alone) }
                }
                Err(reason) => {
                    let dims = self.list.get(at).and_then(|sample| self.left(model, node, sample));
                    if let (Some(sample), Some((id, dims))) = (self.list.get_mut(at), dims) {
                        sample.dims.insert(id, dims);
                    }
                    Err(reason)
                }
            };
            match result {
                Ok(result) => found = Some(result),
                Err(reason) => refusal = refusal.or(Some(reason)),
            }
        }
        found.ok_or_else(|| refusal.unwrap_or_default())
    }

    /// A node lowered with a choice of sizes. Open sizes that contradict each other – ONNX Runtime could not relate them – are then assumed
    /// to be those of one of the inputs.
    fn with_sample<'m>(&self, model: &'m Model, node: &Node, sample: &Sample) -> Result<Alone<'m>, String> {
        let first = self.alone(model, node, sample, None);
        if first.is_ok() || node.inputs.len() < 2 {
            return first;
        }
        let donors: Vec<Vec<i64>> =
            node.inputs.iter().flatten().filter_map(|id| self.dims(model, *id, sample)).collect();
        // Matrices that are multiplied share the first axis of one and the last of the other.
        let turned = donors.iter().cloned().map(|mut dims| {
            let rank = dims.len();
            if rank > 1 {
                dims.swap(rank - 2, rank - 1);
            }
            dims
        });
        let turned: Vec<Vec<i64>> = turned.collect();
        let mut others =
            donors.iter().chain(&turned).map(|donor| self.alone(model, node, sample, Some(donor)));
        others.find(Result::is_ok).unwrap_or(first)
    }

    /// The dimensions of a value; none if not even their number is known.
    fn dims(&self, model: &Model, id: ValueId, sample: &Sample) -> Option<Vec<i64>> {
        let own = model.values.get(id)?.dims.as_ref();
        let built = sample.dims.get(&id).filter(|built| own.is_none_or(|own| own.len() == built.len()));
        let Some(own) = own else { return built.cloned() };
        let size = |(at, dim): (usize, &Dim)| match dim {
            Dim::Known(size) => *size,
            Dim::Open(symbol) => {
                built.and_then(|built| built.get(at)).copied().unwrap_or_else(|| self.size(sample, *symbol))
            }
        };
        Some(own.iter().enumerate().map(size).collect())
    }

    /// The dimensions of a value, in which those of a donor replace open ones, aligned at the first axis if both have as many, else at the
    /// last.
    fn donated(&self, model: &Model, id: ValueId, sample: &Sample, donor: &[i64]) -> Option<Vec<i64>> {
        let mut dims = self.dims(model, id, sample)?;
        let own = model.values.get(id)?.dims.as_ref()?;
        if sample.dims.contains_key(&id) {
            return Some(dims);
        }
        for ((dim, of), given) in dims.iter_mut().rev().zip(own.iter().rev()).zip(donor.iter().rev()) {
            if matches!(of, Dim::Open(_)) {
                *dim = *given;
            }
        }
        Some(dims)
    }

    fn alone<'m>(
        &self,
        model: &'m Model,
        node: &Node,
        sample: &Sample,
        donor: Option<&[i64]>,
    ) -> Result<Alone<'m>, String> {
        let operator = operators::find(node).map_err(|reason| reason.0)?;
        if !node.implicit.is_empty() {
            return Err("it has graphs inside".to_owned());
        }
        let element = |id: &ValueId| model.values.get(*id).and_then(|value| value.element);
        let mut elements = node.inputs.iter().chain(&node.outputs).flatten().filter_map(element);
        if !OF_4_BITS.contains(&node.operator.as_str())
            && let Some(small) = elements.find(|element| element.is_of_4_bits())
        {
            return Err(format!("elements are {}", small.name()));
        }
        let mut lowering = Lowering::new(model);
        lowering.guesses = true;
        for id in node.inputs.iter().flatten() {
            let Some(value) = model.values.get(*id) else { continue };
            let Some(element) = value.element else {
                return Err(format!(
                    "{:?} has an unknown type, expected a tensor of a known one",
                    value.name
                ));
            };
            let dims = match donor {
                Some(donor) => self.donated(model, *id, sample, donor),
                None => self.dims(model, *id, sample),
            };
            let Some(dims) = dims else {
                // A number that decides a shape may be among these: ONNX Runtime 1.23 does not distinguish scalars from unknown shapes.
                if matches!(element, Element::Int32 | Element::Int64) {
                    continue;
                }
                return Err(format!("the number of dimensions of {:?} is not known", value.name));
            };
            if let Some(list) = sample.integers.get(id) {
                lowering.folded_integers.insert(*id, list.clone());
            }
            if lowering.of(*id).is_none() {
                lowering.bind_input(*id, element, &dims, value.is_constant);
            }
        }
        let is_shape = shapes::build(node, &mut lowering, operator.build).map_err(|reason| reason.0)?;
        for id in node.outputs.iter().flatten() {
            match lowering.of(*id) {
                None => return Err("an output is not computed".to_owned()),
                // A list of no sizes is one, too.
                Some(view) if view.elements() == 0 && !is_shape => {
                    return Err("an output has no elements".to_owned());
                }
                Some(_) => {}
            }
        }
        let cost = if is_shape { Cost::Layout } else { operator.cost };
        Ok(Alone { lowering, cost })
    }

    /// The first output of a node that is left, with its dimensions if they are those of its inputs.
    fn left(&self, model: &Model, node: &Node, sample: &Sample) -> Option<(ValueId, Vec<i64>)> {
        let id = node.outputs.first().copied().flatten()?;
        let is_like_inputs = OF_INPUTS.contains(&node.operator.as_str())
            || operators::find(node).is_ok_and(|operator| operator.cost == Cost::Light);
        let is_open = model
            .values
            .get(id)?
            .dims
            .as_ref()
            .is_none_or(|dims| dims.iter().any(|dim| matches!(dim, Dim::Open(_))));
        (is_like_inputs && is_open).then_some(())?;
        let rank = model.values.get(id)?.dims.as_ref().map(Vec::len);
        let inputs = node.inputs.iter().flatten().filter_map(|id| self.dims(model, *id, sample));
        let inputs: Vec<Vec<i64>> = inputs.collect();
        let dims = match node.operator.as_str() {
            "Mod" => broadcast_dims(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>()).ok()?,
            _ => inputs.first()?.clone(),
        };
        (rank.is_none_or(|rank| rank == dims.len())).then_some((id, dims))
    }

    /// Whether some integers follow from shapes.
    pub fn knows_integers(&self) -> bool {
        self.list.iter().any(|sample| !sample.integers.is_empty())
    }

    /// Takes the integers known in each choice, and replaces them.
    pub fn exchange(&mut self, integers: Integers) -> Integers {
        let mut integers = integers.into_iter();
        let replace = |sample: &mut Sample| {
            std::mem::replace(&mut sample.integers, integers.next().unwrap_or_default())
        };
        self.list.iter_mut().map(replace).collect()
    }
}

impl Sample {
    fn learn(&mut self, node: &Node, lowering: &Lowering<'_>) {
        for id in node.outputs.iter().flatten() {
            if let Some(view) = lowering.of(*id) {
                self.dims.insert(*id, view.dims.to_vec());
            }
            if let Some(list) = lowering.folded_integers.get(id) {
                self.integers.insert(*id, list.clone());
            }
        }
    }
}

/// Whether a value may be a list of sizes.
pub fn may_be_shape(model: &Model, id: ValueId) -> bool {
    let is_list = |dims: &Vec<Dim>| match dims.as_slice() {
        [] => true,
        [dim] => !matches!(dim, Dim::Known(16..)),
        _ => false,
    };
    model.values.get(id).is_some_and(|value| {
        !value.is_constant
            && matches!(value.element, Some(Element::Int32 | Element::Int64))
            && value.dims.as_ref().is_none_or(is_list)
    })
}

/// Whether nodes may need the elements of an input at planning: integers, or factors of a resizing.
fn may_decide(model: &Model, id: ValueId) -> bool {
    model.values.get(id).is_some_and(|value| {
        !value.is_constant
            && matches!(value.element, Some(Element::Int32 | Element::Int64 | Element::Float))
            && value.dims.as_ref().is_none_or(|dims| value.element != Some(Element::Float) || dims.len() < 2)
    })
}

/// The values whose integers nodes need at planning, and their floors.
pub fn parameters(model: &Model) -> (Vec<ValueId>, Vec<(ValueId, ValueId, usize)>) {
    let (mut values, mut floors) = (Vec::new(), Vec::new());
    // Only inputs are read at planning.
    if !model.inputs.iter().any(|id| may_decide(model, *id)) {
        return (values, floors);
    }
    let mut samples = Samples::new(model);
    for node in &model.nodes {
        let accept = |alone: Alone<'_>| Ok((alone.lowering.guessed, alone.lowering.floors));
        match samples.first(model, node, &accept) {
            Ok((guessed, raised)) => {
                values.extend(guessed);
                floors.extend(raised);
            }
            // No choice of sizes suits it; what may be a shape is read at run time.
            Err(_) => values.extend(node.inputs.iter().flatten().filter(|id| may_be_shape(model, **id))),
        }
    }
    (values, floors)
}
