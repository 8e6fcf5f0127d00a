//! The parameters of a channel: what is read for it, what its sums give, and what is written.

use hipdnn_plugin_sdk::graph::DataType;

use crate::batchnorm::loops::{Gradient, NEAR};
use crate::dtype::element::Element;
use crate::kernel::Refusal;
use crate::problem::batchnorm::{Batchnorm, Parameter, Scalar, Spread};
use crate::reference::memory::float_element;
use crate::simd::vector::Float;
use crate::tensor::row_converter::RowConverter;

/// Elements of the buffer for what cannot be read in place.
pub(crate) const BUFFER: usize = 512;

/// The weight of the new value in the running statistics if no momentum is given.
const DEFAULT_MOMENTUM: f64 = 0.1;

/// The epsilon of a backward pass without saved statistics.
const BACKWARD_EPSILON: f64 = 1e-5;

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
    pub(crate) unsafe fn numbers(
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

    /// Where `len` values from element `offset` on are to be written: in place, or into the buffer. Call
    /// [`Memory::written`] afterwards.
    ///
    /// # Safety
    /// As [`Memory::numbers`].
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
    /// As [`Memory::numbers`].
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

/// A tensor with one value per channel.
pub(crate) struct Channels<T> {
    slot: usize,
    element: Element<T>,
    stride: usize,
}

impl<T: Float> Channels<T> {
    fn of(parameter: &Parameter) -> Result<Self, Refusal> {
        Ok(Self {
            slot: parameter.slot,
            // Elements of less than a byte could not be written by several threads.
            element: float_element("parameter", parameter.data_type)?,
            stride: parameter.stride,
        })
    }

    fn of_scalar(scalar: &Scalar) -> Result<Self, Refusal> {
        Ok(Self { slot: scalar.slot, element: Element::of(scalar.data_type)?, stride: 0 })
    }

    /// # Safety
    /// `tensors` are those of the kernel, which has the channel.
    unsafe fn get(&self, tensors: &[*mut u8], channel: usize) -> T {
        // SAFETY: the element is valid, as this function requires.
        unsafe { self.element.load(tensors[self.slot], channel * self.stride) }
    }

    /// # Safety
    /// As [`Channels::get`], and the kernel writes the tensor.
    unsafe fn set(&self, tensors: &[*mut u8], channel: usize, number: T) {
        // SAFETY: the element is valid, as this function requires.
        unsafe { self.element.store(tensors[self.slot], channel * self.stride, number) };
    }
}

/// The form of batch normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// With given statistics.
    Inference,
    /// With the statistics of x.
    Training,
    /// The gradients.
    Backward {
        /// Whether mean and inverse are given.
        saved: bool,
    },
}

/// The sums of a channel that give mean and variance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    /// The shift: deviations are from this value.
    pub(crate) about: f64,
    /// The sum of the deviations.
    pub(crate) sum: f64,
    /// The sum of their squares.
    pub(crate) squares: f64,
}

impl Moments {
    /// Whether the shift is close enough to the mean of `n` elements, and all elements are finite.
    pub(crate) fn are_near(&self, n: f64) -> bool {
        let (mean, variance) = self.statistics(n);
        let deviation = mean - self.about;
        // False for NaN.
        deviation * deviation <= NEAR * variance && variance.is_finite()
    }

    /// Mean and biased variance of `n` elements.
    fn statistics(&self, n: f64) -> (f64, f64) {
        if !self.about.is_finite() {
            return (self.about, f64::NAN);
        }
        let deviation = self.sum / n;
        // Rounding must not make it negative, but NaN stays.
        let variance = self.squares / n - deviation * deviation;
        (self.about + deviation, if variance < 0.0 { 0.0 } else { variance })
    }
}

/// The parameters of each form.
pub(crate) enum Parameters<T> {
    /// Mean, inverse or variance with epsilon, scale and bias.
    Inference {
        mean: Channels<T>,
        spread: Channels<T>,
        epsilon: Option<Channels<T>>,
        scale: Channels<T>,
        bias: Channels<T>,
    },
    /// Scale, bias and epsilon, and the outputs.
    Training(Box<Training<T>>),
    /// Scale, the saved statistics, and the gradients of scale and bias.
    Backward {
        scale: Channels<T>,
        saved: Option<(Channels<T>, Channels<T>)>,
        dscale: Channels<T>,
        dbias: Channels<T>,
    },
}

/// The parameters of training.
pub(crate) struct Training<T> {
    scale: Channels<T>,
    bias: Channels<T>,
    epsilon: Channels<T>,
    mean: Option<Channels<T>>,
    inv_variance: Option<Channels<T>>,
    running: Option<Running<T>>,
}

/// The running statistics before and after.
struct Running<T> {
    prev_mean: Channels<T>,
    prev_variance: Channels<T>,
    next_mean: Channels<T>,
    next_variance: Channels<T>,
    momentum: Option<Channels<T>>,
}

impl<T: Float> Parameters<T> {
    pub(crate) fn of(batchnorm: &Batchnorm) -> Result<Self, Refusal> {
        let optional = |parameter: &Option<Parameter>| parameter.as_ref().map(Channels::of).transpose();
        Ok(match batchnorm {
            Batchnorm::Inference(p) => {
                let (spread, epsilon) = match &p.spread {
                    Spread::InvVariance(inv) => (Channels::of(inv)?, None),
                    Spread::Variance(variance, epsilon) => {
                        (Channels::of(variance)?, Some(Channels::of_scalar(epsilon)?))
                    }
                };
                let (scale, bias) = (Channels::of(&p.scale)?, Channels::of(&p.bias)?);
                Self::Inference { mean: Channels::of(&p.mean)?, spread, epsilon, scale, bias }
            }
            Batchnorm::Training(p) => {
                let running = match &p.running {
                    None => None,
                    Some(running) => Some(Running {
                        prev_mean: Channels::of(&running.prev_mean)?,
                        prev_variance: Channels::of(&running.prev_variance)?,
                        next_mean: Channels::of(&running.next_mean)?,
                        next_variance: Channels::of(&running.next_variance)?,
                        momentum: running.momentum.as_ref().map(Channels::of_scalar).transpose()?,
                    }),
                };
                Self::Training(Box::new(Training {
                    scale: Channels::of(&p.scale)?,
                    bias: Channels::of(&p.bias)?,
                    epsilon: Channels::of_scalar(&p.epsilon)?,
                    mean: optional(&p.mean)?,
                    inv_variance: optional(&p.inv_variance)?,
                    running,
                }))
            }
            Batchnorm::Backward(p) => {
                let saved = match &p.saved {
                    None => None,
                    Some((mean, inv)) => Some((Channels::of(mean)?, Channels::of(inv)?)),
                };
                let (dscale, dbias) = (Channels::of(&p.dscale)?, Channels::of(&p.dbias)?);
                Self::Backward { scale: Channels::of(&p.scale)?, saved, dscale, dbias }
            }
        })
    }

    pub(crate) fn role(&self) -> Role {
        match self {
            Self::Inference { .. } => Role::Inference,
            Self::Training(_) => Role::Training,
            Self::Backward { saved, .. } => Role::Backward { saved: saved.is_some() },
        }
    }

    /// Whether mean and variance of x are needed.
    pub(crate) fn wants_moments(&self) -> bool {
        matches!(self.role(), Role::Training | Role::Backward { saved: false })
    }

    /// Mean, factor and summand of y = (x - mean) · factor + summand. In training, also writes the statistics.
    ///
    /// # Safety
    /// `tensors` are those of the kernel, which has the channel, and no other thread has the same channel.
    pub(crate) unsafe fn forward(
        &self,
        tensors: &[*mut u8],
        channel: usize,
        moments: &Moments,
        n: f64,
    ) -> [T; 3] {
        // SAFETY: the tensors and channel are valid, as this function requires.
        unsafe {
            match self {
                Self::Inference { mean, spread, epsilon, scale, bias } => {
                    let spread = spread.get(tensors, channel);
                    let inv = match epsilon {
                        None => spread,
                        Some(epsilon) => T::ONE / (spread + epsilon.get(tensors, channel)).sqrt(),
                    };
                    let factor = scale.get(tensors, channel) * inv;
                    [mean.get(tensors, channel), factor, bias.get(tensors, channel)]
                }
                Self::Training(training) => training.forward(tensors, channel, moments, n),
                Self::Backward { .. } => [T::ZERO; 3],
            }
        }
    }

    /// Mean and 1/√(variance + ε) of a backward pass.
    ///
    /// # Safety
    /// As [`Parameters::forward`].
    pub(crate) unsafe fn statistics(
        &self,
        tensors: &[*mut u8],
        channel: usize,
        moments: &Moments,
        n: f64,
    ) -> (T, T) {
        match self {
            // SAFETY: the tensors and channel are valid, as this function requires.
            Self::Backward { saved: Some((mean, inv)), .. } => unsafe {
                (mean.get(tensors, channel), inv.get(tensors, channel))
            },
            _ => {
                let (mean, variance) = moments.statistics(n);
                let epsilon = T::from_f64(BACKWARD_EPSILON);
                (T::from_f64(mean), T::ONE / (T::from_f64(variance) + epsilon).sqrt())
            }
        }
    }

    /// The coefficients of dx, from Σ dy and Σ dy · (x - mean). Writes the gradients of scale and bias.
    ///
    /// # Safety
    /// As [`Parameters::forward`].
    pub(crate) unsafe fn backward(
        &self,
        tensors: &[*mut u8],
        channel: usize,
        (mean, inv): (T, T),
        [sum, product]: [f64; 2],
        n: f64,
    ) -> Gradient<T> {
        let product = product * inv.to_f64();
        let Self::Backward { scale, dscale, dbias, .. } = self else {
            return Gradient { mean, factor: T::ZERO, bias: T::ZERO, slope: T::ZERO };
        };
        // SAFETY: the tensors and channel are valid, as this function requires.
        unsafe {
            let factor = scale.get(tensors, channel) * inv;
            dscale.set(tensors, channel, T::from_f64(product));
            dbias.set(tensors, channel, T::from_f64(sum));
            Gradient { mean, factor, bias: T::from_f64(sum / n), slope: T::from_f64(product / n) * inv }
        }
    }
}

impl<T: Float> Training<T> {
    /// See [`Parameters::forward`].
    ///
    /// # Safety
    /// As [`Parameters::forward`].
    unsafe fn forward(&self, tensors: &[*mut u8], channel: usize, moments: &Moments, n: f64) -> [T; 3] {
        let (mean, variance) = moments.statistics(n);
        // SAFETY: the tensors and channel are valid, as this function requires.
        unsafe {
            let inv = T::ONE / (T::from_f64(variance) + self.epsilon.get(tensors, channel)).sqrt();
            let rounded = T::from_f64(mean);
            let (scale, bias) = (self.scale.get(tensors, channel), self.bias.get(tensors, channel));
            if let Some(kept) = &self.mean {
                kept.set(tensors, channel, rounded);
            }
            if let Some(kept) = &self.inv_variance {
                kept.set(tensors, channel, inv);
            }
            if let Some(running) = &self.running {
                let unbiased = if n > 1.0 { variance * n / (n - 1.0) } else { variance };
                running.update(tensors, channel, rounded, T::from_f64(unbiased));
            }
            [rounded, scale * inv, bias]
        }
    }
}

impl<T: Float> Running<T> {
    /// Reads both old values before it writes a new one, so old and new may share their memory.
    ///
    /// # Safety
    /// As [`Parameters::forward`].
    unsafe fn update(&self, tensors: &[*mut u8], channel: usize, mean: T, variance: T) {
        // SAFETY: the tensors and channel are valid, as this function requires.
        unsafe {
            let weight = match &self.momentum {
                Some(momentum) => momentum.get(tensors, channel),
                None => T::from_f64(DEFAULT_MOMENTUM),
            };
            let (old_mean, old_variance) =
                (self.prev_mean.get(tensors, channel), self.prev_variance.get(tensors, channel));
            let kept = T::ONE - weight;
            self.next_mean.set(tensors, channel, kept * old_mean + weight * mean);
            self.next_variance.set(tensors, channel, kept * old_variance + weight * variance);
        }
    }
}
