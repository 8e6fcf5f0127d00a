//! Convolution and its gradients: which algorithm computes them, and the algorithms.
//!
//! [`plan`] chooses. All algorithms share the problem in [`operands`], the tiling of images in [`geometry`], and
//! the epilogues in [`epilogue`].

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod as_matmul;
pub(crate) mod backward_weights;
pub(crate) mod converted;
pub(crate) mod cost;
pub(crate) mod direct;
pub(crate) mod direct_small;
pub(crate) mod epilogue;
pub(crate) mod geometry;
pub(crate) mod im2col;
pub(crate) mod implicit_gemm;
pub(crate) mod operands;
pub(crate) mod planes;
pub(crate) mod prefetch;
pub(crate) mod strided_backward_data;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod winograd;

use std::any::TypeId;
use std::collections::HashMap;

use crate::conv::backward_weights::channels::BackwardWeightsByChannel;
use crate::conv::backward_weights::rows::BackwardWeights;
use crate::conv::converted::Converted;
use crate::conv::direct::problem::{Direct, Scheme};
use crate::conv::direct_small::kernel::DirectSmall;
use crate::conv::geometry::{Strides, Windows};
use crate::conv::im2col::problem::Im2col;
use crate::conv::implicit_gemm::kernel::ImplicitGemm;
use crate::conv::operands::{OperandView, Operands, SubProblem, Weights};
use crate::conv::strided_backward_data::StridedBackwardData;
use crate::conv::winograd::problem::Winograd;
use crate::dtype::element::Compute;
use crate::gemm::pairs::Pairs;
use crate::kernel::{Kernel, Refusal};
use crate::matmul;
use crate::pointwise::Epilogue;
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::row_converter::RowConverter;

/// Spatial dimensions that the kernels support.
pub(crate) const SPATIAL: usize = 3;

/// Taps of a filter above which the reference computes.
pub(crate) const MAX_TAPS: usize = 1 << 14;

/// Positions of a padded image, and channels, above which the reference computes. Below, products of sizes do not
/// overflow.
const MAX_POSITIONS: f64 = (1_u64 << 31) as f64;

/// Output channels from which on products of `bfloat16` are summed in pairs: half of a tile's rows.
#[cfg(target_arch = "x86_64")]
const LEAST_ROWS: usize = 16;

/// Images from which on blocks of whole images are enough for all threads.
const LEAST_IMAGES: usize = 16;

/// Plans a convolution for an instruction set; only the forward direction has an epilogue.
pub(crate) fn plan(
    convolution: &Convolution,
    compute: Compute,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    if convolution.direction != Direction::Forward {
        for operand in [&convolution.x, &convolution.w, &convolution.y] {
            RowConverter::<f64>::of(operand.data_type)?;
        }
    }
    let whole = as_matmul::product(convolution).filter(|_| settings.convolution == Algorithm::Automatic);
    if let Some(product) = whole {
        let epilogue = epilogue.map(|epilogue| Epilogue { output: &product.c, ..epilogue });
        return matmul::plan(&product, compute, isa, settings, epilogue);
    }
    if let Some(converted) = Converted::plan(convolution, compute, isa, settings, epilogue, plan)? {
        return Ok(Box::new(converted));
    }
    let c = convolution;
    let terms = c.in_channels as f64 * c.window[..c.spatial].iter().map(|side| *side as f64).product::<f64>();
    match matmul::exact([c.x.data_type, c.w.data_type], terms, compute) {
        Compute::Single => plan_in::<f32>(convolution, isa, settings, epilogue),
        Compute::Double => plan_in::<f64>(convolution, isa, settings, epilogue),
    }
}

fn plan_in<T: Float>(
    c: &Convolution,
    isa: Isa,
    settings: Settings,
    epilogue: Option<Epilogue>,
) -> Result<Box<dyn Kernel>, Refusal> {
    if c.spatial > SPATIAL {
        return Err(format!("convolution has {} spatial dimensions, expected at most {SPATIAL}", c.spatial));
    }
    let problem = Problem::of(c)?;
    if epilogue.is_some() && c.direction != Direction::Forward {
        return Err("a gradient is computed alone".to_owned());
    }
    let operands = match c.direction {
        Direction::Forward => problem.forward(),
        Direction::BackwardData => problem.backward_data()?,
        Direction::BackwardFilter => {
            let operands = problem.backward_filter();
            return Ok(if backward_weights::channels::suits::<T>(&operands, isa, settings) {
                Box::new(BackwardWeightsByChannel::<T>::plan(operands, isa, settings)?)
            } else {
                Box::new(BackwardWeights::<T>::plan(operands, isa, settings)?)
            });
        }
    };
    let spatial = c.spatial;
    let wanted = match settings.convolution {
        Algorithm::Winograd => Some(2),
        Algorithm::Winograd4 => Some(4),
        _ => None,
    };
    let settings = if let Some(outputs) = wanted {
        if let Some(winograd) = Winograd::<T>::plan(&operands, outputs, isa, settings, spatial, epilogue)? {
            return Ok(Box::new(winograd));
        }
        Settings { convolution: Algorithm::Automatic, ..settings }
    } else {
        settings
    };
    if settings.convolution == Algorithm::Im2col
        && let Some(tiled) = Im2col::<T>::plan(&operands, isa, settings, spatial, epilogue.as_ref())?
    {
        return Ok(Box::new(tiled));
    }
    let is_wanted = settings.convolution == Algorithm::Direct;
    let has_form = is_wanted || settings.convolution == Algorithm::Automatic;
    let products = ImplicitGemm::<T>::plan(operands.clone(), isa, settings, spatial, epilogue)?;
    if !has_form {
        return Ok(Box::new(products));
    }
    let pairs = Pairs::of(isa);
    let best = if is_wanted { f64::INFINITY } else { products.time };
    let is_single = TypeId::of::<T>() == TypeId::of::<f32>();
    #[cfg(target_arch = "x86_64")]
    {
        let bytes = if pairs.integers { Scheme::bytes(&operands, isa) } else { None };
        if let Some(scheme) = bytes
            && let Some(channels) = Direct::plan(operands.clone(), scheme?, isa, settings, spatial, epilogue)?
            && channels.time < best
        {
            return Ok(Box::new(channels));
        }
        // Another order of summation gives other results, so this choice must not depend on estimated times,
        // which depend on the number of threads.
        let has_rows = is_wanted || operands.rows >= LEAST_ROWS;
        let bfloat16 = if is_single && has_rows && pairs.bfloat16 {
            Scheme::bfloat16(&operands, isa, spatial, epilogue)
        } else {
            None
        };
        if let Some(scheme) = bfloat16
            && let Some(channels) = Direct::plan(operands.clone(), scheme?, isa, settings, spatial, epilogue)?
        {
            return Ok(Box::new(channels));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pairs;
    // It needs packed weights. Packing them for each execution would cost more than it saves.
    if !is_wanted && settings.constant_weights && im2col::choice::wastes::<T>(&operands, isa) {
        let scheme = Scheme::<T>::numbers(&operands, isa, spatial, epilogue)?;
        let places = Direct::<T>::plan(operands.clone(), scheme, isa, settings, spatial, epilogue)?;
        if let Some(places) = places.filter(Direct::are_two) {
            return Ok(Box::new(places));
        }
    }
    // Users of double precision want exact results. With strides, the transforms take too long compared with
    // full 512-bit multiplications.
    if !is_wanted
        && is_single
        && !(isa.has_whole_vectors() && operands.windows.stride[1] > 1)
        && let Some(outputs) = winograd::choice::fastest(&operands, isa, settings.constant_weights)
        && let Some(winograd) = Winograd::<T>::plan(&operands, outputs, isa, settings, spatial, epilogue)?
    {
        return Ok(Box::new(winograd));
    }
    if !is_wanted
        && im2col::choice::suits::<T>(&operands, isa)
        && let Some(tiled) = Im2col::<T>::plan(&operands, isa, settings, spatial, epilogue.as_ref())?
    {
        return Ok(Box::new(tiled));
    }
    let is_float = RowConverter::<T>::of(operands.input.data_type).is_ok();
    let is_small = is_float && (operands.parts.len() > 1 || operands.windows.batch >= LEAST_IMAGES);
    if is_small && direct_small::kernel::suits::<T>(&operands, isa, settings) {
        return Ok(Box::new(DirectSmall::<T>::plan(operands, isa, settings, spatial, epilogue, products)?));
    }
    let scheme = Scheme::<T>::numbers(&operands, isa, spatial, epilogue)?;
    Ok(match Direct::<T>::plan(operands, scheme, isa, settings, spatial, epilogue)? {
        Some(channels) if channels.time < best => Box::new(channels),
        _ => Box::new(products),
    })
}

/// The convolution with three spatial dimensions; leading ones are 1.
struct Problem<'a> {
    convolution: &'a Convolution,
    input: [usize; 3],
    output: [usize; 3],
    stride: [usize; 3],
    /// Position of each tap before the first output's first element, and its offset in the filter.
    taps: Vec<([isize; 3], usize)>,
}

/// The last dimensions of three; leading ones are `fill`.
fn three(spatial: usize, fill: usize, values: &[usize]) -> [usize; 3] {
    let mut three = [fill; 3];
    three[SPATIAL - spatial..].copy_from_slice(&values[..spatial]);
    three
}

impl<'a> Problem<'a> {
    fn of(c: &'a Convolution) -> Result<Self, Refusal> {
        let s = c.spatial;
        let window = three(s, 1, &c.window);
        let dilation = three(s, 1, &c.dilation);
        let padding = three(s, 0, &c.pre_padding);
        let strides = three(s, 0, &c.w.layout.strides()[2..]);
        let input = three(s, 1, &c.input);
        let output = three(s, 1, &c.output);
        let stride = three(s, 1, &c.stride);
        let positions: f64 = (0..3)
            .map(|i| {
                (input[i] as f64 + output[i] as f64 * stride[i] as f64)
                    + (window[i] as f64 * dilation[i] as f64 + padding[i] as f64)
            })
            .product();
        if positions > MAX_POSITIONS {
            return Err(format!("a padded image has {positions} positions, expected at most 2^31"));
        }
        let numbers = [c.batch, c.groups, c.in_channels, c.out_channels].map(|n| n as f64);
        if numbers.into_iter().product::<f64>() > MAX_POSITIONS {
            return Err(format!(
                "batch {}, groups {} and channels {} and {} multiply to more than 2^31",
                c.batch, c.groups, c.in_channels, c.out_channels
            ));
        }
        let count: usize = window.iter().product();
        if count > MAX_TAPS {
            return Err(format!("the window has {count} elements, expected at most {MAX_TAPS}"));
        }
        let mut taps = Vec::with_capacity(count);
        for d in 0..window[0] {
            for h in 0..window[1] {
                for w in 0..window[2] {
                    let at = [d, h, w];
                    let place = [0, 1, 2].map(|i| (at[i] * dilation[i]) as isize - padding[i] as isize);
                    let mirror = |i: usize| if c.mirrored { window[i] - 1 - at[i] } else { at[i] };
                    taps.push((place, (0..3).map(|i| mirror(i) * strides[i]).sum()));
                }
            }
        }
        Ok(Self { convolution: c, input, output, stride, taps })
    }

    fn place(&self, operand: &Operand) -> OperandView {
        let strides = operand.layout.strides();
        OperandView {
            slot: operand.slot,
            data_type: operand.data_type,
            strides: Strides {
                batch: strides[0],
                channel: strides[1],
                spatial: three(self.convolution.spatial, 0, &strides[2..]),
            },
        }
    }

    /// The sliding windows over x, and the offsets of the taps in the filter.
    fn windows(&self) -> (Windows, Vec<usize>) {
        let windows = Windows {
            batch: self.convolution.batch,
            output: self.output,
            input: self.input,
            stride: self.stride,
            taps: self.taps.iter().map(|(place, _)| *place).collect(),
        };
        (windows, self.taps.iter().map(|(_, distance)| *distance).collect())
    }

    /// The weights, with a row for each output channel.
    fn weights(&self) -> Weights {
        let c = self.convolution;
        let strides = c.w.layout.strides();
        Weights {
            slot: c.w.slot,
            data_type: c.w.data_type,
            group: c.out_channels * strides[0],
            row: strides[0],
            channel: strides[1],
        }
    }

    fn forward(&self) -> Operands {
        let c = self.convolution;
        let (windows, taps) = self.windows();
        let part = SubProblem { taps: taps.into_iter().enumerate().collect(), first: 0, size: self.output };
        Operands {
            windows,
            parts: vec![part],
            groups: c.groups,
            channels: c.in_channels,
            rows: c.out_channels,
            input: self.place(&c.x),
            weights: self.weights(),
            output: self.place(&c.y),
            between: None,
        }
    }

    fn backward_filter(&self) -> backward_weights::rows::Operands {
        let c = self.convolution;
        let (windows, taps) = self.windows();
        backward_weights::rows::Operands {
            windows,
            groups: c.groups,
            channels: c.in_channels,
            rows: c.out_channels,
            input: self.place(&c.x),
            gradient: self.place(&c.y),
            weights: self.weights(),
            taps,
        }
    }

    /// Backward data: one sub-problem for each remainder of x's indices modulo the stride. Element `remainder +
    /// i * stride` of dx meets tap `t` of dy at `i + (remainder - position of t) / stride` where that is an
    /// integer.
    fn backward_data(&self) -> Result<Operands, Refusal> {
        let c = self.convolution;
        let remainders = [0, 1, 2].map(|i| self.stride[i].min(self.input[i]));
        let count = remainders.iter().product::<usize>();
        if count > MAX_TAPS {
            return Err(format!(
                "strides {:?}, expected at most {MAX_TAPS} remainders",
                &c.stride[..c.spatial]
            ));
        }
        let mut output = self.place(&c.x);
        let mut parts = Vec::with_capacity(count);
        for number in 0..count {
            let remainder = [
                number / (remainders[1] * remainders[2]),
                number / remainders[2] % remainders[1],
                number % remainders[2],
            ];
            parts.push(SubProblem {
                taps: Vec::new(),
                first: (0..3).map(|i| remainder[i] * output.strides.spatial[i]).sum(),
                size: [0, 1, 2].map(|i| (self.input[i] - remainder[i]).div_ceil(self.stride[i])),
            });
        }
        let stride = self.stride.map(|s| s as isize);
        let mut known = HashMap::new();
        let mut taps = Vec::new();
        for (place, distance) in &self.taps {
            let remainder = [0, 1, 2].map(|i| place[i].rem_euclid(stride[i]) as usize);
            if (0..3).any(|i| remainder[i] >= remainders[i]) {
                continue;
            }
            let tap = [0, 1, 2].map(|i| (remainder[i] as isize - place[i]) / stride[i]);
            let number = *known.entry(tap).or_insert_with(|| {
                taps.push(tap);
                taps.len() - 1
            });
            let part = (remainder[0] * remainders[1] + remainder[1]) * remainders[2] + remainder[2];
            parts[part].taps.push((number, *distance));
        }
        // If only the first sub-problem has taps, all other elements are zero.
        let alone = parts.len() > 1 && parts.iter().skip(1).all(|part| part.taps.is_empty());
        let has_rows = output.strides.spatial[2] == 1 && remainders[0] == 1;
        let between = (alone && has_rows && !parts[0].taps.is_empty()).then(|| {
            parts.truncate(1);
            StridedBackwardData {
                stride: [self.stride[1], self.stride[2]],
                size: [self.input[1], self.input[2]],
            }
        });
        for i in 0..3 {
            output.strides.spatial[i] *= self.stride[i];
        }
        let weights = self.weights();
        Ok(Operands {
            windows: Windows {
                batch: c.batch,
                output: [0, 1, 2].map(|i| self.input[i].div_ceil(self.stride[i])),
                input: self.output,
                stride: [1; 3],
                taps,
            },
            parts,
            groups: c.groups,
            channels: c.out_channels,
            rows: c.in_channels,
            input: self.place(&c.y),
            weights: Weights { row: weights.channel, channel: weights.row, ..weights },
            output,
            between,
        })
    }
}
