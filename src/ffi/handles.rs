//! The opaque objects of the C interface.

/// The opaque pointee of `hipdnnHandle_t`, never read through the pointer.
pub struct hipdnnHandle {
    _private: [u8; 0],
}

/// A handle: a stream and the plugins that serve it. Created by `hipdnnCreate`, destroyed by `hipdnnDestroy`.
pub type hipdnnHandle_t = *mut hipdnnHandle;

/// The opaque pointee of `hipdnnBackendDescriptor_t`, never read through the pointer.
pub struct HipdnnBackendDescriptor {
    _private: [u8; 0],
}

/// A descriptor: an object that is configured through attributes and then finalized. Created by
/// `hipdnnBackendCreateDescriptor`, destroyed by `hipdnnBackendDestroyDescriptor`.
pub type hipdnnBackendDescriptor_t = *mut HipdnnBackendDescriptor;
