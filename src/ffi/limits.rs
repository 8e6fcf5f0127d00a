//! Sizes that a caller can rely on.

/// Bytes that hold any last error text, its NUL included.
pub const HIPDNN_ERROR_STRING_MAX_LENGTH: usize = 2048;
