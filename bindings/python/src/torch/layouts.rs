//! Checks the layouts that `direct` writes by hand, before its functions are used: a function whose results differ from those of
//! the stable interface by one bit is refused, and so are all if PyTorch's types look otherwise.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use super::arguments::{CPU, dtype};
use super::direct::{self, Direct};
use super::functions::{Array, Functions, RawTensor};
use super::owned::Owned;
use super::passing::{directly, stably};
use super::planning::Op;
use super::recipe::{Made, packed, size_of as bytes_of};
use super::samples;

/// The bytes of a tensor that a call of `Raw` might overwrite if C++ returned arrays in memory.
const SAVED: usize = 64;

/// The function of an operation, if it computes what the stable interface computes.
pub fn proven(f: &Functions, op: &Op) -> Option<Direct> {
    static ARE_KNOWN: AtomicBool = AtomicBool::new(false);
    if !ARE_KNOWN.load(Ordering::Relaxed) {
        types(f, |array| (array.data, array.size)).ok()?;
        ARE_KNOWN.store(true, Ordering::Relaxed);
    }
    direct::of(op.name).filter(|direct| agrees(f, op, direct).unwrap_or(false))
}

/// Checks that tensors and arrays have the expected layout; an error names the part that differs. `read` takes an array apart.
pub fn types(f: &Functions, read: impl Fn(Array) -> (*const i64, usize)) -> Result<(), String> {
    let dims = [2, 3, 5];
    let made = Made { dtype: dtype::FLOAT, dims: dims.to_vec(), strides: packed(&dims) };
    let tensor = Owned::new(f, &made, (CPU, 0)).map_err(|error| error.to_string())?;
    let of = |absent: &str| format!("this PyTorch lacks {absent}");
    let same_tensor = f.same_tensor.ok_or_else(|| of("another handle of a tensor"))?;
    let (mut other, mut sizes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the tensor is alive, and the functions write only to the locals `other` and `sizes`. A handle points to a C++ tensor, which
    // has at least one pointer.
    let (first, second) = unsafe {
        if same_tensor(tensor.handle(), &raw mut other) != 0
            || (f.sizes)(tensor.handle(), &raw mut sizes) != 0
        {
            return Err(f.error());
        }
        let read = |handle: RawTensor| handle.cast::<*mut c_void>().read();
        let both = (read(tensor.handle()), read(other));
        (f.delete_tensor)(other);
        both
    };
    if first.is_null() || first != second {
        return Err("a tensor does not begin with its pointer".to_owned());
    }
    for (name, raw) in [("an array of sizes", f.raw_sizes), ("an array of symbols", f.raw_symbols)] {
        let raw = raw.ok_or_else(|| of(name))?;
        // SAFETY: the pointer is a tensor's, as two handles agree, and only this thread has it. If C++ returned the array in memory, it
        // would take the first pointer for that memory and the second one for the tensor, so the bytes are restored.
        let array = unsafe {
            let saved = first.cast::<[u8; SAVED]>().read();
            let array = raw(first, first);
            first.cast::<[u8; SAVED]>().write(saved);
            array
        };
        if read(array) != (sizes, dims.len()) {
            return Err(format!("{name} is not an address before a length"));
        }
    }
    Ok(())
}

/// Whether a function computes a sample of an operation as the stable interface does. None if either cannot be called.
pub fn agrees(f: &Functions, op: &Op, direct: &Direct) -> Option<bool> {
    let samples = samples::of(op.name)?;
    let stack = || -> Option<Vec<u64>> {
        let values: Option<Vec<u64>> =
            samples.iter().zip(op.kinds).map(|(sample, kind)| samples::value(f, sample, *kind)).collect();
        // Results need room, too.
        values.map(|mut values| {
            values.resize(values.len().max(direct::RESULTS), 0);
            values
        })
    };
    let (mut by_stable, mut by_direct) = (stack()?, stack()?);
    // SAFETY: the stack has a value of each kind, and room for the results. Nothing is known to be wrong with the function: its
    // name has its types, and PyTorch's types are as expected.
    let found = unsafe {
        if stably(op, f, by_stable.as_mut_ptr()) != 0 {
            return None;
        }
        directly(op, f, by_direct.as_mut_ptr(), direct)?
    };
    let pairs = by_stable.iter().zip(found).take(op.answers);
    let results = pairs.map(|(stable, direct)| (taken(f, *stable), taken(f, direct)));
    let results: Vec<_> = results.collect();
    Some(results.iter().all(|(stable, direct)| stable.is_some() && stable == direct))
}

/// Type, sizes and bytes of a tensor of the stack, which is freed. None if it cannot be read.
fn taken(f: &Functions, value: u64) -> Option<(i32, Vec<i64>, Vec<u8>)> {
    let handle: RawTensor = super::arguments::pointer(value);
    // SAFETY: the value is a tensor's handle, and the functions write only to the locals `is_defined`, `dtype`, `rank`, `count`, `sizes`
    // and `data`. The bytes are those of its elements: results of samples have no gaps. Nothing else has the handle.
    unsafe {
        let (mut is_defined, mut dtype, mut rank, mut count) = (false, 0, 0, 0);
        let (mut sizes, mut data) = (std::ptr::null(), std::ptr::null_mut());
        (f.is_defined)(handle, &raw mut is_defined);
        let is_read = is_defined
            && (f.dtype)(handle, &raw mut dtype) == 0
            && (f.rank)(handle, &raw mut rank) == 0
            && (f.elements)(handle, &raw mut count) == 0
            && (f.sizes)(handle, &raw mut sizes) == 0
            && (f.data)(handle, &raw mut data) == 0;
        let of = is_read.then(|| contents(dtype, (sizes, rank), (data, count)));
        (f.delete_tensor)(handle);
        of.or_else(|| (!is_defined).then(|| (0, Vec::new(), Vec::new())))
    }
}

/// # Safety
/// Each pointer is null or readable for as many sizes, or elements of the type, as the number beside it says.
unsafe fn contents(
    dtype: i32,
    sizes: (*const i64, i64),
    data: (*mut c_void, i64),
) -> (i32, Vec<i64>, Vec<u8>) {
    let (rank, count) = (usize::try_from(sizes.1).unwrap_or(0), usize::try_from(data.1).unwrap_or(0));
    let bytes = if data.0.is_null() { 0 } else { count * bytes_of(dtype) };
    let rank = if sizes.0.is_null() { 0 } else { rank };
    let mut of = (dtype, vec![0; rank], vec![0; bytes]);
    // SAFETY: there are as many sizes and bytes, as this function requires; without any, nothing is read.
    unsafe {
        sizes.0.copy_to_nonoverlapping(of.1.as_mut_ptr(), rank);
        data.0.cast::<u8>().copy_to_nonoverlapping(of.2.as_mut_ptr(), bytes);
    }
    of
}

/// Whether the function of one operation computes what the stable interface computes for another one with the same arguments; none
/// if either cannot be called.
pub fn compares(f: &Functions, op: &Op, function: &CStr) -> Option<bool> {
    agrees(f, op, &direct::of(function)?)
}
