//! Whether two strided tensors share a byte.

use smallvec::SmallVec;

use super::View;

/// The most search steps. Real layouts take a dozen; beyond the limit, tensors count as disjoint.
const MOST_STEPS: u32 = 10_000;
/// The most dimensions of both tensors together; with more, they count as disjoint.
const MOST_AXES: usize = 32;

/// Indices of a dimension, or of one dimension of each tensor with the same stride: `low` to `high` times `stride` bytes.
#[derive(Clone, Copy)]
struct Axis {
    stride: i128,
    low: i128,
    high: i128,
}

/// Whether an element of `one` and one of `other`, which begins `distance` bytes behind it, share a byte.
pub fn share(one: &View, other: &View, distance: i64) -> bool {
    let mut axes: SmallVec<[Axis; MOST_AXES]> = SmallVec::new();
    for (view, sign) in [(one, -1), (other, 1)] {
        for (dim, stride) in view.dims() {
            let stride = i128::from(stride) * view.size() * sign;
            let last = i128::from(dim) - 1;
            if last < 1 || stride == 0 {
                continue;
            }
            let (low, high) = if stride < 0 { (-last, 0) } else { (0, last) };
            match axes.iter_mut().find(|axis| axis.stride == stride.abs()) {
                Some(axis) => (axis.low, axis.high) = (axis.low + low, axis.high + high),
                None => axes.push(Axis { stride: stride.abs(), low, high }),
            }
        }
    }
    if axes.len() > MOST_AXES {
        return false;
    }
    axes.sort_unstable_by_key(|axis| std::cmp::Reverse(axis.stride));
    // The range of offset differences at which the bytes of two elements overlap.
    let distance = i128::from(distance);
    let (low, high) = (1 - other.size() - distance, one.size() - 1 - distance);
    reaches(&axes, low, high, &mut { MOST_STEPS })
}

/// Whether a sum of one multiple of each axis is in `low..=high`.
fn reaches(axes: &[Axis], low: i128, high: i128, steps: &mut u32) -> bool {
    let Some((first, rest)) = axes.split_first() else { return low <= 0 && 0 <= high };
    // The least and the most that the other axes add.
    let least: i128 = rest.iter().map(|axis| axis.stride * axis.low).sum();
    let most: i128 = rest.iter().map(|axis| axis.stride * axis.high).sum();
    let from = first.low.max(-(most - low).div_euclid(first.stride));
    let to = first.high.min((high - least).div_euclid(first.stride));
    (from..=to).any(|index| {
        let done = first.stride * index;
        *steps = steps.saturating_sub(1);
        *steps > 0 && reaches(rest, low - done, high - done, steps)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn bytes(view: &View, begin: i64) -> HashSet<i64> {
        let mut offsets = vec![begin];
        for (dim, stride) in view.dims() {
            let step = |offset: &i64| {
                let offset = *offset;
                (0..dim).map(move |index| offset + index * stride * view.size() as i64)
            };
            offsets = offsets.iter().flat_map(step).collect();
        }
        offsets.into_iter().flat_map(|offset| offset..offset + view.size() as i64).collect()
    }

    #[test]
    fn strided_tensors_share_what_sets_of_their_bytes_share() {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut shared = 0;
        for _ in 0..3000 {
            let mut view = || {
                let rank = random(4);
                let dims = (0..rank).map(|_| (1 + random(4) as i64, random(25) as i64 - 8)).collect();
                View::new(dims, [1, 2, 4, 8][random(4) as usize])
            };
            let (one, other) = (view(), view());
            let distance = random(120) as i64 - 60;
            let expected = !bytes(&one, 0).is_disjoint(&bytes(&other, distance));
            assert_eq!(share(&one, &other, distance), expected, "{one:?} {other:?} {distance}");
            shared += i32::from(expected);
        }
        assert!((300..2700).contains(&shared), "{shared}");
    }

    #[test]
    fn slices_of_packed_attention_are_disjoint() {
        let (batch, sequence, heads, size) = (8, 4096, 16, 128);
        let row = 3 * heads * size;
        let part = View::new(vec![(batch, sequence * row), (heads, size), (sequence, row), (size, 1)], 2);
        // Keys and values begin after the queries; one element nearer to these, or to those of the next token, overlaps.
        for (distance, near) in [(heads * size * 2, -2), (heads * size * 4, 2)] {
            assert!(!share(&part, &part, distance) && !share(&part, &part, -distance));
            assert!(share(&part, &part, distance + near));
        }
        assert!(share(&part, &part, 0));
    }
}
