//! LSTM, GRU and RNN.

use hipdnn::graph::PointwiseMode as Mode;

use super::Cost::Heavy;
use super::matmul::product;
use super::quantize::dynamically;
use super::{Operator, microsoft, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Attribute, Element, Node};
use crate::steps::{
    Activation, Cell, Given, Recurrent, Row, pack, pack_bytes, packed_size, packed_size_of_bytes,
};

pub const OPERATORS: &[Operator] = &[
    onnx("LSTM", (7, 22), Heavy, |node, lowering| recurrent(node, lowering, Cell::Lstm)),
    onnx("GRU", (7, 22), Heavy, |node, lowering| {
        let after = node.int("linear_before_reset", 0) != 0;
        recurrent(node, lowering, Cell::Gru { after })
    }),
    onnx("RNN", (7, 22), Heavy, |node, lowering| recurrent(node, lowering, plain(node)?)),
    microsoft("DynamicQuantizeLSTM", Heavy, quantized),
];

/// The cell of an RNN, whose directions have one function.
fn plain(node: &Node) -> Lowered<Cell> {
    let Some(Attribute::Texts(given)) = node.attributes.get("activations") else {
        return Ok(Cell::Rnn(Activation::Tanh));
    };
    let names: Vec<String> = given.iter().map(|name| name.to_lowercase()).collect();
    let known = [("tanh", Activation::Tanh), ("relu", Activation::Relu), ("sigmoid", Activation::Sigmoid)];
    let found = known.into_iter().find(|(name, _)| names.iter().all(|given| given == name));
    found
        .map(|(_, of)| Cell::Rnn(of))
        .ok_or_else(|| Reason(format!("activations are {given:?}, expected Tanh, Relu or Sigmoid")))
}

/// Rejects functions other than those of the definition.
fn usual(node: &Node, cell: Cell) -> Lowered<()> {
    let own: &[&str] = match cell {
        Cell::Lstm => &["sigmoid", "tanh", "tanh"],
        Cell::Gru { .. } => &["sigmoid", "tanh"],
        Cell::Rnn(_) => &[],
    };
    match node.attributes.get("activations") {
        _ if own.is_empty() => {}
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
fn packed(cell: Cell, weights: &[f32], size: usize) -> Vec<u8> {
    let directions = weights.chunks_exact((cell.gates() * size * size).max(1));
    directions.flat_map(|rows| pack(cell, rows, size)).flat_map(f32::to_ne_bytes).collect()
}

/// The sizes of sequences and weights.
#[derive(Clone, Copy)]
struct Sizes {
    length: i64,
    batch: i64,
    width: i64,
    directions: i64,
    /// The rows of the weights of all gates.
    rows: i64,
    size: i64,
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
    let size = rows / i64::try_from(cell.gates()).unwrap_or(1);
    let sizes =
        Sizes { length: *length, batch: *batch, width: *width, directions: *directions, rows: *rows, size };
    if inner != width || r.dims != [*directions, *rows, size] {
        return refuse(format!("dims {:?}, weights {:?} and {:?}", x.dims, w.dims, r.dims));
    }
    let line = lowering.reshape(&x, &[length * batch, *width])?;
    let mut reads = Vec::new();
    for direction in 0..sizes.directions {
        let weights = part(&w, direction, &[sizes.rows, sizes.width])?;
        let weights = weights.transposed().ok_or_else(|| Reason("weights of another layout".to_owned()))?;
        reads.push(product(lowering, &node.name, &line, &weights)?);
    }
    // Constant weights are packed once.
    let is_packed = lowering.bytes(node, 2).is_some();
    reads.push(match lowering.bytes(node, 2) {
        Some(bytes) => packed_once(node, lowering, (cell, sizes), || {
            Ok(bytes.as_chunks().0.iter().map(|of| f32::from_ne_bytes(*of)).collect())
        })?,
        None => lowering.packed(&r)?,
    });
    sequences(node, lowering, (cell, sizes), reads, (is_packed, false))
}

/// The part of a tensor for a direction, in other dimensions.
fn part(of: &View, direction: i64, dims: &[i64]) -> Lowered<View> {
    let part = of.sliced(0, direction, 1, 1).and_then(|part| part.reshaped(dims));
    part.ok_or_else(|| Reason("weights of another layout".to_owned()))
}

/// The recurrent weights `[directions, rows, size]` that `make` returns, packed.
fn packed_once(
    node: &Node,
    lowering: &mut Lowering<'_>,
    (cell, sizes): (Cell, Sizes),
    make: impl FnOnce() -> Lowered<Vec<f32>>,
) -> Lowered<View> {
    let size = usize::try_from(sizes.size).unwrap_or(0);
    let dims = [sizes.directions, i64::try_from(packed_size(cell, size)).unwrap_or(0)];
    lowering.folded(node, Element::Float, &dims, || Ok(packed(cell, &make()?, size)))
}

/// LSTM whose weights are bytes, `[directions, columns, rows]`, and whose inputs and states are quantized in each run.
fn quantized(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let cell = Cell::Lstm;
    usual(node, cell)?;
    let (x, w, r) = (lowering.input(node, 0)?, lowering.input(node, 1)?, lowering.input(node, 2)?);
    if x.element != Element::Float
        || [&w, &r].iter().any(|of| !matches!(of.element, Element::Int8 | Element::Uint8))
    {
        return refuse(format!("elements are {} and {}", x.element.name(), w.element.name()));
    }
    let ([length, batch, width], [directions, inner, rows]) = (x.dims.as_slice(), w.dims.as_slice()) else {
        return refuse(format!("dims {:?} and weights {:?}", x.dims, w.dims));
    };
    let size = rows / 4;
    let sizes =
        Sizes { length: *length, batch: *batch, width: *width, directions: *directions, rows: *rows, size };
    if inner != width || r.dims != [*directions, size, *rows] {
        return refuse(format!("dims {:?}, weights {:?} and {:?}", x.dims, w.dims, r.dims));
    }
    let line = lowering.reshape(&x, &[length * batch, *width])?;
    let (bytes, [scale, zero]) = dynamically(lowering, &line)?;
    let line = lowering.map(Mode::Sub, &[&bytes, &zero], Element::Float)?;
    let line = lowering.binary(Mode::Mul, &line, &scale)?;
    let mut reads = Vec::new();
    let (scales, zeros) = (lowering.input(node, 8)?, lowering.optional(node, 9));
    let is_plain =
        zeros.is_none() || lowering.numbers(node, 9).is_some_and(|all| all.iter().all(|of| *of == 0.0));
    for direction in 0..sizes.directions {
        let weights = part(&w, direction, &[sizes.width, sizes.rows])?;
        let of_direction = |of: &View| part(of, direction, &[1, of.elements() / sizes.directions]);
        let weights = match &zeros {
            Some(zeros) if !is_plain => {
                lowering.map(Mode::Sub, &[&weights, &of_direction(zeros)?], Element::Float)?
            }
            _ => weights,
        };
        let weights = lowering.map(Mode::Mul, &[&weights, &of_direction(&scales)?], Element::Float)?;
        reads.push(product(lowering, &node.name, &line, &weights)?);
    }
    let (Some(bytes), Some(scales)) = (lowering.bytes(node, 2), lowering.numbers(node, 10)) else {
        return refuse("the recurrent weights are not constant");
    };
    let zeros = if Lowering::has_input(node, 11) { lowering.numbers(node, 11) } else { Some(vec![]) };
    let zeros = zeros.ok_or_else(|| Reason("the zero points are not constant".to_owned()))?;
    let room = packed_size_of_bytes(usize::try_from(size).unwrap_or(0));
    let dims = [sizes.directions, i64::try_from(room).unwrap_or(0)];
    reads.push(lowering.folded(node, Element::Uint8, &dims, || {
        of_bytes(bytes, r.element == Element::Int8, sizes, [&scales, &zeros])
    })?);
    sequences(node, lowering, (cell, sizes), reads, (true, true))
}

/// Recurrent weights that are bytes, `[directions, size, rows]`, packed.
fn of_bytes(bytes: &[u8], is_signed: bool, sizes: Sizes, [scales, zeros]: [&[f64]; 2]) -> Lowered<Vec<u8>> {
    let count = |of: i64| usize::try_from(of).unwrap_or(0);
    let (directions, rows, size) = (count(sizes.directions), count(sizes.rows), count(sizes.size));
    let is_for_rows = |list: &[f64]| list.len() == directions * rows;
    let is_whole = |list: &[f64]| list.len() == directions || is_for_rows(list);
    if bytes.len() != directions * size * rows || !is_whole(scales) || !(zeros.is_empty() || is_whole(zeros))
    {
        return refuse("constant elements are missing");
    }
    // Bytes without a sign are those 128 above.
    let middle = if is_signed { 0 } else { 128 };
    let packed = |direction: usize| {
        // One for each direction, or for each of its rows.
        let of = |list: &[f64], row: usize| {
            list.get(if is_for_rows(list) { direction * rows + row } else { direction }).copied()
        };
        let row = |row: usize| Row {
            scale: of(scales, row).unwrap_or(0.0) as f32,
            zero: of(zeros, row).unwrap_or(0.0) as i32 - middle,
        };
        let flip = if is_signed { 0 } else { 0x80 };
        pack_bytes(size, row, |row, at| {
            let byte = bytes.get((direction * size + at) * rows + row).copied().unwrap_or(0);
            (byte ^ flip).cast_signed()
        })
    };
    Ok((0..directions).flat_map(packed).collect())
}

/// The steps of sequences. `reads` are the products of the inputs for each direction, and the recurrent weights, of which is said whether
/// they are packed, and whether states are quantized.
fn sequences(
    node: &Node,
    lowering: &mut Lowering<'_>,
    (cell, sizes): (Cell, Sizes),
    mut reads: Vec<View>,
    (is_packed, is_quantized): (bool, bool),
) -> Lowered<()> {
    let Sizes { length, batch, directions, rows, size, .. } = sizes;
    let reversed = match (node.text("direction", "forward"), directions) {
        ("forward", 1) => vec![false],
        ("reverse", 1) => vec![true],
        ("bidirectional", 2) => vec![false, true],
        (direction, count) => return refuse(format!("{direction:?} with {count} directions")),
    };
    if size * i64::try_from(cell.gates()).unwrap_or(1) != rows || length * batch * sizes.width == 0 {
        return refuse(format!("{length} steps of {batch} sequences, {rows} rows"));
    }
    let count = |of: i64| usize::try_from(of).unwrap_or(0);
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
        is_quantized,
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
