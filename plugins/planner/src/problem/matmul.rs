//! Matrix multiplication.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// A matmul whose shapes agree: c = a · b in the last two dimensions, for every batch index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matmul {
    /// The left operand [batch..., m, k].
    pub a: Operand,
    /// The right operand [batch..., k, n].
    pub b: Operand,
    /// The output [batch..., m, n].
    pub c: Operand,
    /// Rows of the output.
    pub m: usize,
    /// Columns of the output.
    pub n: usize,
    /// Length of the dot products.
    pub k: usize,
    /// Number of batch dimensions, and of valid entries in the arrays below.
    pub batch: usize,
    /// How many consecutive indices along each batch dimension of c share a matrix of a.
    pub a_share: [usize; MAX_RANK],
    /// The same for b.
    pub b_share: [usize; MAX_RANK],
}

impl Matmul {
    /// The matmul. A refusal names the inconsistent argument.
    pub(crate) fn of(operands: &Operands<'_>) -> Result<Self, Refusal> {
        let [a, b, c] = [operands.required("a")?, operands.required("b")?, operands.required("c")?];
        let rank = c.layout.rank();
        if rank < 2 {
            return Err(format!("c: dims are {:?}, expected two or more", c.layout.dims()));
        }
        for (name, operand) in [("a", &a), ("b", &b)] {
            if operand.layout.rank() != rank {
                return Err(format!(
                    "{name}: dims {:?} has {} entries, expected {rank} as in c",
                    operand.layout.dims(),
                    operand.layout.rank()
                ));
            }
        }
        let batch = rank - 2;
        let (ad, bd, cd) = (a.layout.dims(), b.layout.dims(), c.layout.dims());
        let (m, n, k) = (cd[batch], cd[batch + 1], ad[batch + 1]);
        for (name, axis, got, expected, source) in [
            ("a", batch, ad[batch], m, "the rows of c"),
            ("b", batch, bd[batch], k, "the columns of a"),
            ("b", batch + 1, bd[batch + 1], n, "the columns of c"),
        ] {
            if got != expected {
                return Err(format!("{name}: dims[{axis}] is {got}, expected {expected} as {source}"));
            }
        }
        let [a_share, b_share] = [share("a", ad, &cd[..batch])?, share("b", bd, &cd[..batch])?];
        Ok(Self { a, b, c, m, n, k, batch, a_share, b_share })
    }
}

/// How many consecutive indices along each batch dimension of c share one matrix.
fn share(name: &str, dims: &[usize], of_c: &[usize]) -> Result<[usize; MAX_RANK], Refusal> {
    let mut share = [1; MAX_RANK];
    for (axis, (dim, of_c)) in dims.iter().zip(of_c).enumerate() {
        if of_c % dim != 0 {
            return Err(format!(
                "{name}: dims[{axis}] is {dim}, expected a divisor of dims[{axis}] of c, {of_c}"
            ));
        }
        share[axis] = of_c / dim;
    }
    Ok(share)
}
