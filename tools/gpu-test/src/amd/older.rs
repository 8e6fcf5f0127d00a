//! A MIOpen that lacks what only newer versions have: a process that does not find these functions.

use std::path::Path;

use hipdnn_plugin_sdk::hip::Hip;

use super::Check;
use super::trace::{Folder, MIOPEN, in_child};
use crate::Failure;
use crate::gate::HIDDEN;

/// What the plugin does without, or does not apply without.
const NEWER: &str = "miopenSetFindOptionAttachBinaries miopenFuseProblems miopenCreatePoolingDescriptor \
                     miopenTransformTensor miopenCreateReduceTensorDescriptor miopenSoftmaxForward_V2 miopenLayerNormForward";

/// What is computed as ever: a convolution, and a chain node by node.
const COMPUTED: [&str; 2] = [
    "convolution forward 1x1 float ChannelsFirst",
    "batchnorm with variance + relu_fwd in one kernel float ChannelsFirst",
];

/// What is refused, with the function that is missing.
const REFUSED: [(&str, &str); 5] = [
    ("maxpool 2x2 float", "miopenCreatePoolingDescriptor"),
    ("convolution forward padding behind float ChannelsFirst", "miopenTransformTensor"),
    ("reduction add of rows float ChannelsFirst", "miopenCreateReduceTensorDescriptor"),
    ("softmax [6, 70] to [6, 1] float ChannelsFirst", "miopenSoftmaxForward_V2"),
    ("layernorm of 1 of [6, 70] float", "miopenLayerNormForward"),
];

pub fn checks() -> Vec<Check> {
    vec![("calls: a MIOpen without newer functions".to_owned(), Box::new(older))]
}

fn older(library: &Path, _: &'static Hip) -> Result<String, Failure> {
    let folder = Folder::new("older")?;
    // Why the engine does not apply is a warning of the log.
    let child = |name: &str| {
        let saved = folder.0.join(name.replace(' ', "-"));
        in_child(library, MIOPEN, name, &saved, &[], &[(HIDDEN, NEWER), ("HIPDNN_LOG_LEVEL", "warn")])
    };
    for name in COMPUTED {
        let calls = child(name)?;
        let of = |call: &&String| NEWER.split(' ').any(|newer| call.starts_with(newer));
        if let Some(call) = calls.iter().find(of) {
            return Err(Failure(format!("{name}: {call} is called, which is not there")));
        }
    }
    for (name, function) in REFUSED {
        let expected = format!("this MIOpen has no {function}");
        match child(name) {
            Err(Failure(words)) if words.contains(&expected) => {}
            other => return Err(Failure(format!("{name}: {other:?}, expected {expected:?}"))),
        }
    }
    Ok(format!("{} graphs computed, {} refused", COMPUTED.len(), REFUSED.len()))
}
