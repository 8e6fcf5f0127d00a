//! Sorts the slots of each layer so that few edges cross.
#![expect(
    clippy::indexing_slicing,
    reason = "slots and layers are numbered by their places in the same lists"
)]

use super::layers::Layered;

/// The number of sweeps over all layers, down and up.
const SWEEPS: usize = 24;
/// With more edge segments than this, counting crossings takes too long.
const MOST_COUNTED: usize = 20_000;

/// Moves each slot to the middle of its neighbours, layer by layer, and keeps the best order found.
pub fn sort(layered: &mut Layered) {
    let pieces: usize = layered.below.iter().map(Vec::len).sum();
    let sweeps = if pieces > MOST_COUNTED { 4 } else { SWEEPS };
    start(layered);
    let mut best = (crossings(layered), layered.layers.clone());
    for sweep in 0..sweeps {
        if best.0 == 0 {
            break;
        }
        let down = sweep % 2 == 0;
        let depth = layered.layers.len();
        for step in 1..depth {
            let layer = if down { step } else { depth - 1 - step };
            let neighbours = if down { &layered.above } else { &layered.below };
            let fixed = if down { layer - 1 } else { layer + 1 };
            let place = places(&layered.layers[fixed], layered.slots.len());
            // Every other pair of sweeps reverses equal slots, which escapes some local minima.
            sort_layer(&mut layered.layers[layer], neighbours, &place, sweep % 4 >= 2);
        }
        exchange(layered);
        let count = crossings(layered);
        if count < best.0 {
            best = (count, layered.layers.clone());
        }
    }
    layered.layers = best.1;
    order_inputs(layered);
}

/// Sorts adjacent inputs of an operation in the operation's own order. All their edges end there, so this adds no crossings.
fn order_inputs(layered: &mut Layered) {
    for layer in &mut layered.layers {
        let mut start = 0;
        while start < layer.len() {
            let below = &layered.below[layer[start]];
            let run = layer[start..].iter().take_while(|slot| &layered.below[**slot] == below).count();
            let slots = &mut layer[start..start + run];
            start += run;
            let computed = slots.iter().filter(|slot| !layered.above[**slot].is_empty()).count();
            if let [operation] = below.as_slice()
                && computed <= 1
            {
                let inputs = &layered.above[*operation];
                slots.sort_by_key(|slot| inputs.iter().position(|input| input == slot));
            }
        }
    }
}

/// The initial order: slots as they are reached from the slots of the layers above.
fn start(layered: &mut Layered) {
    let mut met = vec![usize::MAX; layered.slots.len()];
    let mut count = 0;
    for layer in &layered.layers {
        for slot in layer {
            let mut open = vec![*slot];
            while let Some(slot) = open.pop() {
                if met[slot] == usize::MAX {
                    met[slot] = count;
                    count += 1;
                    open.extend(layered.below[slot].iter().rev());
                }
            }
        }
    }
    for layer in &mut layered.layers {
        layer.sort_by_key(|slot| met[*slot]);
    }
}

/// The position of each slot of a layer.
fn places(layer: &[usize], slots: usize) -> Vec<usize> {
    let mut place = vec![0; slots];
    for (at, slot) in layer.iter().enumerate() {
        place[*slot] = at;
    }
    place
}

/// Sorts by the mean position of the neighbours; slots without neighbours stay.
fn sort_layer(layer: &mut [usize], neighbours: &[Vec<usize>], place: &[usize], turned: bool) {
    let mut free: Vec<(f64, usize, usize)> = layer
        .iter()
        .enumerate()
        .filter(|(_, slot)| !neighbours[**slot].is_empty())
        .map(|(at, slot)| {
            let near = &neighbours[*slot];
            let mean = near.iter().map(|other| place[*other] as f64).sum::<f64>() / near.len() as f64;
            (mean, if turned { usize::MAX - at } else { at }, *slot)
        })
        .collect();
    free.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut sorted = free.into_iter();
    for slot in layer.iter_mut() {
        if !neighbours[*slot].is_empty()
            && let Some((_, _, next)) = sorted.next()
        {
            *slot = next;
        }
    }
}

/// Swaps adjacent slots that cross less that way, in one pass.
fn exchange(layered: &mut Layered) {
    for layer in 0..layered.layers.len() {
        let above = layer.checked_sub(1).map(|above| places(&layered.layers[above], layered.slots.len()));
        let below = layered.layers.get(layer + 1).map(|below| places(below, layered.slots.len()));
        for at in 1..layered.layers[layer].len() {
            let (left, right) = (layered.layers[layer][at - 1], layered.layers[layer][at]);
            let cost = |first: usize, second: usize| {
                let of = |neighbours: &[Vec<usize>], place: &Option<Vec<usize>>| {
                    place
                        .as_ref()
                        .map_or(0, |place| inversions(&neighbours[first], &neighbours[second], place))
                };
                of(&layered.above, &above) + of(&layered.below, &below)
            };
            if cost(right, left) < cost(left, right) {
                layered.layers[layer].swap(at - 1, at);
            }
        }
    }
}

/// The crossings between the edges of two slots when the first is left of the second.
fn inversions(first: &[usize], second: &[usize], place: &[usize]) -> usize {
    first.iter().map(|a| second.iter().filter(|b| place[**b] < place[*a]).count()).sum()
}

/// The number of all crossings.
fn crossings(layered: &Layered) -> usize {
    let mut count = 0;
    for pair in layered.layers.windows(2) {
        let place = places(&pair[1], layered.slots.len());
        // Counts the ends at and left of each position with a Fenwick tree.
        let mut sums = vec![0_usize; pair[1].len() + 1];
        let mut seen = 0;
        for slot in &pair[0] {
            let mut ends: Vec<usize> = layered.below[*slot].iter().map(|other| place[*other]).collect();
            ends.sort_unstable();
            for end in &ends {
                let (mut at, mut before) = (end + 1, 0);
                while at > 0 {
                    before += sums[at];
                    at &= at - 1;
                }
                count += seen - before;
            }
            for end in ends {
                let mut at = end + 1;
                while at < sums.len() {
                    sums[at] += 1;
                    at += at & at.wrapping_neg();
                }
                seen += 1;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::layers::Slot;

    fn two_layers(edges: &[(usize, usize)], each: usize) -> Layered {
        let mut layered = Layered {
            slots: (0..2 * each).map(Slot::Item).collect(),
            layers: vec![(0..each).collect(), (each..2 * each).collect()],
            above: vec![Vec::new(); 2 * each],
            below: vec![Vec::new(); 2 * each],
            ways: Vec::new(),
        };
        for (from, to) in edges {
            layered.below[*from].push(each + to);
            layered.above[each + to].push(*from);
        }
        layered
    }

    #[test]
    fn crossings_are_counted() {
        assert_eq!(crossings(&two_layers(&[(0, 0), (1, 1)], 2)), 0);
        assert_eq!(crossings(&two_layers(&[(0, 1), (1, 0)], 2)), 1);
        assert_eq!(crossings(&two_layers(&[(0, 2), (1, 1), (2, 0)], 3)), 3);
        assert_eq!(crossings(&two_layers(&[(0, 0), (0, 1), (1, 0), (1, 1)], 2)), 1);
    }

    #[test]
    fn inputs_are_in_the_order_of_the_operation() {
        let mut layered = two_layers(&[(2, 0), (0, 0), (1, 0), (3, 1)], 4);
        layered.slots.push(Slot::Bend);
        layered.above.push(vec![]);
        layered.below.push(vec![0]);
        layered.above[0] = vec![8];
        order_inputs(&mut layered);
        assert_eq!(layered.layers[0], [2, 0, 1, 3]);
    }

    #[test]
    fn avoidable_crossings_are_removed() {
        let mut layered = two_layers(&[(0, 3), (1, 2), (2, 1), (3, 0), (0, 2)], 4);
        assert!(crossings(&layered) > 0);
        sort(&mut layered);
        assert_eq!(crossings(&layered), 0);
    }
}
