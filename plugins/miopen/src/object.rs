//! MIOpen's objects. Those that MIOpen may change during use are behind a lock.

use std::ffi::{c_int, c_void};
use std::ptr;

pub use hipdnn_plugin_sdk::dynlib::Object;

use crate::miopen::{Miopen, MiopenError, miopenStatus_t};

/// The object created by a MIOpen function.
///
/// # Errors
/// MIOpen's.
///
/// # Safety
/// `create` stores a new MIOpen object at the pointer, and `destroy` destroys it.
pub unsafe fn make(
    miopen: &Miopen,
    function: &str,
    create: unsafe extern "C" fn(*mut *mut c_void) -> miopenStatus_t,
    destroy: unsafe extern "C" fn(*mut c_void) -> miopenStatus_t,
) -> Result<Object, MiopenError> {
    let mut object = ptr::null_mut();
    // SAFETY: the function writes only to the local `object`, and the new object is owned at once.
    unsafe {
        miopen.check(function, create(&mut object))?;
        Ok(Object::new(object, destroy))
    }
}

/// A tensor descriptor with these dims and strides.
///
/// # Errors
/// MIOpen's.
pub fn tensor(
    miopen: &Miopen,
    data_type: c_int,
    dims: &[c_int],
    strides: &[c_int],
) -> Result<Object, MiopenError> {
    let mut descriptor = ptr::null_mut();
    // SAFETY: the function writes only to the local `descriptor`, and the new object is owned at once.
    let object = unsafe {
        miopen
            .check("miopenCreateTensorDescriptor", (miopen.miopenCreateTensorDescriptor)(&mut descriptor))?;
        Object::new(descriptor, miopen.miopenDestroyTensorDescriptor)
    };
    let rank = dims.len().min(strides.len()) as c_int;
    // SAFETY: both arrays have `rank` elements.
    miopen.check("miopenSetTensorDescriptor", unsafe {
        (miopen.miopenSetTensorDescriptor)(descriptor, data_type, rank, dims.as_ptr(), strides.as_ptr())
    })?;
    Ok(object)
}

/// An activation descriptor.
///
/// # Errors
/// MIOpen's.
pub fn activation(
    miopen: &Miopen,
    mode: c_int,
    [alpha, beta, gamma]: [f64; 3],
) -> Result<Object, MiopenError> {
    let mut descriptor = ptr::null_mut();
    // SAFETY: the function writes only to the local `descriptor`, and the new object is owned at once.
    let object = unsafe {
        miopen.check(
            "miopenCreateActivationDescriptor",
            (miopen.miopenCreateActivationDescriptor)(&mut descriptor),
        )?;
        Object::new(descriptor, miopen.miopenDestroyActivationDescriptor)
    };
    // SAFETY: `object` owns the descriptor, which takes any mode and parameters.
    miopen.check("miopenSetActivationDescriptor", unsafe {
        (miopen.miopenSetActivationDescriptor)(descriptor, mode, alpha, beta, gamma)
    })?;
    Ok(object)
}
