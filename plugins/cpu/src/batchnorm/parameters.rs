//! The parameters of a batch normalization: read and written channel by channel.

use crate::dtype::element::ComputeType;
use crate::kernel::Refusal;
use crate::problem::batchnorm as problem;
use crate::problem::batchnorm::{Batchnorm, Parameter, Spread as Given};
use crate::simd::array::Each;
use crate::tensor::view::{Memory, Pointers, Spread};

/// The weight of the new value in the running statistics if no momentum is given.
const DEFAULT_MOMENTUM: f64 = 0.1;

/// The epsilon of a backward pass without saved statistics.
const BACKWARD_EPSILON: f64 = 1e-5;

/// A tensor with one value per channel, of at least a byte each: several threads write neighbours.
type Channels<R> = Spread<R, 1>;

/// The variant of batch normalization.
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

/// The parameters of each variant.
pub(crate) enum Parameters<R> {
    /// Mean, inverse or variance with epsilon, scale and bias.
    Inference {
        mean: Channels<R>,
        spread: Channels<R>,
        epsilon: Option<Memory<R>>,
        scale: Channels<R>,
        bias: Channels<R>,
    },
    /// Scale, bias and epsilon, and the outputs.
    Training(Box<Training<R>>),
    /// Scale, the saved statistics, and the gradients of scale and bias.
    Backward { scale: Channels<R>, saved: Option<[Channels<R>; 2]>, dscale: Channels<R>, dbias: Channels<R> },
}

/// The parameters of training.
pub(crate) struct Training<R> {
    scale: Channels<R>,
    bias: Channels<R>,
    epsilon: Memory<R>,
    mean: Option<Channels<R>>,
    inv_variance: Option<Channels<R>>,
    running: Option<Running<R>>,
}

/// The running statistics before and after.
struct Running<R> {
    prev_mean: Channels<R>,
    prev_variance: Channels<R>,
    next_mean: Channels<R>,
    next_variance: Channels<R>,
    momentum: Option<Memory<R>>,
}

impl<R: ComputeType> Parameters<R> {
    pub(crate) fn of(batchnorm: &Batchnorm) -> Result<Self, Refusal> {
        let channels =
            |name, parameter: &Parameter| Channels::of_channels(name, parameter, batchnorm.channels());
        let optional = |name, parameter: &Option<Parameter>| {
            parameter.as_ref().map(|parameter| channels(name, parameter)).transpose()
        };
        Ok(match batchnorm {
            Batchnorm::Inference(p) => {
                let (spread, epsilon) = match &p.spread {
                    Given::InvVariance(inv) => (channels("inv_variance", inv)?, None),
                    Given::Variance(variance, epsilon) => {
                        (channels("variance", variance)?, Some(Memory::of_scalar("epsilon", epsilon)?))
                    }
                };
                let (scale, bias) = (channels("scale", &p.scale)?, channels("bias", &p.bias)?);
                Self::Inference { mean: channels("mean", &p.mean)?, spread, epsilon, scale, bias }
            }
            Batchnorm::Training(p) => {
                let running = |running: &problem::Running| {
                    let momentum = running.momentum.as_ref();
                    Ok::<_, Refusal>(Running {
                        prev_mean: channels("prev_running_mean", &running.prev_mean)?,
                        prev_variance: channels("prev_running_variance", &running.prev_variance)?,
                        next_mean: channels("next_running_mean", &running.next_mean)?,
                        next_variance: channels("next_running_variance", &running.next_variance)?,
                        momentum: momentum.map(|m| Memory::of_scalar("momentum", m)).transpose()?,
                    })
                };
                Self::Training(Box::new(Training {
                    scale: channels("scale", &p.scale)?,
                    bias: channels("bias", &p.bias)?,
                    epsilon: Memory::of_scalar("epsilon", &p.epsilon)?,
                    mean: optional("mean", &p.mean)?,
                    inv_variance: optional("inv_variance", &p.inv_variance)?,
                    running: p.running.as_ref().map(running).transpose()?,
                }))
            }
            Batchnorm::Backward(p) => {
                let saved = match &p.saved {
                    None => None,
                    Some((mean, inv)) => Some([channels("mean", mean)?, channels("inv_variance", inv)?]),
                };
                let (dscale, dbias) = (channels("dscale", &p.dscale)?, channels("dbias", &p.dbias)?);
                Self::Backward { scale: channels("scale", &p.scale)?, saved, dscale, dbias }
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

    /// The epsilon added to a variance of x.
    pub(crate) fn epsilon(&self, tensors: Pointers<'_>) -> f64 {
        match self {
            Self::Training(training) => training.epsilon.get(tensors, 0).to_f64(),
            _ => BACKWARD_EPSILON,
        }
    }

    /// Mean, inverse, scale and bias of y = scale · (x - mean) · inverse + bias. In training, from mean and biased variance of
    /// `n` elements, and writes the statistics.
    pub(crate) fn forward(
        &self,
        tensors: Pointers<'_>,
        channel: usize,
        [mean, variance]: [f64; 2],
        n: f64,
    ) -> [R; 4] {
        match self {
            Self::Inference { mean, spread, epsilon, scale, bias } => {
                let [mean, spread, scale, bias] =
                    [mean, spread, scale, bias].each(|parameter| parameter.get(tensors, [channel]));
                let inverse =
                    epsilon.map_or(spread, |epsilon| inverse(spread.to_f64(), epsilon.get(tensors, 0)));
                [mean, inverse, scale, bias]
            }
            Self::Training(training) => {
                let inverse = inverse(variance, training.epsilon.get(tensors, 0));
                let mean = R::from_f64(mean);
                let [scale, bias] =
                    [&training.scale, &training.bias].each(|parameter| parameter.get(tensors, [channel]));
                for (output, value) in [(&training.mean, mean), (&training.inv_variance, inverse)] {
                    if let Some(output) = output {
                        output.set(tensors, [channel], value);
                    }
                }
                if let Some(running) = &training.running {
                    let unbiased = if n > 1.0 { variance * n / (n - 1.0) } else { variance };
                    running.update(tensors, channel, mean, R::from_f64(unbiased));
                }
                [mean, inverse, scale, bias]
            }
            Self::Backward { .. } => [R::ZERO; 4],
        }
    }

    /// Mean and inverse of a backward pass: saved, or from mean and biased variance.
    pub(crate) fn statistics(
        &self,
        tensors: Pointers<'_>,
        channel: usize,
        [mean, variance]: [f64; 2],
    ) -> [R; 2] {
        match self {
            Self::Backward { saved: Some(saved), .. } => saved.each_ref().map(|s| s.get(tensors, [channel])),
            _ => [R::from_f64(mean), inverse(variance, R::from_f64(BACKWARD_EPSILON))],
        }
    }

    /// Reads scale, and writes its gradient and that of bias.
    pub(crate) fn backward(
        &self,
        tensors: Pointers<'_>,
        channel: usize,
        [scale_sum, bias_sum]: [f64; 2],
    ) -> R {
        let Self::Backward { scale, dscale, dbias, .. } = self else { return R::ZERO };
        let scale = scale.get(tensors, [channel]);
        dscale.set(tensors, [channel], R::from_f64(scale_sum));
        dbias.set(tensors, [channel], R::from_f64(bias_sum));
        scale
    }
}

/// 1/√(variance + ε), rounded once: for values above 10¹⁹ the variance exceeds single precision, its root
/// not.
fn inverse<R: ComputeType>(variance: f64, epsilon: R) -> R {
    R::from_f64(1.0 / (variance + epsilon.to_f64()).sqrt())
}

impl<R: ComputeType> Running<R> {
    /// Reads both old values before writing a new one, because old and new may share memory.
    fn update(&self, tensors: Pointers<'_>, channel: usize, mean: R, variance: R) {
        let weight = self.momentum.map_or(R::from_f64(DEFAULT_MOMENTUM), |momentum| momentum.get(tensors, 0));
        let [old_mean, old_variance] =
            [&self.prev_mean, &self.prev_variance].each(|old| old.get(tensors, [channel]));
        let kept = R::ONE - weight;
        self.next_mean.set(tensors, [channel], kept * old_mean + weight * mean);
        self.next_variance.set(tensors, [channel], kept * old_variance + weight * variance);
    }
}
