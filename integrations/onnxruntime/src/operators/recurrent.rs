//! LSTM and GRU.

use super::Cost::Heavy;
use super::matmul::product;
use super::{Operator, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Attribute, Element, Node};
use crate::steps::{Cell, Given, Recurrent, pack, packed_size};

pub const OPERATORS: &[Operator] = &[
    onnx("LSTM", (7, 22), Heavy, |node, lowering| recurrent(node, lowering, Cell::Lstm)),
    onnx("GRU", (7, 22), Heavy, |node, lowering| {
        let after = node.int("linear_before_reset", 0) != 0;
        recurrent(node, lowering, Cell::Gru { after })
    }),
];

/// Rejects functions other than those of the definition.
fn usual(node: &Node, cell: Cell) -> Lowered<()> {
    let own: &[&str] = match cell {
        Cell::Lstm => &["sigmoid", "tanh", "tanh"],
        Cell::Gru { .. } => &["sigmoid", "tanh"],
    };
    match node.attributes.get("activations") {
        None => {}
        Some(Attribute::Texts(given)) => {
            let is_own =
                given.iter().zip(own.iter().cycle()).all(|(given, own)| given.to_lowercase() == *own);
            if !is_own {
                return refuse(format!("activations are {given:?}, expected {own:?}"));
            }
        }
        Some(_) => return refuse("the activations are no texts"),
    }
    if node.attributes.contains_key("clip") || node.int("input_forget", 0) != 0 {
        return refuse("gates are clipped or coupled");
    }
    if node.int("layout", 0) != 0 {
        return refuse("the batch is the first axis");
    }
    Ok(())
}

/// Input `at`, packed and of these dimensions; none if it is absent.
fn given(
    node: &Node,
    lowering: &mut Lowering<'_>,
    at: usize,
    (element, dims): (Element, &[i64]),
) -> Lowered<Option<View>> {
    let Some(view) = lowering.optional(node, at) else { return Ok(None) };
    // Sizes that are not known are checked when a plan is made.
    let fits = if lowering.guesses { view.rank() == dims.len() } else { view.dims == dims };
    if !fits || view.element != element {
        return refuse(format!("input {at} has dims {:?}, expected {dims:?}", view.dims));
    }
    lowering.packed(&view).map(Some)
}

/// The recurrent weights of each direction, packed.
fn packed(cell: Cell, bytes: &[u8], size: usize) -> Vec<u8> {
    let weights: Vec<f32> = bytes.as_chunks().0.iter().map(|of| f32::from_ne_bytes(*of)).collect();
    let directions = weights.chunks_exact((cell.gates() * size * size).max(1));
    directions.flat_map(|rows| pack(cell, rows, size)).flat_map(f32::to_ne_bytes).collect()
}

fn recurrent(node: &Node, lowering: &mut Lowering<'_>, cell: Cell) -> Lowered<()> {
    usual(node, cell)?;
    let (x, w, r) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    if [&x, &w, &r].iter().any(|view| view.element != Element::Float) {
        return refuse(format!("elements are {}, expected float", x.element.name()));
    }
    let ([length, batch, width], [directions, rows, inner]) = (x.dims.as_slice(), w.dims.as_slice()) else {
        return refuse(format!("dims {:?} and weights {:?}", x.dims, w.dims));
    };
    let (length, batch, width, directions, rows) = (*length, *batch, *width, *directions, *rows);
    let gates = i64::try_from(cell.gates()).unwrap_or(1);
    let size = rows / gates;
    let reversed = match (node.text("direction", "forward"), directions) {
        ("forward", 1) => vec![false],
        ("reverse", 1) => vec![true],
        ("bidirectional", 2) => vec![false, true],
        (direction, count) => return refuse(format!("{direction:?} with {count} directions")),
    };
    if *inner != width || size * gates != rows || r.dims != [directions, rows, size] || x.elements() == 0 {
        return refuse(format!("dims {:?}, weights {:?} and {:?}", x.dims, w.dims, r.dims));
    }
    let count = |of: i64| usize::try_from(of).unwrap_or(0);
    let line = lowering.reshape(&x, &[length * batch, width])?;
    let mut reads = Vec::new();
    for direction in 0..directions {
        let weights = w.sliced(0, direction, 1, 1).and_then(|of| of.reshaped(&[rows, width]));
        let weights = weights.and_then(|of| of.transposed());
        let weights = weights.ok_or_else(|| Reason("weights of another layout".to_owned()))?;
        reads.push(product(lowering, &node.name, &line, &weights)?);
    }
    // Constant weights are packed once.
    let is_packed = lowering.bytes(node, 2).is_some();
    reads.push(match lowering.bytes(node, 2) {
        Some(bytes) => {
            let of_direction = packed_size(cell, count(size));
            let dims = [directions, i64::try_from(of_direction).unwrap_or(0)];
            lowering.folded(node, Element::Float, &dims, || Ok(packed(cell, bytes, count(size))))?
        }
        None => lowering.packed(&r)?,
    });
    let states = [directions, batch, size];
    let is_lstm = cell == Cell::Lstm;
    let bias = given(node, lowering, 3, (Element::Float, &[directions, 2 * rows]))?;
    let lengths = given(node, lowering, 4, (Element::Int32, &[batch]))?;
    let state = given(node, lowering, 5, (Element::Float, &states))?;
    let first = if is_lstm { given(node, lowering, 6, (Element::Float, &states))? } else { None };
    let peepholes =
        if is_lstm { given(node, lowering, 7, (Element::Float, &[directions, 3 * size]))? } else { None };
    let own = Given {
        bias: bias.is_some(),
        lengths: lengths.is_some(),
        state: state.is_some(),
        cell: first.is_some(),
        peepholes: peepholes.is_some(),
    };
    reads.extend([bias, lengths, state, first, peepholes].into_iter().flatten());
    let step = Recurrent {
        cell,
        size: count(size),
        length: count(length),
        batch: count(batch),
        reversed,
        given: own,
        is_packed,
    };
    let mut results = vec![(Element::Float, vec![length, directions, batch, size])];
    results.extend((0..if is_lstm { 2 } else { 1 }).map(|_| (Element::Float, states.to_vec())));
    let made = lowering.on_host(step, &reads.iter().collect::<Vec<_>>(), &results);
    for (at, view) in made.into_iter().enumerate() {
        if Lowering::has_output(node, at) {
            lowering.set(node, at, view)?;
        }
    }
    Ok(())
}
