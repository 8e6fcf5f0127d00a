//! Limits for the sizes that a library reports, which decide how much memory is allocated.

use crate::PluginError;

/// Limit in bytes for compiled code and saved plans or solutions: a hundred times the largest seen.
pub const MOST_CODE: usize = 1 << 30;
/// Limit in bytes for a compiler's log.
pub const MOST_WORDS: usize = 64 << 20;
/// Limit in bytes for a workspace: more memory than any device has.
pub const MOST_WORKSPACE: usize = 1 << 44;

/// The size, if it is plausible.
///
/// # Errors
/// The function that reported it, the size, and the limit.
pub fn size(function: &str, size: usize, most: usize) -> Result<usize, PluginError> {
    if size <= most {
        return Ok(size);
    }
    Err(PluginError::internal(format!("{function} returned a size of {size} bytes, expected at most {most}")))
}

/// A buffer of the size that a function reported.
///
/// # Errors
/// As [`size`], or that the memory cannot be allocated.
pub fn room(function: &str, bytes: usize, most: usize) -> Result<Vec<u8>, PluginError> {
    let bytes = size(function, bytes, most)?;
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| {
        PluginError::alloc_failed(format!(
            "{function} returned a size of {bytes} bytes, which cannot be allocated"
        ))
    })?;
    room.resize(bytes, 0);
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implausible_sizes_are_refused_with_the_functions_name() {
        assert_eq!(room("it", 3, 8), Ok(vec![0; 3]));
        for wrong in [9, 100 << 30, usize::MAX] {
            let error = room("it", wrong, 8).unwrap_err();
            assert_eq!(error.message(), format!("it returned a size of {wrong} bytes, expected at most 8"));
        }
        assert!(room("it", usize::MAX, usize::MAX).unwrap_err().message().contains("cannot be allocated"));
    }
}
