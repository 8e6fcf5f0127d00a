//! Kernels whose output is images, computed in parts: some channels and rows of one image each.

use std::marker::PhantomData;
use std::ops::Range;

use crate::kernel::{Facts, Kernel};
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Threads, Workers};

/// Parts per worker: few enough that each is worth dispatching, enough that workers finish together.
const PARTS: usize = 6;

/// The parts of an output.
pub(crate) struct Parts {
    isa: Isa,
    workers: Workers,
    batch: usize,
    /// All channels and rows.
    whole: [usize; 2],
    /// Channels and rows of a part.
    pub(crate) channels: usize,
    pub(crate) rows: usize,
}

impl Parts {
    /// How many parts to make of work that takes one thread this many nanoseconds.
    pub(crate) fn wanted(threads: Threads, work: f64) -> usize {
        let workers = threads.workers(work, usize::MAX).count();
        if workers > 1 { PARTS * workers } else { 1 }
    }

    /// An output of `batch` images with `whole` channels and rows, in parts of `part` channels and rows.
    pub(crate) fn new(
        isa: Isa,
        (threads, work): (Threads, f64),
        batch: usize,
        whole: [usize; 2],
        [channels, rows]: [usize; 2],
    ) -> Self {
        let parts = batch * whole[0].div_ceil(channels) * whole[1].div_ceil(rows);
        Self { isa, workers: threads.workers(work, parts), batch, whole, channels, rows }
    }
}

/// One part.
pub(crate) struct Part<'a, T, const N: usize> {
    pub(crate) tensors: &'a [*mut u8],
    /// Areas of the worker's scratch memory.
    pub(crate) areas: [*mut T; N],
    pub(crate) image: usize,
    pub(crate) channels: Range<usize>,
    pub(crate) rows: Range<usize>,
}

/// A kernel that computes its output in parts.
pub(crate) trait PartKernel<T: Float, const N: usize>: Send + Sync {
    /// The name of the algorithm.
    const NAME: &'static str;
    /// The kernel's variant, if there are several.
    const FORM: &'static str = "";

    fn parts(&self) -> &Parts;

    /// Elements of each area of a worker's scratch memory.
    fn areas(&self) -> [usize; N];

    /// Computes a part.
    ///
    /// # Safety
    /// The processor has the vector's instructions. The tensors are those of the kernel; no other thread has
    /// the part or its areas.
    unsafe fn run_part<V: Vector<Scalar = T>>(&self, part: &Part<'_, T, N>);
}

/// The [`Kernel`] of a [`PartKernel`].
pub(crate) struct InParts<T, K, const N: usize>(K, PhantomData<fn() -> T>);

impl<T: Float, const N: usize, K: PartKernel<T, N> + 'static> InParts<T, K, N> {
    pub(crate) fn boxed(kernel: K) -> Box<dyn Kernel> {
        Box::new(Self(kernel, PhantomData))
    }

    /// Offsets in bytes of a worker's areas, and their size.
    fn layout(&self) -> ([usize; N], usize) {
        let mut scratch = Scratch::default();
        (self.0.areas().each(|elements| scratch.area::<T>(elements, 1)), scratch.size())
    }
}

/// A part of a kernel as a task for an instruction set.
pub(crate) struct PartTask<'a, T, K, const N: usize>(pub(crate) &'a K, pub(crate) Part<'a, T, N>);

impl<T: Float, const N: usize, K: PartKernel<T, N>> VectorTask<T> for PartTask<'_, T, K, N> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        // SAFETY: made for a part that no other thread has; the processor has the vector's instructions.
        unsafe { self.0.run_part::<V>(&self.1) }
    }
}

impl<T: Float, const N: usize, K: PartKernel<T, N> + 'static> Kernel for InParts<T, K, N> {
    fn facts(&self) -> Facts {
        Facts { tile: K::FORM.to_owned(), ..Facts::new(K::NAME, self.0.parts().workers.threads()) }
    }

    fn scratch_size(&self) -> usize {
        self.layout().1 * self.0.parts().workers.count()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Parts { isa, workers, batch, whole, channels, rows } = self.0.parts();
        let [groups, bands] = [whole[0].div_ceil(*channels), whole[1].div_ceil(*rows)];
        let (offsets, size) = self.layout();
        let (tensors, memory) = (Tensors(tensors), Shared([scratch]));
        workers.for_each_part(batch * groups * bands, |worker, index| {
            let (rest, band) = (index / bands, index % bands);
            let (image, group) = (rest / groups, rest % groups);
            let part = Part {
                tensors: tensors.all(),
                areas: offsets.each(|offset| memory.get(0).wrapping_add(worker * size + offset).cast()),
                image,
                channels: group * channels..whole[0].min((group + 1) * channels),
                rows: band * rows..whole[1].min((band + 1) * rows),
            };
            // SAFETY: the processor supports the instruction set; the caller promises tensors and scratch memory, of which each
            // worker has its own areas, and no two parts have an element in common.
            unsafe { isa.run_vectors::<T, _>(PartTask(&self.0, part)) };
        });
    }
}
