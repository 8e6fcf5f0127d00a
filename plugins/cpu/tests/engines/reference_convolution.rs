//! The reference convolutions against sums over padded arrays, and their gradients against the linear map.

use super::common::{Case, Random, Strides, channels_last, packed, strides};
use hipdnn_cpu_plugin::plan::planner::Planner;
use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType};

/// A convolution's parameters; at most two spatial dimensions are checked against the explicit sum.
#[derive(Clone, Debug)]
struct Shape {
    x: Vec<i64>,
    w: Vec<i64>,
    y: Vec<i64>,
    pre: Vec<i64>,
    post: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    mode: ConvMode,
}

impl Shape {
    fn random(random: &mut Random, spatial: usize) -> Self {
        loop {
            let groups = random.int(1, 3);
            let (c, k) = (random.int(1, 3), random.int(1, 3));
            let mut shape = Self {
                x: vec![random.int(1, 2), groups * c],
                w: vec![groups * k, c],
                y: vec![0, groups * k],
                pre: vec![],
                post: vec![],
                stride: vec![],
                dilation: vec![],
                mode: random.one_of(&[ConvMode::Convolution, ConvMode::CrossCorrelation]),
            };
            shape.y[0] = shape.x[0];
            let mut possible = true;
            for _ in 0..spatial {
                let (input, window) = (random.int(1, 6), random.int(1, 3));
                let (pre, post) = (random.int(0, 2), random.int(0, 2));
                let (stride, dilation) = (random.int(1, 3), random.int(1, 3));
                let room = input + pre + post - dilation * (window - 1) - 1;
                possible &= room >= 0;
                shape.x.push(input);
                shape.w.push(window);
                shape.y.push(room.max(0) / stride + 1);
                shape.pre.push(pre);
                shape.post.push(post);
                shape.stride.push(stride);
                shape.dilation.push(dilation);
            }
            if possible {
                return shape;
            }
        }
    }

    fn forward(&self, x: &[f64], w: &[f64], layout: Strides) -> Vec<f64> {
        let mut case = Case::new();
        let [xt, wt, yt] =
            [&self.x, &self.w, &self.y].map(|dims| case.tensor_with(DataType::Float, dims, &layout(dims)));
        case.fill(xt, x);
        case.fill(wt, w);
        case.node(ConvolutionForward {
            x: xt,
            w: wt,
            y: yt,
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            conv_mode: self.mode,
        });
        case.run(Planner::Reference);
        case.values(yt)
    }

    fn backward_data(&self, dy: &[f64], w: &[f64], layout: Strides) -> Vec<f64> {
        let mut case = Case::new();
        let [xt, wt, yt] =
            [&self.x, &self.w, &self.y].map(|dims| case.tensor_with(DataType::Float, dims, &layout(dims)));
        case.fill(yt, dy);
        case.fill(wt, w);
        case.node(ConvolutionBackwardData {
            dy: yt,
            w: wt,
            dx: xt,
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            conv_mode: self.mode,
        });
        case.run(Planner::Reference);
        case.values(xt)
    }

    fn backward_filter(&self, x: &[f64], dy: &[f64], layout: Strides) -> Vec<f64> {
        let mut case = Case::new();
        let [xt, wt, yt] =
            [&self.x, &self.w, &self.y].map(|dims| case.tensor_with(DataType::Float, dims, &layout(dims)));
        case.fill(xt, x);
        case.fill(yt, dy);
        case.node(ConvolutionBackwardFilter {
            x: xt,
            dy: yt,
            dw: wt,
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            conv_mode: self.mode,
        });
        case.run(Planner::Reference);
        case.values(wt)
    }
}

fn count(dims: &[i64]) -> usize {
    dims.iter().product::<i64>() as usize
}

/// Small integers, whose sums are exact in single precision.
fn integers(random: &mut Random, dims: &[i64]) -> Vec<f64> {
    (0..count(dims)).map(|_| random.int(-4, 4) as f64).collect()
}

/// The forward sum in two dimensions, over an explicitly padded input and dilated, mirrored filter.
fn written_out(s: &Shape, x: &[f64], w: &[f64]) -> Vec<f64> {
    let n = |v: i64| v as usize;
    let (c, c_group, k) = (n(s.x[1]), n(s.w[1]), n(s.w[0]));
    let groups = c / c_group;
    let (h, wd) = (n(s.x[2]), n(s.x[3]));
    let (ph, pw) = (n(s.pre[0] + s.post[0]) + h, n(s.pre[1] + s.post[1]) + wd);
    let (fh, fw) = (n(s.dilation[0] * (s.w[2] - 1)) + 1, n(s.dilation[1] * (s.w[3] - 1)) + 1);
    let mut y = Vec::new();
    for image in 0..n(s.x[0]) {
        let mut padded = vec![vec![vec![0.0; pw]; ph]; c];
        for (channel, plane) in padded.iter_mut().enumerate() {
            for i in 0..h {
                for j in 0..wd {
                    plane[i + n(s.pre[0])][j + n(s.pre[1])] = x[((image * c + channel) * h + i) * wd + j];
                }
            }
        }
        for filter in 0..k {
            let group = filter / (k / groups);
            let mut spread = vec![vec![vec![0.0; fw]; fh]; c_group];
            for (channel, plane) in spread.iter_mut().enumerate() {
                for i in 0..n(s.w[2]) {
                    for j in 0..n(s.w[3]) {
                        let value = w[((filter * c_group + channel) * n(s.w[2]) + i) * n(s.w[3]) + j];
                        let (mut a, mut b) = (i * n(s.dilation[0]), j * n(s.dilation[1]));
                        if s.mode == ConvMode::Convolution {
                            (a, b) = (fh - 1 - a, fw - 1 - b);
                        }
                        plane[a][b] = value;
                    }
                }
            }
            let mut top = 0;
            while top + fh <= ph {
                let mut left = 0;
                while left + fw <= pw {
                    let mut sum = 0.0;
                    for channel in 0..c_group {
                        for i in 0..fh {
                            for j in 0..fw {
                                sum += padded[group * c_group + channel][top + i][left + j]
                                    * spread[channel][i][j];
                            }
                        }
                    }
                    y.push(sum);
                    left += n(s.stride[1]);
                }
                top += n(s.stride[0]);
            }
        }
    }
    y
}

#[test]
fn forward_matches_the_explicit_sum() {
    let mut random = Random(1);
    for _ in 0..60 {
        let shape = Shape::random(&mut random, 2);
        let (x, w) = (integers(&mut random, &shape.x), integers(&mut random, &shape.w));
        let expected = written_out(&shape, &x, &w);
        assert_eq!(shape.forward(&x, &w, packed), expected, "{shape:?}");
        assert_eq!(shape.forward(&x, &w, channels_last), expected, "{shape:?}");
    }
}

#[test]
fn fewer_and_more_dimensions_agree_with_two() {
    // A dimension of 1 with a window of 1 changes nothing, wherever it is.
    let mut random = Random(2);
    for _ in 0..20 {
        let shape = Shape::random(&mut random, 1);
        let (x, w) = (integers(&mut random, &shape.x), integers(&mut random, &shape.w));
        let one = shape.forward(&x, &w, packed);
        for spatial in 2..=5 {
            for place in [0, spatial - 1] {
                let mut wide = shape.clone();
                for _ in 1..spatial {
                    let at = if place == 0 { 0 } else { wide.pre.len() };
                    for dims in [&mut wide.x, &mut wide.w, &mut wide.y] {
                        dims.insert(2 + at, 1);
                    }
                    for numbers in [&mut wide.pre, &mut wide.post] {
                        numbers.insert(at, 0);
                    }
                    for numbers in [&mut wide.stride, &mut wide.dilation] {
                        numbers.insert(at, 1);
                    }
                }
                assert_eq!(wide.forward(&x, &w, packed), one, "{wide:?}");
            }
        }
        let two = Shape { x: [&shape.x[..], &[1]].concat(), ..shape.clone() };
        let two = Shape {
            w: [&shape.w[..], &[1]].concat(),
            y: [&shape.y[..], &[1]].concat(),
            pre: [&shape.pre[..], &[0]].concat(),
            post: [&shape.post[..], &[0]].concat(),
            stride: [&shape.stride[..], &[1]].concat(),
            dilation: [&shape.dilation[..], &[1]].concat(),
            ..two
        };
        assert_eq!(one, written_out(&two, &x, &w), "{shape:?}");
    }
}

#[test]
fn a_volume_is_a_sum_of_planes() {
    // With a depth of 1 in y and a window as deep as x, the volume is the sum of its planes' convolutions.
    let mut random = Random(3);
    for mode in [ConvMode::Convolution, ConvMode::CrossCorrelation] {
        let mut shape = Shape::random(&mut random, 2);
        shape.mode = mode;
        let depth = 3;
        let mut volume = shape.clone();
        volume.x.insert(2, depth);
        volume.w.insert(2, depth);
        volume.y.insert(2, 1);
        for (numbers, value) in
            [(&mut volume.pre, 0), (&mut volume.post, 0), (&mut volume.stride, 1), (&mut volume.dilation, 1)]
        {
            numbers.insert(0, value);
        }
        let (x, w) = (integers(&mut random, &volume.x), integers(&mut random, &volume.w));
        let plane = |values: &[f64], dims: &[i64], at: i64| -> Vec<f64> {
            let inner = count(&dims[3..]);
            values.chunks(inner).skip(at as usize).step_by(depth as usize).flatten().copied().collect()
        };
        let mut expected = vec![0.0; count(&shape.y)];
        for at in 0..depth {
            let w_at = if mode == ConvMode::Convolution { depth - 1 - at } else { at };
            let part = shape.forward(&plane(&x, &volume.x, at), &plane(&w, &volume.w, w_at), packed);
            expected.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        assert_eq!(volume.forward(&x, &w, packed), expected);
        assert_eq!(volume.forward(&x, &w, channels_last), expected);
    }
}

/// The map is linear in x and in w, so the gradient of Σ dy · y is exactly its value for each unit vector.
#[test]
fn gradients_are_those_of_the_linear_map() {
    let mut random = Random(4);
    let mirrored_order = |dims: &[i64]| strides(dims, &(0..dims.len()).rev().collect::<Vec<_>>());
    for spatial in [1, 2, 2, 2, 3, 3] {
        for _ in 0..4 {
            let shape = Shape::random(&mut random, spatial);
            let (x, w) = (integers(&mut random, &shape.x), integers(&mut random, &shape.w));
            let dy = integers(&mut random, &shape.y);
            let along = |y: Vec<f64>| y.iter().zip(&dy).map(|(a, b)| a * b).sum::<f64>();
            let unit = |n: usize, at: usize| (0..n).map(|i| f64::from(u8::from(i == at))).collect::<Vec<_>>();
            let dx: Vec<f64> =
                (0..x.len()).map(|at| along(shape.forward(&unit(x.len(), at), &w, packed))).collect();
            let dw: Vec<f64> =
                (0..w.len()).map(|at| along(shape.forward(&x, &unit(w.len(), at), packed))).collect();
            for layout in [packed, channels_last, mirrored_order] {
                assert_eq!(shape.backward_data(&dy, &w, layout), dx, "{shape:?}");
                assert_eq!(shape.backward_filter(&x, &dy, layout), dw, "{shape:?}");
            }
        }
    }
}

#[test]
fn a_double_sum_keeps_what_a_single_one_loses() {
    for (compute, expected) in [(DataType::Float, 0.0), (DataType::Double, 1.0)] {
        let mut case = Case::new();
        case.graph.compute_type = compute;
        let x = case.tensor(DataType::Double, &[1, 1, 3]);
        let w = case.tensor(DataType::Half, &[1, 1, 3]);
        let y = case.tensor(DataType::Bfloat16, &[1, 1, 1]);
        case.fill(x, &[1e9, 1.0, -1e9]);
        case.fill(w, &[1.0; 3]);
        case.node(ConvolutionForward {
            x,
            w,
            y,
            pre_padding: vec![0],
            post_padding: vec![0],
            stride: vec![1],
            dilation: vec![1],
            conv_mode: ConvMode::CrossCorrelation,
        });
        case.run(Planner::Reference);
        assert_eq!(case.values(y), [expected]);
    }
}

#[test]
fn products_of_bytes_are_integers() {
    for planner in [Planner::Reference, Planner::new(0, &[]).unwrap()] {
        let mut case = Case::new();
        let x = case.tensor(DataType::Int8, &[1, 2, 3]);
        let w = case.tensor(DataType::Uint8, &[1, 2, 2]);
        let y = case.tensor(DataType::Int32, &[1, 1, 2]);
        case.fill(x, &[-128.0, 127.0, -3.0, 5.0, -7.0, 100.0]);
        case.fill(w, &[255.0, 1.0, 0.0, 200.0]);
        case.node(ConvolutionForward {
            x,
            w,
            y,
            pre_padding: vec![0],
            post_padding: vec![0],
            stride: vec![1],
            dilation: vec![1],
            conv_mode: ConvMode::CrossCorrelation,
        });
        case.run(planner);
        assert_eq!(case.values(y), [-33_913.0, 52_382.0]);
    }
}
