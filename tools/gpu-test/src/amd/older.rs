//! An older MIOpen, simulated by a process that does not find functions of newer versions.

use std::path::Path;

use hipdnn_plugin_sdk::hip::Hip;

use super::Check;
use super::trace::{Folder, MIOPEN, in_child};
use crate::Failure;
use crate::gate::HIDDEN;

/// Functions that the plugin can do without, or that some graphs need.
const NEWER: &str = "miopenSetFindOptionAttachBinaries miopenFuseProblems miopenCreatePoolingDescriptor \
                     miopenTransformTensor miopenCreateReduceTensorDescriptor miopenSoftmaxForward_V2 miopenLayerNormForward";

/// Cases that still work: a convolution, and a chain computed node by node.
const COMPUTED: [&str; 2] = [
    "convolution forward 1x1 float ChannelsFirst",
    "batchnorm with variance + relu_fwd in one kernel float ChannelsFirst",
];

/// Refused cases, with the missing function.
const REFUSED: [(&str, &str); 5] = [
    ("avgpool_exclude_padding 2x2 float", "miopenCreatePoolingDescriptor"),
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
    // The log has the reason as a warning.
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
