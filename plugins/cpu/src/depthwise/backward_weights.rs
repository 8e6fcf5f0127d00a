//! Backward weights. Padding is never multiplied.
//!
//! Each worker has its own images or rows. The workers' sums are added in order, so results only depend on
//! the number of workers.

use std::ops::Range;

use crate::depthwise::accumulators::{Pixels, Rows, TOGETHER};
use crate::depthwise::shape::Shape;
use crate::kernel::{Facts, Kernel};
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::image::Image;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Threads, Workers};

/// Rows of dy in a part with channels last, and in a copy.
const COPIED: usize = 8;

/// The fewest parts, if there are enough channels.
const PARTS: usize = 16;

/// A planned gradient.
pub(crate) struct BackwardWeights<T> {
    shape: Shape,
    isa: Isa,
    x: Image<T>,
    w: Image<T>,
    y: Image<T>,
    /// Offsets in bytes of the elements of a filter.
    offsets: Vec<usize>,
    /// Whether vectors are runs of channels instead of rows.
    last: bool,
    /// Channels per part.
    channels: usize,
    workers: Workers,
}

impl<T: Float> BackwardWeights<T> {
    /// Plans the gradient; the images are x, w and y.
    pub(crate) fn plan(shape: Shape, [x, w, y]: [Image<T>; 3], isa: Isa, threads: Threads) -> Self {
        let last =
            shape.multiplier == 1 && shape.channels >= TOGETHER && x.strides[1] == 1 && y.strides[1] == 1;
        let plane = (shape.output[0] * shape.output[1]) as f64;
        let copied = |image: &Image<T>| if image.run.same { 0.1 } else { 0.3 };
        let each =
            shape.taps() as f64 * 0.06 + copied(&x) * (shape.stride[0] * shape.stride[1]) as f64 + copied(&y);
        let planes = shape.batch * shape.channels;
        let work = planes as f64 * plane * each * size_of::<T>() as f64 / 4.0;
        let bands = shape.batch * if last { shape.output[0].div_ceil(COPIED) } else { 1 };
        let mut channels = 1;
        if last {
            // All channels if there are enough rows, since channels are contiguous.
            channels = shape.channels.div_ceil(PARTS.div_ceil(bands)).next_multiple_of(TOGETHER);
        }
        let parts = bands * shape.channels.div_ceil(channels);
        let workers = threads.workers_for_reduction(work, parts);
        let offsets = shape.offsets(&w);
        Self { shape, isa, x, w, y, offsets, last, channels, workers }
    }

    /// Elements of a worker's areas: sums, rows of x, and rows of y.
    fn areas(&self) -> [usize; 3] {
        let Shape { input, output, .. } = self.shape;
        let (lines, rows, channels) = if self.last {
            (self.shape.most_lines(COPIED), COPIED.min(output[0]), self.channels)
        } else {
            (input[0], output[0], 1)
        };
        let copied = |image: &Image<T>, rows: usize, columns: usize| {
            let direct = if self.last { image.run.same } else { image.has_rows() };
            if direct { 0 } else { rows * columns * channels }
        };
        [self.elements(), copied(&self.x, lines, input[1]), copied(&self.y, rows, output[1])]
    }

    fn layout(&self, scratch: &mut Scratch) -> [usize; 3] {
        self.areas().each(|elements| scratch.area::<T>(elements, self.workers.count()))
    }

    /// Parts of an image.
    fn bands(&self) -> usize {
        if self.last { self.shape.output[0].div_ceil(COPIED) } else { 1 }
    }

    /// Values of a worker's sums. With vectors of channels the last group overlaps the previous one.
    fn elements(&self) -> usize {
        let channels = self.shape.channels;
        let padded = if self.last { channels.next_multiple_of(TOGETHER) } else { channels };
        padded * self.shape.taps()
    }

    /// Adds up the sums of all workers.
    ///
    /// # Safety
    /// The tensors are those of the kernel; `worker_stride` is the stride in bytes of the workers' sums.
    unsafe fn finish(&self, tensors: &[*mut u8], sums: *const u8, worker_stride: usize) {
        let taps = self.shape.taps();
        for channel in 0..self.shape.channels {
            for tap in 0..taps {
                let offset = self.offset(channel, tap);
                // SAFETY: the tensors and the sums are valid, as this function requires.
                unsafe {
                    let mut total = T::ZERO;
                    for worker in 0..self.workers.count() {
                        total = total + sums.add(worker * worker_stride).cast::<T>().add(offset).read();
                    }
                    let to = self.w.at(tensors[self.w.slot], [channel, 0, 0, 0]).add(self.offsets[tap]);
                    (self.w.run.store)(&raw const total, to, 1, 1);
                }
            }
        }
    }

    /// The index of a sum: channel by channel, or element by element of the filter for groups of channels.
    fn offset(&self, channel: usize, tap: usize) -> usize {
        let taps = self.shape.taps();
        if !self.last {
            return channel * taps + tap;
        }
        let group = channel / TOGETHER;
        (group * taps + tap) * TOGETHER + channel - self.first(group)
    }

    /// The first channel of a group; the last group overlaps the previous one.
    fn first(&self, group: usize) -> usize {
        (group * TOGETHER).min(self.shape.channels - TOGETHER)
    }
}

/// Some parts, for one worker.
struct Task<'a, T> {
    by: &'a BackwardWeights<T>,
    tensors: &'a [*mut u8],
    sums: *mut T,
    input: *mut T,
    gradient: *mut T,
    parts: Range<usize>,
}

impl<T: Float> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        // SAFETY: the tensors and the memory are valid, as this function requires.
        unsafe {
            for i in 0..self.by.elements() {
                self.sums.add(i).write(T::ZERO);
            }
            if self.by.last {
                self.pixels::<V>();
            } else {
                self.rows::<V>();
            }
        }
    }
}

impl<T: Float> Task<'_, T> {
    /// Channels first.
    ///
    /// # Safety
    /// The processor has the vector's instructions; tensors and the worker's memory are those that
    /// [`Kernel::run`] requires.
    #[inline(always)]
    unsafe fn rows<V: Vector<Scalar = T>>(&self) {
        let BackwardWeights { shape, x, y, .. } = self.by;
        for part in self.parts.clone() {
            let (channel, image) = (part / shape.batch, part % shape.batch);
            // SAFETY: the tensors have the planes, and there is room for copies of them.
            unsafe {
                let plane = |of: &Image<T>, channel: usize, size: [usize; 2], copy: *mut T| {
                    let from = of.at(self.tensors[of.slot], [image, channel, 0, 0]);
                    of.rows(from, 0..size[0], size[1], copy)
                };
                let (input, input_row) = plane(x, channel / shape.multiplier, shape.input, self.input);
                let (gradient, gradient_row) = plane(y, channel, shape.output, self.gradient);
                let accumulators = self.sums.add(channel * shape.taps());
                Rows { shape, input, input_row, gradient, gradient_row, accumulators }.run::<V>();
            }
        }
    }

    /// Channels last.
    ///
    /// # Safety
    /// The processor has the vector's instructions; tensors and the worker's memory are those that
    /// [`Kernel::run`] requires.
    #[inline(always)]
    unsafe fn pixels<V: Vector<Scalar = T>>(&self) {
        let BackwardWeights { shape, x, y, .. } = self.by;
        let bands = self.by.bands();
        for part in self.parts.clone() {
            let (chunk, rest) = (part / (shape.batch * bands), part % (shape.batch * bands));
            let (image, band) = (rest / bands, rest % bands);
            let rows = band * COPIED..shape.output[0].min((band + 1) * COPIED);
            let first = self.by.first(chunk * self.by.channels / TOGETHER);
            let end = shape.channels.min((chunk + 1) * self.by.channels);
            // SAFETY: the tensors have the rows, and there is room for copies of them.
            unsafe {
                let pixels = |of: &Image<T>, rows: Range<usize>, width: usize, copy: *mut T| {
                    let from = of.at(self.tensors[of.slot], [image, first, 0, 0]);
                    of.pixels(from, rows, (width, end - first), copy)
                };
                let (input, input_strides) = pixels(x, shape.rows(&rows), shape.input[1], self.input);
                let (gradient, gradient_strides) = pixels(y, rows.clone(), shape.output[1], self.gradient);
                let pixels = Pixels { shape, input, input_strides, gradient, gradient_strides };
                for group in chunk * self.by.channels / TOGETHER..end.div_ceil(TOGETHER) {
                    let channel = self.by.first(group) - first;
                    let sums = self.sums.add(group * TOGETHER * shape.taps());
                    for vector in (0..TOGETHER).step_by(V::LANES) {
                        for row in rows.clone() {
                            pixels.row::<V>(row, channel + vector, sums.add(vector));
                        }
                    }
                }
            }
        }
    }
}

impl<T: Float> Kernel for BackwardWeights<T> {
    fn facts(&self) -> Facts {
        Facts::new("depthwise", self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let offsets = self.layout(&mut Scratch::default());
        let sizes = self.areas().each(|elements| Scratch::padded::<T>(elements) * size_of::<T>());
        let parts = self.shape.batch * self.bands() * self.shape.channels.div_ceil(self.channels);
        let (shared, memory) = (Tensors(tensors), Shared([scratch]));
        self.workers.run(|worker| {
            let area = |i: usize| memory.get(0).wrapping_add(offsets[i] + worker * sizes[i]).cast();
            let work = Task {
                by: self,
                tensors: shared.all(),
                sums: area(0),
                input: area(1),
                gradient: area(2),
                parts: self.workers.share(worker, parts),
            };
            // SAFETY: the processor supports the instruction set; the caller promises tensors and
            // scratch memory, of which each worker has its own.
            unsafe { self.isa.run_vectors::<T, _>(work) };
        });
        // SAFETY: all workers have written their sums.
        unsafe { self.finish(tensors, scratch.add(offsets[0]), sizes[0]) };
    }
}
