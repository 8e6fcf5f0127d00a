//! Many results at once: the fastest dimension is kept.

use crate::reduction::shape::{BUFFER, Buffer, Task};
use crate::simd::vector::{Float, Vector};
use crate::tensor::combine::{Combine, fold_columns};
use crate::tensor::loop_nest::Elements;

/// How many rows are combined in the compute type before the totals are combined in double precision.
const EXACT_ROWS: usize = 256;

impl<T: Float> Task<'_, T> {
    /// # Safety
    /// The processor has the vector's instructions; tensors and scratch memory are those of a run.
    #[inline(always)]
    pub(crate) unsafe fn columns<V: Vector<Scalar = T>, J: Combine>(&self) {
        let shape = self.shape;
        let (kept, size) = (&shape.kept, shape.run.size);
        let x = self.tensors[shape.x_slot];
        let blocks = kept.len.div_ceil(BUFFER);
        let (mut totals, mut sums, mut buffer) =
            (Buffer([0.0; BUFFER]), Buffer([T::ZERO; BUFFER]), Buffer([T::ZERO; BUFFER]));
        let (totals, sums, buffer) = (&mut totals.0, &mut sums.0, &mut buffer.0);
        for task in self.tasks.clone() {
            let (block, part) = (task / shape.parts, task % shape.parts);
            let (run, first) = (block / blocks, block % blocks * BUFFER);
            let len = BUFFER.min(kept.len - first);
            let [x_at, y_at] = kept.position(run).offsets;
            let base = x_at + first * kept.inner_strides[0];
            totals[..len].fill(J::start::<f64>());
            let part_of = shape.part(part);
            let mut from = part_of.start;
            while from < part_of.end {
                let end = part_of.end.min(from + EXACT_ROWS);
                sums[..len].fill(J::start::<T>());
                let mut rows = Elements::new(&shape.reduced, from..end);
                while let Some([row, _]) = rows.next() {
                    // SAFETY: the elements are those of the block's results, at most as many as the buffer holds.
                    unsafe {
                        let from = x.add((base + row) * size);
                        let values = if shape.direct {
                            from.cast_const().cast::<T>()
                        } else {
                            (shape.run.load)(from, kept.inner_strides[0], buffer.as_mut_ptr(), len);
                            buffer.as_ptr()
                        };
                        fold_columns::<V, J>(values, sums.as_mut_ptr(), len);
                    }
                }
                for (total, sum) in totals[..len].iter_mut().zip(sums.iter()) {
                    *total = J::merge(*total, sum.to_f64());
                }
                from = end;
            }
            let stride = kept.inner_strides[1];
            // SAFETY: the offset is that of the first result.
            unsafe {
                self.put(part, (run * kept.len + first, y_at + first * stride), stride, &totals[..len])
            };
        }
    }
}
