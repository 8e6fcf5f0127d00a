//! The plan and its execution.

use std::ops::Range;

use crate::conv::cost::{BUFFER, Cost};
use crate::conv::direct::tile::{MAX_PIXELS, TileKernel};
use crate::conv::epilogue::ChannelEpilogue;
use crate::conv::geometry::Windows;
use crate::conv::operands::Operands;
use crate::conv::winograd::channels_last::problem::ChannelsLast;
use crate::conv::winograd::channels_last::transform::{Inputs, Outputs};
use crate::conv::winograd::filter::{Filter, routines};
use crate::conv::winograd::kernel::form;
use crate::conv::winograd::transform::with_sides;
use crate::gemm;
use crate::gemm::tile::NextTiles;
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::row_converter::is_compute_type;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::Assignment;

/// The fewest and the most tiles of the micro-kernel in a block: so often each transformed weight is used.
const MICRO_TILES: [usize; 2] = [2, 16];

/// With so few tiles of the micro-kernel in a block, weights come from farther caches or from memory, and are prefetched.
const FEW: usize = 4;

/// Elements of a block's transformed tiles, which stay in the L3 cache.
const INPUTS: usize = 8 * BUFFER;

/// Elements of the sums of panels that are multiplied together: the more panels, the less often the transformed input is read.
const SUMS: usize = 96 << 10;

/// Parts per worker, so that workers of different speed end at about the same time.
const PARTS: usize = 3;

/// Parts of a worker's memory.
struct Areas<T> {
    /// A zero for each channel, which stands for the padding.
    zeros: *mut T,
    inputs: *mut T,
    sums: *mut T,
}

impl<T: Float> ChannelsLast<T> {
    /// The epilogue, if input and output have their channels last and the compute type.
    pub(crate) fn epilogue(
        operands: &Operands,
        spatial: usize,
        epilogue: Option<&Epilogue>,
    ) -> Option<ChannelEpilogue> {
        let is_same = [operands.input.data_type, operands.output.data_type].map(is_compute_type::<T>);
        let is_last = operands.input.strides.channel == 1 && is_same == [true; 2];
        let rows = || ChannelEpilogue::of_rows::<T>(operands, true, spatial, epilogue);
        is_last.then(rows).flatten()
    }

    /// Plans the convolution with tiles of `outputs` × `outputs`, 2 or 4, and its [`Self::epilogue`].
    #[inline(never)]
    pub(crate) fn plan(
        operands: &Operands,
        outputs: usize,
        isa: Isa,
        settings: Settings,
        epilogue: ChannelEpilogue,
    ) -> Result<Self, Refusal> {
        let (tile, (first, window)) = form::<T>(operands, outputs)?;
        let Operands { windows, channels, rows, groups, .. } = operands;
        let Windows { batch, output, .. } = windows;
        let kernel = TileKernel::of(isa, *rows);
        let cost = Cost::of::<T>(isa);
        let threads = settings.threads;
        let positions = tile.positions();
        let grid = [output[0], output[1].div_ceil(outputs), output[2].div_ceil(outputs)];
        let tiles = batch * grid.iter().product::<usize>();
        let panels = rows.div_ceil(kernel.width);
        let products = (tiles * positions * groups) as f64 * (channels * panels * kernel.width) as f64;
        let time = products * cost.fused
            + (tiles * positions * groups) as f64 * (channels + rows) as f64 * cost.copy / 4.0;
        let wanted = threads.workers_for_reduction(time, usize::MAX).count();
        let [least, most] = MICRO_TILES.map(|count| count * kernel.pixels);
        let near = INPUTS / (positions * channels) / kernel.pixels * kernel.pixels;
        let mut block = near.clamp(least, most);
        if wanted > 1 {
            let even = (tiles * groups).div_ceil(PARTS * wanted).next_multiple_of(kernel.pixels);
            block = block.min(even.max(least));
        }
        // Blocks of about the same size.
        let block = tiles.div_ceil(tiles.div_ceil(block)).next_multiple_of(kernel.pixels);
        let parts = tiles.div_ceil(block) * groups;
        let chunks = if parts < 2 * wanted { (2 * wanted).div_ceil(parts).min(panels) } else { 1 };
        let of_chunk = panels.div_ceil(chunks);
        let together = (SUMS / (positions * block * kernel.width)).clamp(1, of_chunk);
        let (pack, weight) = routines::<T>(operands.weights.data_type)?;
        let weights = groups * panels * kernel.width * channels * positions;
        let form = settings.shares_weights.then(|| {
            let form = operands.form("winograd", pack as usize).on(isa).and(window);
            form.and([tile.side, tile.outputs, tile.stride, panels, kernel.width])
        });
        Ok(Self {
            workers: threads.workers(time, parts * chunks),
            pack_workers: threads.workers(weights as f64 * cost.copy * 2.0, groups * panels),
            prepacked: Prepacked::in_large_pages(weights, settings.constant_weights, form),
            operands: operands.clone(),
            isa,
            tile,
            window,
            first,
            kernel,
            grid,
            tiles,
            block,
            panels,
            together: of_chunk.div_ceil(of_chunk.div_ceil(together)),
            chunks,
            pack,
            weight,
            epilogue,
        })
    }

    /// The sizes of the parts of a worker's memory, in the order of [`Areas`].
    fn sizes(&self) -> [usize; 3] {
        let positions = self.tile.positions();
        [self.row(), positions * self.position_stride(), self.together * positions * self.sums_stride()]
    }

    /// The layout of the scratch memory: transformed weights, then each worker's parts.
    fn layout(&self, scratch: &mut Scratch) -> (usize, [usize; 3]) {
        let workers = self.workers.count();
        let filter = self.filter();
        let weights = self.operands.groups * self.tile.positions() * self.panels * filter.panel();
        (scratch.area::<T>(weights, 1), self.sizes().each(|size| scratch.area::<T>(size, workers)))
    }

    fn filter(&self) -> Filter<'_> {
        Filter {
            operands: &self.operands,
            window: &self.window,
            tile: self.tile,
            isa: self.isa,
            panels: self.panels,
            height: self.kernel.width,
        }
    }

    /// Transforms the input of some tiles.
    ///
    /// # Safety
    /// The tensors have the group, and the memory is the worker's.
    unsafe fn transform(&self, tensors: &[*mut u8], group: usize, tiles: Range<usize>, areas: &Areas<T>) {
        let from = self.operands.input_of(tensors, group, size_of::<T>()).cast_const().cast::<T>();
        // SAFETY: this function requires the group and the memory.
        unsafe {
            areas.zeros.write_bytes(0, self.row());
            with_sides!(self.tile, SIDE, _OUTPUTS => {
                let (zeros, to) = (areas.zeros.cast_const(), areas.inputs);
                self.isa.run_vectors(Inputs::<_, SIDE> { winograd: self, from, zeros, tiles, to });
            });
        }
    }

    /// Multiplies the transformed tiles with a panel of weights at a position.
    ///
    /// # Safety
    /// The panel, the tiles and the room for their sums are valid.
    unsafe fn multiply(
        &self,
        count: usize,
        position: usize,
        weights: *const T,
        areas: &Areas<T>,
        to: *mut T,
    ) {
        let (pixels, width, row) = (self.kernel.pixels, self.kernel.width, self.row());
        let a = areas.inputs.cast_const().wrapping_add(position * self.position_stride());
        let run = |first: usize, present: usize, more: usize| {
            let mut rows = [0; MAX_PIXELS];
            // Rows beyond the last tile repeat it.
            rows.iter_mut().enumerate().for_each(|(at, offset)| *offset = at.min(present - 1) * row);
            let mut tile = gemm::tile::Tile {
                a: a.wrapping_add(first * row),
                a_stride: 1,
                rows: &rows,
                depth: self.operands.channels,
                prefetches: count <= FEW * pixels,
                b: weights,
                b_stride: width,
                to: to.wrapping_add(first * width),
                to_stride: width,
                next: NextTiles { count: more, a: pixels * row, to: pixels * width, ..NextTiles::NONE },
                ..gemm::tile::Tile::EMPTY
            };
            // SAFETY: this function requires the operands and the room.
            unsafe { self.kernel.run(&mut tile) };
        };
        let whole = count / pixels;
        if whole > 0 {
            run(0, pixels, whole - 1);
        }
        if whole * pixels < count {
            run(whole * pixels, count - whole * pixels, 0);
        }
    }

    /// Computes some panels of a block whose input is transformed.
    ///
    /// # Safety
    /// `packed` are the transformed weights of the group, the tensors have the tiles, and the memory is the worker's.
    unsafe fn compute(
        &self,
        tensors: &[*mut u8],
        group: usize,
        tiles: &Range<usize>,
        panels: Range<usize>,
        packed: *const T,
        areas: &Areas<T>,
    ) {
        let (positions, rows) = (self.tile.positions(), self.operands.rows);
        let (panel_size, width) = (self.filter().panel(), self.kernel.width);
        let sums_of = |panel: usize| areas.sums.wrapping_add(panel * positions * self.sums_stride());
        for begin in panels.clone().step_by(self.together) {
            let some = begin..panels.end.min(begin + self.together);
            for position in 0..positions {
                for panel in some.clone() {
                    let weights = packed.wrapping_add((position * self.panels + panel) * panel_size);
                    let to = sums_of(panel - begin).wrapping_add(position * self.sums_stride());
                    // SAFETY: this function requires the weights and the memory.
                    unsafe { self.multiply(tiles.len(), position, weights, areas, to) };
                }
            }
            for panel in some {
                let first = panel * width;
                let present = (rows - first).min(width);
                let sums = sums_of(panel - begin).cast_const();
                // SAFETY: this function requires the tensors; the sums are complete.
                unsafe {
                    with_sides!(self.tile, SIDE, OUTPUTS => {
                        let tiles = tiles.clone();
                        let work = Outputs::<_, SIDE, OUTPUTS> { winograd: self, tensors, group, first, present, tiles, sums };
                        self.isa.run_vectors(work);
                    });
                }
            }
        }
    }
}

impl<T: Float> Kernel for ChannelsLast<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>("winograd", self.workers.threads(), [self.kernel.pixels, self.kernel.width], 1)
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, weights, .. } = &self.operands;
        let (packed, offsets) = self.layout(&mut Scratch::default());
        let (shared, source) = (Tensors(tensors), tensors[weights.slot]);
        let positions = self.tile.positions();
        // SAFETY: the scratch memory has room for all panels, as the prepacked memory has.
        let (packed, _) = self.prepacked.get(source, unsafe { scratch.add(packed).cast::<T>() }, |to| {
            // SAFETY: the tensor covers its weights, and `to` has room for all panels.
            unsafe { self.filter().pack_all(self.pack, self.pack_workers, source, to) };
            false
        });
        let base = Shared([packed.cast_mut().cast(), scratch]);
        let blocks = self.tiles.div_ceil(self.block);
        let sizes = self.sizes();
        self.workers.for_each_part_with_state(
            groups * self.chunks * blocks,
            |assignment, transformed: &mut Option<usize>| {
                let Assignment { worker, part, .. } = assignment;
                // Chunks of a block are consecutive, so that a worker transforms the block's input only once.
                let (chunk, at) = (part % self.chunks, part / self.chunks);
                let (group, block) = (at / blocks, at % blocks);
                let tiles = block * self.block..self.tiles.min((block + 1) * self.block);
                let panels = self.panels * chunk / self.chunks..self.panels * (chunk + 1) / self.chunks;
                let area =
                    |index: usize| Scratch::of_worker(base.get(1), offsets[index], worker, sizes[index]);
                let areas = Areas { zeros: area(0), inputs: area(1), sums: area(2) };
                // SAFETY: the tensors cover the group, and the scratch memory has all parts for each worker; no two parts write the
                // same outputs.
                unsafe {
                    if *transformed != Some(at) {
                        self.transform(shared.all(), group, tiles.clone(), &areas);
                        *transformed = Some(at);
                    }
                    let of_group = group * positions * self.panels * self.filter().panel();
                    let packed = base.get(0).cast::<T>().cast_const().add(of_group);
                    self.compute(shared.all(), group, &tiles, panels, packed, &areas);
                }
            },
        );
    }
}
