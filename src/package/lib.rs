//! The file format of plans compiled ahead of time: a text that describes the contents, for people and tools, followed by
//! the containers of graphs and plans that the C functions write.
//!
//! The library reads these files to find the plan of a graph; the tools create and inspect them.

pub mod stream;

use std::io::Error;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::payload::Payload;

use stream::Part;

/// The mark, the version and the checksum of the file. Its parts are the text and the containers.
const PAYLOAD: Payload = Payload { mark: *b"HDPK", version: 1, owner: "plans made ahead of time" };

/// An upper limit for the number of containers.
const MOST: usize = 1 << 20;

/// The contents of a file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package<'a> {
    /// Describes the containers, as JSON. The library does not read it.
    pub about: &'a str,
    /// The containers.
    pub containers: Vec<&'a [u8]>,
}

impl Package<'_> {
    /// Whether bytes start with the mark of such a file.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&PAYLOAD.mark)
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

/// The contents of a file that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Describes the containers, as JSON.
    pub about: String,
    /// The containers.
    pub containers: Vec<Vec<u8>>,
}

impl Contents {
    /// Parses a file.
    ///
    /// # Errors
    /// The file has another version, or is damaged or truncated.
    pub fn read(bytes: &[u8]) -> std::io::Result<Self> {
        let (mut about, mut containers) = (Vec::new(), Vec::new());
        stream::read(bytes, bytes.len() as u64, |part| match part {
            Part::Text(text) => about.extend_from_slice(text),
            Part::Container(container) => containers.push(container.to_vec()),
        })?;
        let about =
            String::from_utf8(about).map_err(|_| Error::other("the text of the plans is not UTF-8"))?;
        Ok(Self { about, containers })
    }
}

/// Whether a device name is valid: `sm_90`, `gfx942`, `vulkan`, `cpu`, `cpu:avx512`.
pub fn is_device(name: &str) -> bool {
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_number = |text: &str| is_plain(text) && text.starts_with(|first: char| first.is_ascii_digit());
    let starts =
        |of: &[&str], name: &str| of.iter().any(|start| name.strip_prefix(start).is_some_and(is_number));
    match name.split_once(':') {
        None => name == "cpu" || name == "vulkan" || starts(&["sm_", "gfx"], name),
        Some(("cpu", isa)) => ["sse2", "avx2", "avx512", "neon"].contains(&isa),
        Some((gpu, _)) => starts(&["gfx"], gpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_device_names_are_told_from_others() {
        for name in
            ["cpu", "cpu:avx512", "vulkan", "sm_90", "sm_100a", "gfx942", "gfx90a", "gfx90a:sramecc+:xnack-"]
        {
            assert!(is_device(name), "{name}");
        }
        let wrong = ["", "gpu", "cpu:", "cpu:fast", "sm_", "gfx", "sm_90:x", "sm 90", "gfx9/4"];
        for name in wrong.into_iter().chain(["foo", "CPU", "sm_x", "sm90", "cuda", "vulkan:0"]) {
            assert!(!is_device(name), "{name}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_found() {
        let package = Package { about: "[]", containers: vec![b"one", b"", b"three"] };
        let bytes = package.write().unwrap();
        assert!(Package::is_one(&bytes) && !Package::is_one(b"HDGP"));
        let contents = Contents::read(&bytes).unwrap();
        assert_eq!(
            (contents.about.as_str(), contents.containers),
            ("[]", package.containers.iter().map(|one| one.to_vec()).collect())
        );
        for size in 0..bytes.len() {
            assert!(Contents::read(&bytes[..size]).is_err(), "{size}");
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(Contents::read(&damaged).is_err(), "{place}");
        }
    }

    #[test]
    fn sizes_that_lie_are_refused_though_the_checksum_is_right() {
        for blob in [&[9, 0, 0, 0, 0, 0, 0, 0, 1][..], &[255; 8], &[1, 2, 3]] {
            let bytes = PAYLOAD.write(&[b"", blob]).unwrap();
            assert!(Contents::read(&bytes).is_err(), "{blob:?}");
        }
        let bytes = PAYLOAD.write(&[&[0xff], &[]]).unwrap();
        assert!(Contents::read(&bytes).unwrap_err().to_string().contains("UTF-8"));
    }
}
