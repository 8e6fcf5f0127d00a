//! Depthwise int8 convolutions with channels last: sixteen channels at a time.
//!
//! A band of rows of a block of channels is copied as single precision with padding and minus the zero point,
//! so that windows have no edges; sums stay below 2²⁴ and are exact. The epilogue is that of other products,
//! with channels as columns.

use hipdnn_plugin_sdk::graph::DataType;

use crate::depthwise::bytes::{NAME, Planes, shape_of, time};
use crate::depthwise::shape::Shape;
use crate::gemm::byte_tile::GROUP;
use crate::int8::epilogue::{Columns, Stages};
use crate::int8::plan::kind_of;
use crate::int8::problem::signed;
use crate::int8::requantization::{BoundPostOp, Requantization};
use crate::int8::store::{Added, Kind, Tile};
use crate::int8::vector16::{self, Vector16, Vector16Task};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::problem::convolution::Convolution;
use crate::settings::Settings;
use crate::simd::array;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::tensor::store::PackedForm;
use crate::threading::partition::Workers;

/// Channels per block: three rows of a usual image stay in the L1 cache.
const BLOCK: usize = 2 * GROUP;

/// The most bytes of a band of rows.
const BAND: usize = 256 << 10;

/// How many outputs of a row go through the epilogue together.
const OUTPUTS: usize = 16;

/// How many outputs are computed together, to hide the latency of additions.
const TOGETHER: usize = 4;

/// A planned convolution.
pub(crate) struct ChannelsLast {
    shape: Shape,
    x: Planes,
    w: Planes,
    y: Planes,
    x_is_signed: bool,
    w_is_signed: bool,
    stages: Stages,
    output: DataType,
    kind: Kind,
    isa: Isa,
    /// Rows of the output in a band, and bands of an image.
    rows: usize,
    bands: usize,
    /// Columns of the padded image that windows reach.
    columns: usize,
    /// The row and the column of each element of a window.
    taps: Vec<[usize; 2]>,
    workers: Workers,
    filters: Prepacked<f32>,
}

/// The parameters of a run.
struct Run<'a> {
    tensors: Tensors<'a>,
    columns: Columns,
    numbers: Requantization,
    post_ops: &'a [Option<BoundPostOp<'a>>],
    zero: f32,
}

impl ChannelsLast {
    /// Plans a convolution with its epilogue.
    pub(crate) fn plan(
        c: &Convolution,
        stages: Stages,
        isa: Isa,
        settings: Settings,
    ) -> Result<Self, Refusal> {
        let shape = shape_of(c)?;
        let (x, y) = (Planes::of(&c.x, c.spatial), Planes::of(&c.y, c.spatial));
        if x.channel != 1 || y.channel != 1 || shape.multiplier != 1 {
            return Err("channels are not contiguous".to_owned());
        }
        let reach = |i: usize| (shape.window[i] - 1) * shape.dilation[i] + 1;
        let columns = (shape.output[1] - 1) * shape.stride[1] + reach(1);
        let most = BAND / (columns * BLOCK * size_of::<f32>());
        let rows = (most.saturating_sub(reach(0)) / shape.stride[0] + 1).min(shape.output[0]);
        let taps: Vec<[usize; 2]> = (0..shape.taps())
            .map(|tap| [tap / shape.window[1] * shape.dilation[0], tap % shape.window[1] * shape.dilation[1]])
            .collect();
        // Half the time of one channel at a time.
        let time = time(&shape) / 2.0;
        let blocks = shape.channels.div_ceil(BLOCK);
        // With few images, a band per worker.
        let wanted = settings.threads.workers(time, usize::MAX).count();
        let least = wanted.div_ceil(shape.batch * blocks).min(shape.output[0]);
        let rows = rows.min(shape.output[0].div_ceil(least));
        let bands = shape.output[0].div_ceil(rows);
        let filters = shape.channels.next_multiple_of(GROUP) * taps.len();
        let (w, w_is_signed) = (Planes::of(&c.w, c.spatial), signed(c.w.data_type)?);
        let form = settings.shares_weights.then(|| {
            let form = PackedForm::new("depthwise-int8", 0).and([
                shape.channels,
                usize::from(w_is_signed),
                w.at(1, 0),
            ]);
            form.and((0..taps.len()).map(|tap| w.tap(&shape, tap)))
        });
        Ok(Self {
            x,
            w,
            y,
            x_is_signed: signed(c.x.data_type)?,
            w_is_signed,
            kind: kind_of(&stages, c.y.data_type)?,
            stages,
            output: c.y.data_type,
            isa,
            rows,
            bands,
            columns,
            taps,
            workers: settings.threads.workers(time, shape.batch * bands * blocks),
            filters: Prepacked::new(filters, settings.constant_weights, form),
            shape,
        })
    }

    /// Channels in whole groups.
    fn channels(&self) -> usize {
        self.shape.channels.next_multiple_of(GROUP)
    }

    /// The most rows of the padded image that a band reads.
    fn image_rows(&self) -> usize {
        (self.rows - 1) * self.shape.stride[0] + (self.shape.window[0] - 1) * self.shape.dilation[0] + 1
    }

    /// Areas of the scratch memory: parameters, filters, and for each worker a band of the image and sums.
    fn areas(&self, scratch: &mut Scratch) -> [usize; 4] {
        let workers = self.workers.count();
        [
            scratch.area::<i32>(self.channels(), Columns::kinds(self.stages.rounds().count())),
            scratch.area::<f32>(self.channels() * self.taps.len(), 1),
            scratch.area::<f32>(self.image_rows() * self.columns * BLOCK, workers),
            scratch.area::<i32>(OUTPUTS * BLOCK, workers),
        ]
    }

    /// Writes the filters of all channels, group after group, minus their zero points if `zeros` is given.
    ///
    /// # Safety
    /// `weights` are those of the operation, and `to` has room for the filters of whole groups of channels.
    unsafe fn pack(&self, weights: *const u8, zeros: Option<&[*mut u8]>, to: *mut f32) {
        let taps = self.taps.len();
        for channel in 0..self.channels() {
            let is_there = channel < self.shape.channels;
            // SAFETY: the tensors are those of the operation, as this function requires.
            let zero = zeros.filter(|_| is_there).map_or(0, |of| unsafe { self.stages.w_zero(of, channel) });
            for tap in 0..taps {
                let place = self.w.tap(&self.shape, tap);
                // SAFETY: the weights have the channel's elements, and there is room for every channel of a group.
                unsafe {
                    let byte = if is_there { weights.add(self.w.at(channel, 0) + place).read() } else { 0 };
                    let value =
                        if self.w_is_signed { i32::from(byte.cast_signed()) } else { i32::from(byte) };
                    let place = (channel / GROUP * taps + tap) * GROUP + channel % GROUP;
                    to.add(place).write((value - zero) as f32);
                }
            }
        }
    }

    /// The filters of all channels.
    ///
    /// # Safety
    /// The tensors are those of the operation, and `scratch` has room for the filters.
    unsafe fn filters(&self, tensors: &[*mut u8], scratch: *mut f32) -> *const f32 {
        let weights = tensors[self.w.slot];
        // SAFETY: the tensors are those of the operation, and there is room for the filters.
        unsafe {
            // Zero points may change, unlike weights.
            if (0..self.shape.channels).any(|channel| self.stages.w_zero(tensors, channel) != 0) {
                self.pack(weights, Some(tensors), scratch);
                return scratch;
            }
            let pack = |to| {
                self.pack(weights, None, to);
                false
            };
            self.filters.get(weights, scratch, pack).0
        }
    }
}

impl Kernel for ChannelsLast {
    fn facts(&self) -> Facts {
        Facts::new(NAME, self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.areas(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let [numbers, filters, image, sums] = self.areas(&mut Scratch::default());
        let shape = &self.shape;
        let (channels, rounds) = (self.channels(), self.stages.rounds().count());
        let columns =
            Columns::of_area(scratch.wrapping_add(numbers).cast(), Scratch::padded::<i32>(channels));
        // SAFETY: the tensors are those of the operation; all channels' parameters and filters have room.
        let (first, post_ops, zero, filters) = unsafe {
            columns.write_numbers(&self.stages, tensors, 0..shape.channels);
            columns.clear(rounds, shape.channels, channels);
            let (mut first, mut post_ops) = self.stages.numbers(self.output, tensors);
            self.stages.fold((&mut first, &mut post_ops), columns, channels);
            let filters = self.filters(tensors, scratch.wrapping_add(filters).cast());
            (first, post_ops, self.stages.x_zero(tensors), filters)
        };
        let run = Run {
            tensors: Tensors(tensors),
            columns,
            numbers: first,
            post_ops: &post_ops,
            zero: zero as f32,
        };
        let base = Shared([scratch, filters.cast_mut().cast()]);
        let blocks = shape.channels.div_ceil(BLOCK);
        self.workers.for_each_part(shape.batch * self.bands * blocks, |worker, part| {
            let (band, block) = (part / blocks, part % blocks);
            let (batch, band) = (band / self.bands, band % self.bands);
            let [channel, row] = [block * BLOCK, band * self.rows];
            let taps = self.taps.len();
            let task = Band {
                of: self,
                run: &run,
                batch,
                rows: [row, (row + self.rows).min(shape.output[0])],
                channels: [channel, (channel + BLOCK).min(shape.channels)],
                filters: base.get(1).cast::<f32>().wrapping_add(channel * taps),
                image: Scratch::of_worker(
                    base.get(0),
                    image,
                    worker,
                    self.image_rows() * self.columns * BLOCK,
                ),
                sums: Scratch::of_worker(base.get(0), sums, worker, OUTPUTS * BLOCK),
            };
            // SAFETY: the processor has the instructions; image and sums are the worker's, results the
            // part's.
            unsafe { vector16::run_at(self.isa, task) };
        });
    }
}

/// Some rows of a block of channels.
struct Band<'r, 'a> {
    of: &'r ChannelsLast,
    run: &'r Run<'a>,
    batch: usize,
    rows: [usize; 2],
    channels: [usize; 2],
    filters: *const f32,
    image: *mut f32,
    sums: *mut i32,
}

impl Vector16Task for Band<'_, '_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Vector16>(self) {
        let shape = &self.of.shape;
        let [first, last] = self.rows;
        let count = (last - first - 1) * shape.stride[0] + (shape.window[0] - 1) * shape.dilation[0] + 1;
        for row in 0..count {
            // SAFETY: the processor has the instructions, and the band this row.
            unsafe { self.copy::<S>(row) };
        }
        for row in first..last {
            for at in (0..shape.output[1]).step_by(OUTPUTS) {
                let outputs = (shape.output[1] - at).min(OUTPUTS);
                // SAFETY: the band was copied, the sums have room for the outputs, and the processor has the instructions.
                unsafe {
                    self.sums::<S>(row - first, [at, outputs]);
                    self.finish(row, [at, outputs]);
                }
            }
        }
    }
}

impl Band<'_, '_> {
    /// Channels in whole groups.
    fn width(&self) -> usize {
        (self.channels[1] - self.channels[0]).next_multiple_of(GROUP)
    }

    /// Copies a row of the band with its padding.
    ///
    /// # Safety
    /// The processor has the instructions; the image is readable, and the row one of the band.
    #[inline(always)]
    unsafe fn copy<S: Vector16>(&self, row: usize) {
        let ChannelsLast { shape, x, columns, x_is_signed, .. } = self.of;
        let (width, channels) = (self.width(), self.channels[1] - self.channels[0]);
        let to = self.image.wrapping_add(row * columns * width);
        let row = (self.rows[0] * shape.stride[0] + row) as isize - shape.padding[0];
        let first = shape.padding[1].clamp(0, *columns as isize) as usize;
        let last =
            (shape.input[1] as isize + shape.padding[1]).clamp(first as isize, *columns as isize) as usize;
        let (first, last) = if (0..shape.input[0] as isize).contains(&row) { (first, last) } else { (0, 0) };
        // SAFETY: the image has `columns` columns of `width` bytes in each row, and `first` and `last` are at most
        // `columns`.
        unsafe {
            to.write_bytes(0, first * width);
            to.add(last * width).write_bytes(0, (columns - last) * width);
        }
        let from = self.run.tensors.all()[x.slot].wrapping_add(x.at(self.batch, self.channels[0]));
        let from = from.wrapping_offset(row.wrapping_mul(x.strides[0] as isize));
        for column in first..last {
            let from = from.wrapping_add((column as isize - shape.padding[1]) as usize * x.strides[1]);
            for group in (0..width).step_by(GROUP) {
                // SAFETY: the image has the channels in this column, and there is room for a group of them.
                unsafe {
                    let count = (channels - group).min(GROUP);
                    let mut bytes = [0; GROUP];
                    match count == GROUP {
                        true => bytes = from.add(group).cast::<[u8; GROUP]>().read(),
                        false => bytes.as_mut_ptr().copy_from_nonoverlapping(from.add(group), count),
                    }
                    let ints =
                        if *x_is_signed { S::signed(bytes.as_ptr()) } else { S::unsigned(bytes.as_ptr()) };
                    let values = S::minus(S::of_ints(ints), S::floats(self.run.zero));
                    S::store_floats(values, to.add(column * width + group));
                }
            }
        }
    }

    /// The sums of some outputs in a row of the band.
    ///
    /// # Safety
    /// The processor has the instructions, the band was copied, and there is room for the sums.
    #[inline(always)]
    unsafe fn sums<S: Vector16>(&self, row: usize, [first, outputs]: [usize; 2]) {
        for group in (0..self.width()).step_by(GROUP) {
            let mut at = 0;
            while at < outputs {
                // SAFETY: the outputs are in the row. The last ones may be computed twice, rather than one by
                // one.
                unsafe {
                    if outputs < TOGETHER {
                        self.outputs::<S, 1>(row, first, at, group);
                        at += 1;
                    } else {
                        at = at.min(outputs - TOGETHER);
                        self.outputs::<S, TOGETHER>(row, first, at, group);
                        at += TOGETHER;
                    }
                }
            }
        }
    }

    /// The sums of neighbouring outputs for a group of channels.
    ///
    /// # Safety
    /// As [`Band::sums`], for existing outputs and an existing group.
    #[inline(always)]
    unsafe fn outputs<S: Vector16, const COUNT: usize>(
        &self,
        row: usize,
        first: usize,
        at: usize,
        group: usize,
    ) {
        let ChannelsLast { shape, columns, taps, .. } = self.of;
        let width = self.width();
        let next = shape.stride[1] * width;
        let from = self.image.wrapping_add(row * shape.stride[0] * columns * width);
        let from = from.wrapping_add((first + at) * next + group);
        let filter = self.filters.wrapping_add(group * taps.len());
        // SAFETY: the band has the windows of the outputs, and there is room for their sums.
        unsafe {
            let mut sums = [S::floats(0.0); COUNT];
            for (tap, [row, column]) in taps.iter().enumerate() {
                let weight = S::load_floats(filter.add(tap * GROUP));
                let from = from.add((row * columns + column) * width);
                for (output, sum) in sums.iter_mut().enumerate() {
                    let value = S::load_floats(from.add(output * next));
                    *sum = match S::IS_FUSED {
                        true => S::fused(value, weight, *sum),
                        false => S::plus(*sum, S::times(value, weight)),
                    };
                }
            }
            for (output, sum) in sums.into_iter().enumerate() {
                S::store(S::truncate(sum), self.sums.add((at + output) * width + group));
            }
        }
    }

    /// The epilogue of some outputs in a row of the image.
    ///
    /// # Safety
    /// Their sums were computed, the tensors are those of the operation, and the processor has the
    /// instructions.
    unsafe fn finish(&self, row: usize, [first, outputs]: [usize; 2]) {
        let (of, tensors) = (self.of, self.run.tensors.all());
        let size = of.output.size().unwrap_or(1);
        let channel = self.channels[0];
        let y = of.y.at(self.batch, channel) + row * of.y.strides[0];
        let to: [*mut u8; OUTPUTS] = array::from_fn(|output| {
            tensors[of.y.slot].wrapping_add((y + (first + output) * of.y.strides[1]) * size)
        });
        let mut rows = [std::ptr::null(); OUTPUTS];
        let residual = of.stages.residual();
        let added = residual.as_ref().map(|residual| {
            let planes = Planes::of_strides(residual.slot, &residual.strides, of.shape.spatial);
            let size = residual.data_type.size().unwrap_or(1);
            let place = planes.at(self.batch, channel) + row * planes.strides[0];
            for (output, from) in rows.iter_mut().enumerate() {
                let at = place + (first + output) * planes.strides[1];
                *from = tensors[planes.slot].wrapping_add(at * size).cast_const();
            }
            Added { data_type: residual.data_type, rows: &rows, column: planes.channel }
        });
        let tile = Tile {
            sums: self.sums,
            stride: self.width(),
            columns: self.channels[1] - channel,
            to: &to[..outputs],
            row_sums: std::ptr::null(),
            of_columns: self.run.columns.from(channel),
            is_one: false,
            has_bias: of.stages.bias.is_some(),
            numbers: &self.run.numbers,
            post_ops: self.run.post_ops,
            added,
            kind: of.kind,
        };
        // Not with the operations at hand: code that is in line in two places would be so in neither.
        // SAFETY: the processor has the instructions; sums, results and residual have the outputs with their
        // channels.
        unsafe { tile.run(of.isa) };
    }
}
