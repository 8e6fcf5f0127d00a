//! How scores become an operand: in registers where the device's fragments allow it, else through shared memory.

use crate::form::Role;
use crate::target::{Fragment, LanePart, MatrixInstruction, MatrixShape};

/// Which way around scores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Rows are queries: q · kᵀ, and the scores are the left operand.
    Queries,
    /// Rows are keys: k · qᵀ, and the scores are the right operand.
    Keys,
}

/// How the scores of a subgroup become operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// Slot after slot, as they are.
    Slots,
    /// Slot after slot, those of the other half of the subgroup after the own.
    Halves,
    /// Through shared memory.
    Shared,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) way: Way,
    pub(super) passing: Passing,
    /// The place of the key 2^i of a block among the operand's.
    pub(super) bits: Vec<usize>,
}

/// The index of queries of a slot, and that of keys.
fn axes(way: Way, (row, column): (u32, u32)) -> (u32, u32) {
    if way == Way::Queries { (row, column) } else { (column, row) }
}

impl Layout {
    /// The layout for blocks of this many keys.
    pub(super) fn of(shape: &MatrixShape, subgroup: u32, keys: usize) -> Self {
        [Way::Keys, Way::Queries]
            .into_iter()
            .find_map(|way| Self::in_registers(shape, subgroup, keys, way))
            .unwrap_or(Self { way: Way::Queries, passing: Passing::Shared, bits: Vec::new() })
    }

    fn in_registers(shape: &MatrixShape, subgroup: u32, keys: usize, way: Way) -> Option<Self> {
        if shape.instruction == MatrixInstruction::Plain {
            return None;
        }
        let role = if way == Way::Queries { Role::A } else { Role::B };
        let (sum, operand) = (shape.fragment(Role::Accumulator)?, shape.fragment(role)?);
        let key_size = if way == Way::Queries { shape.n } else { shape.m } as usize;
        let [sums, operands] = [keys / key_size, keys / shape.k as usize];
        let [of_sum, of_operand] = [sum.slots.len(), operand.slots.len()];
        let passing = if sums * of_sum == operands * of_operand {
            Passing::Slots
        } else if 2 * sums * of_sum == operands * of_operand && subgroup == 32 && of_operand == 2 * of_sum {
            Passing::Halves
        } else {
            return None;
        };
        // Where each key's score goes; every lane must agree.
        let mut places = vec![None; keys];
        for lane in 0..subgroup {
            for tile in 0..sums {
                for slot in 0..of_sum {
                    let (query, key) = axes(way, sum.at(lane, slot));
                    let key = tile * key_size + key as usize;
                    let targets = match passing {
                        // The other half's copy is in the same place of its own operand.
                        Passing::Halves => {
                            vec![tile * of_operand + slot + if lane < 16 { 0 } else { of_sum }]
                        }
                        _ => vec![tile * of_sum + slot],
                    };
                    for target in targets {
                        let at = operand.at(lane, target % of_operand);
                        let (own, place) = axes(way, at);
                        let place = target / of_operand * shape.k as usize + place as usize;
                        if own != query || places.get(key)?.is_some_and(|known| known != place) {
                            return None;
                        }
                        *places.get_mut(key)? = Some(place);
                    }
                }
            }
        }
        let places: Vec<usize> = places.into_iter().collect::<Option<_>>()?;
        // Each bit of a key's number becomes another bit.
        let bits: Vec<usize> =
            (0..keys.ilog2()).map(|bit| places.get(1 << bit).copied()).collect::<Option<_>>()?;
        let linear = places.iter().enumerate().all(|(key, place)| {
            let sum: usize = bits.iter().enumerate().map(|(bit, to)| (key >> bit & 1) * to).sum();
            sum == *place
        });
        (keys.is_power_of_two() && linear).then_some(Self { way, passing, bits })
    }

    /// Whether keys keep their order.
    pub(super) fn is_ordered(&self) -> bool {
        self.bits.iter().enumerate().all(|(bit, to)| *to == 1 << bit)
    }

    /// A fragment's part of a lane along the queries, and along the keys.
    pub(super) fn parts(&self, fragment: &Fragment) -> (LanePart, LanePart) {
        match self.way {
            Way::Queries => (fragment.row, fragment.column),
            Way::Keys => (fragment.column, fragment.row),
        }
    }

    /// A slot's index along the queries, and along the keys or elements.
    pub(super) fn axes(&self, slot: (u32, u32)) -> (usize, usize) {
        let (query, key) = axes(self.way, slot);
        (query as usize, key as usize)
    }

    /// The size of a tile along the queries, and along the keys or elements.
    pub(super) fn sizes(&self, shape: &MatrixShape) -> (usize, usize) {
        match self.way {
            Way::Queries => (shape.m as usize, shape.n as usize),
            Way::Keys => (shape.n as usize, shape.m as usize),
        }
    }

    /// The roles of queries and scores, and of keys and values.
    pub(super) fn roles(&self) -> [Role; 2] {
        match self.way {
            Way::Queries => [Role::A, Role::B],
            Way::Keys => [Role::B, Role::A],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;
    use crate::target::Target;

    #[test]
    fn scores_stay_in_registers_where_fragments_fit() {
        let passing = |name, scalar| {
            let target = Target::of(name).unwrap();
            let layout = Layout::of(target.shape(scalar).unwrap(), target.subgroup, 64);
            (layout.way, layout.passing.clone(), layout.is_ordered())
        };
        for scalar in [Scalar::F16, Scalar::Bf16] {
            assert_eq!(passing("sm_90", scalar), (Way::Queries, Passing::Slots, true));
            assert_eq!(passing("gfx942", scalar), (Way::Keys, Passing::Slots, true));
            assert_eq!(passing("gfx1200", scalar), (Way::Keys, Passing::Slots, true));
            assert_eq!(passing("gfx950", scalar), (Way::Keys, Passing::Slots, false));
            assert_eq!(passing("gfx1100", scalar), (Way::Keys, Passing::Halves, false));
            assert_eq!(passing("gfx1030", scalar).1, Passing::Shared);
        }
        assert_eq!(passing("gfx90a", Scalar::F32).1, Passing::Slots);
    }
}
