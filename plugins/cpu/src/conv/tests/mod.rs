mod activation;
mod algorithms;
mod as_matmul;
mod bytes;
mod converted;
mod cropped;
mod dilated;
mod direct;
mod direct_small;
mod epilogue;
mod im2col;
mod list;
mod rows;
mod winograd;

use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Graph, Operation};

use crate::conv::operands::Operands;
use crate::conv::spatial::{Spatial, three};
use crate::fusion::node::plan_node_at;
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, convolution_of, order, packed, run, run_planned, same, strides};

/// A convolution of random shape with its three tensors.
pub(crate) struct Case {
    spatial: usize,
    groups: usize,
    pre: Vec<i64>,
    post: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    mode: ConvMode,
    compute: DataType,
    pub(crate) x: Array,
    pub(crate) w: Array,
    pub(crate) y: Array,
}

/// The properties of a convolution that are fixed before the rest is random.
pub(crate) struct Outline {
    pub(crate) spatial: usize,
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    /// Channels of x and of y in a group.
    pub(crate) channels: usize,
    pub(crate) rows: usize,
    /// The longest side of an image.
    pub(crate) most: usize,
    /// The sides and strides of a window without dilation.
    pub(crate) window: Option<(i64, i64)>,
}

const TYPES: [DataType; 4] = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

impl Case {
    fn random(random: &mut Random) -> Self {
        let spatial = random.within(1, 3);
        let outline = Outline {
            spatial,
            groups: random.of(&[1, 1, 1, 2, 3]),
            batch: random.within(1, 5),
            channels: random.of(&[1, 2, 3, 4, 6, 9]),
            rows: random.within(1, 19),
            most: [0, 40, 13, 6][spatial],
            window: None,
        };
        Self::of(random, &outline)
    }

    pub(crate) fn of(random: &mut Random, outline: &Outline) -> Self {
        let Outline { spatial, batch, groups, channels, rows, most, window } = *outline;
        let mut case = |low: usize, high: usize| -> Vec<i64> {
            (0..spatial).map(|_| random.within(low, high) as i64).collect()
        };
        let (mut pre, mut post) = (case(0, 2), case(0, 2));
        let (mut stride, mut dilation, mut sides) = (case(1, 3), case(1, 2), case(1, 4));
        let mut input = case(1, most);
        if let Some((side, step)) = window {
            (stride, dilation, sides) = (vec![step; spatial], vec![1; spatial], vec![side; spatial]);
        } else if random.within(0, 5) == 0 {
            // A window that covers its image.
            (pre, post, dilation) = (vec![0; spatial], vec![0; spatial], vec![1; spatial]);
            input.clone_from(&sides);
        }
        let window = sides;
        let mut output = Vec::new();
        for i in 0..spatial {
            let reach = (window[i] - 1) * dilation[i] + 1;
            input[i] = input[i].max(reach - pre[i] - post[i]);
            output.push((input[i] + pre[i] + post[i] - reach) / stride[i] + 1);
        }
        let shape = |first: usize, second: usize, rest: &[i64]| -> Vec<i64> {
            [first as i64, second as i64].into_iter().chain(rest.iter().copied()).collect()
        };
        let one_type = random.of(&[true, true, false]).then(|| random.of(&TYPES));
        let mut array = |uid: i64, dims: Vec<i64>| {
            let data_type = one_type.unwrap_or_else(|| random.of(&TYPES));
            let strides = strides(&dims, &order(spatial + 2, random.within(0, 2)), random.of(&[0, 0, 3]));
            Array::new(uid, data_type, &dims, &strides).filled(|| random.whole())
        };
        Self {
            x: array(1, shape(batch, groups * channels, &input)),
            w: array(2, shape(groups * rows, channels, &window)),
            y: array(3, shape(batch, groups * rows, &output)),
            spatial,
            groups,
            pre,
            post,
            stride,
            dilation,
            mode: random.of(&[ConvMode::CrossCorrelation, ConvMode::Convolution]),
            compute: random.of(&[DataType::Float, DataType::Float, DataType::Double]),
        }
    }

    pub(crate) fn operation(&self, direction: Direction) -> Operation {
        let (x, w, y) = (1, 2, 3);
        let (pre_padding, post_padding) = (self.pre.clone(), self.post.clone());
        let (stride, dilation, conv_mode) = (self.stride.clone(), self.dilation.clone(), self.mode);
        match direction {
            Direction::Forward => {
                ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode }.into()
            }
            Direction::BackwardData => ConvolutionBackwardData {
                dy: y,
                w,
                dx: x,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            }
            .into(),
            Direction::BackwardFilter => ConvolutionBackwardFilter {
                x,
                dy: y,
                dw: w,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            }
            .into(),
        }
    }

    /// The operands of the forward convolution.
    fn forward(&self) -> Operands {
        let tensors = [&self.x, &self.w, &self.y].map(|array| array.tensor.clone()).to_vec();
        let graph = Graph { tensors, ..Graph::default() };
        let convolution = convolution_of(&graph, &self.operation(Direction::Forward));
        Spatial::of(&convolution).unwrap().forward()
    }

    /// The array that a direction writes.
    fn result(&self, direction: Direction) -> &Array {
        match direction {
            Direction::Forward => &self.y,
            Direction::BackwardData => &self.x,
            Direction::BackwardFilter => &self.w,
        }
    }

    /// Calls `each` with the packed offsets in x, w and y of all multiplications, the last dimension fastest.
    fn for_each_multiplication(&self, mut each: impl FnMut(usize, usize, usize)) {
        let [x, w, y] = [&self.x, &self.w, &self.y].map(|array| {
            let dims: Vec<usize> = array.tensor.dims.iter().map(|d| *d as usize).collect();
            (dims[0], dims[1], three(self.spatial, 1, &dims[2..]))
        });
        let number = |values: &[i64]| values.iter().map(|v| *v as usize).collect::<Vec<_>>();
        let stride = three(self.spatial, 1, &number(&self.stride));
        let dilation = three(self.spatial, 1, &number(&self.dilation));
        let pre = three(self.spatial, 0, &number(&self.pre));
        let rows = w.0 / self.groups;
        let offset = |first: usize, channels: usize, second: usize, size: [usize; 3], at: [usize; 3]| {
            (((first * channels + second) * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2]
        };
        let boxed = |size: [usize; 3]| {
            (0..size.iter().product())
                .map(move |i: usize| [i / (size[1] * size[2]), i / size[2] % size[1], i % size[2]])
        };
        for at in boxed(y.2) {
            for tap in boxed(w.2) {
                let mirrored = [0, 1, 2].map(|i| w.2[i] - 1 - tap[i]);
                let turned = if self.mode == ConvMode::Convolution { mirrored } else { tap };
                let met =
                    [0, 1, 2].map(|i| (at[i] * stride[i] + turned[i] * dilation[i]).wrapping_sub(pre[i]));
                if (0..3).any(|i| met[i] >= x.2[i]) {
                    continue;
                }
                for n in 0..y.0 {
                    for k in 0..w.0 {
                        for c in 0..w.1 {
                            each(
                                offset(n, x.1, k / rows * w.1 + c, x.2, met),
                                offset(k, w.1, c, w.2, tap),
                                offset(n, y.1, k, y.2, at),
                            );
                        }
                    }
                }
            }
        }
    }

    /// The packed result of a direction, by plain sums.
    pub(crate) fn expected(&self, direction: Direction) -> Vec<f64> {
        let [mut x, mut w, mut y] = [&self.x, &self.w, &self.y].map(Array::values);
        match direction {
            Direction::Forward => {
                y.fill(0.0);
                self.for_each_multiplication(|i, j, k| y[k] += x[i] * w[j]);
                y
            }
            Direction::BackwardData => {
                x.fill(0.0);
                self.for_each_multiplication(|i, j, k| x[i] += y[k] * w[j]);
                x
            }
            Direction::BackwardFilter => {
                w.fill(0.0);
                self.for_each_multiplication(|i, j, k| w[j] += y[k] * x[i]);
                w
            }
        }
    }

    /// The result of a direction, computed with these settings.
    fn run(&self, direction: Direction, isa: Isa, settings: Settings) -> Array {
        let mut arrays = [self.x.clone(), self.w.clone(), self.y.clone()];
        run_planned(self.operation(direction), self.compute, &mut arrays, |graph, node| {
            plan_node_at(graph, node, isa, settings)
        })
        .unwrap();
        let uid = self.result(direction).tensor.uid;
        arrays.into_iter().find(|array| array.tensor.uid == uid).unwrap()
    }

    pub(crate) fn check_all(&self, isas: &[Isa]) {
        DIRECTIONS.into_iter().for_each(|direction| self.check(direction, isas));
    }

    pub(crate) fn check(&self, direction: Direction, isas: &[Isa]) {
        let expected = self.expected(direction);
        for isa in isas {
            self.check_at(direction, *isa, Algorithm::Automatic, &expected);
            if direction != Direction::BackwardFilter {
                self.check_at(direction, *isa, Algorithm::Direct, &expected);
                self.check_at(direction, *isa, Algorithm::Im2col, &expected);
            }
        }
    }

    /// Puts NaN or infinity into one of x, w and y.
    pub(crate) fn spoil(&mut self, random: &mut Random, which: usize) {
        let array = [&mut self.x, &mut self.w, &mut self.y].into_iter().nth(which).unwrap();
        for _ in 0..random.within(1, 2) {
            let index: Vec<usize> =
                array.tensor.dims.iter().map(|dim| random.within(0, *dim as usize - 1)).collect();
            array.set(&index, random.of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]));
        }
    }

    /// The error bound for results of small integers.
    fn bound(&self, direction: Direction, convolution: Algorithm) -> f64 {
        let may_be_chosen = direction != Direction::BackwardFilter
            && self.compute == DataType::Float
            && self.w.tensor.dims[2..] == [3, 3]
            && self.stride == [1, 1];
        if convolution != Algorithm::Winograd4 && (convolution != Algorithm::Automatic || !may_be_chosen) {
            return 0.0;
        }
        // Values are at most 3, in sums over the channels of either side.
        let channels = self.w.tensor.dims[0].max(self.w.tensor.dims[1]) as f64;
        let eps = if self.compute == DataType::Double { 2.0_f64.powi(-53) } else { 2.0_f64.powi(-24) };
        176.0 * (channels + 18.0) * eps * channels * 3.0 * 27.0
    }

    fn check_at(&self, direction: Direction, isa: Isa, convolution: Algorithm, expected: &[f64]) {
        let array = self.run(direction, isa, Settings { convolution, ..Settings::default() });
        let bound = self.bound(direction, convolution);
        for (index, (got, expected)) in array.values().into_iter().zip(expected).enumerate() {
            let [least, most] = [-bound, bound].map(|bound| array.rounded(*expected + bound));
            assert!(
                same(got, least) || (least..=most).contains(&got),
                "{direction:?} at {isa:?}, {convolution:?}, element {index} is {got}, expected {expected}\nx {:?}\nw {:?}\ny {:?}\npre {:?} post {:?} stride {:?} dilation {:?} {:?} compute {:?}",
                self.x.tensor,
                self.w.tensor,
                self.y.tensor,
                self.pre,
                self.post,
                self.stride,
                self.dilation,
                self.mode,
                self.compute,
            );
        }
    }
}

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];

#[test]
fn equals_plain_sums() {
    // Small integers: every sum is exact in any order.
    let mut random = Random::new(1);
    for _ in 0..120 {
        let case = Case::random(&mut random);
        case.check_all(Isa::available());
    }
}

#[test]
fn nan_and_infinity_do_not_spread() {
    let mut random = Random::new(2);
    for round in 0..60 {
        let mut case = Case::random(&mut random);
        case.spoil(&mut random, round % 3);
        case.check_all(Isa::available());
    }
}

/// Windows with strides over rows and columns, whose images' gradients contain zeros.
#[test]
fn strides_leave_zeros_in_gradients() {
    let mut random = Random::new(8);
    for round in 0..60 {
        let spatial = random.within(1, 3);
        let outline = Outline {
            spatial,
            groups: random.of(&[1, 1, 2]),
            batch: random.within(1, 4),
            channels: random.within(1, 19),
            rows: random.within(1, 9),
            most: [0, 90, 21, 6][spatial],
            window: Some((1, random.of(&[2, 2, 3]))),
        };
        let mut case = Case::of(&mut random, &outline);
        if round % 4 == 0 {
            case.spoil(&mut random, 1 + round / 4 % 2);
        }
        case.check(Direction::BackwardData, Isa::available());
    }
}

/// The same with dilations equal to the strides, for every algorithm.
#[test]
fn strides_leave_zeros_with_dilated_windows() {
    let mut case = plain([2, 24, 21, 20], [24, 24, 5, 5], 2, 2, ConvMode::CrossCorrelation);
    let (mut random, dims) = (Random::new(9), [24, 24, 3, 3]);
    case.w = Array::packed(2, DataType::Float, &dims).filled(|| random.whole());
    case.dilation = vec![2; 2];
    let expected = case.expected(Direction::BackwardData);
    for isa in Isa::available() {
        for algorithm in [
            Algorithm::Automatic,
            Algorithm::ImplicitGemm,
            Algorithm::Unrolled,
            Algorithm::Direct,
            Algorithm::Winograd,
        ] {
            case.check_at(Direction::BackwardData, *isa, algorithm, &expected);
        }
    }
}

pub(crate) fn plain(x: [i64; 4], w: [i64; 4], stride: i64, padding: i64, mode: ConvMode) -> Case {
    let mut random = Random::new(3);
    let spatial = |i: usize| (x[i] + 2 * padding - w[i]) / stride + 1;
    let y = [x[0], w[0], spatial(2), spatial(3)];
    let mut array =
        |uid, dims: &[i64; 4]| Array::packed(uid, DataType::Float, dims).filled(|| random.whole());
    Case {
        spatial: 2,
        groups: (x[1] / w[1]) as usize,
        pre: vec![padding; 2],
        post: vec![padding; 2],
        stride: vec![stride; 2],
        dilation: vec![1; 2],
        mode,
        compute: DataType::Float,
        x: array(1, &x),
        w: array(2, &w),
        y: array(3, &y),
    }
}

#[test]
fn work_for_several_threads() {
    let correlation = ConvMode::CrossCorrelation;
    for case in [
        plain([24, 16, 8, 8], [32, 16, 3, 3], 1, 1, correlation),
        plain([1, 8, 60, 61], [40, 8, 3, 3], 1, 1, correlation),
        plain([2, 64, 7, 7], [70, 64, 3, 3], 2, 1, ConvMode::Convolution),
        // Small images of several blocks, with two panels of output channels.
        plain([37, 24, 8, 8], [70, 24, 3, 3], 2, 1, correlation),
        plain([9, 20, 6, 6], [48, 20, 3, 3], 1, 0, correlation),
        plain([2, 40, 30, 31], [40, 1, 3, 3], 1, 1, correlation),
        plain([8, 64, 14, 14], [64, 64, 1, 1], 1, 0, correlation),
        plain([3, 64, 29, 28], [64, 64, 1, 1], 2, 0, correlation),
        plain([5, 64, 28, 15], [64, 64, 1, 1], 3, 0, correlation),
    ] {
        case.check_all(&[Isa::detect()]);
    }
}

/// Images with several blocks of outputs along any dimension.
#[test]
fn filters_of_larger_images() {
    let mut random = Random::new(5);
    for round in 0..36 {
        let spatial = random.within(1, 3);
        let outline = Outline {
            spatial,
            batch: random.within(1, 3),
            groups: random.of(&[1, 1, 2]),
            channels: random.within(1, 5),
            rows: random.within(5, 50),
            most: [0, 1400, 44, 13][spatial],
            window: None,
        };
        let mut case = Case::of(&mut random, &outline);
        if round % 4 == 0 {
            case.spoil(&mut random, round / 4 % 3);
        }
        case.check(Direction::BackwardFilter, Isa::available());
    }
}

/// 1 × 1 windows, with row and column counts that fill no tile, some of which are smaller than a tile.
#[test]
fn windows_of_one_element() {
    let mut random = Random::new(4);
    for _ in 0..60 {
        let (groups, rows) = (random.of(&[1, 1, 2]), random.within(1, 21) as i64);
        let (channels, batch) = (random.within(1, 9) as i64, random.within(1, 3) as i64);
        let (height, width) = (random.within(1, 9) as i64, random.of(&[1, 7, 8, 16, 49]));
        let mut case = plain(
            [batch, groups * channels, height, width],
            [groups * rows, channels, 1, 1],
            1,
            0,
            ConvMode::CrossCorrelation,
        );
        // Gaps between images, which the kernels neither read nor write.
        for array in [&mut case.x, &mut case.y] {
            let mut strides = array.tensor.strides.clone();
            strides[0] += random.of(&[0, 5]);
            let dims = array.tensor.dims.clone();
            *array = Array::new(array.tensor.uid, DataType::Float, &dims, &strides).filled(|| random.whole());
        }
        case.check_all(Isa::available());
    }
}

#[test]
fn windows_as_large_as_their_image() {
    let case = plain([5, 3, 8, 8], [10, 3, 8, 8], 1, 0, ConvMode::CrossCorrelation);
    case.check_all(&[Isa::detect()]);
}

#[test]
fn too_large_convolutions_are_refused() {
    let mut case = plain([1, 1, 4, 4], [1, 1, 1, 1], 1, 0, ConvMode::CrossCorrelation);
    let far = 1 << 40;
    for (array, dims) in
        [(&mut case.x, [1, 1, far, 4]), (&mut case.w, [1, 1, 1, 1]), (&mut case.y, [1, 1, far, 4])]
    {
        array.tensor = packed(array.tensor.uid, DataType::Float, &dims);
    }
    for direction in DIRECTIONS {
        let mut arrays = [case.x.clone(), case.w.clone(), case.y.clone()];
        let refusal = run(case.operation(direction), DataType::Float, Isa::detect(), &mut arrays);
        assert!(refusal.unwrap_err().contains("positions"));
    }
}
