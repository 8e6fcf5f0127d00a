//! Checks that a library file is complete before the loader maps it.
//!
//! The loader maps and reads what a file's program headers say. If the file is shorter, for instance because
//! it is still being copied, that raises SIGBUS. So the headers are first compared with the file's size.
//! Files that are not shared libraries of this machine are left to the loader, which reports them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

// Offsets and sizes in the headers of a 64-bit file.
const HEADER: usize = 64;
const CLASS: usize = 4;
const PROGRAM_HEADERS: usize = 32;
const PROGRAM_HEADER_SIZE: usize = 54;
const PROGRAM_HEADER_COUNT: usize = 56;
const PROGRAM_HEADER: usize = 56;
const LOAD: u64 = 1;

/// What is read at first: the headers of most files.
const START: usize = 1024;

/// A little-endian number of `N` bytes at an offset.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut number = [0; 8];
    number.get_mut(..N)?.copy_from_slice(bytes.get(at..)?.get(..N)?);
    Some(u64::from_le_bytes(number))
}

/// How many bytes of a file the loader maps, if it accepts the file; unreadable headers count as past the
/// end.
fn mapped(file: &File) -> Option<u64> {
    let mut start = [0; START];
    let read = file.read_at(&mut start, 0).ok()?;
    let known = start.get(..read)?;
    let header = known.get(..HEADER)?;
    // 64-bit little-endian, the only supported kind.
    if !header.starts_with(b"\x7fELF") || header.get(CLASS..CLASS + 2)? != [2, 1] {
        return None;
    }
    let start = number::<8>(header, PROGRAM_HEADERS)?;
    let size = number::<2>(header, PROGRAM_HEADER_SIZE)?;
    let count = number::<2>(header, PROGRAM_HEADER_COUNT)?;
    if size != PROGRAM_HEADER as u64 {
        return None;
    }
    let mut end = start.saturating_add(count * size);
    for index in 0..count {
        let at = start.saturating_add(index * size);
        let mut entry = [0; PROGRAM_HEADER];
        let near = usize::try_from(at).ok().and_then(|at| known.get(at..)?.get(..PROGRAM_HEADER));
        match near {
            Some(near) => entry.copy_from_slice(near),
            None if file.read_exact_at(&mut entry, at).is_ok() => {}
            None => break,
        }
        let (kind, offset, length) =
            (number::<4>(&entry, 0)?, number::<8>(&entry, 8)?, number::<8>(&entry, 32)?);
        if kind == LOAD {
            end = end.max(offset.saturating_add(length));
        }
    }
    Some(end)
}

/// Fails if a file is none, or shorter than what the loader would map.
///
/// # Errors
/// That it is none, or the actual and the expected number of bytes.
pub fn check(path: &Path) -> Result<(), String> {
    let Ok(metadata) = path.metadata() else { return Ok(()) };
    // Opening a pipe would block, in the loader, too.
    if !metadata.is_file() {
        return Err(format!("{}: it is not a plain file", path.display()));
    }
    let expected = File::open(path).ok().and_then(|file| mapped(&file));
    match expected {
        Some(expected) if expected > metadata.len() => Err(format!(
            "{}: the file is cut short: it has {} bytes, and its headers need {expected}",
            path.display(),
            metadata.len()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::files;

    #[test]
    fn truncated_files_are_refused_and_others_are_not() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let path = std::env::temp_dir().join(format!("elf_{}.so", std::process::id()));
        let check_bytes = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check(&path)
        };
        assert_eq!(check(Path::new("/proc/self/exe")), Ok(()));
        let expected = usize::try_from(mapped(&File::open("/proc/self/exe").unwrap()).unwrap()).unwrap();
        assert!(expected > whole.len() / 20 && expected <= whole.len(), "{expected} of {}", whole.len());
        assert_eq!(check_bytes(&whole[..expected]), Ok(()));
        for length in [HEADER, HEADER + 1, HEADER + PROGRAM_HEADER, 1000, expected / 2, expected - 1] {
            let message = check_bytes(&whole[..length]).unwrap_err();
            assert!(message.contains(&format!("it has {length} bytes, and its headers need ")), "{message}");
        }
        // Program headers at the end of the address space, and files that are not ELF.
        let mut far = whole[..4096].to_vec();
        far[PROGRAM_HEADERS..PROGRAM_HEADERS + 8].fill(0xff);
        assert!(check_bytes(&far).unwrap_err().contains("need 18446744073709551615"));
        for other in [&b""[..], b"\x7fELF", &[0; 100], b"no library"] {
            assert_eq!(check_bytes(other), Ok(()));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(check(&path), Ok(()));
        assert!(check(Path::new("/dev/zero")).unwrap_err().contains("not a plain file"));
        assert!(files::testing::pipe(&path).unwrap());
        assert!(check(&path).unwrap_err().contains("not a plain file"));
        std::fs::remove_file(&path).unwrap();
    }
}
