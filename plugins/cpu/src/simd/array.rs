//! Arrays of registers, element by element.
//!
//! The standard library's `map`, `from_fn` and iterators by value are calls if they are not inlined, and then
//! compiled for the baseline of the target: registers go through memory, and each instruction is a call, too.
//! These are always part of the kernel that uses them.

use std::mem::MaybeUninit;

/// `f` of each index. `f` has one call site: closures with several are not always inlined. If it panics, earlier results leak.
#[inline(always)]
pub(crate) fn from_fn<T, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut all = MaybeUninit::<[T; N]>::uninit();
    let first = all.as_mut_ptr().cast::<T>();
    let mut i = 0;
    while i < N {
        // SAFETY: the array has room for `N` elements.
        unsafe { first.add(i).write(f(i)) };
        i += 1;
    }
    // SAFETY: the loop has written all `N` elements.
    unsafe { all.assume_init() }
}

/// `f` of each element.
#[inline(always)]
pub(crate) fn map<A: Copy, B, const N: usize>(values: [A; N], mut f: impl FnMut(A) -> B) -> [B; N] {
    from_fn(|i| f(values[i]))
}

/// [`map`] as a method, for arrays of sizes and pointers that kernels make at each line or tile.
pub(crate) trait Each<A, const N: usize> {
    /// `f` of each element.
    fn each<B>(self, f: impl FnMut(A) -> B) -> [B; N];
}

impl<A: Copy, const N: usize> Each<A, N> for [A; N] {
    #[inline(always)]
    fn each<B>(self, f: impl FnMut(A) -> B) -> [B; N] {
        map(self, f)
    }
}

/// `f` of the elements at each index of two arrays.
#[inline(always)]
pub(crate) fn zip<A: Copy, B: Copy, C: Copy, const N: usize>(
    a: [A; N],
    b: [B; N],
    f: impl Fn(A, B) -> C,
) -> [C; N] {
    from_fn(|i| f(a[i], b[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_order() {
        assert_eq!(from_fn::<_, 4>(|i| i * i), [0, 1, 4, 9]);
        assert_eq!(map([1, 2, 3], |a| -a), [-1, -2, -3]);
        assert_eq!([1, 2, 3].each(|a| -a), [-1, -2, -3]);
        assert_eq!(zip([1, 2], [10, 20], |a, b| a + b), [11, 22]);
    }
}
