//! Target names for plans compiled ahead of time: `sm_90`, `gfx942`, `vulkan`, `cpu`, `cpu:avx512`.

use std::ffi::c_int;

use hipdnn_package::is_device;
use hipdnn_plugin_sdk::cuda::{CAPABILITY_MAJOR, CAPABILITY_MINOR, Cuda};
use hipdnn_plugin_sdk::hip::Hip;

use crate::lock::OnceLock;
use crate::log;

/// The device to plan for instead of the present one: `HIPDNN_TARGET_DEVICE`, read once.
pub fn named() -> Option<&'static str> {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let name = std::env::var("HIPDNN_TARGET_DEVICE").ok().filter(|name| !name.is_empty())?;
        if is_device(&name) {
            return Some(name);
        }
        log::warn(|| {
            format!(
                "HIPDNN_TARGET_DEVICE is {name:?}, expected cpu, cpu:ISA, vulkan, sm_NUMBER or gfxNUMBER; plans are for the present device"
            )
        });
        None
    };
    NAMED.get_or_init(read).as_deref()
}

/// Whether the machine has a device of this name. Loads the GPU library to find out: whoever has plans for GPUs uses one.
pub fn is_here(name: &str) -> bool {
    match name.split_once(':') {
        // The plugin knows its device, and plans anew for another.
        None if name == "cpu" || name == "vulkan" => true,
        Some(("cpu", isa)) => has_isa(isa),
        _ if name.starts_with("sm_") => is_cuda(name).unwrap_or(false),
        _ if name.starts_with("gfx") => is_hip(name).unwrap_or(false),
        _ => false,
    }
}

/// Whether the processor has an instruction set, under the CPU engines' names.
fn has_isa(name: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    return match name {
        "sse2" => true,
        "avx2" => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        "avx512" => {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        }
        _ => false,
    };
    #[cfg(target_arch = "aarch64")]
    return name == "neon";
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Whether one of CUDA's devices has an architecture.
fn is_cuda(name: &str) -> Option<bool> {
    let cuda = Cuda::with_device().ok()?;
    let count = c_int::try_from(cuda.device_count().ok()?).ok()?;
    let architecture = |number: c_int| -> Option<String> {
        let mut device = 0;
        // SAFETY: the function writes only to the local `device`.
        let answer = unsafe { (cuda.cuDeviceGet)(&mut device, number) };
        cuda.check("cuDeviceGet", answer).ok()?;
        let [major, minor] = cuda.attributes(device, [CAPABILITY_MAJOR, CAPABILITY_MINOR]).ok()?;
        Some(format!("sm_{major}{minor}"))
    };
    Some((0..count).any(|number| architecture(number).as_deref() == Some(name)))
}

/// Whether this thread's HIP device has an architecture. A name without features matches all features.
fn is_hip(name: &str) -> Option<bool> {
    let own = Hip::with_device().ok()?.device_properties().ok()??.architecture_name;
    Some(own == name || own.split(':').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_matches_its_instruction_sets() {
        assert!(is_here("cpu") && is_here("vulkan"));
        for name in ["", "cpu:", "cpu:avx1024", "sm_", "gfx", "CPU", "x86_64: no processor of this name"] {
            assert!(!is_here(name), "{name}");
        }
        #[cfg(target_arch = "x86_64")]
        {
            assert!(is_here("cpu:sse2") && !is_here("cpu:neon"));
            assert_eq!(
                is_here("cpu:avx2"),
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
            );
        }
    }
}
