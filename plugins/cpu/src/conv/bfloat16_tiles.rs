//! Convolution of `bfloat16` by hardware tiles: output channels times outputs, over taps and pairs of input channels.
//!
//! As implicit GEMM, with planes of pairs of channels as operand B, read in place at the offset of each tap, and with
//! weights packed tap by tap, so that the words of a row are contiguous.

use std::ops::Range;

use half::bf16;
use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::cost::{BUFFER, Cost, Shape};
use crate::conv::epilogue::{ChannelEpilogue, TileEpilogue};
use crate::conv::geometry::{Block, Geometry, Strides};
use crate::conv::operands::{Operands, Store, store_of};
use crate::conv::planes::TileSums;
use crate::conv::problem::Problem;
use crate::gemm::amx::WORDS;
use crate::gemm::bfloat16_tiles::{LEAST_ROWS, TIME, run_padded};
use crate::gemm::context::Context;
use crate::gemm::pairs::{Pairs, word};
use crate::gemm::session::Session;
use crate::gemm::tile::Tile;
use crate::kernel::{Facts, Kernel, Refusal, boxed};
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::isa::{Isa, IsaTask};
use crate::tensor::prepacked::Prepacked;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Assignment, Workers};

/// With fewer input channels, most words would be padding.
const LEAST_CHANNELS: usize = 16;

/// A planned convolution.
pub(crate) struct Tiled {
    operands: Operands,
    isa: Isa,
    geometry: Geometry,
    kernel: Context<f32>,
    /// Offset of each tap in the planes.
    taps: Vec<usize>,
    /// Pairs of input channels, up to whole tiles.
    words: usize,
    /// Panels of output channels in a group, and chunks of panels for the workers.
    panels: usize,
    chunks: usize,
    workers: Workers,
    pack_workers: Workers,
    store: Store<f32>,
    store_size: usize,
    channel_epilogue: ChannelEpilogue,
    tile_epilogue: Option<TileEpilogue>,
    prepacked: Prepacked<u32>,
    /// Computes what padding changes: a weight that is NaN or infinite times a zero of the padding.
    /// `None` without padding.
    exact: Option<Box<dyn Kernel>>,
}

/// Plans a convolution by tiles where the processor has them and they suit it, else by pairs.
pub(crate) fn plan_or(
    p: &Problem<'_>,
    by_pairs: impl Fn(Settings) -> Result<Box<dyn Kernel>, Refusal>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let operands = p.operands()?;
    if !suits(operands) || !Pairs::of(p.isa).has_tiles() {
        return by_pairs(p.settings);
    }
    let exact = || by_pairs(Settings { constant_weights: false, ..p.settings });
    boxed(|| Tiled::plan(operands, p.isa, p.settings, p.convolution.spatial, p.epilogue, exact))
}

/// Whether tiles suit a convolution: all outputs sum over the same taps, and there are enough channels.
fn suits(operands: &Operands) -> bool {
    operands.whole().is_some()
        && [operands.input.data_type, operands.weights.data_type] == [DataType::Bfloat16; 2]
        && operands.channels >= LEAST_CHANNELS
        && operands.rows >= LEAST_ROWS
}

impl Tiled {
    /// Plans a convolution that tiles suit; `exact` plans a kernel that computes the same.
    pub(crate) fn plan(
        operands: &Operands,
        isa: Isa,
        settings: Settings,
        spatial: usize,
        epilogue: Option<Epilogue>,
        exact: impl FnOnce() -> Result<Box<dyn Kernel>, Refusal>,
    ) -> Result<Self, Refusal> {
        let part = operands.whole().ok_or("backward data with a stride")?;
        let kernel = Context::of_bfloat16_tiles();
        let words = operands.channels.div_ceil(2).next_multiple_of(WORDS);
        let panels = operands.rows.div_ceil(kernel.rows);
        let shape = Shape {
            windows: &operands.windows,
            taps: part.taps.len(),
            groups: operands.groups,
            channels: words,
            rows: panels * kernel.rows,
            round: kernel.lanes,
            tile: kernel.columns(),
            unrolled: None,
            in_place: false,
            threads: settings.threads,
        };
        let cost = Cost { fused: 2.0 * TIME, copy: Cost::of::<f32>(isa).copy };
        let (geometry, work) = shape.best(&cost, BUFFER)?;
        let exact = geometry.is_padded().then(exact).transpose()?;
        let channel_epilogue = epilogue
            .as_ref()
            .and_then(|epilogue| ChannelEpilogue::of::<f32>(epilogue, spatial))
            .filter(|channel_epilogue| channel_epilogue.residual.is_none());
        let tile_epilogue = match (&epilogue, &channel_epilogue) {
            (Some(epilogue), None) => Some(TileEpilogue { block_epilogue: epilogue.plan()?, spatial }),
            _ => None,
        };
        let threads = settings.threads;
        let blocks = geometry.blocks() * operands.groups;
        let wanted = threads.workers_for_reduction(work, usize::MAX).count();
        // Each chunk of panels copies the input again, so there are only as many as the workers need.
        let chunks =
            if wanted > 1 && blocks < 2 * wanted { (2 * wanted).div_ceil(blocks).min(panels) } else { 1 };
        let weights = operands.groups * panels * kernel.rows * part.taps.len() * words;
        let (store, store_size) = store_of::<f32>(operands.output.data_type)?;
        let form = settings.shares_weights.then(|| {
            operands.form("bfloat16-tiles", 0).and([kernel.rows, words, usize::from(exact.is_some())])
        });
        Ok(Self {
            isa,
            taps: part.taps.iter().map(|(tap, _)| geometry.taps()[*tap]).collect(),
            workers: threads.workers(work, blocks * chunks),
            pack_workers: threads.workers(weights as f64 * cost.copy, operands.groups * panels),
            operands: operands.clone(),
            geometry,
            kernel,
            words,
            panels,
            chunks,
            store,
            store_size,
            channel_epilogue: channel_epilogue.unwrap_or_default(),
            tile_epilogue,
            prepacked: Prepacked::new(weights, settings.constant_weights, form),
            exact,
        })
    }

    /// Words of a panel's rows, and of a panel.
    fn panel(&self) -> (usize, usize) {
        let row = self.taps.len() * self.words;
        (row, row * self.kernel.rows)
    }

    /// The layout of the scratch memory: packed weights, then each worker's planes and tile.
    fn layout(&self, scratch: &mut Scratch) -> [usize; 3] {
        let workers = self.workers.count();
        let weights = self.operands.groups * self.panels * self.panel().1;
        [
            scratch.area::<u32>(weights, 1),
            scratch.area::<u32>(self.planes(), workers),
            scratch.area::<f32>(self.kernel.rows * self.kernel.columns(), workers),
        ]
    }

    /// Words of a worker's planes.
    fn planes(&self) -> usize {
        self.words * self.geometry.channel()
    }

    /// Packs all weights, and returns whether one is NaN or infinite, if that matters.
    ///
    /// # Safety
    /// `from` is the first weight; `to` is writable for all panels.
    unsafe fn pack_all(&self, from: *const u8, to: *mut u32) -> bool {
        let shared = Shared([from.cast_mut(), to.cast()]);
        let count = self.operands.groups * self.panels;
        let words = self.panel().1;
        self.pack_workers.for_each_part(count, |_, index| {
            // SAFETY: the tensor covers its weights, and there is memory for every panel; a panel is packed by one worker.
            unsafe {
                let to = shared.get(1).cast::<u32>().add(index * words);
                self.pack(shared.get(0).cast::<bf16>(), (index / self.panels, index % self.panels), to);
            }
        });
        if self.exact.is_none() {
            return false;
        }
        // SAFETY: all panels are packed.
        let all = unsafe { std::slice::from_raw_parts(to, count * words) };
        let is_odd = |word: &u32| word & 0x7f80 == 0x7f80 || word & 0x7f80_0000 == 0x7f80_0000;
        all.iter().fold(false, |any, word| any | is_odd(word))
    }

    /// Packs a panel: rows of the pairs of each tap, with zeros beyond the channels and the rows.
    ///
    /// # Safety
    /// `from` is the first weight; `to` is writable for a panel.
    unsafe fn pack(&self, from: *const bf16, (group, panel): (usize, usize), to: *mut u32) {
        let Operands { channels, rows, weights, parts, .. } = &self.operands;
        let (of_row, all) = self.panel();
        let first = panel * self.kernel.rows;
        let present = (rows - first).min(self.kernel.rows);
        // SAFETY: the weights are inside the tensor, and the panel has room for them.
        unsafe {
            to.write_bytes(0, all);
            for row in 0..present {
                let from = from.add(group * weights.group + (first + row) * weights.row);
                for (tap, (_, offset)) in parts[0].taps.iter().enumerate() {
                    let to = to.add(row * of_row + tap * self.words);
                    let of = |channel: usize| {
                        from.add(offset + channel * weights.channel).read_unaligned().to_bits()
                    };
                    for pair in 0..channels / 2 {
                        to.add(pair).write(word(of(2 * pair), of(2 * pair + 1)));
                    }
                    if channels % 2 == 1 {
                        to.add(channels / 2).write(word(of(channels - 1), 0));
                    }
                }
            }
        }
    }

    /// Computes some panels of a block.
    ///
    /// # Safety
    /// The tensors cover the block's outputs, `weights` are the group's packed ones, `planes` has the block's input and
    /// `to` room for a tile. Tiles are configured on this thread.
    unsafe fn multiply(
        &self,
        tensors: &[*mut u8],
        (group, block): (usize, &Block),
        panels: Range<usize>,
        (weights, planes, to): (*const u32, *const u32, *mut f32),
    ) {
        let Operands { rows, output, .. } = &self.operands;
        let (lanes, width) = (self.kernel.lanes, self.kernel.columns());
        let columns = self.geometry.columns(block);
        let tiles = columns.div_ceil(width);
        let (of_row, of_panel) = self.panel();
        // A panel of a channels-last output is scattered, so the epilogue runs on the whole block.
        let by_panel = output.strides.channel != 1;
        let run_epilogue = |channels: Range<usize>| {
            if let Some(tile_epilogue) = &self.tile_epilogue {
                let first = group * rows;
                // SAFETY: the tensors are those of the operation, as this function requires.
                unsafe { tile_epilogue.run(tensors, block, first + channels.start..first + channels.end) };
            }
        };
        for panel in panels.clone() {
            let row = panel * self.kernel.rows;
            let height = (rows - row).min(self.kernel.rows);
            let channel = group * rows + row;
            for first in (0..tiles).map(|tile| tile * width) {
                let end = columns.min(first + width);
                let tile = Tile {
                    a: weights.wrapping_add(panel * of_panel).cast(),
                    a_stride: of_row,
                    b: planes.wrapping_add(first).cast(),
                    b_stride: self.geometry.channel(),
                    taps: &self.taps,
                    depth: self.words,
                    to,
                    to_stride: width,
                    // SAFETY: the epilogue's tensors are among those given, and have the rows' channels.
                    epilogue: unsafe {
                        self.channel_epilogue.of_tile(tensors, channel, (std::ptr::null(), 0))
                    },
                    ..Tile::EMPTY
                };
                let to_channel =
                    tensors[output.slot].wrapping_add(channel * output.strides.channel * self.store_size);
                let sums =
                    TileSums { columns: (first, end), from: to.cast_const(), row: width, rows: height };
                // SAFETY: panels have whole tiles of rows, planes whole vectors after each tap's last column, and the tile
                // room; the output has the rows' channels and these outputs.
                unsafe {
                    run_padded(&tile, height, (end - first).div_ceil(lanes));
                    (self.store)(&self.geometry, block, &sums, to_channel, &output.strides);
                }
            }
            if by_panel {
                run_epilogue(row..row + height);
            }
        }
        if !by_panel {
            run_epilogue(panels.start * self.kernel.rows..(panels.end * self.kernel.rows).min(*rows));
        }
    }
}

/// Copies a block's input into planes of pairs.
struct Fill<'a> {
    tiled: &'a Tiled,
    block: &'a Block,
    from: *const u8,
    strides: &'a Strides,
    planes: *mut u32,
}

impl IsaTask for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { tiled, block, from, strides, planes } = self;
        let channels = tiled.operands.channels;
        let filled = channels.div_ceil(2) * tiled.geometry.channel();
        // SAFETY: the block lies inside the tensor, and the planes have room for all words.
        unsafe {
            tiled.geometry.fill_pairs::<bf16>(block, from, strides, channels, planes);
            planes.add(filled).write_bytes(0, tiled.planes() - filled);
        }
    }
}

impl Kernel for Tiled {
    fn facts(&self) -> Facts {
        let tile = [self.kernel.rows, self.kernel.columns()];
        let tiled = Facts::tiled::<f32>("implicit-gemm", self.workers.threads(), tile, self.kernel.terms);
        Facts { matrix: true, ..tiled }
    }

    fn scratch_size(&self) -> usize {
        let of_exact = self.exact.as_ref().map_or(0, |exact| exact.scratch_size());
        Scratch::size_of(|scratch| self.layout(scratch)).max(of_exact)
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, input, weights, .. } = &self.operands;
        let [packed, planes, tiles] = self.layout(&mut Scratch::default());
        let shared = Tensors(tensors);
        let source = tensors[weights.slot];
        // SAFETY: the tensor covers its weights, and the scratch memory has room for all panels, as the prepacked memory has.
        let (packed, is_odd) = unsafe {
            let to = scratch.add(packed).cast::<u32>();
            self.prepacked.get(source, to, |to| self.pack_all(source, to))
        };
        if let Some(exact) = self.exact.as_ref().filter(|_| is_odd) {
            // SAFETY: the tensors are those of the operation, and the scratch memory suffices for both kernels.
            return unsafe { exact.run(tensors, scratch) };
        }
        let base = Shared([packed.cast_mut().cast(), scratch]);
        let blocks = self.geometry.blocks();
        self.workers.for_each_part_with_state(
            groups * self.chunks * blocks,
            |assignment, filled: &mut Option<(usize, usize)>| {
                let Assignment { worker, part: index, .. } = assignment;
                // Chunks of a block are consecutive, so that a worker copies the block's input only once.
                let (chunk, at) = (index % self.chunks, index / self.chunks);
                let (group, number) = (at / blocks, at % blocks);
                let block = self.geometry.block(number);
                let panels = self.panels * chunk / self.chunks..self.panels * (chunk + 1) / self.chunks;
                let planes = Scratch::of_worker::<u32>(base.get(1), planes, worker, self.planes());
                let size = self.kernel.rows * self.kernel.columns();
                let tile = Scratch::of_worker::<f32>(base.get(1), tiles, worker, size);
                if filled.replace((group, number)) != Some((group, number)) {
                    let from = self.operands.input_of(shared.all(), group, size_of::<bf16>());
                    let fill = Fill { tiled: self, block: &block, from, strides: &input.strides, planes };
                    // SAFETY: the processor has the instructions that the kernel was planned for.
                    unsafe { self.isa.run(fill) };
                }
                let of_group = self.panels * self.panel().1;
                let weights = base.get(0).cast::<u32>().cast_const().wrapping_add(group * of_group);
                let _session = Session::of(true);
                // SAFETY: the tensors and areas are those of the operation and the worker, no two parts write the same outputs.
                unsafe {
                    self.multiply(shared.all(), (group, &block), panels, (weights, planes, tile));
                }
            },
        );
    }
}
