//! Layer normalization, normalization by the root of the mean square, and their gradients, row by row.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of x, at most MAX_RANK")]

use crate::dtype::element::Real;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{Layout, MAX_RANK, Walk};
use crate::problem::normalization as problem;
use crate::problem::normalization::{Normalization, Spread, Statistics};
use crate::reference::memory::{Memory, Single, View, float_element};

pub(crate) fn plan<R: Real>(problem: Normalization) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match problem {
        Normalization::Forward(forward) => Box::new(Forward::<R>::new(&forward)?),
        Normalization::Backward(backward) => Box::new(Backward::<R>::new(&backward)?),
    })
}

/// A tensor spread over x.
struct Part<R> {
    memory: Memory<R>,
    strides: [usize; MAX_RANK],
}

impl<R: Real> Part<R> {
    fn of(argument: &str, part: &Spread) -> Result<Self, Refusal> {
        let element = float_element(argument, part.data_type)?;
        Ok(Self { memory: Memory { slot: part.slot, element }, strides: part.strides })
    }

    fn optional(argument: &str, part: Option<&Spread>) -> Result<Option<Self>, Refusal> {
        part.map(|part| Self::of(argument, part)).transpose()
    }
}

/// Strides of a part that may be absent.
fn strides<R>(part: Option<&Part<R>>) -> &[usize] {
    part.map_or(&[0; MAX_RANK], |part| &part.strides)
}

/// Mean and inverse of the row that begins at `base`.
///
/// # Safety
/// `x` is the view of a tensor with the layout, `base` the offset of one of its rows.
unsafe fn statistics<R: Real>(
    layout: &Layout,
    leading: usize,
    centered: bool,
    epsilon: f64,
    x: &View<R>,
    base: usize,
) -> (f64, f64) {
    let dims = &layout.dims()[leading..];
    let count = dims.iter().product::<usize>() as f64;
    let sum = |term: &dyn Fn(f64) -> f64| {
        let mut total = 0.0;
        let mut at = Walk::new(dims, [&layout.strides()[leading..]]);
        loop {
            // SAFETY: the walk is over the elements of the row.
            total += term(unsafe { x.get(base + at.offsets[0]) }.to_f64());
            if !at.advance() {
                break total;
            }
        }
    };
    let mean = if centered { sum(&|x| x) / count } else { 0.0 };
    let spread = sum(&|x| (x - mean) * (x - mean)) / count;
    (mean, 1.0 / (spread + epsilon).sqrt())
}

struct Forward<R> {
    x_layout: Layout,
    y_layout: Layout,
    leading: usize,
    centered: bool,
    x: Memory<R>,
    y: Memory<R>,
    scale: Part<R>,
    bias: Option<Part<R>>,
    epsilon: Single<R>,
    mean: Option<Part<R>>,
    inverse: Option<Part<R>>,
}

impl<R: Real> Forward<R> {
    fn new(p: &problem::Forward) -> Result<Self, Refusal> {
        let inverse = if p.centered { "inv_variance" } else { "inv_rms" };
        Ok(Self {
            x_layout: p.x.layout,
            y_layout: p.y.layout,
            leading: p.leading,
            centered: p.centered,
            x: Memory::of("x", &p.x)?,
            y: Memory::of("y", &p.y)?,
            scale: Part::of("scale", &p.scale)?,
            bias: Part::optional("bias", p.bias.as_ref())?,
            epsilon: Single::of("epsilon", &p.epsilon)?,
            mean: Part::optional("mean", p.mean.as_ref())?,
            inverse: Part::optional(inverse, p.inverse.as_ref())?,
        })
    }
}

impl<R: Real> Kernel for Forward<R> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let (dims, leading) = (self.x_layout.dims(), self.leading);
        let (xs, ys) = (self.x_layout.strides(), self.y_layout.strides());
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; the walks stay
        // below the dims of x, over which all parts are spread.
        unsafe {
            let (x, y) = (self.x.bind(tensors), self.y.bind(tensors));
            let scale = self.scale.memory.bind(tensors);
            let bias = self.bias.as_ref().map(|bias| bias.memory.bind(tensors));
            let epsilon = self.epsilon.get(tensors).to_f64();
            let (mean_strides, inverse_strides) =
                (strides(self.mean.as_ref()), strides(self.inverse.as_ref()));
            let mut row = Walk::new(&dims[..leading], [xs, ys, mean_strides, inverse_strides]);
            loop {
                let [x_base, y_base, mean_at, inverse_at] = row.offsets;
                let (mean, inverse) = statistics(&self.x_layout, leading, self.centered, epsilon, &x, x_base);
                let (mean, inverse) = (R::from_f64(mean), R::from_f64(inverse));
                if let Some(part) = &self.mean {
                    part.memory.bind(tensors).set(mean_at, mean);
                }
                if let Some(part) = &self.inverse {
                    part.memory.bind(tensors).set(inverse_at, inverse);
                }
                let mut at = Walk::new(
                    &dims[leading..],
                    [
                        &xs[leading..],
                        &ys[leading..],
                        &self.scale.strides[leading..],
                        &strides(self.bias.as_ref())[leading..],
                    ],
                );
                loop {
                    let [x_at, y_at, scale_at, bias_at] = at.offsets;
                    let scaled = scale.get(scale_at) * (x.get(x_base + x_at) - mean) * inverse;
                    let value = match &bias {
                        Some(bias) => scaled + bias.get(bias_at),
                        None => scaled,
                    };
                    y.set(y_base + y_at, value);
                    if !at.advance() {
                        break;
                    }
                }
                if !row.advance() {
                    break;
                }
            }
        }
    }
}

/// Where the statistics come from.
enum Source<R> {
    Saved { mean: Option<Part<R>>, inverse: Part<R> },
    Computed(Single<R>),
}

/// The statistics of all rows stand in scratch, mean and inverse as two doubles for each.
struct Backward<R> {
    x_layout: Layout,
    dy_layout: Layout,
    dx_layout: Layout,
    leading: usize,
    centered: bool,
    x: Memory<R>,
    dy: Memory<R>,
    dx: Memory<R>,
    scale: Part<R>,
    dscale: Part<R>,
    dbias: Option<Part<R>>,
    source: Source<R>,
}

impl<R: Real> Backward<R> {
    fn new(p: &problem::Backward) -> Result<Self, Refusal> {
        let inverse_name = if p.centered { "inv_variance" } else { "inv_rms" };
        let source = match &p.statistics {
            Statistics::Saved { mean, inverse } => Source::Saved {
                mean: Part::optional("mean", mean.as_ref())?,
                inverse: Part::of(inverse_name, inverse)?,
            },
            Statistics::Computed(epsilon) => Source::Computed(Single::of("epsilon", epsilon)?),
        };
        Ok(Self {
            x_layout: p.x.layout,
            dy_layout: p.dy.layout,
            dx_layout: p.dx.layout,
            leading: p.leading,
            centered: p.centered,
            x: Memory::of("x", &p.x)?,
            dy: Memory::of("dy", &p.dy)?,
            dx: Memory::of("dx", &p.dx)?,
            scale: Part::of("scale", &p.scale)?,
            dscale: Part::of("dscale", &p.dscale)?,
            dbias: Part::optional("dbias", p.dbias.as_ref())?,
            source,
        })
    }

    /// Writes dx, and the statistics of each row to `rows`.
    ///
    /// # Safety
    /// The kernel contract; `rows` has room for every row.
    unsafe fn input_gradient(&self, tensors: &[*mut u8], rows: *mut [f64; 2]) {
        let (dims, leading) = (self.x_layout.dims(), self.leading);
        let count = dims[leading..].iter().product::<usize>() as f64;
        let (xs, dys, dxs) = (self.x_layout.strides(), self.dy_layout.strides(), self.dx_layout.strides());
        let (mean_strides, inverse_strides) = match &self.source {
            Source::Saved { mean, inverse } => (strides(mean.as_ref()), &inverse.strides[..]),
            Source::Computed(_) => (strides::<R>(None), strides::<R>(None)),
        };
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract; the walks stay
        // below the dims of x, over which all parts are spread.
        unsafe {
            let (x, dy, dx) = (self.x.bind(tensors), self.dy.bind(tensors), self.dx.bind(tensors));
            let scale = self.scale.memory.bind(tensors);
            let mut row = Walk::new(&dims[..leading], [xs, dys, dxs, mean_strides, inverse_strides]);
            let mut place = 0;
            loop {
                let [x_base, dy_base, dx_base, mean_at, inverse_at] = row.offsets;
                let (mean, inverse) = match &self.source {
                    Source::Saved { mean, inverse } => (
                        mean.as_ref().map_or(0.0, |mean| mean.memory.bind(tensors).get(mean_at).to_f64()),
                        inverse.memory.bind(tensors).get(inverse_at).to_f64(),
                    ),
                    Source::Computed(epsilon) => {
                        let epsilon = epsilon.get(tensors).to_f64();
                        statistics(&self.x_layout, leading, self.centered, epsilon, &x, x_base)
                    }
                };
                rows.add(place).write([mean, inverse]);
                place += 1;
                let walk = || {
                    Walk::new(
                        &dims[leading..],
                        [&xs[leading..], &dys[leading..], &dxs[leading..], &self.scale.strides[leading..]],
                    )
                };
                let terms = |[x_at, dy_at, _, scale_at]: [usize; 4]| {
                    let hat = (x.get(x_base + x_at).to_f64() - mean) * inverse;
                    (hat, dy.get(dy_base + dy_at).to_f64() * scale.get(scale_at).to_f64())
                };
                let (mut sum, mut sum_hat) = (0.0, 0.0);
                let mut at = walk();
                loop {
                    let (hat, g) = terms(at.offsets);
                    sum += g;
                    sum_hat += g * hat;
                    if !at.advance() {
                        break;
                    }
                }
                let of_mean = if self.centered { sum / count } else { 0.0 };
                let mut at = walk();
                loop {
                    let (hat, g) = terms(at.offsets);
                    let value = inverse * (g - of_mean - hat * sum_hat / count);
                    dx.set(dx_base + at.offsets[2], R::from_f64(value));
                    if !at.advance() {
                        break;
                    }
                }
                if !row.advance() {
                    break;
                }
            }
        }
    }

    /// Writes dscale and dbias from the statistics of each row.
    ///
    /// # Safety
    /// The kernel contract; `rows` has the statistics of every row.
    unsafe fn parameter_gradients(&self, tensors: &[*mut u8], rows: *const [f64; 2]) {
        let (dims, leading) = (self.x_layout.dims(), self.leading);
        let (xs, dys) = (self.x_layout.strides(), self.dy_layout.strides());
        let dbias_strides = strides(self.dbias.as_ref());
        // SAFETY: as in `input_gradient`.
        unsafe {
            let (x, dy) = (self.x.bind(tensors), self.dy.bind(tensors));
            let mut at = Walk::new(
                &dims[leading..],
                [&xs[leading..], &dys[leading..], &self.dscale.strides[leading..], &dbias_strides[leading..]],
            );
            loop {
                let [x_at, dy_at, dscale_at, dbias_at] = at.offsets;
                let (mut dscale, mut dbias) = (0.0, 0.0);
                let mut row = Walk::new(&dims[..leading], [xs, dys]);
                let mut place = 0;
                loop {
                    let [mean, inverse] = *rows.add(place);
                    place += 1;
                    let dy = dy.get(row.offsets[1] + dy_at).to_f64();
                    dscale += dy * (x.get(row.offsets[0] + x_at).to_f64() - mean) * inverse;
                    dbias += dy;
                    if !row.advance() {
                        break;
                    }
                }
                self.dscale.memory.bind(tensors).set(dscale_at, R::from_f64(dscale));
                if let Some(part) = &self.dbias {
                    part.memory.bind(tensors).set(dbias_at, R::from_f64(dbias));
                }
                if !at.advance() {
                    break;
                }
            }
        }
    }
}

impl<R: Real> Kernel for Backward<R> {
    fn scratch_size(&self) -> usize {
        let rows = self.x_layout.dims()[..self.leading].iter().product::<usize>();
        rows.saturating_mul(size_of::<[f64; 2]>())
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        // SAFETY: the tensors and the scratch memory are those of the kernel's contract: scratch is aligned
        // and has room for every row.
        unsafe {
            self.input_gradient(tensors, scratch.cast());
            self.parameter_gradients(tensors, scratch.cast());
        }
    }
}
