//! Formats arguments and results for the log. Nothing here runs while the log is off.

use std::ffi::{c_int, c_void};
use std::fmt::Display;

use crate::descriptor::Descriptor;
use crate::ffi::{CEnum, hipdnnBackendAttributeType_t as Type};
use crate::handle::HANDLES;

/// How many elements of an array are logged.
const MOST: usize = 8;
/// How many bytes of a text are logged.
const LONGEST: usize = 80;

/// An enumerator: its name and its number.
pub fn named<E: CEnum>(number: c_int) -> String {
    E::from_raw(number).map_or_else(|| number.to_string(), |known| format!("{} ({number})", known.name()))
}

/// A descriptor: its number and its kind.
pub fn descriptor(descriptor: *const c_void) -> String {
    if descriptor.is_null() {
        return "null".into();
    }
    let kind = Descriptor::with(descriptor.addr(), |found| Ok(found.name()));
    format!("{descriptor:p} ({})", kind.unwrap_or("no live descriptor"))
}

/// The elements of an array that a call has read or written.
///
/// # Safety
/// `array` is null or has `count` elements of the type.
pub unsafe fn elements(kind: c_int, count: i64, array: *const c_void) -> String {
    let count = usize::try_from(count).unwrap_or(0);
    if array.is_null() {
        return "null".into();
    }
    let Some(kind) = Type::from_raw(kind) else { return format!("{array:p}") };
    // SAFETY: the array is not null here, so that it has `count` elements of the type, as this function requires; the reads are
    // unaligned.
    unsafe {
        match kind {
            Type::HIPDNN_TYPE_CHAR => text(count, array.cast()),
            Type::HIPDNN_TYPE_INT64 => list(count, array.cast::<i64>(), |value| value),
            Type::HIPDNN_TYPE_INT32 => list(count, array.cast::<i32>(), |value| value),
            Type::HIPDNN_TYPE_FLOAT => list(count, array.cast::<f32>(), |value| value),
            Type::HIPDNN_TYPE_DOUBLE => list(count, array.cast::<f64>(), |value| value),
            Type::HIPDNN_TYPE_BOOLEAN => list(count, array.cast::<u8>(), |value| value != 0),
            Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR => list(count, array.cast::<*const c_void>(), descriptor),
            Type::HIPDNN_TYPE_HANDLE | Type::HIPDNN_TYPE_VOID_PTR => {
                list(count, array.cast::<*const c_void>(), |value| format!("{value:p}"))
            }
            _ => match enumerator(kind) {
                Some(name) => list(count, array.cast::<c_int>(), name),
                None => format!("{array:p}"),
            },
        }
    }
}

/// The formatter of a type that is an enumeration.
fn enumerator(kind: Type) -> Option<fn(c_int) -> String> {
    use crate::ffi;
    Some(match kind {
        Type::HIPDNN_TYPE_DATA_TYPE => named::<ffi::hipdnnDataType_t>,
        Type::HIPDNN_TYPE_HEUR_MODE => named::<ffi::hipdnnBackendHeurMode_t>,
        Type::HIPDNN_TYPE_BEHAVIOR_NOTE => named::<ffi::hipdnnBackendBehaviorNote_t>,
        Type::HIPDNN_TYPE_NUMERICAL_NOTE => named::<ffi::hipdnnBackendNumericalNote_t>,
        Type::HIPDNN_TYPE_NORM_FWD_PHASE => named::<ffi::hipdnnNormFwdPhase_t>,
        Type::HIPDNN_TYPE_CONVOLUTION_MODE => named::<ffi::hipdnnConvolutionMode_t>,
        Type::HIPDNN_TYPE_POINTWISE_MODE => named::<ffi::hipdnnPointwiseMode_t>,
        Type::HIPDNN_TYPE_DIAGONAL_ALIGNMENT_EXT => named::<ffi::hipdnnDiagonalAlignment_t>,
        Type::HIPDNN_TYPE_ATTENTION_IMPLEMENTATION_EXT => named::<ffi::hipdnnAttentionImplementation_t>,
        Type::HIPDNN_TYPE_REDUCTION_OPERATOR_TYPE => named::<ffi::hipdnnReduceTensorOp_t>,
        Type::HIPDNN_TYPE_RESAMPLE_MODE => named::<ffi::hipdnnResampleMode_t>,
        Type::HIPDNN_TYPE_PADDING_MODE => named::<ffi::hipdnnPaddingMode_t>,
        Type::HIPDNN_TYPE_MOE_GROUPED_MATMUL_MODE => named::<ffi::hipdnnMoeGroupedMatmulMode_t>,
        Type::HIPDNN_TYPE_OPERATION_TYPE_EXT => named::<ffi::hipdnnOperationType_ext_t>,
        _ => return None,
    })
}

/// # Safety
/// The array has `count` elements.
unsafe fn list<T: Copy, R: Display>(count: usize, array: *const T, show: impl Fn(T) -> R) -> String {
    // SAFETY: the index is in bounds; the caller's array may be unaligned.
    let element = |index: usize| show(unsafe { array.add(index).read_unaligned() }).to_string();
    let mut words: Vec<String> = (0..count.min(MOST)).map(element).collect();
    if count > MOST {
        words.push("…".into());
    }
    format!("[{}]", words.join(", "))
}

/// # Safety
/// The array has `count` bytes.
unsafe fn text(count: usize, array: *const u8) -> String {
    // SAFETY: the slice is within the array.
    let bytes = unsafe { std::slice::from_raw_parts(array, count.min(LONGEST)) };
    let end = bytes.iter().position(|byte| *byte == 0);
    let more = if end.is_none() && count > LONGEST { "…" } else { "" };
    format!(
        "{:?}{more}",
        String::from_utf8_lossy(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default())
    )
}

/// A handle: its number, and whether it is alive.
pub fn handle(handle: *const c_void) -> String {
    let is_live = HANDLES.with(handle.addr(), |_| Ok(())).is_ok();
    match (handle.is_null(), is_live) {
        (true, _) => "null".into(),
        (false, true) => format!("{handle:p}"),
        (false, false) => format!("{handle:p} (no live handle)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described<T>(kind: Type, values: &[T]) -> String {
        // SAFETY: the array has these elements; each test names their type.
        unsafe { elements(kind as c_int, values.len() as i64, values.as_ptr().cast()) }
    }

    #[test]
    fn elements_are_formatted_by_type_and_long_arrays_are_cut() {
        assert_eq!(described(Type::HIPDNN_TYPE_INT64, &[1_i64, -2]), "[1, -2]");
        assert_eq!(described(Type::HIPDNN_TYPE_INT64, &[7_i64; 9]), "[7, 7, 7, 7, 7, 7, 7, 7, …]");
        assert_eq!(described(Type::HIPDNN_TYPE_FLOAT, &[1.5_f32]), "[1.5]");
        assert_eq!(described(Type::HIPDNN_TYPE_BOOLEAN, &[0_u8, 2]), "[false, true]");
        assert_eq!(described(Type::HIPDNN_TYPE_DATA_TYPE, &[0_i32, 99]), "[HIPDNN_DATA_FLOAT (0), 99]");
        assert_eq!(described(Type::HIPDNN_TYPE_CHAR, b"a\"b\0c"), "\"a\\\"b\"");
        assert_eq!(described(Type::HIPDNN_TYPE_CHAR, &[b'x'; 81]), format!("\"{}\"…", "x".repeat(80)));
        assert_eq!(
            described(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR, &[0_usize, 16]),
            "[null, 0x10 (no live descriptor)]"
        );
        // SAFETY: the count is 0 or negative, so nothing is read.
        let odd = unsafe {
            let array = std::ptr::dangling::<c_void>();
            let list =
                [(Type::HIPDNN_TYPE_INT64, 0), (Type::HIPDNN_TYPE_INT64, -1), (Type::HIPDNN_TYPE_CHAR, 0)];
            list.map(|(kind, count)| elements(kind as c_int, count, array))
        };
        assert_eq!(odd, ["[]", "[]", "\"\""]);
        // SAFETY: the pointer is null, so nothing is read.
        assert_eq!(unsafe { elements(Type::HIPDNN_TYPE_INT64 as c_int, 5, std::ptr::null()) }, "null");
    }
}
