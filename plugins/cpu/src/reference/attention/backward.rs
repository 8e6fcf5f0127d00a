//! The gradients of an attention.
//!
//! The probabilities are made again from the scores and the statistics that the forward direction kept. Each gradient is a
//! sum of its own, so nothing is kept between them and no number is rounded before its sum is whole.

use hipdnn_plugin_planner::problem::attention::AttentionGradients;
use hipdnn_plugin_planner::problem::attention::shape::Shape;

use crate::kernel::{Kernel, Refusal};
use crate::reference::attention::scores::{BoundScores, Scores};
use crate::reference::attention::sequences::{Bound, Lengths, Rows, Sequence};
use crate::reference::memory::Memory;

pub(crate) struct Backward {
    shape: Shape,
    lengths: Lengths,
    scores: Scores,
    v: Rows,
    o: Rows,
    d_o: Rows,
    stats: Rows,
    dq: Rows,
    dk: Rows,
    dv: Rows,
    dbias: Option<Bias>,
    scratch: usize,
}

/// The gradient of the mask that is added.
struct Bias {
    memory: Memory<f64>,
    /// Dimensions and strides, aligned at the last of the scores.
    dims: [usize; 4],
    strides: [usize; 4],
}

impl Backward {
    pub(crate) fn new(gradients: &AttentionGradients) -> Result<Self, Refusal> {
        let shape = gradients.shape;
        let (q, k) = (Rows::of("q", &gradients.q)?, Rows::of("k", &gradients.k)?);
        let dbias = gradients.dbias.as_ref().map(|dbias| {
            let (mut dims, mut strides) = ([1; 4], [0; 4]);
            let layout = &dbias.layout;
            for (axis, (dim, stride)) in layout.dims().iter().zip(layout.strides()).enumerate() {
                dims[4 - layout.rank() + axis] = *dim;
                strides[4 - layout.rank() + axis] = *stride;
            }
            Memory::of("dbias", dbias).map(|memory| Bias { memory, dims, strides })
        });
        // Room for a query or a value.
        let scratch = shape.depth.max(shape.value_depth).checked_mul(size_of::<f64>());
        Ok(Self {
            lengths: Lengths { shape, lengths: gradients.options.lengths },
            scores: Scores::new(shape, q, k, &gradients.options)?,
            v: Rows::of("v", &gradients.v)?,
            o: Rows::of("o", &gradients.o)?,
            d_o: Rows::of("do", &gradients.d_o)?,
            stats: Rows::of("stats", &gradients.stats)?,
            dq: Rows::of("dq", &gradients.dq)?,
            dk: Rows::of("dk", &gradients.dk)?,
            dv: Rows::of("dv", &gradients.dv)?,
            dbias: dbias.transpose()?,
            scratch: scratch
                .ok_or_else(|| format!("q: has {} numbers for each query, expected fewer", shape.depth))?,
            shape,
        })
    }
}

struct Run<'a> {
    backward: &'a Backward,
    scores: BoundScores<'a>,
    v: Bound<'a>,
    o: Bound<'a>,
    d_o: Bound<'a>,
    stats: Bound<'a>,
}

impl Kernel for Backward {
    fn scratch_size(&self) -> usize {
        self.scratch
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: passed on; what is used is checked before.
        unsafe {
            self.lengths.check(tensors)?;
            let sequence = |place| self.lengths.sequence(tensors, place);
            self.scores.check(tensors, sequence)?;
            for rows in [&self.o, &self.d_o, &self.stats, &self.dq] {
                rows.check(tensors, self.shape.batch, |place| sequence(place).queries)?;
            }
            for rows in [&self.v, &self.dk, &self.dv] {
                rows.check(tensors, self.shape.batch, |place| sequence(place).keys)?;
            }
        }
        Ok(())
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let count = self.scratch / size_of::<f64>();
        // SAFETY: the pointers are those of the operation, what they say was checked, and the scratch is aligned and large
        // enough; all zeros are doubles.
        unsafe {
            scratch.write_bytes(0, self.scratch);
            let sums = std::slice::from_raw_parts_mut(scratch.cast::<f64>(), count);
            let run = Run {
                backward: self,
                scores: self.scores.bind(tensors),
                v: self.v.bind(tensors),
                o: self.o.bind(tensors),
                d_o: self.d_o.bind(tensors),
                stats: self.stats.bind(tensors),
            };
            let (dq, dk, dv) = (self.dq.bind(tensors), self.dk.bind(tensors), self.dv.bind(tensors));
            for place in 0..self.shape.batch {
                let sequence = self.lengths.sequence(tensors, place);
                run.of_queries(&sequence, &dq, &mut sums[..self.shape.depth]);
                run.of_keys(&sequence, &dk, &mut sums[..self.shape.depth]);
                run.of_values(&sequence, &dv, &mut sums[..self.shape.value_depth]);
            }
            if let Some(bias) = &self.dbias {
                run.of_bias(bias, tensors);
            }
        }
    }
}

impl Run<'_> {
    /// Σ dO · O of a query.
    ///
    /// # Safety
    /// The head and the query are of the sequence.
    unsafe fn delta(&self, sequence: &Sequence, head: usize, query: usize) -> f64 {
        // SAFETY: the function called requires what this one requires.
        unsafe { self.d_o.row(sequence, head, query).dot(&self.o.row(sequence, head, query)) }
    }

    /// The probability of a score, and what dropout multiplies it by; none where the key does not count.
    ///
    /// # Safety
    /// The head and the query are of the sequence, and the query may see the key.
    unsafe fn probability(
        &self,
        sequence: &Sequence,
        head: usize,
        query: usize,
        key: usize,
    ) -> Option<(f64, f64)> {
        // SAFETY: the function called requires what this one requires.
        unsafe {
            let score = self.scores.score(sequence, head, query, key);
            let stats = self.stats.row(sequence, head, query).get(0);
            if score == f64::NEG_INFINITY || stats == f64::NEG_INFINITY {
                return None;
            }
            Some(((score - stats).exp(), self.scores.kept(sequence, head, query, key)))
        }
    }

    /// The gradient of a score; none where the key does not count.
    ///
    /// # Safety
    /// The head and the query are of the sequence, and the query may see the key. `delta` is the query's.
    unsafe fn slope(
        &self,
        sequence: &Sequence,
        head: usize,
        query: usize,
        key: usize,
        delta: f64,
    ) -> Option<f64> {
        let heads = self.backward.shape.heads;
        // SAFETY: the function called requires what this one requires.
        unsafe {
            let (probability, kept) = self.probability(sequence, head, query, key)?;
            // What is dropped has no part, whatever its value is.
            let from_value = if kept == 0.0 {
                0.0
            } else {
                kept * self.d_o.row(sequence, head, query).dot(&self.v.shared(sequence, head, heads, key))
            };
            Some(probability * (from_value - delta))
        }
    }

    /// dQ = scale · dS · K.
    ///
    /// # Safety
    /// The sequence is of the operation, and the slice is as long as a query.
    unsafe fn of_queries(&self, sequence: &Sequence, dq: &Bound<'_>, sums: &mut [f64]) {
        let Shape { heads, queries, .. } = self.backward.shape;
        for head in 0..heads {
            for query in 0..queries {
                // SAFETY: the indices are of the operation.
                unsafe {
                    if query >= sequence.queries {
                        if self.backward.dq.has_padding() {
                            dq.row(sequence, head, query).fill(0.0);
                        }
                        continue;
                    }
                    let delta = self.delta(sequence, head, query);
                    sums.fill(0.0);
                    for key in self.scores.keys(sequence, query) {
                        let Some(slope) = self.slope(sequence, head, query, key, delta) else { continue };
                        let k = self.scores.k.shared(sequence, head, heads, key);
                        for (place, sum) in sums.iter_mut().enumerate() {
                            *sum += self.scores.scale * slope * k.get(place);
                        }
                    }
                    let row = dq.row(sequence, head, query);
                    for (place, sum) in sums.iter().enumerate() {
                        row.set(place, *sum);
                    }
                }
            }
        }
    }

    /// dK = scale · dSᵀ · Q, summed over the heads that share a key.
    ///
    /// # Safety
    /// The sequence is of the operation, and the slice is as long as a key.
    unsafe fn of_keys(&self, sequence: &Sequence, dk: &Bound<'_>, sums: &mut [f64]) {
        let Shape { heads, key_heads, .. } = self.backward.shape;
        // SAFETY: passed on; the indices are of the operation.
        unsafe {
            self.for_each_key(
                sequence,
                &self.backward.dk,
                dk,
                heads / key_heads,
                sums,
                |head, query, key, sums| {
                    let delta = self.delta(sequence, head, query);
                    if let Some(slope) = self.slope(sequence, head, query, key, delta) {
                        let q = self.scores.q.row(sequence, head, query);
                        for (place, sum) in sums.iter_mut().enumerate() {
                            *sum += self.scores.scale * slope * q.get(place);
                        }
                    }
                },
            );
        }
    }

    /// dV = Pᵀ · dO, summed over the heads that share a value.
    ///
    /// # Safety
    /// The sequence is of the operation, and the slice is as long as a value.
    unsafe fn of_values(&self, sequence: &Sequence, dv: &Bound<'_>, sums: &mut [f64]) {
        let Shape { heads, value_heads, .. } = self.backward.shape;
        // SAFETY: passed on; the indices are of the operation.
        unsafe {
            self.for_each_key(
                sequence,
                &self.backward.dv,
                dv,
                heads / value_heads,
                sums,
                |head, query, key, sums| {
                    let Some((probability, kept)) = self.probability(sequence, head, query, key) else {
                        return;
                    };
                    if kept != 0.0 {
                        let d_o = self.d_o.row(sequence, head, query);
                        for (place, sum) in sums.iter_mut().enumerate() {
                            *sum += probability * kept * d_o.get(place);
                        }
                    }
                },
            );
        }
    }

    /// Sums up for each key over the queries that see it, `group` heads together, and writes the sums.
    ///
    /// # Safety
    /// The sequence is of the operation, `rows` its keys or values and `bound` these of the run.
    unsafe fn for_each_key(
        &self,
        sequence: &Sequence,
        rows: &Rows,
        bound: &Bound<'_>,
        group: usize,
        sums: &mut [f64],
        mut add: impl FnMut(usize, usize, usize, &mut [f64]),
    ) {
        for head in 0..rows.heads() {
            for key in 0..self.backward.shape.keys {
                if key >= sequence.keys && !rows.has_padding() {
                    break;
                }
                sums.fill(0.0);
                if key < sequence.keys {
                    for of_queries in head * group..(head + 1) * group {
                        for query in 0..sequence.queries {
                            if self.scores.keys(sequence, query).contains(&key) {
                                add(of_queries, query, key, sums);
                            }
                        }
                    }
                }
                // SAFETY: the key is of the sequence, or of the padding that the tensor has.
                let row = unsafe { bound.row(sequence, head, key) };
                for (place, sum) in sums.iter().enumerate() {
                    // SAFETY: the sums are as many as the row's numbers.
                    unsafe { row.set(place, *sum) };
                }
            }
        }
    }

    /// dS, summed over the scores to which the same element of the mask was added.
    ///
    /// # Safety
    /// `tensors` are the pointers of the operation.
    unsafe fn of_bias(&self, bias: &Bias, tensors: &[*mut u8]) {
        let backward = self.backward;
        let scores = backward.shape.scores();
        // All the indices along a dimension that share an element.
        let along = |axis: usize, index: usize| {
            if bias.dims[axis] == 1 { 0..scores[axis] } else { index..index + 1 }
        };
        let [batches, heads, queries, keys] = bias.dims;
        for place in 0..batches {
            for head in 0..heads {
                for query in 0..queries {
                    for key in 0..keys {
                        let mut sum = 0.0;
                        for place in along(0, place) {
                            // SAFETY: the indices are of the operation.
                            unsafe {
                                let sequence = backward.lengths.sequence(tensors, place);
                                for head in along(1, head) {
                                    for query in along(2, query).take_while(|q| *q < sequence.queries) {
                                        let delta = self.delta(&sequence, head, query);
                                        let seen = self.scores.keys(&sequence, query);
                                        for key in along(3, key).filter(|key| seen.contains(key)) {
                                            let slope = self.slope(&sequence, head, query, key, delta);
                                            sum += slope.unwrap_or(0.0);
                                        }
                                    }
                                }
                            }
                        }
                        let indices = [place, head, query, key];
                        let at = indices.iter().zip(bias.strides).map(|(index, stride)| index * stride).sum();
                        // SAFETY: the indices are inside the tensor.
                        unsafe { bias.memory.bind(tensors).set(at, sum) };
                    }
                }
            }
        }
    }
}
