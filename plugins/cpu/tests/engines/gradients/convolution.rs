//! Gradients of convolutions: of images and of filters.

use hipdnn_plugin_sdk::graph::ConvMode;
use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
};

use super::Check;
use crate::engines::common::Random;

struct Shape {
    x: Vec<i64>,
    w: Vec<i64>,
    y: Vec<i64>,
    pre: Vec<i64>,
    post: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
}

impl Shape {
    /// A random shape with these groups and channels of x and y per group; sometimes with asymmetric padding,
    /// dilation and strides.
    fn random(random: &mut Random, spatial: usize, groups: i64, [c, k]: [i64; 2]) -> Self {
        let n = random.int(1, 2);
        let mut shape = Self {
            x: vec![n, groups * c],
            w: vec![groups * k, c],
            y: vec![n, groups * k],
            pre: vec![],
            post: vec![],
            stride: vec![],
            dilation: vec![],
        };
        for _ in 0..spatial {
            let (window, stride, dilation) = (random.int(1, 3), random.int(1, 3), random.int(1, 2));
            let reach = (window - 1) * dilation + 1;
            // Every window contains an element of the image, so that there is a gradient.
            let [pre, post] = [(); 2].map(|()| random.int(0, (reach - 1).min(2)));
            let least = (reach - pre - post).max(dilation);
            let input = random.int(least, [9, 6, 5][spatial - 1]);
            shape.x.push(input);
            shape.w.push(window);
            shape.y.push((input + pre + post - reach) / stride + 1);
            shape.pre.push(pre);
            shape.post.push(post);
            shape.stride.push(stride);
            shape.dilation.push(dilation);
        }
        shape
    }
}

fn check(seed: u64, spatial: usize, groups: i64, channels: [i64; 2], conv_mode: ConvMode) {
    let mut check = Check::new(seed);
    let shape = Shape::random(&mut check.random, spatial, groups, channels);
    let x = check.given(&shape.x, -1.0, 1.0);
    let w = check.given(&shape.w, 0.25, 1.0);
    let y = check.tensor(&shape.y);
    let dy = check.weights(y);
    let [dx, dw] = [x, w].map(|of| check.gradient(of));
    let Shape { pre: pre_padding, post: post_padding, stride, dilation, .. } = shape;
    check.forward(ConvolutionForward {
        x,
        w,
        y,
        pre_padding: pre_padding.clone(),
        post_padding: post_padding.clone(),
        stride: stride.clone(),
        dilation: dilation.clone(),
        conv_mode,
    });
    check.backward(ConvolutionBackwardData {
        dy,
        w,
        dx,
        pre_padding: pre_padding.clone(),
        post_padding: post_padding.clone(),
        stride: stride.clone(),
        dilation: dilation.clone(),
        conv_mode,
    });
    check.backward(ConvolutionBackwardFilter {
        x,
        dy,
        dw,
        pre_padding,
        post_padding,
        stride,
        dilation,
        conv_mode,
    });
    check.holds(1e-8);
}

#[test]
fn of_every_rank_and_grouping() {
    let modes = [ConvMode::CrossCorrelation, ConvMode::Convolution];
    let mut seed = 0;
    for spatial in 1..=3 {
        // One group, several, and depthwise with one or two filters per channel.
        for (groups, channels) in [(1, [3, 2]), (2, [2, 3]), (3, [1, 2]), (4, [1, 1])] {
            for mode in modes {
                for _ in 0..3 {
                    seed += 1;
                    check(seed, spatial, groups, channels, mode);
                }
            }
        }
    }
}
