//! Devices that are not present, for which cuDNN plans from their properties.

use std::fmt::Write as _;
use std::ptr;

use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::compiled::{Maker, Target, properties};
use crate::cudnn::Cudnn;
use crate::library::keep_open;

/// cuDNN with the properties of an absent device.
#[derive(Debug)]
pub struct Absent {
    cudnn: &'static Cudnn,
    properties: Object,
    version: i32,
}

impl Absent {
    /// For an architecture, such as `sm_90`.
    ///
    /// # Errors
    /// When the architecture is not in the list, and what cuDNN or its libraries lack: planning without a
    /// device needs cuDNN 9.8.
    pub fn new(architecture: &str) -> Result<Self, PluginError> {
        let board = BOARDS.iter().find(|board| board.architecture() == architecture).ok_or_else(|| {
            let known: Vec<String> = BOARDS.iter().map(Board::architecture).collect();
            Refusal::new(format!("plans are made for {architecture}, expected one of {}", known.join(", ")))
        })?;
        let cudnn = Cudnn::find()?;
        let has_driver = keep_open(&["libcuda.so.1"]);
        let properties = properties(cudnn, &board.json()).map_err(|error| {
            let words = error.message();
            Refusal::new(if has_driver {
                format!("cuDNN rejects the properties of {architecture}: {words}")
            } else {
                format!(
                    "cuDNN does not load without libcuda.so.1, expected NVIDIA's driver, with or without a device: {words}"
                )
            })
        })?;
        Ok(Self { cudnn, properties, version: board.version })
    }

    /// Makes plans for the device. Valid as long as this is alive.
    pub fn maker(&self) -> Maker {
        // Plans are cached by device number; those of present devices are not negative.
        Maker {
            cudnn: self.cudnn,
            target: Target::Properties(self.properties.get()),
            device: -self.version,
            context: ptr::null_mut(),
        }
    }
}

/// A board of an architecture, from whose properties cuDNN's heuristics choose.
#[derive(Debug)]
struct Board {
    /// The compute capability; 900 for 9.0.
    version: i32,
    name: &'static str,
    multiprocessors: u32,
    threads_per_multiprocessor: u32,
    blocks_per_multiprocessor: u32,
    /// Maximum shared memory per block, in bytes.
    shared_memory: u32,
    l2_cache: u32,
    memory: u64,
    clock_khz: u32,
    memory_clock_khz: u32,
    /// Width in bits.
    memory_bus: u32,
}

/// The numbers are from the boards' data sheets and the technical specifications in the CUDA programming
/// guide; those of `sm_90` are as reported by an H200, except for the L2 cache and the memory, which are the
/// H100's.
const BOARDS: [Board; 6] = [
    Board {
        version: 800,
        name: "NVIDIA A100-SXM4-80GB",
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_memory: 163 << 10,
        l2_cache: 40 << 20,
        memory: 80 << 30,
        clock_khz: 1_410_000,
        memory_clock_khz: 1_593_000,
        memory_bus: 5120,
    },
    Board {
        version: 860,
        name: "NVIDIA A10",
        multiprocessors: 72,
        threads_per_multiprocessor: 1536,
        blocks_per_multiprocessor: 16,
        shared_memory: 99 << 10,
        l2_cache: 6 << 20,
        memory: 24 << 30,
        clock_khz: 1_695_000,
        memory_clock_khz: 6_251_000,
        memory_bus: 384,
    },
    Board {
        version: 890,
        name: "NVIDIA L40S",
        multiprocessors: 142,
        threads_per_multiprocessor: 1536,
        blocks_per_multiprocessor: 24,
        shared_memory: 99 << 10,
        l2_cache: 96 << 20,
        memory: 48 << 30,
        clock_khz: 2_520_000,
        memory_clock_khz: 9_001_000,
        memory_bus: 384,
    },
    Board {
        version: 900,
        name: "NVIDIA H100 80GB HBM3",
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_memory: 227 << 10,
        l2_cache: 50 << 20,
        memory: 80 << 30,
        clock_khz: 1_980_000,
        memory_clock_khz: 2_619_000,
        memory_bus: 5120,
    },
    Board {
        version: 1000,
        name: "NVIDIA B200",
        multiprocessors: 148,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_memory: 227 << 10,
        l2_cache: 126 << 20,
        memory: 180 << 30,
        clock_khz: 1_965_000,
        memory_clock_khz: 3_996_000,
        memory_bus: 8192,
    },
    Board {
        version: 1200,
        name: "NVIDIA GeForce RTX 5090",
        multiprocessors: 170,
        threads_per_multiprocessor: 1536,
        blocks_per_multiprocessor: 24,
        shared_memory: 99 << 10,
        l2_cache: 96 << 20,
        memory: 32 << 30,
        clock_khz: 2_407_000,
        memory_clock_khz: 14_001_000,
        memory_bus: 512,
    },
];

impl Board {
    /// The compiler's name, for instance `sm_90`.
    fn architecture(&self) -> String {
        format!("sm_{}", self.version / 10)
    }

    /// The properties as cuDNN 9.28 writes them; 9.19 has three keys less, and ignores those.
    fn json(&self) -> String {
        let mut text = String::from(
            "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"deviceName\":\"",
        );
        text.push_str(self.name);
        text.push('"');
        let numbers: [(&str, u64); 23] = [
            ("regsPerBlock", 65_536),
            ("multiProcessorCount", self.multiprocessors.into()),
            ("smCountOrigin", 0),
            ("warpSize", 32),
            ("maxSharedMemoryPerBlock", 48 << 10),
            ("maxSharedMemoryPerBlockOptin", self.shared_memory.into()),
            ("oversizedSharedMemoryPerBlock", 0),
            ("reservedSharedMemoryPerBlock", 1 << 10),
            ("maxRegistersPerSM", 65_536),
            ("maxCtasPerSM", self.blocks_per_multiprocessor.into()),
            ("maxThreadsPerBlock", 1024),
            ("maxThreadsPerSM", self.threads_per_multiprocessor.into()),
            ("pciDeviceId", 0),
            ("isTccDriver", 0),
            ("supportCoopLaunch", 1),
            ("totalGlobalMem", self.memory),
            ("smClockRateKHz", self.clock_khz.into()),
            ("memClockRateKHz", self.memory_clock_khz.into()),
            ("memoryBusWidth", self.memory_bus.into()),
            ("l2CacheSize", self.l2_cache.into()),
            ("cudaDeviceId", 0),
            ("deviceVer", self.version.unsigned_abs().into()),
            ("driverVer", 13_000),
        ];
        for (name, value) in numbers {
            // Writing to a string cannot fail.
            let _ = write!(text, ",\"{name}\":{value}");
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_board_is_found_by_its_architecture() {
        let names: Vec<String> = BOARDS.iter().map(Board::architecture).collect();
        assert_eq!(names, ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]);
        for board in &BOARDS {
            let text = board.json();
            assert!(text.starts_with('{') && text.ends_with('}'), "{text}");
            assert!(text.contains(&format!("\"deviceVer\":{}", board.version)), "{text}");
            assert_eq!(text.matches("\":").count(), 26, "{text}");
        }
    }

    #[test]
    fn an_unknown_architecture_is_named_with_the_known_ones() {
        let error = Absent::new("sm_70").unwrap_err().to_string();
        assert!(error.contains("sm_70") && error.contains("sm_80, sm_86"), "{error}");
    }
}
