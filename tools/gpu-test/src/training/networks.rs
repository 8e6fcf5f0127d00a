//! The networks: a GPT of one block and a U-Net of one level, small enough for an emulated device.

use hipdnn_plugin_sdk::graph::PointwiseMode as Mode;

use super::Network;
use super::layers::{
    add, attention, batchnorm, concatenation, convolution, cross_entropy, down, embedding, function,
    groupnorm, layernorm, linear, up,
};
use super::tape::{Tape, View};

pub fn all() -> Vec<Network> {
    vec![gpt(), unet()]
}

/// Ones where random classes, which are the second dimension, are right.
fn right(tape: &mut Tape, dims: &[i64]) -> View {
    let classes = dims.get(1).copied().unwrap_or(1).unsigned_abs() as usize;
    let rows = dims.first().copied().unwrap_or(1).unsigned_abs() as usize;
    let pixels = dims.iter().skip(2).product::<i64>().unsigned_abs() as usize;
    let mut values = vec![0.0; rows * classes * pixels];
    for row in 0..rows * pixels {
        let class = ((tape.random() + 1.0) / 2.0 * classes as f32) as usize;
        let place = (row / pixels * classes + class.min(classes - 1)) * pixels + row % pixels;
        if let Some(value) = values.get_mut(place) {
            *value = 1.0;
        }
    }
    tape.filled(dims, values)
}

/// Two texts of 12 letters, one of 20 each; 16 values for each letter, in two heads.
fn gpt() -> Network {
    let [texts, places, classes, size, heads]: [i64; 5] = [2, 12, 20, 16, 2];
    let mut tape = Tape::default();
    let rows = [texts * places, classes];
    let (letters, next) = (right(&mut tape, &rows), right(&mut tape, &rows));
    let mut x = embedding(&mut tape, &letters, places, size);
    let before = layernorm(&mut tape, &x);
    let attended = attention(&mut tape, &before, places, heads);
    x = add(&mut tape, &x, &attended);
    let after = layernorm(&mut tape, &x);
    let wide = linear(&mut tape, &after, 4 * size);
    let curved = function(&mut tape, &wide, [Mode::GeluFwd, Mode::GeluBwd]);
    let narrow = linear(&mut tape, &curved, size);
    x = add(&mut tape, &x, &narrow);
    let last = layernorm(&mut tape, &x);
    let scores = linear(&mut tape, &last, classes);
    let loss = cross_entropy(&mut tape, &scores, &next);
    tape.finish();
    Network { name: "GPT", tape, loss }
}

/// Two images of 8 x 8 pixels with 3 channels, in which each pixel has one of 3 classes.
fn unet() -> Network {
    let [images, channels, size, width, kinds]: [i64; 5] = [2, 3, 8, 8, 3];
    let mut tape = Tape::default();
    let image = tape.randoms(&[images, channels, size, size], 1.0);
    let classes = right(&mut tape, &[images, kinds, size, size]);
    let relu = [Mode::ReluFwd, Mode::ReluBwd];
    let convolved = convolution(&mut tape, &image, width, 3);
    let normal = batchnorm(&mut tape, &convolved);
    let outer = function(&mut tape, &normal, relu);
    let half = down(&mut tape, &outer);
    let convolved = convolution(&mut tape, &half, 2 * width, 3);
    let normal = groupnorm(&mut tape, &convolved, 4);
    let inner = function(&mut tape, &normal, [Mode::SwishFwd, Mode::SwishBwd]);
    let whole = up(&mut tape, &inner, width);
    let both = concatenation(&mut tape, &outer, &whole);
    let convolved = convolution(&mut tape, &both, width, 3);
    let normal = batchnorm(&mut tape, &convolved);
    let last = function(&mut tape, &normal, relu);
    let scores = convolution(&mut tape, &last, kinds, 1);
    let loss = cross_entropy(&mut tape, &scores, &classes);
    tape.finish();
    Network { name: "U-Net", tape, loss }
}
