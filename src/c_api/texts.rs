//! Texts that go to a caller.

use std::ffi::c_char;

use crate::status::{Error, Result};

/// A text that a caller asks for: with its buffer null, for how long it is.
pub struct Text<'a> {
    /// The argument's name.
    pub name: &'static str,
    /// The text.
    pub text: &'a str,
    /// Null, or where the text goes with its NUL.
    pub buffer: *mut c_char,
    /// The room of the buffer.
    pub length: *mut usize,
}

/// Fills all texts or, when one of them has no buffer, writes the room that each needs.
///
/// # Safety
/// Lengths are readable and writable, and buffers null or with as much room as their lengths say.
pub unsafe fn give_texts(texts: &[Text<'_>]) -> Result<()> {
    if texts.iter().any(|text| text.buffer.is_null()) {
        for text in texts {
            // SAFETY: the length is writable.
            unsafe { text.length.write_unaligned(text.text.len() + 1) };
        }
        return Ok(());
    }
    for Text { name, text, length, .. } in texts {
        // SAFETY: the length is readable.
        let room = unsafe { length.read_unaligned() };
        if room <= text.len() {
            return Err(Error::bad_param(format!(
                "the room for {name} is {room} bytes, expected at least {}",
                text.len() + 1
            )));
        }
    }
    for Text { text, buffer, .. } in texts {
        // SAFETY: the buffer has room for the text and its NUL.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            buffer.add(text.len()).write(0);
        }
    }
    Ok(())
}
