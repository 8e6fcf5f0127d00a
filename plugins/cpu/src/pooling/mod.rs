//! Pooling and its gradient.

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from shapes that are checked when a node is planned; checks in the loops would hide nothing but cost time"
)]

pub(crate) mod backward;
pub(crate) mod channels_first;
pub(crate) mod channels_last;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

use crate::dtype::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::pooling::backward::Backward;
use crate::pooling::channels_first::ChannelsFirst;
use crate::pooling::channels_last::ChannelsLast;
use crate::pooling::shape::{Index, PoolPlan, Shape};
use crate::problem::resample::Resample;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::image::{Image, two};
use crate::tensor::parts::InParts;
use crate::threading::partition::Threads;

/// The most spatial dimensions.
pub(crate) const SPATIAL: usize = 2;

/// Plans a pooling or its gradient for an instruction set.
pub(crate) fn plan(
    problem: &Resample,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    match compute {
        Compute::Single => plan_in::<f32>(problem, isa, threads, 1 << 24),
        Compute::Double => plan_in::<f64>(problem, isa, threads, 1 << 31),
    }
}

/// `most` is the largest plane whose indices are exact in the compute type.
fn plan_in<T: Float>(
    problem: &Resample,
    isa: Isa,
    threads: Threads,
    most: usize,
) -> Result<Box<dyn Kernel>, Refusal> {
    if problem.spatial > SPATIAL {
        return Err(format!("{} spatial dimensions, expected at most {SPATIAL}", problem.spatial));
    }
    let shape = Shape::of(problem);
    let plane = shape.input[0].saturating_mul(shape.input[1]);
    if plane > most {
        return Err(format!("a plane has {plane} elements, expected at most {most}"));
    }
    let (x, y) = (Image::<T>::of(&problem.x, problem.spatial)?, Image::<T>::of(&problem.y, problem.spatial)?);
    let index = problem.index.map(|index| {
        let strides = index.layout.strides();
        let [rows, columns] = two(problem.spatial, 0, &strides[2..]);
        Index { slot: index.slot, strides: [strides[0], strides[1], rows, columns] }
    });
    let pool = PoolPlan { shape, isa, x, y, index };
    Ok(if problem.backward {
        InParts::boxed(Backward::plan(pool, threads))
    } else if pool.is_last() {
        InParts::boxed(ChannelsLast::plan(pool, threads))
    } else {
        InParts::boxed(ChannelsFirst::plan(pool, threads))
    })
}
