//! Channels first: a vector is a run of a row. Channels of other layouts and dtypes are copied first.

use crate::depthwise::band::{Band, Form};
use crate::depthwise::dilated::room;
use crate::depthwise::epilogue::{AffineEpilogue, Registers, neutral};
use crate::depthwise::shape::Shape;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector};
use crate::tensor::image::Image;
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::tensor::row_converter::all_finite;
use crate::threading::partition::Threads;

/// How many elements of the output are computed before the epilogue.
const NEAR: usize = 8 << 10;

/// The most channels that are computed together, and the most elements of their images: these stay in L1.
const TOGETHER: usize = 16;

const NEAR_ELEMENTS: usize = 4 << 10;

/// Nanoseconds of overhead per channel.
const BEGIN: f64 = 10.0;

/// A planned convolution.
pub(crate) struct ChannelsFirst<T> {
    shape: Shape,
    form: Form,
    x: Image<T>,
    w: Image<T>,
    y: Image<T>,
    /// Offsets in bytes of the elements of a filter.
    offsets: Vec<usize>,
    /// Whether a filter is contiguous in image order, and whether all filters are.
    in_order: bool,
    are_dense: bool,
    padded: bool,
    channel_epilogue: Option<AffineEpilogue<T>>,
    /// Channels that are computed together.
    together: usize,
    parts: Parts,
}

impl<T: Float> ChannelsFirst<T> {
    /// Plans the convolution; the images are x, w and y.
    pub(crate) fn plan(
        shape: Shape,
        [x, w, y]: [Image<T>; 3],
        isa: Isa,
        threads: Threads,
        channel_epilogue: Option<AffineEpilogue<T>>,
    ) -> Self {
        let plane = shape.output[0] * shape.output[1];
        let form = Form::of::<T>(&shape, isa);
        let copied = |image: &Image<T>| if image.has_rows() { 0.05 } else { 0.4 };
        let tap = match form {
            Form::Any | Form::Dilated => 0.1,
            Form::ThreeDilated => 0.01,
            _ => 0.02,
        };
        let each = shape.taps() as f64 * tap + copied(&y);
        let input = (shape.input[0] * shape.input[1]) as f64 * copied(&x);
        let planes = shape.batch * shape.channels;
        let work = planes as f64 * (plane as f64 * each * size_of::<T>() as f64 / 4.0 + input + BEGIN);
        let wanted = Parts::wanted(threads, work);
        // An epilogue on stored results finds them in the L1 cache.
        let stores = channel_epilogue.as_ref().is_some_and(AffineEpilogue::has_block);
        let mut rows = shape.output[0];
        let whole = |least: usize| least.next_multiple_of(form.rows());
        if stores {
            rows = rows.min(whole(NEAR.div_ceil(shape.output[1])));
        }
        let enough = wanted.div_ceil(planes);
        rows = rows.min(whole(shape.output[0].div_ceil(enough)));
        let mut channels = 1;
        if rows >= shape.output[0] {
            let most = (planes / wanted).max(1);
            channels = if stores { most.min(NEAR.div_ceil(plane)) } else { most }.min(shape.channels);
        }
        let whole_output = [shape.channels, shape.output[0]];
        let parts = Parts::new(isa, (threads, work), shape.batch, whole_output, [channels, rows]);
        let (offsets, padded) = (shape.offsets(&w), shape.is_padded());
        let in_order = offsets.iter().enumerate().all(|(tap, offset)| *offset == tap * w.run.size);
        let has_form = !matches!(form, Form::Any | Form::Dilated);
        let is_full = |tap: usize| offsets.contains(&(tap * w.run.size));
        let are_dense =
            has_form && w.run.same && w.strides[0] == offsets.len() && (0..offsets.len()).all(is_full);
        let are_rows = are_dense && x.has_rows() && y.has_rows() && shape.multiplier == 1;
        let images = shape.input[0] * shape.input[1] + plane;
        let together = if are_rows { (NEAR_ELEMENTS / images).clamp(1, TOGETHER) } else { 1 };
        Self { shape, form, x, w, y, offsets, in_order, are_dense, padded, channel_epilogue, together, parts }
    }
}

impl<T: Float> PartKernel<T, 4> for ChannelsFirst<T> {
    const NAME: &'static str = "depthwise";
    const FORM: &'static str = "channels first";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Filters, rows of the input, rows of the output, and a row of results of dilated input.
    fn areas(&self) -> [usize; 4] {
        let (shape, rows) = (&self.shape, self.parts.rows);
        let copied = |image: &Image<T>, rows: usize, columns: usize| {
            if image.has_rows() { 0 } else { rows * columns }
        };
        [
            shape.taps() * self.together,
            copied(&self.x, shape.most_lines(rows), shape.input[1]),
            copied(&self.y, rows, shape.output[1]),
            room(shape),
        ]
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 4>) {
        let Self { shape, x, w, y, channel_epilogue, .. } = self;
        let Part { tensors, areas: [taps_copy, input_copy, output_copy, phases], image, .. } = *part;
        let affine = channel_epilogue.as_ref().and_then(|epilogue| epilogue.affine.as_ref());
        let lines = shape.rows(&part.rows);
        let columns = shape.output[1];
        // SAFETY: the tensor has the filters of the part's channels, consecutive if they are dense.
        let are_finite = self.are_dense
            && unsafe {
                let first = w.at(tensors[w.slot], [part.channels.start, 0, 0, 0]);
                all_finite(first.cast_const().cast::<T>(), part.channels.len() * shape.taps())
            };
        let mut channel = part.channels.start;
        while channel < part.channels.end {
            let mut count = if are_finite { self.together } else { 1 };
            count = count.min(part.channels.end - channel);
            // SAFETY: the tensor has the filters, and the area room for as many.
            let taps = unsafe { self.taps(w.at(tensors[w.slot], [channel, 0, 0, 0]), taps_copy, count) };
            let mut coefficients = [neutral(); TOGETHER];
            if let Some(affine) = affine {
                for (at, coefficients) in coefficients.iter_mut().enumerate().take(count) {
                    // SAFETY: the epilogue's tensors have the channel.
                    *coefficients = unsafe { affine.coefficients(tensors, channel + at) };
                }
            }
            // SAFETY: the tensors have the channels and rows, and the area room for those that are copied.
            let ((input, input_row), first_output) = unsafe {
                let from = x.at(tensors[x.slot], [image, channel / shape.multiplier, 0, 0]);
                (
                    x.rows(from, lines.clone(), shape.input[1], input_copy),
                    y.at(tensors[y.slot], [image, channel, part.rows.start, 0]),
                )
            };
            let direct = y.has_rows();
            let band = Band {
                shape: *shape,
                channels: count,
                channel_strides: [x.strides[1], y.strides[1], shape.taps()],
                input,
                input_row,
                output: if direct { first_output.cast() } else { output_copy },
                output_row: if direct { y.strides[2] } else { columns },
                rows: part.rows.clone(),
                taps,
                phases,
                coefficients: coefficients.as_ptr(),
                registers: affine.map_or(Registers::NONE, |affine| affine.registers),
            };
            // SAFETY: the band's filters, rows and coefficients are those of the channels, and each has its room.
            unsafe {
                if self.padded && !are_finite && !all_finite(taps, shape.taps()) {
                    band.run_exactly::<V>();
                } else {
                    band.run::<V>(self.form);
                }
                if !direct {
                    y.store(output_copy, first_output, part.rows.len(), columns);
                }
            }
            channel += count;
        }
        if let Some(epilogue) = channel_epilogue {
            // SAFETY: the rows of the channels are computed.
            unsafe { epilogue.run(shape, tensors, image, part.channels.clone(), &part.rows) };
        }
    }
}

impl<T: Float> ChannelsFirst<T> {
    /// The filters of some channels, row by row, in image order: in place if they are so, or copied.
    ///
    /// # Safety
    /// `from` is the first channel's first weight, `to` is writable for all of them. There is only one
    /// channel unless the filters are dense.
    #[inline(always)]
    unsafe fn taps(&self, from: *mut u8, to: *mut T, channels: usize) -> *const T {
        let run = &self.w.run;
        if self.in_order && run.same {
            return from.cast_const().cast();
        }
        // SAFETY: the weights are valid, as this function requires; they are contiguous if they are in order.
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
