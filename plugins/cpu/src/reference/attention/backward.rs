//! The gradients of an attention.
//!
//! Recomputes the probabilities from the scores and the saved statistics. Each gradient is a separate sum in
//! double precision, rounded once.

use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_planner::problem::attention::AttentionGradients;
use hipdnn_plugin_planner::problem::attention::shape::Shape;

use crate::attention::shared::sequences::{Bound, Lengths, Rows, Sequence};
use crate::kernel::Refusal;
use crate::layout::Walk;
use crate::reference::attention::scores::{BoundScores, Scores};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, Spread};

pub(crate) struct Backward {
    shape: Shape,
    lengths: Lengths,
    scores: Box<Scores>,
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

/// The gradient of an additive mask, whose dimensions are aligned with the last ones of the scores.
struct Bias {
    dims: [usize; 4],
    spread: Spread<f64, 4>,
}

impl Backward {
    pub(crate) fn new(gradients: &AttentionGradients) -> Result<Self, Refusal> {
        let shape = gradients.shape;
        let scores = in_own_frame(|| {
            let (q, k) = (Rows::of("q", &gradients.q)?, Rows::of("k", &gradients.k)?);
            Scores::new(shape, q, k, &gradients.options).map(Box::new)
        })?;
        let dbias = gradients.dbias.as_ref().map(|dbias| {
            let (mut dims, mut strides) = ([1; 4], [0; 4]);
            let layout = &dbias.layout;
            for (axis, (dim, stride)) in layout.dims().iter().zip(layout.strides()).enumerate() {
                dims[4 - layout.rank() + axis] = *dim;
                strides[4 - layout.rank() + axis] = *stride;
            }
            Memory::of("dbias", dbias).map(|memory| Bias { dims, spread: Spread { memory, strides } })
        });
        // Memory for a query or a value.
        let fits = |count: &usize| count.checked_mul(size_of::<f64>()).is_some();
        let scratch = Some(shape.depth.max(shape.value_depth)).filter(fits);
        Ok(Self {
            lengths: Lengths::new(shape, gradients.options.lengths, 1),
            scores,
            v: Rows::of("v", &gradients.v)?,
            o: Rows::of("o", &gradients.o)?,
            d_o: Rows::of("do", &gradients.d_o)?,
            stats: Rows::of("stats", &gradients.stats)?,
            dq: Rows::of("dq", &gradients.dq)?,
            dk: Rows::of("dk", &gradients.dk)?,
            dv: Rows::of("dv", &gradients.dv)?,
            dbias: dbias.transpose()?,
            scratch: scratch
                .ok_or_else(|| format!("q: has {} elements for each query, expected fewer", shape.depth))?,
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

impl Reference for Backward {
    fn scratch(&self) -> usize {
        self.scratch
    }

    fn check_values(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        self.lengths.check(tensors)?;
        let sequence = |batch| self.lengths.sequence(tensors, batch);
        self.scores.check(tensors, sequence)?;
        for rows in [&self.o, &self.d_o, &self.stats, &self.dq] {
            rows.check(tensors, self.shape.batch, |batch| sequence(batch).queries)?;
        }
        for rows in [&self.v, &self.dk, &self.dv] {
            rows.check(tensors, self.shape.batch, |batch| sequence(batch).keys)?;
        }
        Ok(())
    }

    fn compute(&self, tensors: Pointers<'_>, sums: &mut [f64]) {
        let run = Run {
            backward: self,
            scores: self.scores.bind(tensors),
            v: self.v.bind(tensors),
            o: self.o.bind(tensors),
            d_o: self.d_o.bind(tensors),
            stats: self.stats.bind(tensors),
        };
        let (dq, dk, dv) = (self.dq.bind(tensors), self.dk.bind(tensors), self.dv.bind(tensors));
        for batch in 0..self.shape.batch {
            let sequence = self.lengths.sequence(tensors, batch);
            run.of_queries(&sequence, &dq, &mut sums[..self.shape.depth]);
            run.of_keys(&sequence, &dk, &mut sums[..self.shape.depth]);
            run.of_values(&sequence, &dv, &mut sums[..self.shape.value_depth]);
        }
        if let Some(bias) = &self.dbias {
            run.of_bias(bias, tensors);
        }
    }
}

impl Run<'_> {
    /// Σ dO · O of a query.
    fn delta(&self, sequence: &Sequence, head: usize, query: usize) -> f64 {
        self.d_o.row(sequence, head, query).dot(&self.o.row(sequence, head, query))
    }

    /// The probability of a key that the query sees, and its dropout factor; `None` if the key is masked.
    fn probability(&self, sequence: &Sequence, head: usize, query: usize, key: usize) -> Option<(f64, f64)> {
        let score = self.scores.score(sequence, head, query, key);
        let stats = self.stats.row(sequence, head, query).get(0);
        if score == f64::NEG_INFINITY || stats == f64::NEG_INFINITY {
            return None;
        }
        Some(((score - stats).exp(), self.scores.kept(sequence, head, query, key)))
    }

    /// The gradient of the score of a key that the query sees, from its `delta`; `None` if the key is masked.
    fn slope(&self, sequence: &Sequence, head: usize, query: usize, key: usize, delta: f64) -> Option<f64> {
        let heads = self.backward.shape.heads;
        let (probability, kept) = self.probability(sequence, head, query, key)?;
        // A dropped probability contributes nothing, not even NaN.
        let from_value = if kept == 0.0 {
            0.0
        } else {
            kept * self.d_o.row(sequence, head, query).dot(&self.v.shared(sequence, head, heads, key))
        };
        Some(probability * (from_value - delta))
    }

    /// dQ = scale · dS · K.
    fn of_queries(&self, sequence: &Sequence, dq: &Bound<'_>, sums: &mut [f64]) {
        let Shape { heads, queries, .. } = self.backward.shape;
        for head in 0..heads {
            for query in 0..queries {
                let row = dq.row(sequence, head, query);
                if query >= sequence.queries {
                    if self.backward.dq.has_padding() {
                        row.fill(0.0);
                    }
                    continue;
                }
                let delta = self.delta(sequence, head, query);
                sums.fill(0.0);
                for key in self.scores.keys(sequence, query) {
                    if let Some(slope) = self.slope(sequence, head, query, key, delta) {
                        self.scores
                            .k
                            .shared(sequence, head, heads, key)
                            .add_to(sums, self.scores.scale * slope);
                    }
                }
                sums.iter().enumerate().for_each(|(element, sum)| row.set(element, *sum));
            }
        }
    }

    /// dK = scale · dSᵀ · Q, summed over the heads that share a key.
    fn of_keys(&self, sequence: &Sequence, dk: &Bound<'_>, sums: &mut [f64]) {
        self.for_each_key(sequence, &self.backward.dk, dk, sums, |head, query, key, sums| {
            let delta = self.delta(sequence, head, query);
            if let Some(slope) = self.slope(sequence, head, query, key, delta) {
                self.scores.q.row(sequence, head, query).add_to(sums, self.scores.scale * slope);
            }
        });
    }

    /// dV = Pᵀ · dO, summed over the heads that share a value.
    fn of_values(&self, sequence: &Sequence, dv: &Bound<'_>, sums: &mut [f64]) {
        self.for_each_key(sequence, &self.backward.dv, dv, sums, |head, query, key, sums| {
            if let Some((probability, kept)) = self.probability(sequence, head, query, key)
                && kept != 0.0
            {
                self.d_o.row(sequence, head, query).add_to(sums, probability * kept);
            }
        });
    }

    /// For each key, sums over the queries that see it in all heads that share it, and writes the sums.
    fn for_each_key(
        &self,
        sequence: &Sequence,
        rows: &Rows,
        bound: &Bound<'_>,
        sums: &mut [f64],
        mut add: impl FnMut(usize, usize, usize, &mut [f64]),
    ) {
        let group = self.backward.shape.heads / rows.heads();
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
                let row = bound.row(sequence, head, key);
                sums.iter().enumerate().for_each(|(element, sum)| row.set(element, *sum));
            }
        }
    }

    /// dS, summed over the scores that share an element of the mask.
    fn of_bias(&self, bias: &Bias, tensors: Pointers<'_>) {
        let backward = self.backward;
        let scores = backward.shape.scores();
        // All indices along a dimension that share an element.
        let along = |axis: usize, index: usize| {
            if bias.dims[axis] == 1 { 0..scores[axis] } else { index..index + 1 }
        };
        for ([batch, head, query, key, ..], []) in Walk::new(&bias.dims, []) {
            let mut sum = 0.0;
            for batch in along(0, batch) {
                let sequence = backward.lengths.sequence(tensors, batch);
                for head in along(1, head) {
                    for query in along(2, query).take_while(|q| *q < sequence.queries) {
                        let delta = self.delta(&sequence, head, query);
                        let visible = self.scores.keys(&sequence, query);
                        for key in along(3, key).filter(|key| visible.contains(key)) {
                            sum += self.slope(&sequence, head, query, key, delta).unwrap_or(0.0);
                        }
                    }
                }
            }
            bias.spread.set(tensors, [batch, head, query, key], sum);
        }
    }
}
