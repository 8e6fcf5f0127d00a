//! Depthwise int8 convolutions: each output depends on one channel.
//!
//! Single precision holds the sums exactly, since they stay below 2²⁴. A channel of the image is copied with
//! padding and minus its zero point, so that windows have no edges; with a stride over columns, columns of
//! each remainder are contiguous. The epilogue is that of other products, with rows of a channel instead of
//! columns.

use hipdnn_plugin_sdk::graph::DataType;

use crate::depthwise::shape::{SPATIAL, Shape};
use crate::gemm::byte_tile::GROUP;
use crate::int8::epilogue::{Columns, MAX_POST_OPS, Stages};
use crate::int8::plan::kind_of;
use crate::int8::problem::signed;
use crate::int8::requantization::{BoundPostOp, Requantization};
use crate::int8::store::{Added, Kind, Tile};
use crate::int8::vector16::{self, Vector16, Vector16Task};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::Settings;
use crate::simd::array;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::tensor::image::two;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::Workers;

/// The name of the algorithm.
pub(crate) const NAME: &str = "depthwise-int8";

/// The most elements of a window whose products of byte differences stay below 2²⁴.
const MOST_TAPS: usize = 256;

/// How many rows of sums go through the epilogue together.
const ROWS: usize = 16;

/// How many rows are computed together, to hide the latency of additions.
const TOGETHER: usize = 4;

/// The kinds of parameters per channel.
const NUMBERS: usize = Columns::kinds(MAX_POST_OPS);

/// Estimated nanoseconds per element of the input and of the output, and per element of its window.
const INPUT: f64 = 0.2;
const OUTPUT: f64 = 0.5;
const TAP: f64 = 0.1;

/// The layout of a tensor's channels.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    pub(super) slot: usize,
    image: usize,
    pub(super) channel: usize,
    /// Strides of rows and columns.
    pub(super) strides: [usize; 2],
}

impl Planes {
    pub(super) fn of(operand: &Operand, spatial: usize) -> Self {
        Self::of_strides(operand.slot, operand.layout.strides(), spatial)
    }

    pub(super) fn of_strides(slot: usize, strides: &[usize], spatial: usize) -> Self {
        Self { slot, image: strides[0], channel: strides[1], strides: two(spatial, 0, &strides[2..]) }
    }

    pub(super) fn at(&self, image: usize, channel: usize) -> usize {
        image * self.image + channel * self.channel
    }

    /// The offset of an element of a channel's filter, in the order in which windows meet them.
    pub(super) fn tap(&self, shape: &Shape, tap: usize) -> usize {
        let ([rows, columns], taps) = (shape.window, shape.taps());
        let at = if shape.mirrored { taps - 1 - tap } else { tap };
        (at / columns % rows) * self.strides[0] + (at % columns) * self.strides[1]
    }
}

/// The shape of a convolution; fails if it is of another kind.
pub(super) fn shape_of(c: &Convolution) -> Result<Shape, Refusal> {
    if c.direction != Direction::Forward || c.in_channels != 1 || c.spatial > SPATIAL {
        return Err("expected a depthwise convolution of images".to_owned());
    }
    let shape = Shape::of(c);
    match shape.taps() {
        ..=MOST_TAPS => Ok(shape),
        taps => Err(format!("{taps} elements of a window, expected at most {MOST_TAPS}")),
    }
}

/// Estimated nanoseconds on one thread, a channel at a time.
pub(super) fn time(shape: &Shape) -> f64 {
    let planes = (shape.batch * shape.channels) as f64;
    let [inputs, outputs] = [shape.input, shape.output].each(|[rows, columns]| (rows * columns) as f64);
    planes * (inputs * INPUT + outputs * (OUTPUT + TAP * shape.taps() as f64))
}

/// A planned depthwise convolution.
pub(crate) struct Depthwise {
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
    /// Rows of the padded image, and the row's elements for each remainder.
    rows: usize,
    length: usize,
    /// The offsets of a window's elements from its first.
    taps: Vec<usize>,
    workers: Workers,
}

impl Depthwise {
    /// Plans a convolution with its epilogue.
    pub(crate) fn plan(
        c: &Convolution,
        stages: Stages,
        isa: Isa,
        settings: Settings,
    ) -> Result<Self, Refusal> {
        let shape = shape_of(c)?;
        let kind = kind_of(&stages, c.y.data_type)?;
        let step = shape.stride[1];
        let y = Planes::of(&c.y, c.spatial);
        let reach = |i: usize| (shape.window[i] - 1) * shape.dilation[i];
        let rows = (shape.output[0] - 1) * shape.stride[0] + reach(0) + 1;
        let length = shape.output[1].next_multiple_of(GROUP) + reach(1) / step + 1;
        let mut taps = Vec::with_capacity(shape.taps());
        for row in 0..shape.window[0] {
            for column in (0..shape.window[1]).map(|column| column * shape.dilation[1]) {
                taps.push((row * shape.dilation[0] * step + column % step) * length + column / step);
            }
        }
        let time = time(&shape);
        Ok(Self {
            shape,
            x: Planes::of(&c.x, c.spatial),
            w: Planes::of(&c.w, c.spatial),
            y,
            x_is_signed: signed(c.x.data_type)?,
            w_is_signed: signed(c.w.data_type)?,
            stages,
            output: c.y.data_type,
            kind,
            isa,
            rows,
            length,
            taps,
            workers: settings.threads.workers(time, shape.batch * shape.channels),
        })
    }

    /// Areas of the scratch memory: parameters of channels, and for each worker a padded image, sums, and
    /// results whose columns are not contiguous in the output.
    fn areas(&self, scratch: &mut Scratch) -> [usize; 4] {
        let workers = self.workers.count();
        [
            scratch.area::<i32>(self.shape.channels, NUMBERS),
            scratch.area::<f32>(self.image(), workers),
            scratch.area::<i32>(self.sums(), workers),
            scratch.area::<u8>(self.results(), workers),
        ]
    }

    /// Elements of a padded image, with an extra group for the last vectors.
    fn image(&self) -> usize {
        self.rows * self.shape.stride[1] * self.length + GROUP
    }

    /// Sums of a channel, in whole groups per row.
    fn sums(&self) -> usize {
        self.shape.output[0] * self.shape.output[1].next_multiple_of(GROUP)
    }

    /// Bytes of results whose columns are not contiguous in the tensor.
    fn results(&self) -> usize {
        let is_straight = self.y.strides[1] == 1 || self.shape.output[1] == 1;
        if is_straight { 0 } else { ROWS * self.shape.output[1].next_multiple_of(GROUP) * self.size() }
    }

    /// Bytes per result.
    fn size(&self) -> usize {
        self.output.size().unwrap_or(1)
    }

    /// The filter of a channel, minus its zero point.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    unsafe fn filter(&self, tensors: &[*mut u8], channel: usize) -> [f32; MOST_TAPS] {
        let mut filter = [0.0; MOST_TAPS];
        // SAFETY: the tensors are those of the operation, as this function requires.
        let zero = unsafe { self.stages.w_zero(tensors, channel) };
        for (at, tap) in filter.iter_mut().enumerate().take(self.taps.len()) {
            let place = self.w.tap(&self.shape, at);
            // SAFETY: `place` is that of a tap of this channel, which the weights among the operation's tensors have.
            let byte = unsafe { tensors[self.w.slot].add(self.w.at(channel, 0) + place).read() };
            let value = if self.w_is_signed { i32::from(byte.cast_signed()) } else { i32::from(byte) };
            *tap = (value - zero) as f32;
        }
        filter
    }
}

impl Kernel for Depthwise {
    fn facts(&self) -> Facts {
        Facts::new(NAME, self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.areas(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let [numbers, image, sums, results] = self.areas(&mut Scratch::default());
        let shape = &self.shape;
        let between = Scratch::padded::<i32>(shape.channels);
        let all = Columns::of_area(scratch.wrapping_add(numbers).cast(), between);
        // SAFETY: the tensors are those of the operation; the area has room for all channels' parameters.
        let (first, post_ops, zero) = unsafe {
            all.write_numbers(&self.stages, tensors, 0..shape.channels);
            let (mut first, mut post_ops) = self.stages.numbers(self.output, tensors);
            self.stages.fold((&mut first, &mut post_ops), all, shape.channels);
            (first, post_ops, self.stages.x_zero(tensors))
        };
        let (shared, base) = (Tensors(tensors), Shared([scratch]));
        self.workers.for_each_part(shape.batch * shape.channels, |worker, part| {
            let (batch, channel) = (part / shape.channels, part % shape.channels);
            let tensors = shared.all();
            let x = self.x.at(batch, channel / shape.multiplier);
            let task = Channel {
                of: self,
                from: tensors[self.x.slot].wrapping_add(x).cast_const(),
                zero: zero as f32,
                // SAFETY: the tensors are those of the operation.
                filter: unsafe { self.filter(tensors, channel) },
                image: Scratch::of_worker(base.get(0), image, worker, self.image()),
                sums: Scratch::of_worker(base.get(0), sums, worker, self.sums()),
            };
            let mut own = [[0; GROUP]; NUMBERS];
            // SAFETY: the channel's parameters are written; image and sums are the worker's, results the
            // part's.
            unsafe {
                all.from(channel).spread(self.stages.rounds().count(), &mut own);
                let columns = Columns::of_area(own.as_mut_ptr().cast(), GROUP);
                vector16::run_at(self.isa, task);
                let own = Scratch::of_worker(base.get(0), results, worker, self.results());
                self.finish(tensors, (batch, channel), (task.sums, own), columns, (&first, &post_ops));
            }
        });
    }
}

impl Depthwise {
    /// The epilogue of a channel.
    ///
    /// # Safety
    /// The sums are those of the channel, the tensors those of the operation, and the worker has room for its results.
    unsafe fn finish(
        &self,
        tensors: &[*mut u8],
        (image, channel): (usize, usize),
        (sums, results): (*const i32, *mut u8),
        of_columns: Columns,
        (numbers, post_ops): (&Requantization, &[Option<BoundPostOp<'_>>]),
    ) {
        let [rows, columns] = self.shape.output;
        let stride = columns.next_multiple_of(GROUP);
        let (size, is_straight) = (self.size(), self.results() == 0);
        let residual = self.stages.residual();
        for first in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - first);
            let y = |row: usize, column: usize| {
                let at = self.y.at(image, channel) + (first + row) * self.y.strides[0];
                tensors[self.y.slot].wrapping_add((at + column * self.y.strides[1]) * size)
            };
            let to: [*mut u8; ROWS] = array::from_fn(|row| match is_straight {
                true => y(row, 0),
                false => results.wrapping_add(row * stride * size),
            });
            let mut added_rows = [std::ptr::null(); ROWS];
            let added = residual.as_ref().map(|residual| {
                let planes = Planes::of_strides(residual.slot, &residual.strides, self.shape.spatial);
                for (row, from) in added_rows.iter_mut().enumerate() {
                    let at = planes.at(image, channel) + (first + row) * planes.strides[0];
                    let size = residual.data_type.size().unwrap_or(1);
                    *from = tensors[planes.slot].wrapping_add(at * size).cast_const();
                }
                Added { data_type: residual.data_type, rows: &added_rows, column: planes.strides[1] }
            });
            let tile = Tile {
                sums: sums.wrapping_add(first * stride),
                stride,
                columns,
                to: &to[..count],
                row_sums: std::ptr::null(),
                of_columns,
                is_one: true,
                has_bias: self.stages.bias.is_some(),
                numbers,
                post_ops,
                added,
                kind: self.kind,
            };
            // SAFETY: the processor has the instructions; sums, results and residual have the rows and
            // columns.
            unsafe { tile.run(self.isa) };
            for (row, from) in to.iter().enumerate().take(if is_straight { 0 } else { count }) {
                for column in 0..columns {
                    // SAFETY: the row was computed, and the tensor has its columns.
                    unsafe { y(row, column).copy_from_nonoverlapping(from.add(column * size), size) };
                }
            }
        }
    }
}

/// The sums of a channel.
#[derive(Clone, Copy)]
struct Channel<'a> {
    of: &'a Depthwise,
    from: *const u8,
    zero: f32,
    filter: [f32; MOST_TAPS],
    image: *mut f32,
    sums: *mut i32,
}

impl Vector16Task for Channel<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Vector16>(self) {
        let of = self.of;
        for row in 0..of.rows {
            // SAFETY: the processor has the instructions, and the image this row, as this function requires.
            unsafe { self.copy::<S>(row) };
        }
        let [rows, columns] = of.shape.output;
        for first in (0..rows).step_by(TOGETHER) {
            for at in (0..columns).step_by(GROUP) {
                // SAFETY: the image was copied, the sums have room for the rows, and the processor has the instructions.
                unsafe {
                    if rows - first >= TOGETHER {
                        self.rows::<S, TOGETHER>(first, at);
                    } else {
                        (first..rows).for_each(|row| self.rows::<S, 1>(row, at));
                    }
                }
            }
        }
    }
}

impl Channel<'_> {
    /// Copies a row of the image with its padding.
    ///
    /// # Safety
    /// The processor has the instructions; the channel is readable, and the row one of the padded image.
    #[inline(always)]
    unsafe fn copy<S: Vector16>(&self, row: usize) {
        let Channel { of, from, zero, image, .. } = *self;
        let Depthwise { shape, x, length, x_is_signed, .. } = of;
        let step = shape.stride[1];
        let to = image.wrapping_add(row * step * length);
        let row = row as isize - shape.padding[0];
        // SAFETY: the padded image has `stride` rows of `length` bytes for each `row`, which this function requires to be
        // one of its own.
        unsafe { to.write_bytes(0, step * length) };
        if row < 0 || row >= shape.input[0] as isize {
            return;
        }
        // Elements dropped here are beyond the last window.
        let padding = shape.padding[1].max(0) as usize;
        let skipped = ((-shape.padding[1]).max(0) as usize).min(shape.input[1]);
        let count = (shape.input[1] - skipped).min((step * length).saturating_sub(padding));
        let from = from.wrapping_add(row as usize * x.strides[0] + skipped * x.strides[1]);
        let mut at = 0;
        while step == 1 && x.strides[1] == 1 && at + GROUP <= count {
            // SAFETY: the image has an extra group of elements in this row, and there is room for it.
            unsafe {
                let bytes = if *x_is_signed { S::signed(from.add(at)) } else { S::unsigned(from.add(at)) };
                S::store_floats(S::minus(S::of_ints(bytes), S::floats(zero)), to.add(padding + at));
            }
            at += GROUP;
        }
        let (mut line, mut place) = ((padding + at) % step, (padding + at) / step);
        for at in at..count {
            // SAFETY: the image has the element in this row, and there is room for it.
            unsafe {
                let byte = from.add(at * x.strides[1]).read();
                let value = if *x_is_signed { f32::from(byte.cast_signed()) } else { f32::from(byte) };
                to.add(line * length + place).write(value - zero);
            }
            line += 1;
            if line == step {
                (line, place) = (0, place + 1);
            }
        }
    }

    /// A group of columns of some rows.
    ///
    /// # Safety
    /// The processor has the instructions, the image was copied, and there is room for the rows' sums.
    #[inline(always)]
    unsafe fn rows<S: Vector16, const ROWS: usize>(&self, first: usize, at: usize) {
        let Channel { of, ref filter, image, sums, .. } = *self;
        let next = of.shape.stride[0] * of.shape.stride[1] * of.length;
        let stride = of.shape.output[1].next_multiple_of(GROUP);
        let from = image.wrapping_add(first * next + at);
        // SAFETY: the image has the windows of the rows, and there is room for whole groups of sums.
        unsafe {
            let mut of_rows = [S::floats(0.0); ROWS];
            for (tap, weight) in of.taps.iter().zip(filter) {
                let weight = S::floats(*weight);
                for (row, sum) in of_rows.iter_mut().enumerate() {
                    *sum = S::plus(*sum, S::times(S::load_floats(from.add(row * next + tap)), weight));
                }
            }
            for (row, sum) in of_rows.into_iter().enumerate() {
                S::store(S::truncate(sum), sums.add((first + row) * stride + at));
            }
        }
    }
}
