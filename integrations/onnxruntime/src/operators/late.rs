//! Operators whose number of results is only known when they are computed.

use super::Cost::{Layout, Light};
use super::{Operator, axis, onnx};
use crate::lowering::{Lowered, Lowering, elements, refuse};
use crate::model::{Element, Node};
use crate::steps::{Compress, NonZero, Unique};

pub const OPERATORS: &[Operator] = &[
    onnx("NonZero", (9, 13), Layout, nonzero),
    onnx("Compress", (9, 28), Layout, compress),
    onnx("Unique", (11, 28), Light, unique),
];

/// Those whose number of results is only known when they are computed.
const OPEN: [&str; 4] = ["NonMaxSuppression", "NonZero", "Compress", "Unique"];

/// Whether the number of a node's results is only known when they are computed.
pub fn is_open(node: &Node) -> bool {
    node.domain.is_empty() && OPEN.contains(&node.operator.as_str())
}

fn nonzero(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    let is_known = matches!(
        x.element,
        Element::Bool
            | Element::Uint8
            | Element::Int8
            | Element::Int32
            | Element::Int64
            | Element::Float
            | Element::Double
    );
    if !is_known || x.rank() == 0 {
        return refuse(format!("elements are {} of dims {:?}", x.element.name(), x.dims));
    }
    let rank = i64::try_from(x.rank()).unwrap_or(0);
    lowering.set_late(node, NonZero, &[&x], (Element::Int64, vec![rank, x.elements()], 1))
}

fn compress(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, condition) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    if condition.element != Element::Bool || x.element.is_of_4_bits() {
        return refuse(format!("elements are {} and {}", x.element.name(), condition.element.name()));
    }
    let (x, at) = if node.attributes.contains_key("axis") {
        let at = axis(node.int("axis", 0), x.rank())?;
        (x, at)
    } else {
        (lowering.reshape(&x, &[elements(&x.dims)])?, 0)
    };
    lowering.set_late(node, Compress { axis: at }, &[&x, &condition], (x.element, x.dims.to_vec(), at))
}

fn unique(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if x.element.is_small() {
        return refuse(format!("elements are {}", x.element.name()));
    }
    let at = match node.attributes.contains_key("axis") {
        true => Some(axis(node.int("axis", 0), x.rank())?),
        false => None,
    };
    let own = Unique { axis: at, is_sorted: node.int("sorted", 1) != 0 };
    let (dims, at) = match at {
        Some(at) => (x.dims.to_vec(), at),
        None => (vec![elements(&x.dims)], 0),
    };
    let most = dims.iter().skip(at).take(1).copied().collect::<Vec<_>>();
    let indices = |axis| (Element::Int64, most.clone(), axis);
    let results = vec![(x.element, dims, Some(at)), indices(Some(0)), indices(None), indices(Some(0))];
    lowering.set_all_late(node, own, &[&x], results)
}
