//! Decides which nodes are claimed, and which of them together.
//!
//! Nodes claimed together must be convex: no path between two of them leads through a node outside. Each node gets a phase, the
//! number of times that a path to it leaves supported nodes; claimed nodes of one phase are convex, and so are their connected parts.
//! A group runs in steps: what decides a later one's shapes is computed by an earlier one.

use std::collections::HashMap;

use crate::lowering::{Host, Lowering, Step, View, elements};
use crate::model::{Dim, Model, Node, ValueId};
use crate::operators::{Cost, is_open};
use crate::options::Take;
use crate::samples::{self, Alone, Integers, Samples};

/// Subgraphs with fewer operations are not claimed: calling them costs as much.
const LEAST_WORK: i64 = 200_000;

/// The decision about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs to this group.
    Taken(usize),
    /// It is not claimed, for this reason.
    Left(String),
}

/// A supported node.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its weight.
    pub cost: Cost,
    /// Its estimated number of operations.
    pub work: i64,
    /// The values that it reads at planning, which no node of its step may write.
    pub parameters: Vec<ValueId>,
}

/// Whether every dimension is known.
pub fn known(dims: &[Dim]) -> Option<Vec<i64>> {
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => Some(*size),
        Dim::Open(_) => None,
    };
    dims.iter().map(size).collect()
}

/// Lowers a node alone. `check` asks an engine.
pub fn judge(
    model: &Model,
    node: &Node,
    take: Take,
    samples: &mut Samples,
    check: &dyn Fn(&Lowering<'_>) -> Result<(), String>,
) -> Result<Candidate, String> {
    samples.first(model, node, &|Alone { mut lowering, cost }| {
        let outputs = node.outputs.iter().flatten().map(|id| lowering.of(*id).cloned());
        let outputs: Vec<View> = outputs.collect::<Option<_>>().unwrap_or_default();
        if take == Take::Profitable
            && let Some(slow) = &lowering.slow
        {
            return Err(format!("{slow}: others are faster"));
        }
        let work = work(&lowering);
        lowering.program.finish(&outputs)?;
        check(&lowering)?;
        Ok(Candidate { cost, work, parameters: lowering.guessed })
    })
}

/// The estimated number of operations of a program: multiplications and additions, or one per element.
fn work(lowering: &Lowering<'_>) -> i64 {
    use hipdnn::graph::Operation;
    let program = &lowering.program;
    let size = |id: i64| program.view(id).map_or(0, |view| view.elements());
    let dim = |id: i64, at: usize| program.view(id).and_then(|view| view.dims.get(at).copied()).unwrap_or(1);
    let of = |step: &Step| match step {
        Step::Host { host, writes, .. } => {
            let elements = writes.iter().map(|id| size(*id)).max().unwrap_or(0);
            if let Host::Own(own) = host { own.work(elements) } else { elements }
        }
        Step::Node { operation, .. } => match operation {
            Operation::Matmul(m) => {
                let k = program.view(m.a).and_then(|a| a.dims.last().copied()).unwrap_or(1);
                size(m.c).saturating_mul(k).saturating_mul(2)
            }
            Operation::ConvolutionForward(c) => {
                size(c.y).saturating_mul(size(c.w) / dim(c.w, 0).max(1)).saturating_mul(2)
            }
            Operation::ConvolutionBackwardData(c) => {
                size(c.dy).saturating_mul(size(c.w) / dim(c.w, 0).max(1)).saturating_mul(2)
            }
            Operation::Sdpa(s) => size(s.q).saturating_mul(dim(s.k, 2)).saturating_mul(4),
            Operation::ResampleForward(r) => size(r.y).saturating_mul(elements(&r.window)),
            other => other.inputs().iter().chain(&other.outputs()).map(|id| size(*id)).max().unwrap_or(0),
        },
    };
    program.steps.iter().map(of).fold(0, i64::saturating_add)
}

/// Divides the candidates into groups, each of which computes the integers that decide its shapes in its own nodes or reads them before it
/// is planned. Nodes that need integers computed by others begin a new group, or where groups have steps, a new step of their group; returns
/// the steps of the nodes.
pub fn divide_by_shapes(
    model: &Model,
    candidates: &mut [Result<Candidate, String>],
    way: (Take, bool),
    samples: Samples,
) -> (Vec<Verdict>, Vec<usize>) {
    settle(model, candidates, way, samples, false)
}

/// The values that may be sizes, which a node reads when they are known if no choice of sizes suits it.
fn possible_shapes(model: &Model, node: &Node) -> Vec<ValueId> {
    node.inputs.iter().flatten().copied().filter(|id| samples::may_be_shape(model, *id)).collect()
}

/// Adds values that are read at planning, and says whether any is new.
fn extend(candidate: &mut Candidate, more: Vec<ValueId>) -> bool {
    let before = candidate.parameters.len();
    for value in more {
        if !candidate.parameters.contains(&value) {
            candidate.parameters.push(value);
        }
    }
    candidate.parameters.len() > before
}

/// Divides again until no node needs other integers. `keeps` says that nodes that no choice of sizes suits stay candidates.
fn settle(
    model: &Model,
    candidates: &mut [Result<Candidate, String>],
    (take, has_steps): (Take, bool),
    mut samples: Samples,
    keeps: bool,
) -> (Vec<Verdict>, Vec<usize>) {
    // Without integers that follow from shapes, no group needs those of another.
    if !samples.knows_integers() {
        return divide(model, candidates, take, has_steps);
    }
    loop {
        let (verdicts, steps) = divide(model, candidates, take, has_steps);
        let mut known: HashMap<(usize, usize), Integers> = HashMap::new();
        let mut is_settled = true;
        let of_nodes = model.nodes.iter().zip(&verdicts).zip(&steps);
        for (((node, verdict), step), candidate) in of_nodes.zip(candidates.iter_mut()) {
            let (Verdict::Taken(group), Ok(of)) = (verdict, &mut *candidate) else { continue };
            let place = (*group, *step);
            samples.exchange(known.remove(&place).unwrap_or_default());
            match samples.first(model, node, &|alone| Ok(alone.lowering.guessed)) {
                Ok(guessed) => is_settled &= !extend(of, guessed),
                Err(_) if keeps => is_settled &= !extend(of, possible_shapes(model, node)),
                Err(reason) => {
                    is_settled = false;
                    *candidate = Err(reason);
                }
            }
            known.insert(place, samples.exchange(Integers::new()));
        }
        // Parameters only increase, or candidates decrease.
        if is_settled {
            return (verdicts, steps);
        }
    }
}

/// The steps of nodes that are one group, from 0 on.
pub fn steps(model: &Model) -> Vec<usize> {
    let (mut candidates, mut samples) = (Vec::new(), Samples::new(model));
    for node in &model.nodes {
        let guessed = samples.first(model, node, &|alone| Ok(alone.lowering.guessed));
        let parameters = guessed.unwrap_or_else(|_| possible_shapes(model, node));
        candidates.push(Ok(Candidate { cost: Cost::Heavy, work: LEAST_WORK, parameters }));
    }
    // All are in the group, also those that the sizes of this model alone do not suit.
    let (_, steps) = settle(model, &mut candidates, (Take::All, true), samples, true);
    let mut used: Vec<usize> = steps.clone();
    used.sort_unstable();
    used.dedup();
    steps.iter().map(|step| used.binary_search(step).unwrap_or(0)).collect()
}

/// Divides the candidates into groups, and where groups have steps, returns those of the nodes. Nodes that are not candidates keep
/// their reason.
fn divide(
    model: &Model,
    candidates: &[Result<Candidate, String>],
    take: Take,
    has_steps: bool,
) -> (Vec<Verdict>, Vec<usize>) {
    let mut writer = HashMap::new();
    for (at, node) in model.nodes.iter().enumerate() {
        writer.extend(node.outputs.iter().flatten().map(|value| (*value, at)));
    }
    let is_candidate = |at: usize| candidates.get(at).is_some_and(Result::is_ok);
    let fine = phases(model, candidates, &writer, true);
    let (phases, steps) = if has_steps {
        (phases(model, candidates, &writer, false), fine)
    } else {
        (fine, vec![0; model.nodes.len()])
    };
    let groups = connect(model, &is_candidate, &phases);
    let mut verdicts: Vec<Verdict> = candidates
        .iter()
        .map(|candidate| Verdict::Left(candidate.as_ref().err().cloned().unwrap_or_default()))
        .collect();
    let mut number = 0;
    for group in groups {
        let verdict = match worth(&group, candidates, take) {
            Ok(()) => Verdict::Taken(number),
            Err(reason) => Verdict::Left(reason),
        };
        number += usize::from(matches!(verdict, Verdict::Taken(_)));
        for at in group {
            if let Some(to) = verdicts.get_mut(at) {
                *to = verdict.clone();
            }
        }
    }
    (verdicts, steps)
}

/// The phases of nodes. `by_shapes` says whether what is needed at planning begins a new one.
fn phases(
    model: &Model,
    candidates: &[Result<Candidate, String>],
    writer: &HashMap<ValueId, usize>,
    by_shapes: bool,
) -> Vec<usize> {
    let is_candidate = |at: usize| candidates.get(at).is_some_and(Result::is_ok);
    let mut phases: Vec<usize> = Vec::with_capacity(model.nodes.len());
    for (at, node) in model.nodes.iter().enumerate() {
        let own = is_candidate(at);
        let parameters =
            candidates.get(at).and_then(|of| of.as_ref().ok()).map(|of| of.parameters.as_slice());
        let before = node.reads().filter_map(|value| Some((value, writer.get(&value).copied()?)));
        let phase = before.map(|(value, by): (ValueId, usize)| {
            let phase = phases.get(by).copied().unwrap_or(0);
            // Leaving supported nodes begins a new phase for nodes reached again later, and so do values needed at planning,
            // and those whose number is only known afterwards.
            let is_late = model.nodes.get(by).is_some_and(is_open);
            let is_needed = is_late || parameters.is_some_and(|parameters| parameters.contains(&value));
            phase + usize::from(is_candidate(by) && (!own || by_shapes && is_needed))
        });
        phases.push(phase.max().unwrap_or(0));
    }
    with_readers(model, candidates, writer, &mut phases, by_shapes);
    phases
}

/// Moves what is computed from constants alone, such as dequantized weights, to the first phase that reads it: no path leads to it. What
/// a reader needs at planning is in a phase before, and so is what is counted.
fn with_readers(
    model: &Model,
    candidates: &[Result<Candidate, String>],
    writer: &HashMap<ValueId, usize>,
    phases: &mut [usize],
    by_shapes: bool,
) {
    let is_candidate = |at: usize| candidates.get(at).is_some_and(Result::is_ok);
    let mut is_constant = vec![false; model.nodes.len()];
    for (at, node) in model.nodes.iter().enumerate() {
        let is_known = |value: ValueId| match writer.get(&value) {
            Some(by) => is_constant.get(*by) == Some(&true),
            None => model.values.get(value).is_some_and(|value| value.is_constant),
        };
        let is_of_constants = is_candidate(at) && node.reads().all(is_known);
        if let Some(slot) = is_constant.get_mut(at) {
            *slot = is_of_constants;
        }
    }
    let mut first: HashMap<usize, usize> = HashMap::new();
    for (at, node) in model.nodes.iter().enumerate().rev() {
        let Some(phase) = phases.get_mut(at) else { continue };
        if is_constant.get(at) == Some(&true) {
            *phase = first.get(&at).copied().unwrap_or(*phase);
        }
        let Some(Ok(own)) = candidates.get(at) else { continue };
        for (value, by) in node.reads().filter_map(|value| Some((value, writer.get(&value)?))) {
            let is_late = model.nodes.get(*by).is_some_and(is_open);
            let is_needed = by_shapes && (is_late || own.parameters.contains(&value));
            let latest = phase.saturating_sub(usize::from(is_needed));
            let least = first.entry(*by).or_insert(latest);
            *least = (*least).min(latest);
        }
    }
}

/// The connected parts of each phase, nodes in rising order: a writer is connected to its readers, and so are readers of the same value that
/// is not constant.
fn connect(model: &Model, is_candidate: &dyn Fn(usize) -> bool, phases: &[usize]) -> Vec<Vec<usize>> {
    let count = model.nodes.len();
    let mut parent: Vec<usize> = (0..count).collect();
    fn root(parent: &mut [usize], mut at: usize) -> usize {
        while let Some(above) = parent.get(at).copied()
            && above != at
        {
            let next = parent.get(above).copied().unwrap_or(above);
            if let Some(slot) = parent.get_mut(at) {
                *slot = next;
            }
            at = next;
        }
        at
    }
    // The writer or first reader of a value in a phase.
    let mut first: HashMap<(usize, usize), usize> = HashMap::new();
    for (at, node) in model.nodes.iter().enumerate().filter(|(at, _)| is_candidate(*at)) {
        let phase = phases.get(at).copied().unwrap_or(0);
        let changing = |value: &usize| model.values.get(*value).is_some_and(|value| !value.is_constant);
        let values = node.reads().chain(node.outputs.iter().flatten().copied());
        for value in values.filter(changing) {
            let other = *first.entry((value, phase)).or_insert(at);
            let (a, b) = (root(&mut parent, other), root(&mut parent, at));
            if let Some(slot) = parent.get_mut(a.max(b)) {
                *slot = a.min(b);
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut place = HashMap::new();
    for at in (0..count).filter(|at| is_candidate(*at)) {
        let top = root(&mut parent, at);
        let group = *place.entry(top).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(group) {
            group.push(at);
        }
    }
    groups
}

/// Whether a group is worth a call.
fn worth(group: &[usize], candidates: &[Result<Candidate, String>], take: Take) -> Result<(), String> {
    if take == Take::All {
        return Ok(());
    }
    let of = || group.iter().filter_map(|at| candidates.get(*at)?.as_ref().ok());
    let heavy = of().filter(|candidate| candidate.cost == Cost::Heavy).count();
    let light = of().filter(|candidate| candidate.cost == Cost::Light).count();
    let work = of().filter(|candidate| candidate.cost != Cost::Layout).map(|candidate| candidate.work);
    let work = work.fold(0, i64::saturating_add);
    if heavy == 0 && light < 2 {
        return Err("alone it gains nothing: others are as fast".to_owned());
    }
    if work < LEAST_WORK {
        return Err(format!("its subgraph has {work} operations: calling it would cost as much"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Element, Value};

    /// Nodes as (inputs, outputs) on values that are numbers.
    fn model(nodes: &[(&[usize], &[usize])]) -> Model {
        let some = |list: &[usize]| list.iter().map(|value| Some(*value)).collect();
        let node = |(inputs, outputs): &(&[usize], &[usize])| Node {
            inputs: some(inputs),
            outputs: some(outputs),
            ..Node::default()
        };
        let values = (0..32).map(|_| Value::default()).collect();
        Model { values, nodes: nodes.iter().map(node).collect(), ..Model::default() }
    }

    fn divided(nodes: &[(&[usize], &[usize])], supported: &[bool]) -> Vec<Option<usize>> {
        let candidate = |is: &bool| {
            if *is {
                Ok(Candidate { cost: Cost::Heavy, work: LEAST_WORK, parameters: vec![] })
            } else {
                Err("no".to_owned())
            }
        };
        let candidates: Vec<_> = supported.iter().map(candidate).collect();
        let (verdicts, _) = divide(&model(nodes), &candidates, Take::Profitable, false);
        let group = |verdict: &Verdict| match verdict {
            Verdict::Taken(group) => Some(*group),
            Verdict::Left(_) => None,
        };
        verdicts.iter().map(group).collect()
    }

    #[test]
    fn a_path_outside_divides() {
        // 0 → 1 → 2 and 0 → 2, where 1 is not claimed: 0 and 2 cannot be a group.
        let groups = divided(&[(&[0], &[1]), (&[1], &[2]), (&[1, 2], &[3])], &[true, false, true]);
        assert_eq!(groups, [Some(0), None, Some(1)]);
        // A node outside divides nothing if no path leads back from it.
        let groups = divided(&[(&[0], &[1]), (&[1], &[2]), (&[1], &[3])], &[true, false, true]);
        assert_eq!(groups, [Some(0), None, Some(0)]);
    }

    #[test]
    fn what_is_computed_of_constants_is_with_its_readers() {
        // 3 = f(constant 9); 0 → 1 (not claimed) → 2 with 3 → 4: the weights 3 belong to the second phase.
        let mut model = model(&[(&[0], &[5]), (&[9], &[3]), (&[5], &[1]), (&[1, 3], &[4])]);
        model.values[9].is_constant = true;
        let candidate = || Ok(Candidate { cost: Cost::Heavy, work: LEAST_WORK, parameters: vec![] });
        let candidates = [candidate(), candidate(), Err("no".to_owned()), candidate()];
        let (verdicts, _) = divide(&model, &candidates, Take::Profitable, false);
        assert_eq!(verdicts[0], Verdict::Taken(0));
        assert_eq!([&verdicts[1], &verdicts[3]], [&Verdict::Taken(1); 2]);
    }

    #[test]
    fn what_decides_a_shape_stays_before_if_it_is_computed_of_constants() {
        // 3 = f(constant 9) decides the shape of 4 = g(0, 3).
        let mut model = model(&[(&[9], &[3]), (&[0, 3], &[4])]);
        model.values[9].is_constant = true;
        let candidate = |parameters: &[usize]| {
            Ok(Candidate { cost: Cost::Heavy, work: LEAST_WORK, parameters: parameters.to_vec() })
        };
        let (verdicts, _) = divide(&model, &[candidate(&[]), candidate(&[3])], Take::All, false);
        assert_eq!(verdicts, [Verdict::Taken(0), Verdict::Taken(1)]);
    }

    #[test]
    fn what_is_counted_stays_before_if_it_is_computed_of_constants() {
        // 3 = NonZero(constant 9); 4 = g(3); 5 = h(0, 4).
        let mut model = model(&[(&[9], &[3]), (&[3], &[4]), (&[0, 4], &[5])]);
        model.values[9].is_constant = true;
        model.nodes[0].operator = "NonZero".to_owned();
        let candidate = || Ok(Candidate { cost: Cost::Heavy, work: LEAST_WORK, parameters: vec![] });
        let (_, steps) = divide(&model, &[candidate(), candidate(), candidate()], Take::All, true);
        assert_eq!(steps, [0, 1, 1]);
    }

    #[test]
    fn a_node_that_no_choice_of_sizes_suits_keeps_its_step() {
        // Boxes of an open number of coordinates, and integers that follow from a shape.
        let operators: [(&str, &[usize], usize); 3] =
            [("Shape", &[0], 3), ("NonMaxSuppression", &[0, 1], 4), ("Cast", &[4], 5)];
        let node = |(operator, inputs, output): (&str, &[usize], usize)| Node {
            operator: operator.to_owned(),
            since: 13,
            inputs: inputs.iter().map(|id| Some(*id)).collect(),
            outputs: vec![Some(output)],
            attributes: [("to".to_owned(), crate::model::Attribute::Int(1))].into(),
            ..Node::default()
        };
        let value = |element, dims: &[Dim]| Value {
            element: Some(element),
            dims: Some(dims.to_vec()),
            ..Value::default()
        };
        let (floats, indices) = (Element::Float, Element::Int64);
        let rows = [Dim::Open(3), Dim::Known(3)];
        let values = vec![
            value(floats, &[Dim::Open(0), Dim::Open(1), Dim::Open(2)]),
            value(floats, &[Dim::Open(0), Dim::Known(2), Dim::Open(1)]),
            value(floats, &[]),
            value(indices, &[Dim::Known(3)]),
            value(indices, &rows),
            value(floats, &rows),
        ];
        let model = Model { values, nodes: operators.map(node).to_vec(), ..Model::default() };
        let mut samples = Samples::new(&model);
        let of = |at: usize, samples: &mut Samples| samples.first(&model, &model.nodes[at], &|_| Ok(()));
        assert!(of(0, &mut samples).is_ok() && samples.knows_integers() && of(1, &mut samples).is_err());
        let steps = steps(&model);
        assert!(steps[1] < steps[2], "{steps:?}");
    }

    #[test]
    fn what_decides_a_shape_is_there_before() {
        let candidate = |parameters: &[usize]| {
            Ok(Candidate { cost: Cost::Heavy, work: LEAST_WORK, parameters: parameters.to_vec() })
        };
        let nodes = model(&[(&[0], &[1]), (&[0, 1], &[2])]);
        let verdicts = |has_steps| divide(&nodes, &[candidate(&[]), candidate(&[1])], Take::All, has_steps);
        assert_eq!(verdicts(false), (vec![Verdict::Taken(0), Verdict::Taken(1)], vec![0, 0]));
        assert_eq!(verdicts(true), (vec![Verdict::Taken(0); 2], vec![0, 1]));
    }

    #[test]
    fn branches_of_one_value_are_together() {
        let groups = divided(&[(&[0], &[1]), (&[0], &[2]), (&[9], &[10])], &[true, true, true]);
        assert_eq!(groups, [Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn what_gains_nothing_is_left() {
        let light = |work| Ok(Candidate { cost: Cost::Light, work, parameters: vec![] });
        let nodes: &[(&[usize], &[usize])] = &[(&[0], &[1]), (&[1], &[2])];
        let verdicts = |candidates: &[Result<Candidate, String>], take| {
            divide(&model(&nodes[..candidates.len()]), candidates, take, false).0
        };
        assert!(matches!(verdicts(&[light(1 << 30)], Take::Profitable)[0], Verdict::Left(_)));
        assert!(matches!(verdicts(&[light(10), light(10)], Take::Profitable)[0], Verdict::Left(_)));
        assert_eq!(verdicts(&[light(10), light(10)], Take::All), [Verdict::Taken(0), Verdict::Taken(0)]);
        let big = [light(LEAST_WORK), light(10)];
        assert_eq!(verdicts(&big, Take::Profitable), [Verdict::Taken(0), Verdict::Taken(0)]);
    }
}
