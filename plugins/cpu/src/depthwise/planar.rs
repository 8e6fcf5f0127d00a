//! Channel by channel, where the elements of a row lie side by side; of other layouts and types a channel is copied first.

use crate::depthwise::band::{Band, Form};
use crate::depthwise::epilogue::AffineEpilogue;
use crate::depthwise::gaps::room;
use crate::depthwise::shape::Shape;
use crate::kernel::Kernel;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::image::Image;
use crate::tensor::row_converter::all_finite;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Threads, Workers};

/// Numbers of the output that are computed before what follows is done with them.
const NEAR: usize = 8 << 10;

/// Parts for each worker: few enough to be worth a turn, enough that workers end together.
const PARTS: usize = 6;

/// Channels that are computed together at most, and the numbers of these channels' images at most: they stay in the
/// L1 cache.
const TOGETHER: usize = 16;

const NEAR_NUMBERS: usize = 4 << 10;

/// Nanoseconds that it takes to begin with a channel.
const BEGIN: f64 = 10.0;

/// A convolution with every decision made.
pub(crate) struct ChannelsFirst<T> {
    shape: Shape,
    isa: Isa,
    form: Form,
    x: Image<T>,
    w: Image<T>,
    y: Image<T>,
    /// The distances in bytes of the elements of a channel's window.
    offsets: Vec<usize>,
    /// Whether these follow each other in the order in which they meet the image, and whether nothing lies between the numbers of all
    /// windows.
    in_order: bool,
    are_dense: bool,
    padded: bool,
    channel_epilogue: Option<AffineEpilogue<T>>,
    /// Channels and rows of the output that are computed by one worker, one after the other, and channels that
    /// are computed together.
    channels: usize,
    rows: usize,
    together: usize,
    workers: Workers,
}

/// Offsets in bytes of a worker's areas of the scratch memory.
#[derive(Clone, Copy)]
pub(crate) struct ScratchLayout {
    taps: usize,
    input: usize,
    output: usize,
    columns: usize,
}

impl<T: Float> ChannelsFirst<T> {
    /// Plans it; the images are x, w and y.
    pub(crate) fn plan(
        shape: Shape,
        [x, w, y]: [Image<T>; 3],
        isa: Isa,
        threads: Threads,
        channel_epilogue: Option<AffineEpilogue<T>>,
    ) -> Self {
        let plane = shape.output[0] * shape.output[1];
        let form = Form::of(&shape);
        let copied = |image: &Image<T>| if image.has_rows() { 0.05 } else { 0.4 };
        let tap = match form {
            Form::Any | Form::Apart => 0.1,
            Form::ThreeApart => 0.01,
            _ => 0.02,
        };
        let each = shape.taps() as f64 * tap + copied(&y);
        let input = (shape.input[0] * shape.input[1]) as f64 * copied(&x);
        let planes = shape.batch * shape.channels;
        let work = planes as f64 * (plane as f64 * each * size_of::<T>() as f64 / 4.0 + input + BEGIN);
        let wanted = threads.workers(work, usize::MAX).count();
        let wanted = if wanted > 1 { PARTS * wanted } else { 1 };
        // What follows and is not done in registers is done with what is still in the L1 cache.
        let near = channel_epilogue.as_ref().is_some_and(|channel_epilogue| channel_epilogue.near.is_none());
        let mut rows = shape.output[0];
        let whole = |least: usize| least.next_multiple_of(form.rows());
        if near {
            rows = rows.min(whole(NEAR.div_ceil(shape.output[1])));
        }
        let enough = wanted.div_ceil(planes);
        rows = rows.min(whole(shape.output[0].div_ceil(enough)));
        let mut channels = 1;
        if rows >= shape.output[0] {
            let most = (planes / wanted).max(1);
            channels = if near { most.min(NEAR.div_ceil(plane)) } else { most }.min(shape.channels);
        }
        let parts = shape.batch * shape.channels.div_ceil(channels) * shape.output[0].div_ceil(rows);
        let (offsets, padded) = (shape.offsets(&w), shape.is_padded());
        let in_order = offsets.iter().enumerate().all(|(tap, offset)| *offset == tap * w.run.size);
        let has_form = !matches!(form, Form::Any | Form::Apart);
        let is_full = |tap: usize| offsets.contains(&(tap * w.run.size));
        let are_dense =
            has_form && w.run.same && w.strides[0] == offsets.len() && (0..offsets.len()).all(is_full);
        let workers = threads.workers(work, parts);
        let are_rows = are_dense && x.has_rows() && y.has_rows() && shape.multiplier == 1;
        let images = shape.input[0] * shape.input[1] + plane;
        let together = if are_rows { (NEAR_NUMBERS / images).clamp(1, TOGETHER) } else { 1 };
        Self {
            shape,
            isa,
            form,
            x,
            w,
            y,
            offsets,
            in_order,
            are_dense,
            padded,
            channel_epilogue,
            channels,
            rows,
            together,
            workers,
        }
    }

    /// The areas of a worker, laid out from the beginning of its memory.
    fn layout(&self, scratch: &mut Scratch) -> ScratchLayout {
        let [stride, dilation] = [self.shape.stride[0], self.shape.dilation[0]];
        let reach = (self.rows - 1) * stride + (self.shape.window[0] - 1) * dilation + 1;
        let most = reach.min(self.shape.input[0]);
        let copied = |image: &Image<T>, rows: usize, columns: usize| {
            if image.has_rows() { 0 } else { rows * columns }
        };
        ScratchLayout {
            taps: scratch.area::<T>(self.shape.taps() * self.together, 1),
            input: scratch.area::<T>(copied(&self.x, most, self.shape.input[1]), 1),
            output: scratch.area::<T>(copied(&self.y, self.rows, self.shape.output[1]), 1),
            columns: scratch.area::<T>(room(&self.shape), 1),
        }
    }

    /// Bytes of a worker's scratch memory.
    fn room(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }
}

/// Some channels and rows of one image.
struct Task<'a, T> {
    kernel: &'a ChannelsFirst<T>,
    tensors: &'a [*mut u8],
    scratch: *mut u8,
    image: usize,
    channels: std::ops::Range<usize>,
    rows: std::ops::Range<usize>,
}

impl<T: Float> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let ChannelsFirst { shape, x, w, y, channel_epilogue, .. } = self.kernel;
        let areas = self.kernel.layout(&mut Scratch::default());
        let near = channel_epilogue.as_ref().and_then(|channel_epilogue| channel_epilogue.near.as_ref());
        let far = channel_epilogue.is_some() && near.is_none();
        let lines = shape.rows(&self.rows);
        let [height, width] = shape.input;
        let [_, columns] = shape.output;
        // SAFETY: this function requires the tensors, which have all of the elements, and the scratch memory
        // with its areas.
        unsafe {
            let copy_of_taps = self.scratch.add(areas.taps).cast::<T>();
            let first = w.at(self.tensors[w.slot], [self.channels.start, 0, 0, 0]);
            let are_finite = self.kernel.are_dense
                && all_finite(first.cast_const().cast::<T>(), self.channels.len() * shape.taps());
            let mut channel = self.channels.start;
            while channel < self.channels.end {
                let mut count = if are_finite { self.kernel.together } else { 1 };
                count = count.min(self.channels.end - channel);
                let from = w.at(self.tensors[w.slot], [channel, 0, 0, 0]);
                let taps = self.kernel.taps(from, copy_of_taps, count);
                let finite = are_finite || all_finite(taps, shape.taps());
                let mut ends = [[T::ONE, T::ZERO]; TOGETHER];
                let mut has_numbers = true;
                if let (Some(near), false) = (near, far) {
                    let mut known = 0;
                    while known < count {
                        // What is not finite is added and multiplied in the order of the graph.
                        let Some((factor, summand)) = near.numbers(self.tensors, channel + known) else {
                            break;
                        };
                        ends[known] = [factor, summand];
                        known += 1;
                    }
                    has_numbers = known > 0;
                    count = known.max(1);
                }
                let (mut input, mut input_row) = (
                    x.at(self.tensors[x.slot], [self.image, channel / shape.multiplier, 0, 0]),
                    x.strides[2],
                );
                if !x.has_rows() {
                    let to = self.scratch.add(areas.input).cast::<T>();
                    x.load(input, lines.clone(), width, to);
                    input_row = width;
                    input = to.wrapping_sub(lines.start * width).cast();
                }
                let place = y.at(self.tensors[y.slot], [self.image, channel, self.rows.start, 0]);
                let direct = y.has_rows();
                let copy = self.scratch.add(areas.output).cast::<T>();
                let band = Band {
                    channels: count,
                    steps: [x.strides[1], y.strides[1], shape.taps()],
                    input: input.cast_const().cast(),
                    input_row,
                    size: [height, width],
                    output: if direct { place.cast() } else { copy },
                    output_row: if direct { y.strides[2] } else { columns },
                    rows: self.rows.clone(),
                    columns,
                    taps,
                    window: shape.window,
                    stride: shape.stride,
                    dilation: shape.dilation,
                    padding: shape.padding,
                    input_dilation: shape.input_dilation,
                    between: self.scratch.add(areas.columns).cast(),
                    ends: ends.as_ptr(),
                    bounds: near.and_then(|near| near.bounds).filter(|_| !far && has_numbers),
                };
                if self.kernel.padded && !finite {
                    band.run_exactly::<V>();
                } else {
                    band.run::<V>(self.kernel.form);
                }
                if !direct {
                    y.store(copy, place, self.rows.len(), columns);
                }
                if let (false, Some(channel_epilogue)) = (has_numbers, channel_epilogue) {
                    channel_epilogue.finish(
                        shape,
                        self.tensors,
                        self.image,
                        channel..channel + 1,
                        &self.rows,
                    );
                }
                channel += count;
            }
            if let (true, Some(channel_epilogue)) = (far, channel_epilogue) {
                channel_epilogue.finish(shape, self.tensors, self.image, self.channels, &self.rows);
            }
        }
    }
}

impl<T: Float> ChannelsFirst<T> {
    /// The windows of some channels, row by row, in the order in which they meet the image: where they are if they lie so.
    ///
    /// # Safety
    /// `from` is the first channel's first weight, `to` is writable for all of them. There is one channel unless nothing lies between
    /// the windows.
    #[inline(always)]
    unsafe fn taps(&self, from: *mut u8, to: *mut T, channels: usize) -> *const T {
        let run = &self.w.run;
        if self.in_order && run.same {
            return from.cast_const().cast();
        }
        // SAFETY: this function requires the weights, which lie side by side where they are in order.
        unsafe {
            if self.in_order {
                (run.load)(from, 1, to, self.offsets.len());
                return to;
            }
            let taps = self.offsets.len();
            for channel in 0..channels {
                for tap in 0..taps {
                    let from = from.add(channel * taps * run.size + self.offsets[tap]);
                    let to = to.add(channel * taps + tap);
                    if run.same {
                        to.write(from.cast::<T>().read_unaligned());
                    } else {
                        (run.load)(from, 1, to, 1);
                    }
                }
            }
        }
        to
    }
}

impl<T: Float> Kernel for ChannelsFirst<T> {
    fn scratch_size(&self) -> usize {
        self.room() * self.workers.count()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (shared, memory, room) = (Tensors(tensors), Shared([scratch]), self.room());
        let groups = self.shape.channels.div_ceil(self.channels);
        let bands = self.shape.output[0].div_ceil(self.rows);
        self.workers.for_each_part(self.shape.batch * groups * bands, |worker, number| {
            let (rest, band) = (number / bands, number % bands);
            let (image, group) = (rest / groups, rest % groups);
            let part = Task {
                kernel: self,
                tensors: shared.all(),
                // SAFETY: the scratch memory has room for each worker.
                scratch: unsafe { memory.get(0).add(worker * room) },
                image,
                channels: group * self.channels..self.shape.channels.min((group + 1) * self.channels),
                rows: band * self.rows..self.shape.output[0].min((band + 1) * self.rows),
            };
            // SAFETY: the processor supports the instruction set; the caller promises tensors and
            // scratch memory, and no two parts write the same elements.
            unsafe { self.isa.run_vectors::<T, _>(part) };
        });
    }
}
