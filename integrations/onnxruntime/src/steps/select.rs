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

/// The index of the largest or smallest element of each row, as 64-bit integers.
#[derive(Clone, Copy, Debug)]
pub struct Extreme {
    /// Whether it is the largest.
    pub largest: bool,
    /// Whether the last one of equal elements counts.
    pub last: bool,
}

impl OnHost for Extreme {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [from] = reads else { return Err("an extreme of no tensor".to_owned()) };
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe fn of<T: Item>(
            own: Extreme,
            from: &Slab<'_>,
            writes: &[Slab<'_>],
            parallel: Parallel<'_>,
        ) -> Result<(), String> {
            // SAFETY: the tensors are readable and writable, as this function requires.
            let (items, size, to) = (unsafe { from.items::<T>() }?, last(from), Shared(writes));
            let is_better = |x: &T, best: &T| {
                let order = if own.largest { x.partial_cmp(best) } else { best.partial_cmp(x) };
                order == Some(Ordering::Greater) || (own.last && order == Some(Ordering::Equal))
            };
            divided(items.len() / size.max(1), size * 4 * size_of::<T>(), parallel, &|rows| {
                for row in rows {
                    let own = items.get(row * size..(row + 1) * size).unwrap_or(&[]);
                    let mut best = (0, own.first());
                    for (at, x) in own.iter().enumerate() {
                        if best.1.is_some_and(|best| is_better(x, best)) {
                            best = (at, Some(x));
                        }
                    }
                    let index = [i64::try_from(best.0).unwrap_or(0)];
                    // SAFETY: the result has an element for each row, which only this thread writes.
                    to.get(0).into_iter().for_each(|to| unsafe { to.put(row, &index) });
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
