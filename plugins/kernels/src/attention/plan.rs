//! The sizes of a workgroup's work, from a model of the device.

use super::Attention;
use super::layout::{Layout, Passing};
use crate::scalar::Scalar;
use crate::target::{Language, MatrixShape, Target};

/// The sizes of a workgroup's work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Subgroups, and tiles of queries of each.
    pub(super) groups: usize,
    pub(super) tiles: usize,
    /// Keys of a block.
    pub(super) keys: usize,
}

/// The most shared memory: two workgroups should fit a compute unit.
const SHARED: usize = 100 << 10;
/// Registers that a thread may hold queries in.
pub(super) const HELD: usize = 64;

pub(super) struct Plan {
    pub(super) shape: MatrixShape,
    pub(super) sizes: Sizes,
    pub(super) layout: Layout,
    /// The elements of queries and of values, with padding to whole tiles.
    pub(super) depth: usize,
    pub(super) value_depth: usize,
    /// Whether keys and values are fetched beside other work, each into an array of its own.
    pub(super) beside: bool,
}

impl Plan {
    pub(super) fn of(attention: &Attention, target: &Target) -> Option<Self> {
        let operand = attention.q.scalar;
        let known = |shape: &&MatrixShape| {
            shape.operand == operand && shape.sum == Scalar::F32 && shape.fragments.is_some()
        };
        let wide = attention.depth.max(attention.value_depth) > 128;
        let mut shape = target.shapes.iter().find(known).cloned().unwrap_or_else(|| target.plain(operand));
        if wide && !shape.is_matrix() {
            shape = target.narrow(operand);
        }
        let cuda = target.language == Language::Cuda && shape.is_matrix();
        let all: &[(usize, usize, usize)] = match (cuda, shape.is_matrix()) {
            (true, _) if attention.depth.max(attention.value_depth) <= 64 => {
                &[(4, 2, 64), (4, 1, 64), (2, 1, 32), (1, 1, 32)]
            }
            (true, _) => &[(4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32)],
            (_, true) if wide => &[(4, 1, 16), (2, 1, 16), (1, 1, 16)],
            (_, true) if target.subgroup == 32 && attention.depth.max(attention.value_depth) > 64 => {
                &[(4, 1, 32), (2, 1, 32), (1, 1, 16)]
            }
            (_, true) => &[(4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32), (1, 1, 16)],
            _ => &[(2, 1, 32), (1, 1, 32)],
        };
        let plans = all.iter().map(|(groups, tiles, keys)| {
            let least = shape.n.max(shape.m).max(shape.k) as usize;
            let sizes = Sizes { groups: *groups, tiles: *tiles, keys: (*keys).max(least) };
            let layout = Layout::of(&shape, target.subgroup, sizes.keys);
            let (_, size) = layout.sizes(&shape);
            let depth = attention.depth.next_multiple_of(shape.k as usize);
            let value_depth = attention.value_depth.next_multiple_of(size);
            let beside = target.copies_beside;
            Self { shape: shape.clone(), sizes, layout, depth, value_depth, beside }
        });
        let few = |plan: &Self| {
            // A small number of queries needs no more subgroups.
            plan.sizes.groups == 1
                || plan.queries() < 2 * attention.queries.max(plan.layout.sizes(&plan.shape).0)
        };
        let fitting: Vec<Self> = plans.filter(|plan| plan.shared() <= target.shared.min(SHARED)).collect();
        let first = fitting.iter().position(few).unwrap_or(fitting.len().saturating_sub(1));
        fitting.into_iter().nth(first)
    }

    pub(super) fn queries(&self) -> usize {
        self.sizes.groups * self.sizes.tiles * self.layout.sizes(&self.shape).0
    }

    /// Bytes of shared memory, or a little more.
    fn shared(&self) -> usize {
        let size = self.shape.operand.size();
        let pad = 2 * (16 / size);
        let turned = (self.sizes.keys + pad) * self.value_depth;
        let values = turned.max(self.sizes.keys * (self.value_depth + pad));
        let scores =
            if self.layout.passing == Passing::Shared { self.queries() * (self.sizes.keys + pad) } else { 0 };
        let keys = self.sizes.keys * (self.depth + pad);
        let both = if self.beside { keys + values } else { keys.max(values) };
        (self.queries() * (self.depth + pad) + both + scores) * size + 64
    }
}
