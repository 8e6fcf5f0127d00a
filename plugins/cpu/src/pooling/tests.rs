use hipdnn_plugin_sdk::graph::operation::{ResampleBackward, ResampleForward};
use hipdnn_plugin_sdk::graph::{DataType, Operation, PaddingMode, ResampleMode};

use crate::simd::isa::Isa;
use crate::testing::limits::scale_of;
use crate::testing::{Array, Random, cases, check_with_reference, order, strides};

const X: i64 = 1;

const Y: i64 = 2;

const INDEX: i64 = 3;

/// A pooling of random shape with its tensors.
#[derive(Clone, Debug)]
struct Case {
    spatial: usize,
    pre: Vec<i64>,
    post: Vec<i64>,
    stride: Vec<i64>,
    window: Vec<i64>,
    mode: ResampleMode,
    padding: PaddingMode,
    with_index: bool,
    dims: [Vec<i64>; 2],
}

/// Few channels, or enough for several vectors at a time.
const CHANNELS: [[usize; 2]; 2] = [[1, 37], [60, 150]];

impl Case {
    fn random(random: &mut Random, [least, most]: [usize; 2]) -> Self {
        let spatial = random.of(&[1, 2, 2, 3]);
        let usual = random.of(&[None, Some((2, 2, 0)), Some((3, 2, 1)), Some((3, 1, 1))]);
        let mut case = |low: usize, high: usize| -> Vec<i64> {
            (0..spatial).map(|_| random.within(low, high) as i64).collect()
        };
        let (mut pre, mut post) = (case(0, 3), case(0, 3));
        let (mut stride, mut window, mut input) = (case(1, 3), case(1, 5), case(1, 24));
        if let Some((side, step, around)) = usual {
            (window, stride) = (vec![side; spatial], vec![step; spatial]);
            (pre, post) = (vec![around; spatial], vec![around; spatial]);
            input = case(4, if spatial == 3 { 17 } else { 45 });
        }
        let mut output = Vec::new();
        for i in 0..spatial {
            input[i] = input[i].max(window[i] - pre[i] - post[i]);
            output.push((input[i] + pre[i] + post[i] - window[i]) / stride[i] + 1);
        }
        let (batch, channels) = (random.within(1, 3) as i64, random.within(least, most) as i64);
        let modes =
            [ResampleMode::Maxpool, ResampleMode::AvgpoolIncludePadding, ResampleMode::AvgpoolExcludePadding];
        let mode = random.of(&modes);
        let paddings = [PaddingMode::NegInfPad, PaddingMode::ZeroPad];
        Self {
            spatial,
            pre,
            post,
            stride,
            window,
            mode,
            padding: random.of(&paddings),
            with_index: mode == ResampleMode::Maxpool && random.of(&[true, false]),
            dims: [input, output].map(|size| [vec![batch, channels], size].concat()),
        }
    }

    fn array(&self, random: &mut Random, uid: i64, data_type: DataType, which: usize) -> Array {
        let order = order(self.spatial + 2, which);
        let dims = &self.dims[usize::from(uid != X)];
        let strides = strides(dims, &order, random.of(&[0, 0, 0, 3]));
        Array::new(uid, data_type, dims, &strides)
    }

    fn forward(&self) -> Operation {
        ResampleForward {
            x: X,
            y: Y,
            index: self.with_index.then_some(INDEX),
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            window: self.window.clone(),
            resample_mode: self.mode,
            padding_mode: self.padding,
            generate_index: Some(self.with_index),
        }
        .into()
    }

    fn backward(&self) -> Operation {
        ResampleBackward {
            dy: Y,
            dx: X,
            index: (self.mode == ResampleMode::Maxpool).then_some(INDEX),
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            window: self.window.clone(),
            resample_mode: self.mode,
            padding_mode: self.padding,
        }
        .into()
    }

    /// Compares every instruction set with the reference.
    fn check(&self, operation: &Operation, compute: DataType, arrays: &[Array], results: &[i64]) {
        for isa in Isa::available() {
            check_with_reference(operation, compute, *isa, arrays, results, |expected| {
                (self.mode != ResampleMode::Maxpool).then(|| scale_of(&expected.values()))
            });
        }
    }
}

const TYPES: [DataType; 5] =
    [DataType::Float, DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

fn forward(random: &mut Random, channels: [usize; 2], mut number: impl FnMut(&mut Random) -> f64) {
    let case = Case::random(random, channels);
    let (one, which) = (random.of(&TYPES), random.within(0, 2));
    let mixed = random.of(&[false, false, true]);
    let other = |random: &mut Random| if mixed { random.of(&TYPES) } else { one };
    let (x_type, y_type) = (other(random), other(random));
    let mut x = case.array(random, X, x_type, which);
    for index in x.indices() {
        x.set(&index, number(random));
    }
    let y = case.array(random, Y, y_type, which);
    let of_index = random.of(&[which, 0]);
    let index = case.array(random, INDEX, DataType::Int32, of_index);
    let compute = random.of(&[DataType::Float, DataType::Float, DataType::Double]);
    let mut arrays = vec![x, y];
    if case.with_index {
        arrays.push(index);
    }
    case.check(&case.forward(), compute, &arrays, &[Y, INDEX]);
}

#[test]
fn windows_match_the_reference() {
    let mut random = Random::new(21);
    for round in 0..cases(420) {
        // Few different values, so that many are equal.
        forward(&mut random, CHANNELS[usize::from(round >= cases(400))], Random::whole);
    }
}

#[test]
fn nan_and_infinity_do_not_spread() {
    let mut random = Random::new(22);
    for _ in 0..cases(300) {
        forward(&mut random, CHANNELS[0], |random| {
            let ends = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
            if random.within(0, 3) == 0 { random.of(&ends) } else { random.whole() }
        });
    }
}

#[test]
fn gradients_match_the_reference() {
    let mut random = Random::new(23);
    for round in 0..cases(420) {
        let random = &mut random;
        let case = Case::random(random, CHANNELS[usize::from(round >= cases(400))]);
        let (one, which) = (random.of(&TYPES), random.within(0, 2));
        let dy = case.array(random, Y, one, which).filled(|| random.whole());
        let dx = case.array(random, X, one, which);
        let mut arrays = vec![dx, dy];
        if case.mode == ResampleMode::Maxpool {
            let plane: i64 = case.dims[0][2..].iter().product();
            // Also indices out of range.
            let index = case.array(random, INDEX, DataType::Int32, which);
            arrays.push(index.filled(|| random.within(0, plane as usize + 1) as f64 - 1.0));
        }
        let compute = random.of(&[DataType::Float, DataType::Float, DataType::Double]);
        case.check(&case.backward(), compute, &arrays, &[X]);
    }
}

#[test]
fn work_for_several_threads() {
    let mut random = Random::new(24);
    for (dims, which, mode) in [
        ([4, 64, 56, 56], 0, ResampleMode::Maxpool),
        ([4, 64, 56, 56], 1, ResampleMode::Maxpool),
        ([1, 1, 700, 300], 0, ResampleMode::AvgpoolExcludePadding),
        ([2, 200, 40, 30], 1, ResampleMode::AvgpoolIncludePadding),
    ] {
        let random = &mut random;
        let case = Case {
            spatial: 2,
            pre: vec![1, 1],
            post: vec![1, 1],
            stride: vec![2, 2],
            window: vec![3, 3],
            mode,
            padding: PaddingMode::NegInfPad,
            with_index: mode == ResampleMode::Maxpool,
            dims: [dims.to_vec(), vec![dims[0], dims[1], (dims[2] - 1) / 2 + 1, (dims[3] - 1) / 2 + 1]],
        };
        let x = case.array(random, X, DataType::Float, which).filled(|| random.whole());
        let y = case.array(random, Y, DataType::Float, which).filled(|| random.whole());
        let mut arrays = vec![x, y];
        if case.with_index {
            arrays.push(case.array(random, INDEX, DataType::Int32, which));
        }
        case.check(&case.forward(), DataType::Float, &arrays, &[Y, INDEX]);
        if case.with_index {
            let mut places = case.array(random, INDEX, DataType::Int32, which);
            places = places.filled(|| random.within(0, (dims[2] * dims[3]) as usize) as f64);
            arrays[2] = places;
        }
        case.check(&case.backward(), DataType::Float, &arrays, &[X]);
    }
}
