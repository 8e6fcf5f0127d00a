//! The only HIP type in the C interface. Without HIP, the header declares a stand-in.

/// The opaque pointee of `hipStream_t`.
pub struct ihipStream_t {
    _private: [u8; 0],
}

/// A HIP stream; null is the default stream.
pub type hipStream_t = *mut ihipStream_t;
