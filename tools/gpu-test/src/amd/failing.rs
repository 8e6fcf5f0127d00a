//! Makes each call of AMD's libraries fail in turn.

use hipdnn_plugin_sdk::gpu::Gpu;

use super::Check;
use crate::cases::{HIPBLASLT, RTC};
use crate::failing::{Subject, every_call};

/// At least the number of calls that open a device.
const OPENING: usize = 8;

const MIOPEN: &str = "MIOPEN_ENGINE";

const SUBJECTS: &[Subject] = &[
    Subject {
        opening: OPENING,
        ..Subject::of("MIOPEN_ENGINE_DETERMINISTIC", "convolution forward 3x3 float ChannelsFirst")
    },
    // If no fused kernel is found, the operations are computed one by one.
    Subject {
        spared: &["miopenFindSolutions"],
        ..Subject::of(
            MIOPEN,
            "convolution 3x3 + bias + batchnorm with variance + relu_fwd in one kernel float ChannelsFirst",
        )
    },
    Subject {
        spared: &["miopenFindSolutions"],
        ..Subject::of(
            MIOPEN,
            "batchnorm training + relu_fwd in one kernel, kept RunningStatistics float ChannelsFirst",
        )
    },
    Subject {
        spared: &["miopenFindSolutions"],
        ..Subject::of(
            MIOPEN,
            "batchnorm inference + relu_bwd + batchnorm backward in one kernel float ChannelsFirst",
        )
    },
    Subject::of(MIOPEN, "convolution forward padding behind float ChannelsFirst"),
    Subject::of(MIOPEN, "convolution backward data padding behind float ChannelsFirst"),
    Subject::of(MIOPEN, "batchnorm inference 2-D float ChannelsFirst"),
    Subject::of(MIOPEN, "batchnorm training with running statistics 2-D float ChannelsFirst"),
    Subject::of(MIOPEN, "batchnorm backward 2-D float ChannelsFirst"),
    Subject::of(MIOPEN, "sigmoid_bwd float ChannelsFirst"),
    Subject::of(MIOPEN, "add with a channel's number float ChannelsFirst"),
    Subject::of(MIOPEN, "avgpool_exclude_padding 2x2 float"),
    Subject::of(MIOPEN, "maxpool backward 2x2 float"),
    Subject::of(MIOPEN, "reduction add to channels float ChannelsFirst"),
    Subject::of(MIOPEN, "layernorm with statistics of 1 of [6, 70] float"),
    Subject::of(MIOPEN, "RMSNorm of 1 of [6, 70] float"),
    Subject::of(MIOPEN, "RMSNorm backward of 1 of [6, 70] float"),
    Subject::of(MIOPEN, "softmax [6, 70] to [6, 1] float ChannelsFirst"),
    Subject::of(MIOPEN, "softmax backward [6, 70] to [6, 1] float ChannelsFirst"),
    // A saved code object that cannot be loaded is recompiled.
    Subject {
        opening: OPENING,
        spared: &["hipModuleLoadData"],
        ..Subject::of(RTC, "largest of the columns of row sums")
    },
    Subject { opening: OPENING, ..Subject::of(HIPBLASLT, "matmul + bias + relu_fwd half by HipblasLt") },
    // When asked whether it applies, the engine falls back from hipBLASLt to rocBLAS.
    Subject {
        opening: OPENING,
        spared: &[
            "hipblasLtCreate",
            "hipblasLtGetVersion",
            "hipblasLtMatmulDescCreate",
            "hipblasLtMatmulDescSetAttribute",
            "hipblasLtMatrixLayoutCreate",
            "hipblasLtMatrixLayoutSetAttribute",
            "hipblasLtMatmulPreferenceCreate",
            "hipblasLtMatmulPreferenceSetAttribute",
            "hipblasLtMatmulAlgoGetHeuristic",
        ],
        ..Subject::of(HIPBLASLT, "matmul + scale + residual float by Rocblas")
    },
];

/// The engines and cases, covering each kind of step.
pub fn subjects() -> impl Iterator<Item = (&'static str, &'static str)> {
    SUBJECTS.iter().map(|subject| (subject.engine, subject.case))
}

pub fn checks() -> Vec<Check> {
    let check = |subject: &'static Subject| -> Check {
        let name = format!("failing calls: {}: {}", subject.engine, subject.case);
        (name, Box::new(move |library, hip| every_call(library, Gpu::Hip(hip), subject, (0, 1))))
    };
    SUBJECTS.iter().map(check).collect()
}
