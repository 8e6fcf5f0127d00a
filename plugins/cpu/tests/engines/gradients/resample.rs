//! Gradients of pooling: of means with either padding, and of maxima by their index.

use hipdnn_plugin_sdk::graph::operation::{ResampleBackward, ResampleForward};
use hipdnn_plugin_sdk::graph::{DataType, PaddingMode, ResampleMode};

use super::Check;

fn check(seed: u64, spatial: usize, resample_mode: ResampleMode, padding_mode: PaddingMode) {
    let mut check = Check::new(seed);
    let random = &mut check.random;
    let dims = [random.int(1, 2), random.int(1, 3)];
    let [mut x, mut y] = [dims.to_vec(), dims.to_vec()];
    let [mut pre_padding, mut post_padding, mut stride, mut window] = [const { Vec::new() }; 4];
    for _ in 0..spatial {
        let (side, step) = (random.int(1, 3), random.int(1, 3));
        // Every window contains an element of the image, so that its maximum has a gradient.
        let [pre, post] = [(); 2].map(|()| random.int(0, side - 1));
        let input = random.int(3, [12, 6, 4][spatial - 1]);
        x.push(input);
        y.push((input + pre + post - side) / step + 1);
        pre_padding.push(pre);
        post_padding.push(post);
        stride.push(step);
        window.push(side);
    }
    let by_index = resample_mode == ResampleMode::Maxpool;
    let index = by_index.then(|| check.case.tensor(DataType::Int32, &y));
    // Far above the zeros of the padding, which would hide their windows, or on both sides of them.
    let low = check.random.one_of(&[1.0, -2.0]);
    let x = check.given(&x, low, 3.0);
    let y = check.tensor(&y);
    let dy = check.weights(y);
    let dx = check.gradient(x);
    check.forward(ResampleForward {
        x,
        y,
        index,
        pre_padding: pre_padding.clone(),
        post_padding: post_padding.clone(),
        stride: stride.clone(),
        window: window.clone(),
        resample_mode,
        padding_mode,
        generate_index: Some(by_index),
    });
    check.backward(ResampleBackward {
        dy,
        dx,
        index,
        pre_padding,
        post_padding,
        stride,
        window,
        resample_mode,
        padding_mode,
    });
    check.holds(1e-8);
}

#[test]
fn of_every_mode_and_padding() {
    let modes =
        [ResampleMode::Maxpool, ResampleMode::AvgpoolIncludePadding, ResampleMode::AvgpoolExcludePadding];
    let mut seed = 500;
    for mode in modes {
        for padding in PaddingMode::ALL {
            for spatial in [1, 2, 2, 3] {
                for _ in 0..3 {
                    seed += 1;
                    check(seed, spatial, mode, *padding);
                }
            }
        }
    }
}
