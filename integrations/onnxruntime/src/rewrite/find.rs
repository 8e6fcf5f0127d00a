//! Finds nodes by what writes their operands and reads their results.

use std::collections::{HashMap, HashSet};

use crate::model::{Constant, Model, Node, ValueId};

/// The tolerance for constants: exporters round to single precision, and sometimes to four digits.
const CLOSE: f64 = 1e-4;

/// A fused node.
pub(super) struct Found {
    pub(super) node: Node,
    /// The node that it replaces.
    pub(super) at: usize,
    /// The other nodes that it replaces.
    pub(super) without: Vec<usize>,
}

/// Who writes and who reads the values of a model.
pub(super) struct Finder<'m> {
    pub(super) model: &'m Model,
    pub(super) writer: HashMap<ValueId, usize>,
    pub(super) readers: HashMap<ValueId, Vec<usize>>,
}

/// Finds nodes that form one operation, of which a node is a certain part.
pub(super) type Find = for<'m> fn(&Finder<'m>, usize) -> Option<Found>;

impl<'m> Finder<'m> {
    pub(super) fn new(model: &'m Model, removed: &HashSet<usize>) -> Self {
        let (mut writer, mut readers) = (HashMap::new(), HashMap::<ValueId, Vec<usize>>::new());
        for (at, node) in model.nodes.iter().enumerate().filter(|(at, _)| !removed.contains(at)) {
            writer.extend(node.outputs.iter().flatten().map(|value| (*value, at)));
            for value in node.reads() {
                readers.entry(value).or_default().push(at);
            }
        }
        Self { model, writer, readers }
    }

    pub(super) fn node(&self, at: usize, operator: &str) -> Option<&'m Node> {
        let node = self.model.nodes.get(at)?;
        (node.domain.is_empty() && node.operator == operator).then_some(node)
    }

    pub(super) fn output(&self, at: usize) -> Option<ValueId> {
        match self.model.nodes.get(at)?.outputs.as_slice() {
            [Some(value)] => Some(*value),
            _ => None,
        }
    }

    /// The only reader of a node's only result.
    pub(super) fn only_reader(&self, at: usize) -> Option<usize> {
        let value = self.output(at)?;
        match self.readers.get(&value)?.as_slice() {
            [reader] if !self.model.outputs.contains(&value) => Some(*reader),
            _ => None,
        }
    }

    /// The writer of a value with this only reader.
    pub(super) fn writer_for(&self, value: ValueId, reader: usize) -> Option<usize> {
        let at = *self.writer.get(&value)?;
        (self.only_reader(at)? == reader).then_some(at)
    }

    /// The node after this one that replaces NaN by 0, and the nodes that this replaces; else the node itself.
    pub(super) fn without_nan(&self, at: usize) -> (usize, Vec<usize>) {
        let found = || {
            let value = self.output(at)?;
            let readers = self.readers.get(&value)?;
            let find = |operator: &str| readers.iter().copied().find(|at| self.node(*at, operator).is_some());
            let (is_nan, select) = (find("IsNaN")?, find("Where")?);
            let [Some(condition), Some(zero), Some(x)] = *self.node(select, "Where")?.inputs.as_slice()
            else {
                return None;
            };
            let fits = readers.len() == 2
                && condition == self.output(is_nan)?
                && self.only_reader(is_nan)? == select
                && x == value
                && self.constant(zero)? == 0.0
                && !self.model.outputs.contains(&value);
            fits.then_some((select, vec![is_nan, select]))
        };
        found().unwrap_or((at, Vec::new()))
    }

    /// Both operands of a node.
    pub(super) fn operands(node: &Node) -> Option<[ValueId; 2]> {
        match node.inputs.as_slice() {
            [Some(a), Some(b)] => Some([*a, *b]),
            _ => None,
        }
    }

    pub(super) fn constant(&self, value: ValueId) -> Option<f64> {
        self.model.values.get(value)?.constant.as_ref().and_then(Constant::scalar)
    }

    /// The operand besides a constant number, and the number. `second` requires the number to be the second operand.
    pub(super) fn beside_number(&self, node: &Node, second: bool) -> Option<(ValueId, f64)> {
        let [a, b] = Self::operands(node)?;
        match (self.constant(a), self.constant(b)) {
            (_, Some(number)) => Some((a, number)),
            (Some(number), None) if !second => Some((b, number)),
            _ => None,
        }
    }

    /// The operand besides another one.
    pub(super) fn beside(node: &Node, value: ValueId) -> Option<ValueId> {
        match Self::operands(node)? {
            [a, b] if a == value && b != value => Some(b),
            [a, b] if b == value && a != value => Some(a),
            _ => None,
        }
    }

    /// A node of one input with the result of another.
    pub(super) fn made(
        &self,
        operator: &str,
        domain: &str,
        since: i32,
        inputs: Vec<Option<ValueId>>,
        last: usize,
    ) -> Option<Node> {
        let node = self.model.nodes.get(last)?;
        Some(Node {
            name: node.name.clone(),
            operator: operator.to_owned(),
            domain: domain.to_owned(),
            since,
            inputs,
            outputs: node.outputs.clone(),
            ..Node::default()
        })
    }
}

/// Whether a number is the wanted one but for rounding.
pub(super) fn is_close(number: f64, wanted: f64) -> bool {
    (number - wanted).abs() <= CLOSE * wanted.abs()
}
