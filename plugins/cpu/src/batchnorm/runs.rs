//! Channels first, for channels of short runs with one stride, such as the planes of a batch of small images.
//!
//! Planes of small images are a few vectors each. Sums stay in registers between planes, and several planes
//! of one or two vectors are summed in parallel. The gradient of a RELU after the batch normalization is
//! computed while reading dy.

use crate::batchnorm::parameters::{Parameters, Role};
use crate::batchnorm::planes::Part;
use crate::batchnorm::shape::{ReluInput, Shape};
use crate::gemm::prefetch::prefetch;
use crate::kernel::{Facts, Kernel};
use crate::simd::CACHE_LINE;
use crate::simd::array::Each;
use crate::simd::row::read;
use crate::simd::vector::{Float, Lanewise, Vector, VectorTask, has_special_cases};
use crate::tensor::moments::{Moments, SUMS, first_mean, of_lanes};
use crate::tensor::scratch::Tensors;
use crate::tensor::view::Pointers;
use crate::threading::partition::Workers;

/// How many values each lane sums before the sum is added in double precision.
const EXACT: usize = 32;

/// The longest run for which this pays.
pub(crate) const LONGEST: usize = 1024;

/// Prefetch distance in elements: hardware prefetching does not follow from run to run.
const PREFETCH_DISTANCE: usize = 1024;

/// Training or its gradients, for channels that consist of runs.
pub(crate) struct Runs<T> {
    shape: Shape<T>,
    parameters: Parameters<T>,
    workers: Workers,
    /// Runs of a channel, and their strides.
    runs: usize,
    stride: [usize; 3],
    gate: Option<ReluInput>,
}

/// Whether the channels are such runs.
pub(crate) fn covers<T: Float>(shape: &Shape<T>, role: Role, gate: Option<ReluInput>) -> bool {
    has_special_cases::<T>(shape.isa)
        && role != Role::Inference
        && shape.memory.iter().all(|memory| memory.direct)
        && shape.nest.single().is_some()
        && (shape.nest.len <= LONGEST || gate.is_some())
}

impl<T: Float> Runs<T> {
    /// Plans runs that are covered.
    pub(crate) fn plan(shape: Shape<T>, parameters: Parameters<T>, gate: Option<ReluInput>) -> Self {
        let (runs, stride) = shape.nest.single().unwrap_or((1, [0; 3]));
        let workers = shape.threads.workers(shape.work(parameters.role()), shape.channels);
        Self { shape, parameters, workers, runs, stride, gate }
    }
}

impl<T: Float> Kernel for Runs<T> {
    fn facts(&self) -> Facts {
        Facts::new("channels as runs", self.workers.threads())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let shared = Tensors(tensors);
        self.workers.run(|worker| {
            let channels = self.workers.share(worker, self.shape.channels);
            // SAFETY: the processor supports the instruction set; the tensors cover all channels.
            unsafe { self.shape.isa.run_vectors(Task { by: self, tensors: shared.all(), channels }) };
        });
    }
}

/// Some channels.
struct Task<'a, T> {
    by: &'a Runs<T>,
    tensors: &'a [*mut u8],
    channels: std::ops::Range<usize>,
}

/// A channel, starting at the first element of its first run.
#[derive(Clone, Copy)]
struct Channel<T> {
    /// dy, or the residual.
    dy: *const T,
    /// The input of RELU: dy passes where it is positive.
    gate: *const T,
    x: *const T,
    /// The result.
    y: *mut T,
}

impl<T: Float> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        if !V::HAS_SPECIAL_CASES {
            unreachable!("runs are planned for vectors with special cases");
        }
        let Runs { shape, parameters, gate, .. } = self.by;
        for channel in self.channels.clone() {
            // SAFETY: the instructions and tensors are valid, as this function requires; the channel is this thread's.
            unsafe {
                let at = self.channel(channel);
                let moments =
                    if parameters.wants_moments() { self.moments::<V>(at) } else { Moments::default() };
                match (parameters.role(), gate) {
                    (Role::Backward { .. }, None) => self.gradient::<V, false>(channel, at, &moments),
                    (Role::Backward { .. }, Some(_)) => self.gradient::<V, true>(channel, at, &moments),
                    _ => {
                        let by = parameters.affine(self.tensors, channel, &moments, shape.elements);
                        match (shape.epilogue.added.is_some(), shape.epilogue.relu) {
                            (false, false) => self.scale::<V, false, false>(at, by),
                            (false, true) => self.scale::<V, false, true>(at, by),
                            (true, false) => self.scale::<V, true, false>(at, by),
                            (true, true) => self.scale::<V, true, true>(at, by),
                        }
                        shape.run_block_epilogue(self.tensors, channel);
                    }
                }
            }
        }
    }
}

impl<T: Float> Task<'_, T> {
    /// # Safety
    /// The tensors are those of a run, and have the channel.
    unsafe fn channel(&self, channel: usize) -> Channel<T> {
        let Runs { shape, gate, .. } = self.by;
        let [dy, x, y] = [0, 1, 2].each(|i| {
            let offset = shape.channel_strides[i] * channel;
            // SAFETY: the channel is valid, as this function requires.
            unsafe { self.tensors[shape.memory[i].slot].cast::<T>().add(offset) }
        });
        // SAFETY: the gate has the strides of dy.
        let gate = unsafe {
            gate.map_or(dy, |gate| {
                self.tensors[gate.slot].cast::<T>().add(shape.channel_strides[0] * channel)
            })
        };
        Channel { dy, gate, x, y }
    }

    /// Sums the results of `of` for the elements at offsets in dy and in x, for a vector or some lanes.
    /// `prefetch_at` gets offsets that are read soon and may be outside the channel.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and `of` can be called with the offsets of all elements.
    #[inline(always)]
    unsafe fn sums<V: Vector<Scalar = T>, const N: usize>(
        &self,
        prefetch_at: impl Fn([usize; 2]),
        of: impl Fn([usize; 2], Option<V::Lanes>, [V; N]) -> [V; N],
    ) -> [f64; N] {
        let Runs { shape, runs, stride: [dy_stride, x_stride, _], .. } = self.by;
        let offsets = |run: usize, at: usize| [run * dy_stride + at, run * x_stride + at];
        let mut totals = [0.0; N];
        let (len, most) = (shape.nest.len, EXACT * SUMS * V::LANES);
        let together = (most / len).max(1);
        let prefetch_run = |run: usize, from: usize, to: usize| {
            let [dy, x] = offsets(run + PREFETCH_DISTANCE / len, 0);
            (from..to).step_by(CACHE_LINE / size_of::<T>()).for_each(|at| prefetch_at([dy + at, x + at]));
        };
        for first in (0..*runs).step_by(together) {
            let end = (first + together).min(*runs);
            for from in (0..len).step_by(most) {
                let to = (from + most).min(len);
                let (whole, rest) = ((to - from) / V::LANES, (to - from) % V::LANES);
                // SAFETY: this function requires the instructions, and the lanes are fewer than a vector has.
                let (mut sums, lanes) = unsafe { ([[V::zero(); N]; SUMS], V::lanes(0, rest)) };
                let mut run = first;
                while whole < SUMS && run + SUMS <= end {
                    (run..run + SUMS).for_each(|run| prefetch_run(run, from, to));
                    for vector in 0..whole {
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = of(offsets(run + i, from + vector * V::LANES), None, *sum);
                        }
                    }
                    if rest > 0 {
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = of(offsets(run + i, to - rest), Some(lanes), *sum);
                        }
                    }
                    run += SUMS;
                }
                while run < end {
                    let mut at = from;
                    prefetch_run(run, from, to);
                    while at + SUMS * V::LANES <= to {
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = of(offsets(run, at + i * V::LANES), None, *sum);
                        }
                        at += SUMS * V::LANES;
                    }
                    for sum in &mut sums {
                        if at + V::LANES > to {
                            break;
                        }
                        *sum = of(offsets(run, at), None, *sum);
                        at += V::LANES;
                    }
                    if rest > 0 {
                        sums[SUMS - 1] = of(offsets(run, at), Some(lanes), sums[SUMS - 1]);
                    }
                    run += 1;
                }
                let sums = of_lanes(sums);
                for (total, sum) in totals.iter_mut().zip(sums) {
                    *total += sum.to_f64();
                }
            }
        }
        totals
    }

    /// The sums of a channel that give mean and variance: of deviations from the mean of its first values,
    /// or, if these are far off, from the mean of all.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the channel has its elements.
    #[inline(always)]
    unsafe fn moments<V: Vector<Scalar = T>>(&self, at: Channel<T>) -> Moments {
        let n = self.by.shape.elements;
        // SAFETY: the runs are those of the channel, whose elements this function requires.
        unsafe {
            let about = first_mean::<V>(at.x, self.by.shape.nest.len);
            let moments = self.moments_about::<V>(at, about);
            let epsilon = self.by.parameters.epsilon(Pointers::new(self.tensors));
            if moments.are_near(n) && moments.are_held::<T>(n, epsilon) {
                return moments;
            }
            let prefetch_at = |[_, offset]: [usize; 2]| prefetch(at.x.wrapping_add(offset));
            let [total] = self.sums::<V, 1>(prefetch_at, |[_, offset], lanes, [sum]| {
                [sum.lanewise(Lanewise::Add, read::<V>(at.x.add(offset), lanes))]
            });
            let moments = self.moments_about::<V>(at, T::from_f64(total / n));
            if moments.are_held::<T>(n, epsilon) {
                return moments;
            }
            let [_, stride, _] = self.by.stride;
            Moments::in_double(
                || self.offsets(stride).map(|offset| at.x.add(offset).read_unaligned().to_f64()),
                n,
            )
        }
    }

    /// The offsets of a channel's elements in a tensor.
    fn offsets(&self, stride: usize) -> impl Iterator<Item = usize> {
        let Runs { shape, runs, .. } = self.by;
        (0..*runs).flat_map(move |run| (0..shape.nest.len).map(move |at| run * stride + at))
    }

    /// Σ dy and Σ dy · (x - mean) of a channel, for sums beyond the compute type's range.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[cold]
    unsafe fn gradient_sums_in_double<const GATED: bool>(&self, at: Channel<T>, mean: T) -> [f64; 2] {
        let [dy_stride, x_stride, _] = self.by.stride;
        let mut sums = [0.0; 2];
        for (dy_at, x_at) in self.offsets(dy_stride).zip(self.offsets(x_stride)) {
            // SAFETY: the offsets are those of the channel's elements, which this function requires.
            let [dy, gate, x] = unsafe {
                [at.dy.add(dy_at), at.gate.add(dy_at), at.x.add(x_at)]
                    .each(|from| from.read_unaligned().to_f64())
            };
            // NaN counts as positive.
            let dy = if GATED && gate <= 0.0 { 0.0 } else { dy };
            sums = [sums[0] + dy, sums[1] + dy * (x - mean.to_f64())];
        }
        sums
    }

    /// The sums of a channel's deviations from a shift.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[inline(always)]
    unsafe fn moments_about<V: Vector<Scalar = T>>(&self, at: Channel<T>, about: T) -> Moments {
        // SAFETY: the instructions and values are valid, as this function requires; no vector has more lanes than the buffer.
        unsafe {
            let means = V::splat(about);
            let prefetch_at = |[_, offset]: [usize; 2]| prefetch(at.x.wrapping_add(offset));
            let [sum, squares] = self.sums::<V, 2>(prefetch_at, |[_, offset], lanes, [sum, squares]| {
                // Lanes without an element have deviation 0.
                let mut deviation = read::<V>(at.x.add(offset), lanes).lanewise(Lanewise::Sub, means);
                if let Some(lanes) = lanes {
                    let mut values = [T::ZERO; crate::simd::vector::MAX_LANES];
                    deviation.store(values.as_mut_ptr());
                    deviation = V::load_lanes(values.as_ptr(), lanes);
                }
                [sum.lanewise(Lanewise::Add, deviation), deviation.mul_add(deviation, squares)]
            });
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
        at: Channel<T>,
        by: [T; 3],
    ) {
        let Runs { shape, runs, stride, .. } = self.by;
        // SAFETY: the runs are those of the channel, whose elements this function requires, in all three tensors.
        unsafe {
            let affine = [V::splat(by[0]), V::splat(by[1]), V::splat(by[2])];
            for run in 0..*runs {
                let (x, y) = (at.x.add(run * stride[1]), at.y.add(run * stride[2]));
                let added = if ADDED { at.dy.add(run * stride[0]) } else { x };
                Part { x, added, y, affine }.compute::<ADDED, POSITIVE>(shape.nest.len);
            }
        }
    }

    /// Computes the gradients of a channel.
    ///
    /// # Safety
    /// As [`Task::moments`].
    #[inline(always)]
    unsafe fn gradient<V: Vector<Scalar = T>, const GATED: bool>(
        &self,
        channel: usize,
        at: Channel<T>,
        moments: &Moments,
    ) {
        let Runs { shape, parameters, runs, stride, .. } = self.by;
        let n = shape.elements;
        // SAFETY: the parameters have the channel, whose runs are read; prefetched addresses need not exist.
        let (statistics, means, mut sums) = unsafe {
            let statistics = parameters.saved_or_computed(self.tensors, channel, moments, n);
            let means = V::splat(statistics[0]);
            let prefetch_at = |[dy_at, x_at]: [usize; 2]| {
                prefetch(at.dy.wrapping_add(dy_at));
                prefetch(at.x.wrapping_add(x_at));
                if GATED {
                    prefetch(at.gate.wrapping_add(dy_at));
                }
            };
            let sums = self.sums::<V, 2>(prefetch_at, |[dy_at, x_at], lanes, [sum, product]| {
                let dy = at.passed::<V, GATED>(dy_at, lanes);
                let deviation = read::<V>(at.x.add(x_at), lanes).lanewise(Lanewise::Sub, means);
                [sum.lanewise(Lanewise::Add, dy), dy.mul_add(deviation, product)]
            });
            (statistics, means, sums)
        };
        if !sums.iter().all(|sum| sum.is_finite()) {
            // SAFETY: this function requires the channel's elements, which the vectors have just read.
            sums = unsafe { self.gradient_sums_in_double::<GATED>(at, statistics[0]) };
        }
        // SAFETY: the parameters have the channel.
        let by = unsafe { parameters.gradient(self.tensors, channel, statistics, sums, n) };
        let (factor, zero) = (means.broadcast(by.factor), means.broadcast(T::ZERO));
        let [bias, slope] = [means.broadcast(by.bias), means.broadcast(-by.slope)];
        // SAFETY: the runs are those of the channel, in all three tensors.
        unsafe {
            let by = [means, bias, slope, factor, zero];
            let len = shape.nest.len;
            let (whole, lanes) = (len - len % V::LANES, V::lanes(0, len % V::LANES));
            for run in 0..*runs {
                let [dy_at, x_at, dx_at] = stride.each(|stride| run * stride);
                for i in (0..whole).step_by(V::LANES) {
                    at.dx::<V, GATED>([dy_at + i, x_at + i], None, by).store(at.y.add(dx_at + i));
                }
                if whole < len {
                    at.dx::<V, GATED>([dy_at + whole, x_at + whole], Some(lanes), by)
                        .store_lanes(at.y.add(dx_at + whole), lanes);
                }
            }
        }
    }
}

impl<T: Float> Channel<T> {
    /// dx from offsets on in dy and x.
    ///
    /// # Safety
    /// As [`Channel::passed`], with such elements of x.
    #[inline(always)]
    unsafe fn dx<V: Vector<Scalar = T>, const GATED: bool>(
        &self,
        [dy_at, x_at]: [usize; 2],
        lanes: Option<V::Lanes>,
        [means, bias, slope, factor, zero]: [V; 5],
    ) -> V {
        // SAFETY: this function requires the elements.
        unsafe {
            let deviation = read::<V>(self.x.add(x_at), lanes).lanewise(Lanewise::Sub, means);
            let dy = self.passed::<V, GATED>(dy_at, lanes).lanewise(Lanewise::Sub, bias);
            deviation.mul_add(slope, dy).mul_add(factor, zero)
        }
    }

    /// dy from an offset on, multiplied by the gradient of RELU if there is one.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and there are such elements.
    #[inline(always)]
    unsafe fn passed<V: Vector<Scalar = T>, const GATED: bool>(
        &self,
        at: usize,
        lanes: Option<V::Lanes>,
    ) -> V {
        // SAFETY: this function requires the elements of the vector, or of its lanes, in dy and in the gate.
        unsafe {
            let dy = read::<V>(self.dy.add(at), lanes);
            if !GATED {
                return dy;
            }
            let gate = read::<V>(self.gate.add(at), lanes);
            // NaN counts as positive.
            V::splat(T::ONE).lanewise(Lanewise::NotAbove, gate).where_above_0(dy, V::zero())
        }
    }
}
