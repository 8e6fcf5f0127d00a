//! Simple operations one behind the other, whose results stay in registers.
//!
//! A loop for each operation would read and write the first cache for each. Where every operation's result is read by the
//! next one alone, some vectors go through all of them instead.

use hipdnn_plugin_sdk::graph::PointwiseMode;

use super::chain::{Operation, Step};
use crate::fast::level::{Level, VectorWork};
use crate::fast::real::FastReal;
use crate::fast::vector::{Lanewise, Vector};

/// Vectors that go through the operations together: enough that each of the operations has something to wait for.
const TOGETHER: usize = 8;

/// The form in registers of an operation that needs no numbers of its own; none where it has none.
pub(super) fn lanewise(step: &Step) -> Option<Lanewise> {
    use PointwiseMode as M;
    let Operation::Pointwise(mode, activation) = &step.operation else { return None };
    Some(match mode {
        M::Add => Lanewise::Add,
        M::Sub => Lanewise::Sub,
        M::Mul => Lanewise::Mul,
        M::Div => Lanewise::Div,
        M::Max => Lanewise::Max,
        M::Min => Lanewise::Min,
        M::Abs => Lanewise::Abs,
        M::Neg => Lanewise::Neg,
        M::Identity => Lanewise::Identity,
        M::ReluFwd
            if activation.lower_clip == 0.0
                && activation.lower_clip_slope == 0.0
                && activation.upper_clip.is_none() =>
        {
            Lanewise::Positive
        }
        _ => return None,
    })
}

/// An operation of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) operation: Lanewise,
    /// Which operand the result of the one before is.
    pub(super) side: Side,
    /// The number of the other operand among those that the line is run with.
    pub(super) other: usize,
    /// Whether that operand is one number.
    pub(super) one: bool,
}

/// The side of an operation that the result of the one before it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Second,
    /// It is both operands.
    Both,
}

/// Runs as many of `len` numbers through the operations as make whole groups of vectors, and says how many. The first
/// operation's first operand is operand 0.
///
/// # Safety
/// The level is one that the processor has. The operands are readable and `out` is writable for `len` numbers; an operand
/// may be `out`, but not overlap it otherwise.
pub(super) unsafe fn run<T: FastReal>(
    level: Level,
    links: &[Link],
    operands: &[*const T],
    out: *mut T,
    len: usize,
) -> usize {
    // SAFETY: the caller promises the level.
    unsafe { level.run_vectors::<T, _>(LineWork { links, operands, out, len }) }
}

struct LineWork<'a, T> {
    links: &'a [Link],
    operands: &'a [*const T],
    out: *mut T,
    len: usize,
}

impl<T: FastReal> VectorWork<T> for LineWork<'_, T> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) -> usize {
        let first = self.operands[0];
        let mut at = 0;
        while at + TOGETHER * V::LANES <= self.len {
            // SAFETY: the caller promises the operands, the result and the instructions.
            unsafe {
                let mut vectors = [V::zero(); TOGETHER];
                for (i, vector) in vectors.iter_mut().enumerate() {
                    *vector = V::load(first.add(at + i * V::LANES));
                }
                for link in self.links {
                    // Not a closure, which would be compiled without the instructions of its caller.
                    macro_rules! all {
                        ($operation:expr) => {
                            match link.side {
                                Side::First if link.one => {
                                    let other = V::splat(self.operands[link.other].read());
                                    for vector in &mut vectors {
                                        *vector = vector.lanewise($operation, other);
                                    }
                                }
                                Side::Second if link.one => {
                                    let other = V::splat(self.operands[link.other].read());
                                    for vector in &mut vectors {
                                        *vector = other.lanewise($operation, *vector);
                                    }
                                }
                                Side::First => {
                                    let other = self.operands[link.other].add(at);
                                    for (i, vector) in vectors.iter_mut().enumerate() {
                                        *vector =
                                            vector.lanewise($operation, V::load(other.add(i * V::LANES)));
                                    }
                                }
                                Side::Second => {
                                    let other = self.operands[link.other].add(at);
                                    for (i, vector) in vectors.iter_mut().enumerate() {
                                        *vector =
                                            V::load(other.add(i * V::LANES)).lanewise($operation, *vector);
                                    }
                                }
                                Side::Both => {
                                    for vector in &mut vectors {
                                        *vector = vector.lanewise($operation, *vector);
                                    }
                                }
                            }
                        };
                    }
                    match link.operation {
                        Lanewise::Add => all!(Lanewise::Add),
                        Lanewise::Sub => all!(Lanewise::Sub),
                        Lanewise::Mul => all!(Lanewise::Mul),
                        Lanewise::Div => all!(Lanewise::Div),
                        Lanewise::Max => all!(Lanewise::Max),
                        Lanewise::Min => all!(Lanewise::Min),
                        Lanewise::Abs => all!(Lanewise::Abs),
                        Lanewise::Neg => all!(Lanewise::Neg),
                        Lanewise::Positive => all!(Lanewise::Positive),
                        Lanewise::Identity => {}
                    }
                }
                for (i, vector) in vectors.iter().enumerate() {
                    vector.store(self.out.add(at + i * V::LANES));
                }
            }
            at += TOGETHER * V::LANES;
        }
        at
    }
}
