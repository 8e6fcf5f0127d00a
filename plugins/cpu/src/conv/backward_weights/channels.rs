//! Backward weights with vectors of output channels.
//!
//! The output's gradient is transposed, so that each output is a row of channels. Each worker has its own
//! weights and visits all outputs. If there are few weights, each worker has blocks of outputs instead, whose
//! sums are added in order, so that results do not depend on the number of workers.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::backward_weights::partition::{MAX_SUMS, Partition, WorkerShare};
use crate::conv::backward_weights::rows::{BackwardWeights, Operands};
use crate::conv::cost::Cost;
use crate::conv::direct_small::outputs::{Met, met};
use crate::conv::direct_small::planes::Planes;
use crate::conv::direct_small::tile::{AccumulatorTile, AccumulatorTileKernel, MAX_ROWS, copied};
use crate::conv::geometry::{Block, Geometry};
use crate::gemm::pack::{Accumulators as Stored, Pack, PackSource, Store, pack_of};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::row_converter::{all_finite, is_compute_type};
use crate::tensor::scratch::{Scratch, Shared};
use crate::threading::partition::{Workers, part};

/// Approximate number of outputs summed in registers.
const OUTPUTS: usize = 512;

/// Backward weights with vectors of output channels, with every decision made.
pub(crate) struct BackwardWeightsByChannel<T: 'static> {
    operands: Operands,
    isa: Isa,
    kernel: AccumulatorTileKernel<T>,
    planes: Planes<T>,
    /// The blocks of outputs that are summed in registers.
    blocks: Geometry,
    /// Offsets of a block's outputs in the planes, and their indices.
    outputs: Vec<usize>,
    indices: Vec<usize>,
    /// For each tap, the outputs that meet it inside the input, and those that meet it or the next tap; empty
    /// if those are nearly all outputs.
    met: Vec<[Met; 2]>,
    /// Whether each tile has a single tap, so that no output is multiplied with padding.
    by_tap: bool,
    division: Partition,
    workers: Workers,
    pack: Pack<T>,
    input_size: usize,
    gradient_size: usize,
    store: Store<T>,
    /// Transposes sums into weights that are contiguous in the sums' order.
    transpose: Option<Pack<T>>,
    /// Runs instead if padding meets gradients that are NaN or infinite.
    exact: Option<Box<BackwardWeights<T>>>,
}

/// Offsets in the scratch memory.
pub(crate) struct ScratchLayout {
    planes: usize,
    gradients: usize,
    sums: usize,
}

/// The most elements of a block's planes; large dilations could exceed it.
const MAX_ELEMENTS: f64 = (1_u64 << 24) as f64;

/// Refuses too few output channels to fill a vector, and blocks whose planes are too large.
pub(crate) fn suits<T: Float>(operands: &Operands, isa: Isa) -> Result<(), Refusal> {
    let lanes = AccumulatorTileKernel::<T>::of(isa).lanes;
    let Operands { windows, channels, rows, .. } = operands;
    let (images, size) = block(windows.batch, windows.output);
    let sides = [0, 1, 2].map(|i| {
        let taps_of_axis = || windows.taps.iter().map(|tap| tap[i]);
        let window = taps_of_axis().max().unwrap_or(0) - taps_of_axis().min().unwrap_or(0);
        ((size[i] - 1) * windows.stride[i] + 1) as f64 + window as f64
    });
    if rows * 2 <= lanes {
        return Err(format!("{rows} output channels in a group, expected more than {}", lanes / 2));
    }
    if sides.into_iter().product::<f64>() * (images * channels) as f64 > MAX_ELEMENTS {
        return Err(format!("a block has too many elements, expected at most {MAX_ELEMENTS}"));
    }
    Ok(())
}

/// Images and box size of the blocks: as few blocks as possible, of similar size.
fn block(batch: usize, outputs: [usize; 3]) -> (usize, [usize; 3]) {
    let of_image: usize = outputs.iter().product();
    if of_image <= OUTPUTS {
        let blocks = (batch * of_image).div_ceil(OUTPUTS);
        return (batch.div_ceil(blocks), outputs);
    }
    let mut size = outputs;
    for axis in 0..3 {
        let behind: usize = outputs[axis + 1..].iter().product();
        let blocks = (outputs[axis] * behind).div_ceil(OUTPUTS).min(outputs[axis]);
        size[axis] = outputs[axis].div_ceil(blocks);
        if size[axis] > 1 {
            break;
        }
    }
    (1, size)
}

impl<T: Float> BackwardWeightsByChannel<T> {
    pub(crate) fn plan(operands: Operands, isa: Isa, settings: Settings) -> Result<Self, Refusal> {
        let kernel = AccumulatorTileKernel::<T>::of(isa);
        let cost = Cost::of::<T>(isa);
        let Operands { windows, groups, channels, rows, input, gradient, weights, taps } = &operands;
        let outputs = (windows.batch * windows.output.iter().product::<usize>()) as f64;
        let copies = (windows.batch * windows.input.iter().product::<usize>()) as f64;
        let channel_blocks = rows.div_ceil(kernel.channel_block);
        let time = |by_tap: bool, channel_blocks: usize, channels: usize| {
            let height = kernel.height(channels * taps.len(), channel_blocks);
            let (pairs, copies) = match by_tap {
                true => (taps.len() * channels.next_multiple_of(kernel.rows), 0.0),
                false => ((channels * taps.len()).next_multiple_of(height), copies),
            };
            let width = (channel_blocks * kernel.channel_block) as f64;
            *groups as f64
                * (outputs * pairs as f64 * width * cost.fused
                    + copies * channels as f64 * copied(&cost, windows.input[2])
                    + outputs * width * copied(&cost, windows.output[2]))
        };
        let (images, size) = block(windows.batch, windows.output);
        let blocks = Geometry::new(windows, false, images, size, 1);
        let of_images = |planes: &Planes<T>| {
            let outputs = planes.outputs(images, size, windows.stride);
            let met = if size == windows.output { met(&blocks, &outputs) } else { Vec::new() };
            (outputs, met)
        };
        // Without padding the image is read in place. This must not depend on the number of threads, or
        // results would too.
        let in_place = Planes::plan(windows, *input, *channels, (images, size), true)?;
        let (outputs, met) = of_images(&in_place);
        let by_tap = !met.is_empty()
            && is_compute_type::<T>(input.data_type)
            && time(true, channel_blocks, *channels) < time(false, channel_blocks, *channels);
        let whole = Partition {
            rows: 1,
            channels: 1,
            by_blocks: 1,
            channel_blocks,
            inputs: *channels,
            blocks: blocks.blocks(),
        };
        let sums = blocks.blocks().saturating_mul(rows * channels * taps.len());
        let may_divide_blocks = *groups == 1 && blocks.blocks() > 1 && sums <= MAX_SUMS;
        let (division, workers) =
            Partition::best(whole, settings.threads, may_divide_blocks, |channel_blocks, channels| {
                time(by_tap, channel_blocks, channels)
            });
        let (planes, outputs, met) = if by_tap {
            (in_place, outputs, met)
        } else {
            let planes = Planes::plan(windows, *input, division.most().1, (images, size), false)?;
            let (outputs, met) = of_images(&planes);
            let met = if planes.are_padded() { met } else { Vec::new() };
            (planes, outputs, met)
        };
        let plan_exact =
            || in_own_frame(|| BackwardWeights::plan(operands.clone(), isa, settings).map(Box::new));
        let exact = planes.are_padded().then(plan_exact);
        let bytes = |data_type: DataType| data_type.size().unwrap_or(1);
        let are_rows = weights.are_rows::<T>(taps.iter().copied());
        let transpose = are_rows.then(|| pack_of("sums", weights.data_type)).transpose()?;
        Ok(Self {
            isa,
            kernel,
            indices: (0..outputs.len()).collect(),
            met,
            by_tap,
            outputs,
            blocks,
            division,
            workers,
            pack: (kernel.pack_rhs)("dy", gradient.data_type)?,
            input_size: bytes(input.data_type),
            gradient_size: bytes(gradient.data_type),
            store: (kernel.store)("dw", weights.data_type)?,
            transpose,
            exact: exact.transpose()?,
            planes,
            operands,
        })
    }

    /// Elements of a worker's planes, of its copy of the output's gradient, and of its sums.
    fn sizes(&self) -> [usize; 3] {
        let (channel_blocks, channels) = self.division.most();
        let width = channel_blocks * self.kernel.channel_block;
        [self.planes.elements(), self.outputs.len() * width, self.rows(channels) * width]
    }

    /// Rows of sums for this many input channels, rounded up to whole tiles.
    fn rows(&self, channels: usize) -> usize {
        channels * self.operands.taps.len() + MAX_ROWS
    }

    /// Whether workers have blocks of outputs, each with its own sums.
    fn workers_have_blocks(&self) -> bool {
        self.division.by_blocks > 1
    }

    fn layout(&self, scratch: &mut Scratch) -> ScratchLayout {
        let [planes, gradients, sums] = self.sizes();
        let workers = self.workers.count();
        let areas = if self.workers_have_blocks() { self.division.blocks } else { workers };
        ScratchLayout {
            planes: scratch.area::<T>(planes, workers),
            gradients: scratch.area::<T>(gradients, workers),
            sums: scratch.area::<T>(sums, areas),
        }
    }

    /// Calls `each` with the channel blocks of every panel of a share, relative to the share's first, and with their
    /// output channels.
    fn panels(&self, share: &WorkerShare, mut each: impl FnMut(Range<usize>, Range<usize>)) {
        let panels = share.channel_blocks.len().div_ceil(self.kernel.most());
        for panel in 0..panels {
            let channel_blocks = part(share.channel_blocks.len(), panels, panel);
            let channel = |vector: usize| {
                ((share.channel_blocks.start + vector) * self.kernel.channel_block).min(self.operands.rows)
            };
            let channels = channel(channel_blocks.start)..channel(channel_blocks.end);
            each(channel_blocks, channels);
        }
    }

    /// Transposes a block of the output's gradient: a row of channels for each panel and output, zeros after
    /// the last channel.
    ///
    /// # Safety
    /// `from` is the group's first element; `to` has room for the rows.
    unsafe fn transpose(&self, from: *const u8, block: &Block, share: &WorkerShare, to: *mut T) {
        let Operands { windows, gradient, .. } = &self.operands;
        let strides = &gradient.strides;
        let [depth, height, length] = block.size;
        // Contiguous outputs are treated as one row.
        let flat = strides.are_flat(windows.output);
        let lines = if flat { 1 } else { depth * height };
        let line = if flat { depth * height * length } else { length };
        let outputs = block.images * depth * height * length;
        self.panels(share, |channel_blocks, channels| {
            let width = channel_blocks.len() * self.kernel.channel_block;
            for number in 0..block.images * lines {
                let (n, at) = (number / lines, number % lines);
                let [d, h, w] = block.origin;
                let gradient_offset = strides.offset(block.image + n, [d + at / height, h + at % height, w]);
                // SAFETY: the tensor has the outputs, and the copy a row for each.
                unsafe {
                    let copy = PackSource {
                        from: from
                            .add((gradient_offset + channels.start * strides.channel) * self.gradient_size),
                        rows: line,
                        row: if flat { 1 } else { strides.spatial[2] },
                        columns: channels.len(),
                        column: strides.channel,
                        width,
                        row_stride: width,
                    };
                    let first = channel_blocks.start * self.kernel.channel_block * outputs;
                    (self.pack)(self.isa, &copy, to.add(first + number * line * width));
                }
            }
        });
    }

    /// Adds the products of a block's outputs to the sums, or starts them.
    ///
    /// # Safety
    /// Planes and gradients are those of the block, and the sums have room for all rows.
    unsafe fn add(
        &self,
        (outputs, add): (usize, bool),
        share: &WorkerShare,
        planes: *const T,
        gradients: *const T,
        sums: *mut T,
    ) {
        let taps = &self.operands.windows.taps;
        let (count, channels) = (taps.len(), share.channels.len());
        let pairs = channels * count;
        let rows = self.rows(channels);
        let images = outputs / self.operands.windows.output.iter().product::<usize>().max(1);
        // If only some outputs meet a tap, pairs of one tap are consecutive.
        let met_by_tap = !self.met.is_empty();
        let pair = |number: usize| match met_by_tap {
            true => (number % channels, number / channels),
            false => (number / count, number % count),
        };
        let together = if self.by_tap { channels } else { pairs };
        // Panel by panel, so that a panel stays in cache.
        self.panels(share, |channel_blocks, _| {
            let (first, width) = (
                channel_blocks.start * self.kernel.channel_block,
                channel_blocks.len() * self.kernel.channel_block,
            );
            let height = match self.by_tap {
                true => self.kernel.rows,
                false => self.kernel.height(pairs, channel_blocks.len()),
            };
            let tiles = (0..pairs).step_by(together);
            let tiles = tiles.flat_map(|start| {
                let end = start + together;
                (start..end).step_by(height).map(move |from| from..end.min(from + height))
            });
            for range in tiles {
                // Slots beyond the last row repeat it, and their results are dropped.
                let (mut inputs, mut tile_offsets) = ([0; MAX_ROWS], [0; MAX_ROWS]);
                for (i, (input, to)) in inputs.iter_mut().zip(&mut tile_offsets).enumerate() {
                    let (channel, tap) = pair((range.start + i).min(range.end - 1));
                    *input = self.planes.term(channel, taps[tap]);
                    *to = width * if i < range.len() { channel * count + tap } else { pairs + i };
                }
                let (low, high) = (pair(range.start).1, pair(range.end - 1).1);
                let met = self.met.get(low).and_then(|met| met.get(high - low));
                let (terms, rhs_rows) = match met {
                    None => (&self.outputs[..outputs], &self.indices[..outputs]),
                    Some(met) => {
                        (&met.outputs[..images * met.of_image], &met.indices[..images * met.of_image])
                    }
                };
                // SAFETY: planes and gradients are those of the block, and the sums have room for all rows.
                unsafe {
                    let rhs = gradients.add(first * outputs);
                    let tile = sums.add(first * rows);
                    let sums = AccumulatorTile {
                        rows: &inputs,
                        terms,
                        from: planes,
                        rhs,
                        rhs_rows,
                        tile,
                        tile_offsets: &tile_offsets,
                        add,
                    };
                    self.kernel.run(&sums, (height, channel_blocks.len()));
                }
            }
        });
    }

    /// Writes the sums of a share as weights.
    ///
    /// # Safety
    /// The sums are complete, and `to` is the group's first weight.
    unsafe fn store(&self, share: &WorkerShare, sums: *const T, to: *mut u8) {
        let Operands { weights, taps, .. } = &self.operands;
        let rows = self.rows(share.channels.len());
        let size = weights.data_type.size().unwrap_or(1);
        let taps_count = taps.len();
        self.panels(share, |channel_blocks, channels| {
            let width = channel_blocks.len() * self.kernel.channel_block;
            let first = channels.start * weights.row + share.channels.start * weights.channel;
            let sums = sums.wrapping_add(channel_blocks.start * self.kernel.channel_block * rows);
            if let Some(transpose) = self.transpose {
                let pairs = share.channels.len() * taps_count;
                let copy = PackSource {
                    from: sums.cast(),
                    rows: channels.len(),
                    row: 1,
                    columns: pairs,
                    column: width,
                    width: pairs,
                    row_stride: weights.row,
                };
                // SAFETY: the panel has a row of sums for each pair of channel and tap, and the group the weights of these channels.
                unsafe { transpose(self.isa, &copy, to.cast::<T>().add(first)) };
                return;
            }
            for (tap, tap_offset) in taps.iter().enumerate() {
                let sums = Stored {
                    from: sums.wrapping_add(tap * width),
                    row_stride: taps_count * width,
                    rows: share.channels.len(),
                    columns: channels.len(),
                    row: weights.channel,
                    column: weights.row,
                };
                // SAFETY: the panel has a row of sums for each channel, and the group the tap's weights of these channels.
                unsafe { (self.store)(self.isa, &sums, to.add((tap_offset + first) * size)) };
            }
        });
    }
}

impl<T: Float> Kernel for BackwardWeightsByChannel<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>(
            "backward-weights-by-channel",
            self.workers.threads(),
            [self.kernel.rows, self.kernel.lanes],
            1,
        )
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
            .max(self.exact.as_ref().map_or(0, |exact| exact.scratch_size()))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, channels, rows, input, gradient, weights, .. } = &self.operands;
        let areas = self.layout(&mut Scratch::default());
        let [planes_size, gradients_size, sums_size] = self.sizes();
        let base = Shared([tensors[input.slot], tensors[gradient.slot], tensors[weights.slot], scratch]);
        let weight_size = weights.data_type.size().unwrap_or(1);
        let finite = AtomicBool::new(true);
        // One area per worker, or per block.
        let sums_of = |index: usize| Scratch::of_worker::<T>(base.get(3), areas.sums, index, sums_size);
        self.workers.run(|worker| {
            let share = self.division.share(worker);
            let planes = Scratch::of_worker::<T>(base.get(3), areas.planes, worker, planes_size);
            let gradients = Scratch::of_worker(base.get(3), areas.gradients, worker, gradients_size);
            // The zeros around the images are written once.
            // SAFETY: the worker has planes of its own, of this size.
            unsafe { planes.write_bytes(0, planes_size) };
            for group in 0..*groups {
                let from = (group * channels + share.channels.start) * input.strides.channel;
                let from = base.get(0).wrapping_add(from * self.input_size);
                let dy = group * rows * gradient.strides.channel * self.gradient_size;
                let dy = base.get(1).wrapping_add(dy);
                for number in share.blocks.clone() {
                    let block = self.blocks.block(number);
                    let outputs = block.outputs();
                    // SAFETY: the tensors have the channels and images of the block; planes, gradients and sums are this worker's.
                    unsafe {
                        let filled = self.planes.fill(from, share.channels.len(), &block, planes);
                        self.transpose(dy, &block, &share, gradients);
                        let elements = outputs * share.channel_blocks.len() * self.kernel.channel_block;
                        if self.exact.is_some() && !all_finite(gradients, elements) {
                            finite.store(false, Ordering::Relaxed);
                        }
                        let (add, sums) = match self.workers_have_blocks() {
                            true => (false, sums_of(number)),
                            false => (number > 0, sums_of(worker)),
                        };
                        self.add((outputs, add), &share, filled, gradients, sums);
                    }
                }
                if !self.workers_have_blocks() {
                    let to = base.get(2).wrapping_add(group * weights.group * weight_size);
                    // SAFETY: the sums of all blocks are there, and the weights of these channels are this worker's.
                    unsafe { self.store(&share, sums_of(worker), to) };
                }
            }
        });
        if self.workers_have_blocks() {
            let share = Partition { by_blocks: 1, ..self.division }.share(0);
            let (rows, pairs) = (self.rows(*channels), channels * self.operands.taps.len());
            self.panels(&share, |channel_blocks, _| {
                let (first, width) = (
                    channel_blocks.start * self.kernel.channel_block,
                    channel_blocks.len() * self.kernel.channel_block,
                );
                // SAFETY: the sums of all blocks are complete, and only this worker writes them.
                unsafe {
                    let of_panel = |number: usize| sums_of(number).add(first * rows);
                    let sums = std::slice::from_raw_parts_mut(of_panel(0), pairs * width);
                    for number in 1..self.division.blocks {
                        let others = std::slice::from_raw_parts(of_panel(number), pairs * width);
                        sums.iter_mut().zip(others).for_each(|(sum, other)| *sum = *sum + *other);
                    }
                }
            });
            // SAFETY: the sums are complete, and the tensor has the weights.
            unsafe { self.store(&share, sums_of(0), base.get(2)) };
        }
        if let Some(exact) = self.exact.as_ref().filter(|_| !finite.into_inner()) {
            // SAFETY: the tensors are those of the operation; the scratch memory is large enough for either kernel.
            unsafe { exact.run(tensors, scratch) };
        }
    }
}
