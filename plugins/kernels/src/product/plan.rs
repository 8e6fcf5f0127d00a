//! How a product is computed, from a model of the device.

use super::parts::{Adder, Parts};
use super::tiling::Tiling;
use crate::scalar::Scalar;
use crate::target::{Language, MatrixInstruction, MatrixShape, Role, Target};

/// A product to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the dot products.
    pub k: usize,
    /// Products of these sizes.
    pub batch: usize,
    /// The type of operands.
    pub operand: Scalar,
    /// Whether the place of each vector of an operand is computed.
    pub gathered: bool,
    /// How dot products are divided.
    pub sharing: Sharing,
}

/// How dot products are divided into parts, whose sums are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Not at all.
    Never,
    /// As is fastest.
    Freely,
    /// As is fastest for products of these sizes, whatever the own ones are.
    Like {
        /// Rows of the result.
        m: usize,
        /// Its columns.
        n: usize,
        /// Products of these sizes.
        batch: usize,
    },
}

/// How a product is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What a workgroup computes.
    pub tiling: Tiling,
    /// The parts of dot products.
    pub parts: Parts,
}

/// The most bytes of sums that workgroups leave for each other.
const MOST_SUMS: usize = 32 << 20;
/// The fewest stages that a part is worth.
const FEWEST_STAGES: usize = 4;
/// The most parts whose sums one thread adds.
const MOST_IN_ORDER: usize = 32;
/// Vectors that a thread brings in a stage where their places are computed: more cost registers.
const GATHERED: usize = 12;

/// What a compute unit does, in multiplications.
struct Rates {
    /// What it multiplies in a cycle.
    multiplies: f64,
    /// The price of an element of an operand.
    element: f64,
    /// Whether elements are brought beside multiplications, so that the longer of both counts.
    beside: bool,
}

/// Cycles that a workgroup costs before it multiplies and after that, of the barrier of a stage, and of launching a kernel.
const BEGIN: f64 = 500.0;
const STAGE: f64 = 60.0;
const LAUNCH: f64 = 5000.0;
/// Bytes of sums that all units write and read in a cycle.
const SUMS: f64 = 2000.0;
/// Multiplications that reading an element from shared memory takes the time of, with cooperative matrices on an H200.
const SHARED_READS: f64 = 34.0;
/// How much longer a workgroup takes that nothing else hides waits of.
const ALONE: f64 = 1.5;

impl Rates {
    fn of(target: &Target, shape: &MatrixShape) -> Self {
        let size = shape.operand.size() as f64;
        match (target.language, shape.instruction) {
            // Measured on an H200: what is brought from the L2 cache is the bound.
            (Language::Cuda, MatrixInstruction::MmaSync) => {
                let multiplies = 2780.0 / size;
                Self { multiplies, element: multiplies * size / 23.5, beside: true }
            }
            (_, MatrixInstruction::Mfma(_)) => Self { multiplies: 1024.0, element: 40.0, beside: false },
            (_, MatrixInstruction::Plain) => Self { multiplies: 128.0, element: 40.0, beside: false },
            _ => Self { multiplies: 512.0, element: 40.0, beside: false },
        }
    }
}

/// The tilings that a target's products have.
fn tilings(target: &Target, work: &Work) -> Vec<Tiling> {
    let operand = work.operand;
    let shape = match target.shape(operand) {
        Some(shape) if shape.sum == Scalar::F32 || shape.sum == Scalar::I32 => shape.clone(),
        // Doubles take two registers each.
        _ if target.language == Language::SpirV && operand == Scalar::F64 => target.narrow(operand),
        _ => target.plain(operand),
    };
    let plain = shape.instruction == MatrixInstruction::Plain;
    let cooperative = shape.instruction == MatrixInstruction::Cooperative;
    let depth = if plain { 16 } else { (64 / operand.size()).max(shape.k as usize) };
    let whole: ([usize; 2], [usize; 2]) = match (target.language, shape.instruction) {
        (_, MatrixInstruction::Plain) => ([2, 1], [2, if target.subgroup > 32 { 2 } else { 4 }]),
        (Language::Cuda, _) | (_, MatrixInstruction::Mfma(_) | MatrixInstruction::Cooperative) => {
            ([4, 4], [2, 2])
        }
        _ => ([4, 2], [2, 4]),
    };
    let [down, across] = whole.0;
    let mut sizes = vec![
        whole,
        ([down.div_ceil(2), across], whole.1),
        ([down, across.div_ceil(2)], whole.1),
        ([down.div_ceil(2), across.div_ceil(2)], whole.1),
        ([1, across.div_ceil(2)], [1, 4]),
        ([1, 1], [1, 4]),
        ([1, 1], [2, 2]),
        ([1, 1], [1, 2]),
    ];
    // Deeper stages mean fewer barriers, and hide as much with fewer of them.
    let mut kinds = vec![(depth, if target.copies_beside { 4 } else { 2 })];
    if target.copies_beside && !plain {
        kinds.insert(0, (2 * depth, 3));
        // Three elements of a window beside each other, and few channels.
        sizes.push(([4, 3], [1, 4]));
    }
    if cooperative {
        // Measured on an H200: a deep stage with two barriers beats two stages of half its depth.
        kinds.insert(0, (2 * depth, 1));
    }
    let mut all = Vec::new();
    for (tiles, groups) in sizes {
        for (place, (depth, stages)) in kinds.iter().enumerate() {
            let depth = (*depth).min(work.k.next_multiple_of(shape.k as usize));
            let tiling = Tiling { shape: shape.clone(), tiles, groups, depth, stages: *stages };
            let threads = tiling.threads(target);
            let vectors = (tiling.rows() + tiling.columns()) * depth * operand.size() / 16 / threads as usize;
            let is_last = place + 1 == kinds.len();
            let fits = tiling.shared() <= target.shared && threads <= target.threads;
            let is_few = is_last || !work.gathered || vectors <= GATHERED;
            if fits && is_few && !all.contains(&tiling) {
                all.push(tiling);
            }
        }
    }
    if all.is_empty() {
        all.push(Tiling { shape, tiles: [1, 1], groups: [1, 1], depth, stages: 2 });
    }
    all
}

/// The workgroups that a unit holds at once.
fn residents(target: &Target, tiling: &Tiling, in_turn: bool) -> usize {
    let threads = tiling.threads(target) as usize;
    let slots = |role| {
        let (rows, columns) = tiling.shape.dims(role);
        let shared_out = (rows * columns / target.subgroup) as usize;
        tiling.shape.fragment(role).map_or(shared_out, |fragment| fragment.slots.len())
    };
    let [down, across] = tiling.tiles;
    let operands = (down * slots(Role::A) + across * slots(Role::B)) * tiling.shape.operand.size() / 4;
    // Places and counters take the rest.
    let sums = down * across * slots(Role::Accumulator) * if in_turn { 2 } else { 1 };
    let registers = sums + operands + 40;
    let by_registers = (target.registers_of_unit as usize * 1024) / (registers.next_multiple_of(8) * threads);
    let by_shared = target.shared_of_unit / (tiling.shared() + 1024);
    by_registers.min(by_shared).min(2048 / threads).max(1)
}

impl Plan {
    /// The plan for a device.
    pub fn of(target: &Target, work: &Work) -> Self {
        let all = tilings(target, work);
        let shape = all.first().map(|tiling| &tiling.shape);
        let sharing = match work.sharing {
            // Whole numbers have one sum in any order.
            _ if shape.is_some_and(|shape| shape.sum == Scalar::I32) => Sharing::Freely,
            // The elements of such tiles of sums are not seen, so that a workgroup cannot add parts.
            Sharing::Like { .. } if shape.is_some_and(MatrixShape::is_opaque) => Sharing::Never,
            own => own,
        };
        let alike = match sharing {
            Sharing::Like { m, n, batch } => {
                let like = Work { m, n, batch, sharing: Sharing::Freely, ..*work };
                let counts = |tiling: &Tiling| counts(target, &like, tiling, MOST_IN_ORDER);
                let parts = Self::best(target, &like, &all, 0, counts).parts;
                // Whole stages of each tiling, so that any may be the best.
                let deepest = all.iter().map(|tiling| tiling.depth).max().unwrap_or(1);
                Some(Parts::of(work.k, deepest, parts.count))
            }
            _ => None,
        };
        Self::best(target, work, &all, target.tiles, |tiling| match alike {
            Some(parts) if parts.count > 1 => alike_parts(work, tiling, parts),
            None if sharing == Sharing::Freely => counts(target, work, tiling, usize::MAX),
            _ => vec![Parts::of(work.k, tiling.depth, 1)],
        })
    }

    /// The best of some tilings with the parts that each may have; after so many better ones, or the last.
    fn best(
        target: &Target,
        work: &Work,
        all: &[Tiling],
        better: usize,
        parts: impl Fn(&Tiling) -> Vec<Parts>,
    ) -> Self {
        let mut ranked: Vec<(f64, &Tiling, Parts)> = Vec::new();
        for tiling in all {
            let of = |parts: Parts| (cost(target, work, tiling, &parts), tiling, parts);
            ranked.extend(parts(tiling).into_iter().map(of).min_by(|a, b| a.0.total_cmp(&b.0)));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = ranked.len().saturating_sub(1);
        let best = ranked.into_iter().nth(better.min(last));
        let first = || {
            let tiling = tilings(target, work).swap_remove(0);
            Self { parts: Parts::of(work.k, tiling.depth, 1), tiling }
        };
        best.map_or_else(first, |(_, tiling, parts)| Self { tiling: tiling.clone(), parts })
    }
}

/// The workgroups of a part.
fn tiles(work: &Work, tiling: &Tiling) -> usize {
    work.m.div_ceil(tiling.rows()) * work.n.div_ceil(tiling.columns()) * work.batch
}

/// Whether there is memory for the sums of so many parts.
fn have_room(work: &Work, tiling: &Tiling, parts: usize) -> bool {
    parts <= MOST_SUMS / tiling.shape.sum.size() / (work.m * work.n * work.batch).max(1)
}

/// The parts that are worth comparing, up to `most`.
fn counts(target: &Target, work: &Work, tiling: &Tiling, most: usize) -> Vec<Parts> {
    let most = most.min(work.k / tiling.depth / FEWEST_STAGES);
    let tiles = tiles(work, tiling).max(1);
    let filled = (1..=residents(target, tiling, false)).map(|each| target.units_or_usual() * each / tiles);
    let several = [2, 3, 4].into_iter().chain(filled);
    let several = several.filter(|count| (2..=most).contains(count) && have_room(work, tiling, *count));
    std::iter::once(1).chain(several).map(|count| Parts::of(work.k, tiling.depth, count)).collect()
}

/// Given parts, if they are whole stages: by a workgroup, or by several where there is memory.
fn alike_parts(work: &Work, tiling: &Tiling, parts: Parts) -> Vec<Parts> {
    let fits = parts.length.is_multiple_of(tiling.depth);
    let adders = [(Adder::Workgroup, fits), (Adder::Thread, fits && have_room(work, tiling, parts.count))];
    adders.into_iter().filter(|(_, fits)| *fits).map(|(adder, _)| Parts { adder, ..parts }).collect()
}

/// Estimated time, in multiplications of a unit.
fn cost(target: &Target, work: &Work, tiling: &Tiling, parts: &Parts) -> f64 {
    let (sharers, holds) = (parts.sharers(), residents(target, tiling, parts.in_turn()));
    let rates = Rates::of(target, &tiling.shape);
    let (rows, columns) = (tiling.rows() as f64, tiling.columns() as f64);
    let (multiplied, brought) = (rows * columns, (rows + columns) * rates.element);
    let step = if rates.beside { multiplied.max(brought) } else { multiplied + brought };
    let step = if tiling.shape.instruction == MatrixInstruction::Cooperative {
        // Tiles come from shared memory at each step of k.
        let [down, across] = tiling.tiles;
        let (m, n) = (tiling.shape.m as f64 * down as f64, tiling.shape.n as f64 * across as f64);
        step * (1.0 + SHARED_READS * (m + n) / (m * n))
    } else {
        // A workgroup of few threads hides less.
        step * (1.0 + 32.0 / f64::from(tiling.threads(target)))
    };
    let barriers = if tiling.stages == 1 { 2.0 } else { 1.0 };
    let step = step + barriers * STAGE * rates.multiplies / tiling.depth as f64;
    let workgroups = (tiles(work, tiling) * sharers).div_ceil(target.units_or_usual());
    let rest = workgroups % holds;
    let busy = (workgroups - rest) as f64 * if holds == 1 { ALONE } else { 1.0 };
    let busy = busy + if rest == 1 { ALONE } else { rest as f64 };
    let begun = workgroups as f64 * BEGIN * rates.multiplies;
    let length = if sharers > 1 { parts.length.min(work.k) } else { work.k };
    let mut all = busy * step * length as f64 + begun;
    if sharers > 1 {
        let bytes = work.m * work.n * work.batch * sharers * tiling.shape.sum.size() * 2;
        all += (LAUNCH + bytes as f64 / SUMS) * rates.multiplies;
    }
    all
}
