//! Channels last: a vector is a run of channels of one element of y.

use crate::pooling::shape::{COLUMNS, Lines, PoolPlan, Span, store_indices};
use crate::pooling::windows::{TOGETHER, Windows};
use crate::simd::vector::{Float, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// A planned pooling.
pub(crate) struct ChannelsLast<T> {
    pool: PoolPlan<T>,
    parts: Parts,
}

impl<T: Float> ChannelsLast<T> {
    /// Plans it.
    pub(crate) fn plan(pool: PoolPlan<T>, threads: Threads) -> Self {
        let (shape, work) = (pool.shape, pool.work());
        let rows = shape.rows().div_ceil(Parts::wanted(threads, work).div_ceil(shape.batch));
        let whole = [shape.channels, shape.rows()];
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, whole, [shape.channels, rows]);
        Self { pool, parts }
    }
}

/// An element of y: its first channel, and the first index and the stride of indices.
#[derive(Clone, Copy)]
struct Element<T> {
    to: *mut T,
    index: Option<(*mut i32, usize)>,
}

impl<T: Float> PartKernel<T, 0> for ChannelsLast<T> {
    const NAME: &'static str = "pooling, channels last";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    fn areas(&self) -> [usize; 0] {
        []
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 0>) {
        let PoolPlan { shape, x, y, index, .. } = &self.pool;
        let Part { tensors, image, .. } = *part;
        let strides = [x.depth, x.image.strides[2], x.image.strides[3]];
        // SAFETY: this function requires the tensors, which have all of the elements.
        unsafe {
            let from = x.at(tensors, [image, 0, 0, 0, 0]).cast_const().cast::<T>();
            let windows = Windows { from, strides, indexed: index.is_some() };
            for row in part.rows.clone() {
                let lines = shape.lines(row);
                let [depth, row] = shape.place(row);
                for column in 0..shape.output[COLUMNS] {
                    let position = [image, 0, depth, row, column];
                    let element = Element {
                        to: y.at(tensors, position).cast::<T>(),
                        index: index.map(|index| (index.at(tensors, position), index.strides[1])),
                    };
                    self.element::<V>(&windows, (&lines, &shape.span(COLUMNS, column)), element);
                }
            }
        }
    }
}

impl<T: Float> ChannelsLast<T> {
    /// Computes all channels of an element.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the windows and the element are those of the kernel's tensors.
    #[inline(always)]
    unsafe fn element<V: Vector<Scalar = T>>(
        &self,
        windows: &Windows<T>,
        window: (&Lines, &Span),
        element: Element<T>,
    ) {
        let shape = &self.pool.shape;
        let mut channel = 0;
        // SAFETY: the channels exist, as this function requires.
        unsafe {
            while channel + TOGETHER * V::LANES <= shape.channels {
                let [values, indices] = windows.value::<V, TOGETHER>(shape, channel, window, None);
                for (n, (value, indices)) in values.into_iter().zip(indices).enumerate() {
                    element.put(value, indices, channel + n * V::LANES, V::LANES);
                }
                channel += TOGETHER * V::LANES;
            }
            while channel < shape.channels {
                let count = (shape.channels - channel).min(V::LANES);
                let lanes = Some(V::lanes(0, count));
                let [[value], [indices]] = windows.value::<V, 1>(shape, channel, window, lanes);
                element.put(value, indices, channel, count);
                channel += V::LANES;
            }
        }
    }
}

impl<T: Float> Element<T> {
    /// Writes `count` channels.
    ///
    /// # Safety
    /// The processor has the vector's instructions; the element has the channels.
    #[inline(always)]
    unsafe fn put<V: Vector<Scalar = T>>(&self, value: V, indices: V, channel: usize, count: usize) {
        // SAFETY: the channels exist, as this function requires.
        unsafe {
            if let Some((index, stride)) = self.index {
                store_indices(indices, count, index.add(channel * stride), stride);
            }
            value.store_lanes(self.to.add(channel), V::lanes(0, count));
        }
    }
}
