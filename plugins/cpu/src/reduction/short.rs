//! Short rows: several are transposed, so that their results are computed at once.

use crate::gemm::pack::PackSource;
use crate::reduction::shape::{BUFFER, Task};
use crate::simd::vector::{Float, Vector};
use crate::tensor::combine::{Combine, fold_columns};

impl<T: Float> Task<'_, T> {
    /// # Safety
    /// The processor has the vector's instructions; tensors and scratch memory are those of a run.
    #[inline(always)]
    pub(crate) unsafe fn short_rows<V: Vector<Scalar = T>, J: Combine>(&self) {
        let shape = self.shape;
        let Some(pack) = shape.pack else { return };
        let (kept, block) = (&shape.kept, shape.block);
        let (x, y) = (self.tensors[shape.x_slot], self.tensors[shape.y_slot]);
        let blocks = kept.len.div_ceil(block);
        let (mut values, mut totals) = ([T::ZERO; 2 * BUFFER], [T::ZERO; BUFFER]);
        for task in self.tasks.clone() {
            let (run, first) = (task / blocks, task % blocks * block);
            let len = block.min(kept.len - first);
            let [x_at, y_at] = kept.position(run).offsets;
            // SAFETY: the elements are those of the block's results, at most as many as there is room for.
            unsafe {
                let rows = PackSource {
                    from: x.add((x_at + first * kept.inner_strides[0]) * shape.run.size),
                    rows: shape.count,
                    row: shape.reduced.inner_strides[0],
                    columns: len,
                    column: kept.inner_strides[0],
                    width: len,
                    row_stride: block,
                };
                pack(shape.isa, &rows, values.as_mut_ptr());
                totals[..len].fill(J::start::<T>());
                for row in 0..shape.count {
                    fold_columns::<V, J>(values.as_ptr().add(row * block), totals.as_mut_ptr(), len);
                }
                for (column, total) in totals[..len].iter().enumerate() {
                    let at = y_at + (first + column) * kept.inner_strides[1];
                    shape.put(y, self.scratch, 0, (run * kept.len + first + column, at), total.to_f64());
                }
            }
        }
    }
}
