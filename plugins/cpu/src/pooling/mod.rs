//! Pooling and its gradient.

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod channels_first;
pub(crate) mod channels_last;
pub(crate) mod line;
pub(crate) mod maximum_gradient;
pub(crate) mod mean_gradient;
pub(crate) mod near;
pub(crate) mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod transposed;
pub(crate) mod windows;

use crate::dtype::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::pooling::channels_first::ChannelsFirst;
use crate::pooling::channels_last::ChannelsLast;
use crate::pooling::maximum_gradient::MaximumGradient;
use crate::pooling::mean_gradient::MeanGradient;
use crate::pooling::shape::{Index, PoolPlan, Shape, Volume};
use crate::pooling::transposed::Transposed;
use crate::problem::resample::Resample;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::parts::InParts;
use crate::threading::partition::Threads;

/// The most spatial dimensions.
pub(crate) const SPATIAL: usize = 3;

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
    if problem.has_other_index() {
        return Err("an index of another type than int32".to_owned());
    }
    let shape = Shape::of(problem);
    let plane = shape.input.iter().fold(1, |plane: usize, size| plane.saturating_mul(*size));
    if plane > most {
        return Err(format!("a plane has {plane} elements, expected at most {most}"));
    }
    let (x, y) =
        (Volume::<T>::of(&problem.x, problem.spatial)?, Volume::<T>::of(&problem.y, problem.spatial)?);
    let index = problem.index.map(|index| Index::of(&index, problem.spatial));
    let pool = PoolPlan { shape, isa, x, y, index };
    let types = [problem.x.data_type, problem.y.data_type];
    Ok(if problem.backward {
        match pool.index {
            Some(index) => InParts::boxed(MaximumGradient::plan(pool, index, threads)),
            None => InParts::boxed(MeanGradient::plan(pool, threads)),
        }
    } else if pool.is_last() || pool.is_convertible() {
        InParts::boxed(ChannelsLast::plan(pool, types, threads)?)
    } else if Transposed::applies(&pool) {
        InParts::boxed(Transposed::plan(pool, types, threads)?)
    } else {
        InParts::boxed(ChannelsFirst::plan(pool, threads))
    })
}
