//! Images whose rows are shorter than a vector, with channels that fill vectors, half vectors or neither.

use hipdnn_plugin_sdk::graph::ConvMode;

use crate::conv::tests::{Case, Outline, plain};
use crate::problem::convolution::Direction;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::Random;
use crate::threading::partition::Threads;

#[test]
fn small_images_of_any_number_of_channels() {
    let mut random = Random::new(6);
    for round in 0..48 {
        let spatial = random.within(1, 3);
        // The direction determines which channels run along vectors.
        let (few, many) = (random.within(1, 3), random.within(9, 56));
        let (channels, rows) = if round % 2 == 0 { (few, many) } else { (many, few) };
        let outline = Outline {
            spatial,
            batch: random.within(16, 20),
            groups: random.of(&[1, 1, 2]),
            channels,
            rows,
            most: [0, 14, 7, 4][spatial],
            window: random.of(&[None, Some((3, 1)), Some((3, 2)), Some((2, 2))]),
        };
        let mut case = Case::of(&mut random, &outline);
        if round % 6 == 0 {
            case.spoil(&mut random, round / 6 % 3);
        }
        case.check_all(Isa::available());
    }
}

/// The bits of the weights' gradient with this many threads.
fn filter_gradient(case: &Case, most: usize) -> Vec<u64> {
    let settings = Settings { threads: Threads { most, ..Threads::default() }, ..Settings::default() };
    let filter = case.run(Direction::BackwardFilter, Isa::detect(), settings);
    filter.values().into_iter().map(f64::to_bits).collect()
}

/// Workers share blocks of images if there are few weights, and otherwise weights.
#[test]
fn weights_do_not_depend_on_the_number_of_threads() {
    let mut random = Random::new(8);
    for (images, channels, rows, stride) in
        [(70, 1, 24, 1), (70, 3, 24, 1), (75, 2, 57, 2), (40, 24, 48, 2), (33, 13, 40, 2)]
    {
        let mut case =
            plain([images, channels, 8, 8], [rows, channels, 3, 3], stride, 1, ConvMode::CrossCorrelation);
        case.check(Direction::BackwardFilter, Isa::available());
        case.spoil(&mut random, 2);
        case.check(Direction::BackwardFilter, Isa::available());
        case.x = case.x.filled(|| random.real());
        case.y = case.y.filled(|| random.real());
        let one = filter_gradient(&case, 1);
        for most in 2..6 {
            assert!(one == filter_gradient(&case, most), "{channels} → {rows} channels on {most} threads");
        }
    }
}
