//! Random products and convolutions, alone or with element-wise operations behind them.

use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Matmul, Pointwise,
};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, PointwiseMode};

use super::Random;
use crate::case::{Case, Order};

/// Operations of an epilogue; those of steep slopes are left out, as they make roundings between large.
const ONE: [PointwiseMode; 6] = [
    PointwiseMode::ReluFwd,
    PointwiseMode::Neg,
    PointwiseMode::TanhFwd,
    PointwiseMode::GeluFwd,
    PointwiseMode::GeluApproxTanhFwd,
    PointwiseMode::SwishFwd,
];
const TWO: [PointwiseMode; 4] =
    [PointwiseMode::Add, PointwiseMode::Sub, PointwiseMode::Max, PointwiseMode::Min];

/// The result and how many operations follow: an output if there are none.
fn result(
    case: &mut Case,
    random: &mut Random,
    data_type: DataType,
    dims: &[i64],
    order: Order,
) -> (i64, u64) {
    let steps = random.next(4);
    let own = random.of(&[data_type, DataType::Float], data_type);
    match steps {
        0 => (case.output(data_type, dims, order), 0),
        _ => (case.between(own, dims, order), steps),
    }
}

/// Adds operations behind a result; their operands are as large, or along some of its dimensions.
fn follow(case: &mut Case, random: &mut Random, from: i64, dims: &[i64], steps: u64) {
    let mut last = from;
    for step in 0..steps {
        let other = (random.next(2) == 0).then(|| {
            let whole = random.next(2) == 0;
            let dims: Vec<i64> =
                dims.iter().map(|dim| if whole || random.next(2) == 0 { *dim } else { 1 }).collect();
            let (of, order) = (random.data_type(), random.order());
            case.input(of, &dims, order, [-2.0, 2.0])
        });
        let mode = match other {
            Some(_) => random.of(&TWO, PointwiseMode::Add),
            None => random.of(&ONE, PointwiseMode::ReluFwd),
        };
        let (own, order) = (random.data_type(), random.order());
        // Some that are not the last are results as well.
        let is_output = step + 1 == steps || random.next(6) == 0;
        let out = if is_output { case.output(own, dims, order) } else { case.between(own, dims, order) };
        case.node(Pointwise::new(mode, last, other, out));
        last = out;
    }
}

pub(super) fn product(case: &mut Case, random: &mut Random) {
    let [m, n, k] = [(); 3].map(|()| random.size(40));
    let batch = random.size(4);
    let share = if random.next(3) == 0 { 1 } else { batch };
    let data_type = random.data_type();
    let turned = |random: &mut Random, case: &mut Case, batch: i64, rows: i64, columns: i64| {
        let dims = [batch, rows, columns];
        let strides =
            if random.next(2) == 0 { [rows * columns, columns, 1] } else { [rows * columns, 1, rows] };
        case.input_with_strides(data_type, &dims, &strides, [-1.0, 1.0])
    };
    let a = turned(random, case, batch, m, k);
    let b = turned(random, case, share, k, n);
    let dims = [batch, m, n];
    let (c, steps) = result(case, random, data_type, &dims, Order::ChannelsFirst);
    case.node(Matmul { a, b, c });
    follow(case, random, c, &dims, steps);
}

pub(super) fn convolution(case: &mut Case, random: &mut Random) {
    let spatial = 1 + random.next(2) as usize;
    let groups = if random.next(3) == 0 { 2 } else { 1 };
    let (batch, per_in, per_out) = (random.size(3), random.size(5), random.size(5));
    let mut x = vec![batch, groups * per_in];
    let mut w = vec![groups * per_out, per_in];
    let mut y = vec![batch, groups * per_out];
    let [mut pre, mut post, mut stride, mut dilation] = [(); 4].map(|()| Vec::new());
    for _ in 0..spatial {
        let (window, step, apart) = (random.size(3), random.size(3), random.size(2));
        let (before, after) = (random.next(3) as i64, random.next(3) as i64);
        let reach = (window - 1) * apart + 1;
        let input = reach + random.next(8) as i64;
        x.push(input);
        w.push(window);
        y.push((input + before + after - reach) / step + 1);
        pre.push(before);
        post.push(after);
        stride.push(step);
        dilation.push(apart);
    }
    let data_type = random.data_type();
    let order = random.order();
    let conv_mode =
        random.of(&[ConvMode::CrossCorrelation, ConvMode::Convolution], ConvMode::CrossCorrelation);
    let range = [-1.0, 1.0];
    match random.next(3) {
        0 => {
            let (x, w) = (case.input(data_type, &x, order, range), case.input(data_type, &w, order, range));
            let dims = y;
            let (y, steps) = result(case, random, data_type, &dims, order);
            case.node(ConvolutionForward {
                x,
                w,
                y,
                pre_padding: pre,
                post_padding: post,
                stride,
                dilation,
                conv_mode,
            });
            follow(case, random, y, &dims, steps);
        }
        1 => {
            let (dy, w) = (case.input(data_type, &y, order, range), case.input(data_type, &w, order, range));
            let (dx, steps) = result(case, random, data_type, &x, order);
            case.node(ConvolutionBackwardData {
                dy,
                w,
                dx,
                pre_padding: pre,
                post_padding: post,
                stride,
                dilation,
                conv_mode,
            });
            follow(case, random, dx, &x, steps);
        }
        _ => {
            let (x, dy) = (case.input(data_type, &x, order, range), case.input(data_type, &y, order, range));
            let dw = case.output(data_type, &w, order);
            case.node(ConvolutionBackwardFilter {
                x,
                dy,
                dw,
                pre_padding: pre,
                post_padding: post,
                stride,
                dilation,
                conv_mode,
            });
        }
    }
}
