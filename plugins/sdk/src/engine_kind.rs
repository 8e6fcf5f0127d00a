//! What an engine computes on, and where its kernels come from.

/// The device whose memory an engine takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum EngineDevice {
    /// The engine does not tell: a GPU of any maker.
    #[default]
    Unknown = 0,
    /// The host.
    Host = 1,
    /// AMD's GPUs.
    Amd = 2,
    /// NVIDIA's GPUs.
    Nvidia = 3,
    /// Devices with a Vulkan driver.
    Vulkan = 4,
}

/// Where an engine's kernels come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Implementation {
    /// The engine's own, or the engine does not tell.
    #[default]
    Own = 0,
    /// A library of the device's maker.
    Library = 1,
    /// Generated for each graph.
    Generated = 2,
    /// Loops that are compared with, and not fast.
    Reference = 3,
}

/// What an engine computes on, and where its kernels come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EngineKind {
    /// The device whose memory it takes.
    pub device: EngineDevice,
    /// Where its kernels come from.
    pub implementation: Implementation,
}

/// Engines by the beginning of their name.
const BY_NAME: &[(&str, EngineDevice, Implementation)] = &[
    ("CPU_REFERENCE_", EngineDevice::Host, Implementation::Reference),
    ("CPU_", EngineDevice::Host, Implementation::Own),
    ("CUDNN_", EngineDevice::Nvidia, Implementation::Library),
    ("CUBLASLT_", EngineDevice::Nvidia, Implementation::Library),
    ("NVRTC_", EngineDevice::Nvidia, Implementation::Generated),
    ("MIOPEN_", EngineDevice::Amd, Implementation::Library),
    ("HIPBLASLT_", EngineDevice::Amd, Implementation::Library),
    ("HIPRTC_", EngineDevice::Amd, Implementation::Generated),
    ("VULKAN_", EngineDevice::Vulkan, Implementation::Generated),
];

impl EngineKind {
    /// The kind of an engine whose plugin does not tell it, by its name. No other place guesses from names.
    pub fn by_name(engine: &str) -> Self {
        let known = BY_NAME.iter().find(|(start, ..)| engine.starts_with(start));
        known.map_or_else(Self::default, |(_, device, implementation)| Self {
            device: *device,
            implementation: *implementation,
        })
    }

    /// The kind with these numbers; unknown numbers are the defaults.
    pub fn from_numbers(device: u32, implementation: u32) -> Self {
        Self {
            device: match device {
                1 => EngineDevice::Host,
                2 => EngineDevice::Amd,
                3 => EngineDevice::Nvidia,
                4 => EngineDevice::Vulkan,
                _ => EngineDevice::Unknown,
            },
            implementation: match implementation {
                1 => Implementation::Library,
                2 => Implementation::Generated,
                3 => Implementation::Reference,
                _ => Implementation::Own,
            },
        }
    }

    /// The numbers of device and implementation.
    pub fn numbers(self) -> [u32; 2] {
        [self.device as u32, self.implementation as u32]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_kinds_belong_together() {
        for device in 0..6 {
            for implementation in 0..5 {
                let kind = EngineKind::from_numbers(device, implementation);
                let expected = [
                    if device < 5 { device } else { 0 },
                    if implementation < 4 { implementation } else { 0 },
                ];
                assert_eq!(kind.numbers(), expected);
            }
        }
    }

    #[test]
    fn names_tell_where_plugins_do_not() {
        let numbers = |name| EngineKind::by_name(name).numbers();
        assert_eq!((numbers("CPU_ENGINE"), numbers("CPU_REFERENCE_ENGINE")), ([1, 0], [1, 3]));
        assert_eq!((numbers("MIOPEN_ENGINE"), numbers("HIPRTC_ENGINE")), ([2, 1], [2, 2]));
        assert_eq!((numbers("CUDNN_ENGINE"), numbers("NVRTC_ENGINE")), ([3, 1], [3, 2]));
        assert_eq!((numbers("VULKAN_ENGINE"), numbers("EXAMPLE_ENGINE")), ([4, 2], [0, 0]));
    }
}
