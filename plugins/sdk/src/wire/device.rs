//! The device properties that the host passes to heuristic plugins.

use flatbuffers::FlatBufferBuilder;

use super::graph_reader::text;
use super::graph_writer::slot;
use super::reader::Table;
use crate::graph::GraphError;

/// The file identifier at byte 4.
const IDENTIFIER: &str = "HDDP";

/// The device that graphs run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProperties {
    /// The HIP device number; -1 for the CPU.
    pub device_id: i32,
    /// Number of compute units; for the CPU, of hardware threads.
    pub multi_processor_count: i32,
    /// Bytes of device memory; 0 for the CPU, which uses the machine's.
    pub total_global_mem: u64,
    /// Its architecture, for instance `gfx942:sramecc+:xnack-`; for the CPU, its architecture and model.
    pub architecture_name: String,
}

/// Packs the properties of a device.
pub fn write_device_properties(device: &DeviceProperties) -> Vec<u8> {
    let mut b = FlatBufferBuilder::with_capacity(128);
    let name = b.create_string(&device.architecture_name);
    let table = b.start_table();
    b.push_slot_always(slot(0), device.device_id);
    b.push_slot_always(slot(1), device.multi_processor_count);
    b.push_slot_always(slot(2), device.total_global_mem);
    b.push_slot_always(slot(3), name);
    let root = b.end_table(table);
    b.finish(root, Some(IDENTIFIER));
    b.finished_data().to_vec()
}

/// Unpacks the properties of a device.
///
/// # Errors
/// When the bytes are not well formed or are something else.
pub fn read_device_properties(bytes: &[u8]) -> Result<DeviceProperties, GraphError> {
    if bytes.get(4..8) != Some(IDENTIFIER.as_bytes()) {
        return Err(GraphError(format!(
            "the bytes do not have the identifier {IDENTIFIER} of device properties"
        )));
    }
    let root = Table::root(bytes)?;
    Ok(DeviceProperties {
        device_id: root.scalar(0)?.unwrap_or(-1),
        multi_processor_count: root.scalar(1)?.unwrap_or(0),
        total_global_mem: root.scalar(2)?.unwrap_or(0),
        architecture_name: text(root.text(3)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by the FlatBuffers library itself; `c_tests/wire/wire.cpp` reads it with that library again.
    const FOREIGN: &[u8] = include_bytes!("../../../../c_tests/golden/device_1.bin");

    #[test]
    fn files_of_another_writer_are_read() {
        let device = DeviceProperties {
            device_id: 3,
            multi_processor_count: 304,
            total_global_mem: 206_141_652_992,
            architecture_name: "gfx942:sramecc+:xnack-".into(),
        };
        assert_eq!(read_device_properties(FOREIGN), Ok(device));
        // That library omits default values.
        let bare = b"\x0c\0\0\0HDDP\x04\0\x04\0\x04\0\0\0";
        let unknown = DeviceProperties {
            device_id: -1,
            multi_processor_count: 0,
            total_global_mem: 0,
            architecture_name: String::new(),
        };
        assert_eq!(read_device_properties(bare), Ok(unknown));
        let mut other = FOREIGN.to_vec();
        other[7] = b'X';
        assert!(read_device_properties(&other).unwrap_err().0.contains("HDDP"));
    }

    #[test]
    fn writing_round_trips_and_damage_never_panics() {
        let device = DeviceProperties {
            device_id: -1,
            multi_processor_count: 2,
            total_global_mem: u64::MAX,
            architecture_name: "x86_64: Some CPU".into(),
        };
        let bytes = write_device_properties(&device);
        assert_eq!(&bytes[4..8], b"HDDP");
        assert_eq!(read_device_properties(&bytes).as_ref(), Ok(&device));
        for cut in 0..bytes.len() {
            // What follows the last field is padding.
            match read_device_properties(&bytes[..cut]) {
                Ok(read) => assert!(read == device && cut + 8 > bytes.len(), "{cut}"),
                Err(error) => assert!(!error.0.is_empty()),
            }
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = read_device_properties(&damaged);
        }
    }
}
