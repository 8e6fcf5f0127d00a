//! When work on a device began and ended there, by events of its stream.

use super::recorder::Recorder;

/// Records what devices have finished meanwhile; at the `end` of the process, what they finish at once.
pub fn collect(_recorder: &Recorder, _end: bool) {}
