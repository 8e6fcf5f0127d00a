//! Kernels that a driver compiled, and the data that lets it do so faster again.

use std::ffi::CStr;
use std::sync::Arc;

use ash::vk;
use hipdnn_kernels::print::spirv::Spirv;
use hipdnn_plugin_sdk::PluginError;

use crate::device::Device;
use crate::properties::Properties;

/// The entry point of every module.
pub const ENTRY: &CStr = c"main";

/// Bytes of the header of a pipeline cache, which Vulkan prescribes.
const HEADER: usize = 32;

/// Whether a pipeline cache is one that the device's driver accepts: its header names device and driver.
pub fn is_of(properties: &Properties, data: &[u8]) -> bool {
    let [vendor, device] = properties.ids;
    let version = vk::PipelineCacheHeaderVersion::ONE.as_raw().cast_unsigned();
    let mut words = data.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let mut is_next = |wanted: u32| words.next() == Some(wanted);
    is_next(HEADER as u32)
        && is_next(version)
        && is_next(vendor)
        && is_next(device)
        && data.get(16..HEADER) == Some(&properties.cache_uuid)
}

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
        // SAFETY: this function requires a valid module that the device can run; a null cache is none.
        unsafe { Self::with(device, module, vk::PipelineCache::null()) }
    }

    /// Compiles a module as [`Pipeline::new`], with what the driver made of it before; `saved` may be empty. The driver's data is returned
    /// if it now differs from `saved` in size.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// As for [`Pipeline::new`]; the driver wrote `saved` if the header is its own.
    pub unsafe fn with_data(
        device: &Arc<Device>,
        module: &Spirv,
        saved: &[u8],
    ) -> Result<(Self, Option<Vec<u8>>), PluginError> {
        let functions = &device.functions;
        let is_own = is_of(&device.properties, saved);
        let saved = if is_own { saved } else { &[] };
        let info = vk::PipelineCacheCreateInfo::default().initial_data(saved);
        // SAFETY: the struct is alive during the call, and the driver wrote the data.
        let Ok(cache) = (unsafe { functions.create_pipeline_cache(&info, None) }) else {
            // SAFETY: this function requires a valid module that the device can run.
            return unsafe { Self::new(device, module) }.map(|own| (own, None));
        };
        // SAFETY: this function requires a valid module that the device can run; the cache is the device's.
        let made = unsafe { Self::with(device, module, cache) };
        // SAFETY: the cache is the device's, and only this function uses it.
        let data = unsafe { functions.get_pipeline_cache_data(cache) };
        // SAFETY: the cache is the device's, and nothing uses it any more.
        unsafe { functions.destroy_pipeline_cache(cache, None) };
        let data = data.ok().filter(|data| data.len() > HEADER && data.len() != saved.len());
        Ok((made?, data.filter(|data| is_of(&device.properties, data))))
    }

    /// Compiles a module, with a pipeline cache or none.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// As for [`Pipeline::new`]; the cache is null or the device's.
    unsafe fn with(
        device: &Arc<Device>,
        module: &Spirv,
        cache: vk::PipelineCache,
    ) -> Result<Self, PluginError> {
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
        // SAFETY: this function requires a valid module, and `info` points to its words during the call.
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
        // SAFETY: module, layout and cache are the device's and fit.
        let pipelines = unsafe { functions.create_compute_pipelines(cache, &info, None) };
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
