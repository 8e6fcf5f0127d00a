//! A convolution as a matrix product: output channels by outputs, summed over taps and input channels.
//!
//! The forward pass is one such product. The gradient of the input is one for each remainder of the division of the
//! input's indices by the stride: there the same taps meet every element. All of them read the same planes.

use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::graph::DataType;

use super::super::kept::Kept;
use super::super::lanes::Lanes;
use super::super::level::Level;
use super::super::pointwise::Tail;
use super::super::real::{FastReal, Stored, all_finite, not_a_float, with_stored};
use super::super::scratch::{Scratch, Shared, Tensors};
use super::super::settings::Settings;
use super::geometry::{Block, Geometry, Strides, Windows, store_tile};
use super::shape::{BUFFER, Cost, Shape};
use super::tile::{Product, ProductKernel};
use crate::kernel::{Kernel, Refusal};

/// Bytes of packed weights up to which they are walked through for each tile of columns instead of the other way round.
const RESIDENT_WEIGHTS: usize = 512 << 10;

/// One operand in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its place among the kernel's pointers.
    pub(super) slot: usize,
    /// The type of its elements.
    pub(super) data_type: DataType,
    /// Where its elements lie.
    pub(super) strides: Strides,
}

/// The weights in memory.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// Their place among the kernel's pointers.
    pub(super) slot: usize,
    /// The type of their elements.
    pub(super) data_type: DataType,
    /// Distance in elements of a group, of a row of the product and of a channel that is summed over.
    pub(super) group: usize,
    pub(super) row: usize,
    pub(super) channel: usize,
}

/// One of the products.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// Its taps: their number among those of the windows, and their distance in the weights.
    pub(super) taps: Vec<(usize, usize)>,
    /// Elements of the output before its first.
    pub(super) first: usize,
    /// The size of its output, at most that of the windows.
    pub(super) size: [usize; 3],
}

/// What the products are made of.
#[derive(Clone, Debug)]
pub(super) struct Operands {
    pub(super) windows: Windows,
    pub(super) parts: Vec<Part>,
    pub(super) groups: usize,
    /// Channels of the input in a group, which are summed over.
    pub(super) channels: usize,
    /// Channels of the output in a group.
    pub(super) rows: usize,
    pub(super) input: Place,
    pub(super) weights: Weights,
    pub(super) output: Place,
}

type Fill<T> = unsafe fn(&Geometry, &Block, *const u8, &Strides, usize, *mut T);
type Store<T> = unsafe fn(&Geometry, &Block, (usize, usize), *const T, usize, usize, *mut u8, &Strides);
type Pack<T> = unsafe fn(&Products<T>, &Planned, (usize, usize), *const u8, *mut T);

/// One of the products with every decision made.
struct Planned {
    part: Part,
    /// Distance of each tap in the planes.
    offsets: Vec<usize>,
    /// Numbers in a packed panel of rows.
    panel: usize,
    /// Numbers before the first panel in the packed weights.
    packed: usize,
}

/// What is computed of each block of the output.
pub(super) struct Finish {
    pub(super) tail: Box<dyn Tail>,
    /// Spatial dimensions of the tensors.
    pub(super) spatial: usize,
}

impl Finish {
    /// Computes it for a range of channels of a block.
    ///
    /// # Safety
    /// As [`Tail::finish`].
    unsafe fn run(&self, tensors: &[*mut u8], block: &Block, channels: std::ops::Range<usize>) {
        let [mut origin, mut size] = [[0; 5]; 2];
        (origin[0], size[0]) = (block.image, block.images);
        (origin[1], size[1]) = (channels.start, channels.len());
        origin[2..2 + self.spatial].copy_from_slice(&block.origin[3 - self.spatial..]);
        size[2..2 + self.spatial].copy_from_slice(&block.size[3 - self.spatial..]);
        let rank = 2 + self.spatial;
        // SAFETY: the caller promises the tensors.
        unsafe { self.tail.finish(tensors, &origin[..rank], &size[..rank]) };
    }
}

/// Products over the same planes.
pub(super) struct Products<T> {
    operands: Operands,
    parts: Vec<Planned>,
    geometry: Geometry,
    kernel: ProductKernel<T>,
    /// Panels of rows in a group, and in how many pieces they are dealt out.
    panels: usize,
    pieces: usize,
    lanes: Lanes,
    pack_lanes: Lanes,
    fill: Fill<T>,
    fill_size: usize,
    pack: Pack<T>,
    store: Store<T>,
    store_size: usize,
    finish: Option<Finish>,
    scratch: Areas,
    /// Packed weights that stay the same.
    kept: Kept<T>,
}

/// Numbers in the parts of the scratch memory.
struct Areas {
    weights: usize,
    planes: usize,
    tile: usize,
}

impl<T: FastReal> Products<T> {
    /// Plans them.
    pub(super) fn plan(operands: Operands, level: Level, settings: Settings) -> Result<Self, Refusal> {
        let threads = settings.threads;
        let kernel = ProductKernel::<T>::of(level);
        let shape = Shape {
            windows: &operands.windows,
            taps: operands.parts.iter().map(|part| part.taps.len()).sum(),
            groups: operands.groups,
            channels: operands.channels,
            rows: operands.rows.next_multiple_of(kernel.rows.min(operands.rows.next_power_of_two())),
            round: kernel.columns,
            threads,
        };
        let cost = Cost::of::<T>(level);
        let (geometry, work) = shape.best(&cost, BUFFER)?;
        let panels = operands.rows.div_ceil(kernel.rows);
        let blocks = geometry.blocks() * operands.groups;
        let wanted = threads.parts(work, usize::MAX).count();
        // Pieces of the rows repeat the copy of the input, so there are only as many as the lanes need.
        let pieces =
            if wanted > 1 && blocks < 2 * wanted { (2 * wanted).div_ceil(blocks).min(panels) } else { 1 };
        let lanes = threads.lanes(work, blocks * pieces);
        let mut weights = 0;
        let parts: Vec<Planned> = operands
            .parts
            .iter()
            .map(|part| {
                let panel = part.taps.len() * operands.channels * kernel.rows;
                let packed = weights;
                weights += operands.groups * panels * panel;
                let offsets = part.taps.iter().map(|(tap, _)| geometry.taps()[*tap]).collect();
                Planned { part: part.clone(), offsets, panel, packed }
            })
            .collect();
        let packs = parts.len() * operands.groups * panels;
        let pack_lanes = threads.lanes(weights as f64 * cost.copy * 2.0, packs);
        let planes = operands.channels * geometry.channel();
        let (fill, fill_size): (Fill<T>, _) = with_stored!(operands.input.data_type,
            S => (fill::<S, T>, size_of::<S>()), other => return Err(not_a_float(other)));
        let pack: Pack<T> = with_stored!(operands.weights.data_type,
            S => pack::<S, T>, other => return Err(not_a_float(other)));
        let (store, store_size): (Store<T>, _) = with_stored!(operands.output.data_type,
            S => (store::<S, T>, size_of::<S>()), other => return Err(not_a_float(other)));
        let scratch = Areas { weights, planes, tile: kernel.rows * kernel.columns };
        Ok(Self {
            operands,
            parts,
            geometry,
            kernel,
            panels,
            pieces,
            lanes,
            pack_lanes,
            fill,
            fill_size,
            pack,
            store,
            store_size,
            finish: None,
            kept: Kept::new(scratch.weights, settings.constant_weights),
            scratch,
        })
    }

    /// The same with more to compute of each block.
    pub(super) fn with_tail(self, finish: Option<Finish>) -> Self {
        Self { finish, ..self }
    }

    /// The scratch memory, laid out from `base`: packed weights, and for each lane planes and a tile.
    fn layout(&self, scratch: &mut Scratch) -> (usize, usize, usize) {
        let lanes = self.lanes.count();
        (
            scratch.area::<T>(self.scratch.weights, 1),
            scratch.area::<T>(self.scratch.planes, lanes),
            scratch.area::<T>(self.scratch.tile, lanes),
        )
    }

    /// Computes the rows of `panels` of one product, group and block.
    ///
    /// # Safety
    /// `weights` is the product's and group's first packed panel, `planes` the group's filled planes, `tile` is writable for a tile, and
    /// `to` is the first element of the product's output in the group's first channel.
    #[expect(clippy::too_many_arguments, reason = "every one a different place in memory")]
    unsafe fn multiply(
        &self,
        planned: &Planned,
        block: &Block,
        panels: std::ops::Range<usize>,
        weights: *const T,
        planes: *const T,
        tile: *mut T,
        to: *mut u8,
        exact: bool,
        finish: impl Fn(&Finish, &Block, std::ops::Range<usize>),
    ) {
        let Operands { channels, rows, output, .. } = &self.operands;
        // Some of the products have one output less along a dimension.
        let size = planned.part.size;
        let block = Block {
            size: [0, 1, 2].map(|i| block.size[i].min(size[i].saturating_sub(block.origin[i]))),
            ..*block
        };
        if block.size.contains(&0) {
            return;
        }
        let columns = self.geometry.columns(&block);
        let width = self.kernel.columns;
        let tiles = columns.div_ceil(width);
        // With more to compute, all columns of a panel are computed one after the other, while they are near. Where channels
        // lie side by side, a panel's would be far apart, and the whole block is next.
        let by_panel = self.finish.is_some() && output.strides.channel != 1;
        let weights_stay = !by_panel && panels.len() * planned.panel * size_of::<T>() <= RESIDENT_WEIGHTS;
        for number in 0..panels.len() * tiles {
            let (panel, column) = if weights_stay {
                (number % panels.len(), number / panels.len())
            } else {
                (number / tiles, number % tiles)
            };
            let panel = panels.start + panel;
            let row = panel * self.kernel.rows;
            let height = (rows - row).min(self.kernel.rows);
            let from = column * width;
            let end = (from + width).min(columns);
            // SAFETY: a panel has weights for each tap and channel, planes reach a whole tile beyond each tap's last
            // column, and the tensor has the rows' channels.
            unsafe {
                let product = Product {
                    taps: &planned.offsets,
                    channels: *channels,
                    pitch: self.geometry.channel(),
                    a: weights.add(panel * planned.panel),
                    b: planes.add(from),
                    tile,
                    row: width,
                };
                if exact {
                    self.multiply_exactly(planned, &product, &block, (from, end), height);
                } else {
                    self.kernel.run(&product, height, end - from);
                }
                let to = to.add(row * output.strides.channel * self.store_size);
                (self.store)(&self.geometry, &block, (from, end), tile, width, height, to, &output.strides);
            }
            if let Some(tail) = self.finish.as_ref().filter(|_| by_panel && column + 1 == tiles) {
                finish(tail, &block, row..row + height);
            }
        }
        if let Some(tail) = self.finish.as_ref().filter(|_| !by_panel) {
            let height = self.kernel.rows;
            finish(tail, &block, panels.start * height..(panels.end * height).min(*rows));
        }
    }

    /// The same tile, but without the products with padding, which is not zero times infinity.
    ///
    /// # Safety
    /// As [`ProductKernel::run`].
    unsafe fn multiply_exactly(
        &self,
        planned: &Planned,
        product: &Product<'_, T>,
        block: &Block,
        (from, end): (usize, usize),
        rows: usize,
    ) {
        self.geometry.runs(block, from, end, |run| {
            for i in 0..run.len {
                let column = run.column - from + i;
                let at = [run.at[0], run.at[1], run.at[2] + i];
                for row in 0..rows {
                    let mut sum = T::ZERO;
                    for (tap, offset) in product.taps.iter().enumerate() {
                        if !self.geometry.meets(at, planned.part.taps[tap].0) {
                            continue;
                        }
                        for channel in 0..product.channels {
                            // SAFETY: the caller promises weights and planes.
                            let (a, b) = unsafe {
                                let a = product
                                    .a
                                    .add((tap * product.channels + channel) * self.kernel.rows + row);
                                (a.read(), product.b.add(offset + channel * product.pitch + column).read())
                            };
                            sum = sum + a * b;
                        }
                    }
                    // SAFETY: the caller promises the tile.
                    unsafe { product.tile.add(row * product.row + column).write(sum) };
                }
            }
        });
    }
}

/// See [`Geometry::fill`].
///
/// # Safety
/// As there.
unsafe fn fill<S: Stored, T: FastReal>(
    geometry: &Geometry,
    block: &Block,
    from: *const u8,
    strides: &Strides,
    channels: usize,
    planes: *mut T,
) {
    // SAFETY: the caller promises what is needed.
    unsafe { geometry.fill::<S, T>(block, from, strides, channels, planes) };
}

/// See [`store_tile`].
///
/// # Safety
/// As there.
#[expect(clippy::too_many_arguments, reason = "as in store_tile")]
unsafe fn store<S: Stored, T: FastReal>(
    geometry: &Geometry,
    block: &Block,
    columns: (usize, usize),
    tile: *const T,
    row: usize,
    rows: usize,
    to: *mut u8,
    strides: &Strides,
) {
    // SAFETY: the caller promises what is needed.
    unsafe { store_tile::<S, T>(geometry, block, columns, tile, row, rows, to, strides) };
}

/// Packs the weights of one panel of rows: for each tap and channel the weights of all rows, zeros for those beyond the last.
///
/// # Safety
/// `from` is the first weight, `to` is writable for a panel.
unsafe fn pack<S: Stored, T: FastReal>(
    products: &Products<T>,
    planned: &Planned,
    (group, panel): (usize, usize),
    from: *const u8,
    to: *mut T,
) {
    let Operands { channels, rows, weights, .. } = &products.operands;
    let height = products.kernel.rows;
    let first = panel * height;
    let present = (rows - first).min(height);
    // SAFETY: the weights are inside the tensor, their places inside the panel.
    unsafe {
        let from = from.cast::<S>().add(group * weights.group + first * weights.row);
        if present < height {
            to.write_bytes(0, planned.panel);
        }
        // Row by row last: what is read next to each other is far apart, but what is written is not.
        for channel in 0..*channels {
            for (tap, (_, distance)) in planned.part.taps.iter().enumerate() {
                let from = from.add(channel * weights.channel + distance);
                let to = to.add((tap * channels + channel) * height);
                for r in 0..present {
                    to.add(r).write(from.add(r * weights.row).read_unaligned().number());
                }
            }
        }
    }
}

impl<T: FastReal> Kernel for Products<T> {
    fn scratch_size(&self) -> usize {
        let mut scratch = Scratch::default();
        self.layout(&mut scratch);
        scratch.size()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, channels, rows, input, weights, output, .. } = &self.operands;
        let (packed, planes, tiles) = self.layout(&mut Scratch::default());
        let (groups, channels, rows) = (*groups, *channels, *rows);
        let base = Shared([tensors[input.slot], tensors[weights.slot], tensors[output.slot], scratch]);
        let shared = Tensors(tensors);
        // SAFETY: the scratch memory has room for the packed weights.
        let scratch_weights = unsafe { scratch.add(packed).cast::<T>() };
        let (packed, exact) = self.kept.get(tensors[weights.slot], scratch_weights, |to| {
            let (exact, to) = (AtomicBool::new(false), Shared([to.cast()]));
            self.pack_lanes.deal(self.parts.len() * groups * self.panels, |_, number| {
                let planned = &self.parts[number / (groups * self.panels)];
                let place = number % (groups * self.panels);
                let (group, panel) = (place / self.panels, place % self.panels);
                // SAFETY: the tensor covers its weights, and there is memory for every panel; a panel is packed by one lane.
                unsafe {
                    let to = to.get(0).cast::<T>().add(planned.packed + place * planned.panel);
                    (self.pack)(self, planned, (group, panel), base.get(1), to);
                    // Zeros stand for the padding, and what is not finite would not leave them zero.
                    if self.geometry.is_padded() && !all_finite(to, planned.panel) {
                        exact.store(true, Ordering::Relaxed);
                    }
                }
            });
            exact.into_inner()
        });
        let packed = Shared([packed.cast_mut().cast()]);
        let blocks = self.geometry.blocks();
        self.lanes.deal(groups * self.pieces * blocks, |lane, number| {
            let block = self.geometry.block(number % blocks);
            let piece = number / blocks % self.pieces;
            let group = number / blocks / self.pieces;
            let panels = self.panels * piece / self.pieces..self.panels * (piece + 1) / self.pieces;
            // SAFETY: the tensors cover the group, the scratch memory has planes and a tile for each lane; no two blocks,
            // pieces and groups write the same outputs.
            unsafe {
                let planes =
                    base.get(3).add(planes).cast::<T>().add(lane * Scratch::padded::<T>(self.scratch.planes));
                let tile =
                    base.get(3).add(tiles).cast::<T>().add(lane * Scratch::padded::<T>(self.scratch.tile));
                let from = base.get(0).add(group * channels * input.strides.channel * self.fill_size);
                (self.fill)(&self.geometry, &block, from, &input.strides, channels, planes);
                for planned in &self.parts {
                    let weights = planned.packed + group * self.panels * planned.panel;
                    let weights = packed.get(0).cast::<T>().add(weights);
                    let to = planned.part.first + group * rows * output.strides.channel;
                    let to = base.get(2).add(to * self.store_size);
                    let panels = panels.clone();
                    self.multiply(
                        planned,
                        &block,
                        panels,
                        weights,
                        planes,
                        tile,
                        to,
                        exact,
                        |tail, block, channels| {
                            tail.run(
                                shared.all(),
                                block,
                                group * rows + channels.start..group * rows + channels.end,
                            );
                        },
                    );
                }
            }
        });
    }
}
