//! Some channels at a time, where the channels of an element lie side by side; of other types they are copied first. So are small
//! images of other layouts, whose rows would leave most of a vector empty.

use hipdnn_plugin_sdk::graph::DataType;

use crate::depthwise::band::Form;
use crate::depthwise::epilogue::AffineEpilogue;
use crate::depthwise::pixels::{Band, TOGETHER};
use crate::depthwise::shape::Shape;
use crate::gemm::pack::{Pack, PackSource, packing_of};
use crate::kernel::{Kernel, Refusal};
use crate::problem::Operand;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::image::Image;
use crate::tensor::row_converter::all_finite;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Threads, Workers};

/// Numbers of the output that are computed before what follows is done with them, and of which copies are made.
const NEAR: usize = 8 << 10;

/// Parts for each worker.
const PARTS: usize = 6;

/// Channels are divided at multiples of this, a few cache lines.
const CHANNELS: usize = 64;

/// Channels of planes are copied in blocks of this.
const BLOCK: usize = 16;

/// Numbers of an image and its result up to which planes are copied: a block of them stays in the second cache.
const MAX_NUMBERS: usize = 8 << 10;

/// A convolution with every decision made.
pub(crate) struct ChannelsLast<T> {
    shape: Shape,
    isa: Isa,
    form: Form,
    x: Image<T>,
    w: Image<T>,
    y: Image<T>,
    /// The distances in bytes of the elements of a channel's window.
    offsets: Vec<usize>,
    padded: bool,
    channel_epilogue: Option<AffineEpilogue<T>>,
    turn: Option<Transposition<T>>,
    /// Channels and rows of the output that are computed by one worker, one after the other.
    channels: usize,
    rows: usize,
    workers: Workers,
}

/// How planes of numbers become elements with their channels side by side, and these become planes.
pub(crate) struct Transposition<T> {
    load: Pack<T>,
    store: Pack<T>,
}

impl<T: Float> Transposition<T> {
    /// Where planes are worth it: x is the image that is read.
    pub(crate) fn of(
        shape: &Shape,
        x: &Operand,
        images: &[Image<T>; 3],
        isa: Isa,
    ) -> Result<Option<Self>, Refusal> {
        let [from, _, to] = images;
        let is_plane = |image: &Image<T>, size: [usize; 2]| {
            image.strides[3] == 1 && (size[0] == 1 || image.strides[2] == size[1])
        };
        let is_form = !matches!(Form::of(shape), Form::Any | Form::Apart | Form::ThreeApart);
        // Lanes that are chosen by masks cost little.
        #[cfg(target_arch = "x86_64")]
        let is_form = is_form && !(isa == Isa::Avx512 && from.has_rows() && to.has_rows());
        let is_small = shape.output[1] >= TOGETHER && shape.output[1] <= most_columns::<T>(isa);
        let numbers = shape.input[0] * shape.input[1] + shape.output[0] * shape.output[1];
        let suits = is_form
            && is_small
            && numbers <= MAX_NUMBERS
            && shape.multiplier == 1
            && shape.channels >= BLOCK
            && is_plane(from, shape.input)
            && is_plane(to, shape.output);
        if !suits {
            return Ok(None);
        }
        let number = if size_of::<T>() == 4 { DataType::Float } else { DataType::Double };
        Ok(Some(Self { load: packing_of("x", x.data_type)?.0, store: packing_of("y", number)?.0 }))
    }
}

/// Columns of the output up to which planes are copied: half a vector.
fn most_columns<T: Float>(isa: Isa) -> usize {
    let lanes = match isa {
        Isa::Portable => T::Portable::LANES,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => T::Avx2::LANES,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => T::Avx512::LANES,
    };
    lanes / 2
}

/// Offsets in bytes of a worker's areas of the scratch memory.
#[derive(Clone, Copy)]
pub(crate) struct ScratchLayout {
    taps: usize,
    zeros: usize,
    input: usize,
    output: usize,
    planes: usize,
}

impl<T: Float> ChannelsLast<T> {
    /// Whether the images are such.
    pub(crate) fn covers(shape: &Shape, x: &Image<T>, y: &Image<T>) -> bool {
        shape.multiplier == 1 && shape.channels >= 4 && x.strides[1] == 1 && y.strides[1] == 1
    }

    /// Plans it; the images are x, w and y.
    pub(crate) fn plan(
        shape: Shape,
        [x, w, y]: [Image<T>; 3],
        isa: Isa,
        threads: Threads,
        channel_epilogue: Option<AffineEpilogue<T>>,
        turn: Option<Transposition<T>>,
    ) -> Self {
        let form = Form::of(&shape);
        let copied = |image: &Image<T>| if image.run.same && turn.is_none() { 0.1 } else { 0.2 };
        let each = shape.taps() as f64 * if form == Form::Any { 0.1 } else { 0.04 } + copied(&y);
        let [input, output] = [shape.input, shape.output].map(|size| (size[0] * size[1]) as f64);
        let images = (shape.batch * shape.channels) as f64;
        let work = images * (output * each * size_of::<T>() as f64 / 4.0 + input * copied(&x));
        let wanted = threads.workers(work, usize::MAX).count();
        let wanted = if wanted > 1 { PARTS * wanted } else { 1 };
        let (offsets, padded) = (shape.offsets(&w), shape.is_padded());
        if turn.is_some() {
            // Whole images of as many channels as stay in the L1 cache.
            let numbers = (input + output) as usize;
            let near = (NEAR / numbers).clamp(BLOCK, CHANNELS);
            let channels = shape.channels.div_ceil(wanted.div_ceil(shape.batch)).min(near);
            let channels = channels.next_multiple_of(BLOCK);
            let workers = threads.workers(work, shape.batch * shape.channels.div_ceil(channels));
            let rows = shape.output[0];
            return Self {
                shape,
                isa,
                form,
                x,
                w,
                y,
                offsets,
                padded,
                channel_epilogue,
                turn,
                channels,
                rows,
                workers,
            };
        }
        // Rows of all channels as long as there are enough of them, since these are one piece of memory.
        let mut rows =
            shape.output[0].div_ceil(wanted.div_ceil(shape.batch)).max(TOGETHER).min(shape.output[0]);
        let bands = shape.batch * shape.output[0].div_ceil(rows);
        let pieces = wanted.div_ceil(bands).min(shape.channels.div_ceil(CHANNELS));
        let channels = shape.channels.div_ceil(pieces).next_multiple_of(CHANNELS).min(shape.channels);
        let near = channel_epilogue.as_ref().is_some_and(|channel_epilogue| channel_epilogue.near.is_none());
        if near || !x.run.same || !y.run.same {
            rows = rows.min((NEAR / (shape.output[1] * channels)).max(1));
        }
        let bands = shape.batch * shape.output[0].div_ceil(rows);
        let workers = threads.workers(work, bands * shape.channels.div_ceil(channels));
        Self { shape, isa, form, x, w, y, offsets, padded, channel_epilogue, turn, channels, rows, workers }
    }

    /// The areas of a worker, laid out from the beginning of its memory.
    fn layout(&self, scratch: &mut Scratch) -> ScratchLayout {
        let [stride, dilation] = [self.shape.stride[0], self.shape.dilation[0]];
        let reach = (self.rows - 1) * stride + (self.shape.window[0] - 1) * dilation + 1;
        let lines = reach.min(self.shape.input[0]);
        let copied = |image: &Image<T>, rows: usize, columns: usize| {
            if image.run.same && self.turn.is_none() { 0 } else { rows * columns * self.channels }
        };
        let between = self.turn.is_some() && !self.y.run.same;
        let planes = if between { self.rows * self.shape.output[1] * self.channels } else { 0 };
        ScratchLayout {
            taps: scratch.area::<T>((self.shape.taps() + 2) * self.channels, 1),
            zeros: scratch.area::<T>(self.channels, 1),
            input: scratch.area::<T>(copied(&self.x, lines, self.shape.input[1]), 1),
            output: scratch.area::<T>(copied(&self.y, self.rows, self.shape.output[1]), 1),
            planes: scratch.area::<T>(planes, 1),
        }
    }

    /// Bytes of a worker's scratch memory.
    fn room(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    /// The windows of some channels: a row of channels for each element, in the order in which these meet the image.
    ///
    /// # Safety
    /// `from` is the first channel's first weight, `to` is writable for the windows of all of them, in rows of `row_stride`.
    #[inline(always)]
    unsafe fn taps(&self, from: *mut u8, (to, row_stride): (*mut T, usize), channels: usize) {
        for tap in 0..self.offsets.len() {
            // SAFETY: the weights are valid, as this function requires.
            unsafe {
                let (from, to) = (from.add(self.offsets[tap]), to.add(tap * row_stride));
                if self.w.run.same {
                    for channel in 0..channels {
                        let from = from.cast::<T>().add(channel * self.w.strides[0]);
                        to.add(channel).write(from.read_unaligned());
                    }
                } else {
                    (self.w.run.load)(from, self.w.strides[0], to, channels);
                }
            }
        }
    }
}

/// Some channels and rows of one image.
struct Task<'a, T> {
    kernel: &'a ChannelsLast<T>,
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
        let ChannelsLast { shape, x, w, y, channel_epilogue, .. } = self.kernel;
        let areas = self.kernel.layout(&mut Scratch::default());
        let near = channel_epilogue.as_ref().and_then(|channel_epilogue| channel_epilogue.near.as_ref());
        let mut far = channel_epilogue.is_some() && near.is_none();
        let (present, first) = (self.channels.len(), self.channels.start);
        // Copies of planes have zeros for the channels up to a whole block.
        let turn = self.kernel.turn.as_ref();
        let count = if turn.is_some() { present.next_multiple_of(BLOCK) } else { present };
        let lines = shape.rows(&self.rows);
        let (width, columns) = (shape.input[1], shape.output[1]);
        // SAFETY: this function requires the tensors, which have all of the elements, and the scratch memory
        // with its areas.
        unsafe {
            let taps = self.scratch.add(areas.taps).cast::<T>();
            let zeros = self.scratch.add(areas.zeros).cast::<T>();
            zeros.write_bytes(0, count);
            if present < count {
                taps.write_bytes(0, shape.taps() * count);
            }
            self.kernel.taps(w.at(self.tensors[w.slot], [first, 0, 0, 0]), (taps, count), present);
            let factors = taps.add(shape.taps() * count);
            if let Some(near) = near {
                (0..2).for_each(|row| factors.add(row * count).write_bytes(0, count));
                for channel in 0..present {
                    let numbers = near.numbers(self.tensors, first + channel);
                    // What is not finite is added and multiplied in the order of the graph.
                    far |= numbers.is_none();
                    let (factor, summand) = numbers.unwrap_or((T::ONE, T::ZERO));
                    factors.add(channel).write(factor);
                    factors.add(count + channel).write(summand);
                }
            }
            if far || near.is_none() {
                for channel in 0..count {
                    factors.add(channel).write(T::ONE);
                    factors.add(count + channel).write(T::ZERO);
                }
            }
            let mut input = x.at(self.tensors[x.slot], [self.image, first, 0, 0]);
            let mut input_strides = [x.strides[2], x.strides[3]];
            if let Some(turn) = turn {
                let to = self.scratch.add(areas.input).cast::<T>();
                let copy = PackSource {
                    from: input.add(lines.start * x.strides[2] * x.run.size),
                    rows: lines.len() * width,
                    row: 1,
                    columns: present,
                    column: x.strides[1],
                    width: count,
                    row_stride: count,
                };
                (turn.load)(self.kernel.isa, &copy, to);
                input_strides = [width * count, count];
                input = to.wrapping_sub(lines.start * width * count).cast();
            } else if !x.run.same {
                let to = self.scratch.add(areas.input).cast::<T>();
                for (number, line) in lines.clone().enumerate() {
                    for column in 0..width {
                        let offset = line * x.strides[2] + column * x.strides[3];
                        let to = to.add((number * width + column) * count);
                        (x.run.load)(input.add(offset * x.run.size), 1, to, count);
                    }
                }
                input_strides = [width * count, count];
                input = to.wrapping_sub(lines.start * width * count).cast();
            }
            let place = y.at(self.tensors[y.slot], [self.image, first, self.rows.start, 0]);
            let copy = self.scratch.add(areas.output).cast::<T>();
            let direct = y.run.same && turn.is_none();
            let band = Band {
                input: input.cast_const().cast(),
                input_strides,
                size: shape.input,
                output: if direct { place.cast() } else { copy },
                output_strides: if direct { [y.strides[2], y.strides[3]] } else { [columns * count, count] },
                rows: self.rows.clone(),
                columns,
                channels: count,
                taps,
                zeros,
                window: shape.window,
                stride: shape.stride,
                dilation: shape.dilation,
                padding: shape.padding,
                input_dilation: shape.input_dilation,
                bounds: near.and_then(|near| near.bounds).filter(|_| !far),
            };
            if self.kernel.padded && !all_finite(taps, shape.taps() * count) {
                band.any::<V>();
            } else {
                band.run::<V>(self.kernel.form);
            }
            if let Some(turn) = turn {
                let elements = self.rows.len() * columns;
                let planes = self.scratch.add(areas.planes).cast::<T>();
                let (to, row_stride) =
                    if y.run.same { (place.cast(), y.strides[1]) } else { (planes, elements) };
                let copy = PackSource {
                    from: copy.cast_const().cast(),
                    rows: present,
                    row: 1,
                    columns: elements,
                    column: count,
                    width: elements,
                    row_stride,
                };
                (turn.store)(self.kernel.isa, &copy, to);
                if !y.run.same {
                    for channel in 0..present {
                        let to = place.add(channel * y.strides[1] * y.run.size);
                        (y.run.store)(planes.add(channel * elements), to, 1, elements);
                    }
                }
            } else if !direct {
                for row in 0..self.rows.len() {
                    for column in 0..columns {
                        let to = place.add((row * y.strides[2] + column * y.strides[3]) * y.run.size);
                        (y.run.store)(copy.add((row * columns + column) * count), to, 1, count);
                    }
                }
            }
            if let (true, Some(channel_epilogue)) = (far, channel_epilogue) {
                channel_epilogue.finish(shape, self.tensors, self.image, self.channels, &self.rows);
            }
        }
    }
}

impl<T: Float> Kernel for ChannelsLast<T> {
    fn scratch_size(&self) -> usize {
        self.room() * self.workers.count()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (shared, memory, room) = (Tensors(tensors), Shared([scratch]), self.room());
        let pieces = self.shape.channels.div_ceil(self.channels);
        let bands = self.shape.output[0].div_ceil(self.rows);
        self.workers.for_each_part(self.shape.batch * bands * pieces, |worker, number| {
            let (rest, piece) = (number / pieces, number % pieces);
            let (image, band) = (rest / bands, rest % bands);
            let part = Task {
                kernel: self,
                tensors: shared.all(),
                // SAFETY: the scratch memory has room for each worker.
                scratch: unsafe { memory.get(0).add(worker * room) },
                image,
                channels: piece * self.channels..self.shape.channels.min((piece + 1) * self.channels),
                rows: band * self.rows..self.shape.output[0].min((band + 1) * self.rows),
            };
            // SAFETY: the processor supports the instruction set; the caller promises tensors and
            // scratch memory, and no two parts write the same elements.
            unsafe { self.isa.run_vectors::<T, _>(part) };
        });
    }
}
