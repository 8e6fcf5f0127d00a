//! The elements of a channel, and the coefficients that its sums give.

use hipdnn_plugin_sdk::graph::DataType;

use crate::batchnorm::loops::Gradient;
use crate::batchnorm::parameters::Parameters;
use crate::kernel::Refusal;
use crate::simd::vector::Float;
use crate::tensor::moments::Moments;
use crate::tensor::row_converter::RowConverter;
use crate::tensor::view::Pointers;

/// Elements of the buffer for tensors that cannot be read in place.
pub(crate) const BUFFER: usize = 512;

/// A tensor with the elements of all channels.
pub(crate) struct Memory<T> {
    pub(crate) slot: usize,
    pub(crate) run: RowConverter<T>,
    /// Whether its elements are contiguous values of the compute type.
    pub(crate) direct: bool,
}

impl<T: Float> Memory<T> {
    /// The tensor with this slot and dtype, whose elements have this stride.
    pub(crate) fn of((slot, data_type): (usize, DataType), stride: usize) -> Result<Self, Refusal> {
        let run = RowConverter::of(data_type)?;
        Ok(Self { slot, direct: run.same && stride == 1, run })
    }

    /// `len` values from element `offset` on: in place, or copied into the buffer.
    ///
    /// # Safety
    /// `base` is the tensor, which has the elements; `len` is at most [`BUFFER`] unless the memory is direct.
    #[inline(always)]
    pub(crate) unsafe fn values(
        &self,
        base: *const u8,
        offset: usize,
        stride: usize,
        len: usize,
        buffer: &mut [T; BUFFER],
    ) -> *const T {
        // SAFETY: the elements are valid, as this function requires.
        unsafe {
            let from = base.add(offset * self.run.size);
            if self.direct {
                from.cast()
            } else {
                (self.run.load)(from, stride, buffer.as_mut_ptr(), len);
                buffer.as_ptr()
            }
        }
    }

    /// Where to write `len` values from element `offset` on: in place, or into the buffer. Call
    /// [`Memory::written`] afterwards.
    ///
    /// # Safety
    /// As [`Memory::values`].
    #[inline(always)]
    pub(crate) unsafe fn target(&self, base: *mut u8, offset: usize, buffer: &mut [T; BUFFER]) -> *mut T {
        if self.direct {
            // SAFETY: the elements are valid, as this function requires.
            unsafe { base.add(offset * self.run.size).cast() }
        } else {
            buffer.as_mut_ptr()
        }
    }

    /// Copies the buffer to the tensor.
    ///
    /// # Safety
    /// As [`Memory::values`].
    #[inline(always)]
    pub(crate) unsafe fn written(
        &self,
        base: *mut u8,
        offset: usize,
        stride: usize,
        len: usize,
        buffer: &[T; BUFFER],
    ) {
        if !self.direct {
            // SAFETY: the elements are valid, as this function requires.
            unsafe { (self.run.store)(buffer.as_ptr(), base.add(offset * self.run.size), stride, len) };
        }
    }
}

impl<T: Float> Parameters<T> {
    /// Mean, factor and summand of y = (x - mean) · factor + summand. In training, also writes the statistics.
    ///
    /// # Safety
    /// `tensors` are those of the kernel, which has the channel, and no other thread has the same channel.
    pub(crate) unsafe fn affine(
        &self,
        tensors: &[*mut u8],
        channel: usize,
        moments: &Moments,
        n: f64,
    ) -> [T; 3] {
        // SAFETY: the tensors are those of the kernel, as this function requires.
        let tensors = unsafe { Pointers::new(tensors) };
        let [mean, inverse, scale, bias] = self.forward(tensors, channel, moments.statistics(n), n);
        [mean, scale * inverse, bias]
    }

    /// Mean and 1/√(variance + ε) of a backward pass.
    ///
    /// # Safety
    /// As [`Parameters::affine`].
    pub(crate) unsafe fn saved_or_computed(
        &self,
        tensors: &[*mut u8],
        channel: usize,
        moments: &Moments,
        n: f64,
    ) -> [T; 2] {
        // SAFETY: the tensors are those of the kernel, as this function requires.
        self.statistics(unsafe { Pointers::new(tensors) }, channel, moments.statistics(n))
    }

    /// The coefficients of dx, from Σ dy and Σ dy · (x - mean). Writes the gradients of scale and bias.
    ///
    /// # Safety
    /// As [`Parameters::affine`].
    pub(crate) unsafe fn gradient(
        &self,
        tensors: &[*mut u8],
        channel: usize,
        [mean, inverse]: [T; 2],
        [sum, product]: [f64; 2],
        n: f64,
    ) -> Gradient<T> {
        let product = product * inverse.to_f64();
        // SAFETY: the tensors are those of the kernel, as this function requires.
        let scale = self.backward(unsafe { Pointers::new(tensors) }, channel, [product, sum]);
        Gradient {
            mean,
            factor: scale * inverse,
            bias: T::from_f64(sum / n),
            slope: T::from_f64(product / n) * inverse,
        }
    }
}
