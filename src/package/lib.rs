//! The file format of plans compiled ahead of time: a text that describes the contents, for people and tools, followed by
//! the containers of graphs and plans that the C functions write.
//!
//! The library reads these files to find the plan of a graph; the tools create and inspect them.

pub mod stream;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::payload::Payload;

/// The mark, the version and the checksum of the file. Its parts are the text and the containers.
const PAYLOAD: Payload = Payload { mark: *b"HDPK", version: 1, owner: "plans made ahead of time" };

/// An upper limit for the number of containers.
const MOST: usize = 1 << 20;

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package<'a> {
    /// Describes the containers, as JSON. The library does not read it.
    pub about: &'a str,
    /// The containers.
    pub containers: Vec<&'a [u8]>,
}

impl<'a> Package<'a> {
    /// Whether bytes start with the mark of such a file.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&PAYLOAD.mark)
    }

    /// Parses a file.
    ///
    /// # Errors
    /// The file has another version, or is damaged or truncated.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PluginError> {
        let [about, mut rest] = PAYLOAD.read(bytes)?;
        let about = std::str::from_utf8(about)
            .map_err(|_| PluginError::invalid_value("the text of the plans is not UTF-8"))?;
        let mut containers = Vec::new();
        while let Some((size, behind)) = rest.split_first_chunk::<8>() {
            let size = usize::try_from(u64::from_le_bytes(*size)).unwrap_or(usize::MAX);
            let Some((container, behind)) = behind.split_at_checked(size).filter(|_| containers.len() < MOST)
            else {
                return Err(PluginError::invalid_value(format!(
                    "plan {} is said to have {size} bytes, of {} that are left",
                    containers.len(),
                    behind.len()
                )));
            };
            containers.push(container);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(PluginError::invalid_value(format!(
                "{} bytes stand behind the last plan",
                rest.len()
            )));
        }
        Ok(Self { about, containers })
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// The text is too long for its size field.
    pub fn write(&self) -> Result<Vec<u8>, PluginError> {
        let mut blob = Vec::with_capacity(self.containers.iter().map(|container| container.len() + 8).sum());
        for container in &self.containers {
            blob.extend((container.len() as u64).to_le_bytes());
            blob.extend(*container);
        }
        PAYLOAD.write(&[self.about.as_bytes(), &blob])
    }
}

/// Whether a device name is valid: `sm_90`, `gfx942`, `cpu`, `cpu:avx512`.
pub fn is_device(name: &str) -> bool {
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_number = |text: &str| is_plain(text) && text.starts_with(|first: char| first.is_ascii_digit());
    let starts =
        |of: &[&str], name: &str| of.iter().any(|start| name.strip_prefix(start).is_some_and(is_number));
    match name.split_once(':') {
        None => name == "cpu" || starts(&["sm_", "gfx"], name),
        Some(("cpu", isa)) => ["sse2", "avx2", "avx512", "neon"].contains(&isa),
        Some((gpu, _)) => starts(&["gfx"], gpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_device_names_are_told_from_others() {
        for name in ["cpu", "cpu:avx512", "sm_90", "sm_100a", "gfx942", "gfx90a", "gfx90a:sramecc+:xnack-"] {
            assert!(is_device(name), "{name}");
        }
        let wrong = ["", "gpu", "cpu:", "cpu:fast", "sm_", "gfx", "sm_90:x", "sm 90", "gfx9/4"];
        for name in wrong.into_iter().chain(["foo", "CPU", "sm_x", "sm90", "cuda"]) {
            assert!(!is_device(name), "{name}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_found() {
        let package = Package { about: "[]", containers: vec![b"one", b"", b"three"] };
        let bytes = package.write().unwrap();
        assert!(Package::is_one(&bytes) && !Package::is_one(b"HDGP"));
        assert_eq!(Package::read(&bytes), Ok(package));
        for size in 0..bytes.len() {
            assert!(Package::read(&bytes[..size]).is_err(), "{size}");
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(Package::read(&damaged).is_err(), "{place}");
        }
    }

    #[test]
    fn sizes_that_lie_are_refused_though_the_checksum_is_right() {
        for blob in [&[9, 0, 0, 0, 0, 0, 0, 0, 1][..], &[255; 8], &[1, 2, 3]] {
            let bytes = PAYLOAD.write(&[b"", blob]).unwrap();
            assert!(Package::read(&bytes).is_err(), "{blob:?}");
        }
        let bytes = PAYLOAD.write(&[&[0xff], &[]]).unwrap();
        assert!(Package::read(&bytes).unwrap_err().message().contains("UTF-8"));
    }
}
