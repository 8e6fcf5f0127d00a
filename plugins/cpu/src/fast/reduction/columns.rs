//! Many results at once: their elements lie side by side.

use super::super::level::VectorWork;
use super::super::nest::Elements;
use super::super::real::FastReal;
use super::super::scratch::{Shared, Tensors};
use super::super::vector::Vector;
use super::join::{Join, across};
use super::{BUFFER, Shape, with_join};
use crate::kernel::Kernel;

/// Rows whose totals are in their own type, before they are joined with others in double precision.
const EXACT_ROWS: usize = 256;

/// A reduction of columns.
pub(super) struct Columns<T, R>(pub(super) Shape<T, R>);

impl<T: FastReal, R: FastReal> Kernel for Columns<T, R> {
    fn scratch_size(&self) -> usize {
        self.0.scratch_size()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let shape = &self.0;
        let shared = (Tensors(tensors), Shared([scratch]));
        shape.lanes.run(|lane| {
            let tasks = shape.lanes.share(lane, shape.tasks * shape.parts);
            let scratch = shared.1.get(0).cast();
            // SAFETY: the level is the processor's; the caller promises tensors and scratch memory, and each lane has its own tasks.
            unsafe { shape.level.run_vectors(Work { shape, tensors: shared.0.all(), scratch, tasks }) };
        });
        // SAFETY: the lanes have written all totals.
        unsafe {
            with_join!(shape.mode, J => shape.finish::<J>(tensors[shape.y_slot], scratch.cast()));
        }
    }
}

/// Some blocks of columns, or parts of them.
struct Work<'a, T, R> {
    shape: &'a Shape<T, R>,
    tensors: &'a [*mut u8],
    scratch: *mut f64,
    tasks: std::ops::Range<usize>,
}

impl<T: FastReal, R: FastReal> VectorWork<T> for Work<'_, T, R> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) {
        // SAFETY: the caller promises the instructions.
        unsafe { with_join!(self.shape.mode, J => self.tasks::<V, J>()) };
    }
}

impl<T: FastReal, R: FastReal> Work<'_, T, R> {
    /// # Safety
    /// The processor has the vector's instructions; tensors and scratch memory are those of a run.
    #[inline(always)]
    unsafe fn tasks<V: Vector<Number = T>, J: Join>(&self) {
        let shape = self.shape;
        let (kept, size) = (&shape.kept, shape.run.size);
        let (x, y) = (self.tensors[shape.x_slot], self.tensors[shape.y_slot]);
        let blocks = kept.len.div_ceil(BUFFER);
        let mut totals = [0.0; BUFFER];
        let mut sums = [T::ZERO; BUFFER];
        let mut buffer = [T::ZERO; BUFFER];
        for task in self.tasks.clone() {
            let (block, part) = (task / shape.parts, task % shape.parts);
            let (run, first) = (block / blocks, block % blocks * BUFFER);
            let len = BUFFER.min(kept.len - first);
            let [x_at, y_at] = kept.place(run).offsets;
            let base = x_at + first * kept.apart[0];
            totals[..len].fill(J::start::<f64>());
            let part_of = shape.part(part);
            let mut from = part_of.start;
            while from < part_of.end {
                let end = part_of.end.min(from + EXACT_ROWS);
                sums[..len].fill(J::start::<T>());
                let mut rows = Elements::new(&shape.reduced, from..end);
                while let Some([row, _]) = rows.next() {
                    // SAFETY: the elements are those of the block's results, no more at once than the buffer has room for.
                    unsafe {
                        let from = x.add((base + row) * size);
                        let numbers = if shape.direct {
                            from.cast_const().cast::<T>()
                        } else {
                            (shape.run.load)(from, kept.apart[0], buffer.as_mut_ptr(), len);
                            buffer.as_ptr()
                        };
                        across::<V, J>(numbers, sums.as_mut_ptr(), len);
                    }
                }
                for (total, sum) in totals[..len].iter_mut().zip(&sums) {
                    *total = J::merge(*total, sum.to_f64());
                }
                from = end;
            }
            for (column, total) in totals[..len].iter().enumerate() {
                let place = (run * kept.len + first + column, y_at + (first + column) * kept.apart[1]);
                // SAFETY: the place is that of the result.
                unsafe { shape.put(y, self.scratch, part, place, *total) };
            }
        }
    }
}
