//! The sizes of a workgroup's work.

use super::super::layout::{Layout, Passing, Way};
use super::super::plan::{HELD, Staging, WIDE, first_to_hide_waits, most_shared, shapes};
use super::super::staging::Rows;
use super::{Attention, Of};
use crate::scalar::Scalar;
use crate::target::{Language, MatrixShape, Role, Target};

/// Subgroups, the tiles of rows of each, and rows that are passed over at once.
const SIZES: [(usize, usize, usize); 5] = [(4, 1, 64), (4, 1, 32), (2, 1, 32), (1, 1, 32), (1, 1, 16)];
/// Where a thread has registers for two tiles of rows, each of the others' tiles is loaded once for both: for short rows, and for longer.
const TWICE: [(usize, usize, usize); 1] = [(4, 2, 64)];
const TWICE_LONG: [(usize, usize, usize); 1] = [(4, 2, 32)];
/// Elements of rows that are in shared memory at once where whole rows do not fit.
const PARTS: [usize; 2] = [64, 32];

pub(super) struct Plan {
    pub(super) shape: MatrixShape,
    /// How many threads share a tile.
    pub(super) subgroup: u32,
    /// Subgroups, and tiles of rows of each.
    pub(super) groups: usize,
    pub(super) tiles: usize,
    /// Rows that are passed over at once.
    pub(super) others: usize,
    /// Elements of queries and of values, with padding to whole tiles.
    pub(super) depths: [usize; 2],
    /// Elements of rows that are in shared memory at once; none if whole rows stay there.
    pub(super) part: Option<usize>,
    /// How the others' rows come to shared memory: beside other work into two arrays that take turns.
    pub(super) staging: Staging,
    /// Whether own rows stay in registers.
    pub(super) held: bool,
    /// Whether scores become an operand in registers, else through shared memory.
    pub(super) in_registers: bool,
}

impl Plan {
    pub(super) fn of(attention: &Attention, of: Of, target: &Target) -> Option<Self> {
        let longest = attention.depth.max(attention.value_depth);
        let is_spirv = target.language == Language::SpirV;
        // Two products are held beside the gradient, so rows count as long earlier than forward. Doubles take two registers each.
        let wide = 2 * longest > WIDE || (is_spirv && attention.operand() == Scalar::F64);
        let shapes = shapes(attention.operand(), target, wide);
        let drops = attention.dropout.is_some();
        // Random numbers take registers.
        let sizes = if drops { SIZES.get(1..).unwrap_or(&SIZES) } else { &SIZES };
        let plans = shapes.iter().flat_map(|(subgroup, shape)| {
            let twice: &[_] = match longest {
                _ if target.language == Language::Hip || !shape.is_matrix() || of == Of::Mask || drops => &[],
                0..=64 => &TWICE,
                65..=128 => &TWICE_LONG,
                _ => &[],
            };
            let least = shape.n.max(shape.k) as usize;
            let depths = [attention.depth, attention.value_depth].map(|depth| depth.next_multiple_of(least));
            let parts = PARTS.map(|part| Some(part.max(least)));
            let whole = [(None, true), (None, false)].into_iter();
            whole.chain(parts.map(|part| (part, false))).flat_map(move |(part, beside)| {
                let beside = beside && target.copies_beside && shape.is_matrix() && of != Of::Mask;
                let twice = twice.iter().filter(move |_| part.is_none());
                twice.chain(sizes).map(move |(groups, tiles, others)| {
                    let others = (*others).max(least);
                    let layout = Layout::of(shape, *subgroup, others);
                    let fits = layout.way == Way::Queries && layout.passing == Passing::Slots;
                    let staging = match () {
                        () if beside => Staging::Beside,
                        () if is_spirv
                            && shape.is_matrix()
                            && part.is_none()
                            && !target.wants_small_kernels() =>
                        {
                            Staging::Ahead
                        }
                        () => Staging::InTurn,
                    };
                    let plan = Self {
                        staging,
                        held: false,
                        shape: shape.clone(),
                        subgroup: *subgroup,
                        groups: *groups,
                        tiles: *tiles,
                        others,
                        depths,
                        part,
                        in_registers: fits && layout.is_ordered() && of != Of::Mask,
                    };
                    Self { held: staging == Staging::Ahead && plan.is_held(of), ..plan }
                })
            })
        });
        let (own, passed) = match of {
            Of::Queries | Of::Mask => (attention.queries, attention.keys),
            Of::Keys | Of::Values => (attention.keys, attention.queries),
        };
        let most = most_shared(target);
        let fits = |plan: &Self| {
            // Few rows need no more subgroups.
            let few = plan.groups == 1 || plan.rows() < 2 * own.max(plan.shape.m as usize);
            // One tile of others makes kernels small, which compilers of CPUs need.
            let least = plan.shape.n.max(plan.shape.k) as usize;
            let small = target.wants_small_kernels() || (is_spirv && !plan.shape.is_matrix());
            let short = plan.others == least || (!small && plan.others < 2 * passed);
            few && short && plan.shared(of) <= most
        };
        let fitting =
            plans.filter(|plan| plan.groups as u32 * plan.subgroup <= target.threads && fits(plan)).collect();
        first_to_hide_waits(fitting, target, |plan| (plan.shared(of), plan.groups))
    }

    /// Rows of the workgroup.
    pub(super) fn rows(&self) -> usize {
        self.groups * self.tiles * self.shape.m as usize
    }

    /// Whether a thread has registers for its own rows, which come by way of the others' arrays.
    fn is_held(&self, of: Of) -> bool {
        let slots = self.shape.fragment(Role::A).map_or(0, |fragment| fragment.slots.len());
        let [depth, value_depth] = self.depths;
        let elements = if of == Of::Values { depth } else { depth + value_depth };
        let registers = elements / self.shape.k as usize * self.tiles * slots * self.shape.operand.size() / 4;
        self.rows() <= self.others && registers <= HELD
    }

    pub(super) fn threads(&self) -> usize {
        self.groups * self.subgroup as usize
    }

    /// Bytes of shared memory, or a little more.
    fn shared(&self, of: Of) -> usize {
        let size = self.shape.operand.size();
        let array = |rows: usize, elements: usize| Rows::sizes(self.shape.operand, rows, elements, false).1;
        let [depth, value_depth] = self.depths;
        let elements = match self.part {
            Some(part) => array(self.rows() + self.others, part),
            None => {
                let first = if self.held { 0 } else { array(self.rows(), depth) };
                let second = if self.held || of == Of::Values { 0 } else { array(self.rows(), value_depth) };
                let others = array(self.others, depth) + array(self.others, value_depth);
                first + second + if self.staging == Staging::Beside { 2 * others } else { others }
            }
        };
        let scores = if of == Of::Mask || self.in_registers { 0 } else { array(self.rows(), self.others) };
        let statistics = 2 * self.rows().max(2 * self.others) * self.shape.sum.size();
        let results = self.rows() * (self.shape.n as usize + 1) * self.shape.sum.size();
        (elements + scores) * size + statistics + results + 128
    }
}
