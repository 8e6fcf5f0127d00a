//! Elements or parts of a tensor without those that equal one before, whose number is known at the end.

use std::cmp::Ordering;

use super::late::number;
use crate::lowering::{OnHost, Slab};
use crate::model::{Element, half_to_f64};
use crate::threads::Parallel;

/// Writes the different elements of a packed tensor, or its different parts along an axis; the index of the first one of each; for each
/// element the place of its equal; how often each is there; and their number.
#[derive(Clone, Copy, Debug)]
pub struct Unique {
    /// The axis; none for elements.
    pub axis: Option<usize>,
    /// Whether they are in ascending order, not that of the tensor.
    pub is_sorted: bool,
}

/// The key of NaN, which is behind those of all numbers.
const NAN: i64 = i64::MAX;

/// An integer for each number, of the same order. Zeros of both signs are equal.
fn key(x: f64) -> i64 {
    if x.is_nan() {
        return NAN;
    }
    let bits = (x + 0.0).to_bits().cast_signed();
    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
}

/// A key for each element of a packed tensor.
///
/// # Safety
/// The tensor is readable.
unsafe fn keys(from: &Slab<'_>) -> Result<Vec<i64>, String> {
    fn each<T: Copy>(start: *const u8, count: usize, key: impl Fn(T) -> i64) -> Vec<i64> {
        // SAFETY: the tensor has this many elements of this size, and is readable.
        let read = |at| unsafe { start.cast::<T>().wrapping_add(at).read_unaligned() };
        (0..count).map(|at| key(read(at))).collect()
    }
    let (start, count) = (from.start.cast_const(), from.count());
    Ok(match from.bound.element {
        Element::Float => each(start, count, |x: f32| key(x.into())),
        Element::Double => each(start, count, key),
        Element::Half => each(start, count, |bits| key(half_to_f64(bits))),
        Element::Bfloat16 => {
            each(start, count, |bits: u16| key(f32::from_bits(u32::from(bits) << 16).into()))
        }
        Element::Uint8 | Element::Bool => each(start, count, |x: u8| x.into()),
        Element::Int8 => each(start, count, |x: i8| x.into()),
        Element::Uint16 => each(start, count, |x: u16| x.into()),
        Element::Int16 => each(start, count, |x: i16| x.into()),
        Element::Uint32 => each(start, count, |x: u32| x.into()),
        Element::Int32 => each(start, count, |x: i32| x.into()),
        Element::Int64 => each(start, count, |x: i64| x),
        Element::Uint64 => each(start, count, |x: u64| x.cast_signed() ^ i64::MIN),
        other => return Err(format!("elements are {}", other.name())),
    })
}

/// Makes NaN what it is for ONNX Runtime, whose comparisons with it are false: equal to the smallest element before it, and if it
/// is the first one, to all.
fn place_nan(keys: &mut [i64]) {
    if keys.first() == Some(&NAN) {
        keys.fill(NAN);
    }
    let mut least = NAN;
    for key in keys {
        if *key == NAN {
            *key = least;
        }
        least = least.min(*key);
    }
}

impl OnHost for Unique {
    unsafe fn run(&self, reads: &[Slab<'_>], writes: &[Slab<'_>], _: Parallel<'_>) -> Result<(), String> {
        let ([from], [to, first, inverse, counts, size]) = (reads, writes) else {
            return Err("parts of no tensor".to_owned());
        };
        // SAFETY: the tensor is readable, as this function requires.
        let mut keys = unsafe { keys(from) }?;
        let dim = |axis: usize| usize::try_from(from.dim(axis)).unwrap_or(0);
        let (outer, along, inner) = match self.axis {
            Some(axis) => {
                let inner = (axis + 1..from.bound.dims.len()).map(dim).product();
                ((0..axis).map(dim).product(), dim(axis), inner)
            }
            None => (1, keys.len(), 1),
        };
        if self.axis.is_none() && from.bound.element.is_float() {
            place_nan(&mut keys);
        }
        let row = |row: usize, at: usize| {
            let begin = (row * along + at) * inner;
            keys.get(begin..begin + inner).unwrap_or(&[])
        };
        let compare = |a: usize, b: usize| {
            let rows = (0..outer).map(|of| row(of, a).cmp(row(of, b)));
            rows.into_iter().find(|of| of.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut order: Vec<usize> = (0..along).collect();
        order.sort_unstable_by(|a, b| compare(*a, *b).then(a.cmp(b)));
        // Equal ones are neighbours, the first one in front.
        let mut groups: Vec<&[usize]> = order.chunk_by(|a, b| compare(*a, *b).is_eq()).collect();
        if !self.is_sorted {
            groups.sort_unstable_by_key(|group| group.first().copied());
        }
        let mut places = vec![0_i64; along];
        for (place, group) in groups.iter().enumerate() {
            for at in *group {
                places.get_mut(*at).into_iter().for_each(|of| *of = number(place));
            }
        }
        let firsts: Vec<usize> = groups.iter().filter_map(|group| group.first().copied()).collect();
        let bytes = inner * from.bound.element.size();
        for row in 0..outer {
            for (place, at) in firsts.iter().enumerate() {
                let source = from.start.wrapping_add((row * along + at) * bytes);
                let target = to.start.wrapping_add((row * firsts.len() + place) * bytes);
                // SAFETY: the part is one of the packed tensor, and the result has room for as many as that has.
                unsafe { target.copy_from_nonoverlapping(source, bytes) };
            }
        }
        let indices: Vec<i64> = firsts.iter().map(|at| number(*at)).collect();
        let lengths: Vec<i64> = groups.iter().map(|group| number(group.len())).collect();
        // SAFETY: results have room for one integer for each part, the last one for a single one, and only this thread writes them.
        unsafe {
            first.put(0, &indices);
            inverse.put(0, &places);
            counts.put(0, &lengths);
            size.put(0, &[number(firsts.len())]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_numbers() {
        let numbers =
            [f64::NEG_INFINITY, -2.5, -1.0, -1e-310, 0.0, 5e-324, 1.0, 2.5, f64::INFINITY, f64::NAN];
        assert!(numbers.map(key).is_sorted_by(|a, b| a < b));
        assert_eq!(key(-0.0), key(0.0));
    }

    #[test]
    fn nan_equals_the_smallest_before_it() {
        let placed = |numbers: &[f64]| {
            let mut keys: Vec<i64> = numbers.iter().map(|x| key(*x)).collect();
            place_nan(&mut keys);
            keys
        };
        let nan = f64::NAN;
        assert_eq!(placed(&[2.0, 1.0, nan, 0.0, nan]), [2.0, 1.0, 1.0, 0.0, 0.0].map(key));
        assert_eq!(placed(&[nan, 1.0, nan]), [NAN; 3]);
    }
}
