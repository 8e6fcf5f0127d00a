//! Batch normalization, channel by channel.
//!
//! Sums over a channel are in double precision for any compute type, and the variance is computed in a second
//! pass from deviations from the mean. So the statistics are those of exact arithmetic, rounded once to the
//! compute type, and do not depend on the order of summation. Results are computed from the rounded
//! statistics in double precision and rounded once, so that intermediate results cannot overflow the compute
//! type.

use crate::batchnorm::parameters::Parameters;
use crate::dtype::element::ComputeType;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{Layout, MAX_RANK, Walk};
use crate::problem::Operand;
use crate::problem::batchnorm::Batchnorm;
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, View, sum};

pub(crate) fn plan<R: ComputeType>(batchnorm: Batchnorm) -> Result<Box<dyn Kernel>, Refusal> {
    let (dy, result) = match &batchnorm {
        Batchnorm::Inference(p) => (None, Tensor::of("y", &p.y)?),
        Batchnorm::Training(p) => (None, Tensor::of("y", &p.y)?),
        Batchnorm::Backward(p) => (Some(Tensor::of("dy", &p.dy)?), Tensor::of("dx", &p.dx)?),
    };
    let x = Tensor::of("x", batchnorm.x())?;
    // The dims with one channel.
    let mut dims = [1; MAX_RANK];
    for (axis, (to, from)) in dims.iter_mut().zip(x.layout.dims()).enumerate() {
        *to = if axis == 1 { 1 } else { *from };
    }
    let channels = batchnorm.channels();
    Ok(Box::new(Channels::<R> { parameters: Parameters::of(&batchnorm)?, channels, dims, dy, x, result }))
}

struct Tensor<R> {
    memory: Memory<R>,
    layout: Layout,
}

impl<R: ComputeType> Tensor<R> {
    fn of(argument: &str, operand: &Operand) -> Result<Self, Refusal> {
        Ok(Self { memory: Memory::of(argument, operand)?, layout: operand.layout })
    }
}

struct Channels<R> {
    parameters: Parameters<R>,
    channels: usize,
    /// The dims of one channel.
    dims: [usize; MAX_RANK],
    /// Only in a backward pass.
    dy: Option<Tensor<R>>,
    x: Tensor<R>,
    /// y, or dx.
    result: Tensor<R>,
}

impl<R: ComputeType> Channels<R> {
    /// Elements of a channel.
    fn len(&self) -> f64 {
        self.dims.iter().map(|dim| *dim as f64).product()
    }

    /// The offsets of a channel's elements.
    fn elements<const N: usize>(
        &self,
        channel: usize,
        tensors: [&Tensor<R>; N],
    ) -> impl Iterator<Item = [usize; N]> {
        let strides = tensors.map(|tensor| tensor.layout.strides());
        let base = strides.map(|strides| strides.get(1).map_or(0, |stride| channel * stride));
        let dims = self.dims.get(..self.x.layout.rank()).unwrap_or_default();
        Walk::new(dims, strides).map(move |(_, mut offsets)| {
            offsets.iter_mut().zip(base).for_each(|(offset, base)| *offset += base);
            offsets
        })
    }

    /// Mean and biased variance of a channel.
    fn statistics(&self, x: &View<'_, R>, channel: usize) -> [f64; 2] {
        let values = || self.elements(channel, [&self.x]).map(|[at]| x.get(at).to_f64());
        let mean = sum(values()) / self.len();
        [mean, sum(values().map(|x| (x - mean) * (x - mean))) / self.len()]
    }
}

impl<R: ComputeType> Reference for Channels<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let (parameters, n) = (&self.parameters, self.len());
        let (x, result) = (self.x.memory.bind(tensors), self.result.memory.bind(tensors));
        for channel in 0..self.channels {
            let moments = if parameters.wants_moments() { self.statistics(&x, channel) } else { [0.0; 2] };
            let Some(dy) = &self.dy else {
                let by = parameters.forward(tensors, channel, moments, n);
                let [mean, inverse, scale, bias] = by.map(R::to_f64);
                for [x_at, y_at] in self.elements(channel, [&self.x, &self.result]) {
                    let normal = (x.get(x_at).to_f64() - mean) * inverse;
                    result.set(y_at, R::from_f64(scale * normal + bias));
                }
                continue;
            };
            let [mean, inverse] = parameters.statistics(tensors, channel, moments).map(R::to_f64);
            let dy_view = dy.memory.bind(tensors);
            let normal = |x_at| (x.get(x_at).to_f64() - mean) * inverse;
            let (mut dscale, mut dbias) = (0.0, 0.0);
            for [dy_at, x_at] in self.elements(channel, [dy, &self.x]) {
                let gradient = dy_view.get(dy_at).to_f64();
                dbias += gradient;
                dscale += gradient * normal(x_at);
            }
            let factor = parameters.backward(tensors, channel, [dscale, dbias]).to_f64() * inverse;
            for [dy_at, x_at, dx_at] in self.elements(channel, [dy, &self.x, &self.result]) {
                let gradient = dy_view.get(dy_at).to_f64() - dbias / n - normal(x_at) * dscale / n;
                result.set(dx_at, R::from_f64(factor * gradient));
            }
        }
    }
}
