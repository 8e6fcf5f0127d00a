//! Winograd's algorithm for 3 × 3 filters. F(2 × 2, 3 × 3) has 16 multiplications for 4 outputs instead of 36 (25
//! with stride 2); F(4 × 4, 3 × 3) has 36 for 16 outputs instead of 144.
//!
//! A tile of 2 × 2 outputs meets 4 × 4 inputs (5 × 5 with stride 2), one of 4 × 4 outputs 6 × 6. Inputs and
//! filter are transformed by additions, multiplied element by element, summed over the channels, and
//! transformed back: y = Aᵀ [Σ (G g Gᵀ) ∘ (Bᵀ d B)] A. For each transformed position the sum over channels is
//! a GEMM. Transforms round before the multiplication, so results are less exact than those of other
//! algorithms.
//!
//! The tiles are the outputs of a larger sliding window, whose [`Geometry`] gives the blocks. Their input is copied
//! into zero-padded planes, and split into tiles while it is transformed.

use crate::conv::cost::{BUFFER, Cost, Shape};
use crate::conv::epilogue::{ChannelEpilogue, TileEpilogue};
use crate::conv::geometry::{Block, Columns, Geometry, Windows};
use crate::conv::operands::{Operands, fill_of};
use crate::conv::prefetch;
use crate::conv::prefetch::BlockPrefetch;
use crate::conv::winograd::filter::{Filter, routines};
use crate::conv::winograd::gemm::write;
use crate::conv::winograd::problem::{Winograd, WorkerMemory, Write};
use crate::conv::winograd::transform::{MAX_SIDE, Tile};
use crate::gemm::context::Context;
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::stored::with_stored;
use crate::simd::vector::Float;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::row_converter::{RowConverter, not_a_float};
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Assignment, Threads};

/// Column tiles wanted per block, so that the transformed weights are reused enough.
const WANTED_TILES: usize = 2;

/// Planes may be this many times larger than for other algorithms to achieve that.
const MAX_BUFFERS: usize = 8;

/// The most accumulators of some panels, which stay in the L2 cache. The more panels, the less often the
/// transformed input is read from there.
const SUMS: usize = 96 << 10;

/// A worker's state between work items.
#[derive(Default)]
struct WorkerState {
    /// The group and the block whose input is in its planes.
    filled: Option<(usize, usize)>,
    /// The first and the last column of the tiles of that block that are transformed.
    transformed: Option<(usize, usize)>,
}

/// The taps of a 3 × 3 filter in row order: the first one's position, and the offsets in the filter.
type Square = ([isize; 3], [usize; 9]);

/// The taps of a 3 × 3 filter; `None` for other filters.
pub(crate) fn square(operands: &Operands) -> Option<Square> {
    let [part] = operands.parts.as_slice() else { return None };
    if operands.between.is_some() {
        return None;
    }
    let windows = &operands.windows;
    if windows.stride[0] != 1
        || windows.stride[1] != windows.stride[2]
        || part.size != windows.output
        || part.first != 0
        || part.taps.len() != 9
    {
        return None;
    }
    let first = [0, 1, 2].each(|i| windows.taps.iter().map(|tap| tap[i]).min().unwrap_or(0));
    let mut window = [None; 9];
    for (tap, offset) in &part.taps {
        let at = windows.taps.get(*tap)?;
        let [depth, row, column] = [0, 1, 2].each(|i| (at[i] - first[i]) as usize);
        if depth > 0 || row > 2 || column > 2 {
            return None;
        }
        window[3 * row + column] = Some(*offset);
    }
    let mut offsets = [0; 9];
    for (offset, found) in offsets.iter_mut().zip(window) {
        *offset = found?;
    }
    Some((first, offsets))
}

/// The tile of `outputs` × `outputs` and the taps, if the filter is 3 × 3, such a tile exists for the stride,
/// and all elements are floats. Other algorithms sum integers exactly.
pub(crate) fn form<T: Float>(operands: &Operands, outputs: usize) -> Result<(Tile, Square), Refusal> {
    let types = [operands.input.data_type, operands.weights.data_type, operands.output.data_type];
    types.into_iter().try_for_each(|data_type| RowConverter::<T>::of(data_type).map(|_| ()))?;
    let tile = Tile::of(outputs, operands.windows.stride[1]).ok_or("the stride has no such tiles")?;
    Ok((tile, square(operands).ok_or("the filter is not 3 × 3, or it is backward data with a stride")?))
}

impl<T: Float> Winograd<T> {
    /// Plans the convolution with its epilogue and tiles of `outputs` × `outputs`, 2 or 4; `None` if the
    /// algorithm does not apply.
    #[inline(never)]
    pub(crate) fn plan(
        operands: &Operands,
        outputs: usize,
        isa: Isa,
        settings: Settings,
        spatial: usize,
        epilogue: Option<Epilogue>,
    ) -> Result<Self, Refusal> {
        let (tile, (first, window)) = form::<T>(operands, outputs)?;
        let Windows { batch, output, input, .. } = operands.windows;
        let (positions, side, stride) = (tile.positions(), tile.side, tile.input_stride());
        let taps = (0..positions)
            .map(|position| {
                [first[0], first[1] + (position / side) as isize, first[2] + (position % side) as isize]
            })
            .collect();
        let tiles = [output[0], output[1].div_ceil(outputs), output[2].div_ceil(outputs)];
        let windows = Windows { batch, output: tiles, input, stride: [1, stride, stride], taps };
        let kernel = Context::<T>::of(isa);
        let threads = settings.threads;
        let cost = Cost::of::<T>(isa);
        let panels = operands.rows.div_ceil(kernel.rows);
        let shape = Shape {
            windows: &windows,
            taps: positions,
            groups: operands.groups,
            channels: operands.channels,
            rows: panels * kernel.rows,
            round: kernel.lanes,
            tile: kernel.columns(),
            unrolled: Some(false),
            in_place: false,
            // Threads are considered below.
            threads: Threads { most: 1, ..threads },
        };
        let (mut geometry, mut time) = shape.best(&cost, BUFFER)?;
        let mut times = 2;
        while geometry.block(0).outputs() < WANTED_TILES * kernel.columns() && times <= MAX_BUFFERS {
            (geometry, time) = shape.best(&cost, times * BUFFER)?;
            times *= 2;
        }
        // Workers that share a block each copy and transform it.
        let wanted = threads.workers_for_reduction(time, usize::MAX).count();
        while geometry.blocks() * operands.groups < wanted {
            let Some(smaller) = geometry.halved(kernel.lanes) else { break };
            geometry = smaller;
        }
        let elements = Windows {
            output: [tiles[0], tiles[1], tiles[2] * stride],
            stride: [1, stride, 1],
            ..windows.clone()
        };
        let first = geometry.block(0);
        let size = [first.size[0], first.size[1], first.size[2] * stride];
        let planes = Geometry::new(&elements, false, first.images, size, 1);
        let mut rows = [0; MAX_SIDE];
        for (row, tap) in rows.iter_mut().zip(planes.taps().iter().step_by(side)) {
            *row = *tap;
        }
        let blocks = geometry.blocks() * operands.groups;
        let are_shared = blocks < 2 * wanted && !blocks.is_multiple_of(wanted);
        let chunks = if are_shared { (2 * wanted).div_ceil(blocks).min(panels) } else { 1 };
        // Groups with about equally many panels.
        let most = (SUMS / (positions * kernel.rows * kernel.columns())).max(1);
        let of_chunk = panels.div_ceil(chunks).max(1);
        let channel_epilogue =
            epilogue.as_ref().and_then(|epilogue| ChannelEpilogue::without_function::<T>(epilogue, spatial));
        let channel_epilogue =
            channel_epilogue.filter(|channel_epilogue| channel_epilogue.residual.is_none());
        let tile_epilogue = match (&epilogue, &channel_epilogue) {
            (Some(epilogue), None) => Some(TileEpilogue { block_epilogue: epilogue.plan()?, spatial }),
            _ => None,
        };
        let (fill, fill_size) = fill_of::<T, false>(operands.input.data_type)?;
        let (pack, weight) = routines::<T>(operands.weights.data_type)?;
        let (write, write_size): (Write<T>, usize) = with_stored!(
            operands.output.data_type,
            S => (write::<S, T>, size_of::<S>()),
            other => return Err(not_a_float(other))
        );
        let weights = operands.groups * panels * kernel.rows * operands.channels * positions;
        let form = settings.shares_weights.then(|| {
            let form = operands.form("winograd", pack as usize).on(isa).and(window);
            form.and([tile.side, tile.outputs, tile.stride, panels, kernel.rows])
        });
        Ok(Self {
            together: of_chunk.div_ceil(of_chunk.div_ceil(most)),
            workers: threads.workers(time, blocks * chunks),
            pack_workers: threads.workers(weights as f64 * cost.copy * 2.0, operands.groups * panels),
            prepacked: Prepacked::new(weights, settings.constant_weights, form),
            prefetches: prefetch::pays(operands),
            operands: operands.clone(),
            isa,
            kernel,
            window,
            tile,
            geometry,
            planes,
            rows,
            panels,
            chunks,
            fill,
            fill_size,
            pack,
            weight,
            write,
            write_size,
            channel_epilogue: channel_epilogue.unwrap_or_default(),
            tile_epilogue,
        })
    }

    /// The filters, and how they are packed.
    fn filter(&self) -> Filter<'_> {
        Filter {
            operands: &self.operands,
            window: &self.window,
            tile: self.tile,
            isa: self.isa,
            panels: self.panels,
            height: self.kernel.rows,
        }
    }

    /// Elements of a panel of transformed weights at one position.
    pub(crate) fn panel(&self) -> usize {
        self.filter().panel()
    }

    /// Elements in a row of transformed tiles.
    pub(crate) fn width(&self) -> usize {
        self.kernel.columns() + self.kernel.lanes
    }

    /// Stride of positions in the transformed tiles. With a power of 2, elements of a tile would evict each
    /// other from the L1 cache.
    pub(crate) fn position_stride(&self) -> usize {
        self.operands.channels * self.width() + Scratch::padded::<T>(1)
    }

    /// Elements after the planes that vectors of the last row's last tiles may read.
    fn beyond(&self) -> usize {
        self.tile.input_stride() * self.kernel.lanes + self.tile.side
    }

    /// The sizes of the parts of a worker's memory, in the order of [`WorkerMemory`].
    fn sizes(&self) -> [usize; 4] {
        let channels = self.operands.channels;
        let tile = self.kernel.rows * self.kernel.columns();
        [
            channels * self.planes.channel() + self.beyond(),
            self.tile.positions() * self.position_stride(),
            self.together * self.tile.positions() * tile,
            self.tile.outputs.pow(2) * tile,
        ]
    }

    /// The layout of the scratch memory: transformed weights, then each worker's parts.
    fn layout(&self, scratch: &mut Scratch) -> (usize, [usize; 4]) {
        let workers = self.workers.count();
        let weights = self.operands.groups * self.tile.positions() * self.panels * self.panel();
        (scratch.area::<T>(weights, 1), self.sizes().each(|size| scratch.area::<T>(size, workers)))
    }

    /// Calls `each` with the rows of a block's tiles in `from..to`, counted consecutively, and the position
    /// of each row's first tile.
    #[inline(always)]
    pub(crate) fn lines(
        &self,
        block: &Block,
        (from, to): (usize, usize),
        mut each: impl FnMut(usize, Columns),
    ) {
        let [depth, row, _, image] = self.planes.plane_strides();
        let [depths, height, width] = block.size;
        let mut tile = from;
        while tile < to {
            let (line, w) = (tile / width, tile % width);
            let (n, d, h) = (line / height / depths, line / height % depths, line % height);
            let len = (width - w).min(to - tile);
            each(
                tile - from,
                Columns {
                    column: n * image + d * depth + h * row + w * self.tile.input_stride(),
                    len,
                    image: block.image + n,
                    at: [block.origin[0] + d, block.origin[1] + h, block.origin[2] + w],
                },
            );
            tile += len;
        }
    }

    /// The input block of a block of tiles.
    fn elements(&self, tiles: &Block) -> Block {
        let scaled = |[d, h, w]: [usize; 3]| [d, h, w * self.tile.input_stride()];
        Block { origin: scaled(tiles.origin), size: scaled(tiles.size), ..*tiles }
    }
}

impl<T: Float> Kernel for Winograd<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>("winograd", self.workers.threads(), [self.kernel.rows, self.kernel.columns()], 1)
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, channels, input, weights, .. } = &self.operands;
        let (packed, areas) = self.layout(&mut Scratch::default());
        let shared = Tensors(tensors);
        let source = tensors[weights.slot];
        // SAFETY: the scratch memory has room for all panels, as the prepacked memory has.
        let (packed, _) = self.prepacked.get(source, unsafe { scratch.add(packed).cast::<T>() }, |to| {
            // SAFETY: the tensor covers its weights, and `to` has room for all panels.
            unsafe { self.filter().pack_all(self.pack, self.pack_workers, source, to) };
            false
        });
        let base = Shared([packed.cast_mut().cast(), scratch]);
        let blocks = self.geometry.blocks();
        let sizes = self.sizes();
        self.workers.for_each_part_with_state(
            groups * self.chunks * blocks,
            |assignment, carried: &mut WorkerState| {
                let Assignment { worker, part: index, .. } = assignment;
                // Chunks of a block are consecutive, so that a worker copies the block's input only once.
                let (chunk, at) = (index % self.chunks, index / self.chunks);
                let (group, block_number) = (at / blocks, at % blocks);
                let block = self.geometry.block(block_number);
                let panels = self.panels * chunk / self.chunks..self.panels * (chunk + 1) / self.chunks;
                let next = assignment.next_block(self.chunks).filter(|_| self.prefetches);
                let next = next.and_then(|next| {
                    let from =
                        self.operands.input_of(shared.all(), next / blocks, self.fill_size).cast_const();
                    let block = self.elements(&self.geometry.block(next % blocks));
                    BlockPrefetch::of(&self.planes, &block, &input.strides, *channels, (from, self.fill_size))
                });
                // SAFETY: the tensors cover the group, and the scratch memory has all parts for each
                // worker; no two blocks, chunks and groups write the same outputs.
                unsafe {
                    let area =
                        |index: usize| Scratch::of_worker(base.get(1), areas[index], worker, sizes[index]);
                    let worker =
                        WorkerMemory { planes: area(0), inputs: area(1), sums: area(2), outputs: area(3) };
                    if carried.filled != Some((group, block_number)) {
                        (self.fill)(
                            &self.planes,
                            &self.elements(&block),
                            self.operands.input_of(shared.all(), group, self.fill_size),
                            &input.strides,
                            *channels,
                            worker.planes,
                        );
                        worker.planes.add(channels * self.planes.channel()).write_bytes(0, self.beyond());
                        *carried = WorkerState { filled: Some((group, block_number)), transformed: None };
                    }
                    let packed = base.get(0).cast::<T>().cast_const();
                    let packed = packed.add(group * self.tile.positions() * self.panels * self.panel());
                    let transformed = &mut carried.transformed;
                    self.multiply(shared.all(), (group, &block), panels, packed, (worker, transformed), next);
                }
            },
        );
    }
}
