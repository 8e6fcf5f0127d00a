//! The largest element of each window of an image, with its index.

use super::divided;
use crate::lowering::{Item, OnHost, Shared, Slab};
use crate::model::Element;
use crate::threads::Parallel;

/// Finds the largest element of each window along one to three axes of a packed image; writes elements, and their indices in the whole
/// tensor.
#[derive(Clone, Debug)]
pub struct Largest {
    /// The spatial dimensions of the image, and of the result.
    pub from: Vec<i64>,
    /// The positions along each axis.
    pub to: Vec<i64>,
    /// The window.
    pub size: Vec<i64>,
    /// The distance of windows.
    pub stride: Vec<i64>,
    /// The distance of a window's elements.
    pub dilation: Vec<i64>,
    /// The padding before the first element.
    pub before: Vec<i64>,
    /// Whether indices count along the first spatial axis first.
    pub by_columns: bool,
}

impl Largest {
    fn axis(of: &[i64], at: usize, absent: i64) -> i64 {
        of.get(at).copied().unwrap_or(absent)
    }

    /// For each position along an axis the places of its window's elements that are in the image.
    fn places(&self, at: usize) -> Vec<Vec<i64>> {
        let of = |position: i64| {
            let first = position * Self::axis(&self.stride, at, 1) - Self::axis(&self.before, at, 0);
            let step = Self::axis(&self.dilation, at, 1);
            let all = (0..Self::axis(&self.size, at, 1)).map(|tap| first + tap * step);
            all.filter(|place| (0..Self::axis(&self.from, at, 1)).contains(place)).collect()
        };
        (0..Self::axis(&self.to, at, 1)).map(of).collect()
    }

    /// The place of an element in an image in memory, and its index there.
    fn index(&self, [a, b, c]: [i64; 3]) -> (usize, i64) {
        let [first, second, third] = [0, 1, 2].map(|at| Self::axis(&self.from, at, 1));
        let place = (a * second + b) * third + c;
        let index = if self.by_columns { (c * second + b) * first + a } else { place };
        (usize::try_from(place).unwrap_or(usize::MAX), index)
    }

    /// # Safety
    /// The tensors are readable and writable, and have the sizes.
    unsafe fn find<T: Item + Default>(
        &self,
        from: &Slab<'_>,
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        // SAFETY: the tensors are readable and writable, as this function requires.
        let (items, to) = (unsafe { from.items::<T>() }?, Shared(writes));
        let product = |of: &[i64]| usize::try_from(of.iter().product::<i64>()).unwrap_or(0);
        let (image, count) = (product(&self.from).max(1), product(&self.to).max(1));
        let along = [0, 1, 2].map(|at| self.places(at));
        let bytes = count * product(&self.size) * size_of::<T>();
        divided(items.len() / image, bytes, parallel, &|images| {
            for of in images {
                let own = items.get(of * image..(of + 1) * image).unwrap_or(&[]);
                let (mut largest, mut indices) = (Vec::with_capacity(count), Vec::with_capacity(count));
                for a in &along[0] {
                    for b in &along[1] {
                        for c in &along[2] {
                            let (mut best, mut found) = (None, 0);
                            let rows = a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b)));
                            for place in rows.flat_map(|(a, b)| c.iter().map(move |c| [a, b, *c])) {
                                let (at, index) = self.index(place);
                                let Some(item) = own.get(at).copied() else { continue };
                                if best.is_none_or(|best| item > best) {
                                    (best, found) = (Some(item), index);
                                }
                            }
                            largest.push(best.unwrap_or_default());
                            indices.push(found + i64::try_from(of * image).unwrap_or(0));
                        }
                    }
                }
                // SAFETY: both results have a part for each image, which only this thread writes.
                unsafe {
                    to.get(0).into_iter().for_each(|to| to.put(of * count, &largest));
                    to.get(1).into_iter().for_each(|to| to.put(of * count, &indices));
                }
            }
        })
    }
}

impl OnHost for Largest {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let [from] = reads else { return Err("windows of no image".to_owned()) };
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        unsafe {
            match from.bound.element {
                Element::Float => self.find::<f32>(from, writes, parallel),
                Element::Double => self.find::<f64>(from, writes, parallel),
                other => Err(format!("elements are {}", other.name())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_at_the_edges() {
        let own = Largest {
            from: vec![3, 4],
            to: vec![2, 2],
            size: vec![2, 2],
            stride: vec![2, 2],
            dilation: vec![1, 1],
            before: vec![1, 0],
            by_columns: false,
        };
        assert_eq!(own.places(0), [vec![0], vec![1, 2]]);
        assert_eq!(own.places(1), [[0, 1], [2, 3]]);
        assert_eq!(own.places(2), [[0]]);
        assert_eq!(own.index([2, 1, 0]), (9, 9));
        assert_eq!(Largest { by_columns: true, ..own }.index([2, 1, 0]), (9, 5));
    }
}
