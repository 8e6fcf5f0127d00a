//! Transforms tiles, multiplies them, and transforms the results back.

use crate::conv::geometry::{Block, Strides};
use crate::conv::operands::Operands;
use crate::conv::prefetch::BlockPrefetch;
use crate::conv::winograd::problem::{Winograd, WorkerMemory};
use crate::conv::winograd::transform::{Inputs, Line, Outputs, with_sides};
use crate::gemm::tile::{Order, Tile};
use crate::simd::array::Each;
use crate::simd::clip::Clip;
use crate::simd::stored::Stored;
use crate::simd::vector::Float;
use crate::tensor::row_converter::store_run;

/// The most tiles multiplied at once.
pub(crate) const MAX_COLUMNS: usize = 48;

impl<T: Float> Winograd<T> {
    /// Transforms the tiles of some rows.
    ///
    /// # Safety
    /// The worker's planes have the rows of `lines`, and only this thread uses them.
    unsafe fn transform(&self, worker: WorkerMemory<T>, lines: &[Line]) {
        let (planes, to, width, position_stride) =
            (worker.planes, worker.inputs, self.width(), self.position_stride());
        let (rows, row_stride, channels) = (self.rows, self.planes.channel(), self.operands.channels);
        // SAFETY: this function requires the planes, and the worker has room for the transformed tiles.
        unsafe {
            with_sides!(self.tile, SIDE, OUTPUTS => {
                let work = Inputs::<_, SIDE, OUTPUTS> { planes, rows, channels, row_stride, lines, width, position_stride, to };
                self.isa.run_vectors(work);
            });
        }
    }

    /// Transforms a panel's accumulators back and applies the epilogue; returns whether all results are
    /// finite.
    ///
    /// # Safety
    /// There are accumulators and a bias for `present` rows, and room for their outputs.
    pub(crate) unsafe fn with_epilogue(
        &self,
        sums: *const T,
        present: usize,
        vectors: usize,
        (bias, clip): (Option<(*const T, usize)>, Clip<T>),
        to: *mut T,
    ) -> bool {
        let (rows, width) = (self.kernel.rows, self.kernel.columns());
        // SAFETY: there are accumulators and a bias for `present` rows, and `to` has room for their outputs.
        unsafe {
            with_sides!(self.tile, SIDE, OUTPUTS => {
                let work = Outputs::<_, SIDE, OUTPUTS> { sums, rows, present, vectors, width, bias, clip, to };
                self.isa.run_vectors(work)
            })
        }
    }

    /// The outputs of a block of tiles.
    fn outputs(&self, tiles: &Block) -> Block {
        let whole = self.operands.windows.output;
        let side = [1, self.tile.outputs, self.tile.outputs];
        let origin = [0, 1, 2].each(|i| tiles.origin[i] * side[i]);
        let size = [0, 1, 2].each(|i| (tiles.size[i] * side[i]).min(whole[i] - origin[i]));
        Block { origin, size, ..*tiles }
    }

    /// Computes some panels of a block.
    ///
    /// # Safety
    /// `packed` are the transformed weights of the group, the worker's planes have the block, and the tensors
    /// cover its outputs.
    pub(crate) unsafe fn multiply(
        &self,
        tensors: &[*mut u8],
        (group, block): (usize, &Block),
        panels: std::ops::Range<usize>,
        packed: *const T,
        (worker, transformed): (WorkerMemory<T>, &mut Option<(usize, usize)>),
        next: Option<BlockPrefetch>,
    ) {
        let Operands { channels, rows, output, .. } = &self.operands;
        let (height, width, lanes) = (self.kernel.rows, self.kernel.columns(), self.kernel.lanes);
        let positions = self.tile.positions();
        let columns = block.outputs();
        let vectors = columns.div_ceil(lanes);
        let tiles = vectors.div_ceil(self.kernel.vectors);
        for tile in 0..tiles {
            let from = vectors * tile / tiles;
            let count = vectors * (tile + 1) / tiles - from;
            let range = (from * lanes, columns.min((from + count) * lanes));
            if *transformed != Some(range) {
                let (mut lines, mut found) = ([Line::default(); MAX_COLUMNS], 0);
                self.lines(block, range, |first_tile, run| {
                    lines[found] = Line { first_tile, column: run.column, len: run.len };
                    found += 1;
                });
                // SAFETY: the worker's planes have the lines, and its memory room for their transformed tiles.
                unsafe { self.transform(worker, &lines[..found]) };
                *transformed = Some(range);
            }
            for first in panels.clone().step_by(self.together) {
                let some = first..panels.end.min(first + self.together);
                for (position, panel) in
                    (0..positions).flat_map(|position| some.clone().map(move |panel| (position, panel)))
                {
                    let mut tile_prefetch = next.map(|next| {
                        let index = (tile * panels.len() + panel - panels.start) * positions + position;
                        next.for_tile(index, tiles * panels.len() * positions)
                    });
                    let to = ((panel - first) * positions + position) * height * width;
                    let mut gemm_tile = Tile {
                        order: Order::Panel,
                        a_stride: height,
                        depth: *channels,
                        b_stride: self.width(),
                        a: packed.wrapping_add((position * self.panels + panel) * self.panel()),
                        b: worker.inputs.wrapping_add(position * self.position_stride()),
                        to: worker.sums.wrapping_add(to),
                        to_stride: width,
                        tile_prefetch: tile_prefetch.as_mut(),
                        prefetches: self.isa.has_whole_vectors(),
                        ..Tile::EMPTY
                    };
                    // SAFETY: the weights have the panel of each position, the worker's memory the transformed tiles and room for sums.
                    unsafe { self.kernel.run(&mut gemm_tile, (rows - panel * height).min(height), count) };
                }
                for panel in some {
                    let row = panel * height;
                    let present = (rows - row).min(height);
                    let channel = group * rows + row;
                    let bias = self.channel_epilogue.bias.map(|(slot, stride)| {
                        let first = tensors[slot].cast_const().cast::<T>();
                        (first.wrapping_add(channel * stride), stride)
                    });
                    let sums = worker.sums.wrapping_add((panel - first) * positions * height * width);
                    let sums = sums.cast_const();
                    let channel_epilogue = (bias, self.channel_epilogue.clip.to());
                    // SAFETY: the sums of all positions are complete, the bias has the channels, and there is
                    // room for their outputs.
                    let are_finite =
                        unsafe { self.with_epilogue(sums, present, count, channel_epilogue, worker.outputs) };
                    if !are_finite {
                        let source = tensors[self.operands.weights.slot].cast_const();
                        let bias = |r: usize| {
                            // SAFETY: the bias has an element for each of the panel's channels.
                            bias.map(|(first, stride)| unsafe { first.add(r * stride).read_unaligned() })
                        };
                        let at = ((block, range, count), (group, row, present));
                        // SAFETY: the tensor has the weights, and the worker's memory the planes, sums and outputs.
                        unsafe { self.correct(at.0, at.1, source, (worker, sums), bias) };
                    }
                    // SAFETY: the output has the channels, and the worker's memory their outputs in this range.
                    unsafe {
                        let to = tensors[output.slot].add(channel * output.strides.channel * self.write_size);
                        (self.write)(self, block, range, (present, worker.outputs), to);
                    }
                }
            }
        }
        if let Some(tile_epilogue) = &self.tile_epilogue {
            let rows = group * rows + panels.start * height..group * rows + (panels.end * height).min(*rows);
            // SAFETY: the tensors are those of the operation, as this function requires.
            unsafe { tile_epilogue.run(tensors, &self.outputs(block), rows) };
        }
    }
}

/// Writes the outputs of some columns and rows, given the first element of the first row's channel.
///
/// # Safety
/// There are as many rows of outputs, and the tensor has their elements.
pub(crate) unsafe fn write<S: Stored, T: Float>(
    winograd: &Winograd<T>,
    block: &Block,
    range: (usize, usize),
    (rows, outputs): (usize, *const T),
    to: *mut u8,
) {
    let strides: &Strides = &winograd.operands.output.strides;
    let whole = winograd.operands.windows.output;
    let side = winograd.tile.outputs;
    let width = side * winograd.kernel.columns();
    winograd.lines(block, range, |first_tile, run| {
        for line in 0..side.min(whole[1] - side * run.at[1]) {
            let at = [run.at[0], side * run.at[1] + line, side * run.at[2]];
            let len = (side * run.len).min(whole[2] - at[2]);
            let first = strides.offset(run.image, at);
            for row in 0..rows {
                // SAFETY: the rows and elements are valid, as this function requires.
                unsafe {
                    let outputs = outputs.add((side * row + line) * width + side * first_tile);
                    let to = to.add((first + row * strides.channel) * size_of::<S>());
                    store_run::<S, T>(outputs, to, strides.spatial[2], len);
                }
            }
        }
    });
}
