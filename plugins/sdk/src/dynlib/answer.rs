//! Sizes that a library answers, which decide how much memory is asked for.

use crate::PluginError;

/// The most bytes of what a compiler made, or of a plan or solution that is saved: a hundred times the largest ones seen.
pub const MOST_CODE: usize = 1 << 30;
/// The most bytes of what a compiler says.
pub const MOST_WORDS: usize = 64 << 20;
/// The most bytes of workspace: more than any device has memory.
pub const MOST_WORKSPACE: usize = 1 << 44;

/// The size, if it is one.
///
/// # Errors
/// The function that answered, the size, and the most that is believed.
pub fn size(function: &str, size: usize, most: usize) -> Result<usize, PluginError> {
    if size <= most {
        return Ok(size);
    }
    Err(PluginError::internal(format!("{function} answers {size} bytes, expected at most {most}")))
}

/// Room for as many bytes as a function answers.
///
/// # Errors
/// As [`size`], or that there is no such memory.
pub fn room(function: &str, bytes: usize, most: usize) -> Result<Vec<u8>, PluginError> {
    let bytes = size(function, bytes, most)?;
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| {
        PluginError::alloc_failed(format!("{function} answers {bytes} bytes, which are not to be had"))
    })?;
    room.resize(bytes, 0);
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_belief_are_refused_with_the_functions_name() {
        assert_eq!(room("it", 3, 8), Ok(vec![0; 3]));
        for wrong in [9, 100 << 30, usize::MAX] {
            let error = room("it", wrong, 8).unwrap_err();
            assert_eq!(error.message(), format!("it answers {wrong} bytes, expected at most 8"));
        }
        assert!(room("it", usize::MAX, usize::MAX).unwrap_err().message().contains("not to be had"));
    }
}
