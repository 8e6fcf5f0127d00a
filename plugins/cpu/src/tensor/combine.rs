//! The ways to combine the elements of a reduction.

use hipdnn_plugin_sdk::graph::ReductionMode;

use crate::dtype::element::ComputeType;
use crate::simd::array;
use crate::simd::row::left;
use crate::simd::vector::{Float, Lanewise, Vector};

/// One way to combine; `total` is the result for the elements so far.
pub(crate) trait Combine {
    /// Whether totals of elements in single precision may exceed it, so that reductions have them in double precision.
    const IS_WIDE: bool = false;

    /// The result for no elements.
    fn start<T: Float>() -> T;

    /// The total with one more element.
    fn value<T: Float>(total: T, element: T) -> T;

    /// The combination of two totals.
    fn merge<T: Float>(one: T, other: T) -> T;

    /// [`Combine::value`] in each lane.
    fn vector<V: Vector>(total: V, elements: V) -> V;

    /// [`Combine::merge`] in each lane.
    fn merge_vector<V: Vector>(one: V, other: V) -> V;
}

macro_rules! combine {
    ($name:ident, $what:literal, $start:expr, |$x:ident: $t:ident| $value:expr, |$v:ident| $vector:expr, |$a:ident, $b:ident| $merge:expr, $by:ident $(, $is_wide:ident)?) => {
        #[doc = $what]
        pub(crate) struct $name;

        impl Combine for $name {
            $( const $is_wide: bool = true; )?

            #[inline(always)]
            fn start<$t: Float>() -> $t {
                $start
            }
            #[inline(always)]
            fn value<$t: Float>(total: $t, $x: $t) -> $t {
                Self::merge(total, $value)
            }
            #[inline(always)]
            fn merge<T: Float>($a: T, $b: T) -> T {
                $merge
            }
            #[inline(always)]
            fn vector<V: Vector>(total: V, $v: V) -> V {
                total.lanewise(Lanewise::$by, $vector)
            }
            #[inline(always)]
            fn merge_vector<V: Vector>(one: V, other: V) -> V {
                one.lanewise(Lanewise::$by, other)
            }
        }
    };
}

combine!(Sum, "Σ x.", T::ZERO, |x: T| x, |v| v, |a, b| a + b, Add);

combine!(Magnitudes, "Σ |x|.", T::ZERO, |x: T| x.abs(), |v| v.lanewise(Lanewise::Abs, v), |a, b| a + b, Add);

combine!(
    Squares,
    "Σ x².",
    T::ZERO,
    |x: T| x * x,
    |v| v.lanewise(Lanewise::Mul, v),
    |a, b| a + b,
    Add,
    IS_WIDE
);

combine!(Product, "Π x.", T::ONE, |x: T| x, |v| v, |a, b| a * b, Mul, IS_WIDE);

combine!(
    ProductOfOthers,
    "Π x over all x that are not 0.",
    T::ONE,
    |x: T| if x == T::ZERO { T::ONE } else { x },
    |v| without_zeros(v),
    |a, b| a * b,
    Mul,
    IS_WIDE
);

combine!(
    Largest,
    "The largest x, NaN if there is one.",
    -T::ONE / T::ZERO,
    |x: T| x,
    |v| v,
    |a, b| larger(a, b),
    Max
);

combine!(
    LargestNumber,
    "The largest x, if none is NaN.",
    -T::ONE / T::ZERO,
    |x: T| x,
    |v| v,
    |a, b| larger(a, b),
    NotBelow
);

combine!(
    Smallest,
    "The smallest x, NaN if there is one.",
    T::ONE / T::ZERO,
    |x: T| x,
    |v| v,
    |a, b| smaller(a, b),
    Min
);

combine!(
    LargestMagnitude,
    "The largest |x|, NaN if there is one.",
    T::ZERO,
    |x: T| x.abs(),
    |v| v.lanewise(Lanewise::Abs, v),
    |a, b| larger(a, b),
    Max
);

#[inline(always)]
#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn larger<T: Float>(x: T, y: T) -> T {
    if (x >= y) | (x != x) { x } else { y }
}

#[inline(always)]
#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn smaller<T: Float>(x: T, y: T) -> T {
    if (x <= y) | (x != x) { x } else { y }
}

/// Each 0 replaced by 1.
#[inline(always)]
fn without_zeros<V: Vector>(v: V) -> V {
    v.with_values(&array::map(
        v.values(),
        |value| if value == V::Scalar::ZERO { V::Scalar::ONE } else { value },
    ))
}

/// Combines `len` elements.
///
/// # Safety
/// The processor has the vector's instructions, and the elements are readable.
#[inline(always)]
pub(crate) unsafe fn fold_row<V: Vector, J: Combine>(x: *const V::Scalar, len: usize) -> V::Scalar {
    let mut total = J::start::<V::Scalar>();
    let mut at = 0;
    if len >= V::LANES {
        // Independent accumulators, so that additions overlap.
        // SAFETY: this function requires the instructions.
        let mut totals = unsafe { [V::splat(total); 4] };
        while at + 4 * V::LANES <= len {
            for (i, total) in totals.iter_mut().enumerate() {
                // SAFETY: the four vectors end at most at `len`, up to which this function requires the elements.
                *total = J::vector(*total, unsafe { V::load(x.add(at + i * V::LANES)) });
            }
            at += 4 * V::LANES;
        }
        while at + V::LANES <= len {
            // SAFETY: the vector ends at most at `len`.
            totals[0] = J::vector(totals[0], unsafe { V::load(x.add(at)) });
            at += V::LANES;
        }
        let [a, b, c, d] = totals;
        total = fold_lanes::<V, J>(J::merge_vector(J::merge_vector(a, b), J::merge_vector(c, d)));
    }
    for i in 0..left::<V>(at, len) {
        // SAFETY: the element is below `len`.
        total = J::value(total, unsafe { x.add(at + i).read_unaligned() });
    }
    total
}

/// Combines the lanes of a vector.
#[inline(always)]
pub(crate) fn fold_lanes<V: Vector, J: Combine>(mut all: V) -> V::Scalar {
    let mut distance = V::LANES / 2;
    while distance > 0 {
        all = J::merge_vector(all, all.swapped(distance));
        distance /= 2;
    }
    let [first, ..] = all.values();
    first
}

/// Combines a row of elements with the totals of their columns.
///
/// # Safety
/// As [`fold_row`], and the totals are writable.
#[inline(always)]
pub(crate) unsafe fn fold_columns<V: Vector, J: Combine>(
    x: *const V::Scalar,
    totals: *mut V::Scalar,
    len: usize,
) {
    // SAFETY: indices stay below `len`, up to which this function requires all values; it requires the instructions, too.
    unsafe {
        let mut at = 0;
        while at + V::LANES <= len {
            J::vector(V::load(totals.add(at)), V::load(x.add(at))).store(totals.add(at));
            at += V::LANES;
        }
        while at < len {
            let total = totals.add(at);
            total.write(J::value(total.read(), x.add(at).read_unaligned()));
            at += 1;
        }
    }
}

/// The result of a reduction, given the total of `count` elements.
pub(crate) fn finalized<T: Float>(mode: ReductionMode, total: T, count: usize) -> T {
    match mode {
        ReductionMode::Avg => total / T::from_f64(count as f64),
        ReductionMode::Norm2 => total.sqrt(),
        _ => total,
    }
}

/// Calls a generic function with the [`Combine`] of a reduction mode as its first type argument.
macro_rules! with_combine {
    ($mode:expr, $j:ident => $call:expr) => {{
        use hipdnn_plugin_sdk::graph::ReductionMode as Mode;

        use $crate::tensor::combine as kinds;
        $crate::simd::stored::with_type!($mode, $j => $call, {
            Mode::NotSet | Mode::Add | Mode::Avg => kinds::Sum,
            Mode::Norm1 => kinds::Magnitudes,
            Mode::Norm2 => kinds::Squares,
            Mode::Mul => kinds::Product,
            Mode::MulNoZeros => kinds::ProductOfOthers,
            Mode::Max => kinds::Largest,
            Mode::Min => kinds::Smallest,
            Mode::Amax => kinds::LargestMagnitude,
        })
    }};
}
pub(crate) use with_combine;
