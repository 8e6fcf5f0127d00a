//! The one HIP type that the C interface names. It is HIP's own, or the header's stand-in where HIP is not installed.

/// What a `hipStream_t` points to: HIP's alone.
pub struct ihipStream_t {
    _private: [u8; 0],
}

/// A HIP stream; null is the default stream.
pub type hipStream_t = *mut ihipStream_t;
