//! Forward: the result, and the statistics if they are outputs.

use half::{bf16, f16};
use hipdnn_plugin_sdk::graph::DataType;

use crate::kernel::{Facts, Kernel, Refusal};
use crate::norm::loops;
use crate::norm::loops::Normalized;
use crate::norm::rows::{Fused, leading_strides, per_element, per_row};
use crate::norm::statistics::{EXACT, statistics};
use crate::pointwise::NEAR;
use crate::problem::normalization as problem;
use crate::problem::normalization::Spread;
use crate::simd::array::Each;
use crate::simd::convert::same;
use crate::simd::isa::Isa;
use crate::simd::stored::Stored;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::loop_nest::{Elements, LoopNest};
use crate::tensor::row::Row;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::tensor::view::{Memory, Pointers};
use crate::threading::partition::{Threads, Workers};

/// How many rows are computed together.
const TOGETHER: usize = 4;

/// How rows are read and written.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    /// In place: contiguous values of the compute type.
    InPlace,
    /// In place: contiguous 16-bit floats of this type, converted in registers.
    Half,
    Bfloat16,
    /// Copied.
    Copied,
}

/// A planned forward normalization.
pub(crate) struct Forward<T> {
    isa: Isa,
    workers: Workers,
    /// Elements of a row.
    len: usize,
    centered: bool,
    /// The offsets of the rows in x, y, mean and inverse.
    rows: LoopNest<4>,
    x: Row<T>,
    y: Row<T>,
    scale: Row<T>,
    bias: Option<Row<T>>,
    epsilon: Memory<T>,
    mean: Option<Memory<T>>,
    inverse: Option<Memory<T>>,
    access: Access,
    /// How many rows a worker computes together.
    together: usize,
    fused: Fused,
}

/// Whether no two rows overlap in memory.
fn are_disjoint(dims: &[usize], strides: &[usize], leading: usize) -> bool {
    let used = |range: std::ops::Range<usize>| range.filter(|axis| dims[*axis] > 1).map(|axis| strides[axis]);
    let nearest = used(0..leading).min().unwrap_or(usize::MAX);
    used(leading..dims.len()).all(|stride| stride < nearest)
}

impl<T: Float + Stored> Forward<T> {
    pub(crate) fn plan(
        p: &problem::Forward,
        isa: Isa,
        threads: Threads,
        fused: Fused,
    ) -> Result<Self, Refusal> {
        let (dims, leading) = (p.x.layout.dims(), p.leading);
        let (xs, ys) = (p.x.layout.strides(), p.y.layout.strides());
        let inner = &dims[leading..];
        let row = |slot, data_type, strides: &[usize]| {
            Row::<T>::of(slot, data_type, inner, &xs[leading..], &strides[leading..dims.len()])
        };
        let parameter = |part: &Spread| row(part.slot, part.data_type, &part.strides);
        let (x, y) = (row(p.x.slot, p.x.data_type, xs)?, row(p.y.slot, p.y.data_type, ys)?);
        let is_fused = fused.prologue.is_some() || fused.epilogue.is_some();
        if is_fused && !are_disjoint(dims, ys, leading) {
            return Err("rows that overlap in memory".to_owned());
        }
        let rows = LoopNest::new(
            &dims[..leading],
            [
                &xs[..leading],
                &ys[..leading],
                leading_strides(p.mean.as_ref(), leading),
                leading_strides(p.inverse.as_ref(), leading),
            ],
            // Prologue and epilogue number elements in y's order.
            usize::from(is_fused),
        );
        let (len, count) = (inner.iter().product::<usize>(), rows.runs() * rows.len);
        // Converting x twice only pays with vector conversions.
        let are_runs = x.is_run() && y.is_run() && isa != Isa::Portable && len <= EXACT;
        let access = match (p.x.data_type, p.y.data_type) {
            _ if x.direct && y.direct => Access::InPlace,
            (DataType::Half, DataType::Half) if are_runs && same::<T, f32>() => Access::Half,
            (DataType::Bfloat16, DataType::Bfloat16) if are_runs && same::<T, f32>() => Access::Bfloat16,
            _ => Access::Copied,
        };
        let own = if access == Access::Copied { 3.0 * per_element(false) } else { 0.15 };
        let others: f64 =
            [&fused.prologue, &fused.epilogue].into_iter().flatten().map(|epilogue| epilogue.time()).sum();
        let work = (own + others) * len as f64 * count as f64;
        Ok(Self {
            isa,
            workers: threads.workers(work, count),
            len,
            centered: p.centered,
            rows,
            x,
            y,
            scale: parameter(&p.scale)?,
            bias: p.bias.as_ref().map(parameter).transpose()?,
            epsilon: Memory::of_scalar("epsilon", &p.epsilon)?,
            mean: per_row(dims, p.mean.as_ref())?,
            inverse: per_row(dims, p.inverse.as_ref())?,
            access,
            // Copies must stay in the L1 cache.
            together: if access != Access::Copied || len <= EXACT { TOGETHER } else { 1 },
            fused,
        })
    }

    /// Elements of a worker's buffer: copied rows, or one row whose statistics are computed again.
    fn buffer(&self) -> usize {
        match self.access {
            Access::InPlace => 0,
            Access::Half | Access::Bfloat16 => self.len,
            Access::Copied => self.len * self.together,
        }
    }

    /// Offsets of the areas for scale, bias, and each worker's buffer; empty if all tensors are in place.
    fn layout(&self, scratch: &mut Scratch) -> [usize; 3] {
        let needed = |direct: bool| if direct { 0 } else { self.len };
        let bias = self.bias.as_ref().is_none_or(|bias| bias.direct);
        [
            scratch.area::<T>(needed(self.scale.direct), 1),
            scratch.area::<T>(needed(bias), 1),
            scratch.area::<T>(self.buffer(), self.workers.count()),
        ]
    }
}

impl<T: Float + Stored> Kernel for Forward<T> {
    fn facts(&self) -> Facts {
        Facts::new("row by row", self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let [scale_at, bias_at, rows_at] = self.layout(&mut Scratch::default());
        // SAFETY: this function requires the tensors and the scratch memory, which has an area for each parameter.
        let (scale, bias, epsilon) = unsafe {
            let scale = self.scale.values(tensors, 0, scratch.wrapping_add(scale_at).cast());
            let bias = self
                .bias
                .as_ref()
                .map(|bias| bias.values(tensors, 0, scratch.wrapping_add(bias_at).cast()).cast_mut());
            (scale, bias, self.epsilon.get(Pointers::new(tensors), 0).to_f64())
        };
        let shared = (
            Tensors(tensors),
            Shared([
                scale.cast_mut().cast(),
                bias.unwrap_or(std::ptr::null_mut()).cast(),
                scratch.wrapping_add(rows_at),
            ]),
        );
        self.workers.run(|worker| {
            let [scale, bias, buffers] = [0, 1, 2].each(|i| shared.1.get(i).cast::<T>());
            let task = Task {
                by: self,
                tensors: shared.0.all(),
                rows: self.workers.share(worker, self.rows.runs() * self.rows.len),
                epsilon,
                scale,
                bias: self.bias.is_some().then_some(bias.cast_const()),
                buffer: buffers.wrapping_add(worker * Scratch::padded::<T>(self.buffer())),
            };
            // SAFETY: the processor supports the instruction set, and workers have their own rows and
            // buffers.
            unsafe { self.isa.run_vectors(task) };
        });
    }
}

/// Some rows.
struct Task<'a, T> {
    by: &'a Forward<T>,
    tensors: &'a [*mut u8],
    rows: std::ops::Range<usize>,
    epsilon: f64,
    scale: *const T,
    bias: Option<*const T>,
    buffer: *mut T,
}

impl<T: Float + Stored> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        // SAFETY: the processor has the vector's instructions; the plan chose the access by the dtype of the rows.
        unsafe {
            match self.by.access {
                // Other cases are never planned, so no code is needed for them.
                Access::Half if V::ISA != Isa::Portable && same::<T, f32>() => self.all::<f16, V>(),
                Access::Bfloat16 if V::ISA != Isa::Portable && same::<T, f32>() => self.all::<bf16, V>(),
                _ => self.all::<T, V>(),
            }
        }
    }
}

impl<T: Float + Stored> Task<'_, T> {
    /// Computes all rows, which have this dtype or are copied.
    ///
    /// # Safety
    /// As [`VectorTask::run`].
    #[inline(always)]
    unsafe fn all<S: Stored, V: Vector<Scalar = T>>(&self) {
        let Forward { len, together, ref fused, .. } = *self.by;
        let mut rows = Elements::new(&self.by.rows, self.rows.clone());
        // The progress of prologue, normalization and epilogue, in rows.
        let (mut made, mut done, mut finished) = (self.rows.start, self.rows.start, self.rows.start);
        while done < self.rows.end {
            // SAFETY: the processor has the instructions, as this function requires; the offsets are those of
            // rows of the tensors, which have `len` elements, as have the parameters.
            unsafe {
                if let Some(prologue) = &fused.prologue
                    && made == done
                {
                    made = (made + (NEAR / len).max(TOGETHER)).min(self.rows.end);
                    prologue.run_on_range(self.tensors, done * len..made * len);
                }
                let there = if fused.prologue.is_some() { made } else { self.rows.end };
                if together == TOGETHER && there - done >= TOGETHER {
                    self.some::<S, V, TOGETHER>(&mut rows);
                    done += TOGETHER;
                } else {
                    self.some::<S, V, 1>(&mut rows);
                    done += 1;
                }
                if let Some(epilogue) = &fused.epilogue
                    && ((done - finished) * len >= NEAR || done == self.rows.end)
                {
                    epilogue.run_on_range(self.tensors, finished * len..done * len);
                    finished = done;
                }
            }
        }
    }

    /// Computes the next rows.
    ///
    /// # Safety
    /// As [`Task::all`].
    #[inline(always)]
    unsafe fn some<S: Stored, V: Vector<Scalar = T>, const ROWS: usize>(&self, rows: &mut Elements<'_, 4>) {
        let Forward { len, centered, ref x, ref y, ref mean, ref inverse, access, .. } = *self.by;
        let nowhere = self.buffer.cast::<S>();
        let none = Normalized { x: nowhere.cast_const(), mean: T::ZERO, inverse: T::ZERO, y: nowhere };
        let (mut normalized, mut offsets) = ([none; ROWS], [[0; 4]; ROWS]);
        let (mut from, mut buffers) = ([nowhere.cast_const(); ROWS], [self.buffer; ROWS]);
        for i in 0..ROWS {
            let Some(of_row) = rows.next() else { return };
            offsets[i] = of_row;
            // SAFETY: x has the row, and the buffer room for it if it is copied.
            unsafe {
                if access == Access::Copied {
                    buffers[i] = self.buffer.wrapping_add(i * len);
                    from[i] = x.values(self.tensors, of_row[0], buffers[i]).cast();
                } else {
                    from[i] = x.first(self.tensors, of_row[0]).cast_const().cast();
                }
            }
        }
        // SAFETY: the rows have `len` elements, and the buffer room for as many.
        let found = unsafe { statistics::<S, V, ROWS>(&from, len, centered, self.epsilon, self.buffer) };
        for (i, row) in normalized.iter_mut().enumerate() {
            let [_, y_at, mean_at, inverse_at] = offsets[i];
            row.x = from[i];
            // SAFETY: y has the row, and the statistics an element for it.
            unsafe {
                row.y = match access {
                    Access::Copied => y.target(self.tensors, y_at, buffers[i]).cast(),
                    _ => y.first(self.tensors, y_at).cast(),
                };
                [row.mean, row.inverse] = found[i].each(T::from_f64);
                for (output, at, value) in [(mean, mean_at, row.mean), (inverse, inverse_at, row.inverse)] {
                    if let Some(output) = output {
                        output.set(Pointers::new(self.tensors), at, value);
                    }
                }
            }
        }
        // SAFETY: the rows, scale and bias have `len` elements; copied results go to their own rows.
        unsafe {
            loops::normalize::<S, V, ROWS>(&normalized, self.scale, self.bias, len);
            if access == Access::Copied {
                for ([_, y_at, ..], buffer) in offsets.into_iter().zip(buffers) {
                    y.written(self.tensors, y_at, buffer);
                }
            }
        }
    }
}
