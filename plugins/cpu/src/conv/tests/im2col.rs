use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::im2col::problem::Im2col;
use crate::conv::tests::{Case, Outline};
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::{Array, Random};
use crate::threading::partition::Threads;

/// A convolution of packed tensors in one or two dimensions, whose sums are the same in any order.
fn packed(random: &mut Random, outline: &Outline) -> Case {
    let mut case = Case::of(random, outline);
    case.compute = DataType::Float;
    for array in [&mut case.x, &mut case.w, &mut case.y] {
        let (uid, dims) = (array.tensor.uid, array.tensor.dims.clone());
        *array = Array::packed(uid, DataType::Float, &dims).filled(|| random.whole());
    }
    case
}

#[test]
fn tiles_span_rows_and_images_with_any_number_of_threads() {
    let mut random = Random::new(77);
    for round in 0..60 {
        let outline = Outline {
            spatial: 1 + round % 2,
            batch: random.within(1, 9),
            groups: random.of(&[1, 1, 2]),
            channels: random.within(1, 40),
            rows: random.within(1, 70),
            most: random.of(&[7, 14, 30]),
            window: random.of(&[None, Some((1, 1)), Some((1, 2)), Some((3, 2)), Some((3, 1))]),
        };
        let case = packed(&mut random, &outline);
        let expected = case.expected(Direction::Forward);
        for most in [1, 2, 5] {
            for constant_weights in [false, true] {
                let threads = Threads { most, ..Threads::default() };
                let convolution = Algorithm::Im2col;
                let settings = Settings { threads, constant_weights, convolution, ..Settings::default() };
                let isa = Isa::detect();
                let plan = Im2col::<f32>::plan(&case.forward(), isa, settings, outline.spatial, None);
                assert!(plan.is_ok(), "{:?}", case.x.tensor);
                let y = case.run(Direction::Forward, isa, settings);
                assert_eq!(y.values(), expected, "{:?} {:?} {most}", case.x.tensor, case.w.tensor);
            }
        }
    }
}
