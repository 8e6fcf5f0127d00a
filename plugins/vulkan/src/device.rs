//! An open device: its functions, and whether it is lost.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::lock::OnceLock;

use crate::bfloat;
use crate::failure::{Checked, failed};
use crate::properties::Properties;

/// An open device.
pub struct Device {
    /// What it is.
    pub properties: Arc<Properties>,
    /// Its functions.
    pub functions: ash::Device,
    /// The functions of the extension that imports host memory, if the device has it.
    pub host_import: Option<ash::ext::external_memory_host::Device>,
    /// Whether pipelines keep what the compiler says of them.
    pub keeps_statistics: bool,
    lost: AtomicBool,
    /// Why work that was accepted will never run, if so.
    missing: OnceLock<String>,
    /// Whether this library made the device, rather than a program.
    is_own: bool,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.properties.label())
    }
}

impl Device {
    /// Opens a device with the features that kernels use.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The properties are of a usable device of the instance, which outlives the result.
    pub unsafe fn open(instance: &ash::Instance, properties: &Arc<Properties>) -> Result<Self, PluginError> {
        let family =
            properties.family.ok_or_else(|| PluginError::internal("the device has no queue family"))?;
        // SAFETY: this function requires properties of a usable device; the family is theirs.
        unsafe { Self::open_with(instance, properties, Some(family)) }
    }

    /// Opens a device that only compiles, which drivers also offer without hardware: it has no queue and no time line.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The properties are of a device of the instance, which outlives the result, and lack at most a queue family and time lines.
    pub unsafe fn open_to_compile(
        instance: &ash::Instance,
        properties: &Arc<Properties>,
    ) -> Result<Self, PluginError> {
        // SAFETY: this function requires properties of a device that lacks at most a queue family and time lines.
        unsafe { Self::open_with(instance, properties, None) }
    }

    /// Opens a device, with a queue if it is to work.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// As for [`Device::open`], or for [`Device::open_to_compile`] without a queue.
    unsafe fn open_with(
        instance: &ash::Instance,
        properties: &Arc<Properties>,
        family: Option<u32>,
    ) -> Result<Self, PluginError> {
        let features = properties.features;
        let priorities = [1.0];
        let queue = |family| {
            vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)
        };
        let queues: Vec<_> = family.into_iter().map(queue).collect();
        let plain = vk::PhysicalDeviceFeatures::default()
            .shader_int64(true)
            .shader_int16(features.int16)
            .shader_float64(features.float64);
        let mut of_11 =
            vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(features.storage16);
        let mut of_12 = vk::PhysicalDeviceVulkan12Features::default()
            .buffer_device_address(true)
            .timeline_semaphore(family.is_some())
            .shader_float16(features.float16)
            .shader_int8(features.int8)
            .storage_buffer8_bit_access(features.storage8)
            .vulkan_memory_model(features.memory_model);
        let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
            .subgroup_size_control(true)
            .compute_full_subgroups(true);
        let mut bfloats = bfloat::Features::new(true, features.cooperative_matrix && features.bfloat_matrix);
        let mut names = Vec::new();
        if properties.host_alignment.is_some() {
            names.push(ash::ext::external_memory_host::NAME.as_ptr());
        }
        let mut statistics = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default()
            .pipeline_executable_info(true);
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&plain)
            .push_next(&mut of_11)
            .push_next(&mut of_12);
        if features.cooperative_matrix {
            names.push(ash::khr::cooperative_matrix::NAME.as_ptr());
            names.push(ash::ext::subgroup_size_control::NAME.as_ptr());
            info = info.push_next(&mut matrices).push_next(&mut sizes);
        }
        if features.bfloat {
            names.push(bfloat::NAME.as_ptr());
            info = info.push_next(&mut bfloats);
        }
        if family.is_none() {
            names.push(ash::khr::pipeline_executable_properties::NAME.as_ptr());
            info = info.push_next(&mut statistics);
        }
        info = info.enabled_extension_names(&names);
        // SAFETY: the structs are alive during the call, and ask only for what the device has.
        let functions =
            unsafe { instance.create_device(properties.physical, &info, None) }.of("vkCreateDevice")?;
        let mut made = Self::new(instance, Arc::clone(properties), functions, true);
        made.keeps_statistics = family.is_none();
        Ok(made)
    }

    /// A device that exists. A program's own is not destroyed.
    pub(crate) fn new(
        instance: &ash::Instance,
        properties: Arc<Properties>,
        functions: ash::Device,
        is_own: bool,
    ) -> Self {
        let import = properties.host_alignment;
        let host_import = import.map(|_| ash::ext::external_memory_host::Device::new(instance, &functions));
        Self {
            properties,
            functions,
            host_import,
            keeps_statistics: false,
            lost: AtomicBool::new(false),
            missing: OnceLock::new(),
            is_own,
        }
    }

    /// Whether this library made the device, rather than a program.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Remembers a lost device, and makes the result of a function an error.
    ///
    /// # Errors
    /// The function's.
    pub fn check<T>(&self, function: &str, result: Result<T, vk::Result>) -> Result<T, PluginError> {
        result.map_err(|result| {
            if result == vk::Result::ERROR_DEVICE_LOST {
                self.lost.store(true, Ordering::Relaxed);
            }
            failed(function, result)
                .with_context(|text| format!("device {}: {text}", self.properties.label()))
        })
    }

    /// Refuses a device that was lost.
    ///
    /// # Errors
    /// That it was.
    pub fn check_lost(&self) -> Result<(), PluginError> {
        if self.lost.load(Ordering::Relaxed) {
            return self.check("an earlier function", Err(vk::Result::ERROR_DEVICE_LOST));
        }
        Ok(())
    }

    /// Refuses a device that was lost, or whose memory lacks results.
    ///
    /// # Errors
    /// That it is one.
    pub fn check_alive(&self) -> Result<(), PluginError> {
        self.check_lost()?;
        self.missing.get().map_or(Ok(()), |reason| Err(PluginError::internal(reason.clone())))
    }

    /// Remembers that work which was accepted will never run. Returns the error for whoever uses the device from now on.
    pub(crate) fn miss_work(&self, error: &PluginError) -> PluginError {
        let reason = || {
            format!(
                "{}; earlier work was not submitted with it, and the device can be used after hipdnnVulkanCloseDevice_ext, or by a new process",
                error.message()
            )
        };
        PluginError::internal(self.missing.get_or_init(reason).clone())
    }

    /// The best kind of memory for a purpose among the allowed ones, and whether the host maps it.
    pub(crate) fn kind(&self, allowed: u32, purpose: Purpose) -> Option<(u32, bool)> {
        use vk::MemoryPropertyFlags as F;
        let shares = self.properties.shares_memory();
        let visible = F::HOST_VISIBLE | F::HOST_COHERENT;
        let wanted: &[F] = match purpose {
            Purpose::Device if shares => &[F::DEVICE_LOCAL | visible, F::DEVICE_LOCAL, F::empty()],
            Purpose::Device => &[F::DEVICE_LOCAL, F::empty()],
            Purpose::Staging => &[visible | F::HOST_CACHED, visible],
        };
        let types = self.properties.memory.memory_types_as_slice();
        let find = |wanted: &F| {
            let mut types = types.iter().enumerate();
            types.find(|(place, kind)| allowed & (1 << place) != 0 && kind.property_flags.contains(*wanted))
        };
        let (place, kind) = wanted.iter().find_map(find)?;
        let maps = kind.property_flags.contains(visible) && (shares || purpose == Purpose::Staging);
        Some((u32::try_from(place).ok()?, maps))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: all that was made of it holds it, so nothing is left.
            unsafe { self.functions.destroy_device(None) };
        }
    }
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Kernels use it; the host sees it only if the device shares its memory.
    Device,
    /// The host writes it and copies read it, or the other way round.
    Staging,
}
