//! Channels-first inference in the order of memory.
//!
//! Images are read and written sequentially across channels, because planes may have only a few dozen
//! elements, and the stride between those of one channel may be large. Residual and RELU are computed in registers; any
//! other epilogue runs on blocks of the result that are still in cache.

use std::ops::Range;

use crate::batchnorm::parameters::Parameters;
use crate::batchnorm::shape::PlaneEpilogue;
use crate::kernel::{Facts, Kernel, Refusal};
use crate::layout::MAX_RANK;
use crate::pointwise::{Epilogue, NEAR};
use crate::problem::batchnorm::Inference;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::row::read;
use crate::simd::stream::{before_aligned, is_worth, settle};
use crate::simd::vector::{Float, Lanewise, Vector, VectorTask};
use crate::tensor::loop_nest::LoopNest;
use crate::tensor::moments::Moments;
use crate::tensor::row_converter::is_compute_type;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Threads, Workers};

/// A planned plane-by-plane inference.
pub(crate) struct Planes<T> {
    isa: Isa,
    workers: Workers,
    channels: usize,
    parameters: Parameters<T>,
    /// The loops over x, y, the residual and, with a stride of 1 per channel, the channel's index.
    nest: LoopNest<4>,
    /// The slots of x and y.
    slots: [usize; 2],
    /// Whether the result is written with non-temporal stores.
    streamed: bool,
    epilogue: PlaneEpilogue,
}

/// Mean, factor and summand of a channel.
pub(crate) type Affine<N> = [N; 3];

/// The loops of an inference with the strides of the residual.
fn nest(problem: &Inference, added: &[usize]) -> LoopNest<4> {
    let (x, y) = (&problem.x.layout, &problem.y.layout);
    let mut numbered = [0; MAX_RANK];
    numbered[1] = 1;
    LoopNest::new(y.dims(), [x.strides(), y.strides(), &added[..y.rank()], &numbered[..y.rank()]], 1)
}

/// Whether planes are contiguous.
fn are_near(nest: &LoopNest<4>) -> bool {
    nest.inner_strides == [1, 1, 1, 0]
}

/// Whether an inference can be computed plane by plane.
pub(crate) fn covers<T: Float>(problem: &Inference) -> bool {
    is_compute_type::<T>(problem.x.data_type)
        && is_compute_type::<T>(problem.y.data_type)
        && problem.y.layout.rank() > 1
        && are_near(&nest(problem, problem.y.layout.strides()))
}

impl<T: Float> Planes<T> {
    /// Plans an inference that is [covered](covers), with its epilogue.
    pub(crate) fn plan(
        problem: &Inference,
        parameters: Parameters<T>,
        isa: Isa,
        threads: Threads,
        after: Option<Epilogue<'_>>,
    ) -> Result<Self, Refusal> {
        let (x, y) = (&problem.x, &problem.y);
        let mut loops = nest(problem, y.layout.strides());
        let mut epilogue = PlaneEpilogue::default();
        if let Some(after) = after {
            let near = after.chain.sum_and_relu(y.data_type).and_then(|(added, relu)| {
                if let Some(added) = added {
                    let nest = nest(problem, &added.strides);
                    loops = are_near(&nest).then_some(nest)?;
                }
                Some(PlaneEpilogue { added: added.map(|added| added.slot), relu, block_epilogue: None })
            });
            epilogue = match near {
                Some(epilogue) => epilogue,
                None => PlaneEpilogue { block_epilogue: Some(after.plan()?), ..PlaneEpilogue::default() },
            };
        }
        let elements = loops.runs() * loops.len;
        let tensors = 2 + usize::from(epilogue.added.is_some());
        let streamed = epilogue.block_epilogue.is_none() && is_worth::<T>(tensors * elements, loops.len);
        let after = epilogue.block_epilogue.as_ref().map_or(0.0, |block_epilogue| block_epilogue.time());
        let time = (0.1 + after) * elements as f64 + 5.0 * loops.runs() as f64;
        Ok(Self {
            isa,
            workers: threads.workers(time, elements),
            channels: y.layout.dims().get(1).copied().unwrap_or(1),
            parameters,
            nest: loops,
            slots: [x.slot, y.slot],
            streamed,
            epilogue,
        })
    }
}

impl<T: Float> Kernel for Planes<T> {
    fn facts(&self) -> Facts {
        Facts::new("plane by plane", self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| scratch.area::<Affine<T>>(self.channels, 1))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let affine = scratch.cast::<Affine<T>>();
        for channel in 0..self.channels {
            // SAFETY: this function requires the tensors and scratch memory, which has room for the values of each channel.
            unsafe {
                let by = self.parameters.affine(tensors, channel, &Moments::default(), 1.0);
                affine.add(channel).write(by);
            }
        }
        let (shared, affine) = (Tensors(tensors), Shared([scratch]));
        let elements = self.nest.runs() * self.nest.len;
        self.workers.run(|worker| {
            let elements = self.workers.share(worker, elements);
            let affine = affine.get(0).cast::<Affine<T>>();
            // SAFETY: the processor supports the instruction set; the caller promises the tensors, of
            // which each worker has its own elements.
            unsafe { self.isa.run_vectors(Task { by: self, tensors: shared.all(), elements, affine }) };
        });
    }
}

/// Some elements, in the order of y's memory.
struct Task<'a, T> {
    by: &'a Planes<T>,
    tensors: &'a [*mut u8],
    elements: Range<usize>,
    affine: *const Affine<T>,
}

impl<T: Float> VectorTask<T> for Task<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let epilogue = &self.by.epilogue;
        // SAFETY: the instructions, tensors and values are valid, as this function requires.
        unsafe {
            match (&epilogue.block_epilogue, epilogue.added, epilogue.relu) {
                (Some(block_epilogue), ..) => {
                    for from in self.elements.clone().step_by(NEAR) {
                        let block = from..self.elements.end.min(from + NEAR);
                        self.planes::<V, false, false>(block.clone());
                        block_epilogue.run_on_range(self.tensors, block);
                    }
                }
                (None, None, false) => self.planes::<V, false, false>(self.elements.clone()),
                (None, None, true) => self.planes::<V, false, true>(self.elements.clone()),
                (None, Some(_), false) => self.planes::<V, true, false>(self.elements.clone()),
                (None, Some(_), true) => self.planes::<V, true, true>(self.elements.clone()),
            }
        }
    }
}

/// A part of a plane.
pub(crate) struct Part<V: Vector> {
    pub(crate) x: *const V::Scalar,
    pub(crate) added: *const V::Scalar,
    pub(crate) y: *mut V::Scalar,
    pub(crate) affine: Affine<V>,
}

impl<T: Float> Task<'_, T> {
    /// Computes some elements.
    ///
    /// # Safety
    /// The processor has the vector's instructions; tensors and parameters are those of a run, which has the elements.
    #[inline(always)]
    unsafe fn planes<V: Vector<Scalar = T>, const ADDED: bool, const RELU: bool>(
        &self,
        elements: Range<usize>,
    ) {
        let Planes { nest, slots, streamed, epilogue, .. } = self.by;
        let [x, y] = slots.each(|slot| self.tensors[slot].cast::<T>());
        let added = epilogue.added.map_or(x, |slot| self.tensors[slot].cast());
        let mut at = elements.start;
        let mut position = nest.position(at / nest.len);
        let mut first = at % nest.len;
        while at < elements.end {
            let len = (nest.len - first).min(elements.end - at);
            let [x_at, y_at, added_at, channel] = position.offsets;
            // SAFETY: the elements and values are valid, as this function requires.
            unsafe {
                let [mean, factor, summand] = self.affine.add(channel).read();
                let part = Part {
                    x: x.add(x_at + first),
                    added: added.wrapping_add(added_at + first),
                    y: y.add(y_at + first),
                    affine: [V::splat(mean), V::splat(factor), V::splat(summand)],
                };
                if *streamed {
                    part.stream::<ADDED, RELU>(len);
                } else {
                    part.compute::<ADDED, RELU>(len);
                }
            }
            (at, first) = (at + len, 0);
            nest.advance(&mut position);
        }
        if *streamed {
            settle();
        }
    }
}

impl<V: Vector> Part<V> {
    /// Computes y = (x - mean) · factor + summand, with the roundings of a chain of nodes, residual and RELU. y may be x.
    ///
    /// # Safety
    /// The processor has the vector's instructions; `len` values are readable, and of y writable.
    #[inline(always)]
    pub(crate) unsafe fn compute<const ADDED: bool, const RELU: bool>(&self, len: usize) {
        // SAFETY: vectors end at `len`, up to which this function requires all values; the last overlaps, or
        // uses only its lanes.
        unsafe {
            if len < V::LANES {
                self.few::<ADDED, RELU>(0, len);
                return;
            }
            // The last vector is computed first, because y may overwrite x.
            let last = len - V::LANES;
            let end = self.vector::<ADDED, RELU>(last, None);
            let mut at = 0;
            while at < last {
                self.vector::<ADDED, RELU>(at, None).store(self.y.add(at));
                at += V::LANES;
            }
            end.store(self.y.add(last));
        }
    }

    /// The same with non-temporal stores.
    ///
    /// # Safety
    /// As [`Part::compute`].
    #[inline(always)]
    unsafe fn stream<const ADDED: bool, const RELU: bool>(&self, len: usize) {
        // SAFETY: vectors end at `len`, up to which this function requires all values; aligned ones begin inside.
        unsafe {
            let first = before_aligned::<V>(self.y);
            let Some(mut at) = first.filter(|first| *first < len) else {
                self.compute::<ADDED, RELU>(len);
                return;
            };
            self.few::<ADDED, RELU>(0, at);
            while at + V::LANES <= len {
                self.vector::<ADDED, RELU>(at, None).stream(self.y.add(at));
                at += V::LANES;
            }
            self.few::<ADDED, RELU>(at, len - at);
        }
    }

    /// Computes less than a vector, from an index on.
    ///
    /// # Safety
    /// As [`Part::compute`], for these elements.
    #[inline(always)]
    unsafe fn few<const ADDED: bool, const RELU: bool>(&self, at: usize, len: usize) {
        // SAFETY: the lanes are those of the elements, which this function requires.
        unsafe {
            let lanes = V::lanes(0, len);
            self.vector::<ADDED, RELU>(at, Some(lanes)).store_lanes(self.y.add(at), lanes);
        }
    }

    /// The results from an index on: a vector, or some lanes.
    ///
    /// # Safety
    /// As [`Part::compute`], for these elements.
    #[inline(always)]
    unsafe fn vector<const ADDED: bool, const RELU: bool>(&self, at: usize, lanes: Option<V::Lanes>) -> V {
        let [mean, factor, summand] = self.affine;
        // SAFETY: this function requires the elements of the vector, or of its lanes.
        unsafe {
            let x = read::<V>(self.x.add(at), lanes);
            let scaled = x.lanewise(Lanewise::Sub, mean).lanewise(Lanewise::Mul, factor);
            let mut y = scaled.lanewise(Lanewise::Add, summand);
            if ADDED {
                y = y.lanewise(Lanewise::Add, read(self.added.add(at), lanes));
            }
            if RELU { y.lanewise(Lanewise::Relu, y) } else { y }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Computes with both kinds of stores.
    struct Both<'a, T> {
        x: &'a [T],
        added: &'a [T],
        stored: *mut T,
        streamed: *mut T,
    }

    impl<T: Float> VectorTask<T> for Both<'_, T> {
        type Output = ();

        #[inline(always)]
        unsafe fn run<V: Vector<Scalar = T>>(self) {
            let Self { x, added, stored, streamed } = self;
            // SAFETY: the processor supports the instruction set; the slices are as long as what is written.
            unsafe {
                let affine = [0.5, 1.25, -0.25].map(T::from_f64);
                let affine = [V::splat(affine[0]), V::splat(affine[1]), V::splat(affine[2])];
                let part = |y| Part { x: x.as_ptr(), added: added.as_ptr(), y, affine };
                part(stored).compute::<true, true>(x.len());
                part(streamed).stream::<true, true>(x.len());
            }
        }
    }

    fn streamed_is_stored<T: Float + PartialEq + std::fmt::Debug>() {
        let mut random = Random::new(12);
        for isa in Isa::available() {
            for len in (0..70).chain([127, 128, 300]) {
                for first in 0..17 {
                    let values: Vec<T> = (0..2 * len).map(|_| T::from_f64(random.real())).collect();
                    let (x, added) = values.split_at(len);
                    let mut results = [0, 1].map(|_| vec![T::ONE; first + len + 1]);
                    let [stored, streamed] = results.each_mut().map(|all| all[first..].as_mut_ptr());
                    // SAFETY: the processor supports the instruction set; there is room for all values.
                    unsafe { isa.run_vectors(Both { x, added, stored, streamed }) };
                    assert_eq!(results[0], results[1], "{len} elements from {first} on at {isa:?}");
                    assert!(results[0][..first].iter().all(|value| *value == T::ONE));
                    assert_eq!(results[0][first + len], T::ONE);
                }
            }
        }
    }

    #[test]
    fn streaming_stores_the_same_values() {
        streamed_is_stored::<f32>();
        streamed_is_stored::<f64>();
    }
}
