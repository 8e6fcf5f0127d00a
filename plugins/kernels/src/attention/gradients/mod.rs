//! The gradients of an attention.
//!
//! With the saved statistics P = e^(s − stats), dS = P · (dO · vᵀ − Σ dO · o), dq = scale · dS · k, dk = scale · dSᵀ · q and dv = Pᵀ · dO.
//! A first kernel sums dO · o of each row. Then each gradient has a kernel of its own that computes the scores again: a workgroup takes a
//! block of rows of the gradient and passes over what they are summed over, so that no two workgroups write to one place and sums are
//! always in the same order.

mod multiply;
mod plan;
mod rows;
mod slopes;
mod store;
mod sweep;

use super::sequence::{Bound, Sequence, Source};
use super::{Attention, Start, Tensor};
use crate::builder::Builder;
use crate::domain::{Access, Join, Origin, Program, Store, Written};
use crate::form::{Index, Memory, Parameter};
use crate::product::engine;
use crate::scalar::Scalar;
use crate::target::Target;

pub use sweep::write;

/// A gradient, or what is computed of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// dq.
    Queries,
    /// dk.
    Keys,
    /// dv.
    Values,
    /// dS, summed over the sequences and heads that share an element of the mask.
    Mask,
}

/// The gradients of an attention. The parameters of a gradient's kernel are, in this order and as far as they are there: q, k, v, do, stats,
/// the row sums, the result, scale, mask, the lengths of queries and of keys, dropout's.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// The attention; its first statistic was saved. Sinks are in the statistics.
    pub attention: Attention,
    /// ln Σ eˢ of each row.
    pub stats: Tensor,
    /// The gradient of the output, of the queries' type.
    pub d_o: Tensor,
    /// The sums of dO · o of each row, [batch, heads, queries] without gaps.
    pub sums: Tensor,
}

impl Gradients {
    /// The type of the row sums.
    pub fn real(attention: &Attention) -> Scalar {
        if attention.q.scalar == Scalar::F64 { Scalar::F64 } else { Scalar::F32 }
    }
}

/// Threads of a workgroup that sums rows anywhere, each its own.
const SUMMING: u32 = 64;

/// As [`row_sums`], of sequences that begin anywhere; the lengths of queries and keys are parameters, too. Rows of padding have no sum.
fn sums_of_sequences(gradients: &Gradients, target: &Target, name: &str) -> Result<Written, String> {
    let Gradients { attention, d_o, sums, .. } = gradients;
    let Attention { batch, heads, queries, value_depth, .. } = *attention;
    let real = Gradients::real(attention);
    let mut b = Builder::new(name, SUMMING, target);
    let all = [(&attention.o, value_depth, false), (d_o, value_depth, false), (sums, 1, true)];
    let [o, d_o, sums] =
        all.map(|(tensor, elements, written)| Bound::new(&mut b, tensor, [heads, elements], written));
    let lengths = attention.lengths.map(|own| own.map(|(scalar, _)| b.pointer(scalar)));
    let blocks = queries.div_ceil(SUMMING as usize);
    let (group, groups) = engine::groups(&mut b, batch * heads * blocks)?;
    let (which, block) = b.div_rem(group, blocks);
    let (sequence, head) = b.div_rem(which, heads);
    let sequence = Sequence::new(&mut b, attention, lengths, sequence);
    let first = b.mul(block, SUMMING);
    let thread = b.index(Index::Thread);
    let query = b.add(first, thread);
    let counts = b.less(query, sequence.queries);
    b.when(counts, |b| {
        let sum = b.local(real, 0.0);
        let rows = [o, d_o, sums].map(|bound| bound.of_head(b, &sequence, head, sequence.queries));
        let at = |b: &mut Builder, rows: &Source| {
            let line = rows.line(b, query);
            b.add(rows.base, line)
        };
        let [line_o, line_d_o, to] = [at(b, &rows[0]), at(b, &rows[1]), at(b, &rows[2])];
        b.for_range(0, value_depth, 1, |b, element| {
            let [x, y] = [(line_o, &o), (line_d_o, &d_o)].map(|(line, bound)| {
                let along = b.mul(element, bound.tensor.strides[3]);
                let at = b.add(line, along);
                let own = b.load(Memory::Global(bound.data), at);
                b.convert(own, real)
            });
            let so_far = b.get(sum);
            let next = b.fma(x, y, so_far);
            b.set(sum, next);
        });
        let sum = b.get(sum);
        b.store(Memory::Global(sums.data), to, sum);
    });
    Ok(Written { kernel: b.finish(), groups })
}

/// Writes the kernel that sums dO · o of each row. Its parameters are o, do and the sums; the lengths of queries and keys if o or do are not
/// at even distances.
///
/// # Errors
/// When there are more elements than can be counted.
pub fn row_sums(gradients: &Gradients, target: &Target, name: &str) -> Result<Written, String> {
    if [gradients.attention.o.start, gradients.d_o.start] != [Start::Even; 2] {
        return sums_of_sequences(gradients, target, name);
    }
    let Gradients { attention, d_o, mut sums, .. } = gradients.clone();
    // One number for all elements of a row.
    sums.strides[3] = 0;
    let real = Gradients::real(&attention);
    let mut program = Program {
        dims: vec![attention.batch, attention.heads, attention.queries, attention.value_depth],
        reduced: Some(vec![false, false, false, true]),
        ..Program::default()
    };
    let mut access = |tensor: &Tensor, written: bool| {
        let Tensor { scalar, strides, alignment, .. } = *tensor;
        program.parameters.push(Parameter::Memory { scalar, written, alignment: scalar.size() });
        Access { parameter: program.parameters.len() - 1, scalar, strides: strides.to_vec(), alignment }
    };
    let (o, d_o, access) = (access(&attention.o, false), access(&d_o, false), access(&sums, true));
    let [o, d_o] = [o, d_o].map(|own| program.push(Origin::Load(own), real));
    let product = program.compute(real, &[o, d_o], move |b, own| match own {
        [x, y, ..] => b.mul(*x, *y),
        _ => b.float(0.0, real),
    });
    let value = program.push(Origin::Reduce(Join::Sum, product), real);
    program.stores.push(Store { value, access });
    program.write(name, target)
}

#[cfg(test)]
mod tests;
