//! The sizes of a workgroup's work, from a model of the device.

use std::collections::BTreeSet;

use super::Attention;
use super::layout::{Layout, Passing, Way};
use super::staging::Rows;
use crate::scalar::Scalar;
use crate::target::{Language, MatrixInstruction, MatrixShape, Role, Target};

/// The sizes of a workgroup's work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Subgroups, and tiles of queries of each.
    pub(super) groups: usize,
    pub(super) tiles: usize,
    /// Keys of a block.
    pub(super) keys: usize,
}

/// Shared memory that a workgroup may always have.
const SHARED: usize = 100 << 10;
/// Registers that a thread may hold queries in.
pub(super) const HELD: usize = 64;
/// Elements of long rows.
pub(super) const WIDE: usize = 128;
/// The longest rows of which a thread holds two tiles of queries.
const LONG_TWICE: usize = 64;
/// Threads that share a tile where any number may.
const SMALL: u32 = 8;
const LARGE: u32 = 32;

/// How keys and values come to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Staging {
    /// One after the other, into one array.
    InTurn,
    /// Copied beside other work, each into an array of its own.
    Beside,
    /// As [`Staging::Beside`], a whole block ahead, into arrays that take turns.
    Turns,
    /// Loaded into registers beside other work and stored behind it, each into an array of its own.
    Ahead,
}

pub(super) struct Plan {
    pub(super) shape: MatrixShape,
    pub(super) sizes: Sizes,
    pub(super) layout: Layout,
    /// The elements of queries and of values, with padding to whole tiles.
    pub(super) depth: usize,
    pub(super) value_depth: usize,
    /// How keys and values come to shared memory.
    pub(super) staging: Staging,
    /// Whether queries are in the keys' array before these are, and then in registers only.
    pub(super) holds_queries: bool,
    /// How many threads share a tile.
    pub(super) subgroup: u32,
    /// Whether they exchange numbers through shared memory.
    pub(super) exchanges: bool,
}

/// The shapes that a kernel can use, the best first, each with the threads that share a tile. `wide` is whether rows are long.
pub(crate) fn shapes(operand: Scalar, target: &Target, wide: bool) -> Vec<(u32, MatrixShape)> {
    let real = if operand == Scalar::F64 { Scalar::F64 } else { Scalar::F32 };
    let known =
        |shape: &&MatrixShape| shape.operand == operand && shape.sum == real && shape.fragments.is_some();
    let of = |device: &Target| {
        let shape = device.shapes.iter().find(known).cloned().unwrap_or_else(|| device.plain(operand));
        if wide && !shape.is_matrix() { device.narrow(operand) } else { shape }
    };
    if target.language != Language::SpirV {
        let first = of(target);
        let narrow = (!first.is_matrix()).then(|| target.narrow(operand));
        return [Some(first), narrow].into_iter().flatten().map(|shape| (target.subgroup, shape)).collect();
    }
    // Vulkan says how workgroups are divided only with cooperative matrices. Tiles of ordinary instructions do not ask: any number of threads
    // may share one.
    let subgroup = target.subgroup.clamp(SMALL, LARGE);
    let device = Target { subgroup, shapes: Vec::new(), ..target.clone() };
    let small = Target { subgroup: SMALL, ..device.clone() };
    let mut all: Vec<(u32, MatrixShape)> =
        target.shapes.iter().filter(known).map(|shape| (target.subgroup, shape.clone())).collect();
    all.retain(|(_, shape)| shape.is_matrix());
    all.truncate(1);
    if !device.wants_small_kernels() {
        all.extend([(subgroup, of(&device)), (subgroup, device.narrow(operand))]);
    }
    all.push((SMALL, small.narrow(operand)));
    all
}

/// The units of a compute unit of AMD, or of a workgroup processor, that execute waves.
const SIMDS: usize = 4;

/// The most shared memory of a workgroup: two should fit a compute unit, and drivers keep a kilobyte of each one's.
pub(super) fn most_shared(target: &Target) -> usize {
    target.shared.min(SHARED.max((target.shared_of_unit / 2).saturating_sub(1024)))
}

/// The first plan whose shared memory, of so many subgroups, leaves room for two waves of each unit of a compute unit, so that one computes
/// while another waits; else the first that leaves room for more than one, else the first.
pub(super) fn first_to_hide_waits<P>(
    plans: Vec<P>,
    target: &Target,
    sizes: impl Fn(&P) -> (usize, usize),
) -> Option<P> {
    let waves = |plan: &P| {
        let (shared, groups) = sizes(plan);
        if target.language == Language::Hip {
            target.shared_of_unit / shared.max(1) * groups
        } else {
            usize::MAX
        }
    };
    let hides = |least: usize| plans.iter().position(|plan| waves(plan) >= least);
    let first = hides(2 * SIMDS).or_else(|| hides(SIMDS + 1)).unwrap_or(0);
    plans.into_iter().nth(first)
}

/// Whether a thread has registers for two tiles of long queries, whose elements stay in shared memory: if scores need nothing but a band.
fn takes_turns(attention: &Attention, target: &Target) -> bool {
    let Attention { mask, slopes, dropout, block_mask, factors, largest, is_invariant, .. } = attention;
    let is_plain = mask.is_none() && slopes.is_none() && dropout.is_none() && block_mask.is_none();
    let has_more = *factors != [None; 3] || *largest != [false; 2] || *is_invariant;
    target.copies_beside && is_plain && !has_more
}

/// Subgroups, tiles of queries of each and keys of a block, the best first.
fn sizes(attention: &Attention, target: &Target, shape: &MatrixShape) -> &'static [(usize, usize, usize)] {
    let longest = attention.depth.max(attention.value_depth);
    let is_matrix = shape.is_matrix();
    let of_nvidia = target.language == Language::Cuda || shape.instruction == MatrixInstruction::Cooperative;
    if target.wants_small_kernels() || (target.language == Language::SpirV && !is_matrix) {
        return &[(4, 1, 16), (2, 1, 16), (1, 1, 16)];
    }
    match (of_nvidia && is_matrix, is_matrix) {
        // Random numbers take registers.
        (true, _) if longest <= LONG_TWICE && attention.dropout.is_none() => {
            &[(4, 2, 64), (4, 1, 64), (2, 1, 32), (1, 1, 32)]
        }
        (true, _) if longest <= WIDE && takes_turns(attention, target) => {
            &[(4, 2, 64), (4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32), (1, 1, 16)]
        }
        (true, _) => &[(4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32), (1, 1, 16)],
        (_, true) if longest > WIDE => &[(4, 1, 16), (2, 1, 16), (1, 1, 16)],
        (_, true) if target.subgroup == 32 && (longest > 64 || attention.dropout.is_some()) => {
            &[(4, 1, 32), (2, 1, 32), (1, 1, 16)]
        }
        (_, true) => &[(4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32), (1, 1, 16)],
        _ if target.language == Language::Hip => &[(2, 1, 32), (4, 1, 32), (8, 1, 32), (1, 1, 32)],
        _ => &[(2, 1, 32), (1, 1, 32)],
    }
}

impl Plan {
    pub(super) fn of(attention: &Attention, target: &Target) -> Option<Self> {
        let longest = attention.depth.max(attention.value_depth);
        let is_spirv = target.language == Language::SpirV;
        // Doubles take two registers each, and operands of floats twice those of halves. 64 threads hold few rows of long ones.
        let is_hip = target.language == Language::Hip;
        let wide = match attention.operand() {
            Scalar::F64 if is_spirv => true,
            Scalar::F32 if is_hip => 2 * longest > WIDE,
            _ if is_hip && target.subgroup > 32 => 2 * longest > WIDE,
            _ => longest > WIDE,
        };
        let shapes = shapes(attention.operand(), target, wide);
        let plans = shapes.iter().flat_map(|(subgroup, shape)| {
            sizes(attention, target, shape).iter().map(|(groups, tiles, keys)| {
                let least = shape.n.max(shape.m).max(shape.k) as usize;
                let sizes = Sizes { groups: *groups, tiles: *tiles, keys: (*keys).max(least) };
                let layout = Layout::of(shape, *subgroup, sizes.keys);
                let (_, size) = layout.sizes(shape);
                let staging = match () {
                    () if *tiles > 1 && longest > LONG_TWICE => Staging::Turns,
                    () if target.copies_beside => Staging::Beside,
                    () if is_spirv && shape.is_matrix() && !target.wants_small_kernels() => Staging::Ahead,
                    () => Staging::InTurn,
                };
                let mut plan = Self {
                    shape: shape.clone(),
                    sizes,
                    layout,
                    subgroup: *subgroup,
                    depth: attention.depth.next_multiple_of(shape.k as usize),
                    value_depth: attention.value_depth.next_multiple_of(size),
                    staging,
                    holds_queries: false,
                    exchanges: is_spirv && !shape.is_matrix(),
                };
                plan.holds_queries = plan.is_held(target)
                    && match staging {
                        Staging::Ahead => plan.queries() <= sizes.keys,
                        // Keys and values have one array, which can be as large as queries need.
                        Staging::InTurn => is_hip,
                        Staging::Beside | Staging::Turns => false,
                    };
                plan
            })
        });
        let few = |plan: &Self| {
            // A small number of queries needs no more subgroups.
            plan.sizes.groups == 1
                || plan.queries() < 2 * attention.queries.max(plan.layout.sizes(&plan.shape).0)
        };
        let mut fitting: Vec<Self> = plans.filter(|plan| plan.shared() <= most_shared(target)).collect();
        if let (true, Some(first)) = (attention.is_invariant, fitting.first()) {
            let sums = |plan: &Self| (plan.sizes.keys, plan.subgroup, plan.shape.clone());
            let first = sums(first);
            fitting.retain(|plan| sums(plan) == first);
        }
        if !fitting.iter().any(few) {
            return fitting.pop();
        }
        fitting.retain(few);
        first_to_hide_waits(fitting, target, |plan| (plan.shared(), plan.sizes.groups))
    }

    /// Whether a thread has registers for its queries.
    pub(super) fn is_held(&self, target: &Target) -> bool {
        let [of_queries, _] = self.layout.roles();
        let slots = self.shape.fragment(of_queries).map_or(0, |fragment| fragment.slots.len());
        let steps = self.depth / self.shape.k as usize;
        // A thread of RDNA needs the registers for sums.
        let most = if target.language == Language::Hip { HELD / 2 } else { HELD };
        let is_long = self.staging == Staging::Turns;
        !is_long
            && self.shape.is_matrix()
            && steps * self.sizes.tiles * slots * self.shape.operand.size() / 4 <= most
    }

    pub(super) fn queries(&self) -> usize {
        self.sizes.groups * self.sizes.tiles * self.layout.sizes(&self.shape).0
    }

    /// How many numbers lanes exchange.
    pub(super) fn exchanged(&self) -> usize {
        let slots = self.shape.fragment(Role::Accumulator).map_or(&[] as &[_], |fragment| &fragment.slots);
        let rows: BTreeSet<usize> = slots.iter().map(|slot| self.layout.axes(*slot).0).collect();
        self.sizes.tiles * rows.len() * self.sizes.groups * self.subgroup as usize
    }

    /// Bytes of shared memory, or a little more.
    fn shared(&self) -> usize {
        let array = |rows: usize, elements: usize, turned: bool| {
            Rows::sizes(self.shape.operand, rows, elements, turned).1
        };
        let keys = array(self.sizes.keys, self.depth, false);
        let values = array(self.sizes.keys, self.value_depth, self.layout.way == Way::Keys);
        let scores = match self.layout.passing {
            Passing::Shared => array(self.queries(), self.sizes.keys, false),
            _ => 0,
        };
        let queries = array(self.queries(), self.depth, false);
        let (queries, within) = if self.holds_queries { (0, queries) } else { (queries, 0) };
        let both = match self.staging {
            Staging::InTurn => keys.max(values).max(within),
            Staging::Turns => 2 * (keys + values),
            Staging::Beside | Staging::Ahead => keys + values,
        };
        let exchanged = if self.exchanges { self.exchanged() * self.shape.sum.size() } else { 0 };
        (queries + both + scores) * self.shape.operand.size() + exchanged + 64
    }
}
