//! Channels last: a vector is a run of channels of one element of y.

use crate::pooling::shape::{PoolPlan, Span, Zero, store_indices};
use crate::simd::vector::{Float, Lanewise, Vector};
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
        let rows = shape.output[0].div_ceil(Parts::wanted(threads, work).div_ceil(shape.batch));
        let whole = [shape.channels, shape.output[0]];
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, whole, [shape.channels, rows]);
        Self { pool, parts }
    }
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
        // SAFETY: this function requires the tensors, which have all of the elements.
        unsafe {
            let input = x.at(tensors[x.slot], [image, 0, 0, 0]).cast_const().cast::<T>();
            for row in part.rows.clone() {
                let rows = shape.span(0, row);
                for column in 0..shape.output[1] {
                    let columns = shape.span(1, column);
                    let to = y.at(tensors[y.slot], [image, 0, row, column]).cast::<T>();
                    let index =
                        index.map(|index| (index.at(tensors, [image, 0, row, column]), index.strides[1]));
                    let mut channel = 0;
                    while channel < shape.channels {
                        let count = (shape.channels - channel).min(V::LANES);
                        let lanes = V::lanes(0, count);
                        let from = input.add(channel);
                        let value = if shape.is_maximum() {
                            let (value, indices) = self.largest::<V>(from, rows, columns, lanes);
                            if let Some((index, index_stride)) = index {
                                store_indices(
                                    indices,
                                    count,
                                    index.add(channel * index_stride),
                                    index_stride,
                                );
                            }
                            value
                        } else {
                            self.mean::<V>(from, rows, columns, lanes)
                        };
                        value.store_lanes(to.add(channel), lanes);
                        channel += V::LANES;
                    }
                }
            }
        }
    }
}

impl<T: Float> ChannelsLast<T> {
    /// The maxima of a window in some channels, and their indices.
    #[inline(always)]
    unsafe fn largest<V: Vector<Scalar = T>>(
        &self,
        from: *const T,
        rows: Span,
        columns: Span,
        lanes: V::Lanes,
    ) -> (V, V) {
        let PoolPlan { shape, x, index, .. } = &self.pool;
        let zero = shape.zero(&rows, &columns);
        let empty = rows.len == 0 || columns.len == 0;
        // SAFETY: the positions of spans are inside x.
        unsafe {
            let none = V::splat(-T::ONE);
            let mut indices = none;
            if empty {
                let outside = if zero == Zero::Never { T::from_f64(f64::NEG_INFINITY) } else { T::ZERO };
                return (V::splat(outside), none);
            }
            let mut best = V::zero();
            let mut begun = zero == Zero::First;
            for line in rows.first..rows.first + rows.len {
                for at in columns.first..columns.first + columns.len {
                    let value = V::load_lanes(from.add(line * x.strides[2] + at * x.strides[3]), lanes);
                    if !begun {
                        // The first one counts even if it is minus infinity.
                        (best, begun) = (value, true);
                        indices = V::splat(T::from_f64((line * shape.input[1] + at) as f64));
                    } else if index.is_some() {
                        let own = V::splat(T::from_f64((line * shape.input[1] + at) as f64));
                        indices = value.where_larger(best, own, indices);
                        best = value.where_larger(best, value, best);
                    } else {
                        best = best.lanewise(Lanewise::Max, value);
                    }
                }
                let now = (zero == Zero::AfterRow && line == rows.first)
                    || (zero == Zero::ChannelsLast && line + 1 == rows.first + rows.len);
                if now {
                    indices = V::zero().where_larger(best, none, indices);
                    best = best.lanewise(Lanewise::Max, V::zero());
                }
            }
            (best, indices)
        }
    }

    /// The means of a window in some channels.
    #[inline(always)]
    unsafe fn mean<V: Vector<Scalar = T>>(
        &self,
        from: *const T,
        rows: Span,
        columns: Span,
        lanes: V::Lanes,
    ) -> V {
        let PoolPlan { shape, x, .. } = &self.pool;
        // SAFETY: the positions of spans are inside x.
        unsafe {
            let mut sums = V::zero();
            for line in rows.first..rows.first + rows.len {
                for at in columns.first..columns.first + columns.len {
                    let value =
                        V::load_lanes(from.wrapping_add(line * x.strides[2] + at * x.strides[3]), lanes);
                    sums = sums.lanewise(Lanewise::Add, value);
                }
            }
            sums.lanewise(Lanewise::Div, V::splat(shape.divisor(&rows, &columns)))
        }
    }
}
