//! A device as kernels see it.

use hipdnn_kernels::Target;
use hipdnn_kernels::print::spirv::Features;
use hipdnn_kernels::target::{CooperativeShape, VulkanDevice};
use hipdnn_plugin_lowering::Options;

use crate::properties::Properties;

/// What of a device passed its test.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    /// Matrix shapes, the best for each type of operands.
    pub shapes: Vec<CooperativeShape>,
    /// Whether the device rounds floats to bfloat16 as kernels want it.
    pub rounds_bfloats: bool,
}

/// The target of kernels for a device, with these matrix shapes.
pub fn target(properties: &Properties, shapes: Vec<CooperativeShape>) -> Target {
    VulkanDevice {
        name: properties.name.clone(),
        subgroup: properties.subgroup,
        shared: properties.shared_bytes as usize,
        threads: properties.workgroup,
        units: properties.units,
        shapes,
    }
    .into()
}

/// What modules for a device may use without a test.
pub fn features(properties: &Properties) -> Features {
    let own = properties.features;
    Features {
        shader_float64: own.float64,
        shader_float16: own.float16,
        shader_int16: own.int16,
        shader_int8: own.int8,
        storage_16_bit: own.storage16,
        storage_8_bit: own.storage8,
        signed_zero_inf_nan_preserve_float32: own.preserves_nan,
        shader_rounding_mode_rte_float16: own.rounds_halves,
        shader_denorm_preserve_float16: own.keeps_small_halves,
        cooperative_matrix: own.cooperative_matrix,
        shader_bfloat16_cooperative_matrix: own.bfloat_matrix,
        shader_bfloat16_type: false,
        max_push_constants_size: properties.push_bytes,
    }
}

/// What a device computes with, and whether the bits of an item must depend on it alone.
pub fn options(properties: &Properties, batch_invariant: bool) -> Options {
    Options { has_doubles: properties.features.float64, batch_invariant }
}
