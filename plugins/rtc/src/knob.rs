//! The knobs of the engines.

use hipdnn_plugin_sdk::wire::{Knob, KnobSetting, int_setting};

use crate::source::Options;

/// Whether workgroups share rows if these are few and long.
pub const SHARE_ROWS: &str = "rtc.share_rows";

/// Whether the bits of an item of a batch depend on it alone.
pub const BATCH_INVARIANT: &str = "batch_invariant";

/// The knobs of both engines.
pub fn knobs() -> Vec<Knob> {
    vec![
        Knob::flag(SHARE_ROWS, "lets workgroups share rows where these are few and long", true),
        Knob::flag(BATCH_INVARIANT, "the same bits for an item of the batch whatever the others are", false),
    ]
}

/// The options selected by knob settings.
pub fn options(settings: &[KnobSetting]) -> Options {
    Options {
        shares_rows: int_setting(settings, SHARE_ROWS) != Some(0),
        batch_invariant: int_setting(settings, BATCH_INVARIANT) == Some(1),
        ..Options::default()
    }
}
