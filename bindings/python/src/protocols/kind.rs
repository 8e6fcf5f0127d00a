//! What is cached about an array type: its exchange functions, and whether it is masked.

use std::sync::Mutex;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyCapsule, PyType};

pub use crate::dlpack::Exchange;

/// What is cached about a type.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The address of its exchange functions; 0 if it has none.
    exchange: usize,
    /// Whether it is NumPy's masked array, whose mask the memory does not show.
    pub is_masked: bool,
}

/// The cached types.
static KNOWN: Mutex<Vec<(Py<PyType>, Kind)>> = Mutex::new(Vec::new());

/// More types than a program uses; others are inspected each time.
const MOST_TYPES: usize = 32;

impl Kind {
    /// What is known of a type, inspecting it if it is new.
    pub fn of(kind: &Bound<'_, PyType>) -> PyResult<Self> {
        let py = kind.py();
        if let Ok(types) = KNOWN.lock_py_attached(py)
            && let Some((_, found)) = types.iter().find(|(known, _)| known.as_ptr() == kind.as_ptr())
        {
            return Ok(*found);
        }
        let found = Self { exchange: address_of_exchange(kind)?, is_masked: is_masked(kind)? };
        if let Ok(mut types) = KNOWN.lock_py_attached(py)
            && types.len() < MOST_TYPES
        {
            // Keeps the type alive, so that its address is not reused.
            types.push((kind.clone().unbind(), found));
        }
        Ok(found)
    }

    /// Its exchange functions.
    pub fn exchange(self) -> Option<&'static Exchange> {
        // SAFETY: the address is 0, or that of a table that lives as long as the process, as the protocol demands.
        unsafe { (self.exchange as *const Exchange).as_ref() }
    }
}

fn address_of_exchange(kind: &Bound<'_, PyType>) -> PyResult<usize> {
    let Some(capsule) = kind.getattr_opt(intern!(kind.py(), "__dlpack_c_exchange_api__"))? else {
        return Ok(0);
    };
    let Ok(capsule) = capsule.cast::<PyCapsule>() else { return Ok(0) };
    let address = capsule.pointer_checked(Some(c"dlpack_exchange_api"))?;
    // SAFETY: a capsule of this name has such a table, whose header is the same in all versions.
    let version = unsafe { address.cast::<Exchange>().as_ref() }.version;
    Ok(if version.major == 1 { address.as_ptr() as usize } else { 0 })
}

fn is_masked(kind: &Bound<'_, PyType>) -> PyResult<bool> {
    for base in kind.mro() {
        let Ok(base) = base.cast_into::<PyType>() else { continue };
        if base.name()? == "MaskedArray"
            && base.module().is_ok_and(|module| module.to_string_lossy().starts_with("numpy.ma"))
        {
            return Ok(true);
        }
    }
    Ok(false)
}
