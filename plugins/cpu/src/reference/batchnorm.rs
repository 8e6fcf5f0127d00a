//! Batch normalization, one channel after the other.
//!
//! Sums over a channel are taken in double precision whatever the compute type, and the variance in a second pass over the
//! differences from the mean. So the statistics are those of exact arithmetic, rounded once to the compute type, and an engine
//! that sums in another order is measured against them alone and not against the rounding of one particular order.

use crate::dtype::element::Real;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{Layout, MAX_RANK, Walk};
use crate::problem::batchnorm as problem;
use crate::problem::batchnorm::{Batchnorm, Spread};
use crate::reference::memory::{Channels, Memory, Single, View};

/// The weight of the new value in the running statistics where no momentum is given.
const DEFAULT_MOMENTUM: f64 = 0.1;

/// What is added to the variance where a backward pass has no statistics kept for it.
const BACKWARD_EPSILON: f64 = 1e-5;

pub(crate) fn plan<R: Real>(batchnorm: Batchnorm) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match batchnorm {
        Batchnorm::Inference(p) => Box::new(Inference::<R>::new(&p)?),
        Batchnorm::Training(p) => Box::new(Training::<R>::new(&p)?),
        Batchnorm::Backward(p) => Box::new(Backward::<R>::new(&p)?),
    })
}

/// The elements of one channel, as dimensions and strides without the channel's own.
struct Plane {
    channels: usize,
    rank: usize,
    dims: [usize; MAX_RANK],
}

impl Plane {
    fn of(layout: &Layout) -> Self {
        let (rank, dims) = without_channel(layout.dims());
        Self { channels: layout.dims().get(1).copied().unwrap_or(1), rank, dims }
    }

    fn walk<const N: usize>(&self, layouts: [&Layout; N]) -> Walk<N> {
        let strides = layouts.map(|layout| without_channel(layout.strides()).1);
        Walk::new(self.dims.get(..self.rank).unwrap_or_default(), strides.each_ref().map(|s| s.as_slice()))
    }

    /// Number of elements of one channel.
    fn elements(&self) -> f64 {
        self.dims.iter().take(self.rank).map(|dim| *dim as f64).product()
    }
}

fn without_channel(numbers: &[usize]) -> (usize, [usize; MAX_RANK]) {
    let mut rest = [0; MAX_RANK];
    let mut rank = 0;
    let kept = numbers.iter().enumerate().filter(|(axis, _)| *axis != 1);
    for (to, (_, from)) in rest.iter_mut().zip(kept) {
        *to = *from;
        rank += 1;
    }
    (rank, rest)
}

/// Distance from one channel to the next.
fn channel_stride(layout: &Layout) -> usize {
    layout.strides().get(1).copied().unwrap_or(0)
}

/// Mean and biased variance of one channel that begins at `base`.
///
/// # Safety
/// `x` is the view of a tensor with the layout, `base` the offset of one of its channels.
unsafe fn statistics<R: Real>(plane: &Plane, layout: &Layout, x: &View<R>, base: usize) -> (f64, f64) {
    let n = plane.elements();
    let sum = |term: &dyn Fn(f64) -> f64| {
        let mut total = 0.0;
        let mut at = plane.walk([layout]);
        loop {
            // SAFETY: the walk is over the channel's elements.
            total += term(unsafe { x.get(base + at.offsets[0]) }.to_f64());
            if !at.advance() {
                break total;
            }
        }
    };
    let mean = sum(&|x| x) / n;
    (mean, sum(&|x| (x - mean) * (x - mean)) / n)
}

struct Inference<R> {
    plane: Plane,
    x_layout: Layout,
    y_layout: Layout,
    x: Memory<R>,
    y: Memory<R>,
    mean: Channels<R>,
    spread: Channels<R>,
    epsilon: Option<Single<R>>,
    scale: Channels<R>,
    bias: Channels<R>,
}

impl<R: Real> Inference<R> {
    fn new(p: &problem::Inference) -> Result<Self, Refusal> {
        let (spread, epsilon) = match &p.spread {
            Spread::InvVariance(inv) => (Channels::of("inv_variance", inv)?, None),
            Spread::Variance(variance, epsilon) => {
                (Channels::of("variance", variance)?, Some(Single::of("epsilon", epsilon)?))
            }
        };
        Ok(Self {
            plane: Plane::of(&p.x.layout),
            x_layout: p.x.layout,
            y_layout: p.y.layout,
            x: Memory::of("x", &p.x)?,
            y: Memory::of("y", &p.y)?,
            mean: Channels::of("mean", &p.mean)?,
            spread,
            epsilon,
            scale: Channels::of("scale", &p.scale)?,
            bias: Channels::of("bias", &p.bias)?,
        })
    }
}

impl<R: Real> Kernel for Inference<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; channels and walks
        // stay below the dims of x, which y shares.
        unsafe {
            let (x, y) = (self.x.bind(tensors), self.y.bind(tensors));
            for channel in 0..self.plane.channels {
                let mean = self.mean.get(tensors, channel);
                let spread = self.spread.get(tensors, channel);
                let inv = match &self.epsilon {
                    None => spread,
                    Some(epsilon) => R::ONE / (spread + epsilon.get(tensors)).sqrt(),
                };
                let (scale, bias) = (self.scale.get(tensors, channel), self.bias.get(tensors, channel));
                let x_base = channel * channel_stride(&self.x_layout);
                let y_base = channel * channel_stride(&self.y_layout);
                let mut at = self.plane.walk([&self.x_layout, &self.y_layout]);
                loop {
                    let [x_at, y_at] = at.offsets;
                    y.set(y_base + y_at, scale * (x.get(x_base + x_at) - mean) * inv + bias);
                    if !at.advance() {
                        break;
                    }
                }
            }
        }
    }
}

struct Training<R> {
    plane: Plane,
    x_layout: Layout,
    y_layout: Layout,
    x: Memory<R>,
    y: Memory<R>,
    scale: Channels<R>,
    bias: Channels<R>,
    epsilon: Single<R>,
    mean: Option<Channels<R>>,
    inv_variance: Option<Channels<R>>,
    running: Option<Running<R>>,
}

struct Running<R> {
    prev_mean: Channels<R>,
    prev_variance: Channels<R>,
    next_mean: Channels<R>,
    next_variance: Channels<R>,
    momentum: Option<Single<R>>,
}

impl<R: Real> Training<R> {
    fn new(p: &problem::Training) -> Result<Self, Refusal> {
        let running = match &p.running {
            None => None,
            Some(running) => Some(Running {
                prev_mean: Channels::of("prev_running_mean", &running.prev_mean)?,
                prev_variance: Channels::of("prev_running_variance", &running.prev_variance)?,
                next_mean: Channels::of("next_running_mean", &running.next_mean)?,
                next_variance: Channels::of("next_running_variance", &running.next_variance)?,
                momentum: running.momentum.as_ref().map(|m| Single::of("momentum", m)).transpose()?,
            }),
        };
        Ok(Self {
            plane: Plane::of(&p.x.layout),
            x_layout: p.x.layout,
            y_layout: p.y.layout,
            x: Memory::of("x", &p.x)?,
            y: Memory::of("y", &p.y)?,
            scale: Channels::of("scale", &p.scale)?,
            bias: Channels::of("bias", &p.bias)?,
            epsilon: Single::of("epsilon", &p.epsilon)?,
            mean: p.mean.as_ref().map(|m| Channels::of("mean", m)).transpose()?,
            inv_variance: p.inv_variance.as_ref().map(|v| Channels::of("inv_variance", v)).transpose()?,
            running,
        })
    }
}

impl<R: Real> Kernel for Training<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; channels and walks
        // stay below the dims of x, which y shares.
        unsafe {
            let (x, y) = (self.x.bind(tensors), self.y.bind(tensors));
            let epsilon = self.epsilon.get(tensors);
            let n = self.plane.elements();
            for channel in 0..self.plane.channels {
                let x_base = channel * channel_stride(&self.x_layout);
                let y_base = channel * channel_stride(&self.y_layout);
                let (exact_mean, variance) = statistics(&self.plane, &self.x_layout, &x, x_base);
                let mean = R::from_f64(exact_mean);
                let inv = R::ONE / (R::from_f64(variance) + epsilon).sqrt();
                let (scale, bias) = (self.scale.get(tensors, channel), self.bias.get(tensors, channel));
                let mut at = self.plane.walk([&self.x_layout, &self.y_layout]);
                loop {
                    let [x_at, y_at] = at.offsets;
                    y.set(y_base + y_at, scale * (x.get(x_base + x_at) - mean) * inv + bias);
                    if !at.advance() {
                        break;
                    }
                }
                if let Some(kept) = &self.mean {
                    kept.set(tensors, channel, mean);
                }
                if let Some(kept) = &self.inv_variance {
                    kept.set(tensors, channel, inv);
                }
                if let Some(running) = &self.running {
                    let unbiased = if n > 1.0 { variance * n / (n - 1.0) } else { variance };
                    running.update(tensors, channel, mean, R::from_f64(unbiased));
                }
            }
        }
    }
}

impl<R: Real> Running<R> {
    /// Reads both old values before it writes a new one, so old and new may share their memory.
    ///
    /// # Safety
    /// As for [`Channels::get`].
    unsafe fn update(&self, tensors: &[*mut u8], channel: usize, mean: R, variance: R) {
        // SAFETY: the function called requires what this one requires.
        unsafe {
            let weight = match &self.momentum {
                Some(momentum) => momentum.get(tensors),
                None => R::from_f64(DEFAULT_MOMENTUM),
            };
            let (old_mean, old_variance) =
                (self.prev_mean.get(tensors, channel), self.prev_variance.get(tensors, channel));
            let kept = R::ONE - weight;
            self.next_mean.set(tensors, channel, kept * old_mean + weight * mean);
            self.next_variance.set(tensors, channel, kept * old_variance + weight * variance);
        }
    }
}

struct Backward<R> {
    plane: Plane,
    dy_layout: Layout,
    x_layout: Layout,
    dx_layout: Layout,
    dy: Memory<R>,
    x: Memory<R>,
    dx: Memory<R>,
    scale: Channels<R>,
    dscale: Channels<R>,
    dbias: Channels<R>,
    saved: Option<(Channels<R>, Channels<R>)>,
}

impl<R: Real> Backward<R> {
    fn new(p: &problem::Backward) -> Result<Self, Refusal> {
        let saved = match &p.saved {
            None => None,
            Some((mean, inv)) => Some((Channels::of("mean", mean)?, Channels::of("inv_variance", inv)?)),
        };
        Ok(Self {
            plane: Plane::of(&p.x.layout),
            dy_layout: p.dy.layout,
            x_layout: p.x.layout,
            dx_layout: p.dx.layout,
            dy: Memory::of("dy", &p.dy)?,
            x: Memory::of("x", &p.x)?,
            dx: Memory::of("dx", &p.dx)?,
            scale: Channels::of("scale", &p.scale)?,
            dscale: Channels::of("dscale", &p.dscale)?,
            dbias: Channels::of("dbias", &p.dbias)?,
            saved,
        })
    }
}

impl<R: Real> Kernel for Backward<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; channels and walks
        // stay below the dims of x, which dy and dx share.
        unsafe {
            let (dy, x, dx) = (self.dy.bind(tensors), self.x.bind(tensors), self.dx.bind(tensors));
            let n = self.plane.elements();
            for channel in 0..self.plane.channels {
                let dy_base = channel * channel_stride(&self.dy_layout);
                let x_base = channel * channel_stride(&self.x_layout);
                let dx_base = channel * channel_stride(&self.dx_layout);
                let (mean, inv) = match &self.saved {
                    Some((mean, inv)) => (mean.get(tensors, channel), inv.get(tensors, channel)),
                    None => {
                        let (mean, variance) = statistics(&self.plane, &self.x_layout, &x, x_base);
                        let epsilon = R::from_f64(BACKWARD_EPSILON);
                        (R::from_f64(mean), R::ONE / (R::from_f64(variance) + epsilon).sqrt())
                    }
                };
                let (mut dbias, mut dscale) = (0.0, 0.0);
                let mut at = self.plane.walk([&self.dy_layout, &self.x_layout]);
                loop {
                    let [dy_at, x_at] = at.offsets;
                    let gradient = dy.get(dy_base + dy_at).to_f64();
                    let normal = (x.get(x_base + x_at) - mean) * inv;
                    dbias += gradient;
                    dscale += gradient * normal.to_f64();
                    if !at.advance() {
                        break;
                    }
                }
                let factor = self.scale.get(tensors, channel) * inv;
                let (mean_dy, mean_product) = (R::from_f64(dbias / n), R::from_f64(dscale / n));
                let mut at = self.plane.walk([&self.dy_layout, &self.x_layout, &self.dx_layout]);
                loop {
                    let [dy_at, x_at, dx_at] = at.offsets;
                    let normal = (x.get(x_base + x_at) - mean) * inv;
                    let gradient = dy.get(dy_base + dy_at) - mean_dy - normal * mean_product;
                    dx.set(dx_base + dx_at, factor * gradient);
                    if !at.advance() {
                        break;
                    }
                }
                self.dscale.set(tensors, channel, R::from_f64(dscale));
                self.dbias.set(tensors, channel, R::from_f64(dbias));
            }
        }
    }
}
