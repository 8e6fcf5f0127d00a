//! Dimensions and strides of tensors. Planning copies thousands, so those of the usual ranks take no memory of the heap.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// Up to so many have their place in the value itself.
const FEW: usize = 6;

/// Dimensions or strides: a list that is used as a slice.
#[derive(Clone)]
pub struct Dims(List);

#[derive(Clone)]
enum List {
    Few(usize, [i64; FEW]),
    Many(Vec<i64>),
}

impl Dims {
    /// The numbers.
    #[inline]
    pub fn as_slice(&self) -> &[i64] {
        match &self.0 {
            List::Few(count, list) => list.get(..*count).unwrap_or(&[]),
            List::Many(list) => list,
        }
    }

    /// This many times the same number.
    pub fn repeated(number: i64, count: usize) -> Self {
        std::iter::repeat_n(number, count).collect()
    }

    /// Removes the number at an index.
    pub fn remove(&mut self, at: usize) {
        *self = self.iter().enumerate().filter(|(of, _)| *of != at).map(|(_, number)| *number).collect();
    }
}

impl From<&[i64]> for Dims {
    #[inline]
    fn from(numbers: &[i64]) -> Self {
        let mut few = [0; FEW];
        match few.get_mut(..numbers.len()) {
            Some(place) => {
                place.copy_from_slice(numbers);
                Self(List::Few(numbers.len(), few))
            }
            None => Self(List::Many(numbers.to_vec())),
        }
    }
}

impl From<Vec<i64>> for Dims {
    fn from(numbers: Vec<i64>) -> Self {
        if numbers.len() > FEW { Self(List::Many(numbers)) } else { numbers.as_slice().into() }
    }
}

impl FromIterator<i64> for Dims {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Self {
        let mut numbers = numbers.into_iter();
        let (mut few, mut count) = ([0; FEW], 0);
        for place in &mut few {
            let Some(number) = numbers.next() else { return Self(List::Few(count, few)) };
            (*place, count) = (number, count + 1);
        }
        match numbers.next() {
            None => Self(List::Few(count, few)),
            Some(next) => Self(List::Many(few.into_iter().chain([next]).chain(numbers).collect())),
        }
    }
}

impl Deref for Dims {
    type Target = [i64];

    #[inline]
    fn deref(&self) -> &[i64] {
        self.as_slice()
    }
}

impl DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [i64] {
        match &mut self.0 {
            List::Few(count, list) => list.get_mut(..*count).unwrap_or_default(),
            List::Many(list) => list,
        }
    }
}

impl<'a> IntoIterator for &'a Dims {
    type Item = &'a i64;
    type IntoIter = std::slice::Iter<'a, i64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Dims {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Dims {}

impl<T: AsRef<[i64]>> PartialEq<T> for Dims {
    fn eq(&self, other: &T) -> bool {
        self.as_slice() == other.as_ref()
    }
}

impl Hash for Dims {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_are_slices() {
        for count in [0, 1, FEW, FEW + 1, 20] {
            let numbers: Vec<i64> = (0..).take(count).collect();
            let made: [Dims; 3] =
                [numbers.as_slice().into(), numbers.clone().into(), numbers.iter().copied().collect()];
            for dims in made {
                assert_eq!(dims, numbers);
                let (mut changed, mut right) = (dims.clone(), numbers.clone());
                changed.iter_mut().for_each(|of| *of += 1);
                right.iter_mut().for_each(|of| *of += 1);
                if count > 1 {
                    changed.remove(1);
                    right.remove(1);
                }
                assert_eq!((changed.as_slice(), dims.as_slice()), (right.as_slice(), numbers.as_slice()));
            }
        }
        assert_eq!(Dims::repeated(3, 2), [3, 3]);
    }
}
