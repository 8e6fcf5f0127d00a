//! Direct convolution with vectors of output channels.
//!
//! A tile is a few outputs times a few output channels. An output is just an offset into the input, so
//! outputs need not be contiguous: small images waste no work, and the convolution's stride is free. The
//! input is read in place unless it is padded or has another dtype. In return, weights must be packed, and
//! results transposed unless the output is channels last.

use crate::conv::direct::choice::{Blocks, MAX_TILES};
use crate::conv::direct::problem::{Direct, Scheme};
use crate::conv::direct::rows::Rows;
use crate::conv::direct::store::Panel;
use crate::conv::direct::tiles::Accumulators;
use crate::conv::epilogue::TileEpilogue;
use crate::conv::geometry::{Block, Geometry, Strides};
use crate::conv::operands::Operands;
use crate::conv::prefetch::{BlockPrefetch, is_shared, pays};
use crate::gemm::accumulator::Accumulator;
use crate::gemm::prefetch::{CacheLines, TilePrefetch};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::Assignment;
use std::mem::MaybeUninit;
use std::ops::Range;

/// How many tiles are stored together: whole vectors of outputs, so that 32 channels stay in the L1 cache.
const TOGETHER: usize = 16;

/// Bytes of a panel's weights that all tiles of a block use before the next ones, so that they stay in the L2 cache.
const WEIGHTS: usize = 192 << 10;

/// The fewest words that are added at a time.
const LEAST_WORDS: usize = 32;

/// Work items per worker, so that workers of different speed end at about the same time.
const ITEMS_PER_WORKER: usize = 4;

/// Tiles that are computed at once.
const AT_ONCE: usize = 2;

/// The time to read a panel's weights from the L3 cache, and to begin a part, in panels multiplied with tiles that are
/// computed at once.
const READ: f64 = 0.5;

const UNIT: f64 = 0.2;

/// A worker's state between work items.
#[derive(Default)]
struct WorkerState {
    /// The group and the block whose input is in its planes.
    filled: Option<(usize, usize)>,
}

/// A block's outputs in a tensor in which they are contiguous within an image.
struct Far {
    /// The first output of channel 0.
    first: *const u8,
    /// Bytes of an element.
    size: usize,
    /// Outputs of an image in this block.
    of_image: usize,
    /// Strides of images and of channels in bytes.
    image: usize,
    channel: usize,
    /// Whether they are results.
    is_written: bool,
}

impl Far {
    /// The cache lines that hold an output, for some channels.
    fn lines(&self, pixel: usize, channels: Range<usize>) -> CacheLines {
        let (image, pixel) = (pixel / self.of_image, pixel % self.of_image);
        let offset = image * self.image + pixel * self.size + channels.start * self.channel;
        let lines = CacheLines::single(self.first.wrapping_add(offset), channels.len(), self.channel);
        CacheLines { is_written: self.is_written, ..lines }
    }
}

/// The blocks, at most as large as the given ones, and the number of chunks of panels with which `workers` end first.
///
/// Times are in panels multiplied with the tiles that are computed at once.
fn divided(
    geometry: Geometry,
    groups: usize,
    panels: usize,
    workers: usize,
    pixels: usize,
) -> (Geometry, usize) {
    if workers < 2 {
        return (geometry, 1);
    }
    let time = |geometry: &Geometry, chunks: usize| {
        let parts = geometry.blocks() * groups * chunks;
        let tiles = geometry.block(0).outputs().div_ceil(AT_ONCE * pixels);
        let part = (tiles as f64 + READ) * panels.div_ceil(chunks) as f64;
        // All others wait for a worker that is interrupted.
        parts.div_ceil(workers) as f64 * (part + UNIT) + part / ITEMS_PER_WORKER as f64
    };
    let (mut best, mut least) = ((geometry.clone(), 1), f64::INFINITY);
    let mut next = Some(geometry);
    while let Some(geometry) = next {
        for chunks in 1..=panels.min(ITEMS_PER_WORKER * workers) {
            let time = time(&geometry, chunks);
            if time < least {
                (best, least) = ((geometry.clone(), chunks), time);
            }
        }
        let is_divisible = geometry.blocks() * groups < ITEMS_PER_WORKER * workers
            && geometry.block(0).outputs() >= 2 * AT_ONCE * pixels;
        next = if is_divisible { geometry.halved(pixels) } else { None };
    }
    best
}

/// The length of runs of taps whose `words` terms each follow one another; 1 if they have different lengths.
fn adjacent_taps(taps: &[usize], words: usize) -> usize {
    let are_adjacent = |pair: &[usize]| pair[1] == pair[0] + words;
    let run = 1 + taps.windows(2).take_while(|pair| are_adjacent(pair)).count();
    let are_runs =
        taps.len().is_multiple_of(run) && taps.chunks(run).all(|taps| taps.windows(2).all(are_adjacent));
    if are_runs { run } else { 1 }
}

impl<T: Accumulator> Direct<T> {
    /// Plans the convolution with its epilogue.
    #[inline(never)]
    pub(crate) fn plan(
        operands: Operands,
        scheme: Scheme<T>,
        isa: Isa,
        settings: Settings,
        spatial: usize,
        epilogue: Option<Epilogue>,
    ) -> Result<Self, Refusal> {
        let Blocks { geometry, in_place, mut time, pack_time } = scheme.blocks(&operands)?;
        let part = operands.whole().ok_or("backward data with a stride")?.clone();
        let threads = settings.threads;
        let Scheme { kernel, terms, .. } = scheme;
        let words = operands.channels.div_ceil(terms);
        let windows = &operands.windows;
        let panels = operands.rows.div_ceil(kernel.width);
        let wanted = threads.workers_for_reduction(time, usize::MAX).count();
        let pack_workers = threads.workers(pack_time, operands.groups * panels);
        if !settings.constant_weights {
            time += pack_time;
        }
        let (geometry, chunks) = divided(geometry, operands.groups, panels, wanted, kernel.pixels);
        let blocks = geometry.blocks() * operands.groups;
        let workers = threads.workers(time, blocks * chunks);
        let strides = operands.input.strides;
        let is_unstrided = scheme.channels_last && !in_place;
        let filled = if is_unstrided { geometry.unstrided() } else { geometry.clone() };
        let (taps, channel_stride, stride): (Vec<usize>, _, _) = if in_place {
            let at = |tap: &[isize; 3]| (0..3).map(|i| tap[i] as usize * strides.spatial[i]).sum();
            let [d, h, w] = [0, 1, 2].each(|i| strides.spatial[i] * windows.stride[i]);
            (windows.taps.iter().map(at).collect(), strides.channel, [d, h, w, strides.batch])
        } else if scheme.channels_last {
            let [d, h, w, image] = filled.plane_strides().map(|stride| stride * words);
            let [of_d, of_h, of_w] = windows.stride;
            (filled.taps().iter().map(|tap| tap * words).collect(), 1, [d * of_d, h * of_h, w * of_w, image])
        } else {
            (geometry.taps().to_vec(), geometry.channel(), geometry.plane_strides())
        };
        let tile_epilogue = match (&epilogue, &scheme.channel_epilogue) {
            (Some(epilogue), None) if scheme.in_registers.is_none() => {
                Some(TileEpilogue { block_epilogue: epilogue.plan()?, spatial })
            }
            _ => None,
        };
        let planes = if in_place { 0 } else { words * filled.channel() };
        let run = if scheme.channels_last { adjacent_taps(&taps, words) } else { 1 };
        let sums = geometry.block(0).outputs().next_multiple_of(kernel.pixels) * kernel.width;
        let weights = operands.groups * panels * kernel.width * words * part.taps.len();
        let form = settings.shares_weights.then(|| {
            let form = operands.form("direct", scheme.pack as usize).on(isa).and([
                kernel.width,
                terms,
                words,
                usize::from(scheme.channels_last),
            ]);
            form.and([panels, scheme.weights_size]).and(part.taps.iter().map(|tap| tap.1))
        });
        Ok(Self {
            // Channels-last tensors are read and written sequentially.
            prefetches: scheme.in_registers.is_none()
                && !scheme.channels_last
                && (pays(&operands) || is_shared(&operands, workers)),
            operands,
            part,
            isa,
            geometry,
            in_place,
            filled,
            run,
            runs: taps.iter().copied().step_by(run).collect(),
            taps,
            channel_stride,
            stride,
            panels,
            chunks,
            workers,
            pack_workers,
            words,
            scheme,
            tile_epilogue,
            planes,
            sums,
            weights,
            prepacked: Prepacked::new(weights, settings.constant_weights, form),
        })
    }

    /// Whether most tiles are computed in pairs.
    pub(crate) fn are_two(&self) -> bool {
        let (mut count, mut steps) = (0, 0);
        self.for_each_tile(&self.geometry.block(0), |at| {
            count += 1;
            steps += usize::from(at.stride.is_some());
        });
        count > 1 && steps >= count - count / 4
    }

    /// The layout of the scratch memory: packed weights, then each worker's planes and accumulators.
    fn layout(&self, scratch: &mut Scratch) -> (usize, usize, usize) {
        let workers = self.workers.count();
        (
            scratch.area::<T>(self.weights, 1),
            scratch.area::<T>(self.planes, workers),
            scratch.area::<T>(self.sums, workers),
        )
    }

    /// Where the outputs of a block are written and the residual is read, for prefetching.
    fn far(&self, tensors: &[*mut u8], group: usize, block: &Block) -> [Option<Far>; 2] {
        let Operands { rows, output, windows, .. } = &self.operands;
        let of = |slot: usize, strides: &Strides, size: usize| {
            let whole = windows.output;
            let follow = block.size[2] == whole[2] && (block.size[1] == whole[1] || block.size[0] == 1);
            // Channels-last outputs are written sequentially and need no prefetch.
            (self.prefetches && follow && strides.are_flat(whole) && strides.channel > 1).then(|| Far {
                first: tensors[slot].wrapping_add(
                    (group * rows * strides.channel + strides.offset(block.image, block.origin)) * size,
                ),
                size,
                of_image: block.size.iter().product(),
                image: strides.batch * size,
                channel: strides.channel * size,
                is_written: slot == output.slot,
            })
        };
        let residual = self.scheme.channel_epilogue.as_ref().and_then(|epilogue| epilogue.residual.as_ref());
        [
            of(output.slot, &output.strides, self.scheme.output_size),
            residual.and_then(|(slot, strides)| of(*slot, strides, size_of::<T>())),
        ]
    }

    /// Computes some panels of a block.
    ///
    /// # Safety
    /// `weights` are the group's packed ones, `columns` is the input element that the block's first output
    /// meets at a tap of offset 0, `accumulators` is writable for a block, and the tensors cover the outputs.
    unsafe fn multiply(
        &self,
        tensors: &[*mut u8],
        group: usize,
        block: &Block,
        panels: Range<usize>,
        (weights, columns, sums): (*const T, *const T, *mut T),
        (next, begins): (Option<BlockPrefetch>, bool),
    ) {
        let Operands { rows, output, .. } = &self.operands;
        let width = self.scheme.kernel.width;
        let mut tiles = [const { MaybeUninit::uninit() }; MAX_TILES];
        let tiles = self.tiles(block, &mut tiles);
        let count = tiles.len();
        let tile = self.scheme.kernel.pixels * width;
        // The last words are added when the outputs are stored.
        let in_cache = (WEIGHTS / (self.taps.len().max(1) * width * size_of::<T>())).max(LEAST_WORDS);
        let last = (self.words - 1) / in_cache * in_cache;
        let tile_epilogue = |tile_epilogue: &TileEpilogue, channels: Range<usize>| {
            let first = group * rows;
            // SAFETY: the tensors are those of the operation, as this function requires.
            unsafe { tile_epilogue.run(tensors, block, first + channels.start..first + channels.end) };
        };
        // Not for channels-last outputs, where one panel's channels are only part of a cache line.
        let by_panel = output.strides.channel != 1;
        let far = self.far(tensors, group, block);
        // If outputs are contiguous, several tiles are stored together while they are in the L1 cache.
        let together = if self.geometry.is_flat() { TOGETHER.min(count) } else { count };
        let pixels = block.outputs();
        let tile_prefetch = |panel: usize, index: usize, tiles: usize| {
            let tile = ((panel - panels.start) * count + index) / tiles;
            let (mut lines, mut found) = ([CacheLines::NONE; 3], 0);
            let mut add = |more: CacheLines| {
                lines[found] = more;
                found += usize::from(more.channels > 0);
            };
            add(next.map_or(CacheLines::NONE, |next| next.share(tile, panels.len() * count / tiles)));
            // Two tiles cover about a cache line per channel, so each prefetches half of the channels.
            let (panel, index) = match index + together / 2 {
                index if index < count => (panel, index),
                index => (panel + 1, index - count),
            };
            if panel < panels.end {
                let (first, half) = (panel * width, width / 2 * (index % 2));
                let end = first + half + width / 2 * tiles;
                let channels = (first + half).min(*rows)..end.min(*rows);
                for far in far.iter().flatten() {
                    add(far.lines((index - index % 2) * self.scheme.kernel.pixels, channels.clone()));
                }
            }
            TilePrefetch::of(lines, self.words - last, [1; 2])
        };
        // One tile, or two that are computed together. A group of tiles that are stored together ends a pair.
        let pair = |index: usize| {
            let (at, next) = (&tiles[index], index + 1);
            let behind = (next < count && !next.is_multiple_of(together)).then(|| &tiles[next]);
            (at, behind.filter(|behind| at.stride.is_some() && behind.stride == at.stride))
        };
        for panel in panels.clone() {
            let first = panel * width;
            let present = (rows - first).min(width);
            let weights = weights.wrapping_add(panel * self.panel());
            // SAFETY: the tensors have the channels.
            let of_panel = self.scheme.in_registers.as_ref().map(|form| unsafe {
                Rows::of(self, form, tensors, block, (group * rows + first, present), begins)
            });
            let begin = of_panel.as_ref().map_or(std::ptr::null(), Rows::first);
            for words in (0..last).step_by(in_cache) {
                let words = words..words + in_cache;
                let mut index = 0;
                while index < count {
                    let pair = pair(index);
                    // SAFETY: the weights have the panel, the columns what its taps meet, and the block sums for each tile.
                    unsafe {
                        let kept = Accumulators::kept(sums.add(index * tile), width, begin, words.start > 0);
                        self.add(pair, words.clone(), weights, columns, kept, None);
                    }
                    index += 1 + usize::from(pair.1.is_some());
                }
            }
            let mut done = 0;
            while done < count {
                let (index, pair) = (done, pair(done));
                done += 1 + usize::from(pair.1.is_some());
                let mut lines = self.prefetches.then(|| tile_prefetch(panel, index, done - index));
                // SAFETY: the weights have the panel, the columns what its taps meet, and the block sums for each tile; the tensors have the
                // channels.
                unsafe {
                    if let Some(of_panel) = &of_panel {
                        let at = (block, index * self.scheme.kernel.pixels);
                        let operands = (weights, columns, sums);
                        let words = last..self.words;
                        done = index + self.write_rows(of_panel, at, pair, words, operands, lines.as_mut());
                        continue;
                    }
                    let kept = Accumulators::kept(sums.add(index * tile), width, begin, last > 0);
                    self.add(pair, last..self.words, weights, columns, kept, lines.as_mut());
                    if !done.is_multiple_of(together) && done < count {
                        continue;
                    }
                    let from = index / together * together * self.scheme.kernel.pixels;
                    let pixels = from..pixels.min(done * self.scheme.kernel.pixels);
                    if let Some(correct) = self.scheme.correct.filter(|_| self.geometry.is_padded()) {
                        correct(self, (block, pixels.clone()), weights, columns, sums);
                    }
                    let first = group * rows + first;
                    let panel = Panel { channels: self, tensors, block, pixels, first, present, sums };
                    self.isa.run_vectors(panel);
                }
            }
            if let Some(block_epilogue) = self.tile_epilogue.as_ref().filter(|_| by_panel) {
                tile_epilogue(block_epilogue, first..first + present);
            }
        }
        if let Some(block_epilogue) = self.tile_epilogue.as_ref().filter(|_| !by_panel) {
            tile_epilogue(block_epilogue, panels.start * width..(panels.end * width).min(*rows));
        }
    }
}

impl<T: Accumulator> Kernel for Direct<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>(
            "direct",
            self.workers.threads(),
            [self.scheme.kernel.pixels, self.scheme.kernel.width],
            self.scheme.terms,
        )
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, channels, input, weights, windows, .. } = &self.operands;
        let (packed, planes, sums) = self.layout(&mut Scratch::default());
        let shared = Tensors(tensors);
        let source = tensors[weights.slot];
        // SAFETY: the tensor covers its weights, and the scratch memory has room for all panels, as the prepacked memory has.
        let (packed, are_finite) = unsafe {
            self.prepacked.get(source, scratch.add(packed).cast::<T>(), |to| {
                self.pack_all(source, to);
                // Looked at once: otherwise each tile's sums are.
                self.prepacked.is_wanted() && (self.scheme.are_finite)(to, self.weights)
            })
        };
        let begins = are_finite || self.scheme.correct.is_none() || !self.geometry.is_padded();
        let base = Shared([packed.cast_mut().cast(), scratch]);
        let blocks = self.geometry.blocks();
        self.workers.for_each_part_with_state(
            groups * self.chunks * blocks,
            |assignment, carried: &mut WorkerState| {
                let Assignment { worker, part: index, .. } = assignment;
                // Chunks of a block are consecutive, so that a worker copies the block's input only once.
                let (chunk, at) = (index % self.chunks, index / self.chunks);
                let (group, block_number) = (at / blocks, at % blocks);
                let next = assignment.next_block(self.chunks).filter(|_| self.prefetches);
                let next = next.and_then(|next| {
                    BlockPrefetch::of_number(
                        &self.geometry,
                        &self.operands,
                        shared.all(),
                        self.scheme.input_size,
                        next,
                    )
                });
                let block = self.geometry.block(block_number);
                let panels = self.panels * chunk / self.chunks..self.panels * (chunk + 1) / self.chunks;
                let planes = Scratch::of_worker::<T>(base.get(1), planes, worker, self.planes);
                let sums = Scratch::of_worker(base.get(1), sums, worker, self.sums);
                let from = self.operands.input_of(shared.all(), group, self.scheme.input_size);
                let columns = if self.in_place {
                    let origin = [0, 1, 2].each(|i| block.origin[i] * windows.stride[i]);
                    from.cast::<T>().wrapping_add(input.strides.offset(block.image, origin)).cast_const()
                } else {
                    if carried.filled != Some((group, block_number)) {
                        let strides = &input.strides;
                        // SAFETY: the input covers the group, and each worker has its own planes.
                        unsafe {
                            let of_planes = if self.scheme.channels_last {
                                self.geometry.unstrided_block(&block)
                            } else {
                                block
                            };
                            (self.scheme.fill)(&self.filled, &of_planes, from, strides, *channels, planes)
                        };
                        carried.filled = Some((group, block_number));
                    }
                    planes.cast_const()
                };
                // SAFETY: the weights have the group, and the worker sums of its own; no two blocks, chunks and groups write the same outputs.
                unsafe {
                    let weights =
                        base.get(0).cast::<T>().cast_const().add(group * self.panels * self.panel());
                    self.multiply(
                        shared.all(),
                        group,
                        &block,
                        panels,
                        (weights, columns, sums),
                        (next, begins),
                    );
                }
            },
        );
    }
}
