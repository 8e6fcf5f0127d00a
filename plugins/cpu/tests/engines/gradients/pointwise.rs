//! Gradients of activations.

use hipdnn_plugin_sdk::graph::PointwiseMode as Mode;
use hipdnn_plugin_sdk::graph::operation::Pointwise;

use super::Check;

const PAIRS: [(Mode, Mode); 8] = [
    (Mode::ReluBwd, Mode::ReluFwd),
    (Mode::SigmoidBwd, Mode::SigmoidFwd),
    (Mode::TanhBwd, Mode::TanhFwd),
    (Mode::GeluBwd, Mode::GeluFwd),
    (Mode::GeluApproxTanhBwd, Mode::GeluApproxTanhFwd),
    (Mode::SwishBwd, Mode::SwishFwd),
    (Mode::EluBwd, Mode::EluFwd),
    (Mode::SoftplusBwd, Mode::SoftplusFwd),
];

#[test]
fn of_every_activation() {
    assert_eq!(PAIRS.len(), Mode::ALL.iter().filter(|mode| mode.is_backward()).count());
    for (number, (backward, forward)) in (0..).zip(PAIRS) {
        for seed in 0..6 {
            let mut check = Check::new(400 + 10 * number + seed);
            let random = &mut check.random;
            let dims: Vec<i64> = (0..random.int(0, 3)).map(|_| random.int(1, 3)).chain([7]).collect();
            // With the default parameters of the operations, and with others.
            let mut number = |low, high| (seed % 2 == 1).then(|| random.real(low, high) as f32);
            let plain = Pointwise {
                relu_lower_clip: number(-1.5, 0.5),
                relu_upper_clip: number(1.0, 2.5),
                relu_lower_clip_slope: number(0.1, 0.5),
                swish_beta: number(0.5, 2.0),
                elu_alpha: number(0.5, 2.0),
                softplus_beta: number(0.5, 2.5),
                ..Pointwise::new(forward, 0, None, 0)
            };
            let x = check.given(&dims, -4.0, 4.0);
            let y = check.tensor(&dims);
            let dy = check.weights(y);
            let dx = check.gradient(x);
            check.forward(Pointwise { in_0: x, out_0: y, ..plain.clone() });
            check.backward(Pointwise { operation: backward, in_0: dy, in_1: Some(x), out_0: dx, ..plain });
            check.holds(1e-8);
        }
    }
}
