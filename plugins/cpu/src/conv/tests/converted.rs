//! Convolutions of 8-bit floats.

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use crate::conv::tests::{Case, Outline};
use crate::problem::convolution::Direction;
use crate::simd::isa::Isa;
use crate::testing::{Array, EIGHT_BITS, Random, run_together};

/// Turns one to three of the tensors into 8-bit floats.
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

/// Sums beyond the largest value of some formats, in any layout, with gaps too.
#[test]
fn any_shape_and_layout() {
    let mut random = Random::new(81);
    for _ in 0..80 {
        let mut case = Case::random(&mut random);
        convert(&mut random, &mut case);
        case.check_all(Isa::available());
    }
}

/// Algorithms for larger tensors of other dtypes.
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
        case.check_all(Isa::available());
    }
}

/// Depthwise convolutions, which read elements of any dtype directly.
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
        case.check_all(Isa::available());
    }
}

/// The epilogue reads the original input, in its own dtype.
#[test]
fn the_input_is_added_to_the_output() {
    let mut random = Random::new(84);
    for of in EIGHT_BITS {
        let outline =
            Outline { spatial: 2, batch: 2, groups: 1, channels: 9, rows: 9, most: 11, window: Some((3, 1)) };
        let mut case = Case::of(&mut random, &outline);
        (case.pre, case.post) = (vec![1, 1], vec![1, 1]);
        let dims = case.x.tensor.dims.clone();
        let packed = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
        let array = |uid, data_type| Array::new(uid, data_type, &dims, &packed);
        case.x = array(1, of).filled(|| random.whole());
        case.w = Array::new(2, of, &[9, 9, 3, 3], &[81, 9, 3, 1]).filled(|| random.whole());
        (case.y, case.compute) = (array(3, DataType::Float), DataType::Float);
        let sums = case.expected(Direction::Forward);
        let operations =
            [case.operation(Direction::Forward), Pointwise::new(PointwiseMode::Add, 3, Some(1), 4).into()];
        let mut between = case.y.tensor.clone();
        between.is_virtual = true;
        for isa in Isa::available() {
            let mut arrays = [case.x.clone(), case.w.clone(), array(4, DataType::Float)];
            run_together(&operations, DataType::Float, *isa, &mut arrays, &[between.clone()]);
            for ((got, sum), x) in arrays[2].values().iter().zip(&sums).zip(case.x.values()) {
                // Sums of whole numbers are exact.
                assert_eq!(*got, sum + x, "{of:?}, {isa:?}");
            }
        }
    }
}
