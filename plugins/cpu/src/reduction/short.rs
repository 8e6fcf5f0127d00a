//! Short rows: several are transposed, so that their results are computed at once.

use crate::gemm::pack::PackSource;
use crate::reduction::shape::{BUFFER, Buffer, Task};
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
        let x = self.tensors[shape.x_slot];
        let blocks = kept.len.div_ceil(block);
        let (mut values, mut totals) = (Buffer([T::ZERO; 2 * BUFFER]), Buffer([T::ZERO; BUFFER]));
        let (values, totals) = (&mut values.0, &mut totals.0);
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
                let stride = kept.inner_strides[1];
                self.put(0, (run * kept.len + first, y_at + first * stride), stride, &totals[..len]);
            }
        }
    }
}
