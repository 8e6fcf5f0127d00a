//! The layers of both networks, each with its gradients.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
    Layernorm, LayernormBackward, Matmul, Pointwise, Reduction, ResampleBackward, ResampleForward, Sdpa,
    SdpaBackward,
};
use hipdnn_plugin_sdk::graph::{
    ConvMode, NormFwdPhase, PaddingMode, PointwiseMode as Mode, ReductionMode, ResampleMode,
};

use super::tape::{Piece, Tape, View};

const EPSILON: f32 = 1e-5;

/// The sum of a tensor over the dimensions in which the result has one element.
fn sum(tape: &mut Tape, name: &str, of: &View, dims: &[i64]) -> View {
    let to = tape.room(dims);
    tape.piece(name, |piece| {
        let (in_, out) = (piece.from(of), piece.to(&to));
        piece.node(Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: false });
    });
    to
}

fn product(tape: &mut Tape, name: &str, a: &View, b: &View, dims: &[i64]) -> View {
    let to = tape.room(dims);
    tape.piece(name, |piece| {
        let (a, b, c) = (piece.from(a), piece.from(b), piece.to(&to));
        piece.node(Matmul { a, b, c });
    });
    to
}

/// x w + b, where x is [rows, inputs].
pub fn linear(tape: &mut Tape, x: &View, outputs: i64) -> View {
    let [rows, inputs] = [0, 1].map(|axis| x.dims.get(axis).copied().unwrap_or(1));
    let (w, b) = (tape.weight(&[inputs, outputs], inputs), tape.constant(&[1, outputs], 0.0));
    let (dims, y) = ([rows, outputs], tape.room(&[rows, outputs]));
    tape.piece("linear", |piece| {
        let (x, w, b) = (piece.from(x), piece.from(&w), piece.from(&b));
        let (c, out) = (piece.between(&dims), piece.to(&y));
        piece.node(Matmul { a: x, b: w, c });
        piece.node(Pointwise::new(Mode::Add, c, Some(b), out));
    });
    let (x, made) = (x.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let dy = tape.gradient(&made);
        let dx = product(tape, "linear's input", &dy, &w.transposed(), &[rows, inputs]);
        let dw = product(tape, "linear's weights", &x.transposed(), &dy, &[inputs, outputs]);
        let db = sum(tape, "linear's bias", &dy, &[1, outputs]);
        for (of, gradient) in [(&x, &dx), (&w, &dw), (&b, &db)] {
            tape.add_gradient(of, gradient);
        }
    });
    y
}

/// The rows of a table that belong to some classes, and a row for each place of a text: a product with ones.
pub fn embedding(tape: &mut Tape, ones: &View, places: i64, size: i64) -> View {
    let [rows, classes] = [0, 1].map(|axis| ones.dims.get(axis).copied().unwrap_or(1));
    let (table, by_place) = (tape.weight(&[classes, size], 3), tape.weight(&[1, places, size], 12));
    let (texts, y) = (rows / places, tape.room(&[rows, size]));
    let found = product(tape, "embedding", ones, &table, &[rows, size]);
    let in_texts = [texts, places, size];
    tape.piece("embedding of places", |piece| {
        let (a, b) = (piece.from(&found.shaped(&in_texts)), piece.from(&by_place));
        let out = piece.to(&y.shaped(&in_texts));
        piece.node(Pointwise::new(Mode::Add, a, Some(b), out));
    });
    let (ones, made) = (ones.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let dy = tape.gradient(&made);
        let of_table = product(tape, "embedding's table", &ones.transposed(), &dy, &[classes, size]);
        let of_places = sum(tape, "embedding's places", &dy.shaped(&in_texts), &[1, places, size]);
        tape.add_gradient(&table, &of_table);
        tape.add_gradient(&by_place, &of_places);
    });
    y
}

/// A function of each element with its gradient's mode.
pub fn function(tape: &mut Tape, x: &View, [forward, backward]: [Mode; 2]) -> View {
    let y = tape.room(&x.dims);
    tape.piece("function", |piece| {
        let (x, out) = (piece.from(x), piece.to(&y));
        piece.node(Pointwise::new(forward, x, None, out));
    });
    let (x, made) = (x.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let (dy, dx) = (tape.gradient(&made), tape.room(&x.dims));
        tape.piece("function's gradient", |piece| {
            let (dy, x, out) = (piece.from(&dy), piece.from(&x), piece.to(&dx));
            piece.node(Pointwise::new(backward, dy, Some(x), out));
        });
        tape.add_gradient(&x, &dx);
    });
    y
}

/// a + b
pub fn add(tape: &mut Tape, a: &View, b: &View) -> View {
    let y = tape.room(&a.dims);
    tape.piece("sum", |piece| {
        let (a, b, out) = (piece.from(a), piece.from(b), piece.to(&y));
        piece.node(Pointwise::new(Mode::Add, a, Some(b), out));
    });
    let (a, b, made) = (a.clone(), b.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let dy = tape.gradient(&made);
        tape.add_gradient(&a, &dy);
        tape.add_gradient(&b, &dy);
    });
    y
}

/// Normalizes rows, which are the last dimension, with these weights.
fn normalized(tape: &mut Tape, x: &View, scale: &View, bias: &View) -> View {
    let [rows, size] = [0, 1].map(|axis| x.dims.get(axis).copied().unwrap_or(1));
    let [mean, inverse] = [(); 2].map(|()| tape.room(&[rows, 1]));
    let y = tape.room(&[rows, size]);
    tape.piece("layernorm", |piece| {
        let (x, scale, bias) = (piece.from(x), piece.from(scale), piece.from(bias));
        let node = Layernorm {
            x,
            scale,
            bias,
            epsilon: piece.value(EPSILON),
            y: piece.to(&y),
            mean: Some(piece.to(&mean)),
            inv_variance: Some(piece.to(&inverse)),
            forward_phase: NormFwdPhase::Training,
            normalized_dim_count: 1,
        };
        piece.node(node);
    });
    let (x, scale, bias, made) = (x.clone(), scale.clone(), bias.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let (dy, dx) = (tape.gradient(&made).shaped(&x.dims), tape.room(&x.dims));
        let [dscale, dbias] = [(); 2].map(|()| tape.room(&[1, size]));
        tape.piece("layernorm's gradient", |piece| {
            let node = LayernormBackward {
                dy: piece.from(&dy),
                x: piece.from(&x),
                scale: piece.from(&scale),
                mean: Some(piece.from(&mean)),
                inv_variance: Some(piece.from(&inverse)),
                epsilon: None,
                dx: piece.to(&dx),
                dscale: piece.to(&dscale),
                dbias: piece.to(&dbias),
                normalized_dim_count: 1,
            };
            piece.node(node);
        });
        for (of, gradient) in [(&x, &dx), (&scale, &dscale), (&bias, &dbias)] {
            tape.add_gradient(of, gradient);
        }
    });
    y
}

/// Layer norm of rows.
pub fn layernorm(tape: &mut Tape, x: &View) -> View {
    let size = x.dims.last().copied().unwrap_or(1);
    let (scale, bias) = (tape.constant(&[1, size], 1.0), tape.constant(&[1, size], 0.0));
    normalized(tape, x, &scale, &bias)
}

/// Attention of each place to those before it: a layer for queries, keys and values, whose heads lie side by side.
pub fn attention(tape: &mut Tape, x: &View, places: i64, heads: i64) -> View {
    let [rows, size] = [0, 1].map(|axis| x.dims.get(axis).copied().unwrap_or(1));
    let (texts, depth) = (rows / places, size / heads);
    let packed = linear(tape, x, 3 * size);
    let (dims, o) = ([texts, heads, places, depth], tape.room(&[rows, size]));
    let stats = tape.room(&[texts, heads, places, 1]);
    let heads_of =
        move |of: &View, row: i64, from: i64| of.strided(from, &dims, &[places * row, depth, row, 1]);
    let three = move |of: &View| [0, 1, 2].map(|part| heads_of(of, 3 * size, part * size));
    let node = move |piece: &mut Piece, [q, k, v]: &[View; 3], o: i64, stats: i64| Sdpa {
        stats: Some(stats),
        generate_stats: Some(true),
        attn_scale_value: Some(1.0 / (depth as f32).sqrt()),
        causal_mask: true,
        ..Sdpa::new(piece.from(q), piece.from(k), piece.from(v), o)
    };
    tape.piece("attention", |piece| {
        let (o, stats) = (piece.to(&heads_of(&o, size, 0)), piece.to(&stats));
        let node = node(piece, &three(&packed), o, stats);
        piece.node(node);
    });
    let made = o.clone();
    tape.on_way_back(move |tape| {
        let (do_, dpacked) = (tape.gradient(&made), tape.room(&packed.dims));
        tape.piece("attention's gradient", |piece| {
            let (o, saved) = (piece.from(&heads_of(&made, size, 0)), piece.from(&stats));
            let forward = node(piece, &three(&packed), o, saved);
            let do_ = piece.from(&heads_of(&do_, size, 0));
            let results = three(&dpacked).map(|view| piece.to(&view));
            piece.node(SdpaBackward::of(&forward, [do_, saved], results));
        });
        tape.add_gradient(&packed, &dpacked);
    });
    linear(tape, &o, size)
}

/// The mean cross entropy of classes, which are the second dimension, given ones where they are right: [1, 1, ...].
pub fn cross_entropy(tape: &mut Tape, x: &View, ones: &View) -> View {
    let classes = x.dims.get(1).copied().unwrap_or(1);
    let rows = x.dims.iter().product::<i64>() / classes;
    let (loss, slope) = (tape.room(&vec![1; x.dims.len()]), tape.room(&x.dims));
    let mut single = x.dims.clone();
    if let Some(dim) = single.get_mut(1) {
        *dim = 1;
    }
    tape.piece("cross entropy", |piece| {
        let dims = &x.dims;
        let (x, ones) = (piece.from(x), piece.from(ones));
        let most = piece.reduction(ReductionMode::Max, x, &single);
        let below = piece.pointwise(Mode::Sub, x, Some(most), dims);
        let powers = piece.pointwise(Mode::Exp, below, None, dims);
        let total = piece.reduction(ReductionMode::Add, powers, &single);
        let share = piece.pointwise(Mode::Div, powers, Some(total), dims);
        let gap = piece.pointwise(Mode::Sub, share, Some(ones), dims);
        let (each, minus, out) =
            (piece.value(1.0 / rows as f32), piece.value(-1.0 / rows as f32), piece.to(&slope));
        piece.node(Pointwise::new(Mode::Mul, gap, Some(each), out));
        let logarithm = piece.pointwise(Mode::Log, total, None, &single);
        let likely = piece.pointwise(Mode::Sub, below, Some(logarithm), dims);
        let right = piece.pointwise(Mode::Mul, likely, Some(ones), dims);
        let part = piece.pointwise(Mode::Mul, right, Some(minus), dims);
        let out = piece.to(&loss);
        piece.node(Reduction { in_: part, out, mode: ReductionMode::Add, is_deterministic: false });
    });
    let x = x.clone();
    tape.on_way_back(move |tape| tape.add_gradient(&x, &slope));
    loss
}

/// A convolution of images with as many pixels after it, by odd windows.
pub fn convolution(tape: &mut Tape, x: &View, outputs: i64, window: i64) -> View {
    let [count, inputs, height, width] = image(x);
    let w = tape.weight(&[outputs, inputs, window, window], inputs * window * window);
    let y = tape.room(&[count, outputs, height, width]);
    let around = vec![window / 2; 2];
    let pads = || [around.clone(), around.clone()];
    tape.piece("convolution", |piece| {
        let [pre_padding, post_padding] = pads();
        let (x, w, y) = (piece.from(x), piece.from(&w), piece.to(&y));
        piece.node(ConvolutionForward { pre_padding, post_padding, ..ConvolutionForward::new(x, w, y, 2) });
    });
    let (x, made) = (x.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let dy = tape.gradient(&made);
        let (dx, dw) = (tape.room(&x.dims), tape.room(&w.dims));
        filter_gradient(tape, &x, &dy, &dw, window / 2, 1);
        data_gradient(tape, "convolution's input", &dy, &w, &dx, window / 2, 1);
        tape.add_gradient(&w, &dw);
        tape.add_gradient(&x, &dx);
    });
    y
}

fn image(x: &View) -> [i64; 4] {
    [0, 1, 2, 3].map(|axis| x.dims.get(axis).copied().unwrap_or(1))
}

fn filter_gradient(tape: &mut Tape, x: &View, dy: &View, dw: &View, padding: i64, stride: i64) {
    tape.piece("convolution's filter", |piece| {
        let node = ConvolutionBackwardFilter {
            x: piece.from(x),
            dy: piece.from(dy),
            dw: piece.to(dw),
            pre_padding: vec![padding; 2],
            post_padding: vec![padding; 2],
            stride: vec![stride; 2],
            dilation: vec![1; 2],
            conv_mode: ConvMode::CrossCorrelation,
        };
        piece.node(node);
    });
}

fn data_gradient(tape: &mut Tape, name: &str, dy: &View, w: &View, dx: &View, padding: i64, stride: i64) {
    tape.piece(name, |piece| {
        let node = ConvolutionBackwardData {
            dy: piece.from(dy),
            w: piece.from(w),
            dx: piece.to(dx),
            pre_padding: vec![padding; 2],
            post_padding: vec![padding; 2],
            stride: vec![stride; 2],
            dilation: vec![1; 2],
            conv_mode: ConvMode::CrossCorrelation,
        };
        piece.node(node);
    });
}

/// A transposed convolution that doubles height and width.
pub fn up(tape: &mut Tape, x: &View, outputs: i64) -> View {
    let [count, inputs, height, width] = image(x);
    let w = tape.weight(&[inputs, outputs, 2, 2], inputs);
    let y = tape.room(&[count, outputs, 2 * height, 2 * width]);
    data_gradient(tape, "transposed convolution", x, &w, &y, 0, 2);
    let (x, made) = (x.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let dy = tape.gradient(&made);
        let (dx, dw) = (tape.room(&x.dims), tape.room(&w.dims));
        tape.piece("transposed convolution's input", |piece| {
            let (dy, w, dx) = (piece.from(&dy), piece.from(&w), piece.to(&dx));
            piece.node(ConvolutionForward { stride: vec![2; 2], ..ConvolutionForward::new(dy, w, dx, 2) });
        });
        filter_gradient(tape, &dy, &x, &dw, 0, 2);
        tape.add_gradient(&w, &dw);
        tape.add_gradient(&x, &dx);
    });
    y
}

/// The largest of each four pixels.
pub fn down(tape: &mut Tape, x: &View) -> View {
    let [count, channels, height, width] = image(x);
    let y = tape.room(&[count, channels, height / 2, width / 2]);
    let index = tape.room(&y.dims);
    let (none, two) = (|| vec![0; 2], || vec![2; 2]);
    let of_index = |piece: &mut Piece, uid: i64| {
        for tensor in piece.graph.tensors.iter_mut().filter(|tensor| tensor.uid == uid) {
            tensor.data_type = hipdnn_plugin_sdk::graph::DataType::Int32;
        }
    };
    tape.piece("maximum", |piece| {
        let node = ResampleForward {
            x: piece.from(x),
            y: piece.to(&y),
            index: Some(piece.to(&index)),
            pre_padding: none(),
            post_padding: none(),
            stride: two(),
            window: two(),
            resample_mode: ResampleMode::Maxpool,
            padding_mode: PaddingMode::NegInfPad,
            generate_index: Some(true),
        };
        of_index(piece, node.index.unwrap_or_default());
        piece.node(node);
    });
    let (x, made) = (x.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let (dy, dx) = (tape.gradient(&made), tape.room(&x.dims));
        tape.piece("maximum's gradient", |piece| {
            let node = ResampleBackward {
                dy: piece.from(&dy),
                dx: piece.to(&dx),
                index: Some(piece.from(&index)),
                pre_padding: none(),
                post_padding: none(),
                stride: two(),
                window: two(),
                resample_mode: ResampleMode::Maxpool,
                padding_mode: PaddingMode::NegInfPad,
            };
            of_index(piece, node.index.unwrap_or_default());
            piece.node(node);
        });
        tape.add_gradient(&x, &dx);
    });
    y
}

/// Batch norm in training.
pub fn batchnorm(tape: &mut Tape, x: &View) -> View {
    let [_, channels, ..] = image(x);
    let each = [1, channels, 1, 1];
    let (scale, bias) = (tape.constant(&each, 1.0), tape.constant(&each, 0.0));
    let [mean, inverse] = [(); 2].map(|()| tape.room(&each));
    let y = tape.room(&x.dims);
    tape.piece("batchnorm", |piece| {
        let (x, scale, bias, epsilon) =
            (piece.from(x), piece.from(&scale), piece.from(&bias), piece.value(EPSILON));
        let (mean, inv_variance) = (Some(piece.to(&mean)), Some(piece.to(&inverse)));
        let y = piece.to(&y);
        piece.node(Batchnorm { mean, inv_variance, ..Batchnorm::new(x, scale, bias, epsilon, y) });
    });
    let (x, made) = (x.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let (dy, dx) = (tape.gradient(&made), tape.room(&x.dims));
        let [dscale, dbias] = [(); 2].map(|()| tape.room(&each));
        tape.piece("batchnorm's gradient", |piece| {
            let node = BatchnormBackward {
                dy: piece.from(&dy),
                x: piece.from(&x),
                scale: piece.from(&scale),
                dx: piece.to(&dx),
                dscale: piece.to(&dscale),
                dbias: piece.to(&dbias),
                mean: Some(piece.from(&mean)),
                inv_variance: Some(piece.from(&inverse)),
                peer_stats: Vec::new(),
            };
            piece.node(node);
        });
        for (of, gradient) in [(&x, &dx), (&scale, &dscale), (&bias, &dbias)] {
            tape.add_gradient(of, gradient);
        }
    });
    y
}

/// Group norm: the groups' channels as rows, then a scale and a bias for each channel.
pub fn groupnorm(tape: &mut Tape, x: &View, groups: i64) -> View {
    let [count, channels, height, width] = image(x);
    let row = channels / groups * height * width;
    let ones = tape.filled(&[1, row], vec![1.0; row.unsigned_abs() as usize]);
    let zeros = tape.filled(&[1, row], vec![0.0; row.unsigned_abs() as usize]);
    let rows = normalized(tape, &x.shaped(&[count * groups, row]), &ones, &zeros);
    let unit = rows.shaped(&x.dims);
    let each = [1, channels, 1, 1];
    let (scale, bias) = (tape.constant(&each, 1.0), tape.constant(&each, 0.0));
    let y = tape.room(&x.dims);
    tape.piece("scale and bias", |piece| {
        let (x, scale, bias) = (piece.from(&unit), piece.from(&scale), piece.from(&bias));
        let scaled = piece.pointwise(Mode::Mul, x, Some(scale), &unit.dims);
        let out = piece.to(&y);
        piece.node(Pointwise::new(Mode::Add, scaled, Some(bias), out));
    });
    let made = y.clone();
    tape.on_way_back(move |tape| {
        let (dy, dx, dscale) = (tape.gradient(&made), tape.room(&unit.dims), tape.room(&each));
        tape.piece("scale's gradient", |piece| {
            let (dy, x, scale) = (piece.from(&dy), piece.from(&unit), piece.from(&scale));
            let (to_x, to_scale) = (piece.to(&dx), piece.to(&dscale));
            piece.node(Pointwise::new(Mode::Mul, dy, Some(scale), to_x));
            let each = piece.pointwise(Mode::Mul, dy, Some(x), &unit.dims);
            let mode = ReductionMode::Add;
            piece.node(Reduction { in_: each, out: to_scale, mode, is_deterministic: false });
        });
        let dbias = sum(tape, "bias's gradient", &dy, &each);
        for (of, gradient) in [(&unit, &dx), (&scale, &dscale), (&bias, &dbias)] {
            tape.add_gradient(of, gradient);
        }
    });
    y
}

/// The channels of two images, one after the other.
pub fn concatenation(tape: &mut Tape, a: &View, b: &View) -> View {
    let [count, of_a, height, width] = image(a);
    let [_, of_b, ..] = image(b);
    let y = tape.room(&[count, of_a + of_b, height, width]);
    for (part, to) in [(a, y.channels(0, of_a)), (b, y.channels(of_a, of_b))] {
        tape.piece("concatenation", |piece| {
            let (x, out) = (piece.from(part), piece.to(&to));
            piece.node(Pointwise::new(Mode::Identity, x, None, out));
        });
    }
    let (a, b, made) = (a.clone(), b.clone(), y.clone());
    tape.on_way_back(move |tape| {
        let dy = tape.gradient(&made);
        tape.add_gradient(&a, &dy.channels(0, of_a));
        tape.add_gradient(&b, &dy.channels(of_a, of_b));
    });
    y
}
