//! Backward: the gradients of the input and of the parameters.

use hipdnn_plugin_planner::in_own_frame;

use crate::kernel::{Facts, Kernel, Refusal};
use crate::norm::loops;
use crate::norm::loops::Gradient;
use crate::norm::rows::{leading_strides, per_element, per_row};
use crate::norm::statistics::{EXACT, statistics};
use crate::problem::normalization as problem;
use crate::problem::normalization::{Spread, Statistics};
use crate::simd::isa::Isa;
use crate::simd::stored::Stored;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::loop_nest::{Elements, LoopNest};
use crate::tensor::row::Row;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::tensor::view::{Memory, Pointers};
use crate::threading::partition::{Threads, Workers};

/// How many rows' contributions to the parameters' gradients are summed in the compute type before they are
/// added in double precision.
const EXACT_ROWS: usize = 256;

/// The most elements of all workers' sums together.
const MAX_SUMS: usize = 4 << 20;

/// The source of the statistics.
enum Source<T> {
    Saved { mean: Option<Memory<T>>, inverse: Memory<T> },
    Computed { epsilon: Memory<T> },
}

/// A planned backward normalization.
pub(crate) struct Backward<T> {
    isa: Isa,
    workers: Workers,
    /// Elements of a row.
    len: usize,
    centered: bool,
    /// The offsets of the rows in dy, x, dx, mean and inverse.
    rows: LoopNest<5>,
    dy: Box<Row<T>>,
    x: Box<Row<T>>,
    dx: Box<Row<T>>,
    scale: Box<Row<T>>,
    dscale: Box<Row<T>>,
    dbias: Option<Box<Row<T>>>,
    source: Source<T>,
}

impl<T: Float + Stored> Backward<T> {
    pub(crate) fn plan(p: &problem::Backward, isa: Isa, threads: Threads) -> Result<Self, Refusal> {
        let (dims, leading) = (p.x.layout.dims(), p.leading);
        let xs = p.x.layout.strides();
        let inner = &dims[leading..];
        let row = |slot, data_type, strides: &[usize]| {
            in_own_frame(|| {
                let strides = &strides[leading..dims.len()];
                Row::<T>::of(slot, data_type, inner, &xs[leading..], strides).map(Box::new)
            })
        };
        let parameter = |part: &Spread| row(part.slot, part.data_type, &part.strides);
        let whole = |operand: &crate::problem::Operand| {
            row(operand.slot, operand.data_type, operand.layout.strides())
        };
        let (dy, x, dx) = (whole(&p.dy)?, whole(&p.x)?, whole(&p.dx)?);
        let (saved_mean, saved_inverse) = match &p.statistics {
            Statistics::Saved { mean, inverse } => (mean.as_ref(), Some(inverse)),
            Statistics::Computed(_) => (None, None),
        };
        let source = match (per_row(dims, saved_inverse)?, &p.statistics) {
            (Some(inverse), _) => Source::Saved { mean: per_row(dims, saved_mean)?, inverse },
            (None, Statistics::Computed(epsilon)) => {
                Source::Computed { epsilon: Memory::of_scalar("epsilon", epsilon)? }
            }
            (None, Statistics::Saved { .. }) => return Err("inverse: absent, expected a tensor".to_owned()),
        };
        let rows = LoopNest::new(
            &dims[..leading],
            [
                &p.dy.layout.strides()[..leading],
                &xs[..leading],
                &p.dx.layout.strides()[..leading],
                leading_strides(saved_mean, leading),
                leading_strides(saved_inverse, leading),
            ],
            1,
        );
        let (len, count) = (inner.iter().product::<usize>(), rows.runs() * rows.len);
        let direct = dy.direct && x.direct && dx.direct;
        let work = 6.0 * per_element(direct) * len as f64 * count as f64;
        // Each worker's sums must be added to the others', which does not pay for a few rows.
        let parts = count.div_ceil(8).min(MAX_SUMS / len.max(1)).max(1);
        Ok(Self {
            isa,
            workers: threads.workers_for_reduction(work, parts),
            len,
            centered: p.centered,
            rows,
            dy,
            x,
            dx,
            scale: parameter(&p.scale)?,
            dscale: parameter(&p.dscale)?,
            dbias: p.dbias.as_ref().map(parameter).transpose()?,
            source,
        })
    }

    /// Offsets of the areas: scale, and for each worker the gradients of scale and bias in double precision,
    /// those of a few rows, a row of x and dx, and a row of dy.
    fn layout(&self, scratch: &mut Scratch) -> [usize; 5] {
        let workers = self.workers.count();
        let needed = |direct: bool| if direct { 0 } else { self.len };
        [
            scratch.area::<T>(needed(self.scale.direct), 1),
            scratch.area::<f64>(2 * self.len, workers),
            scratch.area::<T>(2 * self.len, workers),
            scratch.area::<T>(needed(self.x.direct && self.dx.direct), workers),
            scratch.area::<T>(needed(self.dy.direct), workers),
        ]
    }

    /// Adds the workers' sums for the gradient of a parameter, and writes it.
    ///
    /// # Safety
    /// The workers have written their totals; `which` is 0 for scale and 1 for bias; `buffer` has room for a row.
    unsafe fn finish(
        &self,
        row: &Row<T>,
        which: usize,
        tensors: &[*mut u8],
        totals: *const f64,
        buffer: *mut T,
    ) {
        let worker_stride = Scratch::padded::<f64>(2 * self.len);
        // SAFETY: the totals and tensors are valid, as this function requires.
        unsafe {
            let to = row.target(tensors, 0, buffer);
            for i in 0..self.len {
                let mut total = 0.0;
                for worker in 0..self.workers.count() {
                    total += totals.add(worker * worker_stride + which * self.len + i).read();
                }
                to.add(i).write_unaligned(T::from_f64(total));
            }
            row.written(tensors, 0, buffer);
        }
    }
}

impl<T: Float + Stored> Kernel for Backward<T> {
    fn facts(&self) -> Facts {
        Facts::new("row by row", self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let [scale_at, totals_at, sums_at, x_at, dy_at] = self.layout(&mut Scratch::default());
        let len = self.len;
        // SAFETY: this function requires the tensors and the scratch memory, which has an area for the scale.
        let scale = unsafe { self.scale.values(tensors, 0, scratch.wrapping_add(scale_at).cast()) };
        let shared = (Tensors(tensors), Shared([scratch, scale.cast_mut().cast()]));
        self.workers.run(|worker| {
            let area = |at: usize, bytes: usize| shared.1.get(0).wrapping_add(at + worker * bytes);
            let row = Scratch::padded::<T>(len) * size_of::<T>();
            let task = Task {
                by: self,
                tensors: shared.0.all(),
                rows: self.workers.share(worker, self.rows.runs() * self.rows.len),
                scale: shared.1.get(1).cast::<T>(),
                totals: area(totals_at, Scratch::padded::<f64>(2 * len) * size_of::<f64>()).cast(),
                sums: area(sums_at, Scratch::padded::<T>(2 * len) * size_of::<T>()).cast(),
                x: area(x_at, row).cast(),
                dy: area(dy_at, row).cast(),
            };
            // SAFETY: the processor supports the instruction set, and workers have their own rows, sums and
            // buffers.
            unsafe { self.isa.run_vectors(task) };
        });
        // SAFETY: every worker has written its totals, and the sums are no longer used.
        unsafe {
            let (totals, buffer) = (scratch.add(totals_at).cast(), scratch.add(sums_at).cast());
            self.finish(&self.dscale, 0, tensors, totals, buffer);
            if let Some(dbias) = &self.dbias {
                self.finish(dbias, 1, tensors, totals, buffer);
            }
        }
    }
}

/// Some rows.
struct Task<'a, T> {
    by: &'a Backward<T>,
    tensors: &'a [*mut u8],
    rows: std::ops::Range<usize>,
    scale: *const T,
    totals: *mut f64,
    sums: *mut T,
    x: *mut T,
    dy: *mut T,
}

impl<T: Float + Stored> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let len = self.by.len;
        // SAFETY: this function requires the instructions; each element of a row has two totals and two sums.
        unsafe {
            for i in 0..2 * len {
                self.totals.add(i).write(0.0);
            }
            let mut from = self.rows.start;
            while from < self.rows.end {
                let end = self.rows.end.min(from + EXACT_ROWS);
                for i in 0..2 * len {
                    self.sums.add(i).write(T::ZERO);
                }
                self.rows::<V>(from..end);
                for i in 0..2 * len {
                    let total = self.totals.add(i);
                    total.write(total.read() + self.sums.add(i).read().to_f64());
                }
                from = end;
            }
        }
    }
}

impl<T: Float + Stored> Task<'_, T> {
    /// Writes dx of some rows, and adds their contribution to the sums.
    ///
    /// # Safety
    /// The processor has the vector's instructions; tensors, sums and buffers are those of a run.
    #[inline(always)]
    unsafe fn rows<V: Vector<Scalar = T>>(&self, rows: std::ops::Range<usize>) {
        let Backward { len, centered, .. } = *self.by;
        let n = len as f64;
        let mut rows = Elements::new(&self.by.rows, rows);
        while let Some([dy_at, x_at, dx_at, mean_at, inverse_at]) = rows.next() {
            // SAFETY: this function requires the tensors.
            let tensors = unsafe { Pointers::new(self.tensors) };
            // SAFETY: x and dy have the rows, with buffers if they are copied.
            let (x, dy) = unsafe {
                (
                    self.by.x.values(self.tensors, x_at, self.x),
                    self.by.dy.values(self.tensors, dy_at, self.dy),
                )
            };
            let [mean, inverse] = match &self.by.source {
                Source::Saved { mean, inverse } => [
                    mean.map_or(0.0, |mean| mean.get(tensors, mean_at).to_f64()),
                    inverse.get(tensors, inverse_at).to_f64(),
                ],
                Source::Computed { epsilon } => {
                    let epsilon = epsilon.get(tensors, 0).to_f64();
                    let nowhere = std::ptr::null_mut();
                    // SAFETY: the row has `len` elements of the compute type, which need no buffer.
                    let [found] = unsafe { statistics::<T, V, 1>(&[x], len, centered, epsilon, nowhere) };
                    found
                }
            };
            let rounded = T::from_f64(mean);
            let (mut sum, mut product) = (0.0, 0.0);
            let mut at = 0;
            while at < len {
                let part = EXACT.min(len - at);
                // SAFETY: the part ends at most at `len`, up to which the rows and the scale have elements.
                let [one, other] = unsafe {
                    loops::gradient_sums::<V>([dy.add(at), self.scale.add(at), x.add(at)], rounded, part)
                };
                sum += one.to_f64();
                product += other.to_f64();
                at += part;
            }
            if !(sum.is_finite() && product.is_finite()) {
                // SAFETY: the rows and the scale have `len` elements.
                [sum, product] = unsafe { loops::gradient_sums_in_double([dy, self.scale, x], rounded, len) };
            }
            let by = Gradient {
                mean: rounded,
                inverse: T::from_f64(inverse),
                bias: T::from_f64(if centered { sum / n } else { 0.0 }),
                slope: T::from_f64(inverse * inverse * product / n),
            };
            // SAFETY: dx has the row, with a buffer if it is copied; each element of a row has two sums.
            unsafe {
                let sums = [self.sums, self.sums.add(len)];
                let dx = self.by.dx.target(self.tensors, dx_at, self.x);
                loops::gradient::<V>([dy, self.scale, x], &by, dx, sums, len);
                self.by.dx.written(self.tensors, dx_at, self.x);
            }
        }
    }
}
