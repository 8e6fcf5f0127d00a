//! The outputs of an image: the taps that each meets, and their offsets.

use std::collections::BTreeMap;

use crate::conv::geometry::{Geometry, Strides, Windows};
use crate::conv::operands::SubProblem;

/// With more outputs per image, only few are at the border.
const MAX_OUTPUTS: usize = 4096;

/// Indices of taps of a sub-problem.
type Taps = Vec<usize>;

/// Indices of outputs of an image.
type Indices = Vec<usize>;

/// The outputs of an image, grouped by the taps that they meet inside the input; a single group with all taps
/// if grouping saves no work.
pub(crate) fn classes(
    windows: &Windows,
    part: &SubProblem,
    images: usize,
    rows: usize,
) -> Vec<(Taps, Indices)> {
    let outputs = part.size.iter().product();
    let together = vec![((0..part.taps.len()).collect(), (0..outputs).collect())];
    if outputs > MAX_OUTPUTS {
        return together;
    }
    let mut classes: BTreeMap<Taps, Indices> = BTreeMap::new();
    for index in 0..outputs {
        let taps = (0..part.taps.len()).filter(|tap| meets(windows, part, index, *tap)).collect();
        classes.entry(taps).or_default().push(index);
    }
    let separate: Vec<_> = classes.into_iter().collect();
    if tiles(&separate, images, rows) < tiles(&together, images, rows) { separate } else { together }
}

/// Whether an output of an image meets a tap of its sub-problem inside the input.
fn meets(windows: &Windows, part: &SubProblem, index: usize, tap: usize) -> bool {
    let [_, height, length] = part.size;
    let at = [index / length / height, index / length % height, index % length];
    let tap = windows.taps[part.taps[tap].0];
    (0..3).all(|i| {
        let position = (at[i] * windows.stride[i]) as isize + tap[i];
        (0..windows.input[i] as isize).contains(&position)
    })
}

/// Whether all outputs meet the taps of their group inside the input.
pub(crate) fn are_inside(windows: &Windows, part: &SubProblem, classes: &[(Taps, Indices)]) -> bool {
    let few = part.size.iter().product::<usize>() <= MAX_OUTPUTS;
    few && classes.iter().all(|(taps, outputs)| {
        outputs.iter().all(|index| taps.iter().all(|tap| meets(windows, part, *index, *tap)))
    })
}

/// Rows of weights that the tiles of some images multiply for each channel.
pub(crate) fn tiles(classes: &[(Taps, Indices)], images: usize, rows: usize) -> usize {
    classes.iter().map(|(taps, outputs)| (images * outputs.len()).div_ceil(rows) * taps.len()).sum()
}

/// Offsets of a sub-problem's outputs in the plane of a channel.
pub(crate) fn in_plane(part: &SubProblem, strides: &Strides) -> impl Iterator<Item = usize> + use<> {
    let (first, size, strides) = (part.first, part.size, *strides);
    let [_, height, length] = size;
    (0..size.iter().product()).map(move |index: usize| {
        let at = [index / length / height, index / length % height, index % length];
        first + strides.offset(0, at)
    })
}

/// The number of outputs of an image, if those of all sub-problems together are contiguous.
pub(crate) fn whole_plane(parts: &[SubProblem], strides: &Strides) -> Option<usize> {
    let all: usize = parts.iter().map(|part| part.size.iter().product::<usize>()).sum();
    let mut met = vec![false; all];
    for offset in parts.iter().flat_map(|part| in_plane(part, strides)) {
        if std::mem::replace(met.get_mut(offset)?, true) {
            return None;
        }
    }
    Some(all)
}

/// Some outputs of a block of images.
pub(crate) struct Met {
    /// How many there are in an image.
    pub(crate) of_image: usize,
    /// Their offsets in the planes, image by image, and their indices.
    pub(crate) outputs: Vec<usize>,
    pub(crate) indices: Vec<usize>,
}

/// The most taps of a filter for which outputs are skipped.
pub(crate) const MAX_TAPS: usize = 49;

/// The outputs of a block of images that meet each tap inside the input, and those that meet it or the next;
/// empty if skipping saves no work.
pub(crate) fn met(blocks: &Geometry, outputs: &[usize]) -> Vec<[Met; 2]> {
    let whole = blocks.block(0);
    let [_, height, length] = whole.size;
    let (of_image, taps) = (whole.size.iter().product::<usize>(), blocks.taps().len());
    if taps > MAX_TAPS {
        return Vec::new();
    }
    let meets = |output: usize, tap: usize| {
        blocks.meets([output / length / height, output / length % height, output % length], tap)
    };
    let some = |taps: std::ops::RangeInclusive<usize>| {
        let members: Vec<usize> =
            (0..of_image).filter(|output| taps.clone().any(|tap| meets(*output, tap))).collect();
        let indices: Vec<usize> = (0..whole.images)
            .flat_map(|image| members.iter().map(move |output| image * of_image + output))
            .collect();
        Met {
            of_image: members.len(),
            outputs: indices.iter().map(|index| outputs[*index]).collect(),
            indices,
        }
    };
    let met: Vec<[Met; 2]> =
        (0..taps).map(|tap| [some(tap..=tap), some(tap..=(tap + 1).min(taps - 1))]).collect();
    let terms: usize = met.iter().map(|[own, _]| own.of_image).sum();
    if terms * 20 < of_image * taps * 19 { met } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter of 3 × 3 with padding 1 over square images.
    fn windows(input: usize, stride: usize) -> (Windows, SubProblem) {
        let output = (input - 1) / stride + 1;
        let tap = |index: isize| [0, index / 3 - 1, index % 3 - 1];
        let windows = Windows {
            batch: 8,
            output: [1, output, output],
            input: [1, input, input],
            stride: [1, stride, stride],
            taps: (0..9).map(tap).collect(),
        };
        (
            windows,
            SubProblem { taps: (0..9).map(|tap| (tap, tap)).collect(), first: 0, size: [1, output, output] },
        )
    }

    #[test]
    fn outputs_at_the_border_have_fewer_taps() {
        let (windows, part) = windows(8, 2);
        let classes = classes(&windows, &part, 8, 8);
        let sizes: Vec<_> = classes.iter().map(|(taps, outputs)| (taps.len(), outputs.len())).collect();
        assert_eq!(sizes, [(9, 9), (6, 3), (6, 3), (4, 1)]);
        assert_eq!(tiles(&classes, 8, 8), 9 * 9 + 2 * 6 * 3 + 4);
        let mut all: Vec<_> = classes.into_iter().flat_map(|(_, outputs)| outputs).collect();
        all.sort_unstable();
        assert_eq!(all, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn outputs_form_one_class_if_tiles_would_not_be_full() {
        let (windows, part) = windows(8, 2);
        assert_eq!(classes(&windows, &part, 2, 8).len(), 1);
    }

    #[test]
    fn taps_at_the_border_meet_fewer_outputs() {
        let (windows, _) = windows(8, 2);
        let starts: Vec<usize> = (100..132).collect();
        let met = met(&Geometry::new(&windows, false, 2, windows.output, 1), &starts);
        let sizes: Vec<_> = met.iter().map(|[own, two]| (own.of_image, two.of_image)).collect();
        assert_eq!(sizes[..2], [(9, 12), (12, 12)]);
        assert_eq!(sizes.iter().map(|(own, _)| own).sum::<usize>(), 121);
        assert_eq!(met[0][0].indices, [5, 6, 7, 9, 10, 11, 13, 14, 15, 21, 22, 23, 25, 26, 27, 29, 30, 31]);
        assert_eq!(met[0][0].outputs[0], 105);
    }

    #[test]
    fn a_plane_is_whole_if_its_outputs_have_no_gaps() {
        let part = |first: usize| SubProblem { taps: Vec::new(), first, size: [1, 4, 4] };
        let parts = [part(0), part(1), part(8), part(9)];
        let strides = |line: usize| Strides { batch: 0, channel: 64, spatial: [0, line, 2] };
        assert_eq!(whole_plane(&parts, &strides(16)), Some(64));
        assert_eq!(whole_plane(&parts, &strides(18)), None);
        assert_eq!(whole_plane(&parts[..3], &strides(16)), None);
        assert_eq!(whole_plane(&[part(0), part(1), part(8), part(8)], &strides(16)), None);
    }
}
