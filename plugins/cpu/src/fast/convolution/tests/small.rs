//! Images whose rows are shorter than a vector, with channels that fill vectors, halves of them or neither.

use super::super::super::level::Level;
use super::super::super::testing::Random;
use super::{Case, DIRECTIONS, Outline};

#[test]
fn small_images_of_any_number_of_channels() {
    let mut random = Random::new(6);
    for round in 0..48 {
        let spatial = random.within(1, 3);
        // What becomes channels along vectors depends on the direction.
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
        for direction in DIRECTIONS {
            case.check(direction, Level::available());
        }
    }
}
