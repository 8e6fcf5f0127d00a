//! The provider's own operations between hipDNN's graphs: copies, integers, gathers.

use super::bits;
use super::slab::Slab;
use crate::lowering::{Host, Integer};
use crate::model::{Element, half_to_f64};
use crate::threads::Parallel;

/// Computes `host`, using `parallel` for large operations.
///
/// # Safety
/// Every tensor is readable, and the result is writable; it overlaps none that is read, except
/// the past of an append.
pub unsafe fn run(
    host: Host,
    reads: &[Slab<'_>],
    to: Slab<'_>,
    parallel: Parallel<'_>,
) -> Result<(), String> {
    match (host, reads) {
        (Host::Copy, [from]) => {
            // SAFETY: the caller vouches for both, which have equal dimensions.
            unsafe { copy(from.bound.element.size(), &to.bound.dims, side(from), side(&to)) };
            Ok(())
        }
        (Host::Integers(integer), _) => {
            let all: Vec<Slab<'_>> = reads.iter().copied().chain([to]).collect();
            // SAFETY: the caller vouches for the tensors, which have equal dimensions.
            unsafe { integers(integer, &all, &to.bound.dims) };
            Ok(())
        }
        // SAFETY: the caller vouches for the tensors.
        (Host::Gather(axis), [from, indices]) => unsafe { gather(*from, *indices, to, axis) },
        // SAFETY: the caller vouches for the tensors, whose rows the function checks.
        (Host::Append, [past, new, rows]) => unsafe { append(*past, *new, *rows, to) },
        // SAFETY: the caller vouches for the tensors, whose sizes the function checks.
        (Host::Unpack(form), _) => unsafe { bits::unpack(form, reads, to, parallel) },
        // SAFETY: the caller vouches for the tensors, whose sizes the function checks.
        (Host::Multiply(form), _) => unsafe { bits::multiply(form, reads, to, parallel) },
        _ => Err(format!("{host:?} of {} tensors", reads.len())),
    }
}

fn side<'a>(slab: &Slab<'a>) -> (*mut u8, &'a [i64]) {
    (slab.start, &slab.bound.strides)
}

/// Copies elements of a size between layouts of the same dimensions; strides are in elements.
///
/// # Safety
/// Both layouts are valid for reads and writes.
unsafe fn copy(size: usize, dims: &[i64], from: (*mut u8, &[i64]), to: (*mut u8, &[i64])) {
    let (Some((dim, dims)), Some((from_stride, from_strides)), Some((to_stride, to_strides))) =
        (dims.split_first(), from.1.split_first(), to.1.split_first())
    else {
        // SAFETY: the caller vouches for one element on both sides.
        unsafe { to.0.copy_from(from.0, size) };
        return;
    };
    let count = usize::try_from(*dim).unwrap_or(0);
    if dims.is_empty() && *from_stride == 1 && *to_stride == 1 {
        // SAFETY: the caller vouches for `count` elements side by side.
        unsafe { to.0.copy_from(from.0, count * size) };
        return;
    }
    let bytes = |stride: &i64| usize::try_from(*stride).unwrap_or(0).wrapping_mul(size);
    let (from_step, to_step) = (bytes(from_stride), bytes(to_stride));
    for at in 0..count {
        let source = from.0.wrapping_add(at * from_step);
        let target = to.0.wrapping_add(at * to_step);
        // SAFETY: the caller vouches for every element of both layouts.
        unsafe { copy(size, dims, (source, from_strides), (target, to_strides)) };
    }
}

/// Calls `f` with the offset of each element in each tensor, in elements.
fn each(dims: &[i64], tensors: &[Slab<'_>], f: &mut dyn FnMut(&[i64])) {
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

/// Reads an integer, or a number truncated to one.
///
/// # Safety
/// The address is that of an element of this type.
unsafe fn read(element: Element, from: *const u8) -> i128 {
    // SAFETY: the caller vouches for an element of the type; it may begin anywhere.
    unsafe {
        match element {
            Element::Bool => i128::from(from.read() != 0),
            Element::Uint8 => i128::from(from.read()),
            Element::Int8 => i128::from(from.cast::<i8>().read()),
            Element::Uint16 => i128::from(from.cast::<u16>().read_unaligned()),
            Element::Int16 => i128::from(from.cast::<i16>().read_unaligned()),
            Element::Uint32 => i128::from(from.cast::<u32>().read_unaligned()),
            Element::Int32 => i128::from(from.cast::<i32>().read_unaligned()),
            Element::Uint64 => i128::from(from.cast::<u64>().read_unaligned()),
            Element::Int64 => i128::from(from.cast::<i64>().read_unaligned()),
            Element::Float => from.cast::<f32>().read_unaligned() as i128,
            Element::Double => from.cast::<f64>().read_unaligned() as i128,
            Element::Half => half_to_f64(from.cast::<u16>().read_unaligned()) as i128,
            Element::Bfloat16 => f32::from_bits(u32::from(from.cast::<u16>().read_unaligned()) << 16) as i128,
        }
    }
}

/// Writes an integer, dropping upper bits that the type lacks.
///
/// # Safety
/// The address is that of an element of this type.
unsafe fn write(element: Element, to: *mut u8, value: i128) {
    // SAFETY: the caller vouches for an element of the type; it may begin anywhere.
    unsafe {
        match element {
            Element::Bool => to.write(u8::from(value != 0)),
            Element::Uint8 | Element::Int8 => to.write(value as u8),
            Element::Uint16 | Element::Int16 => to.cast::<u16>().write_unaligned(value as u16),
            Element::Uint32 | Element::Int32 => to.cast::<u32>().write_unaligned(value as u32),
            Element::Uint64 | Element::Int64 => to.cast::<u64>().write_unaligned(value as u64),
            Element::Float => to.cast::<f32>().write_unaligned(value as f32),
            Element::Double => to.cast::<f64>().write_unaligned(value as f64),
            // No operation makes these from integers.
            Element::Half | Element::Bfloat16 => {}
        }
    }
}

/// The result of an operation.
fn compute(integer: Integer, of: &[i128]) -> i128 {
    let get = |at: usize| of.get(at).copied().unwrap_or(0);
    let (x, y) = (get(0), get(1));
    match integer {
        Integer::Cast => x,
        Integer::Neg => -x,
        Integer::Abs => x.abs(),
        Integer::Sign => x.signum(),
        Integer::Add => x + y,
        Integer::Sub => x - y,
        Integer::Mul => x.wrapping_mul(y),
        Integer::Div => x.checked_div(y).unwrap_or(0),
        // The sign of the divisor, as in Python.
        Integer::Mod => x
            .checked_rem(y)
            .map_or(0, |rest| if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }),
        Integer::Pow if y < 0 => [(1, 1), (-1, if y % 2 == 0 { 1 } else { -1 })]
            .iter()
            .find(|(base, _)| *base == x)
            .map_or(0, |(_, power)| *power),
        Integer::Pow => u32::try_from(y).map_or(0, |exponent| x.wrapping_pow(exponent)),
        Integer::Max => x.max(y),
        Integer::Min => x.min(y),
        Integer::Equal => i128::from(x == y),
        Integer::Less => i128::from(x < y),
        Integer::LessOrEqual => i128::from(x <= y),
        Integer::Where => {
            if x != 0 {
                y
            } else {
                get(2)
            }
        }
    }
}

/// # Safety
/// The tensors, the last of which is the result, have elements of their types for these dimensions.
unsafe fn integers(integer: Integer, tensors: &[Slab<'_>], dims: &[i64]) {
    let Some((to, reads)) = tensors.split_last() else { return };
    let mut operands = vec![0_i128; reads.len()];
    each(dims, tensors, &mut |offsets| {
        let places = reads.iter().zip(offsets).map(|(slab, offset)| (slab.bound.element, slab.at(*offset)));
        for (operand, (element, place)) in operands.iter_mut().zip(places) {
            // SAFETY: the caller vouches for the element.
            *operand = unsafe { read(element, place) };
        }
        if let Some(offset) = offsets.last() {
            // SAFETY: the caller vouches for the element of the result.
            unsafe { write(to.bound.element, to.at(*offset), compute(integer, &operands)) };
        }
    });
}

/// # Safety
/// The tensors have elements of their types; the result is packed.
unsafe fn gather(from: Slab<'_>, indices: Slab<'_>, to: Slab<'_>, axis: usize) -> Result<(), String> {
    let count = from.dim(axis);
    let without = |list: &[i64]| {
        let mut list = list.to_vec();
        if axis < list.len() {
            list.remove(axis);
        }
        list
    };
    let (dims, strides) = (without(&from.bound.dims), without(&from.bound.strides));
    let inner: i64 = from.bound.dims.iter().skip(axis + 1).product();
    let chosen: i64 = indices.bound.dims.iter().product();
    // The parts' positions in the result: rows of the outer axes are `chosen` parts apart.
    let mut to_strides = crate::lowering::packed(&dims);
    to_strides.iter_mut().take(axis).for_each(|stride| *stride *= chosen);
    let (mut number, mut wrong) = (0, None);
    each(&indices.bound.dims, &[indices], &mut |offsets| {
        let place = indices.at(offsets.first().copied().unwrap_or(0));
        // SAFETY: the caller vouches for the indices.
        let given = unsafe { read(indices.bound.element, place) };
        let index = if given < 0 { given + i128::from(count) } else { given };
        match i64::try_from(index).ok().filter(|index| (0..count).contains(index)) {
            Some(index) => {
                let source = (from.at(index * from.stride(axis)), strides.as_slice());
                let target = (to.at(number * inner), to_strides.as_slice());
                // SAFETY: the index is below the dimension, and the result has a part for each index.
                unsafe { copy(from.bound.element.size(), &dims, source, target) };
            }
            None => wrong = Some(given),
        }
        number += 1;
    });
    match wrong {
        Some(index) => Err(format!("index {index}, expected one from {} to {}", -count, count - 1)),
        None => Ok(()),
    }
}

/// # Safety
/// The tensors have elements of their types.
unsafe fn append(past: Slab<'_>, new: Slab<'_>, rows: Slab<'_>, to: Slab<'_>) -> Result<(), String> {
    let size = to.bound.element.size();
    let part =
        |slab: &Slab<'_>, sequence: i64, row: i64| slab.at(sequence * slab.stride(0) + row * slab.stride(2));
    let inner = |slab: &Slab<'_>| [slab.stride(1), slab.stride(2), slab.stride(3)];
    let is_same = past.start == to.start;
    for sequence in 0..to.dim(0) {
        // SAFETY: the caller vouches for one number per sequence.
        let begun = unsafe { read(rows.bound.element, rows.at(sequence * rows.stride(0))) };
        let (room, added) = (to.dim(2), new.dim(2));
        let most = (room - added).min(if is_same { room } else { past.dim(2) });
        let Some(begun) = i64::try_from(begun).ok().filter(|begun| (0..=most).contains(begun)) else {
            return Err(format!("{begun} rows of the past, expected 0 to {most}: the cache has {room}"));
        };
        let move_rows = |from: &Slab<'_>, from_row: i64, to_row: i64, count: i64| {
            let (source, target) = (part(from, sequence, from_row), part(&to, sequence, to_row));
            // SAFETY: the rows are below the dimensions of both, as checked above.
            unsafe {
                copy(size, &[to.dim(1), count, to.dim(3)], (source, &inner(from)), (target, &inner(&to)))
            };
        };
        if !is_same {
            move_rows(&past, 0, 0, begun);
        }
        move_rows(&new, 0, begun, added);
        if !is_same {
            // Rows after the new ones are zeros.
            for head in 0..to.dim(1) {
                for row in begun + added..room {
                    let place = to.at(sequence * to.stride(0) + head * to.stride(1) + row * to.stride(2));
                    // SAFETY: the row is one of the result, whose rows are packed.
                    unsafe { place.write_bytes(0, usize::try_from(to.dim(3)).unwrap_or(0) * size) };
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lowering::{Bound, Place, packed};

    fn bound(element: Element, dims: &[i64], strides: &[i64]) -> Bound {
        Bound { place: Place::Scratch(0), element, dims: dims.to_vec(), strides: strides.to_vec() }
    }

    fn whole(element: Element, dims: &[i64]) -> Bound {
        bound(element, dims, &packed(dims))
    }

    fn slab<'a, T>(of: &'a mut [T], bound: &'a Bound) -> Slab<'a> {
        Slab { start: of.as_mut_ptr().cast(), bound }
    }

    fn run(host: Host, reads: &[Slab<'_>], to: Slab<'_>) -> Result<(), String> {
        // SAFETY: the test's tensors are views of its arrays.
        unsafe {
            super::run(host, reads, to, &|count, work| {
                (0..count).for_each(work);
                Ok(())
            })
        }
    }

    #[test]
    fn elements_are_copied_between_layouts() {
        let (mut source, mut target) = ([0_i64, 1, 2, 3, 4, 5], [9_i64; 8]);
        let (from, to) = (whole(Element::Int64, &[2, 3]), bound(Element::Int64, &[2, 3], &[4, 1]));
        run(Host::Copy, &[slab(&mut source, &from)], slab(&mut target, &to)).unwrap();
        assert_eq!(target, [0, 1, 2, 9, 3, 4, 5, 9]);
        let (from, to) = (whole(Element::Int64, &[]), whole(Element::Int64, &[]));
        run(Host::Copy, &[slab(&mut source[5..], &from)], slab(&mut target[7..], &to)).unwrap();
        assert_eq!(target[7], 5);
    }

    #[test]
    fn integers_wrap_and_broadcast() {
        let (mut x, mut y, mut z) = ([200_u8, 100, 3, 7], [100_u8, 5], [0_u8; 4]);
        let (of_x, of_y) = (whole(Element::Uint8, &[2, 2]), bound(Element::Uint8, &[2, 2], &[0, 1]));
        let mut result = |integer| {
            let reads = [slab(&mut x, &of_x), slab(&mut y, &of_y)];
            run(Host::Integers(integer), &reads, slab(&mut z, &of_x)).unwrap();
            z
        };
        assert_eq!(result(Integer::Add), [44, 105, 103, 12]);
        assert_eq!(result(Integer::Sub), [100, 95, 159, 2]);
        assert_eq!(result(Integer::Div), [2, 20, 0, 1]);
        assert_eq!(result(Integer::LessOrEqual), [0, 0, 1, 0]);
    }

    #[test]
    fn divisions_round_as_they_are_defined() {
        for (integer, x, y, z) in [
            (Integer::Div, -7, 2, -3),
            (Integer::Div, 7, 0, 0),
            (Integer::Mod, -7, 3, 2),
            (Integer::Mod, 7, -3, -2),
            (Integer::Pow, -1, -3, -1),
            (Integer::Pow, 2, -1, 0),
            (Integer::Pow, -3, 3, -27),
        ] {
            assert_eq!(compute(integer, &[x, y]), z, "{integer:?} of {x} and {y}");
        }
    }

    #[test]
    fn parts_are_gathered_along_any_axis() {
        let (mut x, mut at, mut y) = ([0_u16, 1, 2, 3, 4, 5], [2_i64, -3], [9_u16; 4]);
        let (from, indices, to) =
            (whole(Element::Uint16, &[2, 3]), whole(Element::Int64, &[2]), whole(Element::Uint16, &[2, 2]));
        let gather = |x: &mut [u16], at: &mut [i64], y: &mut [u16]| {
            run(Host::Gather(1), &[slab(x, &from), slab(at, &indices)], slab(y, &to))
        };
        gather(&mut x, &mut at, &mut y).unwrap();
        assert_eq!(y, [2, 0, 5, 3]);
        at[1] = 3;
        let text = gather(&mut x, &mut at, &mut y).unwrap_err();
        assert_eq!(text, "index 3, expected one from -3 to 2");
    }

    #[test]
    fn rows_are_appended_to_a_cache() {
        // Two sequences of one head, with 1 and 0 past rows, in a cache of 3 rows of 2 elements.
        let (mut past, mut new) = ([1_f32, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0], [5_f32, 6.0, 7.0, 8.0]);
        let (mut rows, mut cache) = ([1_i32, 0], [9_f32; 12]);
        let forms = [[2, 1, 2, 2], [2, 1, 1, 2], [2, 1, 3, 2]].map(|dims| whole(Element::Float, &dims));
        let counts = whole(Element::Int32, &[2]);
        let mut append = |past: Slab<'_>, rows: &mut [i32], cache: &mut [f32]| {
            let reads = [past, slab(&mut new, &forms[1]), slab(rows, &counts)];
            run(Host::Append, &reads, slab(cache, &forms[2]))
        };
        append(slab(&mut past, &forms[0]), &mut rows, &mut cache).unwrap();
        assert_eq!(cache, [1.0, 2.0, 5.0, 6.0, 0.0, 0.0, 7.0, 8.0, 0.0, 0.0, 0.0, 0.0]);
        // In place, after what is there.
        let own = Slab { start: cache.as_mut_ptr().cast(), bound: &forms[2] };
        append(own, &mut [2, 1], &mut cache).unwrap();
        assert_eq!(cache, [1.0, 2.0, 5.0, 6.0, 5.0, 6.0, 7.0, 8.0, 7.0, 8.0, 0.0, 0.0]);
        let text = append(own, &mut [3, 0], &mut cache).unwrap_err();
        assert!(text.starts_with("3 rows of the past, expected 0 to 2"), "{text}");
    }
}
