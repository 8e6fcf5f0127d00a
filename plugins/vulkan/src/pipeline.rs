//! Kernels that a driver compiled.

use std::ffi::CStr;
use std::sync::Arc;

use ash::vk;
use hipdnn_kernels::print::spirv::Spirv;
use hipdnn_plugin_sdk::PluginError;

use crate::device::Device;

/// The entry point of every module.
pub const ENTRY: &CStr = c"main";

/// A compiled kernel.
pub struct Pipeline {
    device: Arc<Device>,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Pipeline {
    /// Compiles a module.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The module is valid, and needs only what the device offers.
    pub unsafe fn new(device: &Arc<Device>, module: &Spirv) -> Result<Self, PluginError> {
        let functions = &device.functions;
        let mut made = Self {
            device: Arc::clone(device),
            module: vk::ShaderModule::null(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
        };
        let ranges = [vk::PushConstantRange {
            stage_flags: vk::ShaderStageFlags::COMPUTE,
            offset: 0,
            size: module.push_bytes,
        }];
        let ranges = if module.push_bytes == 0 { &[] } else { ranges.as_slice() };
        let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(ranges);
        let info = vk::ShaderModuleCreateInfo::default().code(&module.words);
        // SAFETY: the caller says that the module is valid.
        made.module =
            device.check("vkCreateShaderModule", unsafe { functions.create_shader_module(&info, None) })?;
        // SAFETY: the struct is alive during the call.
        made.layout = device
            .check("vkCreatePipelineLayout", unsafe { functions.create_pipeline_layout(&layout, None) })?;
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(module.subgroup.unwrap_or(0));
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(made.module)
            .name(ENTRY);
        if module.subgroup.is_some() {
            let flags = vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS;
            stage = stage.flags(flags).push_next(&mut size);
        }
        let mut info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(made.layout);
        if device.keeps_statistics {
            info.flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR;
        }
        let info = [info];
        // SAFETY: module and layout are the device's and fit.
        let pipelines = unsafe { functions.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let pipelines = pipelines.map_err(|(_, result)| result);
        let pipelines = device.check("vkCreateComputePipelines", pipelines)?;
        made.pipeline = pipelines.first().copied().unwrap_or_default();
        Ok(made)
    }

    /// The driver's object.
    pub fn pipeline(&self) -> vk::Pipeline {
        self.pipeline
    }

    /// Where its parameters are.
    pub fn layout(&self) -> vk::PipelineLayout {
        self.layout
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: whoever drops it waited for work that uses it.
        unsafe {
            self.device.functions.destroy_pipeline(self.pipeline, None);
            self.device.functions.destroy_pipeline_layout(self.layout, None);
            self.device.functions.destroy_shader_module(self.module, None);
        }
    }
}
