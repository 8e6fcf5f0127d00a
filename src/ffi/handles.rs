//! The opaque objects of the C interface.

/// What a `hipdnnHandle_t` points to, for C: never read through the pointer.
pub struct hipdnnHandle {
    _private: [u8; 0],
}

/// A handle: a stream and the plugins that answer for it. Made by `hipdnnCreate`, ended by `hipdnnDestroy`.
pub type hipdnnHandle_t = *mut hipdnnHandle;

/// What a `hipdnnBackendDescriptor_t` points to, for C: never read through the pointer.
pub struct HipdnnBackendDescriptor {
    _private: [u8; 0],
}

/// A descriptor: an object that is set up by attributes and then finalized. Made by
/// `hipdnnBackendCreateDescriptor`, ended by `hipdnnBackendDestroyDescriptor`.
pub type hipdnnBackendDescriptor_t = *mut HipdnnBackendDescriptor;
