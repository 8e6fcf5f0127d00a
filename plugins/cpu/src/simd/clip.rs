//! RELU and clamps, which end most epilogues.
//!
//! Loops over registers use indices: iterators may be compiled without the processor's instructions.

#![expect(clippy::needless_range_loop, reason = "see above")]

use crate::simd::vector::{Float, Lanewise, Vector, relu};

/// The last operation of an epilogue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Clip<T> {
    #[default]
    Nothing,
    /// 0 if x ≤ 0, else x: a sum of -0 becomes 0.
    Relu,
    /// x clamped to two bounds, the lower one first. They are not NaN.
    Clamp(T, T),
}

impl Clip<f32> {
    /// The same for a compute type.
    pub(crate) fn to<T: Float>(self) -> Clip<T> {
        match self {
            Self::Nothing => Clip::Nothing,
            Self::Relu => Clip::Relu,
            Self::Clamp(low, high) => Clip::Clamp(T::from_single(low), T::from_single(high)),
        }
    }
}

impl<T: Float> Clip<T> {
    /// The result for one value; NaN stays NaN.
    #[inline(always)]
    pub(crate) fn of(self, value: T) -> T {
        match self {
            Self::Nothing => value,
            Self::Relu => relu(value),
            Self::Clamp(low, high) => {
                let raised = if value < low { low } else { value };
                if raised > high { high } else { raised }
            }
        }
    }

    /// Replaces each vector by its result.
    #[inline(always)]
    pub(crate) fn vectors<V: Vector<Scalar = T>, const N: usize>(self, values: &mut [V; N]) {
        match self {
            Self::Nothing => {}
            Self::Relu => {
                for i in 0..N {
                    values[i] = values[i].lanewise(Lanewise::Relu, values[i]);
                }
            }
            Self::Clamp(low, high) => {
                for i in 0..N {
                    values[i] = values[i].clamp(values[i].broadcast(low), values[i].broadcast(high));
                }
            }
        }
    }
}
