//! Whether Winograd is probably the fastest algorithm, and with which tiles.

use crate::conv::cost::Cost;
use crate::conv::operands::Operands;
use crate::conv::winograd::kernel::square;
use crate::conv::winograd::transform::Tile;
use crate::gemm::context::Context;
use crate::settings::Settings;
use crate::simd::array::Each;
use crate::simd::isa::Isa;

/// With fewer input or output channels the transforms take too long, whatever the estimate says.
const LEAST_CHANNELS: usize = 16;

/// Tiles multiplied at once; a partial group costs as much.
const TOGETHER: f64 = 16.0;

/// Cost of a multiplication relative to other algorithms, whose tiles have more of them: usually, and if the
/// transformed weights exceed the cache. For stride 1 and stride 2.
const PRODUCT: [[f64; 2]; 2] = [[1.03, 1.06], [1.05, 1.22]];

const NEAR: f64 = (1 << 19) as f64;

/// Cost, in multiplications, of copying and transforming a tile, per input and output channel: F(2 × 2) with stride
/// 1, with stride 2, and F(4 × 4); then of a row of tiles.
const TILE: [f64; 3] = [150.0, 250.0, 350.0];

const LINE: [f64; 3] = [0.0, 0.0, 1100.0];

/// Cost of reading a weight for the first time, and a transformed one: usually, and for constant weights that
/// exceed the cache on processors with full 512-bit vector units, which multiply more in that time.
const NUMBER: f64 = 5.0;

const TRANSFORMED: [f64; 2] = [7.0, 20.0];

/// Cost of transforming a 3 × 3 filter, per 16 transformed elements, and of packing it for other algorithms,
/// if each execution does so.
const FILTER: [f64; 2] = [300.0, 100.0];

/// Cost of writing a transformed weight to new memory, as the first execution does; and the cost of an
/// execution of about 5 ms, the first of which should take at most three times as long as later ones.
const FIRST: f64 = 400.0;

const LONG: f64 = 3e8;

/// The largest acceptable part of other algorithms' time, and for F(4 × 4) of F(2 × 2)'s, as it is less
/// exact.
const SHARE: f64 = 0.9;

/// With more workers than this that share images, on processors with full 512-bit vector units, transforms take longer than
/// they save: each element then passes between the caches of several cores.
const MOST_WORKERS: usize = 8;

/// The numbers of images between which a choice for batches of any size is balanced.
const BATCHES: [usize; 2] = [1, 16];

/// Elements of the transformed weights.
fn weight_elements(operands: &Operands, tile: Tile) -> f64 {
    (tile.positions() * operands.channels * operands.rows) as f64
}

/// Estimated cost with tiles of `outputs` × `outputs` for each of `workers`, in multiplications; `None` if no such tile exists.
///
/// Workers divide the tiles by vectors, so that few tiles are not divided. Beyond that they divide the output channels, and each
/// transforms the input.
fn cost(
    operands: &Operands,
    (images, outputs): (usize, usize),
    isa: Isa,
    constant_weights: bool,
    workers: usize,
) -> Option<f64> {
    let windows = &operands.windows;
    let tile = Tile::of(outputs, windows.stride[1])?;
    let along = |side: usize| side.div_ceil(outputs) as f64;
    let [depth, height, width] = windows.output;
    let lines = (images * depth) as f64 * along(height);
    let tiles = lines * along(width);
    let (positions, channels, rows) =
        (tile.positions() as f64, operands.channels as f64, operands.rows as f64);
    let is_far = weight_elements(operands, tile) > NEAR;
    let products = PRODUCT[tile.stride - 1][usize::from(is_far)] * (tiles / TOGETHER).ceil() * TOGETHER;
    let read = TRANSFORMED[usize::from(constant_weights && is_far && isa.has_whole_vectors())];
    let transform = if constant_weights { 0.0 } else { FILTER[0] / 16.0 };
    let form = if outputs == 2 { tile.stride - 1 } else { 2 };
    let transformed = tiles * TILE[form] + lines * LINE[form];
    let multiplied = channels * rows * positions * (products + read + transform) + transformed * rows;
    let kernel = Context::<f32>::of(isa);
    let blocks = (tiles as usize).div_ceil(kernel.lanes).saturating_mul(operands.groups).min(workers);
    let all = blocks.saturating_mul(operands.rows.div_ceil(kernel.rows)).min(workers);
    Some(transformed * channels / blocks.max(1) as f64 + multiplied / all.max(1) as f64)
}

/// The tile size with which a convolution or its backward data is probably the fastest; `None` if another
/// algorithm is. Results depend on it, so it depends on the number of threads only where results may.
pub(crate) fn fastest(operands: &Operands, isa: Isa, settings: Settings) -> Option<usize> {
    let Settings { threads, constant_weights, .. } = settings;
    if operands.channels.min(operands.rows) < LEAST_CHANNELS || square(operands).is_none() {
        return None;
    }
    let windows = &operands.windows;
    let outputs = windows.output.map(|side| side as f64).iter().product::<f64>();
    let pack = if constant_weights { 0.0 } else { FILTER[1] };
    let other = |images: usize| {
        let numbers = operands.channels as f64 * operands.rows as f64;
        numbers * (9.0 * (images as f64 * outputs + NUMBER) + pack)
    };
    // Other algorithms divide into as many parts as there are workers.
    let time = other(windows.batch) * operands.groups as f64 * Cost::of::<f32>(isa).fused;
    let workers = if threads.is_deterministic() { 1 } else { threads.workers(time, usize::MAX).count() };
    if isa.has_whole_vectors() && workers > MOST_WORKERS.max(windows.batch) {
        return None;
    }
    let costs = |images: usize| {
        [2, 4].each(|outputs| {
            cost(operands, (images, outputs), isa, constant_weights, workers).unwrap_or(f64::INFINITY)
        })
    };
    let own = costs(windows.batch);
    let is_slow_at_first = constant_weights
        && own[1] * workers as f64 > LONG
        && Tile::of(4, 1)
            .is_some_and(|tile| weight_elements(operands, tile) * FIRST > 2.0 * own[1] * workers as f64);
    if threads.batch_invariant {
        // In small images F(4 × 4) leaves vectors empty unless these are many; other algorithms are slow unless they are few.
        let times = BATCHES.map(|images| {
            let [two, four] = costs(images);
            let four = if is_slow_at_first { f64::INFINITY } else { four };
            [other(images), two / SHARE, four / SHARE.powi(2)]
        });
        return balanced(times).checked_sub(1).map(|at| [2, 4][at]);
    }
    let other = other(windows.batch) / workers as f64;
    if own[1] < SHARE * own[0] && own[1] < SHARE * other && !is_slow_at_first {
        Some(4)
    } else {
        (own[0] < SHARE * other).then_some(2)
    }
}

/// The place of the algorithm that is at worst the least times slower than the fastest, over the cases that each have a time for it.
fn balanced<const ALGORITHMS: usize, const CASES: usize>(times: [[f64; ALGORITHMS]; CASES]) -> usize {
    let fastest = times.map(|of| of.into_iter().fold(f64::INFINITY, f64::min));
    let worst = |at: usize| times.iter().zip(fastest).map(|(of, best)| of[at] / best).fold(0.0, f64::max);
    let places = 0..ALGORITHMS;
    places.min_by(|one, other| worst(*one).total_cmp(&worst(*other))).unwrap_or(0)
}
