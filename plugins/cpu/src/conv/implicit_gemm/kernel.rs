//! Convolution as implicit GEMM: output channels times outputs, summed over taps and input channels.
//!
//! The forward pass is one GEMM. Backward data is one per remainder of the input's indices modulo the stride,
//! because all elements with the same remainder meet the same taps. All of them read the same planes.

use crate::conv::cost::{BUFFER, Cost, Shape};
use crate::conv::epilogue::{ChannelEpilogue, TileEpilogue};
use crate::conv::geometry::{Block, Geometry, Strides};
use crate::conv::implicit_gemm::order::weights_stay;
use crate::conv::nan::{are_finite, has_nan};
use crate::conv::operands::{
    Fill, Operands, Pack, Store, SubProblem, are_columns, fill_of, pack_of, rows_stride, store_of,
};
use crate::conv::planes::TileSums;
use crate::conv::prefetch::{BlockPrefetch, is_shared, pays};
use crate::conv::strided_backward_data::{Spread, spread_of};
use crate::gemm::context::Context;
use crate::gemm::tile::{Order, Tile};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::row_converter::{all_finite, is_compute_type};
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Assignment, Workers};

/// A planned GEMM.
pub(crate) struct Planned {
    pub(crate) part: SubProblem,
    /// Offset of each tap in the planes.
    offsets: Vec<usize>,
    /// Elements of a packed panel.
    panel: usize,
    /// Elements before the first panel in the packed weights.
    packed: usize,
}

/// A planned convolution by implicit GEMM.
pub(crate) struct ImplicitGemm<T: 'static> {
    operands: Operands,
    parts: Vec<Planned>,
    pub(crate) geometry: Geometry,
    pub(crate) kernel: Context<T>,
    /// Panels of output channels in a group, and chunks of panels for the workers.
    panels: usize,
    chunks: usize,
    workers: Workers,
    pack_workers: Workers,
    fill: Fill<T>,
    fill_size: usize,
    pack: Pack<T>,
    store: Store<T>,
    store_size: usize,
    /// Stores a tile with zeros between its elements, for backward data with a stride.
    spread: Option<Spread<T>>,
    channel_epilogue: ChannelEpilogue,
    tile_epilogue: Option<TileEpilogue>,
    /// Whether the input is read in place, which requires contiguous columns, and whether the output is
    /// written in place.
    in_place: bool,
    written_in_place: bool,
    /// Whether input and output are prefetched.
    prefetches: bool,
    /// Row stride of weights that are read in place; others are packed.
    weights_stride: Option<usize>,
    scratch: ScratchLayout,
    /// Packed weights, if weights are constant.
    prepacked: Prepacked<T>,
}

/// A division of the outputs into blocks, and its cost.
pub(crate) struct Blocks {
    geometry: Geometry,
    in_place: bool,
    /// Estimated nanoseconds on one thread without packing the weights.
    work: f64,
    weights_stride: Option<usize>,
    /// Elements of the packed weights.
    weights: usize,
    /// Estimated nanoseconds of an execution on one thread.
    pub(crate) time: f64,
}

/// Elements of the parts of the scratch memory.
pub(crate) struct ScratchLayout {
    weights: usize,
    planes: usize,
    tile: usize,
}

/// One worker's work on a block of a group.
struct BlockTask<'a, T> {
    tensors: &'a [*mut u8],
    group: usize,
    block: Block,
    panels: std::ops::Range<usize>,
    /// The first row's weights.
    weights: *const T,
    /// The first column of the first channel.
    columns: *const T,
    tile: *mut T,
    /// The input of the worker's next block.
    next: Option<BlockPrefetch>,
}

impl<T: Float> ImplicitGemm<T> {
    /// Divides the outputs into blocks. With `unrolled`, the input is copied for each tap.
    pub(crate) fn blocks(
        operands: &Operands,
        unrolled: bool,
        isa: Isa,
        settings: Settings,
    ) -> Result<Blocks, Refusal> {
        let kernel = Context::<T>::of(isa);
        let mut shape = Shape {
            windows: &operands.windows,
            taps: operands.parts.iter().map(|part| part.taps.len()).sum(),
            groups: operands.groups,
            channels: operands.channels,
            rows: operands.rows.next_multiple_of(kernel.rows.min(operands.rows.next_power_of_two())),
            round: kernel.lanes,
            tile: kernel.columns(),
            unrolled: Some(unrolled),
            in_place: false,
            threads: settings.threads,
        };
        let cost = Cost::of::<T>(isa);
        let (mut geometry, mut work) = shape.best(&cost, BUFFER)?;
        let mut in_place = false;
        if are_columns::<T>(operands) && !unrolled {
            shape.in_place = true;
            let (other, time) = shape.best(&cost, BUFFER)?;
            // A last tile that would be too wide begins earlier, if there are enough columns.
            let fits = |index| {
                let columns = other.columns(&other.block(index));
                columns >= kernel.columns() || columns.is_multiple_of(kernel.lanes)
            };
            if time < work && other.is_flat() && (0..other.blocks()).all(fits) {
                (geometry, work, in_place) = (other, time, true);
            }
        }
        let weights_stride = rows_stride::<T>(operands).filter(|_| !settings.constant_weights);
        let terms = shape.taps * operands.channels;
        let panels = operands.groups * operands.rows.div_ceil(kernel.rows);
        let weights = if weights_stride.is_some() { 0 } else { panels * terms * kernel.rows };
        let time = work + if settings.constant_weights { 0.0 } else { weights as f64 * cost.copy };
        Ok(Blocks { geometry, in_place, work, weights_stride, weights, time })
    }

    /// Plans the convolution with its epilogue. With `unrolled`, the input is copied for each tap.
    #[inline(never)]
    pub(crate) fn plan(
        operands: Operands,
        unrolled: bool,
        isa: Isa,
        settings: Settings,
        spatial: usize,
        epilogue: Option<Epilogue>,
    ) -> Result<Self, Refusal> {
        let Blocks { geometry, in_place, work, weights_stride, weights, .. } =
            Self::blocks(&operands, unrolled, isa, settings)?;
        let threads = settings.threads;
        let kernel = Context::<T>::of(isa);
        let cost = Cost::of::<T>(isa);
        let is_flat = in_place
            && operands.between.is_none()
            && operands.output.strides.are_flat(operands.windows.output);
        let written_in_place = is_flat && is_compute_type::<T>(operands.output.data_type);
        let channel_epilogue =
            epilogue.as_ref().and_then(|epilogue| ChannelEpilogue::of::<T>(epilogue, spatial));
        let channel_epilogue = channel_epilogue.filter(|channel_epilogue| match &channel_epilogue.residual {
            Some((_, strides)) => is_flat && strides.are_flat(operands.windows.output),
            None => true,
        });
        let tile_epilogue = match (&epilogue, &channel_epilogue) {
            (Some(epilogue), None) => Some(TileEpilogue { block_epilogue: epilogue.plan()?, spatial }),
            _ => None,
        };
        let panels = operands.rows.div_ceil(kernel.rows);
        let blocks = geometry.blocks() * operands.groups;
        let wanted = threads.workers_for_reduction(work, usize::MAX).count();
        // Each chunk of rows copies the input again, so there are only as many as the workers need.
        let chunks =
            if wanted > 1 && blocks < 2 * wanted { (2 * wanted).div_ceil(blocks).min(panels) } else { 1 };
        let workers = threads.workers(work, blocks * chunks);
        let mut packed = 0;
        let parts: Vec<Planned> = operands
            .parts
            .iter()
            .map(|part| {
                let panel = part.taps.len() * operands.channels * kernel.rows;
                let first = packed;
                packed += operands.groups * panels * panel;
                let offsets = part.taps.iter().map(|(tap, _)| geometry.taps()[*tap]).collect();
                Planned { part: part.clone(), offsets, panel, packed: first }
            })
            .collect();
        let packs = parts.len() * operands.groups * panels;
        let pack_workers = threads.workers(weights as f64 * cost.copy * 2.0, packs);
        let planes = if in_place { 0 } else { operands.channels * geometry.channel() };
        let (fill, fill_size) = fill_of::<T, false>(operands.input.data_type)?;
        let pack = pack_of::<T>(operands.weights.data_type)?;
        let (store, store_size) = store_of::<T>(operands.output.data_type)?;
        let spread = operands.between.map(|_| spread_of::<T>(operands.output.data_type)).transpose()?;
        let scratch = ScratchLayout { weights, planes, tile: kernel.rows * kernel.columns() };
        let form = settings.shares_weights.then(|| {
            let form = operands.form("implicit-gemm", pack as usize).and([kernel.rows, panels]);
            form.and(parts.iter().flat_map(|part| [part.packed, part.panel]))
        });
        Ok(Self {
            prefetches: pays(&operands) || is_shared(&operands, workers),
            operands,
            parts,
            geometry,
            kernel,
            panels,
            chunks,
            workers,
            pack_workers,
            fill,
            fill_size,
            pack,
            store,
            store_size,
            spread,
            channel_epilogue: channel_epilogue.unwrap_or_default(),
            tile_epilogue,
            in_place,
            written_in_place,
            weights_stride,
            prepacked: Prepacked::new(scratch.weights, settings.constant_weights, form),
            scratch,
        })
    }

    /// The layout of the scratch memory: packed weights, then each worker's planes and tile.
    fn layout(&self, scratch: &mut Scratch) -> (usize, usize, usize) {
        let workers = self.workers.count();
        (
            scratch.area::<T>(self.scratch.weights, 1),
            scratch.area::<T>(self.scratch.planes, workers),
            scratch.area::<T>(self.scratch.tile, workers),
        )
    }

    /// The first column of a tile, and its vectors.
    fn tile_columns(&self, columns: usize, tiles: usize, index: usize) -> (usize, usize, usize) {
        let lanes = self.kernel.lanes;
        let total = columns.div_ceil(lanes);
        let (first, end) = (total * index / tiles, total * (index + 1) / tiles);
        let vectors = end - first;
        let to = columns.min(end * lanes);
        // Reads in place must end at the last column, so some columns are computed twice.
        let from = if self.in_place { to - vectors * lanes } else { first * lanes };
        (from, to, vectors)
    }

    /// Computes some panels of one of the GEMMs.
    ///
    /// # Safety
    /// The pointers of `share` are what its fields say, and `tile` is writable for a tile.
    unsafe fn multiply(&self, planned: &Planned, share: &BlockTask<'_, T>) {
        let Operands { channels, rows, input, output, .. } = &self.operands;
        let BlockTask { tensors, group, ref panels, .. } = *share;
        // With a stride, some GEMMs have one output less along a dimension.
        let size = planned.part.size;
        let block = Block {
            size: [0, 1, 2].each(|i| share.block.size[i].min(size[i].saturating_sub(share.block.origin[i]))),
            ..share.block
        };
        if block.size.contains(&0) {
            return;
        }
        let columns = self.geometry.columns(&block);
        let width = self.kernel.columns();
        let tiles = columns.div_ceil(self.kernel.lanes).div_ceil(self.kernel.vectors);
        // With an epilogue, all columns of a panel are computed in a row while they are in cache. In a
        // channels-last output a panel is scattered, so the epilogue runs on the whole block.
        let by_panel = self.tile_epilogue.is_some() && output.strides.channel != 1;
        let terms = planned.offsets.len() * channels;
        let weights_stay =
            !by_panel && weights_stay::<T>([panels.len(), planned.panel, terms], self.written_in_place);
        let (taps, b_stride): (&[usize], _) = if self.in_place {
            (&[0], input.strides.channel)
        } else {
            (&planned.offsets, self.geometry.channel())
        };
        let tile_epilogue = |tile_epilogue: &TileEpilogue, rows: std::ops::Range<usize>| {
            let first = group * self.operands.rows;
            // SAFETY: the tensors are those of the operation, as this function requires.
            unsafe { tile_epilogue.run(tensors, &block, first + rows.start..first + rows.end) };
        };
        // Few weights are checked once, instead of the results of each tile.
        let of_panels = panels.len() * planned.panel;
        let is_checked = self.geometry.is_padded()
            && !(self.weights_stride.is_none()
                && of_panels <= panels.len() * self.kernel.rows * columns
                // SAFETY: the panels are packed one after the other.
                && unsafe { all_finite(share.weights.add(panels.start * planned.panel), of_panels) });
        for index in 0..panels.len() * tiles {
            let (panel, column) = if weights_stay {
                (index % panels.len(), index / panels.len())
            } else {
                (index / tiles, index % tiles)
            };
            let panel = panels.start + panel;
            let row = panel * self.kernel.rows;
            let height = (rows - row).min(self.kernel.rows);
            let (from, end, vectors) = self.tile_columns(columns, tiles, column);
            let channel = group * rows + row;
            let at = |strides: &Strides| {
                channel * strides.channel + strides.offset(block.image, block.origin) + from
            };
            let to = tensors[output.slot]
                .wrapping_add((planned.part.first + channel * output.strides.channel) * self.store_size);
            let stored = self.written_in_place;
            let (tile, to_stride) = if stored {
                let offset = output.strides.offset(block.image, block.origin) + from;
                (to.cast::<T>().wrapping_add(offset), output.strides.channel)
            } else {
                (share.tile, width)
            };
            let residual = self.channel_epilogue.residual.map_or((std::ptr::null(), 0), |(slot, strides)| {
                (tensors[slot].cast::<T>().wrapping_add(at(&strides)).cast_const(), strides.channel)
            });
            let (weights, order, a_stride) = match self.weights_stride {
                Some(stride) => (row * stride, Order::Rows, stride),
                None => (panel * planned.panel, Order::Panel, self.kernel.rows),
            };
            let mut tile_prefetch = share.next.map(|next| next.for_tile(index, panels.len() * tiles));
            let mut gemm_tile = Tile {
                a: share.weights.wrapping_add(weights),
                order,
                a_stride,
                b: share.columns.wrapping_add(from),
                b_stride,
                taps,
                depth: *channels,
                to: tile,
                to_stride,
                // SAFETY: the epilogue's tensors are among those given, and have the rows' channels.
                epilogue: unsafe { self.channel_epilogue.of_tile(tensors, channel, residual) },
                tile_prefetch: tile_prefetch.as_mut(),
                prefetches_results: stored && self.prefetches,
                ..Tile::EMPTY
            };
            let (geometry, pixels, strides) = (&self.geometry, (from, end), &output.strides);
            if let Some(between) = self.operands.between.as_ref().filter(|_| self.prefetches) {
                between.prefetch(
                    geometry,
                    &block,
                    pixels,
                    height,
                    (to.cast_const(), self.store_size),
                    strides,
                );
            }
            // SAFETY: there are weights for each channel and tap, whole vectors after each tap's last column
            // or before the last one, and room for the tile's rows.
            unsafe { self.kernel.run(&mut gemm_tile, height, vectors) };
            // A weight that is NaN or infinite times a zero of the padding is NaN.
            // SAFETY: the tile was just computed, from weights and columns that are still valid.
            unsafe {
                if is_checked
                    && has_nan(tile, (height, width), vectors * self.kernel.lanes)
                    && !are_finite(&gemm_tile, height)
                {
                    self.multiply_exactly(planned, &gemm_tile, &block, pixels, height);
                }
            }
            // SAFETY: the output has the rows' channels and these pixels, and the tile has their sums.
            unsafe {
                let sums = TileSums { columns: pixels, from: tile.cast_const(), row: width, rows: height };
                if let (Some(between), Some(spread)) = (&self.operands.between, self.spread) {
                    spread(between, geometry, &block, &sums, to, strides);
                } else if !stored {
                    (self.store)(geometry, &block, &sums, to, strides);
                }
            }
            if let Some(block_epilogue) =
                self.tile_epilogue.as_ref().filter(|_| by_panel && column + 1 == tiles)
            {
                tile_epilogue(block_epilogue, row..row + height);
            }
        }
        if let Some(block_epilogue) = self.tile_epilogue.as_ref().filter(|_| !by_panel) {
            let height = self.kernel.rows;
            tile_epilogue(block_epilogue, panels.start * height..(panels.end * height).min(*rows));
        }
    }

    /// Packs all weights.
    ///
    /// # Safety
    /// `from` is the first weight; `to` is writable for all panels.
    unsafe fn pack_all(&self, from: *const u8, to: *mut T) {
        let shared = Shared([from.cast_mut(), to.cast()]);
        let of_part = self.operands.groups * self.panels;
        self.pack_workers.for_each_part(self.parts.len() * of_part, |_, index| {
            let planned = &self.parts[index / of_part];
            let in_part = index % of_part;
            let (group, panel) = (in_part / self.panels, in_part % self.panels);
            // SAFETY: the tensor covers its weights, and there is memory for every panel; a panel is
            // packed by one worker.
            unsafe {
                let to = shared.get(1).cast::<T>().add(planned.packed + in_part * planned.panel);
                (self.pack)(
                    &self.operands,
                    &planned.part.taps,
                    self.kernel.rows,
                    (group, panel),
                    shared.get(0),
                    to,
                );
            }
        });
    }
}

impl<T: Float> Kernel for ImplicitGemm<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>(
            "implicit-gemm",
            self.workers.threads(),
            [self.kernel.rows, self.kernel.columns()],
            1,
        )
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, channels, input, weights, .. } = &self.operands;
        let (packed, planes, tiles) = self.layout(&mut Scratch::default());
        let (groups, channels) = (*groups, *channels);
        let shared = Tensors(tensors);
        let source = tensors[weights.slot];
        let packed = match self.weights_stride {
            Some(_) => source.cast_const().cast(),
            // SAFETY: the tensor covers its weights, and the scratch memory has room for all panels, as the prepacked memory has.
            None => unsafe {
                let (packed, _) = self.prepacked.get(source, scratch.add(packed).cast::<T>(), |to| {
                    self.pack_all(source, to);
                    false
                });
                packed
            },
        };
        let base = Shared([packed.cast_mut().cast(), scratch]);
        let blocks = self.geometry.blocks();
        self.workers.for_each_part_with_state(groups * self.chunks * blocks, |assignment, (): &mut ()| {
            let Assignment { worker, part: index, .. } = assignment;
            let block = self.geometry.block(index % blocks);
            let next = assignment.next().filter(|_| self.prefetches).and_then(|next| {
                let next = next / blocks / self.chunks * blocks + next % blocks;
                BlockPrefetch::of_number(&self.geometry, &self.operands, shared.all(), self.fill_size, next)
            });
            let chunk = index / blocks % self.chunks;
            let group = index / blocks / self.chunks;
            let panels = self.panels * chunk / self.chunks..self.panels * (chunk + 1) / self.chunks;
            let planes = Scratch::of_worker::<T>(base.get(1), planes, worker, self.scratch.planes);
            let tile = Scratch::of_worker(base.get(1), tiles, worker, self.scratch.tile);
            // SAFETY: the tensors cover the group and the block.
            let columns = unsafe {
                let from = self.operands.input_of(shared.all(), group, self.fill_size);
                if self.in_place {
                    from.cast::<T>().add(input.strides.offset(block.image, block.origin)).cast_const()
                } else {
                    (self.fill)(&self.geometry, &block, from, &input.strides, channels, planes);
                    planes.cast_const()
                }
            };
            // Outputs of several GEMMs are interleaved: a panel's are written while they are in cache.
            let together = if self.parts.len() > 1 { 1 } else { panels.len().max(1) };
            let work = panels
                .step_by(together)
                .flat_map(|first| self.parts.iter().map(move |planned| (planned, first..first + together)));
            for (planned, panels) in work {
                let first = match self.weights_stride {
                    Some(_) => group * weights.group,
                    None => planned.packed + group * self.panels * planned.panel,
                };
                let weights = base.get(0).cast::<T>().cast_const().wrapping_add(first);
                let tensors = shared.all();
                let share = BlockTask { tensors, group, block, panels, weights, columns, tile, next };
                // SAFETY: no two blocks, chunks and groups write the same outputs, and the weights are those of the group.
                unsafe { self.multiply(planned, &share) };
            }
        });
    }
}
