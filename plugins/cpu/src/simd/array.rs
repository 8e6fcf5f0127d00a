//! Arrays of registers, element by element.
//!
//! The standard library's `map`, `from_fn` and iterators by value are calls if they are not inlined, and then
//! compiled for the baseline of the target: registers go through memory, and each instruction is a call, too.
//! These are always part of the kernel that uses them.

use std::mem::MaybeUninit;

/// `f` of each index. `f` has one call site: closures with several are not always inlined.
#[inline(always)]
pub(crate) fn from_fn<T: Copy, const N: usize>(f: impl Fn(usize) -> T) -> [T; N] {
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
pub(crate) fn map<A: Copy, B: Copy, const N: usize>(values: [A; N], f: impl Fn(A) -> B) -> [B; N] {
    from_fn(|i| f(values[i]))
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
        assert_eq!(zip([1, 2], [10, 20], |a, b| a + b), [11, 22]);
    }
}
