use hipdnn_plugin_sdk::graph::ConvMode;

use std::mem::MaybeUninit;

use crate::conv::direct::choice::MAX_TILES;
use crate::conv::direct::problem::{Direct, Scheme};
use crate::conv::im2col::choice;
use crate::conv::tests::{Case, plain};
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::{Random, same};

/// A convolution of packed images with square windows.
fn images(batch: i64, [channels, rows]: [i64; 2], size: [i64; 2], [window, stride]: [i64; 2]) -> Case {
    let [height, width] = size;
    plain(
        [batch, channels, height, width],
        [rows, channels, window, window],
        stride,
        window / 2,
        ConvMode::CrossCorrelation,
    )
}

/// Checks the forward convolution, and, if that is faster here, whether most tiles are computed in pairs.
fn check(case: &Case, two: bool, wastes: bool, algorithm: Algorithm) {
    let isa = Isa::detect();
    let settings = Settings { convolution: algorithm, constant_weights: true, ..Settings::default() };
    let operands = case.forward();
    let scheme = Scheme::<f32>::unpaired(&operands, isa, 2, None).unwrap();
    let direct = Direct::<f32>::plan(operands.clone(), scheme, isa, settings, 2, None).unwrap();
    assert_eq!(direct.are_two(), two && isa.has_whole_vectors(), "{:?}", case.x.tensor);
    if isa.has_whole_vectors() {
        assert_eq!(choice::wastes::<f32>(&operands, isa), wastes, "{:?}", case.x.tensor);
    }
    let y = case.run(Direction::Forward, isa, settings);
    for (index, (got, expected)) in y.values().into_iter().zip(case.expected(Direction::Forward)).enumerate()
    {
        assert!(
            same(got, y.rounded(expected)),
            "element {index} is {got}, expected {expected} {:?}",
            case.x.tensor
        );
    }
}

#[test]
fn two_tiles_are_computed_at_once_if_outputs_are_contiguous() {
    let mut random = Random::new(91);
    for batch in [1, 3] {
        for channels in [[1, 32], [5, 40], [19, 7]] {
            for (size, window, two) in [
                // Contiguous lines, and lines that are whole tiles.
                ([7, 7], [1, 1], true),
                ([5, 9], [1, 1], true),
                ([28, 28], [1, 2], true),
                ([14, 14], [3, 2], true),
                ([8, 14], [3, 1], true),
                ([9, 42], [3, 3], true),
                // Lines that are not whole tiles, and images that are a single one.
                ([9, 9], [3, 1], false),
                ([1, 7], [1, 1], batch > 1),
            ] {
                let mut case = images(batch, channels, size, window);
                check(&case, two, false, Algorithm::Direct);
                for which in 0..2 {
                    case.spoil(&mut random, which);
                    check(&case, two, false, Algorithm::Direct);
                }
            }
        }
    }
}

#[test]
fn wasted_columns_are_avoided() {
    // One image of 7 × 7 wastes 15 of 64 columns, one of 14 × 14 wastes 12 of 208, and 16 images waste none.
    check(&images(1, [512, 64], [7, 7], [1, 1]), true, true, Algorithm::Automatic);
    check(&images(1, [512, 64], [14, 14], [1, 1]), true, true, Algorithm::Automatic);
    check(&images(1, [128, 64], [7, 7], [1, 1]), true, true, Algorithm::Automatic);
    check(&images(1, [127, 64], [7, 7], [1, 1]), true, false, Algorithm::Automatic);
    check(&images(1, [511, 64], [14, 14], [1, 1]), true, false, Algorithm::Automatic);
    check(&images(1, [57, 64], [14, 14], [3, 2]), true, true, Algorithm::Automatic);
    check(&images(1, [57, 64], [28, 28], [3, 2]), true, false, Algorithm::Automatic);
    check(&images(16, [33, 64], [14, 14], [3, 2]), true, false, Algorithm::Automatic);
}

/// Full tiles that follow one another are computed by one call: all of an image without padding, those of a line otherwise.
#[test]
fn tiles_that_follow_are_counted() {
    let isa = Isa::detect();
    for (window, size, all) in [([1, 1], [12, 42], true), ([1, 2], [12, 84], false), ([3, 1], [5, 63], false)]
    {
        let operands = images(1, [16, 16], size, window).forward();
        let settings = Settings { convolution: Algorithm::Direct, ..Settings::default() };
        let scheme = Scheme::<f32>::unpaired(&operands, isa, 2, None).unwrap();
        let pixels = scheme.kernel.pixels;
        let direct = Direct::<f32>::plan(operands, scheme, isa, settings, 2, None).unwrap();
        let block = direct.geometry.block(0);
        let mut tiles = [const { MaybeUninit::uninit() }; MAX_TILES];
        let tiles = direct.tiles(&block, &mut tiles);
        let (first, whole) = (&tiles[0], block.outputs() / pixels);
        assert_eq!(first.step, pixels * window[1] as usize, "{window:?}");
        let of_line = block.size[2] / pixels;
        assert!(of_line > 2, "{:?}", block.size);
        if all {
            assert_eq!(first.follow, [whole - 1, of_line - 1], "{:?}", block.size);
        } else {
            // Tiles at the sides of a padded image meet fewer taps only in other lines.
            assert_eq!(first.follow, [of_line - 1; 2], "{:?}", block.size);
        }
    }
}

/// The weights of so many channels are used block by block, the first of which begin the sums.
#[test]
fn more_channels_than_stay_in_the_cache() {
    for ([channels, rows], size, dilation) in
        [([400, 40], [9, 11], 1), ([700, 7], [20, 7], 1), ([350, 33], [12, 30], 4)]
    {
        let mut case = images(2, [channels, rows], size, [3, 1]);
        (case.dilation, case.pre, case.post) = (vec![dilation; 2], vec![dilation; 2], vec![dilation; 2]);
        let expected = case.expected(Direction::Forward);
        for isa in Isa::available() {
            case.check_at(Direction::Forward, *isa, Algorithm::Direct, &expected);
        }
    }
}
