//! Makes the operands of a convolution's algorithms: three spatial dimensions, and a list of taps.

use std::collections::HashMap;

use crate::conv::backward_weights;
use crate::conv::geometry::{Strides, Windows};
use crate::conv::operands::{OperandView, Operands, SubProblem, Weights};
use crate::conv::strided_backward_data::StridedBackwardData;
use crate::kernel::Refusal;
use crate::problem::Operand;
use crate::problem::convolution::Convolution;
use crate::simd::array::Each;

/// The most spatial dimensions that the kernels support.
const SPATIAL: usize = 3;

/// The most taps of a filter; beyond, the reference computes.
const MAX_TAPS: usize = 1 << 14;

/// The most positions of a padded image, and channels, so that products of sizes do not overflow. Beyond, the
/// reference computes.
const MAX_POSITIONS: f64 = (1_u64 << 31) as f64;

/// The convolution with three spatial dimensions; leading ones are 1.
pub(crate) struct Spatial<'a> {
    convolution: &'a Convolution,
    input: [usize; 3],
    output: [usize; 3],
    stride: [usize; 3],
    /// Position of each tap before the first output's first element, and its offset in the filter.
    taps: Vec<([isize; 3], usize)>,
}

/// These values as the last of three dimensions, the leading ones `fill`.
pub(crate) fn three(spatial: usize, fill: usize, values: &[usize]) -> [usize; 3] {
    let mut three = [fill; 3];
    three[SPATIAL - spatial..].copy_from_slice(&values[..spatial]);
    three
}

impl<'a> Spatial<'a> {
    pub(crate) fn of(c: &'a Convolution) -> Result<Self, Refusal> {
        let s = c.spatial;
        if s > SPATIAL {
            return Err(format!("convolution has {s} spatial dimensions, expected at most {SPATIAL}"));
        }
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
        let sizes = [c.batch, c.groups, c.in_channels, c.out_channels].each(|n| n as f64);
        if sizes.into_iter().product::<f64>() > MAX_POSITIONS {
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
                    let position = [0, 1, 2].each(|i| (at[i] * dilation[i]) as isize - padding[i] as isize);
                    let mirror = |i: usize| if c.mirrored { window[i] - 1 - at[i] } else { at[i] };
                    taps.push((position, (0..3).map(|i| mirror(i) * strides[i]).sum()));
                }
            }
        }
        Ok(Self { convolution: c, input, output, stride, taps })
    }

    fn view(&self, operand: &Operand) -> OperandView {
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
            taps: self.taps.iter().map(|(position, _)| *position).collect(),
        };
        (windows, self.taps.iter().map(|(_, offset)| *offset).collect())
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

    pub(crate) fn forward(&self) -> Operands {
        let c = self.convolution;
        let (windows, taps) = self.windows();
        let part = SubProblem { taps: taps.into_iter().enumerate().collect(), first: 0, size: self.output };
        Operands {
            windows,
            parts: vec![part],
            groups: c.groups,
            channels: c.in_channels,
            rows: c.out_channels,
            input: self.view(&c.x),
            weights: self.weights(),
            output: self.view(&c.y),
            between: None,
        }
    }

    pub(crate) fn backward_weights(&self) -> backward_weights::rows::Operands {
        let c = self.convolution;
        let (windows, taps) = self.windows();
        backward_weights::rows::Operands {
            windows,
            groups: c.groups,
            channels: c.in_channels,
            rows: c.out_channels,
            input: self.view(&c.x),
            gradient: self.view(&c.y),
            weights: self.weights(),
            taps,
        }
    }

    /// Backward data: one sub-problem per remainder of x's indices modulo the stride. Element
    /// `remainder + i * stride` of dx meets tap `t` of dy at `i + (remainder - position of t) / stride` where
    /// that is an integer.
    pub(crate) fn backward_data(&self) -> Result<Operands, Refusal> {
        let c = self.convolution;
        let remainders = [0, 1, 2].each(|i| self.stride[i].min(self.input[i]));
        let count = remainders.iter().product::<usize>();
        if count > MAX_TAPS {
            return Err(format!(
                "strides {:?}, expected at most {MAX_TAPS} remainders",
                &c.stride[..c.spatial]
            ));
        }
        let mut output = self.view(&c.x);
        let mut parts = Vec::with_capacity(count);
        for index in 0..count {
            let remainder = [
                index / (remainders[1] * remainders[2]),
                index / remainders[2] % remainders[1],
                index % remainders[2],
            ];
            parts.push(SubProblem {
                taps: Vec::new(),
                first: (0..3).map(|i| remainder[i] * output.strides.spatial[i]).sum(),
                size: [0, 1, 2].each(|i| (self.input[i] - remainder[i]).div_ceil(self.stride[i])),
            });
        }
        let stride = self.stride.map(|s| s as isize);
        let mut known = HashMap::new();
        let mut taps = Vec::new();
        for (position, offset) in &self.taps {
            let remainder = [0, 1, 2].each(|i| position[i].rem_euclid(stride[i]) as usize);
            if (0..3).any(|i| remainder[i] >= remainders[i]) {
                continue;
            }
            let tap = [0, 1, 2].each(|i| (remainder[i] as isize - position[i]) / stride[i]);
            let index = *known.entry(tap).or_insert_with(|| {
                taps.push(tap);
                taps.len() - 1
            });
            let part = (remainder[0] * remainders[1] + remainder[1]) * remainders[2] + remainder[2];
            parts[part].taps.push((index, *offset));
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
                output: [0, 1, 2].each(|i| self.input[i].div_ceil(self.stride[i])),
                input: self.output,
                stride: [1; 3],
                taps,
            },
            parts,
            groups: c.groups,
            channels: c.out_channels,
            rows: c.in_channels,
            input: self.view(&c.y),
            weights: Weights { row: weights.channel, channel: weights.row, ..weights },
            output,
            between,
        })
    }
}
