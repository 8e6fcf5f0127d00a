//! Convolution as GEMM with im2col: operand B is copied tile by tile, a row of a few vectors per channel and
//! tap.
//!
//! The outputs of all images form one row of columns, so a tile may continue in the next row or image, and
//! hardly any column is wasted. A copied tile is contiguous wherever it came from, and the input of later
//! tiles is prefetched meanwhile.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::conv::cost::Cost;
use crate::conv::im2col::choice::form;
use crate::conv::im2col::copy::Im2colTile;
use crate::conv::im2col::prefetch::InputPrefetch;
use crate::conv::im2col::problem::{Im2col, LineRun, ScratchLayout};
use crate::conv::nan::{are_finite, has_nan};
use crate::conv::operands::{Operands, are_columns, pack_of, rows_stride};
use crate::conv::prefetch::{bytes, is_shared};
use crate::gemm::context::Context;
use crate::gemm::prefetch::TilePrefetch;
use crate::gemm::tile::{Order, Tile};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::row_converter::all_finite;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::Assignment;

/// Bytes of a block: its copied tiles and the input of the next ones. They fit in the L2 cache, which has 2
/// MB on processors with full 512-bit vector units.
const BLOCK: usize = 1536 << 10;

/// The same if the first panel copies the tiles, the input is larger than the output, and all weights are in
/// cache: with shorter blocks, more input is loaded while other tiles are multiplied.
const SMALL_BLOCK: usize = 768 << 10;

/// Bytes of weights that stay in cache.
const FEW_WEIGHTS: usize = 512 << 10;

/// The most tiles in a block.
pub(crate) const MAX_TILES: usize = 16;

/// With more bytes of images and results, more is prefetched; smaller for the tests' small images.
const FAR: usize = if cfg!(test) { 2 << 10 } else { 1 << 20 };

/// Terms between two prefetches, and cache lines per prefetch, which costs about as much as one term.
const INTERVAL: usize = 16;

const TOGETHER: usize = 4;

/// Blocks, or chunks of their panels, per worker, so that workers of different speed finish together.
const ITEMS_PER_WORKER: usize = 4;

/// Cost of reading one panel's weights for a block, in panels multiplied with a tile: for weights that stay
/// in the L2 cache, and for others.
const READ: [f64; 2] = [0.125, 0.5];

/// Bytes of weights that stay in the L2 cache.
const MAX_WEIGHTS: usize = 1 << 20;

/// Cost of beginning a block or a chunk, in the same unit.
const UNIT: f64 = 1.0;

/// Cost of copying a tile, in the same unit: by the first panel if columns are contiguous, and otherwise.
const COPY: [f64; 2] = [0.25, 2.0];

/// A tile's position among the outputs.
#[derive(Clone, Debug, PartialEq)]
struct Spot {
    /// Its columns, counted from the first one of the first image, and the vectors that they fill.
    columns: Range<usize>,
    vectors: usize,
    /// The image and the first output there, if the tile is whole vectors within one image.
    alone: Option<(usize, usize)>,
}

impl Spot {
    const NONE: Self = Self { columns: 0..0, vectors: 0, alone: None };
}

/// Bytes of the largest block, given the bytes of a group's weights, and output and input channels of a group if
/// the first panel copies the tiles.
fn largest(weight_bytes: usize, flat: Option<[usize; 2]>) -> usize {
    let is_small = flat.is_some_and(|[rows, channels]| rows < channels) && weight_bytes <= FEW_WEIGHTS;
    if is_small { SMALL_BLOCK } else { BLOCK }
}

impl<T: Float> Im2col<T> {
    /// Plans the convolution with its epilogue.
    #[inline(never)]
    pub(crate) fn plan(
        operands: &Operands,
        isa: Isa,
        settings: Settings,
        spatial: usize,
        epilogue: Option<&Epilogue>,
    ) -> Result<Self, Refusal> {
        let channel_epilogue = form::<T>(operands, spatial, epilogue)?;
        let windows = &operands.windows;
        let kernel = Context::<T>::of(isa);
        let threads = settings.threads;
        let is_flat = are_columns::<T>(operands);
        let lines = |[_, lines, len]: [usize; 3]| if is_flat { [1, lines * len] } else { [lines, len] };
        let (input, output) = (lines(windows.input), lines(windows.output));
        let stride = [windows.stride[1], windows.stride[2]];
        let taps: Vec<_> = windows.taps.iter().map(|tap| [tap[1], tap[2]]).collect();
        let reach = [0, 1].map(|i| {
            let taps_of_axis = || taps.iter().map(|tap| tap[i]);
            (taps_of_axis().min().unwrap_or(0), taps_of_axis().max().unwrap_or(0))
        });
        let is_padded = (0..2).any(|i| {
            reach[i].0 < 0 || ((output[i] - 1) * stride[i]) as isize + reach[i].1 >= input[i] as isize
        });
        let depth = operands.channels * taps.len();
        let columns = windows.batch * output[0] * output[1];
        let tiles = columns.div_ceil(kernel.lanes).div_ceil(kernel.vectors);
        let panels = operands.rows.div_ceil(kernel.rows);
        let cost = Cost::of::<T>(isa);
        let all_weights = operands.groups * panels * kernel.rows * depth;
        let copied = depth * columns * operands.groups;
        let time = all_weights as f64 * columns as f64 * cost.fused + copied as f64 * cost.copy;
        let window = 1 + reach[0].0.abs_diff(reach[0].1);
        let read = operands.channels * stride[0].min(window) * stride[1];
        let of_tile = (depth + read) * kernel.columns() * size_of::<T>();
        let weight_bytes = all_weights / operands.groups * size_of::<T>();
        let flat = is_flat.then_some([operands.rows, operands.channels]);
        let most = (largest(weight_bytes, flat) / of_tile).clamp(1, MAX_TILES);
        let costs = [COPY[usize::from(!is_flat)], READ[usize::from(weight_bytes > MAX_WEIGHTS)]];
        let wanted = threads.workers(time, usize::MAX).count();
        let (block, chunks) = division([tiles, panels, operands.groups], most, wanted, costs);
        let units = operands.groups * tiles.div_ceil(block) * chunks;
        let workers = threads.workers(time, units);
        let weights_stride = rows_stride::<T>(operands).filter(|_| !settings.constant_weights);
        let weights = if weights_stride.is_some() { 0 } else { all_weights };
        let pack = pack_of::<T>(operands.weights.data_type)?;
        let form = settings.shares_weights.then(|| {
            let form = operands.form("im2col", pack as usize);
            form.and([kernel.rows, panels, depth, usize::from(is_padded)])
        });
        Ok(Self {
            prefetches: bytes(operands) >= FAR as f64 || is_shared(operands, workers),
            operands: operands.clone(),
            isa,
            input,
            output,
            stride,
            taps,
            reach,
            is_padded,
            is_flat,
            knows_weights: is_padded && settings.constant_weights,
            depth,
            tiles,
            block,
            panels,
            chunks,
            workers,
            pack_workers: threads.workers(weights as f64 * cost.copy * 2.0, operands.groups * panels),
            pack,
            channel_epilogue,
            weights_stride,
            prepacked: Prepacked::new(weights, settings.constant_weights, form),
            areas: ScratchLayout {
                weights,
                columns: block * depth * kernel.columns(),
                tile: kernel.rows * kernel.columns(),
            },
            kernel,
        })
    }

    /// The scratch memory: packed weights, then for each worker copied tiles, a tile of results and a tile of
    /// residuals.
    fn layout(&self, scratch: &mut Scratch) -> [usize; 3] {
        let workers = self.workers.count();
        [
            scratch.area::<T>(self.areas.weights, 1),
            scratch.area::<T>(self.areas.columns, workers),
            scratch.area::<T>(self.areas.tile, 2 * workers),
        ]
    }

    /// The columns of a tile, counted from the first one of the first image.
    pub(crate) fn columns(&self, tile: usize) -> Range<usize> {
        let columns = self.operands.windows.batch * self.output[0] * self.output[1];
        let vectors = columns.div_ceil(self.kernel.lanes);
        let at = |tile: usize| columns.min(vectors * tile / self.tiles * self.kernel.lanes);
        at(tile)..at(tile + 1)
    }

    /// The position of a tile.
    fn spot(&self, tile: usize) -> Spot {
        let columns = self.columns(tile);
        let of_image = self.output[0] * self.output[1];
        let (image, offset) = (columns.start / of_image, columns.start % of_image);
        let is_alone = offset + columns.len() <= of_image && columns.len().is_multiple_of(self.kernel.lanes);
        Spot {
            vectors: columns.len().div_ceil(self.kernel.lanes),
            alone: is_alone.then_some((image, offset)),
            columns,
        }
    }

    /// The run of a tile that begins at a column: those until the end of its line, or of the tile. Not a function
    /// that calls another for each run: kernels would call that one compiled without their instructions.
    #[inline(always)]
    pub(crate) fn run_at(&self, columns: &Range<usize>, first: usize) -> LineRun {
        let [lines, len] = self.output;
        let (line, at) = (first / len, first % len);
        let len = (len - at).min(columns.end - first);
        LineRun { column: first - columns.start, len, image: line / lines, line: line % lines, at }
    }

    /// Calls `each` with the runs of a tile.
    pub(crate) fn runs(&self, columns: &Range<usize>, mut each: impl FnMut(LineRun)) {
        let mut first = columns.start;
        while first < columns.end {
            let run = self.run_at(columns, first);
            first += run.len;
            each(run);
        }
    }

    /// Calls `each` with the parts of some columns that lie in one image: first column, number of columns,
    /// image, first output.
    pub(crate) fn images(&self, columns: &Range<usize>, each: impl FnMut(usize, usize, usize, usize)) {
        split_columns(columns, self.output[0] * self.output[1], each);
    }

    /// Packs all weights.
    ///
    /// # Safety
    /// `from` is the first weight; `to` is writable for all panels.
    unsafe fn pack_all(&self, from: *const u8, to: *mut T) {
        let shared = Shared([from.cast_mut(), to.cast()]);
        let height = self.kernel.rows;
        self.pack_workers.for_each_part(self.operands.groups * self.panels, |_, number| {
            let group_and_panel = (number / self.panels, number % self.panels);
            // SAFETY: the tensor covers its weights, and there is memory for every panel; a panel is
            // packed by one worker.
            unsafe {
                let to = shared.get(1).cast::<T>().add(number * self.depth * height);
                (self.pack)(
                    &self.operands,
                    &self.operands.parts[0].taps,
                    height,
                    group_and_panel,
                    shared.get(0),
                    to,
                );
            }
        });
    }

    /// Computes some panels for the tiles of a block.
    ///
    /// # Safety
    /// `weights` are the group's, and known to be finite or not; `copied` holds the copied tiles, or with
    /// `copies` has room for those that are within one image; `buffers` are two writable tiles; the tensors
    /// cover the group.
    unsafe fn multiply(
        &self,
        tensors: &[*mut u8],
        (group, spots, copies): (usize, &[Spot], bool),
        panels: Range<usize>,
        (weights, copied, is_finite): (*const T, *mut T, bool),
        buffers: [*mut T; 2],
        mut next: InputPrefetch,
    ) {
        let Operands { rows, input, .. } = &self.operands;
        let height = self.kernel.rows;
        for panel in panels.clone() {
            let row = panel * height;
            let present = (rows - row).min(height);
            for (number, Spot { columns, vectors, alone }) in spots.iter().enumerate() {
                let channels = (group * rows + row, present);
                // SAFETY: the tensors have the channels and columns, and the buffers room for a tile of them.
                let ((to, to_stride), residual) = unsafe {
                    (
                        self.target(tensors, *alone, channels.0, buffers[0]),
                        self.added(tensors, (columns, *alone), channels, buffers[1]),
                    )
                };
                let copied = copied.wrapping_add(number * self.depth * self.kernel.columns());
                let width = vectors * self.kernel.lanes;
                let position = alone.filter(|_| copies && panel == panels.start);
                let (b, b_stride, keep) = match position {
                    Some((image, offset)) => {
                        let from = self.operands.input_of(tensors, group, size_of::<T>());
                        let from = from.cast::<T>().wrapping_add(image * input.strides.batch + offset);
                        (from.cast_const(), input.strides.channel, copied)
                    }
                    None => (copied.cast_const(), width, std::ptr::null_mut()),
                };
                let (of_panel, order, a_stride) = match self.weights_stride {
                    Some(stride) => (row * stride, Order::Rows, stride),
                    None => (panel * self.depth * height, Order::Panel, height),
                };
                let mut tile_prefetch =
                    next.take().map(|lines| TilePrefetch::of(lines, self.depth, [INTERVAL, TOGETHER]));
                let mut gemm_tile = Tile {
                    a: weights.wrapping_add(of_panel),
                    order,
                    a_stride,
                    b,
                    b_stride,
                    depth: self.depth,
                    to,
                    to_stride,
                    // SAFETY: the epilogue's tensors have the channels.
                    epilogue: unsafe { self.channel_epilogue.of_tile(tensors, channels.0, residual) },
                    tile_prefetch: tile_prefetch.as_mut(),
                    prefetches_results: self.prefetches && to != buffers[0],
                    prefetches: true,
                    keep,
                    ..Tile::EMPTY
                };
                // SAFETY: the weights have the panel, the input or the copied tile the columns, and the results go to the output or a buffer.
                unsafe {
                    if self.prefetches && to == buffers[0] {
                        self.prefetch(tensors, columns, channels);
                    }
                    self.kernel.run(&mut gemm_tile, present, *vectors);
                    // A weight that is NaN or infinite times a zero of the padding is NaN.
                    if self.is_padded
                        && !is_finite
                        && has_nan(to, (present, to_stride), columns.len())
                        && !are_finite(&gemm_tile, present)
                    {
                        self.multiply_exactly(&gemm_tile, columns, present);
                    }
                    if to == buffers[0] {
                        self.store(tensors, columns, channels, to);
                    }
                }
            }
        }
    }
}

/// Splits some columns at multiples of `size` and calls `each` with: first column relative to the start, number of
/// columns, index of the multiple, and offset in it.
#[inline(always)]
fn split_columns(columns: &Range<usize>, size: usize, mut each: impl FnMut(usize, usize, usize, usize)) {
    let mut at = columns.start;
    while at < columns.end {
        let offset = at % size;
        let len = (size - offset).min(columns.end - at);
        each(at - columns.start, len, at / size, offset);
        at += len;
    }
}

/// The number of tiles of a block, and of chunks into which its panels are divided. A worker gets consecutive
/// chunks, and copies a block once for all of its own. Times, also those to copy a tile and to read a panel's
/// weights, are in panels multiplied with a tile.
fn division(
    [tiles, panels, groups]: [usize; 3],
    most: usize,
    workers: usize,
    costs: [f64; 2],
) -> (usize, usize) {
    if workers < 2 {
        return (most.min(tiles), 1);
    }
    let [copy, read] = costs;
    let least = tiles.div_ceil(most);
    let time = |(block, chunks): (usize, usize)| {
        let of_worker = (tiles.div_ceil(block) * groups * chunks).div_ceil(workers);
        let chunk = (block as f64 + read) * panels as f64 / chunks as f64;
        let copied = (of_worker.div_ceil(chunks) * block) as f64 * copy;
        // All others wait for a worker that is interrupted.
        of_worker as f64 * (chunk + UNIT) + copied + chunk / ITEMS_PER_WORKER as f64
    };
    let blocks = least..=tiles.min(least + ITEMS_PER_WORKER * workers);
    let chunks = || (0..).map(|n| 1 << n).take_while(|n| *n <= panels.min(ITEMS_PER_WORKER * workers));
    let all = blocks.flat_map(|blocks| chunks().map(move |chunks| (tiles.div_ceil(blocks), chunks)));
    all.min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or((1, 1))
}

impl<T: Float> Kernel for Im2col<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>("im2col", self.workers.threads(), [self.kernel.rows, self.kernel.columns()], 1)
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { weights, .. } = &self.operands;
        let [packed, columns, buffers] = self.layout(&mut Scratch::default());
        let source = tensors[weights.slot];
        let (all_weights, is_finite) = match self.weights_stride {
            Some(_) => (source.cast_const().cast(), false),
            // SAFETY: the tensor covers its weights, and the scratch memory has room for all panels, as the prepacked memory has.
            None => unsafe {
                self.prepacked.get(source, scratch.add(packed).cast::<T>(), |to| {
                    self.pack_all(source, to);
                    self.knows_weights && all_finite(to, self.areas.weights)
                })
            },
        };
        let base = Shared([all_weights.cast_mut().cast(), scratch]);
        let shared = Tensors(tensors);
        let blocks = self.tiles.div_ceil(self.block);
        let units = self.operands.groups * blocks * self.chunks;
        let tiles_of = |block: usize| block * self.block..self.tiles.min((block + 1) * self.block);
        self.workers.for_each_part_with_state(units, |assignment, copied: &mut Option<usize>| {
            let Assignment { worker, part: number, end } = assignment;
            let (block, chunk) = (number / self.chunks, number % self.chunks);
            let (group, tiles) = (block / blocks, tiles_of(block % blocks));
            let panels = self.panels * chunk / self.chunks..self.panels * (chunk + 1) / self.chunks;
            let next = Some(block + 1).filter(|next| self.prefetches && next * self.chunks < end);
            let next = next.map(|next| (next / blocks, tiles_of(next % blocks)));
            let mut spots = [const { Spot::NONE }; MAX_TILES];
            for (spot, tile) in spots.iter_mut().zip(tiles.clone()) {
                *spot = self.spot(tile);
            }
            let spots = &spots[..tiles.len()];
            let gemm_tiles = [panels.start, self.panels].map(|panels| panels * tiles.len());
            let next = InputPrefetch::new(self, shared.all(), next, gemm_tiles);
            let columns = Scratch::of_worker::<T>(base.get(1), columns, worker, self.areas.columns);
            let buffers = [2 * worker, 2 * worker + 1]
                .map(|buffer| Scratch::of_worker(base.get(1), buffers, buffer, self.areas.tile));
            let is_new = *copied != Some(block);
            // If columns are contiguous in memory, the first panel copies the tiles while it
            // multiplies, and has to be a whole panel.
            let is_whole = (panels.start + 1) * self.kernel.rows <= self.operands.rows;
            let copies = is_new && self.is_flat && is_whole;
            if is_new {
                for (number, Spot { columns: outputs, alone, .. }) in spots.iter().enumerate() {
                    if !(copies && alone.is_some()) {
                        // SAFETY: the tensors cover the group, and the worker's memory has room for each tile.
                        unsafe {
                            let from = self.operands.input_of(shared.all(), group, size_of::<T>()).cast();
                            let to = columns.add(number * self.depth * self.kernel.columns());
                            self.isa.run_vectors(Im2colTile { tiled: self, columns: outputs, from, to });
                        }
                    }
                }
                *copied = Some(block);
            }
            let first = match self.weights_stride {
                Some(_) => group * weights.group,
                None => group * self.panels * self.depth * self.kernel.rows,
            };
            // SAFETY: the weights have the group, and the worker's memory the block's tiles or room for them; no two units write the same
            // outputs.
            unsafe {
                let weights = base.get(0).cast::<T>().cast_const().add(first);
                self.multiply(
                    shared.all(),
                    (group, spots, copies),
                    panels,
                    (weights, columns, is_finite),
                    buffers,
                    next,
                );
            }
        });
    }
}
