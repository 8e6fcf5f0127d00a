//! Integer operations, and casts between types that hipDNN lacks or converts otherwise, as ONNX Runtime computes them on x86-64.

use crate::lowering::{Integer, Slab};
use crate::model::{Element, half_to_f64};

/// A type of elements.
trait Number: Copy {
    /// # Safety
    /// The address is that of an element, which may be unaligned.
    unsafe fn read(from: *const u8) -> Self {
        // SAFETY: the address is that of an element, which may be unaligned, as this function requires.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
}

impl<T: Copy> Number for T {}

/// A boolean, which any byte may stand for.
#[derive(Clone, Copy)]
struct Truth(u8);

/// The bits of a half-precision number.
#[derive(Clone, Copy)]
struct Half(u16);

/// The bits of a bfloat16.
#[derive(Clone, Copy)]
struct Bfloat(u16);

/// A line of elements: the address of the first one, and the distance of the next.
type Line = (*mut u8, i64);

fn at((start, stride): Line, index: usize, size: usize) -> *mut u8 {
    let bytes = isize::try_from(stride).unwrap_or(0).wrapping_mul(index.wrapping_mul(size).cast_signed());
    start.wrapping_offset(bytes)
}

/// Computes a line with a function of one operand.
///
/// # Safety
/// The lines have `count` elements of the types.
unsafe fn unary<A: Number, R>(count: usize, to: Line, a: Line, f: impl Fn(A) -> R) {
    let is_plain = to.1 == 1 && a.1 == 1;
    for index in 0..count {
        let (from, target) = if is_plain {
            (a.0.wrapping_add(index * size_of::<A>()), to.0.wrapping_add(index * size_of::<R>()))
        } else {
            (at(a, index, size_of::<A>()), at(to, index, size_of::<R>()))
        };
        // SAFETY: the lines have `count` elements of the types, as this function requires.
        unsafe { target.cast::<R>().write_unaligned(f(A::read(from))) };
    }
}

/// Computes a line with a function of two operands.
///
/// # Safety
/// The lines have `count` elements of the types.
unsafe fn binary<A: Number, R>(count: usize, to: Line, a: Line, b: Line, f: impl Fn(A, A) -> R) {
    if b.1 == 0 && count > 0 {
        // SAFETY: the lines have `count` elements of the types, as this function requires.
        let second = unsafe { A::read(b.0) };
        // SAFETY: the lines have `count` elements of the types, as this function requires.
        return unsafe { unary(count, to, a, |first| f(first, second)) };
    }
    if a.1 == 0 && count > 0 {
        // SAFETY: the lines have `count` elements of the types, as this function requires.
        let first = unsafe { A::read(a.0) };
        // SAFETY: the lines have `count` elements of the types, as this function requires.
        return unsafe { unary(count, to, b, |second| f(first, second)) };
    }
    let is_plain = to.1 == 1 && a.1 == 1 && b.1 == 1;
    for index in 0..count {
        let size = size_of::<A>();
        let (first, second, target) = if is_plain {
            let step = index * size;
            (a.0.wrapping_add(step), b.0.wrapping_add(step), to.0.wrapping_add(index * size_of::<R>()))
        } else {
            (at(a, index, size), at(b, index, size), at(to, index, size_of::<R>()))
        };
        // SAFETY: the lines have `count` elements of the types, as this function requires.
        unsafe { target.cast::<R>().write_unaligned(f(A::read(first), A::read(second))) };
    }
}

/// The operations of an integer type.
macro_rules! operations {
    ($name:ident, $type:ty) => {
        /// # Safety
        /// The lines have `count` elements of the type.
        unsafe fn $name(integer: Integer, count: usize, to: Line, [a, b]: [Line; 2]) {
            type T = $type;
            const ZERO: T = 0 as T;
            const ONE: T = 1 as T;
            // SAFETY: the lines have `count` elements of the types, as this function requires.
            unsafe {
                match integer {
                    Integer::Neg => unary(count, to, a, |x: T| ZERO.wrapping_sub(x)),
                    Integer::Abs => {
                        unary(count, to, a, |x: T| if x < ZERO { ZERO.wrapping_sub(x) } else { x })
                    }
                    Integer::Sign => unary(count, to, a, |x: T| {
                        if x > ZERO {
                            ONE
                        } else if x < ZERO {
                            ZERO.wrapping_sub(ONE)
                        } else {
                            ZERO
                        }
                    }),
                    Integer::Add => binary(count, to, a, b, T::wrapping_add),
                    Integer::Sub => binary(count, to, a, b, T::wrapping_sub),
                    Integer::Mul => binary(count, to, a, b, T::wrapping_mul),
                    _ => others(integer, count, to, [a, b]),
                }
            }

            /// # Safety
            /// The lines have `count` elements of the type.
            unsafe fn others(integer: Integer, count: usize, to: Line, [a, b]: [Line; 2]) {
                // A division by zero has no result in ONNX; here it is 0.
                let divide = |x: T, y: T| if y == ZERO { ZERO } else { x.wrapping_div(y) };
                // The sign of the divisor, as in Python.
                let modulo = |x: T, y: T| {
                    let rest = if y == ZERO { ZERO } else { x.wrapping_rem(y) };
                    if rest != ZERO && (rest < ZERO) != (y < ZERO) { rest.wrapping_add(y) } else { rest }
                };
                let remainder = |x: T, y: T| if y == ZERO { ZERO } else { x.wrapping_rem(y) };
                let raised = |x: T, y: T| power(x as i128, y as i128) as T;
                // SAFETY: the lines have `count` elements of the type, as this function requires.
                unsafe {
                    match integer {
                        Integer::Div => binary(count, to, a, b, divide),
                        Integer::Mod => binary(count, to, a, b, modulo),
                        Integer::Rem => binary(count, to, a, b, remainder),
                        Integer::Pow => binary(count, to, a, b, raised),
                        Integer::Max => binary(count, to, a, b, T::max),
                        Integer::Min => binary(count, to, a, b, T::min),
                        Integer::Equal => binary(count, to, a, b, |x: T, y: T| u8::from(x == y)),
                        Integer::Less => binary(count, to, a, b, |x: T, y: T| u8::from(x < y)),
                        Integer::LessOrEqual => binary(count, to, a, b, |x: T, y: T| u8::from(x <= y)),
                        _ => of_bits(integer, count, to, [a, b]),
                    }
                }
            }

            /// # Safety
            /// The lines have `count` elements of the type.
            unsafe fn of_bits(integer: Integer, count: usize, to: Line, [a, b]: [Line; 2]) {
                let left = |x: T, y: T| x.checked_shl(bits(y as u64)).unwrap_or(ZERO);
                // Beyond the width, and by negative numbers, only the sign is left.
                let sign = |x: T| if x < ZERO { !ZERO } else { ZERO };
                let right = |x: T, y: T| x.checked_shr(bits(y as u64)).unwrap_or(sign(x));
                // SAFETY: the lines have `count` elements of the type, as this function requires.
                unsafe {
                    match integer {
                        Integer::And => binary(count, to, a, b, |x: T, y: T| x & y),
                        Integer::Or => binary(count, to, a, b, |x: T, y: T| x | y),
                        Integer::Xor => binary(count, to, a, b, |x: T, y: T| x ^ y),
                        Integer::Not => unary(count, to, a, |x: T| !x),
                        Integer::ShiftLeft => binary(count, to, a, b, left),
                        Integer::ShiftRight => binary(count, to, a, b, right),
                        _ => {}
                    }
                }
            }
        }
    };
}

operations!(of_u8, u8);
operations!(of_i8, i8);
operations!(of_u16, u16);
operations!(of_i16, i16);
operations!(of_u32, u32);
operations!(of_i32, i32);
operations!(of_u64, u64);
operations!(of_i64, i64);

/// A number of bits, which may be more than a type has.
fn bits(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A power; a negative one of other bases than 1 and -1 is 0.
fn power(x: i128, y: i128) -> i128 {
    match (x, y) {
        (1, _) => 1,
        (-1, _) => {
            if y % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        _ => u32::try_from(y).map_or(0, |exponent| x.wrapping_pow(exponent)),
    }
}

/// The conversion of the processor: what does not fit is the least number.
fn to_i32(x: f64) -> i32 {
    if x > -2_147_483_649.0 && x < 2_147_483_648.0 { x as i32 } else { i32::MIN }
}

fn to_i64(x: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&x) { x as i64 } else { i64::MIN }
}

fn to_u64(x: f64) -> u64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if x >= LIMIT { to_i64(x - LIMIT).cast_unsigned() ^ (1 << 63) } else { to_i64(x).cast_unsigned() }
}

/// Casts of a number: to each type by an integer or a floating-point number.
macro_rules! cast {
    ($count:expr, $to:expr, $a:expr, $element:expr, $type:ty, $integer:expr, $number:expr) => {{
        let (count, to, a) = ($count, $to, $a);
        match $element {
            Element::Bool => unary(count, to, a, |x: $type| u8::from($number(x) != 0.0)),
            Element::Uint8 | Element::Int8 => unary(count, to, a, |x: $type| $integer(x, 32) as u8),
            Element::Uint16 | Element::Int16 => unary(count, to, a, |x: $type| $integer(x, 32) as u16),
            Element::Int32 => unary(count, to, a, |x: $type| $integer(x, 32) as i32),
            Element::Uint32 => unary(count, to, a, |x: $type| $integer(x, 64) as u32),
            Element::Int64 => unary(count, to, a, |x: $type| $integer(x, 64) as i64),
            Element::Uint64 => unary(count, to, a, |x: $type| $integer(x, 65) as u64),
            Element::Float => unary(count, to, a, |x: $type| $number(x) as f32),
            Element::Double => unary(count, to, a, |x: $type| $number(x) as f64),
            // Casts to others pass through single precision.
            _ => {}
        }
    }};
}

/// The integer of a floating-point number, as converted to one of so many bits; 65 stands for 64 without a sign.
fn whole(x: f64, bits: u32) -> i64 {
    match bits {
        32 => i64::from(to_i32(x)),
        64 => to_i64(x),
        _ => to_u64(x).cast_signed(),
    }
}

/// Casts a line.
///
/// # Safety
/// The lines have `count` elements of the types.
unsafe fn cast(count: usize, (to, element): (Line, Element), (a, from): (Line, Element)) {
    // SAFETY: the lines have `count` elements of the types, as this function requires.
    unsafe {
        match from {
            Element::Uint64 => of_wide(count, (to, element), a, false),
            Element::Int64 => of_wide(count, (to, element), a, true),
            Element::Float | Element::Double | Element::Half | Element::Bfloat16 => {
                of_numbers(count, (to, element), (a, from));
            }
            _ => of_narrow(count, (to, element), (a, from)),
        }
    }
}

/// Casts of integers that double precision holds.
///
/// # Safety
/// The lines have `count` elements of the types.
unsafe fn of_narrow(count: usize, (to, element): (Line, Element), (a, from): (Line, Element)) {
    let truth = |x: Truth| f32::from(u8::from(x.0 != 0));
    // SAFETY: the lines have `count` elements of the types, as this function requires.
    unsafe {
        match from {
            Element::Uint8 => cast!(count, to, a, element, u8, |x: u8, _| i64::from(x), f32::from),
            Element::Int8 => cast!(count, to, a, element, i8, |x: i8, _| i64::from(x), f32::from),
            Element::Uint16 => cast!(count, to, a, element, u16, |x: u16, _| i64::from(x), f32::from),
            Element::Int16 => cast!(count, to, a, element, i16, |x: i16, _| i64::from(x), f32::from),
            Element::Uint32 => cast!(count, to, a, element, u32, |x: u32, _| i64::from(x), f64::from),
            Element::Int32 => cast!(count, to, a, element, i32, |x: i32, _| i64::from(x), f64::from),
            _ => cast!(count, to, a, element, Truth, |x: Truth, _| i64::from(x.0 != 0), truth),
        }
    }
}

/// Casts of floating-point numbers.
///
/// # Safety
/// The lines have `count` elements of the types.
unsafe fn of_numbers(count: usize, (to, element): (Line, Element), (a, from): (Line, Element)) {
    let half = |x: Half| half_to_f64(x.0);
    let bfloat = |x: Bfloat| f64::from(f32::from_bits(u32::from(x.0) << 16));
    let single = |x: f32, bits| whole(f64::from(x), bits);
    // SAFETY: the lines have `count` elements of the types, as this function requires.
    unsafe {
        match from {
            Element::Float => cast!(count, to, a, element, f32, single, f64::from),
            Element::Double => cast!(count, to, a, element, f64, whole, |x: f64| x),
            Element::Half => cast!(count, to, a, element, Half, |x, bits| whole(half(x), bits), half),
            _ => cast!(count, to, a, element, Bfloat, |x, bits| whole(bfloat(x), bits), bfloat),
        }
    }
}

/// Casts of 64-bit integers, which are rounded once.
///
/// # Safety
/// The lines have `count` elements of the types.
unsafe fn of_wide(count: usize, (to, element): (Line, Element), a: Line, is_signed: bool) {
    // SAFETY: the lines have `count` elements of the types, as this function requires.
    unsafe {
        match (element, is_signed) {
            (Element::Float, true) => unary(count, to, a, |x: i64| x as f32),
            (Element::Float, false) => unary(count, to, a, |x: u64| x as f32),
            (Element::Double, false) => unary(count, to, a, |x: u64| x as f64),
            _ => cast!(count, to, a, element, i64, |x: i64, _| x, |x: i64| x as f64),
        }
    }
}

/// The second operand where the first is true, else the third.
///
/// # Safety
/// The lines have `count` elements of the size.
unsafe fn choose(size: usize, count: usize, to: Line, [condition, a, b]: [Line; 3]) {
    for index in 0..count {
        // SAFETY: the lines have `count` elements of the size, as this function requires.
        unsafe {
            let from =
                if at(condition, index, 1).read() != 0 { at(a, index, size) } else { at(b, index, size) };
            at(to, index, size).copy_from(from, size);
        }
    }
}

/// Calls `f` with the offset of each element in each tensor, in elements.
pub(super) fn each(dims: &[i64], tensors: &[Slab<'_>], f: &mut dyn FnMut(&[i64])) {
    let mut index = vec![0_i64; dims.len()];
    let mut offsets = vec![0_i64; tensors.len()];
    if dims.contains(&0) {
        return;
    }
    'elements: loop {
        f(&offsets);
        for (axis, (at, dim)) in index.iter_mut().zip(dims).enumerate().rev() {
            *at += 1;
            let step = if *at < *dim { 1 } else { 1 - *dim };
            for (offset, tensor) in offsets.iter_mut().zip(tensors) {
                *offset += tensor.stride(axis) * step;
            }
            if *at < *dim {
                continue 'elements;
            }
            *at = 0;
        }
        return;
    }
}

/// Computes an operation.
///
/// # Safety
/// The tensors, the last of which is the result, have elements of their types for these dimensions.
pub(super) unsafe fn integers(integer: Integer, tensors: &[Slab<'_>], dims: &[i64]) {
    let Some((to, reads)) = tensors.split_last() else { return };
    let outer = dims.len().saturating_sub(1);
    let count = usize::try_from(dims.last().copied().unwrap_or(1)).unwrap_or(0);
    let line = |slab: &Slab<'_>, offset: Option<&i64>| {
        (slab.at(offset.copied().unwrap_or(0)), if dims.is_empty() { 0 } else { slab.stride(outer) })
    };
    each(dims.get(..outer).unwrap_or(&[]), tensors, &mut |offsets| {
        let target = line(to, offsets.last());
        let lines: Vec<Line> =
            reads.iter().zip(offsets).map(|(slab, offset)| line(slab, Some(offset))).collect();
        let Some(first) = lines.first().copied() else { return };
        let of = reads.first().map_or(Element::Int64, |slab| slab.bound.element);
        let pair = [first, lines.get(1).copied().unwrap_or(first)];
        // SAFETY: the tensors, the last of which is the result, have elements of their types for these dimensions, as this function
        // requires; these are their lines.
        unsafe {
            match (integer, lines.as_slice()) {
                (Integer::Cast, _) => cast(count, (target, to.bound.element), (first, of)),
                (Integer::Where, [a, b, c]) => choose(to.size().unsigned_abs(), count, target, [*a, *b, *c]),
                _ => of_type(integer, of, count, target, pair),
            }
        }
    });
}

/// # Safety
/// The lines have `count` elements of the type.
unsafe fn of_type(integer: Integer, of: Element, count: usize, to: Line, pair: [Line; 2]) {
    // SAFETY: the lines have `count` elements of the type, as this function requires.
    unsafe {
        match of {
            Element::Bool | Element::Uint8 => of_u8(integer, count, to, pair),
            Element::Int8 => of_i8(integer, count, to, pair),
            Element::Uint16 => of_u16(integer, count, to, pair),
            Element::Int16 => of_i16(integer, count, to, pair),
            Element::Uint32 => of_u32(integer, count, to, pair),
            Element::Int32 => of_i32(integer, count, to, pair),
            Element::Uint64 => of_u64(integer, count, to, pair),
            Element::Int64 => of_i64(integer, count, to, pair),
            // No operation has such operands.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_have_the_sign_of_the_base() {
        assert_eq!(
            [power(-1, -3), power(2, -1), power(-3, 3), power(0, 0), power(1, -9)],
            [-1, 0, -27, 1, 1]
        );
    }

    #[test]
    fn numbers_that_do_not_fit_are_those_of_the_processor() {
        assert_eq!([to_i32(3e9), to_i32(f64::NAN), to_i32(-2_147_483_648.5)], [i32::MIN; 3]);
        assert_eq!([to_i64(1e19), to_i64(-1e19), to_i64(f64::INFINITY)], [i64::MIN; 3]);
        assert_eq!([to_u64(1e19), to_u64(5.9)], [10_000_000_000_000_000_000, 5]);
        assert_eq!((whole(300.7, 32) as u8, whole(1e10, 32) as u8, whole(-1.5, 32) as i8), (44, 0, -1));
    }
}
