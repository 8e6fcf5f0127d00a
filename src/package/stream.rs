//! Reads a file part by part: what is wrong is found before the rest is read, and the reader never has more in memory than one
//! container.

use std::io::{Error, Read, Result};

use hipdnn_plugin_sdk::hash::Fnv1a;

use super::{MOST, PAYLOAD};

/// How much is read at once of the text.
const CHUNK: usize = 1 << 16;

/// The most bytes of a container.
const LARGEST: u64 = 256 << 20;

/// What of a file has not been read yet.
struct Rest<R> {
    from: R,
    left: u64,
    hash: Fnv1a,
}

impl<R: Read> Rest<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        let size = bytes.len() as u64;
        if size > self.left {
            return Err(Error::other(format!("it ends where {} of {size} bytes are left", self.left)));
        }
        self.from.read_exact(bytes)?;
        self.hash = std::mem::replace(&mut self.hash, Fnv1a::new()).add(bytes);
        self.left -= size;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}

/// A part of a file.
pub enum Part<'a> {
    /// The next bytes of the text that describes the containers.
    Text(&'a [u8]),
    /// The next container.
    Container(&'a [u8]),
}

/// Passes each part of a file of `size` bytes to `each`. They count only if the result is good: the checksum is known last.
///
/// # Errors
/// The file cannot be read, has another version, or is damaged or truncated.
pub fn read(from: impl Read, size: u64, mut each: impl FnMut(Part<'_>)) -> Result<()> {
    let mut file = Rest { from, left: size, hash: Fnv1a::new() };
    if file.array()? != PAYLOAD.mark {
        return Err(Error::other(format!("its first bytes are not those of {}", PAYLOAD.owner)));
    }
    let version = u32::from_le_bytes(file.array()?);
    if version != PAYLOAD.version {
        return Err(Error::other(format!("its version is {version}, expected {}", PAYLOAD.version)));
    }
    let checksum = u64::from_le_bytes(file.array()?);
    file.hash = Fnv1a::new();
    let mut text = u32::from_le_bytes(file.array()?) as usize;
    let mut bytes = vec![0; CHUNK];
    while text > 0 {
        let now = text.min(CHUNK);
        bytes.truncate(now);
        file.fill(&mut bytes)?;
        each(Part::Text(&bytes));
        text -= now;
    }
    for place in 0.. {
        if file.left == 0 {
            break;
        }
        let size = u64::from_le_bytes(file.array()?);
        if size > file.left.min(LARGEST) || place == MOST {
            let left = file.left;
            return Err(Error::other(format!(
                "plan {place} is said to have {size} bytes, of {left} that are left; at most {LARGEST} are read"
            )));
        }
        bytes.clear();
        bytes.try_reserve_exact(size as usize).map_err(Error::from)?;
        bytes.resize(size as usize, 0);
        file.fill(&mut bytes)?;
        each(Part::Container(&bytes));
    }
    if file.hash.number() != checksum {
        return Err(Error::other("it is damaged: its checksum differs"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Package;

    /// The containers, and how many bytes were read.
    fn read_all(bytes: &[u8], size: u64) -> (Result<Vec<Vec<u8>>>, u64) {
        let mut containers = Vec::new();
        let mut from = std::io::Cursor::new(bytes);
        let result = read(&mut from, size, |part| {
            if let Part::Container(container) = part {
                containers.push(container.to_vec());
            }
        });
        (result.map(|()| containers), from.position())
    }

    #[test]
    fn long_texts_are_skipped() {
        let about = "x".repeat(CHUNK + 1);
        let package = Package { about: &about, containers: vec![b"one", b"", b"three"] };
        let bytes = package.write().unwrap();
        let size = bytes.len() as u64;
        assert_eq!(read_all(&bytes, size).0.unwrap(), [&b"one"[..], b"", b"three"]);
        for cut in (0..20).chain(bytes.len() - 30..bytes.len()) {
            assert!(read_all(&bytes[..cut], cut as u64).0.is_err(), "{cut}");
            assert!(read_all(&bytes[..cut], size).0.is_err(), "{cut}");
        }
        for place in (0..20).chain(bytes.len() - 30..bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(read_all(&damaged, size).0.is_err(), "{place}");
        }
    }

    #[test]
    fn a_large_file_is_refused_by_its_first_bytes() {
        const HUGE: u64 = 3 << 30;
        let (result, read) = read_all(&[0; 100], HUGE);
        assert!(result.unwrap_err().to_string().contains("first bytes") && read == 4);
        let bytes = Package { about: "", containers: vec![&[0; 100]] }.write().unwrap();
        let mut version = bytes.clone();
        version[4] = 2;
        let (result, read) = read_all(&version, HUGE);
        assert!(result.unwrap_err().to_string().contains("version is 2") && read == 8);
        let mut size = bytes;
        size[20..28].copy_from_slice(&(HUGE - 28).to_le_bytes());
        let (result, read) = read_all(&size, HUGE);
        assert!(result.unwrap_err().to_string().contains("at most") && read == 28);
    }
}
