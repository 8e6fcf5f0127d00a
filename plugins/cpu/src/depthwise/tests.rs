use hipdnn_plugin_sdk::graph::operation::ConvolutionForward;
use hipdnn_plugin_sdk::graph::{ConvMode, DataType};

use crate::conv::tests::{Case, Outline, plain};
use crate::depthwise::bytes::Depthwise;
use crate::depthwise::bytes_last::ChannelsLast;
use crate::int8::epilogue::{NO_CLIPS, Param, Quantize, Round, Scaled, Stages};
use crate::kernel::boxed;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, cases, convolution_of, run_planned, strides};
use crate::threading::partition::Threads;

/// A convolution with separate filters per channel, often with a usual window, and rows of several vectors.
fn depthwise(random: &mut Random) -> Case {
    let spatial = random.of(&[1, 2, 2, 2]);
    let window = random.of(&[None, Some((3, 1)), Some((3, 2)), Some((5, 1)), Some((5, 2)), Some((7, 1))]);
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
    let window = random.of(&[Some((3, 1)), Some((3, 2)), Some((5, 1)), Some((5, 2)), Some((7, 1))]);
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
    for round in 0..cases(60) as usize {
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
fn signals_and_images_of_few_rows() {
    let mut random = Random::new(15);
    for round in 0..cases(120) as usize {
        let spatial = random.within(1, 2);
        let window = Some((random.of(&[1, 3, 4, 7, 31]), random.of(&[1, 2])));
        let outline = Outline {
            spatial,
            batch: 1,
            groups: random.within(1, 5),
            channels: 1,
            rows: 1,
            most: 500,
            window,
        };
        let mut case = Case::of(&mut random, &outline);
        if spatial == 2 {
            // Three rows of results at most.
            let mut sides: Vec<i64> = case.w.tensor.dims[2..].to_vec();
            sides[0] += random.within(0, 2) as i64;
            sides[1] += random.within(0, 300) as i64;
            let (groups, correlation) = (outline.groups as i64, ConvMode::CrossCorrelation);
            let (w, window) = ([groups, 1, case.w.tensor.dims[2], case.w.tensor.dims[3]], sides);
            case = plain([1, groups, window[0], window[1]], w, 1, 0, correlation);
        }
        if round % 4 == 0 {
            case.spoil(&mut random, round / 4 % 3);
        }
        case.check_all(Isa::available());
    }
}

#[test]
fn equals_plain_sums() {
    // Small integers: every sum is exact in any order.
    let mut random = Random::new(11);
    for _ in 0..250 {
        let case = depthwise(&mut random);
        case.check_all(Isa::available());
    }
}

#[test]
fn nan_and_infinity_do_not_spread() {
    let mut random = Random::new(12);
    for round in 0..120 {
        let mut case = depthwise(&mut random);
        case.spoil(&mut random, round % 3);
        case.check_all(Isa::available());
    }
}

#[test]
fn work_for_several_threads() {
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

/// Sixteen channels at a time give the same bytes as channel by channel.
#[test]
fn channels_last_bytes_match_other_layouts() {
    for seed in 0..150 {
        let random = &mut Random::new(seed + 500);
        let [batch, channels] = [random.within(1, 2), random.of(&[1, 5, 16, 17, 32, 40, 70])];
        let [window, stride, dilation] =
            [3, 2, 2].map(|most| (0..2).map(|_| random.within(1, most) as i64).collect());
        let (window, stride, dilation): (Vec<i64>, Vec<i64>, Vec<i64>) = (window, stride, dilation);
        let padding = [(); 2].map(|()| [random.within(0, 2) as i64, random.within(0, 2) as i64]);
        let input = [0, 1].map(|i| (window[i] - 1) * dilation[i] + 1 + random.within(0, 20) as i64);
        let output = [0, 1].map(|i| {
            (input[i] + padding[0][i] + padding[1][i] - (window[i] - 1) * dilation[i] - 1) / stride[i] + 1
        });
        let [batch, channels] = [batch, channels].map(|size| size as i64);
        let types =
            [0, 1, 2].map(|at| random.of(&[DataType::Int8, DataType::Uint8, DataType::Int32][..2 + at / 2]));
        let dims = [
            vec![batch, channels, input[0], input[1]],
            vec![channels, 1, window[0], window[1]],
            vec![batch, channels, output[0], output[1]],
        ];
        let order = |at: usize| if at == 1 { [0, 1, 2, 3] } else { [0, 2, 3, 1] };
        let arrays = [0, 1, 2].map(|at| {
            let layout = strides(&dims[at], &order(at), 0);
            Array::new(at as i64 + 1, types[at], &dims[at], &layout)
                .filled(|| random.within(0, 255) as f64 - 128.0)
        });
        let number =
            |value: f64| Param { slot: 0, data_type: DataType::Float, stride: 0, value: Some(value) };
        let quantize = Quantize {
            factor: Some(number(random.of(&[300.0, 71.3]))),
            divides: true,
            before: 0.0,
            clips_before: NO_CLIPS,
            round: Round::Even,
            after: Some(number(100.0)),
            clips_after: NO_CLIPS,
        };
        let scaled = Scaled { scales: vec![number(0.3)], quantize: Some(quantize), ..Scaled::NONE };
        let stages = Stages {
            x_zero: Some(number(random.of(&[0.0, 7.0]))),
            w_zero: random.of(&[None, Some(number(3.0))]),
            scaled: (types[2] != DataType::Int32).then_some(scaled),
            ..Stages::default()
        };
        let threads = Threads { most: random.of(&[1, 3]), ..Threads::default() };
        let settings =
            Settings { threads, constant_weights: random.within(0, 1) == 0, ..Settings::default() };
        let operation = ConvolutionForward {
            x: 1,
            w: 2,
            y: 3,
            pre_padding: padding[0].to_vec(),
            post_padding: padding[1].to_vec(),
            stride,
            dilation,
            conv_mode: random.of(&[ConvMode::CrossCorrelation, ConvMode::Convolution]),
        };
        let run = |is_last: bool, isa: Isa| {
            let mut arrays = arrays.clone();
            run_planned(operation.clone().into(), DataType::Float, &mut arrays, |graph, node| {
                let convolution = convolution_of(graph, &node.node.operation);
                match is_last {
                    true => boxed(|| ChannelsLast::plan(&convolution, stages.clone(), isa, settings)),
                    false => boxed(|| Depthwise::plan(&convolution, stages.clone(), isa, settings)),
                }
            })
            .unwrap();
            arrays[2].values()
        };
        let expected = run(false, Isa::Portable);
        for isa in Isa::available() {
            assert_eq!(run(true, *isa), expected, "{isa:?}, seed {seed}: {dims:?} of {types:?}");
        }
    }
}
