//! Convolutions with windows of 3 × 3 and step 1 by Winograd's algorithm F(2 × 2, 3 × 3): 16 multiplications for 4 outputs, not 36.
//!
//! A tile of 2 × 2 outputs meets 4 × 4 elements of the input. These and the window are transformed by additions, multiplied number
//! by number, summed over the channels, and transformed back: y = Aᵀ [Σ (G g Gᵀ) ∘ (Bᵀ d B)] A. For the transformed numbers of each
//! of the 16 places the sum is a product of matrices. Sums of elements are rounded before they are multiplied, so results are
//! farther from the exact ones than those of other forms, and this form is only used where it is asked for.
//!
//! Tiles are the outputs of a window of 4 × 4 with step 2: the planes of [`Geometry`] have what a vector of tiles meets side by side.

mod transform;

use self::transform::{Inputs, Outputs, PLACES, window};
use super::super::kept::Kept;
use super::super::lanes::Lanes;
use super::super::level::Level;
use super::super::pointwise::After;
use super::super::real::{FastReal, Run, Stored, not_a_float, store_run, with_stored};
use super::super::scratch::{Scratch, Shared, Tensors};
use super::super::settings::{Algorithm, Settings};
use super::ahead::{Ahead, Next, pays};
use super::ending::{Ending, Finish};
use super::geometry::{Block, Geometry, Strides, Windows};
use super::operands::{Fill, Operands, fill_of};
use super::shape::{BUFFER, Cost, Shape};
use super::tile::{Product, ProductKernel};
use crate::kernel::{Kernel, Refusal};

/// Tiles of columns that a block is to have, so that the transformed windows are not read for few outputs.
const WANTED_TILES: usize = 2;
/// How many times more numbers than for other forms planes may have for that.
const MOST_BUFFERS: usize = 8;

type Pack<T> = unsafe fn(&Winograd<T>, (usize, usize), *const u8, *mut T);
type Write<T> = unsafe fn(&Winograd<T>, &Block, (usize, usize), (usize, *const T), *mut u8);
type Weight<T> = unsafe fn(*const u8, usize) -> T;

/// The convolution with every decision made.
pub(super) struct Winograd<T: 'static> {
    operands: Operands,
    level: Level,
    kernel: ProductKernel<T>,
    /// Distance of each element of the window in the filter, row by row.
    window: [usize; 9],
    /// Planes and columns, of which each is a tile.
    geometry: Geometry,
    /// Whether memory is asked for before it is needed.
    asks: bool,
    /// Panels of rows in a group, and in how many pieces they are dealt out.
    panels: usize,
    pieces: usize,
    lanes: Lanes,
    pack_lanes: Lanes,
    fill: Fill<T>,
    fill_size: usize,
    pack: Pack<T>,
    weight: Weight<T>,
    write: Write<T>,
    write_size: usize,
    ending: Ending,
    finish: Option<Finish>,
    kept: Kept<T>,
}

/// One lane's memory: planes, their transformed numbers, sums of a panel, and its outputs.
#[derive(Clone, Copy)]
struct Lane<T> {
    planes: *mut T,
    inputs: *mut T,
    sums: *mut T,
    outputs: *mut T,
}

/// What a lane has of its last piece of work.
#[derive(Default)]
struct Carried {
    /// The group and the block that are in its planes.
    filled: Option<(usize, usize)>,
}

/// The taps of a window of 3 × 3 in the order of its rows: the first one's place, and the distances in the filter.
fn square(operands: &Operands) -> Option<([isize; 3], [usize; 9])> {
    let [part] = operands.parts.as_slice() else { return None };
    let windows = &operands.windows;
    if windows.step != [1; 3] || part.size != windows.output || part.first != 0 || part.taps.len() != 9 {
        return None;
    }
    let first = [0, 1, 2].map(|i| windows.taps.iter().map(|tap| tap[i]).min().unwrap_or(0));
    let mut window = [None; 9];
    for (tap, distance) in &part.taps {
        let at = windows.taps.get(*tap)?;
        let [depth, row, column] = [0, 1, 2].map(|i| (at[i] - first[i]) as usize);
        if depth > 0 || row > 2 || column > 2 {
            return None;
        }
        window[3 * row + column] = Some(*distance);
    }
    let mut distances = [0; 9];
    for (distance, found) in distances.iter_mut().zip(window) {
        *distance = found?;
    }
    Some((first, distances))
}

impl<T: FastReal> Winograd<T> {
    /// Plans it, with more to compute of the sums or not; none where it is not for such a convolution.
    pub(super) fn plan(
        operands: &Operands,
        level: Level,
        settings: Settings,
        spatial: usize,
        after: Option<After>,
    ) -> Result<Option<Self>, Refusal> {
        // Whole numbers have sums that are exact elsewhere.
        let types = [operands.input.data_type, operands.weights.data_type, operands.output.data_type];
        if types.into_iter().any(|data_type| Run::<T>::of(data_type).is_err()) {
            return Ok(None);
        }
        let Some((first, window)) = square(operands) else { return Ok(None) };
        let Windows { batch, output, input, .. } = operands.windows;
        let windows = Windows {
            batch,
            output: [output[0], output[1].div_ceil(2), output[2].div_ceil(2)],
            input,
            step: [1, 2, 2],
            taps: (0..PLACES as isize)
                .map(|place| [first[0], first[1] + place / 4, first[2] + place % 4])
                .collect(),
        };
        let kernel = ProductKernel::<T>::of(level);
        let threads = settings.threads;
        let cost = Cost::of::<T>(level);
        let panels = operands.rows.div_ceil(kernel.rows);
        let shape = Shape {
            windows: &windows,
            taps: PLACES,
            groups: operands.groups,
            channels: operands.channels,
            rows: panels * kernel.rows,
            round: kernel.lanes,
            tile: kernel.columns(),
            algorithm: Algorithm::Implicit,
            in_place: false,
            threads,
        };
        let (mut geometry, mut time) = shape.best(&cost, BUFFER)?;
        let mut times = 2;
        while geometry.largest() < WANTED_TILES * kernel.columns() && times <= MOST_BUFFERS {
            (geometry, time) = shape.best(&cost, times * BUFFER)?;
            times *= 2;
        }
        let blocks = geometry.blocks() * operands.groups;
        let wanted = threads.parts(time, usize::MAX).count();
        let pieces =
            if wanted > 1 && blocks < 2 * wanted { (2 * wanted).div_ceil(blocks).min(panels) } else { 1 };
        let ending = after.as_ref().and_then(|after| Ending::of::<T>(after, spatial));
        let ending = ending.filter(|ending| ending.residual.is_none());
        let finish = match (&after, &ending) {
            (Some(after), None) => Some(Finish { tail: after.tail()?, spatial }),
            _ => None,
        };
        let (fill, fill_size) = fill_of::<T>(operands.input.data_type)?;
        let (pack, weight): (Pack<T>, Weight<T>) = with_stored!(
            operands.weights.data_type,
            S => (pack::<S, T>, weight::<S, T>),
            other => return Err(not_a_float(other))
        );
        let (write, write_size): (Write<T>, usize) = with_stored!(
            operands.output.data_type,
            S => (write::<S, T>, size_of::<S>()),
            other => return Err(not_a_float(other))
        );
        let weights = operands.groups * panels * kernel.rows * operands.channels * PLACES;
        Ok(Some(Self {
            lanes: threads.lanes(time, blocks * pieces),
            pack_lanes: threads.lanes(weights as f64 * cost.copy * 2.0, operands.groups * panels),
            kept: Kept::new(weights, settings.constant_weights),
            asks: pays(operands),
            operands: operands.clone(),
            level,
            kernel,
            window,
            geometry,
            panels,
            pieces,
            fill,
            fill_size,
            pack,
            weight,
            write,
            write_size,
            ending: ending.unwrap_or_default(),
            finish,
        }))
    }

    /// Numbers in a panel of transformed windows: place by place, for each channel a number for each row.
    fn panel(&self) -> usize {
        PLACES * self.operands.channels * self.kernel.rows
    }

    /// The sizes of the parts of a lane's memory, in the order of [`Lane`].
    fn sizes(&self) -> [usize; 4] {
        let channels = self.operands.channels;
        let tile = self.kernel.rows * self.kernel.columns();
        [
            channels * self.geometry.channel(),
            PLACES * channels * self.kernel.columns(),
            PLACES * tile,
            4 * tile,
        ]
    }

    /// The scratch memory, laid out: transformed windows, and the parts of each lane.
    fn layout(&self, scratch: &mut Scratch) -> (usize, [usize; 4]) {
        let lanes = self.lanes.count();
        let weights = self.operands.groups * self.panels * self.panel();
        (scratch.area::<T>(weights, 1), self.sizes().map(|size| scratch.area::<T>(size, lanes)))
    }

    /// The outputs of a block of tiles.
    fn outputs(&self, tiles: &Block) -> Block {
        let whole = self.operands.windows.output;
        let side = [1, 2, 2];
        let origin = [0, 1, 2].map(|i| tiles.origin[i] * side[i]);
        let size = [0, 1, 2].map(|i| (tiles.size[i] * side[i]).min(whole[i] - origin[i]));
        Block { origin, size, ..*tiles }
    }

    /// Computes some panels of a block.
    ///
    /// # Safety
    /// `packed` are the transformed windows of the group, the lane's planes have the block, and the tensors cover its outputs.
    unsafe fn multiply(
        &self,
        tensors: &[*mut u8],
        (group, block): (usize, &Block),
        panels: std::ops::Range<usize>,
        packed: *const T,
        lane: Lane<T>,
        next: Option<Next>,
    ) {
        let Operands { channels, rows, output, .. } = &self.operands;
        let (height, width, lanes) = (self.kernel.rows, self.kernel.columns(), self.kernel.lanes);
        let columns = self.geometry.columns(block);
        let vectors = columns.div_ceil(lanes);
        let tiles = vectors.div_ceil(self.kernel.vectors);
        for tile in 0..tiles {
            let from = vectors * tile / tiles;
            let count = vectors * (tile + 1) / tiles - from;
            let range = (from * lanes, columns.min((from + count) * lanes));
            // SAFETY: the caller promises planes and windows; the lane's memory has room for a tile, and the tensors for its outputs.
            unsafe {
                self.level.run_vectors(Inputs {
                    planes: lane.planes.add(range.0),
                    taps: self.geometry.taps(),
                    channels: *channels,
                    pitch: self.geometry.channel(),
                    vectors: count,
                    width,
                    to: lane.inputs,
                });
                for panel in panels.clone() {
                    let row = panel * height;
                    let present = (rows - row).min(height);
                    for place in 0..PLACES {
                        let product = Product {
                            taps: &[0],
                            channels: *channels,
                            pitch: width,
                            a: packed.add(panel * self.panel() + place * channels * height),
                            apart: None,
                            b: lane.inputs.add(place * channels * width),
                            tile: lane.sums.add(place * height * width),
                            row: width,
                            bias: std::ptr::null(),
                            bias_apart: 0,
                            residual: std::ptr::null(),
                            residual_row: 0,
                            positive: false,
                            ahead: next.map_or(Ahead::NONE, |next| {
                                let number = (tile * panels.len() + panel - panels.start) * PLACES + place;
                                next.share(number, tiles * panels.len() * PLACES)
                            }),
                            is_far: false,
                        };
                        self.kernel.run(&product, present, count);
                    }
                    let channel = group * rows + row;
                    let bias = self.ending.bias;
                    let bias =
                        bias.map(|(slot, apart)| (tensors[slot].cast::<T>().add(channel * apart), apart));
                    let are_finite = self.level.run_vectors(Outputs {
                        sums: lane.sums,
                        rows: height,
                        present,
                        vectors: count,
                        width,
                        bias: bias.map(|(first, apart)| (first.cast_const(), apart)),
                        positive: self.ending.positive,
                        to: lane.outputs,
                    });
                    if !are_finite {
                        let source = tensors[self.operands.weights.slot].cast_const();
                        let bias =
                            |r: usize| bias.map(|(first, apart)| first.add(r * apart).read_unaligned());
                        self.correct(block, range, (group, row, present), source, lane, bias);
                    }
                    let to = tensors[output.slot].add(channel * output.strides.channel * self.write_size);
                    (self.write)(self, block, range, (present, lane.outputs), to);
                }
            }
        }
        if let Some(finish) = &self.finish {
            let rows = group * rows + panels.start * height..group * rows + (panels.end * height).min(*rows);
            // SAFETY: the caller promises the tensors.
            unsafe { finish.run(tensors, &self.outputs(block), rows) };
        }
    }

    /// Computes a tile again, by the sums that define it: transformed numbers that are not finite show in outputs that do not meet them.
    ///
    /// # Safety
    /// As [`Winograd::multiply`], with the first of the weights.
    unsafe fn correct(
        &self,
        block: &Block,
        (from, to): (usize, usize),
        (group, row, present): (usize, usize, usize),
        source: *const u8,
        lane: Lane<T>,
        bias: impl Fn(usize) -> Option<T>,
    ) {
        let Operands { channels, weights, .. } = &self.operands;
        let width = self.kernel.columns();
        let pitch = self.geometry.channel();
        self.geometry.runs(block, from, to, |run| {
            for (i, r, output) in
                (0..run.len).flat_map(|i| (0..present).flat_map(move |r| (0..4).map(move |o| (i, r, o))))
            {
                let at = [run.at[0], run.at[1], run.at[2] + i];
                let mut sum = T::ZERO;
                for (element, distance) in self.window.iter().enumerate() {
                    let tap = (output / 2 + element / 3) * 4 + output % 2 + element % 3;
                    if !self.geometry.meets(at, tap) {
                        continue;
                    }
                    for channel in 0..*channels {
                        let place =
                            group * weights.group + (row + r) * weights.row + channel * weights.channel;
                        // SAFETY: the caller promises the weights and the planes.
                        sum = sum
                            + unsafe {
                                let plane = lane.planes.add(channel * pitch + self.geometry.taps()[tap]);
                                (self.weight)(source, place + distance) * plane.add(run.column + i).read()
                            };
                    }
                }
                let sum = bias(r).map_or(sum, |bias| sum + bias);
                let bounded = if sum >= T::LARGEST { T::LARGEST } else { sum };
                let positive = if sum <= T::ZERO { T::ZERO } else { bounded };
                let place = (2 * r + output / 2) * 2 * width + 2 * (run.column - from + i) + output % 2;
                // SAFETY: the lane has room for the outputs of a tile.
                unsafe { lane.outputs.add(place).write(if self.ending.positive { positive } else { sum }) };
            }
        });
    }
}

/// Transforms the windows of a panel of rows, zeros for those beyond the last.
///
/// # Safety
/// `from` is the first weight, `to` is writable for a panel.
unsafe fn pack<S: Stored, T: FastReal>(
    winograd: &Winograd<T>,
    (group, panel): (usize, usize),
    from: *const u8,
    to: *mut T,
) {
    let Operands { channels, rows, weights, .. } = &winograd.operands;
    let height = winograd.kernel.rows;
    for row in 0..height {
        for channel in 0..*channels {
            let mut elements = [T::ZERO; 9];
            if panel * height + row < *rows {
                let first =
                    group * weights.group + (panel * height + row) * weights.row + channel * weights.channel;
                for (element, distance) in elements.iter_mut().zip(winograd.window) {
                    // SAFETY: the caller promises the weights.
                    *element = unsafe { from.cast::<S>().add(first + distance).read_unaligned().number() };
                }
            }
            for (place, number) in window(&elements).into_iter().enumerate() {
                // SAFETY: the caller promises the panel.
                unsafe { to.add((place * channels + channel) * height + row).write(number) };
            }
        }
    }
}

/// One weight.
///
/// # Safety
/// There is an element with this number.
unsafe fn weight<S: Stored, T: FastReal>(from: *const u8, number: usize) -> T {
    // SAFETY: the caller promises it.
    unsafe { from.cast::<S>().add(number).read_unaligned().number() }
}

/// Writes the outputs of some columns and rows, given the first element of the first row's channel.
///
/// # Safety
/// There are as many rows of outputs, and the tensor has their elements.
unsafe fn write<S: Stored, T: FastReal>(
    winograd: &Winograd<T>,
    block: &Block,
    (from, end): (usize, usize),
    (rows, outputs): (usize, *const T),
    to: *mut u8,
) {
    let strides: &Strides = &winograd.operands.output.strides;
    let whole = winograd.operands.windows.output;
    let width = 2 * winograd.kernel.columns();
    winograd.geometry.runs(block, from, end, |run| {
        for line in 0..2.min(whole[1] - 2 * run.at[1]) {
            let at = [run.at[0], 2 * run.at[1] + line, 2 * run.at[2]];
            let len = (2 * run.len).min(whole[2] - at[2]);
            let first = strides.offset(run.image, at);
            for row in 0..rows {
                // SAFETY: the caller promises rows and elements.
                unsafe {
                    let outputs = outputs.add((2 * row + line) * width + 2 * (run.column - from));
                    let to = to.add((first + row * strides.channel) * size_of::<S>());
                    store_run::<S, T>(outputs, to, strides.spatial[2], len);
                }
            }
        }
    });
}

impl<T: FastReal> Kernel for Winograd<T> {
    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, channels, input, weights, .. } = &self.operands;
        let (packed, areas) = self.layout(&mut Scratch::default());
        let shared = Tensors(tensors);
        let source = tensors[weights.slot];
        // SAFETY: the scratch memory has room for all panels, as the kept one has.
        let (packed, _) = self.kept.get(source, unsafe { scratch.add(packed).cast::<T>() }, |to| {
            let shared = Shared([source, to.cast()]);
            self.pack_lanes.deal(groups * self.panels, |_, number| {
                // SAFETY: the tensor covers its weights; a panel is packed by one lane.
                unsafe {
                    let to = shared.get(1).cast::<T>().add(number * self.panel());
                    (self.pack)(self, (number / self.panels, number % self.panels), shared.get(0), to);
                }
            });
            false
        });
        let base = Shared([packed.cast_mut().cast(), scratch]);
        let blocks = self.geometry.blocks();
        let sizes = self.sizes();
        self.lanes.deal_carrying(groups * self.pieces * blocks, |lane, number, carried: &mut Carried| {
            // Pieces of a block follow each other, so that a lane copies its input once.
            let (piece, at) = (number % self.pieces, number / self.pieces);
            let (group, block_number) = (at / blocks, at % blocks);
            let block = self.geometry.block(block_number);
            let panels = self.panels * piece / self.pieces..self.panels * (piece + 1) / self.pieces;
            let next = (number + self.lanes.count()) / self.pieces;
            let next = Some(next).filter(|next| self.asks && *next > at).and_then(|next| {
                Next::of_number(&self.geometry, &self.operands, shared.all(), self.fill_size, next)
            });
            // SAFETY: the tensors cover the group, and the scratch memory has all parts for each lane; no two blocks, pieces and
            // groups write the same outputs.
            unsafe {
                let area = |number: usize| {
                    base.get(1).add(areas[number]).cast::<T>().add(lane * Scratch::padded::<T>(sizes[number]))
                };
                let lane = Lane { planes: area(0), inputs: area(1), sums: area(2), outputs: area(3) };
                if carried.filled != Some((group, block_number)) {
                    (self.fill)(
                        &self.geometry,
                        &block,
                        self.operands.input_of(shared.all(), group, self.fill_size),
                        &input.strides,
                        *channels,
                        lane.planes,
                    );
                    carried.filled = Some((group, block_number));
                }
                let packed = base.get(0).cast::<T>().cast_const().add(group * self.panels * self.panel());
                self.multiply(shared.all(), (group, &block), panels, packed, lane, next);
            }
        });
    }
}
