//! Backward weights as dot products: for each output channel, input channel and tap, of the output's gradient
//! with the inputs that the tap meets.
//!
//! Both are contiguous along the columns, so neither is transposed. Each worker sums over its own images; the
//! workers' sums are added in order, so results only depend on the number of threads.

use crate::conv::backward_weights::tile::{DotTile, DotTileKernel};
use crate::conv::cost::{BUFFER, Cost, Shape};
use crate::conv::geometry::{Block, Geometry, Strides, Windows};
use crate::conv::operands::{Fill, OperandView, Weights, fill};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::settings::{Algorithm, Settings};
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::stored::{Stored, with_stored};
use crate::simd::vector::Float;
use crate::tensor::row_converter::{all_finite, not_a_float};
use crate::tensor::scratch::{Scratch, Shared};
use crate::threading::partition::Workers;

/// Output channels per worker; workers that share images each copy them.
const LEAST_ROWS: usize = 32;

/// Columns of the largest tile.
const MAX_PAIRS: usize = 8;

/// Elements of the largest tile.
const MAX_SUMS: usize = 32;

/// The operands of backward weights.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(crate) windows: Windows,
    pub(crate) groups: usize,
    /// Input channels of a group.
    pub(crate) channels: usize,
    /// Output channels of a group.
    pub(crate) rows: usize,
    pub(crate) input: OperandView,
    pub(crate) gradient: OperandView,
    pub(crate) weights: Weights,
    /// Offset of each tap in the weights.
    pub(crate) taps: Vec<usize>,
}

type Spread<T> = unsafe fn(&Geometry, &Block, *const u8, &Strides, usize, *mut T, usize);

type Store<T> = unsafe fn(&BackwardWeights<T>, usize, *const T, *mut u8);

/// A planned backward weights kernel of dot products.
pub(crate) struct BackwardWeights<T> {
    operands: Operands,
    geometry: Geometry,
    kernel: DotTileKernel<T>,
    /// Workers by images, and by output channels of the same images.
    image_workers: usize,
    row_workers: usize,
    workers: Workers,
    store_workers: Workers,
    fill: Fill<T>,
    fill_size: usize,
    spread: Spread<T>,
    spread_size: usize,
    store: Store<T>,
    /// Columns of the gradient, padded.
    row: usize,
}

/// Offsets in the scratch memory.
pub(crate) struct ScratchLayout {
    planes: usize,
    gradients: usize,
    sums: usize,
}

impl<T: Float> BackwardWeights<T> {
    pub(crate) fn plan(operands: Operands, isa: Isa, settings: Settings) -> Result<Self, Refusal> {
        let threads = settings.threads;
        let kernel = DotTileKernel::<T>::of(isa);
        if kernel.pairs > MAX_PAIRS || kernel.rows * kernel.pairs > MAX_SUMS {
            return Err("the tile of scalar products is larger than expected".to_owned());
        }
        let shape = Shape {
            windows: &operands.windows,
            taps: operands.windows.taps.len(),
            groups: operands.groups,
            channels: operands.channels,
            rows: operands.rows.next_multiple_of(kernel.rows),
            round: kernel.lanes,
            tile: kernel.lanes,
            unrolled: match settings.convolution {
                Algorithm::ImplicitGemm => Some(false),
                Algorithm::Unrolled => Some(true),
                _ => None,
            },
            in_place: false,
            threads,
        };
        let (geometry, work) = shape.best(&Cost::of::<T>(isa), BUFFER)?;
        let row = geometry.largest().next_multiple_of(kernel.lanes);
        let elements = operands.rows as f64 * row as f64;
        if elements > (1_u64 << 32) as f64 {
            return Err(format!("a block of the convolution has {elements} elements, expected at most 2^32"));
        }
        let blocks = geometry.blocks();
        let wanted = threads.workers_for_reduction(work, usize::MAX).count();
        let row_workers = operands.rows.div_ceil(LEAST_ROWS).min(wanted);
        let image_workers = (wanted / row_workers).min(blocks).max(1);
        let workers = threads.workers_for_reduction(work, row_workers * image_workers);
        let weights = operands.groups * operands.rows * operands.channels * operands.windows.taps.len();
        let store_work = weights as f64 * (1 + image_workers) as f64;
        let store_workers = threads.workers(store_work, operands.groups * operands.rows);
        let (fill, fill_size): (Fill<T>, _) = with_stored!(operands.input.data_type,
            S => (fill::<S, T, false>, size_of::<S>()), other => return Err(not_a_float(other)));
        let (spread, spread_size): (Spread<T>, _) = with_stored!(operands.gradient.data_type,
            S => (spread::<S, T>, size_of::<S>()), other => return Err(not_a_float(other)));
        let store: Store<T> = with_stored!(operands.weights.data_type,
            S => store::<S, T>, other => return Err(not_a_float(other)));
        Ok(Self {
            operands,
            geometry,
            kernel,
            image_workers,
            row_workers,
            workers,
            store_workers,
            fill,
            fill_size,
            spread,
            spread_size,
            store,
            row,
        })
    }

    /// Elements of a worker's planes, of a worker's gradient, and of the sums of all rows.
    fn sizes(&self) -> [usize; 3] {
        let Operands { channels, rows, groups, .. } = self.operands;
        [
            channels * self.geometry.channel(),
            rows.next_multiple_of(self.kernel.rows) * self.row,
            groups * rows * self.pairs(),
        ]
    }

    /// Sums in a row: input channels times taps.
    fn pairs(&self) -> usize {
        self.operands.channels * self.operands.windows.taps.len()
    }

    fn layout(&self, scratch: &mut Scratch) -> ScratchLayout {
        let [planes, gradients, sums] = self.sizes();
        let workers = self.workers.count();
        ScratchLayout {
            planes: scratch.area::<T>(planes, workers),
            gradients: scratch.area::<T>(gradients, workers),
            sums: scratch.area::<T>(sums, self.image_workers),
        }
    }

    /// Adds the products of one block to the sums of `rows` of one group.
    ///
    /// # Safety
    /// `planes` and `gradients` are filled, the latter from the first of `rows` on and with zeros up to a
    /// multiple of the kernel's rows; `sums` are those of the group's first row.
    unsafe fn add(
        &self,
        block: &Block,
        rows: std::ops::Range<usize>,
        planes: *const T,
        gradients: *const T,
        sums: *mut T,
    ) {
        let pairs = self.pairs();
        let taps = self.geometry.taps();
        let width = self.kernel.pairs;
        let columns = self.geometry.columns(block).next_multiple_of(self.kernel.lanes);
        // Zeros represent the padding and the gaps between outputs; their products with NaN or infinity would
        // be NaN.
        // SAFETY: the planes and gradients are valid, as this function requires.
        let exact = !unsafe {
            all_finite(planes, self.operands.channels * self.geometry.channel())
                && all_finite(gradients, rows.len() * self.row)
        };
        let mut tile = [T::ZERO; MAX_SUMS];
        for from in (0..pairs).step_by(width) {
            // Channel by channel, so that the taps of a tile share their input.
            let mut offsets = [0; MAX_PAIRS];
            let (mut channel, mut tap) = (from / taps.len(), from % taps.len());
            for (i, offset) in offsets.iter_mut().enumerate() {
                *offset = channel * self.geometry.channel() + taps[tap];
                if from + i + 1 < pairs {
                    tap += 1;
                    if tap == taps.len() {
                        (channel, tap) = (channel + 1, 0);
                    }
                }
            }
            for above in (0..rows.len()).step_by(self.kernel.rows) {
                let height = (rows.len() - above).min(self.kernel.rows);
                // SAFETY: filled memory is valid, as this function requires; planes reach beyond
                // each tap's last column as far as columns are rounded up.
                unsafe {
                    if exact {
                        self.dots_exactly(block, (from, above), planes, gradients, &mut tile);
                    } else {
                        self.kernel.run(&DotTile {
                            columns,
                            a: gradients.add(above * self.row),
                            row_stride: self.row,
                            b: planes,
                            pairs: &offsets,
                            tile: tile.as_mut_ptr(),
                        });
                    }
                    for r in 0..height {
                        for i in 0..width.min(pairs - from) {
                            let sum = sums.add((rows.start + above + r) * pairs + from + i);
                            sum.write(sum.read() + tile[r * width + i]);
                        }
                    }
                }
            }
        }
    }

    /// The same tile without products with padding, because zero times infinity is NaN.
    ///
    /// # Safety
    /// As [`BackwardWeights::add`].
    unsafe fn dots_exactly(
        &self,
        block: &Block,
        (from, above): (usize, usize),
        planes: *const T,
        gradients: *const T,
        tile: &mut [T; MAX_SUMS],
    ) {
        let taps = self.geometry.taps();
        let width = self.kernel.pairs;
        *tile = [T::ZERO; MAX_SUMS];
        self.geometry.runs(block, 0, self.geometry.columns(block), |run| {
            for p in 0..width.min(self.pairs() - from) {
                let (channel, tap) = ((from + p) / taps.len(), (from + p) % taps.len());
                let meets = |i: &usize| self.geometry.meets([run.at[0], run.at[1], run.at[2] + i], tap);
                // The outputs of a row that meet the tap inside the image are contiguous.
                let Some(first) = (0..run.len).find(meets) else { continue };
                let len = (first..run.len).take_while(meets).count();
                let column = run.column + first;
                for r in 0..self.kernel.rows {
                    // SAFETY: this function requires filled memory, also in the rows up to a
                    // whole tile.
                    let sum = unsafe {
                        let b = planes.add(channel * self.geometry.channel() + taps[tap] + column);
                        dot(gradients.add((above + r) * self.row + column), b, len)
                    };
                    tile[r * width + p] = tile[r * width + p] + sum;
                }
            }
        });
    }
}

/// The dot product of `len` values.
///
/// # Safety
/// `a` and `b` are readable for `len` values each, at any alignment.
unsafe fn dot<T: Float>(a: *const T, b: *const T, len: usize) -> T {
    // Several accumulators, so that the compiler vectorises the loop.
    let mut sums = [T::ZERO; 8];
    let mut at = 0;
    // SAFETY: the values are readable and writable, as this function requires.
    unsafe {
        while at + sums.len() <= len {
            let [a, b] = [a, b].each(|values| values.add(at).cast::<[T; 8]>().read_unaligned());
            for (sum, (a, b)) in sums.iter_mut().zip(a.into_iter().zip(b)) {
                *sum = *sum + a * b;
            }
            at += sums.len();
        }
        let sum = sums.into_iter().fold(T::ZERO, |sum, value| sum + value);
        (at..len).fold(sum, |sum, at| sum + a.add(at).read_unaligned() * b.add(at).read_unaligned())
    }
}

impl<T: Float> Kernel for BackwardWeights<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>(
            "backward-weights",
            self.workers.threads(),
            [self.kernel.rows, self.kernel.pairs],
            1,
        )
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { groups, channels, rows, input, gradient, weights, .. } = &self.operands;
        let (groups, channels, rows) = (*groups, *channels, *rows);
        let areas = self.layout(&mut Scratch::default());
        let [planes_size, gradients_size, sums_size] = self.sizes();
        let base = Shared([tensors[input.slot], tensors[gradient.slot], tensors[weights.slot], scratch]);
        let blocks = self.geometry.blocks();
        let height = self.kernel.rows;
        self.workers.run(|worker| {
            let (image_lane, row_lane) = (worker / self.row_workers, worker % self.row_workers);
            let blocks =
                blocks * image_lane / self.image_workers..blocks * (image_lane + 1) / self.image_workers;
            let tiles = rows.div_ceil(height);
            let own = tiles * row_lane / self.row_workers * height
                ..(tiles * (row_lane + 1) / self.row_workers * height).min(rows);
            if own.is_empty() {
                return;
            }
            let planes = Scratch::of_worker(base.get(3), areas.planes, worker, planes_size);
            let gradients = Scratch::of_worker::<T>(base.get(3), areas.gradients, worker, gradients_size);
            let sums = Scratch::of_worker::<T>(base.get(3), areas.sums, image_lane, sums_size);
            for group in 0..groups {
                let sums = sums.wrapping_add(group * rows * self.pairs());
                // SAFETY: there are sums for each row, and no other worker adds to these.
                unsafe { sums.add(own.start * self.pairs()).write_bytes(0, own.len() * self.pairs()) };
                for index in blocks.clone() {
                    let block = self.geometry.block(index);
                    let from = group * channels * input.strides.channel;
                    let from = base.get(0).wrapping_add(from * self.fill_size);
                    let dy = (group * rows + own.start) * gradient.strides.channel;
                    let dy = base.get(1).wrapping_add(dy * self.spread_size);
                    let beyond = own.len().next_multiple_of(height) - own.len();
                    // SAFETY: the tensors have the block's channels and rows; planes, gradients and sums are this worker's.
                    unsafe {
                        (self.fill)(&self.geometry, &block, from, &input.strides, channels, planes);
                        (self.spread)(
                            &self.geometry,
                            &block,
                            dy,
                            &gradient.strides,
                            own.len(),
                            gradients,
                            self.row,
                        );
                        gradients.add(own.len() * self.row).write_bytes(0, beyond * self.row);
                        self.add(&block, own.clone(), planes, gradients, sums);
                    }
                }
            }
        });
        self.store_workers.run(|worker| {
            for row in self.store_workers.share(worker, groups * rows) {
                // SAFETY: every row of the sums is complete; each row is written by one worker.
                unsafe { (self.store)(self, row, base.get(3).add(areas.sums).cast(), base.get(2)) };
            }
        });
    }
}

/// See [`Geometry::spread`].
///
/// # Safety
/// As [`Geometry::spread`].
unsafe fn spread<S: Stored, T: Float>(
    geometry: &Geometry,
    block: &Block,
    from: *const u8,
    strides: &Strides,
    channels: usize,
    rows: *mut T,
    row: usize,
) {
    // SAFETY: block, strides and rows satisfy the contract of `Geometry::spread`, which this function repeats.
    unsafe { geometry.spread::<S, T>(block, from, strides, channels, rows, row) };
}

/// Adds the workers' sums of one row and writes them as weights.
///
/// # Safety
/// `sums` are complete, and `to` is the first weight.
unsafe fn store<S: Stored, T: Float>(filter: &BackwardWeights<T>, row: usize, sums: *const T, to: *mut u8) {
    let Operands { rows, weights, .. } = &filter.operands;
    let to = to.cast::<S>();
    let stride = Scratch::padded::<T>(filter.sizes()[2]);
    let taps = filter.operands.taps.len();
    for channel in 0..filter.operands.channels {
        for (tap, tap_offset) in filter.operands.taps.iter().enumerate() {
            let sum_at = row * filter.pairs() + channel * taps + tap;
            // SAFETY: the sums and the tensor are valid, as this function requires.
            unsafe {
                let mut sum = sums.add(sum_at).read();
                for worker in 1..filter.image_workers {
                    sum = sum + sums.add(worker * stride + sum_at).read();
                }
                let offset = row / rows * weights.group
                    + row % rows * weights.row
                    + channel * weights.channel
                    + tap_offset;
                to.add(offset).write_unaligned(S::nearest(sum));
            }
        }
    }
}
