//! Result by result: the fastest dimension is reduced.

use crate::reduction::shape::{BUFFER, Task};
use crate::simd::vector::{Float, Vector};
use crate::tensor::combine::{Combine, fold_row};
use crate::tensor::loop_nest::Elements;

/// Values that are combined in the compute type before the total is combined in double precision.
const EXACT: usize = 4096;

impl<T: Float> Task<'_, T> {
    /// # Safety
    /// The processor has the vector's instructions; tensors and scratch memory are those of a run.
    #[inline(always)]
    pub(crate) unsafe fn rows<V: Vector<Scalar = T>, J: Combine>(&self) {
        let parts = self.shape.parts;
        // SAFETY: the processor has the vector's instructions; the tasks' results are in the order of the totals.
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
    /// As [`Task::rows`].
    #[inline(always)]
    unsafe fn outputs<V: Vector<Scalar = T>, J: Combine>(
        &self,
        outputs: std::ops::Range<usize>,
        part: usize,
    ) {
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
            let mut position = nest.position(part_of.start / nest.len);
            while left > 0 {
                let len = (nest.len - done).min(most).min(left);
                // SAFETY: the elements are those of the result, at most as many as the buffer holds.
                unsafe {
                    let from = x.add((base + position.offsets[0] + done * nest.inner_strides[0]) * size);
                    let values = if shape.direct {
                        from.cast_const().cast::<T>()
                    } else {
                        (shape.run.load)(from, nest.inner_strides[0], buffer.as_mut_ptr(), len);
                        buffer.as_ptr()
                    };
                    total = J::merge(total, fold_row::<V, J>(values, len).to_f64());
                }
                left -= len;
                done += len;
                if done == nest.len {
                    done = 0;
                    nest.advance(&mut position);
                }
            }
            // SAFETY: the offset is that of the result.
            unsafe { shape.put(y, self.scratch, part, (output, y_at), total) };
            output += 1;
        }
    }
}
