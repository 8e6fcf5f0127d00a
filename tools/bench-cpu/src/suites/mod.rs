//! The suites and their goals.

mod converted;
mod convolution;
mod int8;
mod memory;
mod transformer;

use crate::case::Case;

/// Cases that share a goal.
pub struct Suite {
    /// Its name, for `--suite`.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its goal, if any.
    pub goal: Option<Goal>,
    /// Its cases.
    pub cases: fn() -> Vec<Case>,
}

/// The goal of a suite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The geometric mean of the faster peer's time over ours.
    Ratio(f64),
    /// The same for the peer whose name begins with this word.
    Beside(&'static str, f64),
    /// The geometric mean of the share of the processor's peak, or of copying.
    Share(f64),
    /// Both.
    RatioAndShare(f64, f64),
    /// The least of the cases' ratios.
    Least(f64),
}

/// All of them, in the order of the table.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "resnet",
        about: "ResNet-50 convolutions + bias + ReLU, batch 1 and 16",
        goal: Some(Goal::Ratio(1.0)),
        cases: convolution::resnet,
    },
    Suite {
        name: "residual",
        about: "ResNet-50 convolutions + bias + residual + ReLU",
        goal: Some(Goal::Ratio(1.0)),
        cases: convolution::residual,
    },
    Suite {
        name: "int8",
        about: "the same convolutions and matmuls from bytes to bytes: dequantize, bias, ReLU, quantize",
        goal: Some(Goal::Ratio(1.0)),
        cases: int8::cases,
    },
    Suite {
        name: "depthwise",
        about: "MobileNet-v2 depthwise convolutions + bias + ReLU6",
        goal: None,
        cases: convolution::depthwise_layers,
    },
    Suite {
        name: "matmul",
        about: "matmuls of large matrices",
        goal: Some(Goal::Share(0.88)),
        cases: transformer::matmul,
    },
    Suite {
        name: "bert",
        about: "BERT-base matrix multiplications + bias (+ GELU)",
        goal: Some(Goal::Beside("ONNX Runtime", 1.05)),
        cases: transformer::bert,
    },
    Suite {
        name: "norm",
        about: "layernorm, softmax chain, GELU, norm + activation",
        goal: Some(Goal::Ratio(1.3)),
        cases: transformer::norm,
    },
    Suite {
        name: "sdpa",
        about: "attention, 12 heads of 64",
        goal: Some(Goal::Ratio(1.3)),
        cases: transformer::sdpa,
    },
    Suite {
        name: "batchnorm",
        about: "batchnorm, training and gradient; inference + ReLU",
        goal: Some(Goal::Ratio(1.3)),
        cases: memory::batchnorm,
    },
    Suite {
        name: "chain",
        about: "8 pointwise operations over 16 MiB",
        goal: Some(Goal::RatioAndShare(2.5, 0.85)),
        cases: memory::chain,
    },
    Suite {
        name: "backward",
        about: "ResNet-50 data and filter gradients, batch 16",
        goal: None,
        cases: convolution::training,
    },
    Suite {
        name: "converted",
        about: "mixture of experts, block scale and small types, each beside single precision; no peer has them",
        goal: None,
        cases: converted::cases,
    },
];

/// The default cases with busy threads: executions that take less than a time slice of the scheduler.
pub fn beside_busy_threads() -> Vec<Case> {
    convolution::beside_busy_threads()
}
