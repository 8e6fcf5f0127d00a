//! The provider's own operations between hipDNN's graphs: copies, integers, gathers.

use super::bits;
use super::copy::copy;
use super::integers::{each, integers};
use crate::lowering::{Host, Shared, Slab};
use crate::model::Element;
use crate::threads::Parallel;

/// The gathered elements for which another thread is worthwhile.
const GATHERED: usize = 1 << 16;

/// Computes `host`, using `parallel` for large operations.
///
/// # Safety
/// Every tensor is readable, and the result is writable; it overlaps none that is read, except
/// the past of an append.
pub unsafe fn run(
    host: &Host,
    reads: &[Slab<'_>],
    writes: &[Slab<'_>],
    parallel: Parallel<'_>,
) -> Result<(), String> {
    if let Host::Own(own) = host {
        // SAFETY: every tensor is readable, and the result is writable; it overlaps none that is read, except the past of an append, as
        // this function requires.
        return unsafe { own.run(reads, writes, parallel) };
    }
    let [to] = *writes else { return Err(format!("{host:?} of {} results", writes.len())) };
    match (host, reads) {
        (Host::Copy, [from]) => {
            // SAFETY: every tensor is readable, and the result is writable; it overlaps none that is read, except the past of an append,
            // as this function requires; the tensors have equal dimensions.
            unsafe {
                copy(from.bound.element.size(), &to.bound.dims, side(from), side(&to), Some(parallel));
            }
            Ok(())
        }
        (Host::Integers(integer), _) => {
            let all: Vec<Slab<'_>> = reads.iter().copied().chain([to]).collect();
            // SAFETY: every tensor is readable, and the result is writable; it overlaps none that is read, except the past of an append,
            // as this function requires; the tensors have equal dimensions.
            unsafe { integers(*integer, &all, &to.bound.dims) };
            Ok(())
        }
        // SAFETY: every tensor is readable, and the result is writable; it overlaps none that is read, except the past of an append, as
        // this function requires.
        (Host::Gather(axis), [from, indices]) => unsafe { gather(*from, *indices, to, *axis, parallel) },
        // SAFETY: every tensor is readable, and the result is writable; it overlaps none that is read, except the past of an append, as
        // this function requires; the called function checks the rows.
        (Host::Append, [past, new, rows]) => unsafe { append(*past, *new, *rows, to) },
        // SAFETY: every tensor is readable, and the result is writable; it overlaps none that is read, except the past of an append, as
        // this function requires; the called function checks the sizes.
        (Host::Unpack(form), _) => unsafe { bits::unpack(*form, reads, to, parallel) },
        // SAFETY: every tensor is readable, and the result is writable; it overlaps none that is read, except the past of an append, as
        // this function requires; the called function checks the sizes.
        (Host::Multiply(form), _) => unsafe { bits::multiply(*form, reads, to, parallel) },
        _ => Err(format!("{host:?} of {} tensors", reads.len())),
    }
}

fn side<'a>(slab: &Slab<'a>) -> (*mut u8, &'a [i64]) {
    (slab.start, &slab.bound.strides)
}

/// Reads an index or a number of rows.
///
/// # Safety
/// `from` is readable for an element of this type.
unsafe fn read(element: Element, from: *const u8) -> i64 {
    // SAFETY: the address is that of an element of this type, as this function requires; it may begin anywhere.
    unsafe {
        match element {
            Element::Int32 => i64::from(from.cast::<i32>().read_unaligned()),
            Element::Int64 => from.cast::<i64>().read_unaligned(),
            // Operators refuse others.
            _ => -1,
        }
    }
}

/// # Safety
/// The tensors have elements of their types; the result is packed.
unsafe fn gather(
    from: Slab<'_>,
    indices: Slab<'_>,
    to: Slab<'_>,
    axis: usize,
    parallel: Parallel<'_>,
) -> Result<(), String> {
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
    let (mut places, mut wrong) = (Vec::new(), None);
    each(&indices.bound.dims, &[indices], &mut |offsets| {
        let place = indices.at(offsets.first().copied().unwrap_or(0));
        // SAFETY: the tensors have elements of their types; the result is packed, as this function requires.
        let given = unsafe { read(indices.bound.element, place) };
        let index = if given < 0 { given.saturating_add(count) } else { given };
        match Some(index).filter(|index| (0..count).contains(index)) {
            Some(index) => places.push(index),
            None => wrong = Some(given),
        }
    });
    if let Some(index) = wrong {
        return Err(format!("index {index}, expected one from {} to {}", -count, count - 1));
    }
    let all = [from, to];
    let shared = Shared(&all);
    let gathered = |number: usize| {
        let (Some(from), Some(to), Some(index)) = (shared.get(0), shared.get(1), places.get(number)) else {
            return;
        };
        let at = i64::try_from(number).unwrap_or(0) * inner;
        let source = (from.at(index * from.stride(axis)), strides.as_slice());
        let target = (to.at(at), to_strides.as_slice());
        // SAFETY: the index is below the dimension, and the result has a part of its own for each index.
        unsafe { copy(from.bound.element.size(), &dims, source, target, None) };
    };
    let elements = usize::try_from(dims.iter().product::<i64>()).unwrap_or(0) * places.len();
    let parts = (elements / GATHERED).clamp(1, places.len().max(1));
    let part = |part: usize| {
        let all = places.len();
        (all * part / parts..all * (part + 1) / parts).for_each(gathered);
    };
    if parts == 1 || parallel(parts, &part).is_err() {
        // Copying twice does no harm.
        (0..parts).for_each(part);
    }
    Ok(())
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
        // SAFETY: the tensors have elements of their types, as this function requires.
        let begun = unsafe { read(rows.bound.element, rows.at(sequence * rows.stride(0))) };
        let (room, added) = (to.dim(2), new.dim(2));
        let most = (room - added).min(if is_same { room } else { past.dim(2) });
        let Some(begun) = Some(begun).filter(|begun| (0..=most).contains(begun)) else {
            return Err(format!("{begun} rows of the past, expected 0 to {most}: the cache has {room}"));
        };
        let move_rows = |from: &Slab<'_>, from_row: i64, to_row: i64, count: i64| {
            let (source, target) = (part(from, sequence, from_row), part(&to, sequence, to_row));
            // SAFETY: the rows are below the dimensions of both, as checked above.
            unsafe {
                copy(
                    size,
                    &[to.dim(1), count, to.dim(3)],
                    (source, &inner(from)),
                    (target, &inner(&to)),
                    None,
                );
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
    use crate::bits::Form;
    use crate::lowering::{Bound, Integer, Place, packed};

    fn bound(element: Element, dims: &[i64], strides: &[i64]) -> Bound {
        Bound { place: Place::Scratch(0), element, dims: dims.into(), strides: strides.into() }
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
            super::run(&host, reads, &[to], &|count, work| {
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
    fn a_product_of_no_rows_reads_nothing() {
        let form = Form::new(1, 16, 16, 8).unwrap();
        let (a, b) = (whole(Element::Float, &[0, 16]), whole(Element::Uint8, &[16]));
        let (one, none) = (whole(Element::Float, &[1]), whole(Element::Float, &[0, 1]));
        let (mut weights, mut scale) = ([0_u8; 16], [1.0_f32]);
        // ONNX Runtime may pass null for a tensor without elements.
        let null = |bound| Slab::new(std::ptr::null_mut(), bound).unwrap();
        run(Host::Multiply(form), &[null(&a), slab(&mut weights, &b), slab(&mut scale, &one)], null(&none))
            .unwrap();
    }

    #[test]
    fn divisions_round_as_they_are_defined() {
        let (mut x, mut y, mut z) = ([-7_i64, 7, -7, 7], [2_i64, 0, 3, -3], [0_i64; 4]);
        let of = whole(Element::Int64, &[4]);
        let mut result = |integer| {
            run(Host::Integers(integer), &[slab(&mut x, &of), slab(&mut y, &of)], slab(&mut z, &of)).unwrap();
            z
        };
        assert_eq!(result(Integer::Div), [-3, 0, -2, -2]);
        assert_eq!(result(Integer::Mod), [1, 0, 2, -2]);
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
    fn many_rows_are_gathered_in_parts() {
        let (rows, size) = (7_i64, 1 << 10);
        let mut x: Vec<i32> = (0..(rows * size) as i32).collect();
        let mut indices: Vec<i64> = (0..300).map(|number| number * number % rows - rows).collect();
        let forms = [
            whole(Element::Int32, &[rows, size]),
            whole(Element::Int64, &[300]),
            whole(Element::Int32, &[300, size]),
        ];
        assert!(300 * size > 2 * GATHERED as i64);
        let mut y = vec![-1_i32; 300 << 10];
        let wanted: Vec<i32> = indices
            .iter()
            .flat_map(|index| (0..size).map(move |at| ((index + rows) * size + at) as i32))
            .collect();
        let reads = [slab(&mut x, &forms[0]), slab(&mut indices, &forms[1])];
        run(Host::Gather(0), &reads, slab(&mut y, &forms[2])).unwrap();
        assert!(y == wanted);
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
