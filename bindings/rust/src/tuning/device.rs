//! The device that is tuned for.

use hipdnn_plugin_sdk::wire::{DeviceProperties, write_device_properties};

use crate::hardware;

/// The DeviceProperties of the first GPU, or of the processor on machines without a GPU.
pub fn device() -> Vec<u8> {
    let gpu = hardware::devices().ok().and_then(|devices| devices.into_iter().next());
    let properties = match gpu {
        Some(gpu) => DeviceProperties {
            device_id: gpu.number,
            multi_processor_count: gpu.compute_units,
            total_global_mem: gpu.memory_bytes,
            architecture_name: gpu.architecture,
        },
        None => DeviceProperties {
            device_id: -1,
            multi_processor_count: processors(),
            total_global_mem: 0,
            architecture_name: match model() {
                Some(model) => format!("{}: {model}", std::env::consts::ARCH),
                None => std::env::consts::ARCH.to_owned(),
            },
        },
    };
    write_device_properties(&properties)
}

/// The machine's properties, as the library identifies it in rankings.
fn processors() -> i32 {
    i32::try_from(hipdnn_plugin_sdk::os::processors::count()).unwrap_or(0)
}

/// The system's name for the processor.
fn model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}
