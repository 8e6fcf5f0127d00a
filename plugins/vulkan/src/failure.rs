//! Errors of Vulkan's functions.

use ash::vk;
use hipdnn_plugin_sdk::PluginError;

/// The error for a function that failed.
pub fn failed(function: &str, result: vk::Result) -> PluginError {
    let number = result.as_raw();
    match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_TOO_MANY_OBJECTS => {
            PluginError::alloc_failed(format!("{function} failed with error {number}: {result}"))
        }
        vk::Result::ERROR_DEVICE_LOST => PluginError::internal(format!(
            "{function} failed with error {number}: the device is lost; its memory and work are gone, and it can be used after hipdnnVulkanCloseDevice_ext, or by a new process"
        )),
        _ => PluginError::internal(format!("{function} failed with error {number}: {result}")),
    }
}

/// Makes failures of a function errors.
pub trait Checked<T> {
    /// The value, or the error of `function`.
    ///
    /// # Errors
    /// The function's, with its name.
    fn of(self, function: &str) -> Result<T, PluginError>;
}

impl<T> Checked<T> for Result<T, vk::Result> {
    fn of(self, function: &str) -> Result<T, PluginError> {
        self.map_err(|result| failed(function, result))
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::ffi::{HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR};

    use super::*;

    #[test]
    fn out_of_memory_and_a_lost_device_have_their_status_and_reason() {
        let full = failed("vkAllocateMemory", vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        assert_eq!(full.status(), HIPDNN_PLUGIN_STATUS_ALLOC_FAILED);
        assert!(full.message().starts_with("vkAllocateMemory failed with error -2: "), "{full}");
        let lost = failed("vkQueueSubmit", vk::Result::ERROR_DEVICE_LOST);
        assert_eq!(lost.status(), HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR);
        assert!(lost.message().contains("the device is lost"), "{lost}");
    }
}
