//! The status that every call returns.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// The result of a call. After a failure, `hipdnnGetLastErrorString` returns the reason.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
pub enum hipdnnStatus_t {
    /// The call succeeded.
    HIPDNN_STATUS_SUCCESS = 0,
    /// The object is in the wrong state: not yet or already finalized.
    HIPDNN_STATUS_NOT_INITIALIZED = 1,
    /// An argument has a value that the call does not accept, or is not a live handle or descriptor of the right kind.
    HIPDNN_STATUS_BAD_PARAM = 2,
    /// An argument is null.
    HIPDNN_STATUS_BAD_PARAM_NULL_POINTER = 3,
    /// A descriptor that must be finalized is not.
    HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 4,
    /// An index or value is outside its range.
    HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND = 5,
    /// A buffer is too small; the size needed was written.
    HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 6,
    /// The streams do not match.
    HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH = 7,
    /// The request is not supported, or not at present.
    HIPDNN_STATUS_NOT_SUPPORTED = 8,
    /// A failure inside the library that the caller did not cause.
    HIPDNN_STATUS_INTERNAL_ERROR = 9,
    /// Memory ran out.
    HIPDNN_STATUS_ALLOC_FAILED = 10,
    /// Host memory ran out.
    HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 11,
    /// Device memory ran out.
    HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 12,
    /// The device failed while it computed.
    HIPDNN_STATUS_EXECUTION_FAILED = 13,
    /// A plugin failed; the last error has its message.
    HIPDNN_STATUS_PLUGIN_ERROR = 14,
    /// The versions of library and caller differ. Only frontends return it.
    HIPDNN_STATUS_VERSION_MISMATCH = 15,
}
