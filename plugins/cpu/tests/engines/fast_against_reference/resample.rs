//! Pooling and its gradient.

use hipdnn_plugin_sdk::graph::operation::{ResampleBackward, ResampleForward};
use hipdnn_plugin_sdk::graph::{DataType, PaddingMode, ResampleMode};

use super::{both, compare, compute, fill, roundoff, tensor, types};
use crate::engines::common::{Case, Random};

/// The shape of a pooling, and the number of elements in a window.
struct Shape {
    x: Vec<i64>,
    y: Vec<i64>,
    pre: Vec<i64>,
    post: Vec<i64>,
    stride: Vec<i64>,
    window: Vec<i64>,
    mode: ResampleMode,
    padding: PaddingMode,
}

impl Shape {
    fn random(random: &mut Random) -> Self {
        let spatial = random.one_of(&[1, 2, 2, 2, 3]);
        let (n, c) = (random.int(1, 3), random.int(1, 40));
        let modes =
            [ResampleMode::Maxpool, ResampleMode::AvgpoolIncludePadding, ResampleMode::AvgpoolExcludePadding];
        let mut shape = Self {
            x: vec![n, c],
            y: vec![n, c],
            pre: vec![],
            post: vec![],
            stride: vec![],
            window: vec![],
            mode: random.one_of(&modes),
            padding: random.one_of(PaddingMode::ALL),
        };
        for _ in 0..spatial {
            let (pre, post) = (random.int(0, 2), random.int(0, 2));
            let input = random.int(1, [60, 20, 7][spatial - 1]);
            let window = random.int(1, 5.min(input + pre + post));
            let stride = random.int(1, 3);
            shape.x.push(input);
            shape.y.push((input + pre + post - window) / stride + 1);
            shape.pre.push(pre);
            shape.post.push(post);
            shape.stride.push(stride);
            shape.window.push(window);
        }
        shape
    }

    /// Σ|t| of terms of at most 1, as many as elements in a window, and of as many windows, times the bound's
    /// factor.
    fn bound(&self, case: &Case) -> f64 {
        let n: i64 = self.window.iter().product();
        let eps = roundoff(compute(case)).0;
        2.0 * eps * (n * n) as f64 + 2.0 * eps
    }
}

#[test]
fn forward() {
    for seed in 14_000..14_150 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let types: [DataType; 2] = types(random, &mut case);
        let shape = Shape::random(random);
        let x = tensor(random, &mut case, types[0], &shape.x);
        let y = tensor(random, &mut case, types[1], &shape.y);
        let is_maximum = shape.mode == ResampleMode::Maxpool;
        let with_index = is_maximum && random.chance(50);
        let index = with_index.then(|| tensor(random, &mut case, DataType::Int32, &shape.y));
        fill(random, &mut case, x, -1.0, 1.0);
        case.node(ResampleForward {
            x,
            y,
            index,
            pre_padding: shape.pre.clone(),
            post_padding: shape.post.clone(),
            stride: shape.stride.clone(),
            window: shape.window.clone(),
            resample_mode: shape.mode,
            padding_mode: shape.padding,
            generate_index: Some(with_index),
        });
        let (fast, reference) = both(&case);
        let bound = if is_maximum { 0.0 } else { shape.bound(&case) };
        compare(seed, "pooling", &fast, &reference, y, |_| bound);
        if let Some(index) = index {
            assert_eq!(fast.values(index), reference.values(index), "seed {seed}");
        }
    }
}

#[test]
fn backward() {
    for seed in 15_000..15_150 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let types: [DataType; 2] = types(random, &mut case);
        let shape = Shape::random(random);
        let dx = tensor(random, &mut case, types[0], &shape.x);
        let dy = tensor(random, &mut case, types[1], &shape.y);
        fill(random, &mut case, dy, -1.0, 1.0);
        let plane: i64 = shape.x[2..].iter().product();
        let index = (shape.mode == ResampleMode::Maxpool).then(|| {
            let index = tensor(random, &mut case, DataType::Int32, &shape.y);
            case.memory(index).fill(|| random.int(-1, plane) as f64);
            index
        });
        case.node(ResampleBackward {
            dy,
            dx,
            index,
            pre_padding: shape.pre.clone(),
            post_padding: shape.post.clone(),
            stride: shape.stride.clone(),
            window: shape.window.clone(),
            resample_mode: shape.mode,
            padding_mode: shape.padding,
        });
        let (fast, reference) = both(&case);
        // All indices may send elements of dy to the same place.
        let outputs: i64 = shape.y[2..].iter().product();
        let bound = match index {
            Some(_) => 2.0 * roundoff(compute(&case)).0 * (outputs * outputs) as f64,
            None => shape.bound(&case),
        };
        compare(seed, "gradient of pooling", &fast, &reference, dx, |_| bound);
    }
}
