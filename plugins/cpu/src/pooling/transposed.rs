//! Channels first with rows too short for vectors: transposes some channels, so that they are adjacent.

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::pack::{Accumulators, Pack, PackSource, Store, pack_of, store_of};
use crate::kernel::Refusal;
use crate::pooling::shape::{COLUMNS, PoolPlan, ROWS, store_indices};
use crate::pooling::windows::{Vectors, Windows};
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, MAX_LANES, Vector};
use crate::tensor::parts::{Part, PartKernel, Parts};
use crate::threading::partition::Threads;

/// The most bytes of the transposed planes, which stay in the L2 cache.
const MOST: usize = 1 << 20;

/// A planned pooling.
pub(crate) struct Transposed<T> {
    pool: PoolPlan<T>,
    /// Elements of a plane of x, and of y.
    planes: [usize; 2],
    pack: Pack<T>,
    store: Store<T>,
    parts: Parts,
}

impl<T: Float> Transposed<T> {
    /// Whether this is faster than row by row.
    pub(crate) fn applies(pool: &PoolPlan<T>) -> bool {
        let PoolPlan { shape, x, y, index, .. } = pool;
        let lanes = if pool.isa == Isa::Portable { 16 } else { 64 } / size_of::<T>();
        let [inputs, outputs] = [shape.input, shape.output].each(|size| size.iter().product::<usize>());
        let fits = (inputs + outputs).saturating_mul(MAX_LANES * size_of::<T>()) <= MOST;
        let few = if index.is_some() { 8 } else { 3 };
        let is_short = 4 * shape.output[COLUMNS] <= few * lanes;
        // A single output per plane is a sum or maximum of a run.
        let is_window = outputs > 1 || index.is_some();
        let are_runs = x.is_run(shape.input) && y.is_run(shape.output);
        fits && is_short && is_window && are_runs && 2 * shape.channels >= lanes
    }

    /// Plans the pooling for the dtypes of x and y.
    pub(crate) fn plan(pool: PoolPlan<T>, types: [DataType; 2], threads: Threads) -> Result<Self, Refusal> {
        let (shape, work) = (pool.shape, pool.work());
        let wanted = Parts::wanted(threads, work).div_ceil(shape.batch);
        let channels = shape.channels.div_ceil(wanted).next_multiple_of(MAX_LANES).min(shape.channels);
        let parts = Parts::new(pool.isa, (threads, work), shape.batch, [shape.channels, 1], [channels, 1]);
        let planes = [shape.input, shape.output].each(|size| size.iter().product());
        let (pack, store) = (pack_of("x", types[0])?, store_of("y", types[1])?);
        Ok(Self { pool, planes, pack, store, parts })
    }
}

impl<T: Float> PartKernel<T, 2> for Transposed<T> {
    const NAME: &'static str = "pooling, channels first";
    const FORM: &'static str = "transposed";

    fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The transposed planes of x and y.
    fn areas(&self) -> [usize; 2] {
        self.planes.each(|plane| plane * MAX_LANES)
    }

    #[inline(always)]
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, 2>) {
        let shape = &self.pool.shape;
        let [from, to] = part.areas;
        let [rows, columns] = [ROWS, COLUMNS].each(|axis| shape.input[axis]);
        let strides = [rows * columns * V::LANES, columns * V::LANES, V::LANES];
        let windows = Windows { from: from.cast_const(), strides, indexed: self.pool.index.is_some() };
        for channel in part.channels.clone().step_by(V::LANES) {
            let channels = [channel, (part.channels.end - channel).min(V::LANES)];
            // SAFETY: the channels are those of the part, and the areas hold the planes of x and y for a vector of them.
            unsafe {
                self.read::<V>(part, channels, from);
                self.planes::<V>(part, &windows, channels, to);
                self.write::<V>(part, channels, to);
            }
        }
    }
}

impl<T: Float> Transposed<T> {
    /// Transposes the planes of x of `count` channels, with zeros in the remaining lanes.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; the channels exist, and `to` is writable for the planes of x.
    #[inline(always)]
    unsafe fn read<V: Vector<Scalar = T>>(
        &self,
        part: &Part<'_, T, 2>,
        [channel, count]: [usize; 2],
        to: *mut T,
    ) {
        let x = &self.pool.x;
        // SAFETY: a plane of x is a run, so its elements are `planes[0]` rows of a matrix whose columns are the channels.
        unsafe {
            let planes = PackSource {
                from: x.at(part.tensors, [part.image, channel, 0, 0, 0]),
                rows: self.planes[0],
                row: 1,
                columns: count,
                column: x.image.strides[1],
                width: V::LANES,
                row_stride: V::LANES,
            };
            (self.pack)(V::ISA, &planes, to);
        }
    }

    /// Stores the planes of y of `count` channels.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; the channels exist, and `from` holds the planes of y.
    #[inline(always)]
    unsafe fn write<V: Vector<Scalar = T>>(
        &self,
        part: &Part<'_, T, 2>,
        [channel, count]: [usize; 2],
        from: *const T,
    ) {
        let y = &self.pool.y;
        let lanes = Accumulators {
            from,
            row_stride: V::LANES,
            rows: self.planes[1],
            columns: count,
            row: 1,
            column: y.image.strides[1],
        };
        // SAFETY: a plane of y is a run, so its elements are `planes[1]` rows of a matrix whose columns are the channels.
        unsafe { (self.store)(V::ISA, &lanes, y.at(part.tensors, [part.image, channel, 0, 0, 0])) };
    }

    /// Computes the planes of `count` channels.
    ///
    /// # Safety
    /// As [`PartKernel::run_part`]; the windows are those of transposed planes, and `to` is writable for the planes of y.
    #[inline(always)]
    unsafe fn planes<V: Vector<Scalar = T>>(
        &self,
        part: &Part<'_, T, 2>,
        windows: &Windows<T>,
        [channel, count]: [usize; 2],
        to: *mut T,
    ) {
        let PoolPlan { shape, index, .. } = &self.pool;
        let columns = shape.output[COLUMNS];
        let whole = Vectors::of_channels(V::LANES, None);
        for row in 0..shape.rows() {
            let lines = shape.lines(row);
            for column in 0..columns {
                let window = (&lines, &shape.span(COLUMNS, column));
                // SAFETY: the element, its window and its indices exist.
                unsafe {
                    let [[value], [indices]] = windows.value::<V, 1>(shape, 0, window, &whole);
                    value.store(to.add((row * columns + column) * V::LANES));
                    if let Some(index) = index {
                        let [depth, row] = shape.place(row);
                        let to = index.at(part.tensors, [part.image, channel, depth, row, column]);
                        store_indices(indices, count, to, index.strides[1]);
                    }
                }
            }
        }
    }
}
