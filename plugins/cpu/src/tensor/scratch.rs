//! How a kernel divides its scratch memory.

use crate::simd::CACHE_LINE;

/// Divides memory into areas, aligned to cache lines so that workers do not share any.
#[derive(Debug, Default)]
pub(crate) struct Scratch(usize);

impl Scratch {
    /// `elements` rounded up to whole cache lines.
    pub(crate) fn padded<T>(elements: usize) -> usize {
        elements.next_multiple_of(CACHE_LINE / size_of::<T>())
    }

    /// Adds an area for `count` times [`Scratch::padded`] values and returns its offset in bytes.
    pub(crate) fn area<T>(&mut self, elements: usize, count: usize) -> usize {
        let offset = self.0;
        self.0 += Self::padded::<T>(elements) * count * size_of::<T>();
        offset
    }

    /// A worker's part of the area at an offset: `elements` of the [`Scratch::padded`] ones that each worker has.
    #[inline]
    pub(crate) fn of_worker<T>(scratch: *mut u8, area: usize, worker: usize, elements: usize) -> *mut T {
        scratch.wrapping_add(area).cast::<T>().wrapping_add(worker * Self::padded::<T>(elements))
    }

    /// The bytes of a layout.
    pub(crate) fn size_of<A>(layout: impl FnOnce(&mut Self) -> A) -> usize {
        let mut scratch = Self::default();
        layout(&mut scratch);
        scratch.size()
    }

    /// The bytes of all areas.
    pub(crate) fn size(&self) -> usize {
        self.0
    }
}

/// Pointers that several threads use, each for its own part.
pub(crate) struct Shared<const N: usize>(pub(crate) [*mut u8; N]);

// SAFETY: the workers of a run write disjoint parts.
unsafe impl<const N: usize> Sync for Shared<N> {}

impl<const N: usize> Shared<N> {
    /// The pointer with this index.
    pub(crate) fn get(&self, index: usize) -> *mut u8 {
        self.0[index]
    }
}

/// The tensors' pointers; each thread writes its own elements.
pub(crate) struct Tensors<'a>(pub(crate) &'a [*mut u8]);

// SAFETY: the workers of a run write disjoint elements.
unsafe impl Sync for Tensors<'_> {}

impl Tensors<'_> {
    /// All pointers.
    pub(crate) fn all(&self) -> &[*mut u8] {
        self.0
    }
}
