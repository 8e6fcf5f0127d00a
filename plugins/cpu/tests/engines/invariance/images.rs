//! Images: convolutions, their gradients, pooling, batch normalization.

use hipdnn_plugin_sdk::graph::operation::{
    BatchnormInference, ConvolutionBackwardData, ConvolutionForward, Pointwise, ResampleBackward,
    ResampleForward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PaddingMode, PointwiseMode, ResampleMode};

use super::super::common::{Strides, channels_last, packed};
use super::{Problem, at_each_level, check};

const FLOAT: DataType = DataType::Float;

/// A convolution of square images.
#[derive(Clone, Copy, Debug)]
struct Shape {
    of: DataType,
    /// Channels in and out, and groups.
    channels: [i64; 3],
    side: i64,
    filter: i64,
    stride: i64,
    padding: i64,
}

impl Shape {
    const fn new(channels: [i64; 3], side: i64, filter: i64) -> Self {
        Self { of: FLOAT, channels, side, filter, stride: 1, padding: filter / 2 }
    }

    fn output(&self) -> i64 {
        (self.side + 2 * self.padding - self.filter) / self.stride + 1
    }

    fn x(&self, batch: i64) -> [i64; 4] {
        [batch, self.channels[0], self.side, self.side]
    }

    fn y(&self, batch: i64) -> [i64; 4] {
        [batch, self.channels[1], self.output(), self.output()]
    }

    fn w(&self) -> [i64; 4] {
        [self.channels[1], self.channels[0] / self.channels[2], self.filter, self.filter]
    }

    fn name(&self, what: &str, order: Strides) -> String {
        let layout = if order(&[2, 3, 4, 5])[1] == 1 { "channels last" } else { "channels first" };
        format!("{what}, {layout}, {self:?}")
    }

    fn forward(self, order: Strides, has_epilogue: bool) -> Problem {
        let what = if has_epilogue { "convolution with bias and ReLU" } else { "convolution" };
        let problem = Problem::new(self.name(what, order), move |batch| {
            let Self { of, stride, padding, .. } = self;
            let is_integer = of == DataType::Int8;
            batch.case.graph.compute_type = if is_integer { DataType::Int32 } else { FLOAT };
            let x = batch.items(of, &self.x(batch.len()), order);
            let w = batch.shared(of, &self.w(), order);
            let y = self.y(batch.len());
            let (pre_padding, post_padding) = (vec![padding; 2], vec![padding; 2]);
            let (stride, dilation, conv_mode) = (vec![stride; 2], vec![1; 2], ConvMode::CrossCorrelation);
            let node =
                |y| ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode };
            if !has_epilogue {
                let y = batch.result(if is_integer { DataType::Int32 } else { of }, &y, order);
                return batch.case.node(node(y));
            }
            let bias = batch.shared(FLOAT, &[1, self.channels[1], 1, 1], packed);
            let [sum, shifted] = [(); 2].map(|()| batch.case.virtual_tensor(FLOAT, &y, &order(&y)));
            let y = batch.result(of, &y, order);
            batch.case.node(node(sum));
            batch.case.node(Pointwise::new(PointwiseMode::Add, sum, Some(bias), shifted));
            batch.case.node(Pointwise::new(PointwiseMode::ReluFwd, shifted, None, y));
        });
        Problem { may_be_spoiled: self.of != DataType::Int8, ..problem }
    }

    fn backward_data(self, order: Strides) -> Problem {
        Problem::new(self.name("gradient of data", order), move |batch| {
            let Self { of, stride, padding, .. } = self;
            let dy = batch.items(of, &self.y(batch.len()), order);
            let w = batch.shared(of, &self.w(), packed);
            let dx = batch.result(of, &self.x(batch.len()), order);
            let (pre_padding, post_padding) = (vec![padding; 2], vec![padding; 2]);
            let (stride, dilation, conv_mode) = (vec![stride; 2], vec![1; 2], ConvMode::CrossCorrelation);
            batch.case.node(ConvolutionBackwardData {
                dy,
                w,
                dx,
                pre_padding,
                post_padding,
                stride,
                dilation,
                conv_mode,
            });
        })
    }
}

/// Shapes whose algorithm may follow from the batch.
fn shapes() -> Vec<Shape> {
    let three = Shape::new([32, 32, 1], 7, 3);
    vec![
        Shape::new([16, 16, 1], 4, 3),
        three,
        Shape { side: 14, ..three },
        Shape { channels: [64, 48, 1], ..three },
        Shape { channels: [20, 24, 2], ..three },
        Shape { stride: 2, side: 9, ..three },
        Shape { padding: 0, ..three },
        Shape::new([3, 24, 1], 12, 5),
        Shape { stride: 2, ..Shape::new([3, 16, 1], 15, 7) },
        Shape::new([40, 24, 1], 6, 1),
        Shape::new([100, 10, 1], 1, 1),
        Shape { padding: 0, ..Shape::new([12, 30, 1], 3, 3) },
        Shape::new([8, 8, 8], 9, 3),
        Shape::new([40, 40, 40], 5, 3),
        Shape::new([4, 2, 1], 5, 3),
    ]
}

#[test]
fn convolutions() {
    at_each_level("images::convolutions", || {
        let mut problems = Vec::new();
        for shape in shapes() {
            for order in [packed as Strides, channels_last] {
                problems.push(shape.forward(order, false));
                problems.push(shape.backward_data(order));
            }
            problems.push(Problem { constant_weights: true, ..shape.forward(packed, true) });
            problems.push(Shape { of: DataType::Bfloat16, ..shape }.forward(packed, true));
            problems.push(Shape { of: DataType::Half, ..shape }.forward(channels_last, false));
            problems.push(Shape { of: DataType::Int8, ..shape }.forward(packed, false));
        }
        let few = |problem| Problem { large: 17, ..problem };
        check(problems.into_iter().map(few).collect());
    });
}

fn pooling(
    of: DataType,
    mode: ResampleMode,
    order: Strides,
    [channels, side, window, stride]: [i64; 4],
) -> Problem {
    let layout = order(&[2, 3, 4, 5]);
    Problem::new(
        format!("{mode:?} of {} {channels} x {side}², {window}, {layout:?}", of.name()),
        move |batch| {
            let output = (side + 2 - window) / stride + 1;
            let x = batch.items(of, &[batch.len(), channels, side, side], order);
            let y = batch.result(of, &[batch.len(), channels, output, output], order);
            batch.case.node(ResampleForward {
                x,
                y,
                index: None,
                pre_padding: vec![1; 2],
                post_padding: vec![1; 2],
                stride: vec![stride; 2],
                window: vec![window; 2],
                resample_mode: mode,
                padding_mode: if mode == ResampleMode::Maxpool {
                    PaddingMode::NegInfPad
                } else {
                    PaddingMode::ZeroPad
                },
                generate_index: Some(false),
            });
        },
    )
}

fn gradient_of_mean(of: DataType, order: Strides, [channels, side, window, stride]: [i64; 4]) -> Problem {
    let layout = order(&[2, 3, 4, 5]);
    Problem::new(
        format!("gradient of mean of {} {channels} x {side}², {layout:?}", of.name()),
        move |batch| {
            let output = (side + 2 - window) / stride + 1;
            let dy = batch.items(of, &[batch.len(), channels, output, output], order);
            let dx = batch.result(of, &[batch.len(), channels, side, side], order);
            batch.case.node(ResampleBackward {
                dy,
                dx,
                index: None,
                pre_padding: vec![1; 2],
                post_padding: vec![1; 2],
                stride: vec![stride; 2],
                window: vec![window; 2],
                resample_mode: ResampleMode::AvgpoolExcludePadding,
                padding_mode: PaddingMode::ZeroPad,
            });
        },
    )
}

fn batchnorm(of: DataType, order: Strides, [channels, side]: [i64; 2]) -> Problem {
    let layout = order(&[2, 3, 4, 5]);
    Problem::new(
        format!("batch normalization of {} {channels} x {side}², {layout:?}", of.name()),
        move |batch| {
            let dims = [batch.len(), channels, side, side];
            let x = batch.items(of, &dims, order);
            let [mean, inv_variance, scale, bias] =
                [(); 4].map(|()| batch.shared(FLOAT, &[1, channels, 1, 1], packed));
            let y = batch.result(of, &dims, order);
            batch.case.node(BatchnormInference { x, mean, inv_variance, scale, bias, y });
        },
    )
}

#[test]
fn pooling_and_batchnorm() {
    at_each_level("images::pooling_and_batchnorm", || {
        let mut problems = Vec::new();
        for of in [FLOAT, DataType::Bfloat16] {
            for order in [packed as Strides, channels_last] {
                for sizes in [[3, 7, 3, 1], [20, 6, 2, 2], [5, 19, 5, 2], [33, 4, 3, 3]] {
                    for mode in [ResampleMode::Maxpool, ResampleMode::AvgpoolIncludePadding] {
                        problems.push(pooling(of, mode, order, sizes));
                    }
                    problems.push(gradient_of_mean(of, order, sizes));
                }
                problems.extend([[3, 5], [24, 7], [65, 2]].map(|sizes| batchnorm(of, order, sizes)));
            }
        }
        check(problems);
    });
}
