//! Gradients computed by several operations, with virtual tensors in between.

use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BatchnormBackward, ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward,
    Matmul, Pointwise, Reduction,
};
use hipdnn_plugin_sdk::graph::{ConvMode, PointwiseMode as Mode, ReductionMode, TensorValue};

use super::{Check, DOUBLE};

fn sum(in_: i64, out: i64) -> Reduction {
    Reduction { in_, out, mode: ReductionMode::Add, is_deterministic: false }
}

/// A convolution, a bias, an activation.
#[test]
fn of_a_convolution_with_a_bias_and_an_activation() {
    let activations =
        [(Mode::ReluFwd, Mode::ReluBwd), (Mode::SwishFwd, Mode::SwishBwd), (Mode::GeluFwd, Mode::GeluBwd)];
    for (seed, (activation, derivative)) in (800..).zip(activations.into_iter().cycle().take(9)) {
        let mut check = Check::new(seed);
        let step = check.random.int(1, 2);
        let whole = [2, 3, 6 / step, 6 / step];
        let x = check.given(&[2, 4, 6, 6], -1.0, 1.0);
        let w = check.given(&[3, 4, 3, 3], -0.5, 0.5);
        let bias = check.given(&[1, 3, 1, 1], -1.0, 1.0);
        let product = check.between(&whole);
        let [summed, y] = [(); 2].map(|()| check.tensor(&whole));
        let dy = check.weights(y);
        let away = check.between(&whole);
        let [dx, dw, dbias] = [x, w, bias].map(|of| check.gradient(of));
        let (padding, stride, dilation) = (vec![1, 1], vec![step; 2], vec![1, 1]);
        let conv_mode = ConvMode::CrossCorrelation;
        check.forward(ConvolutionForward {
            x,
            w,
            y: product,
            pre_padding: padding.clone(),
            post_padding: padding.clone(),
            stride: stride.clone(),
            dilation: dilation.clone(),
            conv_mode,
        });
        check.forward(Pointwise::new(Mode::Add, product, Some(bias), summed));
        check.forward(Pointwise::new(activation, summed, None, y));
        check.backward(Pointwise::new(derivative, dy, Some(summed), away));
        check.backward(ConvolutionBackwardData {
            dy: away,
            w,
            dx,
            pre_padding: padding.clone(),
            post_padding: padding.clone(),
            stride: stride.clone(),
            dilation: dilation.clone(),
            conv_mode,
        });
        check.backward(ConvolutionBackwardFilter {
            x,
            dy: away,
            dw,
            pre_padding: padding.clone(),
            post_padding: padding,
            stride,
            dilation,
            conv_mode,
        });
        check.backward(sum(away, dbias));
        check.holds(1e-7);
    }
}

/// Batch normalization, a residual, an activation: the residual's gradient equals the normalization's
/// incoming gradient.
#[test]
fn of_batchnorm_with_a_residual_and_an_activation() {
    for seed in 820..826 {
        let mut check = Check::new(seed);
        let (whole, parameter) = ([3, 4, 3, 2], [1, 4, 1, 1]);
        let [x, residual] = [(); 2].map(|()| check.given(&whole, -1.0, 1.0));
        let [scale, bias] = [(); 2].map(|()| check.given(&parameter, 0.5, 1.5));
        let epsilon = check.case.value(DOUBLE, TensorValue::Float64(1e-3));
        let [mean, inv_variance] = [(); 2].map(|()| Some(check.tensor(&parameter)));
        let normal = check.between(&whole);
        let [summed, y] = [(); 2].map(|()| check.tensor(&whole));
        let dy = check.weights(y);
        let [dx, dscale, dbias, arrives] = [x, scale, bias, residual].map(|of| check.gradient(of));
        check.forward(Batchnorm { mean, inv_variance, ..Batchnorm::new(x, scale, bias, epsilon, normal) });
        check.forward(Pointwise::new(Mode::Add, normal, Some(residual), summed));
        check.forward(Pointwise::new(Mode::ReluFwd, summed, None, y));
        check.backward(Pointwise::new(Mode::ReluBwd, dy, Some(summed), arrives));
        check.backward(BatchnormBackward {
            dy: arrives,
            x,
            scale,
            dx,
            dscale,
            dbias,
            mean,
            inv_variance,
            peer_stats: vec![],
        });
        check.holds(1e-6);
    }
}

/// Batch normalization and an activation, whose gradient is virtual.
#[test]
fn of_batchnorm_with_an_activation() {
    for seed in 830..836 {
        let mut check = Check::new(seed);
        let (whole, parameter) = ([3, 4, 3, 2], [1, 4, 1, 1]);
        let x = check.given(&whole, -1.0, 1.0);
        let [scale, bias] = [(); 2].map(|()| check.given(&parameter, 0.5, 1.5));
        let epsilon = check.case.value(DOUBLE, TensorValue::Float64(1e-3));
        let [mean, inv_variance] = [(); 2].map(|()| Some(check.tensor(&parameter)));
        let [normal, y] = [(); 2].map(|()| check.tensor(&whole));
        let dy = check.weights(y);
        let arrives = check.between(&whole);
        let [dx, dscale, dbias] = [x, scale, bias].map(|of| check.gradient(of));
        check.forward(Batchnorm { mean, inv_variance, ..Batchnorm::new(x, scale, bias, epsilon, normal) });
        check.forward(Pointwise::new(Mode::GeluFwd, normal, None, y));
        check.backward(Pointwise::new(Mode::GeluBwd, dy, Some(normal), arrives));
        check.backward(BatchnormBackward {
            dy: arrives,
            x,
            scale,
            dx,
            dscale,
            dbias,
            mean,
            inv_variance,
            peer_stats: vec![],
        });
        check.holds(1e-6);
    }
}

/// Softmax of the rows: dx = y · (dy - Σ y · dy).
#[test]
fn of_softmax() {
    for seed in 840..846 {
        let mut check = Check::new(seed);
        let (whole, rows) = ([2, 3, 7], [2, 3, 1]);
        let x = check.given(&whole, -2.0, 2.0);
        let [largest, total] = [(); 2].map(|()| check.between(&rows));
        let [below, powers] = [(); 2].map(|()| check.between(&whole));
        let y = check.tensor(&whole);
        let dy = check.weights(y);
        let dx = check.gradient(x);
        let [products, away] = [(); 2].map(|()| check.between(&whole));
        let met = check.between(&rows);
        check.forward(Reduction { mode: ReductionMode::Max, ..sum(x, largest) });
        check.forward(Pointwise::new(Mode::Sub, x, Some(largest), below));
        check.forward(Pointwise::new(Mode::Exp, below, None, powers));
        check.forward(sum(powers, total));
        check.forward(Pointwise::new(Mode::Div, powers, Some(total), y));
        check.backward(Pointwise::new(Mode::Mul, y, Some(dy), products));
        check.backward(sum(products, met));
        check.backward(Pointwise::new(Mode::Sub, dy, Some(met), away));
        check.backward(Pointwise::new(Mode::Mul, y, Some(away), dx));
        check.holds(1e-7);
    }
}

/// A layer of a network: h = gelu(x · w + b). The caller passes the transposed w as a second tensor.
#[test]
fn of_a_product_with_a_bias_and_an_activation() {
    for seed in 850..856 {
        let mut check = Check::new(seed);
        let [m, n, k] = [5, 4, 6];
        let a = check.given(&[m, k], -1.0, 1.0);
        let b = check.given(&[k, n], -1.0, 1.0);
        let bias = check.given(&[1, n], -1.0, 1.0);
        let turned = check.tensor(&[n, k]);
        let of_b = check.case.values(b);
        let transposed: Vec<f64> = (0..n * k).map(|at| of_b[(at % k * n + at / k) as usize]).collect();
        check.case.fill(turned, &transposed);
        let product = check.between(&[m, n]);
        let [summed, y] = [(); 2].map(|()| check.tensor(&[m, n]));
        let dy = check.weights(y);
        let arrives = check.between(&[m, n]);
        let [da, dbias] = [a, bias].map(|of| check.gradient(of));
        check.forward(Matmul { a, b, c: product });
        check.forward(Pointwise::new(Mode::Add, product, Some(bias), summed));
        check.forward(Pointwise::new(Mode::GeluFwd, summed, None, y));
        check.backward(Pointwise::new(Mode::GeluBwd, dy, Some(summed), arrives));
        check.backward(Matmul { a: arrives, b: turned, c: da });
        check.backward(sum(arrives, dbias));
        check.holds(1e-7);
    }
}
