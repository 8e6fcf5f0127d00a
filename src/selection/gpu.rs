//! What GPUs can do at most: the clocks that their drivers tell, times what makers' data sheets say of each architecture.

use std::ffi::c_int;

use hipdnn_plugin_sdk::cuda::{
    CAPABILITY_MAJOR, CAPABILITY_MINOR, CLOCK_RATE, Cuda, MEMORY_BUS_WIDTH, MEMORY_CLOCK_RATE,
    MULTIPROCESSOR_COUNT,
};
use hipdnn_plugin_sdk::engine_kind::EngineDevice;
use hipdnn_plugin_sdk::hip::{Clocks, Hip};

use crate::device;

/// A device's peaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Operations a second on elements of the size that was asked for.
    pub operations: f64,
    /// Bytes a second between processors and memory.
    pub bytes: f64,
}

/// An architecture: the beginning of its name, operations of a multiprocessor in a clock on elements of 8, 4, 2 and 1 bytes, and
/// transfers of its memory in a clock. On matrix units where it has them for the size.
type Row = (&'static str, [u32; 4], u32);

/// HIP counts two compute units as one multiprocessor from gfx10 on. Longer beginnings come first.
const AMD: &[Row] = &[
    ("gfx906", [64, 128, 256, 512], 2),
    ("gfx908", [64, 256, 1024, 1024], 2),
    ("gfx90a", [256, 256, 1024, 1024], 2),
    ("gfx942", [256, 256, 2048, 4096], 4),
    ("gfx950", [128, 256, 4096, 8192], 4),
    ("gfx10", [16, 256, 512, 1024], 16),
    ("gfx115", [16, 512, 1024, 1024], 8),
    ("gfx11", [16, 512, 1024, 1024], 16),
    ("gfx12", [16, 512, 2048, 4096], 16),
];

/// By the compute capability.
const NVIDIA: &[Row] = &[
    ("70", [64, 128, 1024, 512], 2),
    ("72", [4, 128, 1024, 2048], 2),
    ("75", [4, 128, 1024, 2048], 2),
    ("80", [128, 128, 2048, 4096], 2),
    ("86", [4, 256, 1024, 2048], 2),
    ("87", [4, 256, 1024, 2048], 2),
    ("89", [4, 256, 1024, 2048], 2),
    ("90", [256, 256, 4096, 8192], 2),
    ("10", [128, 256, 8192, 16384], 2),
    ("12", [4, 256, 1024, 2048], 2),
];

/// The peaks of the GPU that this thread uses, for elements of so many bytes.
///
/// # Errors
/// Why they are not known.
pub fn peaks(maker: EngineDevice, size: usize) -> Result<Peaks, String> {
    match maker {
        EngineDevice::Amd => {
            if Hip::loaded().is_none() {
                return Err("the HIP runtime is not loaded".to_owned());
            }
            let device = device::current();
            let properties = &device.properties;
            of(AMD, &properties.architecture_name, properties.multi_processor_count, device.clocks, size)
        }
        EngineDevice::Nvidia => {
            let cuda = Cuda::loaded().ok_or("the CUDA driver is not loaded")?;
            const WANTED: [c_int; 6] = [
                CAPABILITY_MAJOR,
                CAPABILITY_MINOR,
                MULTIPROCESSOR_COUNT,
                CLOCK_RATE,
                MEMORY_CLOCK_RATE,
                MEMORY_BUS_WIDTH,
            ];
            let attributes = cuda.current_device().and_then(|device| cuda.attributes(device, WANTED));
            let [major, minor, processors, processors_khz, memory_khz, memory_bits] =
                attributes.map_err(|error| error.to_string())?;
            let clocks = Clocks { processors_khz, memory_khz, memory_bits };
            of(NVIDIA, &format!("{major}{minor}"), processors, clocks, size)
        }
        EngineDevice::Vulkan => Err("a Vulkan driver tells no clocks".to_owned()),
        EngineDevice::Unknown | EngineDevice::Host => Err("the engine does not tell its device".to_owned()),
    }
}

fn of(
    table: &[Row],
    architecture: &str,
    processors: c_int,
    clocks: Clocks,
    size: usize,
) -> Result<Peaks, String> {
    let Clocks { processors_khz, memory_khz, memory_bits } = clocks;
    let row = table.iter().find(|(start, ..)| architecture.starts_with(start));
    let (_, operations, transfers) =
        row.ok_or_else(|| format!("the peaks of architecture {architecture} are not known"))?;
    if [processors, processors_khz, memory_khz, memory_bits].iter().any(|number| *number <= 0) {
        return Err("the driver does not tell the device's clocks".to_owned());
    }
    let [eight, four, two, one] = *operations;
    let in_a_clock = match size {
        8.. => eight,
        4.. => four,
        2.. => two,
        _ => one,
    };
    let hertz = |khz: c_int| f64::from(khz) * 1e3;
    Ok(Peaks {
        operations: f64::from(in_a_clock) * f64::from(processors) * hertz(processors_khz),
        bytes: f64::from(memory_bits) / 8.0 * f64::from(*transfers) * hertz(memory_khz),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within a tenth of the data sheets, in 10¹² operations and bytes a second.
    #[test]
    fn peaks_are_those_of_data_sheets() {
        /// A device, the size of an element, and its operations and bytes.
        type Known = (&'static [Row], &'static str, c_int, [c_int; 3], usize, f64, f64);
        let devices: [Known; 7] = [
            (NVIDIA, "90", 132, [1_830_000, 3_201_000, 6144], 2, 989.0, 4.8),
            (NVIDIA, "80", 108, [1_410_000, 1_215_000, 5120], 4, 19.5, 1.555),
            (NVIDIA, "100", 148, [1_850_000, 3_996_000, 8192], 2, 2250.0, 8.0),
            (AMD, "gfx942:sramecc+:xnack-", 304, [2_100_000, 1_300_000, 8192], 2, 1307.0, 5.3),
            (AMD, "gfx942", 304, [2_100_000, 1_300_000, 8192], 8, 163.4, 5.3),
            (AMD, "gfx90a", 110, [1_700_000, 1_600_000, 4096], 2, 191.5, 1.6),
            (AMD, "gfx1100", 48, [2_498_000, 1_249_000, 384], 2, 122.8, 0.96),
        ];
        for (table, name, processors, [processors_khz, memory_khz, memory_bits], size, operations, bytes) in
            devices
        {
            let clocks = Clocks { processors_khz, memory_khz, memory_bits };
            let peaks = of(table, name, processors, clocks, size).unwrap();
            let near = |found: f64, expected: f64| (found / 1e12 / expected - 1.0).abs() < 0.1;
            assert!(near(peaks.operations, operations) && near(peaks.bytes, bytes), "{name} {peaks:?}");
        }
    }

    #[test]
    fn what_is_not_told_is_not_made_up() {
        let known = Clocks { processors_khz: 1, memory_khz: 1, memory_bits: 1 };
        assert!(of(AMD, "gfx803", 1, known, 4).unwrap_err().contains("gfx803"));
        assert!(of(AMD, "gfx942", 1, Clocks::default(), 4).unwrap_err().contains("clocks"));
        assert!(peaks(EngineDevice::Vulkan, 4).unwrap_err().contains("Vulkan"));
        assert!(peaks(EngineDevice::Unknown, 4).is_err());
    }
}
