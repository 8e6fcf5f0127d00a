//! The largest or smallest elements, and running sums, along the last axis of packed tensors.

use std::cmp::Ordering;

use super::divided;
use crate::lowering::{Item, OnHost, Shared, Slab};
use crate::threads::Parallel;

/// Calls a function for the type of a tensor's elements.
macro_rules! by_type {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match $element {
            Element::Float => $function::<f32>($($argument),*),
            Element::Double => $function::<f64>($($argument),*),
            Element::Int32 => $function::<i32>($($argument),*),
            Element::Int64 => $function::<i64>($($argument),*),
            other => Err(format!("elements are {}", other.name())),
        }
    };
}

use crate::model::Element;

fn last(slab: &Slab<'_>) -> usize {
    usize::try_from(slab.bound.dims.last().copied().unwrap_or(1)).unwrap_or(0)
}

/// How many rows are compared together if their elements are not contiguous.
const TOGETHER: usize = 256;

/// The index of the largest or smallest element of each row, as 64-bit integers. Rows are along an axis of packed tensors.
#[derive(Clone, Copy, Debug)]
pub struct Extreme {
    /// The axis.
    pub axis: usize,
    /// Whether it is the largest.
    pub largest: bool,
    /// Whether the last one of equal elements counts.
    pub last: bool,
}

impl Extreme {
    /// Whether an element takes the place of the best one before it. NaN does not, and keeps its place.
    #[inline(always)]
    fn is_better<T: PartialOrd>(self, x: T, best: T) -> bool {
        match (self.largest, self.last) {
            (true, false) => x > best,
            (true, true) => x >= best,
            (false, false) => x < best,
            (false, true) => x <= best,
        }
    }

    /// The indices for rows that begin one element after the other, in `items` of the first row's beginning on; `stride` is the
    /// distance of a row's elements.
    fn indices<T: Copy + PartialOrd>(self, items: &[T], stride: usize, indices: &mut [i64]) {
        let (Some(first), mut found) = (items.first(), [0_u32; TOGETHER]) else { return };
        let mut best = [*first; TOGETHER];
        if stride == 1 {
            for (at, x) in items.iter().enumerate() {
                if self.is_better(*x, best[0]) {
                    (best[0], found[0]) = (*x, at as u32);
                }
            }
        } else {
            best.iter_mut().zip(items).for_each(|(best, x)| *best = *x);
            for (at, elements) in items.chunks(stride).enumerate() {
                let rows = best.iter_mut().zip(&mut found).take(indices.len());
                for ((best, found), x) in rows.zip(elements) {
                    let is_better = self.is_better(*x, *best);
                    *best = if is_better { *x } else { *best };
                    *found = if is_better { at as u32 } else { *found };
                }
            }
        }
        for (index, found) in indices.iter_mut().zip(found) {
            *index = i64::from(found);
        }
    }
}

impl OnHost for Extreme {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [from] = reads else { return Err("an extreme of no tensor".to_owned()) };
        /// # Safety
        /// The tensors are readable and writable.
        unsafe fn of<T: Item + PartialOrd>(
            own: Extreme,
            from: &Slab<'_>,
            writes: &[Slab<'_>],
            parallel: Parallel<'_>,
        ) -> Result<(), String> {
            // SAFETY: the tensors are readable and writable, as this function requires.
            let (items, to) = (unsafe { from.items::<T>() }?, Shared(writes));
            let size_of_axis = |dim: &i64| usize::try_from(*dim).unwrap_or(0);
            let dims = &from.bound.dims;
            let size = dims.get(own.axis).map_or(1, size_of_axis);
            let inner: usize = dims.iter().skip(own.axis + 1).map(size_of_axis).product();
            let groups = inner.div_ceil(TOGETHER).max(1);
            let outer = items.len() / (size * inner).max(1);
            let work = size * inner.min(TOGETHER) * size_of::<T>();
            divided(outer * groups, 4 * work, parallel, &|parts| {
                for part in parts {
                    let (row, first) = (part / groups, part % groups * TOGETHER);
                    let count = inner.saturating_sub(first).min(TOGETHER);
                    let own_items =
                        items.get(row * size * inner + first..(row + 1) * size * inner).unwrap_or(&[]);
                    let mut indices = [0; TOGETHER];
                    let indices = indices.get_mut(..count).unwrap_or_default();
                    own.indices(own_items, inner.max(1), indices);
                    // SAFETY: the result has an element for each row, which only this thread writes.
                    to.get(0).into_iter().for_each(|to| unsafe { to.put(row * inner + first, indices) });
                }
            })
        }
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe { by_type!(from.bound.element, of(*self, from, writes, parallel)) }
    }
}

/// The first `count` elements of each row in their order, and their indices as 64-bit integers.
#[derive(Clone, Copy, Debug)]
pub struct Top {
    /// How many.
    pub count: usize,
    /// Whether they are the largest.
    pub largest: bool,
}

impl OnHost for Top {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [from] = reads else { return Err("the first of no tensor".to_owned()) };
        /// # Safety
        /// The tensors are readable and writable.
        unsafe fn of<T: Item>(
            own: Top,
            from: &Slab<'_>,
            writes: &[Slab<'_>],
            parallel: Parallel<'_>,
        ) -> Result<(), String> {
            // SAFETY: the tensors are readable and writable, as this function requires.
            let (items, size, to) = (unsafe { from.items::<T>() }?, last(from), Shared(writes));
            divided(items.len() / size.max(1), size * 16, parallel, &|rows| {
                let mut order: Vec<usize> = Vec::new();
                for row in rows {
                    let all = items.get(row * size..(row + 1) * size).unwrap_or(&[]);
                    let compare = |a: &usize, b: &usize| {
                        let (x, y) = (all.get(*a), all.get(*b));
                        let order = if own.largest { y.partial_cmp(&x) } else { x.partial_cmp(&y) };
                        // Of equal elements, the first one comes first.
                        order.unwrap_or(Ordering::Equal).then(a.cmp(b))
                    };
                    order.clear();
                    order.extend(0..all.len());
                    let count = own.count.min(all.len());
                    if count > 0 && count < all.len() {
                        order.select_nth_unstable_by(count - 1, compare);
                    }
                    order.truncate(count);
                    order.sort_unstable_by(compare);
                    let values: Vec<T> = order.iter().filter_map(|at| all.get(*at).copied()).collect();
                    let places: Vec<i64> = order.iter().map(|at| i64::try_from(*at).unwrap_or(0)).collect();
                    if let (Some(first), Some(second)) = (to.get(0), to.get(1)) {
                        // SAFETY: the results have so many elements for each row, which only this thread writes.
                        unsafe {
                            first.put(row * count, &values);
                            second.put(row * count, &places);
                        }
                    }
                }
            })
        }
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe { by_type!(from.bound.element, of(*self, from, writes, parallel)) }
    }
}

/// The sums of each row's elements up to each of them.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// Whether an element's own sum leaves it out.
    pub exclusive: bool,
    /// Whether sums begin at the end.
    pub reverse: bool,
}

/// A type of which sums are computed.
trait Sum: Item + Default {
    fn plus(self, other: Self) -> Self;
}

macro_rules! sums {
    ($($type:ty, $plus:expr;)+) => {
        $(impl Sum for $type {
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
        })+
    };
}

sums! {
    f32, std::ops::Add::add;
    f64, std::ops::Add::add;
    i32, i32::wrapping_add;
    i64, i64::wrapping_add;
}

impl OnHost for Running {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [from] = reads else { return Err("sums of no tensor".to_owned()) };
        /// # Safety
        /// The tensors are readable and writable.
        unsafe fn of<T: Sum>(
            own: Running,
            from: &Slab<'_>,
            writes: &[Slab<'_>],
            parallel: Parallel<'_>,
        ) -> Result<(), String> {
            // SAFETY: the tensors are readable and writable, as this function requires.
            let (items, size, to) = (unsafe { from.items::<T>() }?, last(from), Shared(writes));
            divided(items.len() / size.max(1), size * 2 * size_of::<T>(), parallel, &|rows| {
                for row in rows {
                    let mut own_row = items.get(row * size..(row + 1) * size).unwrap_or(&[]).to_vec();
                    let mut sum = T::default();
                    let mut add = |x: &mut T| {
                        let next = sum.plus(*x);
                        *x = if own.exclusive { sum } else { next };
                        sum = next;
                    };
                    if own.reverse {
                        own_row.iter_mut().rev().for_each(&mut add);
                    } else {
                        own_row.iter_mut().for_each(&mut add);
                    }
                    // SAFETY: the result has the operand's rows, and only this thread writes this one.
                    to.get(0).into_iter().for_each(|to| unsafe { to.put(row * size, &own_row) });
                }
            })
        }
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe { by_type!(from.bound.element, of(*self, from, writes, parallel)) }
    }
}
