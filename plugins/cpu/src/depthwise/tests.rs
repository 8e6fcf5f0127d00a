use hipdnn_plugin_sdk::graph::ConvMode;

use crate::conv::tests::{Case, Outline, plain};
use crate::simd::isa::Isa;
use crate::testing::Random;

/// A convolution with its own filters for each channel, often with one of the usual windows, and rows of several vectors.
fn depthwise(random: &mut Random) -> Case {
    let spatial = random.of(&[1, 2, 2, 2]);
    let window = random.of(&[None, Some((3, 1)), Some((3, 2)), Some((5, 1)), Some((5, 2))]);
    let outline = Outline {
        spatial,
        batch: random.within(1, 3),
        groups: random.within(1, 9),
        channels: 1,
        rows: random.of(&[1, 1, 2, 3]),
        most: random.of(&[[0, 90, 40], [0, 20, 12]])[spatial],
        window,
    };
    Case::of(random, &outline)
}

/// Images of many channels with short rows.
fn small(random: &mut Random) -> Case {
    let spatial = random.of(&[1, 2, 2, 2]);
    let window = random.of(&[Some((3, 1)), Some((3, 2)), Some((5, 1)), Some((5, 2))]);
    let groups = random.within(16, 70);
    let batch = random.within(1, 3);
    let outline =
        Outline { spatial, batch, groups, channels: 1, rows: 1, most: [0, 12, 10][spatial], window };
    Case::of(random, &outline)
}

#[test]
fn small_images() {
    let mut random = Random::new(13);
    for round in 0..200 {
        let mut case = small(&mut random);
        if round % 4 == 0 {
            case.spoil(&mut random, round / 4 % 3);
        }
        case.check_all(Isa::available());
    }
}

#[test]
fn wide_windows() {
    let mut random = Random::new(14);
    for round in 0..60 {
        let window = Some((random.of(&[2, 4, 7, 11]), random.of(&[1, 1, 2, 3])));
        let (batch, groups, rows) = (random.within(1, 2), random.within(2, 20), random.of(&[1, 1, 2]));
        let outline = Outline { spatial: 2, batch, groups, channels: 1, rows, most: 40, window };
        let mut case = Case::of(&mut random, &outline);
        if round % 4 == 0 {
            case.spoil(&mut random, round / 4 % 3);
        }
        case.check_all(Isa::available());
    }
}

#[test]
fn equals_plain_sums() {
    // Small integers: every sum is exact, in whatever order it is computed.
    let mut random = Random::new(11);
    for _ in 0..250 {
        let case = depthwise(&mut random);
        case.check_all(Isa::available());
    }
}

#[test]
fn nan_and_infinity_stay_where_they_belong() {
    let mut random = Random::new(12);
    for round in 0..120 {
        let mut case = depthwise(&mut random);
        case.spoil(&mut random, round % 3);
        case.check_all(Isa::available());
    }
}

#[test]
fn work_for_several_lanes() {
    let correlation = ConvMode::CrossCorrelation;
    for case in [
        plain([2, 40, 60, 61], [40, 1, 3, 3], 1, 1, correlation),
        plain([1, 2, 300, 200], [2, 1, 3, 3], 2, 1, ConvMode::Convolution),
        plain([3, 200, 14, 14], [400, 1, 5, 5], 1, 2, correlation),
        plain([1, 96, 57, 56], [96, 1, 7, 7], 1, 3, correlation),
        plain([2, 70, 14, 14], [70, 1, 3, 3], 2, 1, correlation),
        plain([2, 70, 7, 7], [70, 1, 3, 3], 1, 1, ConvMode::Convolution),
        plain([1, 40, 28, 29], [40, 1, 3, 3], 2, 1, correlation),
        plain([1, 8, 112, 111], [8, 1, 3, 3], 2, 1, correlation),
    ] {
        case.check_all(&[Isa::detect()]);
    }
}
