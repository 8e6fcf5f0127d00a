//! Rotary position embedding.

use hipdnn::graph::PointwiseMode as Mode;
use hipdnn::graph::operation::Pointwise;

use super::Cost::Light;
use super::scores::{heads, narrowed};
use super::{Operator, floats, microsoft, onnx};
use crate::lowering::{Host, Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] =
    &[onnx("RotaryEmbedding", (23, 23), Light, embedding), microsoft("RotaryEmbedding", Light, of_microsoft)];

/// How elements are paired.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// Neighbours are pairs; otherwise elements of both halves.
    pub interleaved: bool,
    /// How many elements of a head are rotated; 0 means all.
    pub size: i64,
}

/// The rows of a table at positions [B, S]: [B, S, size].
pub fn rows(lowering: &mut Lowering<'_>, table: &View, positions: &View) -> View {
    let mut dims = positions.dims.to_vec();
    dims.push(table.dims.last().copied().unwrap_or(1));
    lowering.host(Host::Gather(0), &[table, positions], table.element, &dims)
}

/// Rotates x [B, H, S, D] by angles [B or 1, S, size / 2] into `to`.
pub fn rotate(
    lowering: &mut Lowering<'_>,
    x: &View,
    [cos, sin]: [&View; 2],
    pairs: Pairs,
    to: &View,
) -> Lowered<()> {
    let [_, _, length, whole] = super::scores::four(x)?;
    let size = if pairs.size == 0 { whole } else { pairs.size };
    let half = size / 2;
    let wide = |view: &View| match view.dims.as_slice() {
        [batch, rows, columns] if *rows == length && *columns == half => {
            view.reshaped(&[*batch, 1, *rows, *columns])
        }
        _ => None,
    };
    if size % 2 != 0 || size > whole || half < 1 {
        return refuse(format!("{size} of {whole} elements are turned"));
    }
    let angles = wide(cos).zip(wide(sin));
    let (cos, sin) = angles.ok_or_else(|| Reason(format!("angles {:?} for {:?}", cos.dims, x.dims)))?;
    let part = |view: &View, second: bool| {
        let at = i64::from(second);
        if pairs.interleaved { view.sliced(3, at, 2, half) } else { view.sliced(3, at * half, 1, half) }
            .ok_or_else(|| Reason("heads have no elements".to_owned()))
    };
    let (first, second) = (part(x, false)?, part(x, true)?);
    for (is_second, mode, a, b) in [(false, Mode::Sub, &first, &second), (true, Mode::Add, &second, &first)] {
        let kept = lowering.map(Mode::Mul, &[a, &cos], Element::Float)?;
        let turned = lowering.map(Mode::Mul, &[b, &sin], Element::Float)?;
        let place = part(to, is_second)?;
        let [kept, turned, out] = [&kept, &turned, &place].map(|view| lowering.tensor(view));
        lowering.op("rotate", Pointwise::new(mode, kept, Some(turned), out))?;
    }
    if size < whole {
        let rest = |view: &View| view.sliced(3, size, 1, whole - size);
        if let Some((from, to)) = rest(x).zip(rest(to)) {
            lowering.copy(&from, &to)?;
        }
    }
    Ok(())
}

fn turn(
    node: &Node,
    lowering: &mut Lowering<'_>,
    [cos, sin]: [&View; 2],
    positions: Option<&View>,
    count: i64,
) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x, cos, sin])?;
    let is_flat = x.rank() == 3;
    let of_heads = heads(&x, count)?;
    let dims = super::scores::four(&of_heads)?;
    let (cos, sin) = match positions {
        Some(positions) => {
            lowering.slow = None;
            (rows(lowering, cos, positions), rows(lowering, sin, positions))
        }
        None => (cos.clone(), sin.clone()),
    };
    let (whole, to) = narrowed(lowering, x.element, dims, is_flat)?;
    let pairs =
        Pairs { interleaved: node.int("interleaved", 0) != 0, size: node.int("rotary_embedding_dim", 0) };
    rotate(lowering, &of_heads, [&cos, &sin], pairs, &to)?;
    lowering.set(node, 0, whole)
}

fn embedding(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (cos, sin) = (lowering.input(node, 1)?, lowering.input(node, 2)?);
    let positions = lowering.optional(node, 3);
    turn(node, lowering, [&cos, &sin], positions.as_ref(), node.int("num_heads", 0))
}

fn of_microsoft(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (x, positions) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    let (cos, sin) = (lowering.input(node, 2)?, lowering.input(node, 3)?);
    if node.int("is_packed_batching", 0) != 0 || node.float("scale", 1.0) != 1.0 {
        return refuse("packed batches, or a scale");
    }
    if positions.rank() != 2 {
        return refuse("one position for all sequences");
    }
    let half = cos.dims.last().copied().unwrap_or(0);
    let count = match node.int("num_heads", 0) {
        0 if x.rank() == 3 && half > 0 => x.dims.last().copied().unwrap_or(0) / (2 * half),
        count => count,
    };
    turn(node, lowering, [&cos, &sin], Some(&positions), count)
}
