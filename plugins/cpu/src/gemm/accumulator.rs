//! The types of accumulators.

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::ComputeType;
use crate::simd::clip::Clip;
use crate::simd::vector::{Float, relu};

/// An accumulator type: a compute type, or 32-bit integers.
pub(crate) trait Accumulator: Copy + Send + Sync + 'static {
    /// Its dtype.
    const TYPE: DataType;
    const ZERO: Self;
    /// The sum of both.
    fn plus(self, other: Self) -> Self;
    /// RELU.
    fn relu(self) -> Self;
    /// Clamped to two bounds.
    fn clamp(self, low: Self, high: Self) -> Self;
    /// The bounds of a clip in this type.
    fn bounds(clip: Clip<f32>) -> Clip<Self>;
}

impl<T: Float> Accumulator for T {
    const TYPE: DataType =
        if size_of::<T>() == size_of::<f64>() { DataType::Double } else { DataType::Float };
    const ZERO: Self = <T as ComputeType>::ZERO;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn relu(self) -> Self {
        relu(self)
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        let raised = if self < low { low } else { self };
        if raised > high { high } else { raised }
    }

    #[inline(always)]
    fn bounds(clip: Clip<f32>) -> Clip<Self> {
        clip.to()
    }
}

impl Accumulator for i32 {
    const TYPE: DataType = DataType::Int32;
    const ZERO: Self = 0;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        self.max(0)
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        self.max(low).min(high)
    }

    #[inline(always)]
    fn bounds(clip: Clip<f32>) -> Clip<Self> {
        match clip {
            Clip::Nothing => Clip::Nothing,
            Clip::Relu => Clip::Relu,
            Clip::Clamp(low, high) => Clip::Clamp(low as i32, high as i32),
        }
    }
}
