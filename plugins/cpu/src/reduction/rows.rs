//! Result by result: the fastest dimension is reduced.

use crate::reduction::shape::{BUFFER, Buffer, Task};
use crate::simd::vector::{Float, MAX_LANES, Vector};
use crate::tensor::combine::{Combine, fold_row};
use crate::tensor::loop_nest::Elements;

/// How many values are combined in the compute type before the total is combined in double precision.
const EXACT: usize = 4096;

/// Results that are stored together.
const STORED: usize = 16;

/// The most elements of rows that are reduced together.
const TOGETHER: usize = 1024;

impl<T: Float> Task<'_, T> {
    /// # Safety
    /// The processor has the vector's instructions; tensors and scratch memory are those of a run.
    #[inline(always)]
    pub(crate) unsafe fn rows<V: Vector<Scalar = T>, J: Combine>(&self) {
        let parts = self.shape.parts;
        // SAFETY: the processor has the vector's instructions; the tasks' results are in the order of the totals.
        unsafe {
            if V::HAS_SPECIAL_CASES && self.are_together::<J>() {
                return self.together::<V, J>();
            }
            let mut tasks = self.tasks.clone();
            while !tasks.is_empty() {
                let (first, part) = (tasks.start / parts, tasks.start % parts);
                // All results at once, or a part of one.
                let end = if parts == 1 { tasks.end } else { first + 1 };
                self.outputs::<V, J>(first..end, part);
                tasks.start = if parts == 1 { end } else { tasks.start + 1 };
            }
        }
    }

    /// Whether the lanes of many results are combined at once: for contiguous rows too short to hide the
    /// latency of combining lanes, and reductions that zeros in the lanes after a row do not affect.
    fn are_together<J: Combine>(&self) -> bool {
        let shape = self.shape;
        let is_row = shape.direct && shape.parts == 1 && shape.reduced.runs() == 1;
        is_row && shape.count <= TOGETHER && J::start::<f64>() == 0.0
    }

    /// Computes as many results at a time as a vector has lanes.
    ///
    /// # Safety
    /// As [`Task::rows`].
    #[inline(always)]
    unsafe fn together<V: Vector<Scalar = T>, J: Combine>(&self) {
        let shape = self.shape;
        let x = self.tensors[shape.x_slot];
        let mut at = Elements::new(&shape.kept, self.tasks.clone());
        let mut done = self.tasks.start;
        let mut places = [[0; 2]; MAX_LANES];
        while done < self.tasks.end {
            let count = V::LANES.min(self.tasks.end - done);
            // SAFETY: this function requires the instructions.
            let mut totals = unsafe { [V::zero(); MAX_LANES] };
            for (total, place) in totals.iter_mut().zip(&mut places).take(count) {
                *place = at.next().unwrap_or_default();
                // SAFETY: the row of the result has as many elements.
                *total =
                    unsafe { lanes_of_row::<V, J>(x.add(place[0] * shape.run.size).cast(), shape.count) };
            }
            // Each step leaves half as many vectors, with half as many lanes per result.
            let mut vectors = V::LANES;
            while vectors > 1 {
                vectors /= 2;
                for i in 0..vectors {
                    let (even, odd) = totals[2 * i].unzip(totals[2 * i + 1]);
                    totals[i] = J::merge_vector(even, odd);
                }
            }
            // SAFETY: the offsets are those of the results.
            unsafe { self.put_each(0, done, &places[..count], &totals[0].values()) };
            done += count;
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
        let x = self.tensors[shape.x_slot];
        let (nest, size) = (&shape.reduced, shape.run.size);
        let most = if shape.direct { EXACT } else { BUFFER };
        let mut buffer = Buffer([T::ZERO; BUFFER]);
        let buffer = &mut buffer.0;
        let part_of = shape.part(part);
        let (beginning, skipped) = (nest.position(part_of.start / nest.len), part_of.start % nest.len);
        let (mut totals, mut offsets) = ([0.0; STORED], [[0; 2]; STORED]);
        let (mut output, end) = (outputs.start, outputs.end);
        let mut at = Elements::new(&shape.kept, outputs);
        let mut count = 0;
        while let Some([base, y_at]) = at.next() {
            let mut total = J::start::<f64>();
            let mut left = part_of.len();
            let (mut done, mut position) = (skipped, beginning.clone());
            while left > 0 {
                let len = (nest.len - done).min(most).min(left);
                // SAFETY: the elements are those of the result, at most as many as the buffer holds.
                unsafe {
                    let from = x.add((base + position.offsets[0] + done * nest.inner_strides[0]) * size);
                    let values = if shape.direct {
                        from.cast_const().cast::<T>()
                    } else if shape.widens {
                        // A loop here is compiled with the vector's instructions.
                        for (i, value) in buffer[..len].iter_mut().enumerate() {
                            *value = T::from_single(from.cast_const().cast::<f32>().add(i).read_unaligned());
                        }
                        buffer.as_ptr()
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
            (totals[count], offsets[count]) = (total, [base, y_at]);
            count += 1;
            if count == STORED || output + count == end {
                // SAFETY: the offsets are those of the results.
                unsafe { self.put_each(part, output, &offsets[..count], &totals) };
                (output, count) = (output + count, 0);
            }
        }
    }
}

/// The totals of a row in each lane, for reductions that zeros do not affect.
///
/// # Safety
/// The processor has the vector's instructions, and the row has `len` elements.
#[inline(always)]
unsafe fn lanes_of_row<V: Vector, J: Combine>(row: *const V::Scalar, len: usize) -> V {
    // SAFETY: the vectors end at most at `len`, up to which this function requires the elements.
    unsafe {
        let mut totals = [V::zero(); 2];
        let mut at = 0;
        while at + 2 * V::LANES <= len {
            for (i, total) in totals.iter_mut().enumerate() {
                *total = J::vector(*total, V::load(row.add(at + i * V::LANES)));
            }
            at += 2 * V::LANES;
        }
        let [mut first, second] = totals;
        if at + V::LANES <= len {
            first = J::vector(first, V::load(row.add(at)));
            at += V::LANES;
        }
        if at < len {
            first = J::vector(first, V::load_lanes(row.add(at), V::lanes(0, len - at)));
        }
        J::merge_vector(first, second)
    }
}
