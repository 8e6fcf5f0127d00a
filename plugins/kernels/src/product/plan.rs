//! How a product is computed, from a model of the device.

use super::parts::Parts;
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
    /// Whether workgroups may share dot products.
    pub shares: bool,
}

/// How a product is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What a workgroup computes.
    pub tiling: Tiling,
    /// How many workgroups share a dot product.
    pub parts: usize,
}

/// The most bytes of sums that workgroups leave for each other.
const MOST_SUMS: usize = 32 << 20;
/// The fewest stages that a part is worth.
const FEWEST_STAGES: usize = 4;
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
            if fits && (is_last || !work.gathered || vectors <= GATHERED) {
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
fn residents(target: &Target, tiling: &Tiling) -> usize {
    let threads = tiling.threads(target) as usize;
    let slots = |role| {
        let (rows, columns) = tiling.shape.dims(role);
        let shared_out = (rows * columns / target.subgroup) as usize;
        tiling.shape.fragment(role).map_or(shared_out, |fragment| fragment.slots.len())
    };
    let [down, across] = tiling.tiles;
    let operands = (down * slots(Role::A) + across * slots(Role::B)) * tiling.shape.operand.size() / 4;
    // Places and counters take the rest.
    let registers = down * across * slots(Role::Accumulator) + operands + 40;
    let by_registers = (target.registers_of_unit as usize * 1024) / (registers.next_multiple_of(8) * threads);
    let by_shared = target.shared_of_unit / (tiling.shared() + 1024);
    by_registers.min(by_shared).min(2048 / threads).max(1)
}

impl Plan {
    /// The plan for a device.
    pub fn of(target: &Target, work: &Work) -> Self {
        let mut best: Option<(f64, Self)> = None;
        for tiling in tilings(target, work) {
            let tiles = work.m.div_ceil(tiling.rows()) * work.n.div_ceil(tiling.columns()) * work.batch;
            let holds = residents(target, &tiling);
            for parts in counts(target, work, &tiling, tiles, holds) {
                let parts = Parts::of(work.k, tiling.depth, parts);
                let cost = cost(target, work, &tiling, tiles, holds, &parts);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, Self { tiling: tiling.clone(), parts: parts.count }));
                }
            }
        }
        let first = || tilings(target, work).swap_remove(0);
        best.map_or_else(|| Self { tiling: first(), parts: 1 }, |(_, plan)| plan)
    }
}

/// The numbers of parts that are worth comparing.
fn counts(target: &Target, work: &Work, tiling: &Tiling, tiles: usize, holds: usize) -> Vec<usize> {
    let mut all = vec![1];
    if !work.shares {
        return all;
    }
    let size = tiling.shape.sum.size();
    let most =
        (MOST_SUMS / size / (work.m * work.n * work.batch).max(1)).min(work.k / tiling.depth / FEWEST_STAGES);
    let filled = (1..=holds).map(|each| target.units_or_usual() * each / tiles.max(1));
    all.extend([2, 3, 4].into_iter().chain(filled).filter(|count| (2..=most).contains(count)));
    all
}

/// Estimated time, in multiplications of a unit.
fn cost(target: &Target, work: &Work, tiling: &Tiling, tiles: usize, holds: usize, parts: &Parts) -> f64 {
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
    let workgroups = (tiles * parts.count).div_ceil(target.units_or_usual());
    let rest = workgroups % holds;
    let busy = (workgroups - rest) as f64 * if holds == 1 { ALONE } else { 1.0 };
    let busy = busy + if rest == 1 { ALONE } else { rest as f64 };
    let begun = workgroups as f64 * BEGIN * rates.multiplies;
    let mut all = busy * step * parts.length.min(work.k) as f64 + begun;
    if parts.count > 1 {
        let bytes = work.m * work.n * work.batch * parts.count * tiling.shape.sum.size() * 2;
        all += (LAUNCH + bytes as f64 / SUMS) * rates.multiplies;
    }
    all
}
