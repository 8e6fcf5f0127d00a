//! Result by result: the elements that become one lie nearest to each other.

use super::super::level::VectorWork;
use super::super::nest::Elements;
use super::super::real::FastReal;
use super::super::scratch::{Shared, Tensors};
use super::super::vector::Vector;
use super::join::{Join, along};
use super::{BUFFER, Shape, with_join};
use crate::kernel::Kernel;

/// Numbers whose total is in the type of the totals, before it is joined with others in double precision.
const EXACT: usize = 4096;

/// A reduction along what lies side by side.
pub(super) struct Rows<T, R>(pub(super) Shape<T, R>);

impl<T: FastReal, R: FastReal> Kernel for Rows<T, R> {
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

/// Some results, or parts of them.
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
        let parts = self.shape.parts;
        // SAFETY: passed on; tasks are numbered result by result.
        unsafe {
            if parts == 1 {
                self.outputs::<V, J>(self.tasks.clone(), 0);
            } else {
                for task in self.tasks.clone() {
                    self.outputs::<V, J>(task / parts..task / parts + 1, task % parts);
                }
            }
        }
    }

    /// Computes a part of some results.
    ///
    /// # Safety
    /// As [`Work::tasks`].
    #[inline(always)]
    unsafe fn outputs<V: Vector<Number = T>, J: Join>(&self, outputs: std::ops::Range<usize>, part: usize) {
        let shape = self.shape;
        let (x, y) = (self.tensors[shape.x_slot], self.tensors[shape.y_slot]);
        let (nest, size) = (&shape.reduced, shape.run.size);
        let most = if shape.direct { EXACT } else { BUFFER };
        let mut buffer = [T::ZERO; BUFFER];
        let part_of = shape.part(part);
        let mut output = outputs.start;
        let mut at = Elements::new(&shape.kept, outputs);
        while let Some([base, y_at]) = at.next() {
            let mut total = J::start::<f64>();
            let mut left = part_of.len();
            let mut done = part_of.start % nest.len;
            let mut place = nest.place(part_of.start / nest.len);
            while left > 0 {
                let len = (nest.len - done).min(most).min(left);
                // SAFETY: the elements are those of the result, no more at once than the buffer has room for.
                unsafe {
                    let from = x.add((base + place.offsets[0] + done * nest.apart[0]) * size);
                    let numbers = if shape.direct {
                        from.cast_const().cast::<T>()
                    } else {
                        (shape.run.load)(from, nest.apart[0], buffer.as_mut_ptr(), len);
                        buffer.as_ptr()
                    };
                    total = J::merge(total, along::<V, J>(numbers, len).to_f64());
                }
                left -= len;
                done += len;
                if done == nest.len {
                    done = 0;
                    nest.advance(&mut place);
                }
            }
            // SAFETY: the place is that of the result.
            unsafe { shape.put(y, self.scratch, part, (output, y_at), total) };
            output += 1;
        }
    }
}
