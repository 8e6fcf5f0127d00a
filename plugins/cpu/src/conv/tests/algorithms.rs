use hipdnn_plugin_sdk::graph::ConvMode;

use crate::conv::cost::{BUFFER, Cost, Shape};
use crate::conv::direct::problem::Scheme;
use crate::conv::geometry::Windows;
use crate::conv::implicit_gemm::kernel::ImplicitGemm;
use crate::conv::tests::{Case, DIRECTIONS, plain};
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::{Random, same};
use crate::threading::partition::Threads;

#[test]
fn every_algorithm_computes_the_same() {
    let mut random = Random::new(6);
    for _ in 0..40 {
        let case = Case::random(&mut random);
        for direction in DIRECTIONS {
            let expected = case.expected(direction);
            for convolution in [
                Algorithm::ImplicitGemm,
                Algorithm::Unrolled,
                Algorithm::Direct,
                Algorithm::Winograd,
                Algorithm::Im2col,
            ] {
                let settings = Settings { convolution, ..Settings::default() };
                let array = case.run(direction, Isa::detect(), settings);
                for (got, expected) in array.values().into_iter().zip(&expected) {
                    assert!(same(got, array.rounded(*expected)), "{direction:?}, {convolution:?}");
                }
            }
        }
    }
}

#[test]
fn algorithms_match_their_names() {
    let windows = Windows {
        batch: 1,
        output: [1, 20, 20],
        input: [1, 20, 20],
        stride: [1; 3],
        taps: (0..9).map(|tap| [0, tap / 3 - 1, tap % 3 - 1]).collect(),
    };
    let elements = |unrolled| {
        let shape = Shape {
            windows: &windows,
            taps: 9,
            groups: 1,
            channels: 4,
            rows: 8,
            round: 16,
            tile: 48,
            unrolled: Some(unrolled),
            in_place: false,
            threads: Threads { most: 1, ..Threads::default() },
        };
        shape.best(&Cost::of::<f32>(Isa::detect()), BUFFER).unwrap().0.channel()
    };
    // One copy of the padded image, and one per element of the window.
    assert!(elements(false) < 2 * 22 * 22);
    assert!(elements(true) >= 9 * 20 * 20);
}

/// Vectors of channels are chosen if images leave lanes empty or windows have strides.
#[test]
fn vectors_of_channels_are_chosen_if_they_pay() {
    let is_chosen = |case: &Case, isa: Isa| {
        let operands = case.forward();
        let threads = Threads { most: 1, ..Threads::default() };
        let settings = Settings { threads, constant_weights: true, ..Settings::default() };
        let gemm = ImplicitGemm::<f32>::blocks(&operands, false, isa, settings).unwrap();
        let scheme = Scheme::<f32>::unpaired(&operands, isa, 2, None).unwrap();
        scheme.time(&operands, settings.constant_weights).unwrap() < gemm.time
    };
    let correlation = ConvMode::CrossCorrelation;
    let small = plain([1, 512, 7, 7], [512, 512, 3, 3], 1, 1, correlation);
    let stepping = plain([1, 128, 28, 28], [128, 128, 1, 1], 2, 0, correlation);
    let large = plain([1, 16, 56, 56], [64, 16, 1, 1], 1, 0, correlation);
    for isa in Isa::available() {
        assert!(is_chosen(&small, *isa), "{isa:?}");
        assert!(is_chosen(&stepping, *isa), "{isa:?}");
        assert!(!is_chosen(&large, *isa), "{isa:?}");
    }
}
