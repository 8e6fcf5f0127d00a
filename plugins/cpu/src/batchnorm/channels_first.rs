//! Channels first: each worker has its own channels.

use crate::batchnorm::channel::BUFFER;
use crate::batchnorm::loops;
use crate::batchnorm::parameters::{Parameters, Role};
use crate::batchnorm::planes::Part;
use crate::batchnorm::shape::Shape;
use crate::kernel::{Facts, Kernel};
use crate::simd::array::Each;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::loop_nest::Chunks;
use crate::tensor::moments;
use crate::tensor::moments::Moments;
use crate::tensor::scratch::Tensors;
use crate::tensor::view::Pointers;
use crate::threading::partition::Workers;

/// A batch normalization computed channel by channel.
pub(crate) struct ChannelsFirst<T> {
    shape: Shape<T>,
    parameters: Parameters<T>,
    workers: Workers,
}

impl<T: Float> ChannelsFirst<T> {
    pub(crate) fn plan(shape: Shape<T>, parameters: Parameters<T>) -> Self {
        let workers = shape.threads.workers(shape.work(parameters.role()), shape.channels);
        Self { shape, parameters, workers }
    }
}

impl<T: Float> Kernel for ChannelsFirst<T> {
    fn facts(&self) -> Facts {
        Facts::new("channels first", self.workers.threads())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let shared = Tensors(tensors);
        self.workers.run(|worker| {
            let channels = self.workers.share(worker, self.shape.channels);
            // SAFETY: the processor supports the instruction set; the tensors cover all channels.
            unsafe { self.shape.isa.run_vectors(Task { kernel: self, tensors: shared.all(), channels }) };
        });
    }
}

/// Some channels.
struct Task<'a, T> {
    kernel: &'a ChannelsFirst<T>,
    tensors: &'a [*mut u8],
    channels: std::ops::Range<usize>,
}

impl<T: Float> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let ChannelsFirst { shape, parameters, .. } = self.kernel;
        let mut buffers = [[T::ZERO; BUFFER]; 3];
        for channel in self.channels.clone() {
            // SAFETY: the tensors have the channel, which is this thread's.
            let moments = unsafe {
                if parameters.wants_moments() {
                    self.moments::<V>(channel, &mut buffers[1])
                } else {
                    Moments::default()
                }
            };
            if let Role::Backward { .. } = parameters.role() {
                // SAFETY: the tensors have the channel, which is this thread's.
                unsafe { self.gradient::<V>(channel, &moments, &mut buffers) };
                continue;
            }
            // SAFETY: the tensors and parameters have the channel, which is this thread's.
            unsafe {
                let by = parameters.affine(self.tensors, channel, &moments, shape.elements);
                match (shape.epilogue.added.is_some(), shape.epilogue.relu) {
                    (false, false) => self.scale::<V, false, false>(channel, by, &mut buffers),
                    (false, true) => self.scale::<V, false, true>(channel, by, &mut buffers),
                    (true, false) => self.scale::<V, true, false>(channel, by, &mut buffers),
                    (true, true) => self.scale::<V, true, true>(channel, by, &mut buffers),
                }
                shape.run_block_epilogue(self.tensors, channel);
            }
        }
    }
}

impl<T: Float> Task<'_, T> {
    fn base(&self, channel: usize) -> [usize; 3] {
        self.kernel.shape.channel_strides.each(|stride| stride * channel)
    }

    /// The sums of a channel that give mean and variance: of deviations from the mean of its first values,
    /// or, if these are far off, from the mean of all.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the tensors are those of a run.
    #[inline(always)]
    unsafe fn moments<V: Vector<Scalar = T>>(&self, channel: usize, buffer: &mut [T; BUFFER]) -> Moments {
        let shape = &self.kernel.shape;
        let (base, chunk, n) = (self.base(channel), shape.chunk().min(BUFFER), shape.elements);
        let (x, stride) = (&shape.memory[1], shape.inner_strides[1]);
        let from = self.tensors[x.slot];
        // SAFETY: the tensors are valid, as this function requires; chunks are no longer than the buffer.
        unsafe {
            let about = match Chunks::new(&shape.nest, base, chunk).next() {
                Some(([_, at, _], len)) => {
                    moments::first_mean::<V>(x.values(from, at, stride, len, buffer), len)
                }
                None => T::ZERO,
            };
            let moments = self.moments_about::<V>(channel, about, buffer);
            let epsilon = self.kernel.parameters.epsilon(Pointers::new(self.tensors));
            if moments.are_near(n) && moments.are_held::<T>(n, epsilon) {
                return moments;
            }
            let mean = T::from_f64(self.total::<V>(channel, buffer) / n);
            let moments = self.moments_about::<V>(channel, mean, buffer);
            if moments.are_held::<T>(n, epsilon) {
                return moments;
            }
            self.moments_in_double(channel, buffer)
        }
    }

    /// The sum of a channel.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[inline(always)]
    unsafe fn total<V: Vector<Scalar = T>>(&self, channel: usize, buffer: &mut [T; BUFFER]) -> f64 {
        let shape = &self.kernel.shape;
        let (x, stride) = (&shape.memory[1], shape.inner_strides[1]);
        let mut chunks = Chunks::new(&shape.nest, self.base(channel), shape.chunk().min(BUFFER));
        // SAFETY: the processor has the vector's instructions; the tensor has the chunks, which are no longer than the buffer.
        unsafe {
            let mut total = moments::Totals::<V, 1>::new();
            while let Some(([_, at, _], len)) = chunks.next() {
                moments::sum(&mut total, x.values(self.tensors[x.slot], at, stride, len, buffer), len);
                total.keep();
            }
            let [total] = total.finished();
            total
        }
    }

    /// The sums of a channel's deviations from its mean in double precision, if the compute type would
    /// overflow.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[cold]
    unsafe fn moments_in_double(&self, channel: usize, buffer: &mut [T; BUFFER]) -> Moments {
        let shape = &self.kernel.shape;
        let (x, stride) = (&shape.memory[1], shape.inner_strides[1]);
        let mut moments = Moments::default();
        for pass in 0..2 {
            let mut chunks = Chunks::new(&shape.nest, self.base(channel), shape.chunk().min(BUFFER));
            while let Some(([_, at, _], len)) = chunks.next() {
                // SAFETY: the tensor has the chunks of the channel, which are no longer than the buffer.
                unsafe {
                    let x = x.values(self.tensors[x.slot], at, stride, len, buffer);
                    for i in 0..len {
                        let deviation = x.add(i).read_unaligned().to_f64() - moments.about;
                        moments.sum += deviation;
                        moments.squares += deviation * deviation;
                    }
                }
            }
            if pass == 0 {
                moments = Moments { about: moments.sum / shape.elements, ..Moments::default() };
            }
        }
        moments
    }

    /// The sums of a channel's deviations from a shift.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[inline(always)]
    unsafe fn moments_about<V: Vector<Scalar = T>>(
        &self,
        channel: usize,
        about: T,
        buffer: &mut [T; BUFFER],
    ) -> Moments {
        let shape = &self.kernel.shape;
        let (x, stride) = (&shape.memory[1], shape.inner_strides[1]);
        let from = self.tensors[x.slot];
        // SAFETY: the tensor has the channel's chunks, none of which is longer than the buffer; the processor has the
        // instructions.
        unsafe {
            let mut totals = moments::Totals::<V, 2>::new();
            let mut chunks = Chunks::new(&shape.nest, self.base(channel), shape.chunk().min(BUFFER));
            while let Some(([_, at, _], len)) = chunks.next() {
                let x = x.values(from, at, stride, len, buffer);
                moments::deviations(&mut totals, x, about, len);
                totals.keep();
            }
            let [sum, squares] = totals.finished();
            Moments { about: about.to_f64(), sum, squares }
        }
    }

    /// Computes the result of a channel, with residual and RELU.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[inline(always)]
    unsafe fn scale<V: Vector<Scalar = T>, const ADDED: bool, const POSITIVE: bool>(
        &self,
        channel: usize,
        by: [T; 3],
        buffers: &mut [[T; BUFFER]; 3],
    ) {
        let shape = &self.kernel.shape;
        let [added, x, y] = &shape.memory;
        let [added_at, x_at, y_at] = [added.slot, x.slot, y.slot].each(|slot| self.tensors[slot]);
        let [added_buffer, x_buffer, y_buffer] = buffers;
        // SAFETY: this function requires the instructions and tensors; chunks fit in the buffers in use.
        unsafe {
            let affine = [V::splat(by[0]), V::splat(by[1]), V::splat(by[2])];
            let mut chunks = Chunks::new(&shape.nest, self.base(channel), shape.chunk());
            while let Some(([at_added, at_x, at], len)) = chunks.next() {
                let x = x.values(x_at, at_x, shape.inner_strides[1], len, x_buffer);
                let added = if ADDED {
                    added.values(added_at, at_added, shape.inner_strides[0], len, added_buffer)
                } else {
                    x
                };
                let target = y.target(y_at, at, y_buffer);
                Part { x, added, y: target, affine }.compute::<ADDED, POSITIVE>(len);
                y.written(y_at, at, shape.inner_strides[2], len, y_buffer);
            }
        }
    }

    /// Computes the gradients of a channel.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[inline(always)]
    unsafe fn gradient<V: Vector<Scalar = T>>(
        &self,
        channel: usize,
        moments: &Moments,
        buffers: &mut [[T; BUFFER]; 3],
    ) {
        let ChannelsFirst { shape, parameters, .. } = self.kernel;
        let [dy, x, dx] = &shape.memory;
        let [dy_at, x_at, dx_at] = [dy.slot, x.slot, dx.slot].each(|slot| self.tensors[slot]);
        let [dy_stride, x_stride, dx_stride] = shape.inner_strides;
        let (base, chunk, n) = (self.base(channel), shape.chunk(), shape.elements);
        let [dy_buffer, x_buffer, dx_buffer] = buffers;
        // SAFETY: the parameters have the channel, and the processor has the vector's instructions.
        let (statistics, mut totals) = unsafe {
            let statistics = parameters.saved_or_computed(self.tensors, channel, moments, n);
            (statistics, moments::Totals::<V, 2>::new())
        };
        let mut chunks = Chunks::new(&shape.nest, base, chunk.min(BUFFER));
        while let Some(([at_dy, at_x, _], len)) = chunks.next() {
            // SAFETY: the elements are of the channel, at most as many as a buffer holds.
            unsafe {
                let dy = dy.values(dy_at, at_dy, dy_stride, len, dy_buffer);
                let x = x.values(x_at, at_x, x_stride, len, x_buffer);
                loops::gradient_sums(&mut totals, dy, x, statistics[0], len);
                totals.keep();
            }
        }
        let mut sums = totals.finished();
        if !sums.iter().all(|sum| sum.is_finite()) {
            sums = [0.0; 2];
            let mut chunks = Chunks::new(&shape.nest, base, chunk.min(BUFFER));
            while let Some(([at_dy, at_x, _], len)) = chunks.next() {
                // SAFETY: the elements are of the channel, at most as many as a buffer holds.
                unsafe {
                    let dy = dy.values(dy_at, at_dy, dy_stride, len, dy_buffer);
                    let x = x.values(x_at, at_x, x_stride, len, x_buffer);
                    loops::gradient_sums_in_double(&mut sums, dy, x, statistics[0], len);
                }
            }
        }
        // SAFETY: the parameters have the channel.
        let by = unsafe { parameters.gradient(self.tensors, channel, statistics, sums, n) };
        let mut chunks = Chunks::new(&shape.nest, base, chunk);
        // SAFETY: the elements are of the channel, and at most as many as a buffer holds unless all are in place.
        unsafe {
            while let Some(([at_dy, at_x, at], len)) = chunks.next() {
                let dy = dy.values(dy_at, at_dy, dy_stride, len, dy_buffer);
                let x = x.values(x_at, at_x, x_stride, len, x_buffer);
                let target = dx.target(dx_at, at, dx_buffer);
                loops::gradient::<V>(dy, x, &by, target, len);
                dx.written(dx_at, at, dx_stride, len, dx_buffer);
            }
        }
    }
}
