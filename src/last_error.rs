//! The text of the last failure, kept for each thread.

use std::cell::RefCell;

use crate::ffi::HIPDNN_ERROR_STRING_MAX_LENGTH;

const CAPACITY: usize = HIPDNN_ERROR_STRING_MAX_LENGTH - 1;

struct Text {
    length: usize,
    bytes: [u8; CAPACITY],
}

thread_local! {
    static LAST: RefCell<Text> = const { RefCell::new(Text { length: 0, bytes: [0; CAPACITY] }) };
}

/// Stores `message` as this thread's last error, cut to the interface's limit.
pub fn set(message: &str) {
    LAST.with_borrow_mut(|last| {
        // A cut inside a character would leave invalid UTF-8.
        let length = message.floor_char_boundary(CAPACITY);
        if let (Some(to), Some(from)) = (last.bytes.get_mut(..length), message.as_bytes().get(..length)) {
            to.copy_from_slice(from);
            last.length = length;
        }
    });
}

/// Calls `f` with this thread's last error, empty if there is none.
pub fn with<R>(f: impl FnOnce(&[u8]) -> R) -> R {
    LAST.with_borrow(|last| f(last.bytes.get(..last.length).unwrap_or_default()))
}

/// Clears this thread's last error.
pub fn clear() {
    LAST.with_borrow_mut(|last| last.length = 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        set(&"é".repeat(2000));
        with(|text| {
            assert_eq!(text.len(), 2046);
            assert!(std::str::from_utf8(text).is_ok());
        });
        clear();
        with(|text| assert!(text.is_empty()));
    }

    #[test]
    fn each_thread_has_its_own() {
        set("here");
        std::thread::spawn(|| with(|text| assert!(text.is_empty()))).join().unwrap();
        with(|text| assert_eq!(text, b"here"));
    }
}
