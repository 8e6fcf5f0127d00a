//! The format of a saved plan: a few parts behind a magic number, a version and a checksum.

use crate::error::PluginError;
use crate::graph::Graph;
use crate::hash::Fnv1a;
use crate::wire::{self, EngineConfig, Layout};

/// The format of one plugin's saved plans.
///
/// The bytes are the magic number, the version (32 bits), the FNV-1a hash of the rest (64 bits), and the
/// parts, all but the last preceded by its size (32 bits). Numbers are little endian.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    /// The magic number at the start.
    pub mark: [u8; 4],
    /// The version of the parts' meaning.
    pub version: u32,
    /// The plans' owner in messages: "the CPU engines".
    pub owner: &'static str,
}

/// The request that a plan answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The graph.
    pub graph: Graph,
    /// The engine and its knob settings.
    pub config: EngineConfig,
}

impl Payload {
    /// A plan as bytes: the request, and results that are expensive to recompute.
    ///
    /// # Errors
    /// When a part exceeds the size field.
    pub fn write_plan(&self, request: &Request, found: &[u8]) -> Result<Vec<u8>, PluginError> {
        let config = wire::write_engine_config(&request.config);
        self.write(&[&config, found, &wire::write(&request.graph, Layout::G2)?])
    }

    /// Splits what [`Payload::write_plan`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a plan.
    pub fn read_plan<'a>(&self, bytes: &'a [u8]) -> Result<(Request, &'a [u8]), PluginError> {
        let [config, found, graph] = self.read(bytes)?;
        let config = wire::read_engine_config(config)?;
        Ok((Request { graph: wire::read(graph)?, config }, found))
    }

    /// Joins parts.
    ///
    /// # Errors
    /// When a part exceeds the size field.
    pub fn write(&self, parts: &[&[u8]]) -> Result<Vec<u8>, PluginError> {
        let mut body = Vec::with_capacity(parts.iter().map(|part| part.len() + 4).sum());
        for (place, part) in parts.iter().enumerate() {
            if place + 1 < parts.len() {
                let size = u32::try_from(part.len()).map_err(|_| {
                    PluginError::internal(format!("a part of {} bytes of a saved plan", part.len()))
                })?;
                body.extend(size.to_le_bytes());
            }
            body.extend(*part);
        }
        let mut bytes = Vec::with_capacity(body.len() + 16);
        bytes.extend(self.mark);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(Fnv1a::new().add(&body).number().to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Splits bytes into `N` parts.
    ///
    /// # Errors
    /// When they are another plugin's, of another version, damaged or too short.
    pub fn read<'a, const N: usize>(&self, bytes: &'a [u8]) -> Result<[&'a [u8]; N], PluginError> {
        let short = || PluginError::invalid_value(format!("the saved plan ends after {} bytes", bytes.len()));
        let (mark, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        if *mark != self.mark {
            return Err(PluginError::invalid_value(format!(
                "the bytes are not a saved plan of {}",
                self.owner
            )));
        }
        let version = u32::from_le_bytes(*version);
        if version != self.version {
            return Err(PluginError::not_applicable(format!(
                "the saved plan is of version {version}, {} read version {}",
                self.owner, self.version
            )));
        }
        let (checksum, mut body) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        if Fnv1a::new().add(body).number() != u64::from_le_bytes(*checksum) {
            return Err(PluginError::invalid_value("the saved plan is damaged: its checksum differs"));
        }
        let mut parts = [[].as_slice(); N];
        for (place, part) in parts.iter_mut().enumerate() {
            if place + 1 < N {
                let (size, rest) = body.split_first_chunk::<4>().ok_or_else(short)?;
                (*part, body) =
                    rest.split_at_checked(u32::from_le_bytes(*size) as usize).ok_or_else(short)?;
            } else {
                *part = body;
            }
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: Payload = Payload { mark: *b"TEST", version: 3, owner: "the test" };

    #[test]
    fn parts_round_trip() {
        let bytes = PAYLOAD.write(&[b"one", b"", b"three"]).unwrap();
        assert_eq!(PAYLOAD.read(&bytes).unwrap(), [b"one".as_slice(), b"", b"three"]);
        assert_eq!(PAYLOAD.read(&PAYLOAD.write(&[b"x"]).unwrap()).unwrap(), [b"x"]);
    }

    #[test]
    fn restored_plans_keep_their_request() {
        let config = EngineConfig { engine_id: 7, knobs: Vec::new() };
        let request = Request { graph: Graph { name: "it".to_owned(), ..Graph::default() }, config };
        let bytes = PAYLOAD.write_plan(&request, b"found").unwrap();
        assert_eq!(PAYLOAD.read_plan(&bytes).unwrap(), (request, b"found".as_slice()));
        let no_graph = PAYLOAD.write(&[b"", b"", b""]).unwrap();
        assert!(PAYLOAD.read_plan(&no_graph).is_err());
    }

    #[test]
    fn all_damage_is_detected() {
        let bytes = PAYLOAD.write(&[b"one", b"two"]).unwrap();
        for size in 0..bytes.len() {
            assert!(PAYLOAD.read::<2>(&bytes[..size]).is_err(), "{size}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(PAYLOAD.read::<2>(&damaged).is_err(), "{bit}");
        }
        let newer = Payload { version: 4, ..PAYLOAD }.read::<2>(&bytes).unwrap_err();
        assert!(newer.message().contains("of version 3, the test read version 4"), "{newer}");
        // A size beyond the end, with a valid checksum.
        let lying = Payload { mark: *b"TEST", ..PAYLOAD }.write(&[&[9, 0, 0, 0, 1]]).unwrap();
        assert!(PAYLOAD.read::<2>(&lying).unwrap_err().message().contains("ends after"));
    }
}
