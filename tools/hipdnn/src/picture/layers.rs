//! Assigns each box to a layer, with edges going down, and splits edges that span several layers.

use super::diagram::Diagram;

/// An element of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A box.
    Item(usize),
    /// An edge that passes through the layer.
    Bend,
}

/// Slots on layers, and the segments of edges between adjacent layers.
#[derive(Clone, Debug)]
pub struct Layered {
    pub slots: Vec<Slot>,
    /// The slots of each layer, from left to right.
    pub layers: Vec<Vec<usize>>,
    /// For each slot, its neighbours in the layer above.
    pub above: Vec<Vec<usize>>,
    /// For each slot, its neighbours in the layer below.
    pub below: Vec<Vec<usize>>,
    /// For each edge, the slots on its way, including its ends.
    pub ways: Vec<Vec<usize>>,
}

#[expect(
    clippy::indexing_slicing,
    reason = "items, slots and layers are numbered here, and edges join items"
)]
impl Layered {
    pub fn new(diagram: &Diagram) -> Self {
        let layer_of = layer_of(diagram);
        let depth = layer_of.iter().max().map_or(0, |most| most + 1);
        let items = diagram.items.len();
        let mut layered = Self {
            slots: (0..items).map(Slot::Item).collect(),
            layers: vec![Vec::new(); depth],
            above: vec![Vec::new(); items],
            below: vec![Vec::new(); items],
            ways: Vec::with_capacity(diagram.edges.len()),
        };
        for (item, layer) in layer_of.iter().enumerate() {
            layered.layers[*layer].push(item);
        }
        for edge in &diagram.edges {
            let (from, to) = (layer_of[edge.from], layer_of[edge.to]);
            let mut way = vec![edge.from];
            // An edge that goes up or stays on its layer, which only a graph with a cycle has, is drawn straight.
            for bends in layered.layers.get_mut(from + 1..to).unwrap_or_default() {
                let bend = layered.slots.len();
                layered.slots.push(Slot::Bend);
                layered.above.push(Vec::new());
                layered.below.push(Vec::new());
                bends.push(bend);
                way.push(bend);
            }
            way.push(edge.to);
            if from < to {
                for pair in way.windows(2) {
                    layered.below[pair[0]].push(pair[1]);
                    layered.above[pair[1]].push(pair[0]);
                }
            }
            layered.ways.push(way);
        }
        layered
    }
}

/// The layer of each box: below everything it reads, or right above its first reader if it reads nothing.
#[expect(clippy::indexing_slicing, reason = "edges join items, which are numbered by their places")]
fn layer_of(diagram: &Diagram) -> Vec<usize> {
    let items = diagram.items.len();
    let (mut readers, mut waits) = (vec![Vec::new(); items], vec![0_usize; items]);
    for edge in &diagram.edges {
        readers[edge.from].push(edge.to);
        waits[edge.to] += 1;
    }
    let is_source: Vec<bool> = waits.iter().map(|waits| *waits == 0).collect();
    let mut layer = vec![0_usize; items];
    let mut is_done = vec![false; items];
    let mut ready: Vec<usize> = (0..items).filter(|item| is_source[*item]).collect();
    let mut next = 0;
    for _ in 0..items {
        // A cycle is cut at its first box.
        let item = ready.pop().unwrap_or_else(|| {
            next = (next..items).find(|item| !is_done[*item]).unwrap_or(next);
            next
        });
        if std::mem::replace(&mut is_done[item], true) {
            continue;
        }
        for reader in &readers[item] {
            if !is_done[*reader] {
                layer[*reader] = layer[*reader].max(layer[item] + 1);
                waits[*reader] -= 1;
                if waits[*reader] == 0 {
                    ready.push(*reader);
                }
            }
        }
    }
    for item in (0..items).filter(|item| is_source[*item]) {
        if let Some(first) = readers[item].iter().map(|reader| layer[*reader]).min() {
            layer[item] = first.saturating_sub(1);
        }
    }
    layer
}
