use hipdnn_plugin_sdk::graph::{ConvMode, DataType};

use crate::conv::tests::{Case, Outline, plain};
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, cases, order, strides};
use crate::threading::partition::Threads;

/// A convolution with windows of 3 × 3.
fn case(random: &mut Random, most: usize) -> Case {
    let outline = Outline {
        spatial: 2,
        batch: random.within(1, 4),
        groups: random.of(&[1, 1, 2]),
        channels: random.within(1, 9),
        rows: random.within(1, 19),
        most,
        window: Some((3, random.of(&[1, 1, 2]))),
    };
    Case::of(random, &outline)
}

const FORMS: [Algorithm; 2] = [Algorithm::Winograd, Algorithm::Winograd4];

/// Halves and quarters of small integers are exact, so F(2 × 2) rounds nothing.
#[test]
fn integers_have_exact_sums_and_nan_and_infinity_do_not_spread() {
    let mut random = Random::new(31);
    for round in 0..cases(90) as usize {
        let mut case = case(&mut random, [5, 14, 60][round % 3]);
        if round % 5 == 0 {
            case.spoil(&mut random, round / 5 % 3);
        }
        for direction in [Direction::Forward, Direction::BackwardData] {
            let expected = case.expected(direction);
            for (isa, form) in Isa::available().iter().flat_map(|isa| FORMS.map(|form| (isa, form))) {
                case.check_at(direction, *isa, form, &expected);
            }
        }
    }
}

/// The bound of docs/numerics.md. Magnitudes vary widely, so that wrong dependences show.
#[test]
fn errors_stay_within_the_documented_bound() {
    let mut random = Random::new(32);
    let mut most = [0.0_f64; 2];
    for round in 0..40 {
        let mut case = case(&mut random, 20);
        let (form, side, factor, roundings) =
            [(Algorithm::Winograd, 1, 16.0, 11.0), (Algorithm::Winograd4, 4, 176.0, 18.0)][round % 2];
        if form == Algorithm::Winograd4 && case.stride[0] > 1 {
            continue;
        }
        case.compute = DataType::Float;
        for array in [&mut case.x, &mut case.w, &mut case.y] {
            let (uid, dims) = (array.tensor.uid, array.tensor.dims.clone());
            let strides = array.tensor.strides.clone();
            let mut number = || {
                let size = random.of(&[1.0, 1.0, 1e-3, 100.0]);
                f64::from(((random.within(0, 2000) as f64 / 1000.0 - 1.0) * size) as f32)
            };
            *array = Array::new(uid, DataType::Float, &dims, &strides).filled(&mut number);
        }
        let expected = case.expected(Direction::Forward);
        // With F(2 × 2) an output depends only on its window, with F(4 × 4) on all inputs of its tile.
        let met = side + 2;
        let step = case.stride[0] as usize;
        let near = |index: &[usize]| -> f64 {
            let [images, channels, height, width] = [0, 1, 2, 3].map(|i| case.x.tensor.dims[i] as usize);
            assert!(index[0] < images);
            let of_group = case.w.tensor.dims[1] as usize;
            let group = index[1] / (case.w.tensor.dims[0] as usize / case.groups);
            assert!((group + 1) * of_group <= channels);
            (0..of_group)
                .map(|c| {
                    let mut largest = 0.0_f64;
                    for row in 0..met {
                        for column in 0..met {
                            let at = |i: usize, position: usize| {
                                let first = index[2 + i] / side * side;
                                (step * first + position).wrapping_sub(case.pre[i] as usize)
                            };
                            let (h, w) = (at(0, row), at(1, column));
                            if h < height && w < width {
                                largest =
                                    largest.max(case.x.get(&[index[0], group * of_group + c, h, w]).abs());
                            }
                        }
                    }
                    let weights: f64 =
                        (0..9).map(|tap| case.w.get(&[index[1], c, tap / 3, tap % 3]).abs()).sum();
                    largest * weights
                })
                .sum()
        };
        for isa in Isa::available() {
            let settings = Settings { convolution: form, ..Settings::default() };
            let y = case.run(Direction::Forward, *isa, settings);
            let channels = case.w.tensor.dims[1] as f64;
            for ((index, got), expected) in case.y.indices().iter().zip(y.values()).zip(&expected) {
                let bound = factor * (channels + roundings) * 2.0_f64.powi(-24) * near(index);
                assert!((got - expected).abs() <= bound, "{got}, expected {expected} within {bound}");
                let most = &mut most[round % 2];
                *most = most.max((got - expected).abs() / bound.max(f64::MIN_POSITIVE));
            }
        }
    }
    // The bounds are nearly reached.
    assert!(most[0] > 1e-3 && most[1] > 1e-4, "{most:?}");
}

/// The bits of the result of a convolution of values that are not integers.
fn bits(case: &Case, settings: Settings) -> Vec<u64> {
    let number = |number: f64| if number.is_nan() { u64::MAX } else { number.to_bits() };
    case.run(Direction::Forward, Isa::detect(), settings).values().into_iter().map(number).collect()
}

/// A convolution of values that use all bits of their type.
fn real(x: [i64; 4], w: [i64; 4]) -> Case {
    let mut random = Random::new(33);
    let mut case = plain(x, w, 1, 1, ConvMode::CrossCorrelation);
    for array in [&mut case.x, &mut case.w] {
        for index in array.indices() {
            array.set(&index, random.within(0, 1 << 24) as f64 / f64::from(1 << 23) - 1.0);
        }
    }
    case
}

#[test]
fn winograd_is_chosen_if_it_pays() {
    let threads = Threads { most: 1, ..Threads::default() };
    let settings =
        |convolution| Settings { convolution, constant_weights: true, threads, ..Settings::default() };
    let chosen = |case: &Case| {
        let [chosen, two, four, implicit] =
            [Algorithm::Automatic, Algorithm::Winograd, Algorithm::Winograd4, Algorithm::ImplicitGemm]
                .map(|form| bits(case, settings(form)));
        assert!(two != implicit && four != implicit && two != four);
        [(two, 2), (four, 4)].into_iter().find(|(form, _)| *form == chosen).map(|(_, outputs)| outputs)
    };
    assert_eq!(chosen(&real([1, 64, 20, 20], [48, 64, 3, 3])), Some(4));
    assert_eq!(chosen(&real([3, 128, 13, 14], [128, 64, 3, 3])), Some(4));
    // Outputs that fill few of the larger tiles.
    assert_eq!(chosen(&real([1, 64, 10, 10], [64, 64, 3, 3])), Some(2));
    assert_eq!(chosen(&real([8, 64, 6, 6], [64, 64, 3, 3])), Some(2));
    // Transformed weights that are expensive to read for few tiles.
    let outputs = if Isa::detect().has_whole_vectors() { 2 } else { 4 };
    assert_eq!(chosen(&real([1, 256, 14, 14], [256, 256, 3, 3])), Some(outputs));
    // Few channels, and few tiles.
    assert_eq!(chosen(&real([1, 8, 20, 20], [16, 8, 3, 3])), None);
    assert_eq!(chosen(&real([1, 64, 4, 4], [64, 64, 3, 3])), None);
}

/// Recomputed NaN and infinity do not affect their neighbours in a vector.
#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let first = real([3, 40, 30, 31], [40, 40, 3, 3]);
    let mut last = real([3, 40, 30, 31], [40, 40, 3, 3]);
    for array in [&mut last.x, &mut last.y] {
        let (uid, dims) = (array.tensor.uid, array.tensor.dims.clone());
        let mut copy = Array::new(uid, DataType::Float, &dims, &strides(&dims, &order(4, 1), 0));
        array.indices().iter().for_each(|index| copy.set(index, array.get(index)));
        *array = copy;
    }
    for ((case, convolution), number) in [&first, &last]
        .into_iter()
        .flat_map(|case| FORMS.map(|form| (case, form)))
        .flat_map(|of| [0.0, f64::NAN, f64::INFINITY].map(|number| (of, number)))
    {
        for of_input in [true, false] {
            let mut case = Case {
                x: case.x.clone(),
                w: case.w.clone(),
                y: case.y.clone(),
                ..real([1; 4], [1, 1, 3, 3])
            };
            case.x.set(&[1, 7, 15, 3], if of_input { number } else { 0.0 });
            case.w.set(&[5, 7, 1, 2], if of_input { 0.5 } else { number });
            let [one, others @ ..] = [1, 2, 3, 7].map(|most| {
                let threads = Threads { most, ..Threads::default() };
                bits(&case, Settings { threads, convolution, ..Settings::default() })
            });
            assert!(others.iter().all(|other| *other == one), "{convolution:?} {number} {of_input}");
            let prepacked = Settings { convolution, constant_weights: true, ..Settings::default() };
            assert!(bits(&case, prepacked) == one, "{convolution:?} {number} {of_input}");
        }
    }
}
