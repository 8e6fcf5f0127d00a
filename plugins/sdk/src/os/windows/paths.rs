//! Paths as UTF-8 in the C interface; other bytes are interpreted in the system's code page.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::api;

/// The path in a C string.
pub fn from_bytes(bytes: &[u8]) -> PathBuf {
    match str::from_utf8(bytes) {
        Ok(text) => PathBuf::from(text),
        Err(_) => {
            of_code_page(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned().into()).into()
        }
    }
}

fn of_code_page(bytes: &[u8]) -> Option<OsString> {
    let length = i32::try_from(bytes.len()).ok()?;
    // A byte yields at most one unit.
    let mut wide = vec![0; bytes.len()];
    let (page, flags) = (api::CODE_PAGE_OF_SYSTEM, api::ERROR_ON_INVALID);
    // SAFETY: both buffers have the stated number of elements.
    let written =
        unsafe { api::MultiByteToWideChar(page, flags, bytes.as_ptr(), length, wide.as_mut_ptr(), length) };
    let written = usize::try_from(written).ok().filter(|written| *written > 0)?;
    Some(OsString::from_wide(wide.get(..written)?))
}

/// A path as a C string; unpaired surrogates are replaced.
pub fn bytes(path: &OsStr) -> Cow<'_, [u8]> {
    match path.to_string_lossy() {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// The absolute path of an existing file, with links and dots resolved.
///
/// # Errors
/// Why it cannot be resolved.
pub fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize().map(without_prefix)
}

/// The longest path that every system function accepts, including its NUL.
const LONGEST: usize = 260;

/// Removes a leading `\\?\`, which other programs may not understand, if the path works without it.
pub fn without_prefix(path: PathBuf) -> PathBuf {
    let wide: Vec<u16> = path.as_os_str().encode_wide().collect();
    let text = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    if wide.len() >= LONGEST {
        return path;
    }
    if let Some(rest) = wide.strip_prefix(text(r"\\?\UNC\").as_slice()) {
        return OsString::from_wide(&[text(r"\\").as_slice(), rest].concat()).into();
    }
    match wide.strip_prefix(text(r"\\?\").as_slice()) {
        Some(rest @ [_, colon, ..]) if *colon == u16::from(b':') => OsString::from_wide(rest).into(),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_prefix_is_removed_where_possible() {
        for (path, expected) in [
            (r"\\?\C:\a\b.dll", r"C:\a\b.dll"),
            (r"\\?\UNC\server\share\b.dll", r"\\server\share\b.dll"),
            (r"C:\a", r"C:\a"),
            (r"\\?\Volume{1}\a", r"\\?\Volume{1}\a"),
        ] {
            assert_eq!(without_prefix(path.into()), PathBuf::from(expected));
        }
        let long = format!(r"\\?\C:\{}", "x".repeat(300));
        assert_eq!(without_prefix(long.clone().into()), PathBuf::from(long));
    }

    #[test]
    fn texts_are_utf_8() {
        let path = from_bytes("C:\\Grüße\\日本".as_bytes());
        assert_eq!(path, PathBuf::from("C:\\Grüße\\日本"));
        assert_eq!(&*bytes(path.as_os_str()), "C:\\Grüße\\日本".as_bytes());
        // Bytes that are not UTF-8 are read in the code page, whichever that is.
        assert!(from_bytes(b"C:\\Gr\xfc\xdfe").to_string_lossy().starts_with("C:\\Gr"));
    }
}
