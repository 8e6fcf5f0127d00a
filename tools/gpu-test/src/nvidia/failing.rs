//! Makes each call of CUDA, NVRTC, cuDNN and cuBLASLt fail in turn.

use super::{Check, Context, Outcome};
use crate::cases::{CUBLASLT, CUDNN, RTC};
use crate::failing::{Subject, every_call};

/// At least the number of calls that open a device.
const OPENING: usize = 14;

const SUBJECTS: [Subject; 3] = [
    // A saved code object that cannot be loaded is recompiled.
    Subject {
        opening: OPENING,
        spared: &["cuModuleLoadData"],
        ..Subject::of(RTC, "largest of the columns of row sums")
    },
    // There is a second heuristic, and plans that cuDNN cannot save or load are remade.
    Subject {
        opening: OPENING,
        spared: &[
            "cudnnBackendCreateDescriptor",
            "cudnnBackendSetAttribute",
            "cudnnBackendGetAttribute",
            "cudnnBackendFinalize",
        ],
        ..Subject::of(CUDNN, "conv forward 3x3 half ChannelsLast")
    },
    Subject { opening: OPENING, ..Subject::of(CUBLASLT, "matmul, bias true, residual true, relu_fwd, half") },
];

/// A check for each engine with a part of its calls.
pub fn checks(part: (usize, usize)) -> Vec<Check> {
    let check = |subject: &'static Subject| -> Check {
        let engine = if subject.engine == RTC { "NVRTC_ENGINE" } else { subject.engine };
        let check = move |context: &Context<'_>| match context.missing(engine) {
            Some(reason) => Ok(Outcome::LeftOut(reason.to_owned())),
            None => every_call(context.library, context.gpu(), subject, part).map(Outcome::Passed),
        };
        (format!("failing calls: {engine}: {}", subject.case), Box::new(check))
    };
    SUBJECTS.iter().map(check).collect()
}
