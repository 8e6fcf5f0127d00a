//! The form of a file with plans that were made ahead of time: containers of graphs and plans as the C functions write them, one behind the
//! other, and a text in front that says what they are, for people and tools.
//!
//! The library, which looks for the plan of a graph, and the tools, which make such files and look into them, read them with this.

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::payload::Payload;

/// The mark, the version and the checksum of the file. Its parts are the text and the containers.
const PAYLOAD: Payload = Payload { mark: *b"HDPK", version: 1, owner: "plans made ahead of time" };

/// More containers than any file has.
const MOST: usize = 1 << 20;

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package<'a> {
    /// What the containers are, as JSON. The library does not read it.
    pub about: &'a str,
    /// The containers.
    pub containers: Vec<&'a [u8]>,
}

impl<'a> Package<'a> {
    /// Whether bytes are meant to be such a file.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&PAYLOAD.mark)
    }

    /// Takes a file apart.
    ///
    /// # Errors
    /// What is wrong with it: another version, damage, an end that comes too soon.
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
    /// Where the text is larger than its size can say.
    pub fn write(&self) -> Result<Vec<u8>, PluginError> {
        let mut blob = Vec::with_capacity(self.containers.iter().map(|container| container.len() + 8).sum());
        for container in &self.containers {
            blob.extend((container.len() as u64).to_le_bytes());
            blob.extend(*container);
        }
        PAYLOAD.write(&[self.about.as_bytes(), &blob])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
