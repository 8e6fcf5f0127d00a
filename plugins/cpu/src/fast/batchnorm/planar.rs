//! Channel by channel: each thread has channels of its own.

use super::super::lanes::Lanes;
use super::super::level::VectorWork;
use super::super::nest::Chunks;
use super::super::real::FastReal;
use super::super::scratch::Tensors;
use super::super::vector::Vector;
use super::channel::{BUFFER, Moments, Parameters, Role};
use super::{Shape, loops};
use crate::kernel::Kernel;
use crate::layout::MAX_RANK;

/// A batch normalization whose channels are computed one by one.
pub(super) struct Planar<T> {
    shape: Shape<T>,
    parameters: Parameters<T>,
    lanes: Lanes,
}

impl<T: FastReal> Planar<T> {
    pub(super) fn plan(shape: Shape<T>, parameters: Parameters<T>) -> Self {
        let lanes = shape.threads.lanes(shape.work(parameters.role()), shape.channels);
        Self { shape, parameters, lanes }
    }
}

impl<T: FastReal> Kernel for Planar<T> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let shared = Tensors(tensors);
        self.lanes.run(|lane| {
            let channels = self.lanes.share(lane, self.shape.channels);
            // SAFETY: the level is the processor's; the caller promises the tensors.
            unsafe { self.shape.level.run_vectors(Work { planar: self, tensors: shared.all(), channels }) };
        });
    }
}

/// Some channels.
struct Work<'a, T> {
    planar: &'a Planar<T>,
    tensors: &'a [*mut u8],
    channels: std::ops::Range<usize>,
}

impl<T: FastReal> VectorWork<T> for Work<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) {
        let Planar { shape, parameters, .. } = self.planar;
        let [dy, x, result] = &shape.memory;
        let [dy_at, x_at, result_at] = [dy.slot, x.slot, result.slot].map(|slot| self.tensors[slot]);
        let [dy_apart, x_apart, result_apart] = shape.apart;
        let (chunk, n) = (shape.chunk(), shape.elements);
        let mut buffers = [[T::ZERO; BUFFER]; 3];
        let [dy_buffer, x_buffer, result_buffer] = &mut buffers;
        for channel in self.channels {
            let base = shape.step.map(|step| step * channel);
            // SAFETY: the runs are over the channel's elements, no longer than the buffers unless they are read in place; the
            // channel is this thread's.
            unsafe {
                let mut moments = Moments::default();
                if parameters.wants_moments() {
                    let mut total = 0.0;
                    let mut chunks = Chunks::new(&shape.nest, base, chunk.min(BUFFER));
                    while let Some(([_, at, _], len)) = chunks.next() {
                        total += loops::sum::<V>(x.numbers(x_at, at, x_apart, len, x_buffer), len).to_f64();
                    }
                    let about = T::from_f64(total / n);
                    moments.about = about.to_f64();
                    let mut chunks = Chunks::new(&shape.nest, base, chunk.min(BUFFER));
                    while let Some(([_, at, _], len)) = chunks.next() {
                        let x = x.numbers(x_at, at, x_apart, len, x_buffer);
                        let [sum, squares] = loops::deviations::<V>(x, about, len);
                        moments.sum += sum.to_f64();
                        moments.squares += squares.to_f64();
                    }
                }
                if let Role::Backward { .. } = parameters.role() {
                    let statistics = parameters.statistics(self.tensors, channel, &moments, n);
                    let mut sums = [0.0; 2];
                    let mut chunks = Chunks::new(&shape.nest, base, chunk.min(BUFFER));
                    while let Some(([at_dy, at_x, _], len)) = chunks.next() {
                        let dy = dy.numbers(dy_at, at_dy, dy_apart, len, dy_buffer);
                        let x = x.numbers(x_at, at_x, x_apart, len, x_buffer);
                        let [sum, product] = loops::gradient_sums::<V>(dy, x, statistics.0, len);
                        sums[0] += sum.to_f64();
                        sums[1] += product.to_f64();
                    }
                    let by = parameters.backward(self.tensors, channel, statistics, sums, n);
                    let mut chunks = Chunks::new(&shape.nest, base, chunk);
                    while let Some(([at_dy, at_x, at], len)) = chunks.next() {
                        let dy = dy.numbers(dy_at, at_dy, dy_apart, len, dy_buffer);
                        let x = x.numbers(x_at, at_x, x_apart, len, x_buffer);
                        let dx = result.target(result_at, at, result_buffer);
                        loops::gradient::<V>(dy, x, &by, dx, len);
                        result.written(result_at, at, result_apart, len, result_buffer);
                    }
                } else {
                    let by = parameters.forward(self.tensors, channel, &moments, n);
                    let mut chunks = Chunks::new(&shape.nest, base, chunk);
                    while let Some(([_, at_x, at], len)) = chunks.next() {
                        let x = x.numbers(x_at, at_x, x_apart, len, x_buffer);
                        let y = result.target(result_at, at, result_buffer);
                        loops::scale::<V>(x, by, y, len);
                        result.written(result_at, at, result_apart, len, result_buffer);
                    }
                    if let Some(tail) = &shape.tail {
                        let (mut origin, mut size) = ([0; MAX_RANK], [1; MAX_RANK]);
                        size[..shape.dims.len()].copy_from_slice(&shape.dims);
                        (origin[1], size[1]) = (channel, 1);
                        tail.finish(self.tensors, &origin, &size);
                    }
                }
            }
        }
    }
}
