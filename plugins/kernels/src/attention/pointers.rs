//! The parameters of the kernel.

use super::Attention;
use super::factor::number;
use super::scores::Options;
use super::sequence::Bound;
use crate::builder::Builder;
use crate::form::Pointer;
use crate::scalar::Scalar;

/// Parameters.
pub(super) struct Pointers {
    pub(super) q: Bound,
    pub(super) k: Bound,
    pub(super) v: Bound,
    pub(super) o: Bound,
    pub(super) options: Options,
    pub(super) sink: Option<Pointer>,
    pub(super) statistics: [Option<Bound>; 3],
    pub(super) factor: Option<Pointer>,
    pub(super) scales: [Option<Pointer>; 3],
    pub(super) largest: [Option<Pointer>; 2],
}

impl Pointers {
    pub(super) fn new(b: &mut Builder, attention: &Attention) -> Self {
        let Attention { heads, key_heads, value_heads, depth, value_depth, .. } = *attention;
        Self {
            q: Bound::new(b, &attention.q, [heads, depth], false),
            k: Bound::new(b, &attention.k, [key_heads, depth], false),
            v: Bound::new(b, &attention.v, [value_heads, value_depth], false),
            o: Bound::new(b, &attention.o, [heads, value_depth], true),
            options: Options::new(b, attention),
            sink: attention.sink.map(|(scalar, _)| b.pointer(scalar)),
            statistics: attention
                .statistics
                .map(|tensor| tensor.map(|tensor| Bound::new(b, &tensor, [heads, 1], true))),
            factor: attention.factors[2].map(|factor| b.pointer(factor.scalar)),
            scales: attention.scales.map(|scale| scale.and_then(|scale| number(b, scale))),
            largest: attention.largest.map(|wanted| wanted.then(|| b.output(Scalar::F32))),
        }
    }
}
