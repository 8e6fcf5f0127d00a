//! The text that explains the last failed call of each thread.

use std::cell::UnsafeCell;
use std::ffi::c_char;

use crate::ffi::HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH;

const LENGTH: usize = HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH;

thread_local! {
    // A plain array has no destructor, which would be registered with the thread and keep the library loaded
    // after the host has closed it.
    static TEXT: UnsafeCell<[u8; LENGTH]> = const { UnsafeCell::new([0; LENGTH]) };
}

/// Stores the text for this thread, truncated to the length that a host keeps.
pub fn set(text: &str) {
    let mut end = text.len().min(LENGTH - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).unwrap_or_default();
    TEXT.with(|cell| {
        // SAFETY: the array belongs to this thread, and no reference to it leaves this module.
        let buffer = unsafe { &mut *cell.get() };
        let mut written = 0;
        for (to, byte) in buffer.iter_mut().zip(kept.bytes()) {
            // A NUL would hide what follows it.
            *to = if byte == 0 { b' ' } else { byte };
            written += 1;
        }
        if let Some(end) = buffer.get_mut(written) {
            *end = 0;
        }
    });
}

/// The NUL-terminated text of this thread, empty before the first failure. It is valid until the next failure
/// on this thread.
pub fn get() -> *const c_char {
    TEXT.with(|cell| cell.get().cast_const().cast())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn text() -> String {
        // SAFETY: the text is NUL terminated and of this thread.
        unsafe { CStr::from_ptr(get()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn texts_are_per_thread_and_replace_each_other() {
        assert_eq!(text(), "");
        set("a long first text");
        set("short");
        std::thread::spawn(|| assert_eq!(text(), "")).join().unwrap();
        assert_eq!(text(), "short");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        set(&"é".repeat(LENGTH));
        assert_eq!(text(), "é".repeat((LENGTH - 1) / 2));
    }

    #[test]
    fn a_nul_does_not_end_the_text() {
        set("before\0after");
        assert_eq!(text(), "before after");
    }
}
