//! Reductions: sums, products, extremes and norms along some dimensions.
//!
//! If the fastest dimension is reduced, results are computed one by one ([`rows`]), or short rows are
//! transposed ([`short`]); else many results are computed at once ([`columns`]). Few results of many elements
//! are divided into parts, whose number only depends on the shape.
//!
//! Maxima, minima and sums of up to some thousand values use the compute type; sums of these use double
//! precision, as do products and sums of squares, which may overflow single precision.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod columns;
pub(crate) mod rows;
pub(crate) mod shape;
pub(crate) mod short;
#[cfg(test)]
mod tests;

use hipdnn_plugin_sdk::graph::{DataType, ReductionMode};

use crate::dtype::element::{Compute, ComputeType, Element};
use crate::dtype::sums;
use crate::gemm::pack::pack_of;
use crate::kernel::{Facts, Kernel, Refusal};
use crate::problem::reduction::Reduction;
use crate::reduction::shape::{BUFFER, Shape, Task};
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector, VectorTask, is_common};
use crate::tensor::combine::{Combine, finalized, with_combine};
use crate::tensor::loop_nest::{Elements, LoopNest};
use crate::tensor::row_converter::RowConverter;
use crate::tensor::scratch::{Shared, Tensors};
use crate::threading::partition::Threads;

/// The most parts that the elements of one result are divided into.
const MAX_PARTS: usize = 16;

/// The fewest elements worth a part.
const PART: usize = 1 << 15;

/// The most elements of rows that are transposed.
const SHORT: usize = 32;

/// How many of these are transposed at a time.
const COLUMNS: usize = 2 * BUFFER / SHORT;

/// Plans a reduction for an instruction set.
pub(crate) fn plan(
    reduction: &Reduction,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    use ReductionMode::{Mul, MulNoZeros, Norm2};
    let x = reduction.x.data_type;
    let float = matches!(x, DataType::Float | DataType::Half | DataType::Bfloat16 | DataType::Double);
    let wide = !float || matches!(reduction.mode, Mul | MulNoZeros | Norm2);
    if !holds(reduction, Compute::Double) {
        return Err(format!("in: {} values of {} may exceed double precision", reduction.count, x.name()));
    }
    match compute {
        // The reference rounds these elements to single precision first.
        Compute::Single if wide && x == DataType::Double => {
            Err("in: data type is double, which single precision does not hold".to_owned())
        }
        Compute::Single if wide => plan_in::<f64>(reduction, compute, isa, threads),
        Compute::Single => plan_in::<f32>(reduction, compute, isa, threads),
        Compute::Double => plan_in::<f64>(reduction, compute, isa, threads),
    }
}

/// Whether totals of this type are exact, as they must be for integers.
pub(crate) fn holds(reduction: &Reduction, totals: Compute) -> bool {
    use ReductionMode as M;
    let Some(largest) = sums::largest(reduction.x.data_type) else { return true };
    let count = reduction.count as f64;
    let most = match reduction.mode {
        M::Max | M::Min | M::Amax => largest,
        M::Norm2 => largest * largest * count,
        M::Mul | M::MulNoZeros => largest.powf(count),
        M::Add | M::Avg | M::Norm1 | M::NotSet => largest * count,
    };
    most <= sums::most(totals)
}

/// Plans a reduction with totals of type `T`.
fn plan_in<T: Float>(
    reduction: &Reduction,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    let (x, y) = (&reduction.x, &reduction.y);
    let run = RowConverter::<T>::of_number(x.data_type)?;
    // Elements smaller than a byte cannot be written by several threads.
    RowConverter::<f64>::of_number(y.data_type)?;
    let (dims, strides) = (x.layout.dims(), x.layout.strides());
    // Dimensions of the other kind count as 1.
    let nest_over = |reduced: bool| {
        let mut own = [1; crate::layout::MAX_RANK];
        for (axis, dim) in dims.iter().enumerate() {
            if reduction.reduced[axis] == reduced {
                own[axis] = *dim;
            }
        }
        // All elements of a result go to the same element of y, so its strides must not prevent merging the
        // loops over them.
        let y_strides =
            if reduced { &[0; crate::layout::MAX_RANK][..dims.len()] } else { y.layout.strides() };
        LoopNest::new(&own[..dims.len()], [strides, y_strides], 0)
    };
    let (kept, reduced) = (nest_over(false), nest_over(true));
    // If results are items of a batch, the order of sums must not follow from how many there are.
    let is_invariant = threads.batch_invariant;
    let nearest = (0..dims.len()).filter(|axis| dims[*axis] > 1).min_by_key(|axis| strides[*axis]);
    let by_rows = nearest.is_none_or(|axis| reduction.reduced[axis]);
    let outputs = kept.runs() * kept.len;
    // Short rows are transposed, so that many are reduced at once.
    let are_many = kept.len >= SHORT || is_invariant;
    let is_short = is_common(isa) && by_rows && reduction.count <= SHORT && are_many && reduced.runs() == 1;
    let pack = if is_short { pack_of("in", x.data_type).ok() } else { None };
    let is_short = pack.is_some();
    let by_rows = by_rows && !is_short;
    let block = if is_short { COLUMNS } else { BUFFER };
    let tasks = if by_rows { outputs } else { kept.runs() * kept.len.div_ceil(block) };
    let inner = if by_rows { reduced.inner_strides[0] } else { kept.inner_strides[0] };
    let direct = run.same && inner == 1;
    let widens = !run.same && inner == 1 && x.data_type == DataType::Float;
    let elements = outputs as f64 * reduction.count as f64;
    let (of_parts, of_tasks) = if is_invariant { (1, 1) } else { (outputs, tasks) };
    let parts = (of_parts.saturating_mul(reduction.count) / PART)
        .min(MAX_PARTS.div_ceil(of_tasks))
        .min(if is_short { 1 } else { reduction.count })
        .max(1);
    let work = elements * if direct || widens { 0.15 } else { 1.0 } + tasks as f64 * 10.0;
    // Integers are rounded once, to y's type; means and norms are not integers.
    let is_whole = !matches!(reduction.mode, ReductionMode::Avg | ReductionMode::Norm2)
        && sums::largest(x.data_type).is_some();
    let shape = Shape {
        isa,
        workers: threads.workers(work, tasks * parts),
        mode: reduction.mode,
        count: reduction.count,
        x_slot: x.slot,
        run,
        by_rows,
        pack,
        block,
        direct,
        widens,
        y_slot: y.slot,
        compute: if is_whole { Compute::Double } else { compute },
        y_single: Element::of(y.data_type)?,
        y_double: Element::of(y.data_type)?,
        kept,
        reduced,
        outputs,
        tasks,
        parts,
    };
    Ok(Box::new(shape))
}

impl<T: Float> Kernel for Shape<T> {
    fn facts(&self) -> Facts {
        let name = match (self.by_rows, self.pack.is_some()) {
            (true, _) => "row by row",
            (false, true) => "short rows",
            (false, false) => "columns",
        };
        Facts::new(name, self.workers.threads())
    }

    /// Bytes of the partial results.
    fn scratch_size(&self) -> usize {
        if self.parts == 1 { 0 } else { self.parts * self.outputs * size_of::<f64>() }
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let shared = (Tensors(tensors), Shared([scratch]));
        self.workers.run(|worker| {
            let tasks = self.workers.share(worker, self.tasks * self.parts);
            let scratch = shared.1.get(0).cast();
            // SAFETY: the processor supports the instruction set; the caller promises tensors and
            // scratch memory, and each worker has its own tasks.
            unsafe { self.isa.run_vectors(Task { shape: self, tensors: shared.0.all(), scratch, tasks }) };
        });
        // SAFETY: the workers have written all totals.
        unsafe {
            with_combine!(self.mode, J => self.finish::<J>(tensors[self.y_slot], scratch.cast()));
        }
    }
}

impl<T: Float> VectorTask<T> for Task<'_, T> {
    type Output = ();

    // Totals of single precision, too.
    const HAS_WIDE_DOUBLES: bool = true;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        // SAFETY: the processor has the vector's instructions, as this function requires.
        unsafe { with_combine!(self.shape.mode, J => self.combine::<V, J>()) };
    }
}

impl<T: Float> Task<'_, T> {
    /// Computes the results in the way that was planned.
    ///
    /// # Safety
    /// As [`VectorTask::run`].
    #[inline(always)]
    unsafe fn combine<V: Vector<Scalar = T>, J: Combine>(&self) {
        if const { J::IS_WIDE && size_of::<T>() < size_of::<f64>() } {
            unreachable!("totals that may exceed single precision are planned in double precision");
        }
        // SAFETY: the processor has the vector's instructions, as this function requires.
        unsafe {
            if const { is_common(V::ISA) } && self.shape.pack.is_some() {
                self.short_rows::<V, J>();
            } else if self.shape.by_rows {
                self.rows::<V, J>();
            } else {
                self.columns::<V, J>();
            }
        }
    }

    /// Stores partial results, or the results if there is one part, each with its offset in y. Not inlined, so that all loops
    /// share it.
    ///
    /// # Safety
    /// The tensors and the scratch memory are those of a run; the second of each offsets is that of a result, the first of which
    /// has the index `output`.
    #[inline(never)]
    unsafe fn put_each<S: ComputeType>(
        &self,
        part: usize,
        output: usize,
        offsets: &[[usize; 2]],
        totals: &[S],
    ) {
        for (i, (total, [_, y_at])) in totals.iter().zip(offsets).enumerate() {
            // SAFETY: y has the element, and the scratch memory a total for each part.
            unsafe { self.put_one(part, (output + i, *y_at), total.to_f64()) };
        }
    }

    /// The same for results with this stride in y.
    ///
    /// # Safety
    /// The tensors and the scratch memory are those of a run; `y_at` is the offset of the first result, whose index is `output`.
    #[inline(never)]
    unsafe fn put<S: ComputeType>(
        &self,
        part: usize,
        (output, y_at): (usize, usize),
        stride: usize,
        totals: &[S],
    ) {
        for (i, total) in totals.iter().enumerate() {
            // SAFETY: y has the element, and the scratch memory a total for each part.
            unsafe { self.put_one(part, (output + i, y_at + i * stride), total.to_f64()) };
        }
    }

    /// # Safety
    /// As [`Task::put`], for one result.
    #[inline(always)]
    unsafe fn put_one(&self, part: usize, (output, y_at): (usize, usize), total: f64) {
        let shape = self.shape;
        // SAFETY: this function requires the element of y, or the scratch memory.
        unsafe {
            if shape.parts == 1 {
                shape.store(self.tensors[shape.y_slot], y_at, total);
            } else {
                self.scratch.add(part * shape.outputs + output).write(total);
            }
        }
    }
}

impl<T: Float> Shape<T> {
    /// A part of one result's elements.
    fn part(&self, part: usize) -> std::ops::Range<usize> {
        self.count * part / self.parts..self.count * (part + 1) / self.parts
    }

    /// Writes a result, rounded to the compute type first.
    ///
    /// # Safety
    /// `y` is that of a run, and `y_at` is inside it.
    #[inline(always)]
    unsafe fn store(&self, y: *mut u8, y_at: usize, total: f64) {
        let result = finalized(self.mode, total, self.count);
        // SAFETY: the element is valid, as this function requires.
        unsafe {
            match self.compute {
                Compute::Single => self.y_single.store(y, y_at, result as f32),
                Compute::Double => self.y_double.store(y, y_at, result),
            }
        }
    }

    /// Combines the partial results.
    ///
    /// # Safety
    /// As [`Task::put`]; all totals are written.
    unsafe fn finish<J: Combine>(&self, y: *mut u8, scratch: *const f64) {
        if self.parts == 1 {
            return;
        }
        let mut at = Elements::new(&self.kept, 0..self.outputs);
        let mut output = 0;
        while let Some([_, y_at]) = at.next() {
            let mut total = J::start::<f64>();
            for part in 0..self.parts {
                // SAFETY: the totals are valid, as this function requires.
                total = J::merge(total, unsafe { scratch.add(part * self.outputs + output).read() });
            }
            // SAFETY: `kept` yields the offsets of y's elements, one for each output.
            unsafe { self.store(y, y_at, total) };
            output += 1;
        }
    }
}
