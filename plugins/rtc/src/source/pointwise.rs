//! The pointwise modes as expressions.

use hipdnn_plugin_planner::problem::pointwise::Activation;
use hipdnn_plugin_sdk::graph::PointwiseMode;

use super::value::Real;

/// What a mode makes of its operands; none for GEN_INDEX, which has none, and a mode without the operands that it reads.
pub fn expression(
    mode: PointwiseMode,
    operands: &[String],
    activation: &Activation,
    real: Real,
) -> Option<String> {
    use PointwiseMode as M;
    if operands.len() < mode.operands() {
        return None;
    }
    let x = operands.first()?;
    let second = || operands.get(1);
    let call = |name: &str| Some(format!("{name}({x})"));
    let call_2 = |name: &str| Some(format!("{name}({x}, {})", second()?));
    let infix = |operator: &str| Some(format!("{x} {operator} {}", second()?));
    let truth = |condition: String| Some(format!("({0})({condition} ? 1 : 0)", real.name()));
    let compared = |operator: &str| truth(format!("{x} {operator} {}", second()?));
    let number = |value: f32| real.literal(f64::from(value));
    let with = |name: &str, numbers: &[String]| {
        let operands = operands.iter().take(mode.operands()).chain(numbers).cloned().collect::<Vec<_>>();
        Some(format!("{name}({})", operands.join(", ")))
    };
    let relu = |name: &str| {
        let upper = activation.upper_clip.map_or_else(|| real.literal(f64::INFINITY), number);
        with(name, &[number(activation.lower_clip), upper, number(activation.lower_clip_slope)])
    };
    match mode {
        M::Unset | M::GenIndex => None,
        M::Abs => call("m_fabs"),
        M::Neg => call("-"),
        M::Identity => Some(x.clone()),
        M::Ceil => call("m_ceil"),
        M::Floor => call("m_floor"),
        M::Erf => call("m_erf"),
        M::Exp => call("m_exp"),
        M::Log => call("m_log"),
        M::Sin => call("m_sin"),
        M::Tan => call("m_tan"),
        M::Sqrt => call("m_sqrt"),
        M::Rsqrt => call("1 / m_sqrt"),
        M::Reciprocal => Some(format!("1 / {x}")),
        M::Add => infix("+"),
        M::Sub => infix("-"),
        M::Mul => infix("*"),
        M::Div => infix("/"),
        M::AddSquare => Some(format!("{x} + {0} * {0}", second()?)),
        M::Max => call_2("larger"),
        M::Min => call_2("smaller"),
        M::CmpEq => compared("=="),
        M::CmpNeq => compared("!="),
        M::CmpGe => compared(">="),
        M::CmpGt => compared(">"),
        M::CmpLe => compared("<="),
        M::CmpLt => compared("<"),
        M::LogicalAnd => truth(format!("({x} != 0 && {} != 0)", second()?)),
        M::LogicalOr => truth(format!("({x} != 0 || {} != 0)", second()?)),
        M::LogicalNot => truth(format!("{x} == 0")),
        M::BinarySelect => Some(format!("{} != 0 ? {x} : {}", operands.get(2)?, second()?)),
        M::ReluFwd => relu("relu"),
        M::ReluBwd => relu("relu_slope"),
        M::SigmoidFwd => call("sigmoid"),
        M::SigmoidBwd => call_2("sigmoid_slope"),
        M::TanhFwd => call("m_tanh"),
        M::TanhBwd => call_2("tanh_slope"),
        M::GeluFwd => call("gelu"),
        M::GeluBwd => call_2("gelu_slope"),
        M::GeluApproxTanhFwd => call("gelu_by_tanh"),
        M::GeluApproxTanhBwd => call_2("gelu_by_tanh_slope"),
        M::SwishFwd => with("swish", &[number(activation.swish_beta)]),
        M::SwishBwd => with("swish_slope", &[number(activation.swish_beta)]),
        M::EluFwd => with("elu", &[number(activation.elu_alpha)]),
        M::EluBwd => with("elu_slope", &[number(activation.elu_alpha)]),
        M::SoftplusFwd => with("softplus", &[number(activation.softplus_beta)]),
        M::SoftplusBwd => {
            let beta = number(activation.softplus_beta);
            Some(format!("{x} * sigmoid({beta} * {})", second()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Activation = Activation {
        lower_clip: 0.0,
        upper_clip: None,
        lower_clip_slope: 0.1,
        swish_beta: 1.0,
        elu_alpha: 1.0,
        softplus_beta: 2.0,
    };

    #[test]
    fn every_mode_has_an_expression_of_its_operands() {
        let names: Vec<String> = (0..3).map(|name| format!("v{name}")).collect();
        for mode in PointwiseMode::every() {
            for real in [Real::Single, Real::Double] {
                match expression(mode, &names, &PLAIN, real) {
                    None => assert_eq!(mode, PointwiseMode::GenIndex),
                    Some(text) => {
                        for (place, name) in names.iter().enumerate() {
                            assert_eq!(text.contains(name.as_str()), place < mode.operands(), "{text}");
                        }
                    }
                }
            }
            if mode.operands() > 1 {
                assert_eq!(expression(mode, &names[..1], &PLAIN, Real::Single), None, "{}", mode.name());
            }
        }
        assert_eq!(expression(PointwiseMode::Unset, &names, &PLAIN, Real::Single), None);
    }

    #[test]
    fn numbers_keep_their_bits() {
        let names = ["v7".to_owned(), "v8".to_owned()];
        let text = expression(PointwiseMode::ReluFwd, &names, &PLAIN, Real::Single);
        let expected = "relu(v7, (float)0.0, (float)float_of(0x7f800000u), (float)0.10000000149011612)";
        assert_eq!(text.as_deref(), Some(expected));
        let text = expression(PointwiseMode::SoftplusBwd, &names, &PLAIN, Real::Double);
        assert_eq!(text.as_deref(), Some("v7 * sigmoid((double)2.0 * v8)"));
    }
}
