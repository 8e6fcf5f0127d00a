//! Numbers that are in the kernel, passed, or in memory.

use super::{HeadFactor, Scale};
use crate::builder::Builder;
use crate::form::{Memory, Parameter, Pointer, Value};
use crate::scalar::Scalar;

/// The parameter of a number that is not in the kernel.
pub(super) fn number(b: &mut Builder, scale: Scale) -> Option<Pointer> {
    match scale {
        Scale::Value(_) => None,
        Scale::Passed => Some(b.parameter(Parameter::Number(Scalar::F64))),
        Scale::Memory(scalar) => Some(b.pointer(scalar)),
    }
}

/// A number times a constant.
pub(super) fn scaled(
    b: &mut Builder,
    (scale, pointer): (Scale, Option<Pointer>),
    factor: f64,
    real: Scalar,
) -> Value {
    let own = match (scale, pointer) {
        (Scale::Memory(_), Some(pointer)) => b.load(Memory::Global(pointer), 0),
        (Scale::Passed, Some(pointer)) => b.passed_at(pointer),
        (Scale::Value(scale), _) => return b.float(scale * factor, real),
        _ => return b.float(factor, real),
    };
    let own = b.convert(own, real);
    if factor == 1.0 { own } else { b.mul(own, factor) }
}

/// The factor of a query head.
pub(super) fn of_head(
    b: &mut Builder,
    (factor, pointer): (HeadFactor, Pointer),
    [sequence, head]: [Value; 2],
    heads: usize,
    real: Scalar,
) -> Value {
    let own = b.div(head, heads / factor.heads);
    let own = b.mul(own, factor.strides[1]);
    let sequence = b.mul(sequence, factor.strides[0]);
    let at = b.add(sequence, own);
    let own = b.load(Memory::Global(pointer), at);
    b.convert(own, real)
}
