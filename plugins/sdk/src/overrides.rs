//! Shapes that replace those of a plan for one execution.

/// A tensor's sizes and strides for one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override<'a> {
    /// The tensor.
    pub uid: i64,
    /// Number of elements along each dimension, outermost first.
    pub dims: &'a [i64],
    /// Stride of each dimension in elements.
    pub strides: &'a [i64],
}

/// The overrides of one execution, in the host's order. Numbers are unchecked, except that every tensor has
/// at least one dimension.
#[derive(Clone, Copy, Debug)]
pub struct Overrides<'a> {
    uids: &'a [i64],
    lengths: &'a [u32],
    dims: &'a [*const i64],
    strides: &'a [*const i64],
}

impl<'a> Overrides<'a> {
    /// Overrides as passed by a host; none if an array is missing or a length or pointer is 0.
    ///
    /// # Safety
    /// Each array that is not null has `count` elements that live for `'a`. So have those that `dims` and `strides` point to,
    /// as many as their length says.
    pub unsafe fn from_raw(
        count: u32,
        uids: *const i64,
        lengths: *const u32,
        dims: *const *const i64,
        strides: *const *const i64,
    ) -> Option<Self> {
        let count = count as usize;
        // SAFETY: each array is null or has `count` elements.
        let all = unsafe {
            Self {
                uids: array(uids, count)?,
                lengths: array(lengths, count)?,
                dims: array(dims, count)?,
                strides: array(strides, count)?,
            }
        };
        let usable = |pointer: &*const i64| !pointer.is_null() && pointer.is_aligned();
        let good = all.lengths.iter().all(|length| *length > 0)
            && all.dims.iter().all(usable)
            && all.strides.iter().all(usable);
        good.then_some(all)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.uids.len()
    }

    /// Whether there are none, which no host passes.
    pub fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    /// Iterates over them.
    pub fn iter(&self) -> impl Iterator<Item = Override<'a>> + use<'a> {
        let shapes = self.lengths.iter().zip(self.dims).zip(self.strides);
        self.uids.iter().zip(shapes).map(|(&uid, ((&length, &dims), &strides))| {
            // SAFETY: `from_raw` was promised as many elements, and found the pointers usable.
            let slice = |pointer| unsafe { std::slice::from_raw_parts(pointer, length as usize) };
            Override { uid, dims: slice(dims), strides: slice(strides) }
        })
    }
}

/// The elements of an array that may be missing.
///
/// # Safety
/// A pointer that is not null is to `count` elements that live for `'a`.
unsafe fn array<'a, T>(pointer: *const T, count: usize) -> Option<&'a [T]> {
    if pointer.is_null() || !pointer.is_aligned() {
        return None;
    }
    // SAFETY: the pointer is not null and aligned, so it has `count` elements that live for `'a`.
    Some(unsafe { std::slice::from_raw_parts(pointer, count) })
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::*;

    #[test]
    fn overrides_are_read_one_by_one() {
        let (first, second) = ([2_i64, 3], [4_i64, 5, 6]);
        let (first_strides, second_strides) = ([3_i64, 1], [30_i64, 6, 1]);
        let (uids, lengths) = ([7, -1], [2, 3]);
        let dims = [first.as_ptr(), second.as_ptr()];
        let strides = [first_strides.as_ptr(), second_strides.as_ptr()];
        // SAFETY: the arrays have the stated lengths.
        unsafe {
            let all =
                Overrides::from_raw(2, uids.as_ptr(), lengths.as_ptr(), dims.as_ptr(), strides.as_ptr());
            let all: Vec<Override> = all.unwrap().iter().collect();
            assert_eq!(all[0], Override { uid: 7, dims: &first, strides: &first_strides });
            assert_eq!(all[1], Override { uid: -1, dims: &second, strides: &second_strides });
            let missing = [first.as_ptr(), null()];
            let none =
                |uids, lengths, dims, strides| Overrides::from_raw(2, uids, lengths, dims, strides).is_none();
            assert!(none(null(), lengths.as_ptr(), dims.as_ptr(), strides.as_ptr()));
            assert!(none(uids.as_ptr(), null(), dims.as_ptr(), strides.as_ptr()));
            assert!(none(uids.as_ptr(), [2, 0].as_ptr(), dims.as_ptr(), strides.as_ptr()));
            assert!(none(uids.as_ptr(), lengths.as_ptr(), missing.as_ptr(), strides.as_ptr()));
            assert!(none(uids.as_ptr(), lengths.as_ptr(), dims.as_ptr(), missing.as_ptr()));
            assert!(none(uids.as_ptr(), lengths.as_ptr(), dims.as_ptr(), null()));
        }
    }
}
