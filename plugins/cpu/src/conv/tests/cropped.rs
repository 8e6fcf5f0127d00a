//! Filters of which a part lies in the padding for every output.

use hipdnn_plugin_sdk::graph::{ConvMode, Graph};

use crate::conv::cropped::Crop;
use crate::conv::tests::{DIRECTIONS, plain};
use crate::simd::isa::Isa;
use crate::testing::{Random, convolution_of};

#[test]
fn filters_are_cropped_to_the_image() {
    let mut random = Random::new(61);
    for mode in [ConvMode::CrossCorrelation, ConvMode::Convolution] {
        for (side, padding, window, stride, left) in [
            (3, 4, 9, 3, 3),
            (2, 3, 8, 9, 2),
            (5, 4, 13, 1, 5),
            (4, 1, 5, 2, 4),
            (4, 1, 3, 1, 3),
            (1, 1, 3, 1, 1),
        ] {
            let dims = [[2, 20, side, side], [18, 20, window, window]];
            let mut case = plain(dims[0], dims[1], stride, padding, mode);
            for direction in DIRECTIONS {
                let tensors = [&case.x, &case.w, &case.y].map(|array| array.tensor.clone()).to_vec();
                let graph = Graph { tensors, ..Graph::default() };
                let crop = Crop::of(&convolution_of(&graph, &case.operation(direction))).unwrap();
                let sides = crop.map_or(window as usize, |crop| crop.convolution.window[0]);
                let expected = if direction == DIRECTIONS[2] { window } else { left };
                assert_eq!(sides, expected as usize, "{window} over {side}, {direction:?}");
            }
            case.check_all(Isa::available());
            // The cropped part does not matter, even if it is infinite.
            case.spoil(&mut random, 1);
            case.check_all(Isa::available());
        }
    }
}
