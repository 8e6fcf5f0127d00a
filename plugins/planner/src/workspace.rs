//! Places the virtual tensors in the workspace.

use std::collections::{HashMap, HashSet};

use hipdnn_plugin_sdk::graph::{Graph, Tensor};

use crate::Refusal;
use crate::layout::{Layout, storage_size};

/// A virtual tensor in the workspace, alive from the step that writes it to the last that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The tensor.
    pub uid: i64,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it; `first` if none does.
    pub last: usize,
    /// Its size in bytes.
    pub size: usize,
    /// Its offset in the workspace in bytes.
    pub offset: usize,
}

/// Places that do not overlap while alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The tensors, the largest first.
    pub places: Vec<Place>,
    /// Total size in bytes.
    pub size: usize,
}

/// Places every virtual tensor of a prepared graph that a step uses for its lifetime; the steps use these
/// tensors. Tensors in `unmarked` get a place too, for executions that do not bind them. Offsets are
/// multiples of `alignment`, a power of two.
pub fn place_in_steps<'a>(
    graph: &Graph,
    unmarked: &HashSet<i64>,
    steps: impl Iterator<Item = &'a [i64]>,
    alignment: usize,
) -> Result<Places, Refusal> {
    let virtuals: HashMap<i64, &Tensor> = graph
        .tensors
        .iter()
        .filter(|tensor| tensor.is_virtual || unmarked.contains(&tensor.uid))
        .map(|tensor| (tensor.uid, tensor))
        .collect();
    let mut places: Vec<Place> = Vec::new();
    let mut place_of: HashMap<i64, usize> = HashMap::new();
    for (step, uids) in steps.enumerate() {
        for uid in uids {
            let Some(tensor) = virtuals.get(uid) else { continue };
            if let Some(place) = place_of.get(uid).and_then(|at| places.get_mut(*at)) {
                place.last = step;
                continue;
            }
            let size = storage_size(tensor.data_type, Layout::of(tensor)?.extent())?;
            place_of.insert(*uid, places.len());
            places.push(Place { uid: *uid, first: step, last: step, size, offset: 0 });
        }
    }
    arrange(places, alignment)
}

/// Assigns each of `places` an offset, a multiple of `alignment`, so that no two with overlapping lifetimes
/// overlap. Largest first, each in the lowest gap.
pub fn arrange(mut places: Vec<Place>, alignment: usize) -> Result<Places, Refusal> {
    for place in &mut places {
        place.size = place.size.checked_next_multiple_of(alignment).ok_or_else(|| too_large(place.uid))?;
    }
    places.sort_by_key(|place| std::cmp::Reverse(place.size));
    let mut placed: Vec<Place> = Vec::with_capacity(places.len());
    let mut size = 0;
    for mut place in places {
        place.offset = 0;
        let mut neighbours: Vec<(usize, usize)> = placed
            .iter()
            .filter(|other| other.first <= place.last && place.first <= other.last)
            .map(|other| (other.offset, other.offset + other.size))
            .collect();
        neighbours.sort_unstable();
        for (begin, end) in neighbours {
            if begin.saturating_sub(place.offset) >= place.size {
                break;
            }
            place.offset = place.offset.max(end);
        }
        let end = place
            .offset
            .checked_add(place.size)
            .filter(|end| *end <= isize::MAX as usize - alignment)
            .ok_or_else(|| too_large(place.uid))?;
        size = size.max(end);
        placed.push(place);
    }
    Ok(Places { places: placed, size })
}

fn too_large(uid: i64) -> Refusal {
    format!("virtual tensor {uid}: the workspace would be larger than the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(uid: i64, first: usize, last: usize, size: usize) -> Place {
        Place { uid, first, last, size, offset: 0 }
    }

    #[test]
    fn tensors_share_memory_unless_lifetimes_overlap() {
        let lives = vec![place(1, 0, 1, 100), place(2, 1, 2, 300), place(3, 2, 3, 100), place(4, 0, 3, 1)];
        let placed = arrange(lives, 64).unwrap();
        let of = |uid| *placed.places.iter().find(|place| place.uid == uid).unwrap();
        assert_eq!((of(2).offset, of(1).offset, of(3).offset, of(4).offset), (0, 320, 320, 448));
        assert_eq!(placed.size, 512);
    }

    #[test]
    fn sizes_beyond_the_address_space_are_refused() {
        for size in [usize::MAX, isize::MAX as usize] {
            assert!(arrange(vec![place(7, 0, 0, size)], 64).unwrap_err().contains("virtual tensor 7"));
        }
        let two = vec![place(1, 0, 0, isize::MAX as usize / 2 + 64), place(2, 0, 0, isize::MAX as usize / 2)];
        assert!(arrange(two, 64).unwrap_err().contains("address space"));
    }
}
