//! The thread that calls a log callback.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The thread that a log callback runs on.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnLogCallbackMode_t {
    /// The thread that logs.
    HIPDNN_LOG_CALLBACK_SYNC = 0,
    /// A thread of the library.
    HIPDNN_LOG_CALLBACK_ASYNC = 1,
}
