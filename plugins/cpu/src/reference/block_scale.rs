//! Block scale quantization and its inverse, in double precision, so that a result is rounded once.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of x, at most MAX_RANK")]

use crate::block_scale::types::{ScaleType, check_finite, is_whole, largest_of, scale_type};
use crate::kernel::{Kernel, Refusal};
use crate::layout::{MAX_RANK, Walk};
use crate::problem::block_scale as problem;
use crate::problem::block_scale::BlockScale;
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers};

pub(crate) fn plan(problem: BlockScale) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match problem {
        BlockScale::Quantize(problem) => Box::new(Quantize {
            x: Memory::of("x", &problem.x)?,
            y: Memory::of_any("y", &problem.y)?,
            largest: largest_of(problem.y.data_type)?,
            whole: is_whole(problem.y.data_type),
            scale: Memory::of_any("scale", &problem.scale)?,
            scale_type: scale_type(problem.scale.data_type)?,
            problem: *problem,
        }),
        BlockScale::Dequantize(problem) => Box::new(Dequantize {
            x: Memory::of_any("x", &problem.x)?,
            scale: Memory::of_any("scale", &problem.scale)?,
            y: Memory::of("y", &problem.y)?,
            problem: *problem,
        }),
    })
}

struct Quantize {
    problem: problem::Quantize,
    x: Memory<f64>,
    y: Memory<f64>,
    /// The largest value of y's dtype.
    largest: f64,
    /// Whether y's dtype only has integers.
    whole: bool,
    scale: Memory<f64>,
    scale_type: ScaleType,
}

impl Quantize {
    /// The number of elements of the block at `index`.
    fn len(&self, index: &[usize; MAX_RANK]) -> usize {
        let p = &self.problem;
        let dim = p.x.layout.dims()[p.axis];
        p.block.min(dim - index[p.axis] * p.block)
    }

    /// The blocks, with the offsets of their first elements in x, y and scale.
    fn blocks(&self) -> Walk<3> {
        let p = &self.problem;
        let (mut dims, mut x_strides, mut y_strides) = ([1; MAX_RANK], [0; MAX_RANK], p.y_strides);
        let rank = p.x.layout.rank();
        dims[..rank].copy_from_slice(p.x.layout.dims());
        x_strides[..rank].copy_from_slice(p.x.layout.strides());
        dims[p.axis] = dims[p.axis].div_ceil(p.block);
        // With a single block this stride is unused, and may be arbitrary.
        x_strides[p.axis] = x_strides[p.axis].wrapping_mul(p.block);
        y_strides[p.axis] = y_strides[p.axis].wrapping_mul(p.block);
        Walk::new(&dims[..rank], [&x_strides, &y_strides, &p.scale_strides])
    }
}

impl Reference for Quantize {
    fn check_values(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        check_finite(&self.problem.x, &self.x, tensors)
    }

    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let p = &self.problem;
        let (x_step, y_step) = (p.x.layout.strides()[p.axis], p.y_strides[p.axis]);
        let (x, y, scales) = (self.x.bind(tensors), self.y.bind(tensors), self.scale.bind(tensors));
        for (index, [x_at, y_at, scale_at]) in self.blocks() {
            let len = self.len(&index);
            let amax = (0..len).map(|i| x.get(x_at + i * x_step).abs()).fold(0.0, f64::max);
            let scale = self.scale_type.round_up(amax / self.largest);
            scales.set(scale_at, scale);
            for i in 0..len {
                let value = if scale == 0.0 { 0.0 } else { x.get(x_at + i * x_step) / scale };
                let value = value.clamp(-self.largest, self.largest);
                // Stores of integers truncate.
                let value = if self.whole { value.round_ties_even() } else { value };
                y.set(y_at + i * y_step, value);
            }
        }
    }
}

struct Dequantize {
    problem: problem::Dequantize,
    x: Memory<f64>,
    scale: Memory<f64>,
    y: Memory<f64>,
}

impl Reference for Dequantize {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let p = &self.problem;
        let strides = p.scale.layout.strides();
        let (x, y, scales) = (self.x.bind(tensors), self.y.bind(tensors), self.scale.bind(tensors));
        for (index, [x_at, y_at]) in
            Walk::new(p.x.layout.dims(), [p.x.layout.strides(), p.y.layout.strides()])
        {
            let blocks = strides.iter().enumerate();
            let scale = scales.get(blocks.map(|(axis, stride)| index[axis] / p.block[axis] * stride).sum());
            let factor = if p.is_negative_scale { (-scale).exp2() } else { scale };
            y.set(y_at, x.get(x_at) * factor);
        }
    }
}
