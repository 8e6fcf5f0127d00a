//! Assigns coordinates to slots: near their neighbours, in the order of their layer, without overlap.
#![expect(
    clippy::indexing_slicing,
    reason = "slots and layers are numbered by their places in the same lists"
)]

use super::diagram::{Diagram, port_room};
use super::layers::{Layered, Slot};

const GAP: f64 = 26.0;
const BEND_GAP: f64 = 14.0;
const LAYER_GAP: f64 = 30.0;
const SWEEPS: usize = 120;

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// The path of an edge: its points from top to bottom, vertical where it passes a layer.
#[derive(Clone, Debug)]
pub struct Way {
    pub points: Vec<Point>,
    /// The position of the role's label in the operation where it starts.
    pub start: f64,
    /// The position of the role's label in the operation where it ends.
    pub end: f64,
}

/// All coordinates.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The middle of each box.
    pub centers: Vec<Point>,
    pub ways: Vec<Way>,
    pub width: f64,
    pub height: f64,
}

impl Placed {
    pub fn new(diagram: &Diagram, layered: &Layered) -> Self {
        let size = |slot: usize| match layered.slots[slot] {
            Slot::Item(item) => (diagram.items[item].width, diagram.items[item].height),
            Slot::Bend => (2.0, 0.0),
        };
        let x = across(layered, &|slot| size(slot).0);
        let heights: Vec<f64> = layered
            .layers
            .iter()
            .map(|layer| layer.iter().map(|slot| size(*slot).1).fold(0.0, f64::max))
            .collect();
        let mut y = vec![0.0; layered.slots.len()];
        let mut bands = vec![(0.0, 0.0); layered.slots.len()];
        let mut top = 0.0;
        for (layer, height) in layered.layers.iter().zip(&heights) {
            for slot in layer {
                y[*slot] = top + height / 2.0;
                bands[*slot] = (top, top + height);
            }
            top += height + LAYER_GAP;
        }
        let left =
            (0..layered.slots.len()).map(|slot| x[slot] - size(slot).0 / 2.0).fold(f64::INFINITY, f64::min);
        let left = if left.is_finite() { left } else { 0.0 };
        let x: Vec<f64> = x.into_iter().map(|x| x - left).collect();
        let width = (0..layered.slots.len()).map(|slot| x[slot] + size(slot).0 / 2.0).fold(0.0, f64::max);
        let centers: Vec<Point> =
            (0..diagram.items.len()).map(|item| Point { x: x[item], y: y[item] }).collect();
        let (starts, ends) = ports(diagram, layered, &x);
        let ways = layered
            .ways
            .iter()
            .enumerate()
            .map(|(edge, way)| {
                let (from, to) = (diagram.edges[edge].from, diagram.edges[edge].to);
                let mut points = vec![Point { x: starts[edge], y: y[from] + size(from).1 / 2.0 }];
                for bend in &way[1..way.len() - 1] {
                    points.push(Point { x: x[*bend], y: bands[*bend].0 });
                    points.push(Point { x: x[*bend], y: bands[*bend].1 });
                }
                points.push(Point { x: ends[edge], y: y[to] - size(to).1 / 2.0 });
                Way { points, start: starts[edge], end: ends[edge] }
            })
            .collect();
        Self { centers, ways, width, height: (top - LAYER_GAP).max(0.0) }
    }
}

/// Where each edge leaves its upper box and enters its lower one: operations have a port for each edge, in the order of the
/// other ends; tensors have one for all.
fn ports(diagram: &Diagram, layered: &Layered, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut starts: Vec<f64> = diagram.edges.iter().map(|edge| x[edge.from]).collect();
    let mut ends: Vec<f64> = diagram.edges.iter().map(|edge| x[edge.to]).collect();
    for (item, described) in diagram.items.iter().enumerate() {
        if !described.kind.is_operation() {
            continue;
        }
        let spread = |mine: &dyn Fn(usize) -> bool, next: &dyn Fn(&[usize]) -> usize, to: &mut [f64]| {
            let mut edges: Vec<usize> = (0..diagram.edges.len()).filter(|edge| mine(*edge)).collect();
            edges.sort_by(|a, b| x[next(&layered.ways[*a])].total_cmp(&x[next(&layered.ways[*b])]));
            let room = port_room(edges.iter().map(|edge| diagram.edges[*edge].role.as_str()));
            // With more space than needed, the ports spread a little.
            let room = room.max((described.width / edges.len().max(1) as f64).min(room * 1.5));
            let first = x[item] - room * (edges.len() as f64 - 1.0) / 2.0;
            for (at, edge) in edges.into_iter().enumerate() {
                to[edge] = first + room * at as f64;
            }
        };
        spread(&|edge| diagram.edges[edge].to == item, &|way| way[way.len() - 2], &mut ends);
        spread(&|edge| diagram.edges[edge].from == item, &|way| way[1], &mut starts);
    }
    (starts, ends)
}

/// The middle of each slot: pulled to its neighbours above and below in turn, long edges kept straight.
fn across(layered: &Layered, width: &dyn Fn(usize) -> f64) -> Vec<f64> {
    let mut x = vec![0.0; layered.slots.len()];
    let gap = |a: usize, b: usize| {
        let bends = [a, b].iter().filter(|slot| layered.slots[**slot] == Slot::Bend).count();
        (width(a) + width(b)) / 2.0 + if bends > 0 { BEND_GAP } else { GAP }
    };
    for layer in &layered.layers {
        let mut at = 0.0;
        for (place, slot) in layer.iter().enumerate() {
            if place > 0 {
                at += gap(layer[place - 1], *slot);
            }
            x[*slot] = at;
        }
        let middle = at / 2.0;
        for slot in layer {
            x[*slot] -= middle;
        }
    }
    let depth = layered.layers.len();
    for sweep in 0..SWEEPS {
        for step in 0..depth {
            let down = sweep % 2 == 0;
            let layer = &layered.layers[if down { step } else { depth - 1 - step }];
            // The last sweeps use both directions, to balance the one-sided ones.
            let both = sweep >= SWEEPS / 2;
            let wishes: Vec<(f64, f64)> =
                layer.iter().map(|slot| wish(layered, &x, *slot, down || both, !down || both)).collect();
            settle(layer, &wishes, &gap, &mut x);
        }
    }
    x
}

/// The preferred position of a slot, and its weight.
fn wish(layered: &Layered, x: &[f64], slot: usize, look_up: bool, look_down: bool) -> (f64, f64) {
    let (mut sum, mut weight) = (0.0, 0.0);
    let mut add = |neighbours: &[usize]| {
        for other in neighbours {
            // A segment between two bends pulls most, to keep long edges straight.
            let bends = [slot, *other].iter().filter(|slot| layered.slots[**slot] == Slot::Bend).count();
            // Slots with a single edge follow their neighbour, so that a chain of operations is straight.
            let hangs = |slot: usize| layered.above[slot].len() + layered.below[slot].len() == 1;
            let pull = if hangs(slot) || hangs(*other) { 0.02 } else { [1.0, 3.0, 12.0][bends.min(2)] };
            sum += pull * x[*other];
            weight += pull;
        }
    };
    if look_up {
        add(&layered.above[slot]);
    }
    if look_down {
        add(&layered.below[slot]);
    }
    if weight == 0.0 { (x[slot], 0.01) } else { (sum / weight, weight) }
}

/// Moves a layer as close to the preferred positions as its order and gaps allow: least squares, by merging overlapping slots
/// into blocks that move together.
fn settle(layer: &[usize], wishes: &[(f64, f64)], gap: &dyn Fn(usize, usize) -> f64, x: &mut [f64]) {
    // After subtracting the space of the slots to the left, slots only have to be in order.
    let mut offsets = Vec::with_capacity(layer.len());
    let mut offset = 0.0;
    for (place, slot) in layer.iter().enumerate() {
        if place > 0 {
            offset += gap(layer[place - 1], *slot);
        }
        offsets.push(offset);
    }
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for ((at, weight), offset) in wishes.iter().zip(&offsets) {
        let mut block = ((at - offset) * weight, *weight, 1);
        while let Some(last) = blocks.last()
            && last.0 / last.1 > block.0 / block.1
        {
            block = (block.0 + last.0, block.1 + last.1, block.2 + last.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let mut place = 0;
    for (sum, weight, count) in blocks {
        for _ in 0..count {
            x[layer[place]] = sum / weight + offsets[place];
            place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::settle;

    #[test]
    fn slots_keep_their_order_and_do_not_overlap() {
        let mut x = [0.0; 3];
        settle(&[0, 1, 2], &[(5.0, 1.0), (5.0, 1.0), (40.0, 1.0)], &|_, _| 10.0, &mut x);
        assert_eq!(x, [0.0, 10.0, 40.0]);
    }
}
