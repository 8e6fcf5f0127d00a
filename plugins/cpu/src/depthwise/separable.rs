//! A depthwise convolution and the 1 × 1 convolution that alone reads its result, some rows of an image at a time: the
//! result between them stays in the cache of one processor.

use crate::depthwise::channels_first::ChannelsFirst;
use crate::kernel::{Facts, Kernel, MAX_TENSORS};
use crate::simd::array::{self, Each};
use crate::simd::isa::Isa;
use crate::tensor::parts::{Part, PartKernel, PartTask};
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Threads, Workers};

/// Elements of the depthwise result that are computed before its epilogue: they stay in the L1 cache.
const NEAR: usize = 8 << 10;

/// Columns are computed in vectors of this length.
pub(crate) const LANES: usize = 16;

/// Images of the depthwise result, and how many of their rows are computed together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bands {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    /// All rows, and columns.
    pub(crate) size: [usize; 2],
    /// Rows of a band, a divisor of all rows.
    pub(crate) rows: usize,
}

impl Bands {
    fn count(self) -> usize {
        self.batch * (self.size[0] / self.rows)
    }

    /// Elements of a band.
    pub(crate) fn elements(self) -> usize {
        self.channels * self.rows * self.size[1]
    }
}

/// Both convolutions. The 1 × 1 convolution is planned for one band of one image on one thread.
pub(crate) struct Separable {
    depthwise: ChannelsFirst<f32>,
    pointwise: Box<dyn Kernel>,
    isa: Isa,
    bands: Bands,
    /// For each tensor the bytes from an image to the next, and from a row to the next, of the 1 × 1 convolution's result
    /// and of its epilogue's operands; 0 for all others. The slot after the last one is the band's.
    steps: Vec<[usize; 2]>,
    workers: Workers,
}

impl Separable {
    /// Takes over both kernels; `steps` has at most [`MAX_TENSORS`] entries.
    pub(crate) fn new(
        (depthwise, pointwise): (ChannelsFirst<f32>, Box<dyn Kernel>),
        (bands, steps): (Bands, Vec<[usize; 2]>),
        (isa, threads, time): (Isa, Threads, f64),
    ) -> Self {
        let workers = threads.workers(time, bands.count());
        Self { depthwise, pointwise, isa, bands, steps, workers }
    }

    /// Offsets in bytes of the band, the depthwise kernel's areas, and the scratch memory of the other.
    fn layout(&self, scratch: &mut Scratch) -> (usize, [usize; 4], usize) {
        let workers = self.workers.count();
        let band = scratch.area::<f32>(self.bands.elements(), workers);
        let areas = self.depthwise.areas().each(|elements| scratch.area::<f32>(elements, workers));
        (band, areas, scratch.area::<u8>(self.pointwise.scratch_size(), workers))
    }
}

impl Kernel for Separable {
    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (band, areas, own) = self.layout(&mut Scratch::default());
        let Bands { channels, size: [all, columns], rows, .. } = self.bands;
        let sizes = self.depthwise.areas();
        let (shared, memory) = (Tensors(tensors), Shared([scratch]));
        let together = (NEAR / (rows * columns)).clamp(1, channels);
        self.workers.for_each_part(self.bands.count(), |worker, index| {
            let (image, first) = (index / (all / rows), index % (all / rows) * rows);
            let scratch = memory.get(0);
            let to: *mut f32 = Scratch::of_worker(scratch, band, worker, self.bands.elements());
            let mut pointers = [std::ptr::null_mut(); MAX_TENSORS + 1];
            let count = self.steps.len();
            pointers[..count].copy_from_slice(&shared.all()[..count]);
            // The depthwise kernel addresses rows from the image's first one.
            pointers[count] = to.wrapping_sub(first * columns).cast();
            for start in (0..channels).step_by(together) {
                let part = Part {
                    tensors: &pointers[..=count],
                    areas: array::from_fn(|i| Scratch::of_worker(scratch, areas[i], worker, sizes[i])),
                    image,
                    channels: start..channels.min(start + together),
                    rows: first..first + rows,
                };
                // SAFETY: the caller's tensors have the part, the band has its rows, and this worker the areas; the
                // processor has the instruction set.
                unsafe { self.isa.run_vectors::<f32, _>(PartTask(&self.depthwise, part)) };
            }
            for (pointer, [of_image, of_row]) in pointers.iter_mut().zip(&self.steps) {
                *pointer = pointer.wrapping_add(image * of_image + first * of_row);
            }
            pointers[count] = to.cast();
            // SAFETY: the kernel is planned for a band: its result and what is added begin at these rows, and other workers
            // have other rows and scratch memory.
            unsafe {
                let scratch = Scratch::of_worker(scratch, own, worker, self.pointwise.scratch_size());
                self.pointwise.run(&pointers[..=count], scratch);
            }
        });
    }

    fn facts(&self) -> Facts {
        let threads = self.workers.threads();
        Facts { algorithm: "separable", threads, ..self.pointwise.facts() }
    }
}
