//! Operators whose number of results is only known when they are computed.

use super::Cost::Layout;
use super::{Operator, axis, onnx};
use crate::lowering::{Lowered, Lowering, elements, refuse};
use crate::model::{Element, Node};
use crate::steps::{Compress, NonZero};

pub const OPERATORS: &[Operator] =
    &[onnx("NonZero", (9, 13), Layout, nonzero), onnx("Compress", (9, 11), Layout, compress)];

/// Whether the number of a node's results is only known when they are computed.
pub fn is_open(node: &Node) -> bool {
    node.domain.is_empty() && ["NonMaxSuppression", "NonZero", "Compress"].contains(&node.operator.as_str())
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
    lowering.set_late(node, Compress { axis: at }, &[&x, &condition], (x.element, x.dims.clone(), at))
}
