//! `VK_KHR_shader_bfloat16`, which `ash` does not know.

use std::ffi::{CStr, c_void};
use std::ptr;

use ash::vk;

/// The extension's name.
pub const NAME: &CStr = c"VK_KHR_shader_bfloat16";

/// `VK_COMPONENT_TYPE_BFLOAT16_KHR`.
pub const COMPONENT: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_141_000);

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`.
#[repr(C)]
pub struct Features {
    kind: vk::StructureType,
    next: *mut c_void,
    /// Values of the type.
    pub values: vk::Bool32,
    dot_products: vk::Bool32,
    /// Cooperative matrices.
    pub matrices: vk::Bool32,
}

impl Features {
    /// With these values and matrices.
    pub fn new(values: bool, matrices: bool) -> Self {
        Self {
            kind: vk::StructureType::from_raw(1_000_141_000),
            next: ptr::null_mut(),
            values: values.into(),
            dot_products: vk::FALSE,
            matrices: matrices.into(),
        }
    }
}

// SAFETY: the extension's text says that the struct extends this one, and it has the layout there.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Features {}
// SAFETY: the extension's text says that the struct extends this one too, and it has the layout there.
unsafe impl vk::ExtendsDeviceCreateInfo for Features {}
