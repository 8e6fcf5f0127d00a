//! Texts written to the caller's buffers.

use std::ffi::c_char;

use crate::status::{Error, Result};

/// A text that a caller asks for; a null buffer asks for its length.
pub struct Text<'a> {
    /// The argument's name.
    pub name: &'static str,
    /// The text.
    pub text: &'a str,
    /// Null, or where the text and its NUL are written.
    pub buffer: *mut c_char,
    /// The size of the buffer.
    pub length: *mut usize,
}

/// Fills all buffers or, when one of them is null, writes the size that each needs.
///
/// # Safety
/// Lengths are readable and writable, and buffers null or as large as their lengths say.
pub unsafe fn give_texts(texts: &[Text<'_>]) -> Result<()> {
    if texts.iter().any(|text| text.buffer.is_null()) {
        for text in texts {
            // SAFETY: this function requires that each length is writable.
            unsafe { text.length.write_unaligned(text.text.len() + 1) };
        }
        return Ok(());
    }
    for Text { name, text, length, .. } in texts {
        // SAFETY: this function requires that each length is readable.
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
