//! Convolutions of floats of 8 bits.

use super::super::super::level::Level;
use super::super::super::testing::{Array, EIGHT_BITS, Random};
use super::{Case, DIRECTIONS, Outline};
use hipdnn_plugin_sdk::graph::DataType;

/// Makes one to three of the tensors floats of 8 bits.
fn convert(random: &mut Random, case: &mut Case) {
    let one = random.of(&EIGHT_BITS);
    let which = random.within(1, 7);
    for (at, array) in [&mut case.x, &mut case.w, &mut case.y].into_iter().enumerate() {
        let of_other = random.of(&[DataType::Float, DataType::Float, DataType::Half, DataType::Double]);
        let other = random.of(&EIGHT_BITS);
        let mixed = random.of(&[one, one, other]);
        let data_type = if which >> at & 1 == 1 { mixed } else { of_other };
        let (uid, dims, strides) = (array.tensor.uid, &array.tensor.dims, &array.tensor.strides);
        *array = Array::new(uid, data_type, dims, strides).filled(|| random.whole());
    }
}

/// Sums that pass the largest number of some formats, in any layout, with gaps too.
#[test]
fn any_shape_and_layout() {
    let mut random = Random::new(81);
    for _ in 0..80 {
        let mut case = Case::random(&mut random);
        convert(&mut random, &mut case);
        for direction in DIRECTIONS {
            case.check(direction, Level::available());
        }
    }
}

/// Forms that tensors of other types take when they are large enough.
#[test]
fn many_channels() {
    let mut random = Random::new(82);
    for round in 0..12 {
        let outline = Outline {
            spatial: 2,
            batch: random.within(1, 3),
            groups: random.of(&[1, 1, 2]),
            channels: random.within(12, 40),
            rows: random.within(12, 40),
            most: 14,
            window: Some((random.of(&[1, 3, 3]), random.of(&[1, 2]))),
        };
        let mut case = Case::of(&mut random, &outline);
        convert(&mut random, &mut case);
        if round % 3 == 2 {
            case.spoil(&mut random, round / 3 % 3);
        }
        for direction in DIRECTIONS {
            case.check(direction, Level::available());
        }
    }
}

/// Depthwise ones, which read elements of any type themselves.
#[test]
fn depthwise() {
    let mut random = Random::new(83);
    for _ in 0..20 {
        let outline = Outline {
            spatial: random.within(1, 2),
            batch: random.within(1, 3),
            groups: random.within(2, 9),
            channels: 1,
            rows: random.of(&[1, 1, 2]),
            most: 20,
            window: None,
        };
        let mut case = Case::of(&mut random, &outline);
        convert(&mut random, &mut case);
        for direction in DIRECTIONS {
            case.check(direction, Level::available());
        }
    }
}
