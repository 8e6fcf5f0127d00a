//! Channels last: a vector is a run of channels. Elements of other dtypes are copied first. Small channels-first images, whose rows
//! would leave most of a vector empty, are transposed first.

use hipdnn_plugin_sdk::graph::DataType;

use crate::depthwise::band::Form;
use crate::depthwise::epilogue::{AffineEpilogue, COEFFICIENTS, Registers, neutral};
use crate::depthwise::pixels::{Band, TOGETHER};
use crate::depthwise::shape::Shape;
use crate::gemm::pack::{Pack, PackSource, pack_of};
use crate::kernel::Refusal;
use crate::problem::Operand;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector};
use crate::tensor::image::Image;
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::tensor::row_converter::all_finite;
use crate::threading::partition::Threads;

/// How many elements of planes are transposed at a time: they stay in the L1 cache.
const NEAR: usize = 8 << 10;

/// How many elements of the output are computed before the epilogue, or copied: they stay in the L2 cache. A part copies its filters.
const STORED: usize = 32 << 10;

/// Channels are divided at multiples of this: a few cache lines.
const CHANNELS: usize = 64;

/// Planes are transposed in blocks of this many channels.
const BLOCK: usize = 16;

/// The most elements of an image and its result to transpose planes: a block of them stays in the L2 cache.
const MAX_ELEMENTS: usize = 8 << 10;

/// A planned convolution.
pub(crate) struct ChannelsLast<T> {
    shape: Shape,
    form: Form,
    x: Image<T>,
    w: Image<T>,
    y: Image<T>,
    /// Offsets in bytes of the elements of a filter.
    offsets: Vec<usize>,
    padded: bool,
    channel_epilogue: Option<AffineEpilogue<T>>,
    transposition: Option<Transposition<T>>,
    parts: Parts,
}

/// Transposes planes to contiguous channels, and back.
pub(crate) struct Transposition<T> {
    isa: Isa,
    load: Pack<T>,
    store: Pack<T>,
}

impl<T: Float> Transposition<T> {
    /// The transposition of planes if it pays; x is the image that is read.
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
        let is_form = !matches!(
            Form::of::<T>(shape, isa),
            Form::Any | Form::Seven | Form::Dilated | Form::ThreeDilated
        );
        // Masked lanes are cheap.
        #[cfg(target_arch = "x86_64")]
        let is_form = is_form && !(isa == Isa::Avx512 && from.has_rows() && to.has_rows());
        let is_small = shape.output[1] >= TOGETHER && shape.output[1] <= most_columns::<T>(isa);
        let elements = shape.input[0] * shape.input[1] + shape.output[0] * shape.output[1];
        let suits = is_form
            && is_small
            && elements <= MAX_ELEMENTS
            && shape.multiplier == 1
            && shape.channels >= BLOCK
            && is_plane(from, shape.input)
            && is_plane(to, shape.output);
        if !suits {
            return Ok(None);
        }
        let compute = if size_of::<T>() == 4 { DataType::Float } else { DataType::Double };
        Ok(Some(Self { isa, load: pack_of("x", x.data_type)?, store: pack_of("y", compute)? }))
    }
}

/// The most columns of the output for which planes are transposed: half a vector.
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

impl<T: Float> ChannelsLast<T> {
    /// Whether the channels of both images are contiguous.
    pub(crate) fn covers(shape: &Shape, x: &Image<T>, y: &Image<T>) -> bool {
        shape.multiplier == 1 && shape.channels >= 4 && x.strides[1] == 1 && y.strides[1] == 1
    }

    /// Plans the convolution; the images are x, w and y.
    pub(crate) fn plan(
        shape: Shape,
        [x, w, y]: [Image<T>; 3],
        isa: Isa,
        threads: Threads,
        channel_epilogue: Option<AffineEpilogue<T>>,
        transposition: Option<Transposition<T>>,
    ) -> Self {
        let form = Form::of::<T>(&shape, isa);
        let copied = |image: &Image<T>| if image.run.same && transposition.is_none() { 0.1 } else { 0.2 };
        let each = shape.taps() as f64 * if matches!(form, Form::Any | Form::Seven) { 0.1 } else { 0.04 }
            + copied(&y);
        let [input, output] = [shape.input, shape.output].each(|size| (size[0] * size[1]) as f64);
        let images = (shape.batch * shape.channels) as f64;
        let work = images * (output * each * size_of::<T>() as f64 / 4.0 + input * copied(&x));
        let wanted = Parts::wanted(threads, work);
        let part = if transposition.is_some() {
            // Whole images, with as many channels as stay in the L1 cache.
            let most = (NEAR / (input + output) as usize).clamp(BLOCK, CHANNELS);
            let channels = shape.channels.div_ceil(wanted.div_ceil(shape.batch)).min(most);
            [channels.next_multiple_of(BLOCK), shape.output[0]]
        } else {
            // Rows of all channels if there are enough, since channels are contiguous.
            let rows = shape.output[0].div_ceil(wanted.div_ceil(shape.batch)).max(TOGETHER);
            let rows = rows.min(shape.output[0]);
            let bands = shape.batch * shape.output[0].div_ceil(rows);
            let groups = wanted.div_ceil(bands).min(shape.channels.div_ceil(CHANNELS));
            let channels = shape.channels.div_ceil(groups).next_multiple_of(CHANNELS).min(shape.channels);
            let stores = channel_epilogue.as_ref().is_some_and(AffineEpilogue::has_block);
            let most = if stores || !x.run.same || !y.run.same {
                (STORED / (shape.output[1] * channels)).max(1)
            } else {
                rows
            };
            [channels, rows.min(most)]
        };
        let whole = [shape.channels, shape.output[0]];
        let parts = Parts::new(isa, (threads, work), shape.batch, whole, part);
        let (offsets, padded) = (shape.offsets(&w), shape.is_padded());
        Self { shape, form, x, w, y, offsets, padded, channel_epilogue, transposition, parts }
    }

    /// Copies some channels' filters in image order: for each element a row of channels, with stride
    /// `row_stride`.
    ///
    /// # Safety
    /// `from` is the first channel's first weight, `to` is writable for the filters of all of them.
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

impl<T: Float> PartKernel<T, 5> for ChannelsLast<T> {
    const NAME: &'static str = "depthwise";
    const FORM: &'static str = "channels last";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Filters with coefficients, zeros, rows of the input, rows of the output, and both as planes.
    fn areas(&self) -> [usize; 5] {
        let Parts { channels, rows, .. } = self.parts;
        let copied = |is_copied: bool, rows: usize, columns: usize| {
            if is_copied { rows * columns * channels } else { 0 }
        };
        let is_transposed = self.transposition.is_some();
        let [_, columns] = self.shape.output;
        [
            (self.shape.taps() + COEFFICIENTS) * channels,
            channels,
            copied(is_transposed || !self.x.run.same, self.shape.most_lines(rows), self.shape.input[1]),
            copied(is_transposed || !self.y.run.same, rows, columns),
            copied(is_transposed && !self.y.run.same, rows, columns),
        ]
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 5>) {
        let Self { shape, x, w, y, channel_epilogue, .. } = self;
        let Part { tensors, areas: [taps, zeros, input_copy, output_copy, planes], image, .. } = *part;
        let affine = channel_epilogue.as_ref().and_then(|epilogue| epilogue.affine.as_ref());
        let (present, first) = (part.channels.len(), part.channels.start);
        // Transposed images have zeros for channels up to a whole block.
        let transposition = self.transposition.as_ref();
        let count = if transposition.is_some() { present.next_multiple_of(BLOCK) } else { present };
        let lines = shape.rows(&part.rows);
        let (width, columns) = (shape.input[1], shape.output[1]);
        // SAFETY: the tensor has the filters, and the areas room for them and for zeros.
        unsafe {
            zeros.write_bytes(0, count);
            if present < count {
                taps.write_bytes(0, shape.taps() * count);
            }
            self.taps(w.at(tensors[w.slot], [first, 0, 0, 0]), (taps, count), present);
        }
        for channel in 0..count {
            // SAFETY: the epilogue's tensors have the channels that are present; after the filters there is
            // room for the coefficients of each.
            unsafe {
                let by = match affine.filter(|_| channel < present) {
                    Some(affine) => affine.coefficients(tensors, first + channel),
                    None => neutral(),
                };
                for (at, by) in by.into_iter().enumerate() {
                    taps.add((shape.taps() + at) * count + channel).write(by);
                }
            }
        }
        let from = x.at(tensors[x.slot], [image, first, 0, 0]);
        let first_output = y.at(tensors[y.slot], [image, first, part.rows.start, 0]);
        let (input, input_strides) = if let Some(transposition) = transposition {
            let copy = PackSource {
                from: from.wrapping_add(lines.start * x.strides[2] * x.run.size),
                rows: lines.len() * width,
                row: 1,
                columns: present,
                column: x.strides[1],
                width: count,
                row_stride: count,
            };
            // SAFETY: the image has the rows of these channels, and the area room for them.
            unsafe { (transposition.load)(transposition.isa, &copy, input_copy) };
            let first = input_copy.cast_const().wrapping_sub(lines.start * width * count);
            (first, [width * count, count])
        } else {
            // SAFETY: the image has the rows of these channels, and the area room for those that are copied.
            unsafe { x.pixels(from, lines, (width, count), input_copy) }
        };
        let direct = y.run.same && transposition.is_none();
        let band = Band {
            shape: *shape,
            input,
            input_strides,
            output: if direct { first_output.cast() } else { output_copy },
            output_strides: if direct { [y.strides[2], y.strides[3]] } else { [columns * count, count] },
            rows: part.rows.clone(),
            channels: count,
            taps,
            zeros,
            registers: affine.map_or(Registers::NONE, |affine| affine.registers),
        };
        // SAFETY: the band's filters, rows and zeros are those of the channels, and the output has its rows or room for them.
        unsafe {
            if self.padded && !all_finite(taps, shape.taps() * count) {
                band.any::<V>();
            } else {
                band.run::<V>(self.form);
            }
        }
        if let Some(transposition) = transposition {
            let elements = part.rows.len() * columns;
            let (to, row_stride) =
                if y.run.same { (first_output.cast(), y.strides[1]) } else { (planes, elements) };
            let copy = PackSource {
                from: output_copy.cast_const().cast(),
                rows: present,
                row: 1,
                columns: elements,
                column: count,
                width: elements,
                row_stride,
            };
            // SAFETY: the copy has the rows of all channels, and the output or the planes have them, too.
            unsafe { (transposition.store)(transposition.isa, &copy, to) };
            for channel in 0..if y.run.same { 0 } else { present } {
                // SAFETY: the planes have the rows of the channel, and so has the output.
                unsafe {
                    let to = first_output.add(channel * y.strides[1] * y.run.size);
                    (y.run.store)(planes.add(channel * elements), to, 1, elements);
                }
            }
        } else if !direct {
            for row in 0..part.rows.len() {
                for column in 0..columns {
                    // SAFETY: the copy has the channels of each element, and so has the output.
                    unsafe {
                        let to = first_output.add((row * y.strides[2] + column * y.strides[3]) * y.run.size);
                        (y.run.store)(output_copy.add((row * columns + column) * count), to, 1, count);
                    }
                }
            }
        }
        if let Some(epilogue) = channel_epilogue {
            // SAFETY: the rows of the channels are computed.
            unsafe { epilogue.run(shape, tensors, image, part.channels.clone(), &part.rows) };
        }
    }
}
