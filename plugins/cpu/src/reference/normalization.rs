//! Layer normalization, RMS normalization, and their gradients, row by row.

#![expect(clippy::indexing_slicing, reason = "axes are below the rank of x, at most MAX_RANK")]

use crate::dtype::element::ComputeType;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::Operand;
use crate::problem::normalization as problem;
use crate::problem::normalization::{Normalization, Spread, Statistics};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, View, sum};

pub(crate) fn plan<R: ComputeType>(problem: Normalization) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match problem {
        Normalization::Forward(forward) => Box::new(Forward::<R>::new(&forward)?),
        Normalization::Backward(backward) => Box::new(Backward::<R>::new(&backward)?),
    })
}

/// The shape of x, and which of its tensors' dimensions are rows.
struct Rows {
    rank: usize,
    dims: [usize; MAX_RANK],
    leading: usize,
    centered: bool,
}

impl Rows {
    fn of(x: &Operand, leading: usize, centered: bool) -> Self {
        let mut dims = [1; MAX_RANK];
        dims[..x.layout.rank()].copy_from_slice(x.layout.dims());
        Self { rank: x.layout.rank(), dims, leading, centered }
    }

    /// The offsets of all rows.
    fn each<R, const N: usize>(&self, tensors: [&Tensor<R>; N]) -> impl Iterator<Item = [usize; N]> {
        let strides = tensors.map(|tensor| &tensor.strides[..self.leading]);
        Walk::new(&self.dims[..self.leading], strides).map(|(_, offsets)| offsets)
    }

    /// The offsets of the elements of a row from those of the row.
    fn elements<R, const N: usize>(&self, tensors: [&Tensor<R>; N]) -> impl Iterator<Item = [usize; N]> {
        let strides = tensors.map(|tensor| &tensor.strides[self.leading..self.rank]);
        Walk::new(&self.dims[self.leading..self.rank], strides).map(|(_, offsets)| offsets)
    }

    fn rows(&self) -> usize {
        self.dims[..self.leading].iter().product()
    }

    /// Elements of a row.
    fn len(&self) -> f64 {
        self.dims[self.leading..self.rank].iter().product::<usize>() as f64
    }

    /// Mean and inverse of the row at `base`.
    fn statistics<R: ComputeType>(
        &self,
        x: &Tensor<R>,
        view: &View<'_, R>,
        base: usize,
        epsilon: f64,
    ) -> [f64; 2] {
        let values = || self.elements([x]).map(|[at]| view.get(base + at).to_f64());
        let mean = if self.centered { sum(values()) / self.len() } else { 0.0 };
        let variance = sum(values().map(|x| (x - mean) * (x - mean))) / self.len();
        [mean, 1.0 / (variance + epsilon).sqrt()]
    }
}

/// A tensor with strides over the dimensions of x; zero strides and no memory if it is absent.
struct Tensor<R> {
    memory: Option<Memory<R>>,
    strides: [usize; MAX_RANK],
}

impl<R: ComputeType> Tensor<R> {
    fn of(argument: &str, operand: &Operand) -> Result<Self, Refusal> {
        let mut strides = [0; MAX_RANK];
        strides[..operand.layout.rank()].copy_from_slice(operand.layout.strides());
        Ok(Self { memory: Some(Memory::of(argument, operand)?), strides })
    }

    fn spread(rows: &Rows, argument: &str, part: Option<&Spread>) -> Result<Self, Refusal> {
        let Some(part) = part else { return Ok(Self { memory: None, strides: [0; MAX_RANK] }) };
        let of = (part.slot, part.data_type);
        let spread = crate::tensor::view::Spread::of(argument, of, &rows.dims, part.strides)?;
        Ok(Self { memory: Some(spread.memory), strides: spread.strides })
    }

    fn get(&self, tensors: Pointers<'_>, at: usize) -> Option<R> {
        self.memory.map(|memory| memory.get(tensors, at))
    }

    fn set(&self, tensors: Pointers<'_>, at: usize, value: f64) {
        if let Some(memory) = &self.memory {
            memory.set(tensors, at, R::from_f64(value));
        }
    }
}

fn inverse_name(centered: bool) -> &'static str {
    if centered { "inv_variance" } else { "inv_rms" }
}

struct Forward<R> {
    rows: Rows,
    x: Tensor<R>,
    y: Tensor<R>,
    scale: Tensor<R>,
    bias: Tensor<R>,
    epsilon: Memory<R>,
    mean: Tensor<R>,
    inverse: Tensor<R>,
}

impl<R: ComputeType> Forward<R> {
    fn new(p: &problem::Forward) -> Result<Self, Refusal> {
        let rows = Rows::of(&p.x, p.leading, p.centered);
        Ok(Self {
            x: Tensor::of("x", &p.x)?,
            y: Tensor::of("y", &p.y)?,
            scale: Tensor::spread(&rows, "scale", Some(&p.scale))?,
            bias: Tensor::spread(&rows, "bias", p.bias.as_ref())?,
            epsilon: Memory::of_scalar("epsilon", &p.epsilon)?,
            mean: Tensor::spread(&rows, "mean", p.mean.as_ref())?,
            inverse: Tensor::spread(&rows, inverse_name(p.centered), p.inverse.as_ref())?,
            rows,
        })
    }
}

impl<R: ComputeType> Reference for Forward<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let Self { rows, x, y, scale, bias, .. } = self;
        let views = [x, y, scale, bias].map(|tensor| tensor.memory.map(|memory| memory.bind(tensors)));
        let [Some(x_view), Some(y_view), Some(scale_view), bias_view] = views else { return };
        let epsilon = self.epsilon.get(tensors, 0).to_f64();
        for [x_base, y_base, mean_at, inverse_at] in rows.each([x, y, &self.mean, &self.inverse]) {
            let [mean, inverse] = rows.statistics(x, &x_view, x_base, epsilon);
            self.mean.set(tensors, mean_at, mean);
            self.inverse.set(tensors, inverse_at, inverse);
            let [mean, inverse] = [mean, inverse].map(|statistic| R::from_f64(statistic).to_f64());
            for [x_at, y_at, scale_at, bias_at] in rows.elements([x, y, scale, bias]) {
                let normal = (x_view.get(x_base + x_at).to_f64() - mean) * inverse;
                let bias = bias_view.as_ref().map_or(0.0, |bias| bias.get(bias_at).to_f64());
                let value = scale_view.get(scale_at).to_f64() * normal + bias;
                y_view.set(y_base + y_at, R::from_f64(value));
            }
        }
    }
}

/// Mean and inverse of each row are kept in scratch memory between the gradients.
struct Backward<R> {
    rows: Rows,
    x: Tensor<R>,
    dy: Tensor<R>,
    dx: Tensor<R>,
    scale: Tensor<R>,
    dscale: Tensor<R>,
    dbias: Tensor<R>,
    /// The saved statistics; `inverse` is absent if they are computed.
    mean: Tensor<R>,
    inverse: Tensor<R>,
    epsilon: Option<Memory<R>>,
}

impl<R: ComputeType> Backward<R> {
    fn new(p: &problem::Backward) -> Result<Self, Refusal> {
        let rows = Rows::of(&p.x, p.leading, p.centered);
        let (mean, inverse, epsilon) = match &p.statistics {
            Statistics::Saved { mean, inverse } => (mean.as_ref(), Some(inverse), None),
            Statistics::Computed(epsilon) => (None, None, Some(Memory::of_scalar("epsilon", epsilon)?)),
        };
        Ok(Self {
            mean: Tensor::spread(&rows, "mean", mean)?,
            inverse: Tensor::spread(&rows, inverse_name(p.centered), inverse)?,
            epsilon,
            x: Tensor::of("x", &p.x)?,
            dy: Tensor::of("dy", &p.dy)?,
            dx: Tensor::of("dx", &p.dx)?,
            scale: Tensor::spread(&rows, "scale", Some(&p.scale))?,
            dscale: Tensor::spread(&rows, "dscale", Some(&p.dscale))?,
            dbias: Tensor::spread(&rows, "dbias", p.dbias.as_ref())?,
            rows,
        })
    }
}

impl<R: ComputeType> Reference for Backward<R> {
    fn scratch(&self) -> usize {
        self.rows.rows().saturating_mul(2)
    }

    fn compute(&self, tensors: Pointers<'_>, scratch: &mut [f64]) {
        let Self { rows, x, dy, dx, scale, .. } = self;
        let views = [x, dy, dx, scale].map(|tensor| tensor.memory.map(|memory| memory.bind(tensors)));
        let [Some(x_view), Some(dy_view), Some(dx_view), Some(scale_view)] = views else { return };
        let (statistics, _) = scratch.as_chunks_mut::<2>();
        let all = rows.each([x, dy, dx, &self.mean, &self.inverse]);
        for ([x_base, dy_base, dx_base, mean_at, inverse_at], kept) in all.zip(&mut *statistics) {
            let [mean, inverse] = match self.inverse.get(tensors, inverse_at) {
                Some(inverse) => [self.mean.get(tensors, mean_at).map_or(0.0, R::to_f64), inverse.to_f64()],
                None => {
                    let epsilon = self.epsilon.map_or(R::ZERO, |epsilon| epsilon.get(tensors, 0));
                    rows.statistics(x, &x_view, x_base, epsilon.to_f64())
                }
            };
            *kept = [mean, inverse];
            let terms = |[x_at, dy_at, _, scale_at]: [usize; 4]| {
                let hat = (x_view.get(x_base + x_at).to_f64() - mean) * inverse;
                (hat, dy_view.get(dy_base + dy_at).to_f64() * scale_view.get(scale_at).to_f64())
            };
            let (mut sum, mut sum_hat) = (0.0, 0.0);
            for offsets in rows.elements([x, dy, dx, scale]) {
                let (hat, g) = terms(offsets);
                sum += g;
                sum_hat += g * hat;
            }
            let of_mean = if rows.centered { sum / rows.len() } else { 0.0 };
            for offsets in rows.elements([x, dy, dx, scale]) {
                let (hat, g) = terms(offsets);
                let value = inverse * (g - of_mean - hat * sum_hat / rows.len());
                dx_view.set(dx_base + offsets[2], R::from_f64(value));
            }
        }
        for [x_at, dy_at, dscale_at, dbias_at] in rows.elements([x, dy, &self.dscale, &self.dbias]) {
            let (mut dscale, mut dbias) = (0.0, 0.0);
            for ([x_base, dy_base], [mean, inverse]) in rows.each([x, dy]).zip(&*statistics) {
                let dy = dy_view.get(dy_base + dy_at).to_f64();
                dscale += dy * (x_view.get(x_base + x_at).to_f64() - mean) * inverse;
                dbias += dy;
            }
            self.dscale.set(tensors, dscale_at, dscale);
            self.dbias.set(tensors, dbias_at, dbias);
        }
    }
}
