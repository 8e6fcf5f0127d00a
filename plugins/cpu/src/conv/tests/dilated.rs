//! Dilated convolutions, computed as convolutions of the phases of their images, or tap by tap.

use crate::conv::tests::{Case, Outline};
use crate::fusion::node::plan_node_at;
use crate::prepare::prepare;
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, cases, order, strides};

use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

const FORMS: [Algorithm; 2] = [Algorithm::Winograd, Algorithm::Winograd4];

/// A convolution with windows of 3 × 3 and a dilation along one axis or both.
pub(crate) fn case(random: &mut Random, [channels, rows, most]: [usize; 3]) -> Case {
    let outline = Outline {
        spatial: 2,
        batch: random.within(1, 3),
        groups: random.of(&[1, 1, 2]),
        channels,
        rows,
        most,
        window: Some((3, 1)),
    };
    let mut case = Case::of(random, &outline);
    case.dilation = random.of(&[[1, 2], [2, 1], [2, 2], [3, 3], [2, 3], [4, 5], [7, 7]]).to_vec();
    let mut dims = case.y.tensor.dims.clone();
    for axis in 0..2 {
        let (dilation, input) = (case.dilation[axis], case.x.tensor.dims[2 + axis]);
        case.pre[axis] = random.within(0, 2 * dilation as usize) as i64;
        // At least one output.
        case.post[axis] = (2 * dilation + 1 - input - case.pre[axis]).max(random.within(0, 9) as i64);
        dims[2 + axis] = input + case.pre[axis] + case.post[axis] - 2 * dilation;
    }
    let strides = strides(&dims, &order(4, random.within(0, 2)), random.of(&[0, 0, 3]));
    case.y = Array::new(3, case.y.tensor.data_type, &dims, &strides).filled(|| random.whole());
    case
}

/// Such a convolution of floats whose result is as large as its image, so that the middle of the window meets all of it.
pub(crate) fn same_size(random: &mut Random, sizes: [usize; 3]) -> Case {
    let mut case = case(random, sizes);
    (case.pre, case.post) = (case.dilation.clone(), case.dilation.clone());
    case.compute = DataType::Float;
    let (x, mut dims) = (&case.x.tensor, case.y.tensor.dims.clone());
    dims[2..].copy_from_slice(&x.dims[2..]);
    let y_strides = strides(&dims, &order(4, random.within(0, 2)), random.of(&[0, 0, 3]));
    case.x = Array::new(1, DataType::Float, &x.dims, &x.strides).filled(|| random.whole());
    case.y = Array::new(3, DataType::Float, &dims, &y_strides).filled(|| random.whole());
    case
}

/// Whether a case is computed by phases, or by taps, as `parts` says.
fn is_by(parts: &str, case: &Case, isa: Isa, convolution: Algorithm) -> bool {
    let tensors = [&case.x, &case.w, &case.y].map(|array| array.tensor.clone()).to_vec();
    let operation = case.operation(Direction::Forward);
    let node = Node { name: "n".to_owned(), compute_type: case.compute, operation };
    let graph = Graph { tensors, nodes: vec![node], ..Graph::default() };
    let prepared = prepare(&graph).unwrap();
    let settings = Settings { convolution, ..Settings::default() };
    let node = prepared.nodes().next().unwrap();
    plan_node_at(&graph, &node, isa, settings).unwrap().facts().tile.contains(parts)
}

#[test]
fn phases_of_any_shape_and_layout_and_nan_and_infinity_do_not_spread() {
    let (mut random, mut by_phases) = (Random::new(41), 0);
    let all = cases(200) as usize;
    for round in 0..all {
        let sizes = [random.within(2, 9), random.within(1, 19), [8, 20, 40][round % 3]];
        let mut case = case(&mut random, sizes);
        // Double precision has no Winograd.
        case.compute = DataType::Float;
        if round % 5 == 0 {
            case.spoil(&mut random, round / 5 % 3);
        }
        let expected = case.expected(Direction::Forward);
        for (isa, form) in Isa::available().iter().flat_map(|isa| FORMS.map(|form| (isa, form))) {
            case.check_at(Direction::Forward, *isa, form, &expected);
        }
        by_phases += usize::from(is_by("phases", &case, Isa::detect(), Algorithm::Winograd));
    }
    assert!(2 * by_phases > all, "{by_phases} of {all}");
}

/// Layers of networks that segment images: by phases, unless their filters would be kept too often.
#[test]
fn large_layers_are_computed_by_phases() {
    use crate::conv::tests::plain;
    use hipdnn_plugin_sdk::graph::ConvMode;
    for ([channels, rows, side, dilation], expected) in
        [([256, 256, 28, 2], true), ([512, 512, 28, 4], true), ([2048, 256, 33, 12], false)]
    {
        let mut case = plain([1, 1, 1, 1], [1, 1, 1, 1], 1, 0, ConvMode::CrossCorrelation);
        (case.pre, case.post, case.dilation) = (vec![dilation; 2], vec![dilation; 2], vec![dilation; 2]);
        case.x.tensor = crate::testing::packed(1, case.compute, &[1, channels, side, side]);
        case.w.tensor = crate::testing::packed(2, case.compute, &[rows, channels, 3, 3]);
        case.y.tensor = crate::testing::packed(3, case.compute, &[1, rows, side, side]);
        assert_eq!(
            is_by("phases", &case, Isa::detect(), Algorithm::Automatic),
            expected,
            "{channels} channels"
        );
    }
}

/// Windows that are mostly in the padding, of any shape and layout; NaN and infinity reach what meets them only.
#[test]
fn taps_that_meet_parts_of_the_image_are_summed() {
    let (mut random, mut by_taps) = (Random::new(43), 0);
    let all = cases(200) as usize;
    for round in 0..all {
        let sizes = [random.within(2, 20), random.within(1, 40), 7];
        let mut case = same_size(&mut random, sizes);
        if round % 5 == 0 {
            case.spoil(&mut random, round / 5 % 3);
        }
        let expected = case.expected(Direction::Forward);
        for isa in Isa::available() {
            case.check_at(Direction::Forward, *isa, Algorithm::Automatic, &expected);
        }
        by_taps += usize::from(is_by("taps", &case, Isa::detect(), Algorithm::Automatic));
    }
    assert!(8 * by_taps > all, "{by_taps} of {all}");
}

/// Layers of networks that segment images, at the end of a backbone.
#[test]
fn layers_with_mostly_padding_are_computed_by_taps() {
    use crate::conv::tests::plain;
    use hipdnn_plugin_sdk::graph::ConvMode;
    for ([side, dilation], expected) in [([10, 3], true), ([10, 9], true), ([33, 12], true), ([33, 2], false)]
    {
        let mut case = plain([1, 1, 1, 1], [1, 1, 1, 1], 1, 0, ConvMode::CrossCorrelation);
        (case.pre, case.post, case.dilation) = (vec![dilation; 2], vec![dilation; 2], vec![dilation; 2]);
        case.x.tensor = crate::testing::packed(1, DataType::Float, &[1, 1280, side, side]);
        case.w.tensor = crate::testing::packed(2, DataType::Float, &[256, 1280, 3, 3]);
        case.y.tensor = crate::testing::packed(3, DataType::Float, &[1, 256, side, side]);
        case.compute = DataType::Float;
        assert_eq!(is_by("taps", &case, Isa::detect(), Algorithm::Automatic), expected, "{side}, {dilation}");
    }
}
