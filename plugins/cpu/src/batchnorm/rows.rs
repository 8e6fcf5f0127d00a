//! Channels last: each worker has its own rows.

use crate::batchnorm::channel::BUFFER;
use crate::batchnorm::loops;
use crate::batchnorm::parameters::{Parameters, Role};
use crate::batchnorm::shape::Shape;
use crate::kernel::{Facts, Kernel};
use crate::pointwise::NEAR;
use crate::simd::array::Each;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::loop_nest::Elements;
use crate::tensor::moments::Moments;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::tensor::view::Pointers;
use crate::threading::partition::Workers;

/// How many rows are summed in the compute type before they are added in double precision.
const EXACT_ROWS: usize = 256;

/// A batch normalization computed row by row.
pub(crate) struct ChannelsLast<T> {
    shape: Shape<T>,
    parameters: Parameters<T>,
    rows: usize,
    workers: Workers,
}

/// What a pass over the rows does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Sums x.
    Sum,
    /// Sums deviations from the mean, and their squares.
    Deviations,
    /// Sums dy, and its products with the deviations.
    Gradients,
    /// Computes y.
    Scale,
    /// Computes dx.
    Gradient,
}

/// The scratch memory of a run.
pub(crate) struct ScratchLayout<T> {
    /// Two sums per channel for each worker, each kind contiguous.
    totals: *mut f64,
    /// Four values per channel, likewise: first the mean, then what the last pass needs.
    values: *mut T,
}

impl<T: Float> ChannelsLast<T> {
    pub(crate) fn plan(shape: Shape<T>, parameters: Parameters<T>) -> Self {
        let rows = shape.nest.runs() * shape.nest.len;
        let work = match parameters.role() {
            Role::Inference => shape.work(Role::Inference),
            role => shape.work_of_sums(role),
        };
        let workers = shape.threads.workers_for_reduction(work, rows.div_ceil(8));
        Self { shape, parameters, rows, workers }
    }

    fn layout(&self, scratch: &mut Scratch) -> (usize, usize) {
        (
            scratch.area::<f64>(2 * self.shape.channels, self.workers.count()),
            scratch.area::<T>(4 * self.shape.channels, 1),
        )
    }

    /// Runs a pass on all workers.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn pass(&self, pass: Pass, tensors: &[*mut u8], scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of a run.
        unsafe { self.pass_with(pass, false, tensors, scratch) }
    }

    /// Runs a pass; `wide` sums in double precision, if sums would exceed the compute type's range.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn pass_with(&self, pass: Pass, wide: bool, tensors: &[*mut u8], scratch: *mut u8) {
        let shared = (Tensors(tensors), Shared([scratch]));
        self.workers.run(|worker| {
            let rows = self.workers.share(worker, self.rows);
            // SAFETY: the processor supports the instruction set; each worker has its own rows and its own sums.
            unsafe {
                let areas = self.areas(shared.1.get(0), worker);
                let tensors = shared.0.all();
                self.shape.isa.run_vectors(Task { by: self, pass, wide, tensors, rows, areas });
            }
        });
    }

    /// # Safety
    /// `scratch` is the scratch memory, which has the worker.
    unsafe fn areas(&self, scratch: *mut u8, worker: usize) -> ScratchLayout<T> {
        let (totals, values) = self.layout(&mut Scratch::default());
        let worker = worker * Scratch::padded::<f64>(2 * self.shape.channels);
        // SAFETY: the offsets are inside the scratch memory.
        unsafe {
            ScratchLayout {
                totals: scratch.add(totals).cast::<f64>().add(worker),
                values: scratch.add(values).cast(),
            }
        }
    }

    /// The two sums of a channel over all workers.
    ///
    /// # Safety
    /// Every worker has written its two sums of the channel to its area of `scratch`, and no worker writes them any more.
    unsafe fn sums(&self, scratch: *mut u8, channel: usize) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for worker in 0..self.workers.count() {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the sums are valid, as this function requires.
                *sum += unsafe {
                    self.areas(scratch, worker).totals.add(i * self.shape.channels + channel).read()
                };
            }
        }
        sums
    }

    /// Calls `each` with every channel and its two sums, and writes the values that it returns.
    ///
    /// # Safety
    /// Every worker has written its sums to its area of `scratch`, and only this thread uses the area of the first.
    unsafe fn finish<const N: usize>(&self, scratch: *mut u8, each: impl Fn(usize, [f64; 2]) -> [T; N]) {
        for channel in 0..self.shape.channels {
            // SAFETY: the sums are valid, as this function requires; there are four values a channel.
            unsafe {
                let values = self.areas(scratch, 0).values;
                for (i, value) in each(channel, self.sums(scratch, channel)).into_iter().enumerate() {
                    values.add(i * self.shape.channels + channel).write(value);
                }
            }
        }
    }
}

impl<T: Float> Kernel for ChannelsLast<T> {
    fn facts(&self) -> Facts {
        Facts::new("channels last", self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (n, channels) = (self.shape.elements, self.shape.channels);
        let parameters = &self.parameters;
        // SAFETY: this function requires the scratch memory, which has an area for each worker.
        let values = unsafe { self.areas(scratch, 0) }.values;
        let moments = |channel: usize, [sum, squares]: [f64; 2]| Moments {
            // SAFETY: there are four values a channel, of which the first pass has written the first.
            about: unsafe { values.add(channel).read() }.to_f64(),
            sum,
            squares,
        };
        if parameters.wants_moments() {
            // SAFETY: this function requires the tensors and the memory; each pass reads the previous one's
            // results.
            unsafe {
                self.pass(Pass::Sum, tensors, scratch);
                self.finish(scratch, |_, [sum, _]| [T::from_f64(sum / n)]);
                self.pass(Pass::Deviations, tensors, scratch);
                let epsilon = parameters.epsilon(Pointers::new(tensors));
                let are_held =
                    |channel| moments(channel, self.sums(scratch, channel)).are_held::<T>(n, epsilon);
                if !(0..channels).all(are_held) {
                    self.pass_with(Pass::Sum, true, tensors, scratch);
                    self.finish(scratch, |_, [sum, _]| [T::from_f64(sum / n)]);
                    self.pass_with(Pass::Deviations, true, tensors, scratch);
                }
            }
        }
        match parameters.role() {
            Role::Inference => {
                for channel in 0..channels {
                    // SAFETY: the parameters have the channel, and there are four values for it.
                    unsafe {
                        let by = parameters.affine(tensors, channel, &Moments::default(), n);
                        for (i, value) in by.into_iter().enumerate() {
                            values.add(i * channels + channel).write(value);
                        }
                    }
                }
                // SAFETY: the values of all channels are written.
                unsafe { self.pass(Pass::Scale, tensors, scratch) };
            }
            // SAFETY: the sums of all channels are there, and then their values.
            Role::Training => unsafe {
                self.finish(scratch, |channel, sums| {
                    parameters.affine(tensors, channel, &moments(channel, sums), n)
                });
                self.pass(Pass::Scale, tensors, scratch);
            },
            Role::Backward { saved } => {
                for channel in 0..channels {
                    // SAFETY: the sums of the channel are there unless its statistics are saved, and there are four values for it.
                    unsafe {
                        let moments = if saved {
                            Moments::default()
                        } else {
                            moments(channel, self.sums(scratch, channel))
                        };
                        let [mean, inv] = parameters.saved_or_computed(tensors, channel, &moments, n);
                        values.add(channel).write(mean);
                        values.add(channels + channel).write(inv);
                    }
                }
                // SAFETY: the statistics of all channels are written; each pass reads the previous one's
                // results.
                unsafe {
                    self.pass(Pass::Gradients, tensors, scratch);
                    let are_finite = |channel| self.sums(scratch, channel).iter().all(|sum| sum.is_finite());
                    if !(0..channels).all(are_finite) {
                        self.pass_with(Pass::Gradients, true, tensors, scratch);
                    }
                    self.finish(scratch, |channel, sums| {
                        let statistics = [0, channels].each(|first| values.add(first + channel).read());
                        let by = parameters.gradient(tensors, channel, statistics, sums, n);
                        [by.mean, by.factor, by.bias, by.slope]
                    });
                    self.pass(Pass::Gradient, tensors, scratch);
                }
            }
        }
    }
}

/// Some rows.
struct Task<'a, T> {
    by: &'a ChannelsLast<T>,
    pass: Pass,
    /// Whether sums are in double precision throughout.
    wide: bool,
    tensors: &'a [*mut u8],
    rows: std::ops::Range<usize>,
    areas: ScratchLayout<T>,
}

impl<T: Float> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let channels = self.by.shape.channels;
        let blocks = (0..channels).step_by(BUFFER).map(|first| (first, (channels - first).min(BUFFER)));
        match (self.pass, &self.by.shape.epilogue.block_epilogue) {
            (Pass::Sum | Pass::Deviations | Pass::Gradients, _) => {
                for (first, len) in blocks {
                    // SAFETY: the rows have these channels, and the areas sums for them.
                    unsafe { self.add::<V>(first, len) };
                }
            }
            (Pass::Scale | Pass::Gradient, None) => {
                for (first, len) in blocks {
                    // SAFETY: the rows have these channels, and the areas values for them.
                    unsafe { self.compute::<V>(first, len, self.rows.clone()) };
                }
            }
            (Pass::Scale | Pass::Gradient, Some(block_epilogue)) => {
                for from in self.rows.clone().step_by(NEAR.div_ceil(channels)) {
                    let end = self.rows.end.min(from + NEAR.div_ceil(channels));
                    for (first, len) in blocks.clone() {
                        // SAFETY: the rows have these channels, and the areas values for them.
                        unsafe { self.compute::<V>(first, len, from..end) };
                    }
                    // SAFETY: all channels of these rows are computed.
                    unsafe { block_epilogue.run_on_range(self.tensors, from * channels..end * channels) };
                }
            }
        }
    }
}

impl<T: Float> Task<'_, T> {
    /// Sums some channels over the rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions; tensors and areas are those of a run.
    #[inline(always)]
    unsafe fn add<V: Vector<Scalar = T>>(&self, first: usize, len: usize) {
        let shape = &self.by.shape;
        let [dy, x, _] = &shape.memory;
        let [dy_at, x_at] = [dy.slot, x.slot].each(|slot| self.tensors[slot]);
        let mut sums = [[T::ZERO; BUFFER]; 2];
        let mut buffers = [[T::ZERO; BUFFER]; 2];
        let [dy_buffer, x_buffer] = &mut buffers;
        let totals = [0, 1].each(|i| self.areas.totals.wrapping_add(i * shape.channels + first));
        let means = self.areas.values.wrapping_add(first);
        for total in totals {
            // SAFETY: the areas have two sums for each channel.
            unsafe { total.write_bytes(0, len) };
        }
        let mut from = self.rows.start;
        while from < self.rows.end {
            let end = self.rows.end.min(from + EXACT_ROWS);
            let [one, other] = sums.each_mut().map(|sums| {
                sums[..len].fill(T::ZERO);
                sums.as_mut_ptr()
            });
            let mut elements = Elements::new(&shape.nest, from..end);
            while let Some([at_dy, at_x, _]) = elements.next() {
                // SAFETY: rows have these channels, each with a mean, two totals and two sums.
                unsafe {
                    let x = x.values(x_at, at_x + first, 1, len, x_buffer);
                    match self.pass {
                        _ if self.wide => {
                            let dy = dy.values(dy_at, at_dy + first, 1, len, dy_buffer);
                            self.add_in_double(dy, x, means, totals, len);
                        }
                        Pass::Sum => loops::add_row::<V>(x, one, len),
                        Pass::Deviations => loops::add_deviations::<V>(x, means, [one, other], len),
                        _ => {
                            let dy = dy.values(dy_at, at_dy + first, 1, len, dy_buffer);
                            loops::add_gradients::<V>(dy, x, means, [one, other], len);
                        }
                    }
                }
            }
            for (total, sums) in totals.into_iter().zip(&sums) {
                for (i, sum) in sums[..len].iter().enumerate() {
                    // SAFETY: there is a total for each of the channels.
                    unsafe { total.add(i).write(total.add(i).read() + sum.to_f64()) };
                }
            }
            from = end;
        }
    }

    /// Adds a row to the totals in double precision.
    ///
    /// # Safety
    /// As [`Task::add`]; all have `len` values.
    #[cold]
    unsafe fn add_in_double(
        &self,
        dy: *const T,
        x: *const T,
        means: *const T,
        totals: [*mut f64; 2],
        len: usize,
    ) {
        for i in 0..len {
            // SAFETY: the index is below `len`, up to which this function requires all values and totals.
            unsafe {
                let [x, dy] = [x, dy].each(|from| from.add(i).read_unaligned().to_f64());
                let terms = match self.pass {
                    Pass::Sum => [x, 0.0],
                    pass => {
                        let deviation = x - means.add(i).read().to_f64();
                        let first = if pass == Pass::Deviations { deviation } else { dy };
                        [first, first * deviation]
                    }
                };
                for (total, term) in totals.into_iter().zip(terms) {
                    total.add(i).write(total.add(i).read() + term);
                }
            }
        }
    }

    /// Computes the result of some channels in some rows.
    ///
    /// # Safety
    /// As [`Task::add`], and the values of all channels are written.
    #[inline(always)]
    unsafe fn compute<V: Vector<Scalar = T>>(&self, first: usize, len: usize, rows: std::ops::Range<usize>) {
        let shape = &self.by.shape;
        let [dy, x, result] = &shape.memory;
        let [dy_at, x_at, result_at] = [dy.slot, x.slot, result.slot].each(|slot| self.tensors[slot]);
        let mut buffers = [[T::ZERO; BUFFER]; 3];
        let [dy_buffer, x_buffer, result_buffer] = &mut buffers;
        // SAFETY: rows have `channels` elements, the areas four values for each of these.
        unsafe {
            let [mean, factor, bias, slope] =
                [0, 1, 2, 3].each(|i| self.areas.values.add(i * shape.channels + first).cast_const());
            let mut elements = Elements::new(&shape.nest, rows);
            while let Some([at_dy, at_x, at]) = elements.next() {
                let x = x.values(x_at, at_x + first, 1, len, x_buffer);
                let to = result.target(result_at, at + first, result_buffer);
                if self.pass == Pass::Scale {
                    loops::scale_row::<V>(x, [mean, factor, bias], to, len);
                } else {
                    let dy = dy.values(dy_at, at_dy + first, 1, len, dy_buffer);
                    loops::gradient_row::<V>(dy, x, [mean, factor, bias, slope], to, len);
                }
                result.written(result_at, at + first, 1, len, result_buffer);
            }
        }
    }
}
