//! The pointwise modes as functions of values.

use hipdnn_kernels::form::Unary;
use hipdnn_kernels::functions as f;
use hipdnn_kernels::{Builder, Value};
use hipdnn_plugin_planner::problem::pointwise::Activation;
use hipdnn_plugin_sdk::graph::PointwiseMode;

/// What a mode makes of its operands; none for modes without operands, and where operands are missing.
pub fn write(
    b: &mut Builder,
    mode: PointwiseMode,
    operands: &[Value],
    activation: &Activation,
) -> Option<Value> {
    use PointwiseMode as M;
    let x = *operands.first()?;
    let y = operands.get(1).copied();
    let z = operands.get(2).copied();
    let like = x;
    let [lower, slope] = [activation.lower_clip, activation.lower_clip_slope].map(f64::from);
    let upper = activation.upper_clip.map(f64::from);
    let [swish, elu, softplus] =
        [activation.swish_beta, activation.elu_alpha, activation.softplus_beta].map(f64::from);
    let is_true = |b: &mut Builder, x: Value| b.not_equal(x, 0.0);
    Some(match mode {
        M::Unset | M::GenIndex => return None,
        M::Abs => b.unary(Unary::Abs, x),
        M::Neg => b.neg(x),
        M::Identity => x,
        M::Ceil => b.unary(Unary::Ceil, x),
        M::Floor => b.unary(Unary::Floor, x),
        M::Erf => b.unary(Unary::Erf, x),
        M::Exp => b.exp(x),
        M::Log => b.unary(Unary::Log, x),
        M::Sin => b.unary(Unary::Sin, x),
        M::Tan => f::tan(b, x),
        M::Sqrt => b.unary(Unary::Sqrt, x),
        M::Rsqrt => b.rsqrt(x),
        M::Reciprocal => b.unary(Unary::Reciprocal, x),
        M::Add => b.add(x, y?),
        M::Sub => b.sub(x, y?),
        M::Mul => b.mul(x, y?),
        M::Div => b.div(x, y?),
        M::AddSquare => {
            let square = b.mul(y?, y?);
            b.add(x, square)
        }
        M::Max => b.max(x, y?),
        M::Min => b.min(x, y?),
        M::CmpEq | M::CmpNeq | M::CmpGe | M::CmpGt | M::CmpLe | M::CmpLt => {
            let y = y?;
            let holds = match mode {
                M::CmpEq => b.equal(x, y),
                M::CmpNeq => b.not_equal(x, y),
                M::CmpGe => b.greater_equal(x, y),
                M::CmpGt => b.greater(x, y),
                M::CmpLe => b.less_equal(x, y),
                _ => b.less(x, y),
            };
            f::truth(b, holds, like)
        }
        M::LogicalAnd | M::LogicalOr => {
            let y = y?;
            let [x, y] = [is_true(b, x), is_true(b, y)];
            let holds = if mode == M::LogicalAnd { b.and(x, y) } else { b.or(x, y) };
            f::truth(b, holds, like)
        }
        M::LogicalNot => {
            let holds = b.equal(x, 0.0);
            f::truth(b, holds, like)
        }
        M::BinarySelect => {
            let chosen = is_true(b, z?);
            b.select(chosen, x, y?)
        }
        M::ReluFwd => f::relu(b, x, lower, upper, slope),
        M::ReluBwd => f::relu_slope(b, x, y?, lower, upper, slope),
        M::SigmoidFwd => f::sigmoid(b, x),
        M::SigmoidBwd => f::sigmoid_slope(b, x, y?),
        M::TanhFwd => b.unary(Unary::Tanh, x),
        M::TanhBwd => f::tanh_slope(b, x, y?),
        M::GeluFwd => f::gelu(b, x),
        M::GeluBwd => f::gelu_slope(b, x, y?),
        M::GeluApproxTanhFwd => f::gelu_by_tanh(b, x),
        M::GeluApproxTanhBwd => f::gelu_by_tanh_slope(b, x, y?),
        M::SwishFwd => f::swish(b, x, swish),
        M::SwishBwd => f::swish_slope(b, x, y?, swish),
        M::EluFwd => f::elu(b, x, elu),
        M::EluBwd => f::elu_slope(b, x, y?, elu),
        M::SoftplusFwd => f::softplus(b, x, softplus),
        M::SoftplusBwd => f::softplus_slope(b, x, y?, softplus),
    })
}
