//! Functions of one or two operands that stay in registers: activations, their gradients, roots and reciprocals.

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::problem::pointwise::Activation;

/// Declares the functions with their modes.
macro_rules! smooth {
    ($($mode:ident),*) => {
        /// A function. Gradients have two operands: the gradient of the result, and the function's operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Smooth {
            $(
                #[doc = concat!("As the mode ", stringify!($mode), ".")]
                $mode,
            )*
        }

        impl Smooth {
            /// The function of a mode; `None` for other modes.
            pub(crate) fn of(mode: PointwiseMode, activation: &Activation) -> Option<Self> {
                let plain = activation.lower_clip == 0.0
                    && activation.lower_clip_slope == 0.0
                    && activation.upper_clip.is_none();
                match mode {
                    PointwiseMode::ReluBwd if !plain => None,
                    $(PointwiseMode::$mode => Some(Self::$mode),)*
                    _ => None,
                }
            }

            /// The mode.
            pub(crate) fn mode(self) -> PointwiseMode {
                match self {
                    $(Self::$mode => PointwiseMode::$mode,)*
                }
            }
        }
    };
}

smooth!(
    Erf,
    Exp,
    Log,
    Rsqrt,
    Reciprocal,
    AddSquare,
    ReluBwd,
    SigmoidFwd,
    SigmoidBwd,
    TanhFwd,
    TanhBwd,
    GeluFwd,
    GeluBwd,
    GeluApproxTanhFwd,
    GeluApproxTanhBwd,
    SwishFwd,
    SwishBwd,
    EluFwd,
    EluBwd,
    SoftplusFwd,
    SoftplusBwd
);

/// Evaluates with the function as the constant `$s`, so that it is selected once instead of per value.
macro_rules! with_constant {
    ($smooth:expr, $s:ident => $call:expr) => {
        with_constant!($smooth, $s => $call,
            Erf Exp Log Rsqrt Reciprocal AddSquare ReluBwd SigmoidFwd SigmoidBwd TanhFwd TanhBwd GeluFwd GeluBwd
            GeluApproxTanhFwd GeluApproxTanhBwd SwishFwd SwishBwd EluFwd EluBwd SoftplusFwd SoftplusBwd)
    };
    ($smooth:expr, $s:ident => $call:expr, $($mode:ident)+) => {
        match $smooth {
            $($crate::pointwise::smooth::Smooth::$mode => {
                const $s: $crate::pointwise::smooth::Smooth =
                    $crate::pointwise::smooth::Smooth::$mode;
                $call
            })+
        }
    };
}
pub(crate) use with_constant;

impl Smooth {
    /// The parameter of the function.
    pub(crate) fn parameter(self, activation: &Activation) -> f32 {
        match self {
            Self::SwishFwd | Self::SwishBwd => activation.swish_beta,
            Self::EluFwd | Self::EluBwd => activation.elu_alpha,
            Self::SoftplusFwd | Self::SoftplusBwd => activation.softplus_beta,
            _ => 0.0,
        }
    }
}
