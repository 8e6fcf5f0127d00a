//! The forward attention.

use hipdnn_plugin_planner::in_own_frame;
use hipdnn_plugin_planner::problem::attention::Attention;
use hipdnn_plugin_planner::problem::attention::options::Dropout;
use hipdnn_plugin_planner::problem::attention::shape::Shape;

use crate::attention::shared::sequences::{Bound, Lengths, Rows, Sequence};
use crate::dtype::element::{Element, is_float_of_eight_bits};
use crate::kernel::Refusal;
use crate::problem::batchnorm::Scalar;
use crate::reference::attention::scores::{BoundScores, Heads, Scores};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, Spread};

pub(crate) struct Forward {
    shape: Shape,
    lengths: Lengths,
    scores: Box<Scores>,
    v: Rows,
    o: Rows,
    sink: Option<Spread<f64, 1>>,
    descale_v: Option<Heads>,
    descale_s: Option<Memory<f64>>,
    scale_s: Option<Memory<f64>>,
    scale_o: Option<Memory<f64>>,
    /// The dtype to which probabilities are rounded before they multiply 8-bit values.
    rounding: Option<Element<f64>>,
    /// Rows of one element each: statistics, maxima and sums.
    stats: Option<Rows>,
    max: Option<Rows>,
    sum_exp: Option<Rows>,
    dump: Option<Spread<f64, 4>>,
    amax_s: Option<Memory<f64>>,
    amax_o: Option<Memory<f64>>,
    scratch: usize,
}

impl Forward {
    pub(crate) fn new(attention: &Attention) -> Result<Self, Refusal> {
        let (shape, factors) = (attention.shape, &attention.factors);
        let scores = in_own_frame(|| {
            let descales = [
                Heads::of("descale_q", factors.descale_q.as_ref())?,
                Heads::of("descale_k", factors.descale_k.as_ref())?,
            ];
            let (q, k) = (Rows::of("q", &attention.q)?, Rows::of("k", &attention.k)?);
            let scores = Scores::new(shape, q, k, &attention.options)?;
            scores.with(descales, attention.block_mask).map(Box::new)
        })?;
        let rows = |name, sequences: &Option<_>| {
            in_own_frame(|| sequences.as_ref().map(|s| Rows::of(name, s)).transpose())
        };
        let single = |name, scalar: &Option<Scalar>| {
            in_own_frame(|| scalar.as_ref().map(|scalar| Memory::of_scalar(name, scalar)).transpose())
        };
        let fits = |count: &usize| count.checked_mul(size_of::<f64>()).is_some();
        let scratch = shape.keys.checked_add(shape.value_depth).filter(fits);
        let value_type = attention.v.operand.data_type;
        let rounds = factors.scale_s.is_some() && is_float_of_eight_bits(value_type);
        let dump = attention.rng_dump.as_ref().filter(|_| {
            // A dump without a generator was refused before.
            matches!(attention.options.dropout, Some(Dropout::Random { .. }))
        });
        Ok(Self {
            lengths: Lengths::new(shape, attention.options.lengths, attention.rows_of_query),
            v: Rows::of("v", &attention.v)?,
            o: Rows::of("o", &attention.o)?,
            sink: attention
                .sink
                .as_ref()
                .map(|sink| Spread::of_channels("sink_token", sink, shape.heads))
                .transpose()?,
            descale_v: Heads::of("descale_v", factors.descale_v.as_ref())?,
            descale_s: single("descale_s", &factors.descale_s)?,
            scale_s: single("scale_s", &factors.scale_s)?,
            scale_o: single("scale_o", &factors.scale_o)?,
            rounding: if rounds { Some(Element::of(value_type)?) } else { None },
            stats: rows("stats", &attention.stats)?,
            max: rows("max", &attention.max)?,
            sum_exp: rows("sum_exp", &attention.sum_exp)?,
            dump: in_own_frame(|| {
                let spread = dump.map(|dump| {
                    let mut strides = [0; 4];
                    strides.copy_from_slice(dump.layout.strides());
                    Memory::of("rng_dump", dump).map(|memory| Spread { memory, strides })
                });
                spread.transpose()
            })?,
            amax_s: single("amax_s", &attention.amax_s)?,
            amax_o: single("amax_o", &attention.amax_o)?,
            scratch: scratch.ok_or_else(|| format!("k: has {} keys, expected fewer", shape.keys))?,
            shape,
            scores,
        })
    }

    /// The tensors that have a row for each query.
    fn of_queries(&self) -> impl Iterator<Item = &Rows> {
        [Some(&self.o), self.stats.as_ref(), self.max.as_ref(), self.sum_exp.as_ref()].into_iter().flatten()
    }
}

/// A run.
struct Run<'a> {
    forward: &'a Forward,
    tensors: Pointers<'a>,
    scores: BoundScores<'a>,
    v: Bound<'a>,
    o: Bound<'a>,
    scale_s: f64,
    descale_s: f64,
    scale_o: f64,
    largest_probability: f64,
    largest_result: f64,
}

impl Reference for Forward {
    fn scratch(&self) -> usize {
        self.scratch
    }

    fn check_values(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        self.lengths.check(tensors)?;
        let sequence = |batch| self.lengths.sequence(tensors, batch);
        self.scores.check(tensors, sequence)?;
        self.v.check(tensors, self.shape.batch, |batch| sequence(batch).keys)?;
        let mut of_queries = self.of_queries();
        of_queries.try_for_each(|rows| rows.check(tensors, self.shape.batch, |batch| sequence(batch).queries))
    }

    fn compute(&self, tensors: Pointers<'_>, scratch: &mut [f64]) {
        let (probabilities, sums) = scratch.split_at_mut(self.shape.keys);
        let factor = |memory: &Option<Memory<f64>>| memory.map_or(1.0, |memory| memory.get(tensors, 0));
        let mut run = Run {
            forward: self,
            tensors,
            scores: self.scores.bind(tensors),
            v: self.v.bind(tensors),
            o: self.o.bind(tensors),
            scale_s: factor(&self.scale_s),
            descale_s: factor(&self.descale_s),
            scale_o: factor(&self.scale_o),
            largest_probability: 0.0,
            largest_result: 0.0,
        };
        let mut used = 0;
        for batch in 0..self.shape.batch {
            let sequence = self.lengths.sequence(tensors, batch);
            used += sequence.queries;
            let queries = if self.shape.packed { sequence.queries } else { self.shape.queries };
            for head in 0..self.shape.heads {
                for query in 0..queries {
                    if query < sequence.queries {
                        run.query(&sequence, head, query, probabilities, sums);
                    } else {
                        run.padding(&sequence, head, query);
                    }
                    run.dump(&sequence, head, query);
                }
            }
        }
        if self.shape.packed {
            let rest = Sequence { index: 0, queries: 0, keys: 0, first: used };
            for head in 0..self.shape.heads {
                for query in 0..self.shape.queries - used {
                    run.padding(&rest, head, query);
                }
            }
        }
        for (amax, value) in [(&self.amax_s, run.largest_probability), (&self.amax_o, run.largest_result)] {
            if let Some(amax) = amax {
                amax.set(tensors, 0, value);
            }
        }
    }
}

/// The larger of two, NaN if either is.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

impl Run<'_> {
    /// Computes a query; `probabilities` has room for all keys, `sums` for a result.
    fn query(
        &mut self,
        sequence: &Sequence,
        head: usize,
        query: usize,
        probabilities: &mut [f64],
        sums: &mut [f64],
    ) {
        let forward = self.forward;
        let heads = forward.shape.heads;
        let keys = self.scores.keys(sequence, query);
        let sink = forward.sink.as_ref().map(|sink| sink.get(self.tensors, [head]));
        let mut max = sink.unwrap_or(f64::NEG_INFINITY);
        for key in keys.clone() {
            let score = self.scores.score(sequence, head, query, key);
            probabilities[key] = score;
            max = larger(max, score);
        }
        // With a maximum of -∞ all keys are masked.
        let weight = |score: f64| if score == f64::NEG_INFINITY { 0.0 } else { (score - max).exp() };
        let mut sum = sink.map_or(0.0, weight);
        for key in keys.clone() {
            sum += weight(probabilities[key]);
        }
        sums.fill(0.0);
        for key in keys {
            if probabilities[key] == f64::NEG_INFINITY {
                continue;
            }
            let probability = weight(probabilities[key]) / sum;
            self.largest_probability = larger(probability, self.largest_probability);
            let kept = self.scores.kept(sequence, head, query, key);
            if kept != 0.0 {
                let weight = self.rounded(probability * kept * self.scale_s);
                self.v.shared(sequence, head, heads, key).add_to(sums, weight);
            }
        }
        if sum.is_nan() && self.scores.drops() {
            // NaN probabilities make all results NaN, even if this one is dropped.
            sums.fill(f64::NAN);
        }
        let descale_v = forward.descale_v.as_ref();
        let descale_v = descale_v.map_or(1.0, |d| d.get(self.tensors, sequence, head, heads));
        let o = self.o.row(sequence, head, query);
        for (element, sum) in sums.iter().enumerate() {
            let result = sum * self.descale_s * descale_v;
            self.largest_result = larger(result.abs(), self.largest_result);
            o.set(element, result * self.scale_o);
        }
        self.statistics(sequence, head, query, max, sum);
    }

    fn rounded(&self, probability: f64) -> f64 {
        let Some(element) = &self.forward.rounding else { return probability };
        let mut bytes = [0_u8; 8];
        // SAFETY: an element has at most eight bytes.
        unsafe {
            element.store(bytes.as_mut_ptr(), 0, probability);
            element.load(bytes.as_ptr(), 0)
        }
    }

    /// Writes the results of a padding query.
    fn padding(&self, sequence: &Sequence, head: usize, query: usize) {
        if self.forward.o.has_padding() {
            self.o.row(sequence, head, query).fill(0.0);
        }
        self.statistics(sequence, head, query, f64::NEG_INFINITY, 0.0);
    }

    fn statistics(&self, sequence: &Sequence, head: usize, query: usize, max: f64, sum: f64) {
        let forward = self.forward;
        let stats = if max == f64::NEG_INFINITY { max } else { max + sum.ln() };
        for (rows, value) in [(&forward.stats, stats), (&forward.max, max), (&forward.sum_exp, sum)] {
            if let Some(rows) = rows
                && (query < sequence.queries || rows.has_padding())
            {
                rows.bind(self.tensors).row(sequence, head, query).set(0, value);
            }
        }
    }

    fn dump(&self, sequence: &Sequence, head: usize, query: usize) {
        let Some(dump) = &self.forward.dump else { return };
        for key in 0..self.forward.shape.keys {
            let kept = self.scores.kept(sequence, head, query, key) != 0.0;
            dump.set(self.tensors, [sequence.index, head, query, key], f64::from(u8::from(kept)));
        }
    }
}
