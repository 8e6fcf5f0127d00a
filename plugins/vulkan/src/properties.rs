//! What a Vulkan device is and offers.

use std::ffi::{CStr, c_char};
use std::fmt;

use ash::{Instance, vk};
use hipdnn_kernels::Scalar;
use hipdnn_kernels::target::CooperativeShape;
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::bfloat;
use crate::failure::Checked;

/// The number of a vendor's id that Mesa uses for lavapipe.
const MESA: u32 = 0x10005;

/// The kinds of numbers and memory accesses that shaders may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Features {
    pub float64: bool,
    pub float16: bool,
    pub int8: bool,
    pub int16: bool,
    pub storage16: bool,
    pub storage8: bool,
    pub preserves_nan: bool,
    /// Conversions to halves can be told to round to the nearest, and to keep subnormal results.
    pub rounds_halves: bool,
    pub keeps_small_halves: bool,
    pub memory_model: bool,
    /// Cooperative matrices, in subgroups of a size that pipelines ask for.
    pub cooperative_matrix: bool,
    /// Bfloats as a type that floats are converted to.
    pub bfloat: bool,
    pub bfloat_matrix: bool,
}

/// A device as its driver describes it.
#[derive(Clone)]
pub struct Properties {
    /// The driver's object.
    pub physical: vk::PhysicalDevice,
    /// Its number among the devices of this process.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its kind.
    pub kind: vk::PhysicalDeviceType,
    /// The version of Vulkan that it supports: major and minor.
    pub version: (u32, u32),
    /// The vendor's and the device's number.
    pub ids: [u32; 2],
    /// The driver's name and version.
    pub driver: String,
    /// The driver's version as a number, in the vendor's encoding.
    pub driver_version: u32,
    /// What the driver puts into the header of its pipeline caches.
    pub cache_uuid: [u8; 16],
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// Whether compute pipelines may ask for subgroups of this size.
    pub sizes_subgroups: bool,
    /// The subgroup operations in compute shaders.
    pub subgroup_operations: vk::SubgroupFeatureFlags,
    /// Compute units, or 0.
    pub units: u32,
    /// Bytes of memory that a workgroup shares.
    pub shared_bytes: u32,
    /// Threads of a workgroup.
    pub workgroup: u32,
    /// Workgroups along each axis.
    pub groups: [u32; 3],
    /// Bytes of push constants.
    pub push_bytes: u32,
    /// What an imported host pointer must be a multiple of; none if none can be imported.
    pub host_alignment: Option<u64>,
    /// Bytes of the largest allocation.
    pub largest: u64,
    /// What shaders may use.
    pub features: Features,
    /// The matrix products that it says it computes, the largest first.
    pub shapes: Vec<CooperativeShape>,
    /// Bits of the queue's times, 0 if it has none.
    pub clock_bits: u32,
    /// Nanoseconds of a tick of these times.
    pub nanoseconds_per_tick: f32,
    /// The queue family that computes, if any.
    pub family: Option<u32>,
    /// Why the device cannot be used.
    pub lacks: Option<String>,
    /// The kinds of memory.
    pub memory: vk::PhysicalDeviceMemoryProperties,
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

/// A text of a fixed number of characters.
fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|character| character.cast_unsigned()).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Properties {
    /// Asks the driver.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The device is one of the instance, and `functions` are the loader's.
    pub unsafe fn ask(
        entry: &ash::Entry,
        instance: &Instance,
        physical: vk::PhysicalDevice,
        number: usize,
    ) -> Result<Self, PluginError> {
        // SAFETY: the device is one of the instance.
        let plain = unsafe { instance.get_physical_device_properties(physical) };
        // SAFETY: the device is one of the instance.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        let limits = plain.limits;
        let mut properties = Self {
            physical,
            number,
            name: text(&plain.device_name),
            uuid: [0; 16],
            kind: plain.device_type,
            version: (vk::api_version_major(plain.api_version), vk::api_version_minor(plain.api_version)),
            ids: [plain.vendor_id, plain.device_id],
            driver: String::new(),
            driver_version: plain.driver_version,
            cache_uuid: plain.pipeline_cache_uuid,
            subgroup: 1,
            sizes_subgroups: false,
            units: 0,
            subgroup_operations: vk::SubgroupFeatureFlags::empty(),
            shared_bytes: limits.max_compute_shared_memory_size,
            workgroup: limits.max_compute_work_group_invocations.min(limits.max_compute_work_group_size[0]),
            groups: limits.max_compute_work_group_count,
            push_bytes: limits.max_push_constants_size,
            host_alignment: None,
            largest: 0,
            features: Features::default(),
            shapes: Vec::new(),
            clock_bits: 0,
            nanoseconds_per_tick: limits.timestamp_period,
            family: None,
            lacks: None,
            memory,
        };
        properties.lacks = too_old(properties.version);
        if properties.lacks.is_some() {
            return Ok(properties);
        }
        // SAFETY: the device is one of the instance, and supports Vulkan 1.2.
        unsafe {
            let extensions = properties.extensions(instance)?;
            properties.ask_more(instance, &extensions);
            properties.ask_features(entry, instance, &extensions);
            let families = instance.get_physical_device_queue_family_properties(physical);
            properties.choose_family(compute_family(&families), &families);
        }
        if properties.family.is_none() {
            properties.lacks = Some("it has no queue that computes".to_owned());
        }
        Ok(properties)
    }

    /// Notes the queue family that is used.
    pub fn choose_family(&mut self, family: Option<u32>, families: &[vk::QueueFamilyProperties]) {
        self.family = family;
        let own = family.and_then(|family| families.get(family as usize));
        self.clock_bits = own.map_or(0, |family| family.timestamp_valid_bits);
    }

    /// The names of the device's extensions.
    ///
    /// # Safety
    /// The device is one of the instance.
    unsafe fn extensions(&self, instance: &Instance) -> Result<Vec<String>, PluginError> {
        // SAFETY: the device is one of the instance.
        let extensions = unsafe { instance.enumerate_device_extension_properties(self.physical) };
        let extensions = extensions.of("vkEnumerateDeviceExtensionProperties")?;
        Ok(extensions.iter().map(|extension| text(&extension.extension_name)).collect())
    }

    /// Asks for properties of Vulkan 1.2.
    ///
    /// # Safety
    /// The device is one of the instance.
    #[inline(never)]
    unsafe fn ask_more(&mut self, instance: &Instance, extensions: &[String]) {
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
        let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut largest = vk::PhysicalDeviceMaintenance3Properties::default();
        let mut floats = vk::PhysicalDeviceFloatControlsProperties::default();
        let mut all = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut floats)
            .push_next(&mut ids)
            .push_next(&mut driver)
            .push_next(&mut subgroup)
            .push_next(&mut largest);
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let has_sizes = has(extensions, ash::ext::subgroup_size_control::NAME);
        if has_sizes {
            all = all.push_next(&mut sizes);
        }
        let mut nvidia = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
        if has(extensions, ash::nv::shader_sm_builtins::NAME) {
            all = all.push_next(&mut nvidia);
        }
        let mut amd = vk::PhysicalDeviceShaderCorePropertiesAMD::default();
        if has(extensions, ash::amd::shader_core_properties::NAME) {
            all = all.push_next(&mut amd);
        }
        let imports = has(extensions, ash::ext::external_memory_host::NAME);
        if imports {
            all = all.push_next(&mut host);
        }
        // SAFETY: the device is one of the instance, and supports the structs of the chain.
        unsafe { instance.get_physical_device_properties2(self.physical, &mut all) };
        self.features.preserves_nan = floats.shader_signed_zero_inf_nan_preserve_float32 == vk::TRUE;
        // Other types may keep their own ways.
        let is_own = |independence| independence != vk::ShaderFloatControlsIndependence::NONE;
        self.features.rounds_halves =
            is_own(floats.rounding_mode_independence) && floats.shader_rounding_mode_rte_float16 == vk::TRUE;
        self.features.keeps_small_halves =
            is_own(floats.denorm_behavior_independence) && floats.shader_denorm_preserve_float16 == vk::TRUE;
        self.uuid = ids.device_uuid;
        self.driver =
            format!("{} {}", text(&driver.driver_name), text(&driver.driver_info)).trim_end().to_owned();
        self.subgroup = subgroup.subgroup_size.max(1);
        let of_amd =
            [amd.shader_engine_count, amd.shader_arrays_per_engine_count, amd.compute_units_per_shader_array];
        self.units = nvidia.shader_sm_count.max(of_amd.into_iter().fold(1, u32::saturating_mul));
        self.sizes_subgroups = has_sizes
            && sizes.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE)
            && (sizes.min_subgroup_size..=sizes.max_subgroup_size).contains(&self.subgroup);
        if subgroup.supported_stages.contains(vk::ShaderStageFlags::COMPUTE) {
            self.subgroup_operations = subgroup.supported_operations;
        }
        self.largest = largest.max_memory_allocation_size;
        self.host_alignment =
            imports.then_some(host.min_imported_host_pointer_alignment).filter(|alignment| *alignment > 0);
    }

    /// Asks for features, and decides whether they suffice.
    ///
    /// # Safety
    /// The device is one of the instance.
    #[inline(never)]
    unsafe fn ask_features(&mut self, entry: &ash::Entry, instance: &Instance, extensions: &[String]) {
        let mut of_11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut of_12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
        let mut bfloats = bfloat::Features::new(false, false);
        let has_matrices = has(extensions, ash::khr::cooperative_matrix::NAME)
            && has(extensions, ash::ext::subgroup_size_control::NAME);
        let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut of_11).push_next(&mut of_12);
        if has_matrices {
            all = all.push_next(&mut matrices).push_next(&mut sizes);
        }
        if has(extensions, bfloat::NAME) {
            all = all.push_next(&mut bfloats);
        }
        // SAFETY: the device is one of the instance, and supports the structs of the chain.
        unsafe { instance.get_physical_device_features2(self.physical, &mut all) };
        let plain = all.features;
        let is = |feature: vk::Bool32| feature == vk::TRUE;
        self.features = Features {
            float64: is(plain.shader_float64),
            float16: is(of_12.shader_float16),
            int8: is(of_12.shader_int8),
            int16: is(plain.shader_int16),
            storage16: is(of_11.storage_buffer16_bit_access),
            storage8: is(of_12.storage_buffer8_bit_access),
            preserves_nan: self.features.preserves_nan,
            rounds_halves: self.features.rounds_halves,
            keeps_small_halves: self.features.keeps_small_halves,
            memory_model: is(of_12.vulkan_memory_model),
            cooperative_matrix: has_matrices
                && is(matrices.cooperative_matrix)
                && is(of_12.vulkan_memory_model)
                && is(sizes.subgroup_size_control)
                && is(sizes.compute_full_subgroups)
                && self.sizes_subgroups,
            bfloat: is(bfloats.values),
            bfloat_matrix: has_matrices && is(bfloats.values) && is(bfloats.matrices),
        };
        if self.features.cooperative_matrix {
            let functions = ash::khr::cooperative_matrix::Instance::new(entry, instance);
            // SAFETY: the device is one of the instance, and has the extension.
            let shapes =
                unsafe { functions.get_physical_device_cooperative_matrix_properties(self.physical) };
            self.shapes =
                shapes.unwrap_or_default().iter().filter_map(|known| shape(known, &self.features)).collect();
            self.shapes.sort_by_key(|shape| std::cmp::Reverse(shape.m * shape.n * shape.k));
        }
        let needed = [
            ("bufferDeviceAddress", of_12.buffer_device_address),
            ("timelineSemaphore", of_12.timeline_semaphore),
            ("shaderInt64", plain.shader_int64),
        ];
        let lacking: Vec<&str> =
            needed.iter().filter(|(_, feature)| !is(*feature)).map(|(name, _)| *name).collect();
        if !lacking.is_empty() {
            self.lacks = Some(format!("its driver lacks {}", lacking.join(", ")));
        }
    }

    /// Its name in messages and settings.
    pub fn label(&self) -> String {
        format!("vulkan:{} ({})", self.number, self.name)
    }

    /// Its UUID as text.
    pub fn uuid_text(&self) -> String {
        let mut text = String::with_capacity(36);
        for (place, byte) in self.uuid.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text += &format!("{byte:02x}");
        }
        text
    }

    /// Whether it computes on the host's processor.
    pub fn is_software(&self) -> bool {
        self.kind == vk::PhysicalDeviceType::CPU || self.ids[0] == MESA
    }

    /// Whether the host's memory is the device's.
    pub fn shares_memory(&self) -> bool {
        self.is_software() || self.kind == vk::PhysicalDeviceType::INTEGRATED_GPU
    }

    /// Rank among devices: real GPUs first.
    pub fn rank(&self) -> u8 {
        match self.kind {
            vk::PhysicalDeviceType::DISCRETE_GPU => 0,
            vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
            vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
            vk::PhysicalDeviceType::CPU => 4,
            _ => 3,
        }
    }

    /// Refuses a device that lacks what kernels need.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(&self) -> Result<(), Refusal> {
        match &self.lacks {
            None => Ok(()),
            Some(lacks) => Err(Refusal::new(format!("device {}: {lacks}", self.label()))),
        }
    }
}

/// Why a driver of this version of Vulkan cannot be used, if it cannot.
fn too_old(version: (u32, u32)) -> Option<String> {
    let (major, minor) = version;
    (version < (1, 2)).then(|| format!("its driver supports Vulkan {major}.{minor}, expected 1.2 or newer"))
}

fn has(extensions: &[String], name: &CStr) -> bool {
    extensions.iter().any(|extension| extension.as_bytes() == name.to_bytes())
}

/// A shape that kernels can use.
fn shape(
    properties: &vk::CooperativeMatrixPropertiesKHR<'_>,
    features: &Features,
) -> Option<CooperativeShape> {
    use vk::ComponentTypeKHR as T;
    let p = properties;
    let (operand, sum) = match (p.a_type, p.result_type) {
        (T::FLOAT16, T::FLOAT32) if features.float16 => (Scalar::F16, Scalar::F32),
        (bfloat::COMPONENT, T::FLOAT32) if features.bfloat_matrix => (Scalar::Bf16, Scalar::F32),
        (T::SINT8, T::SINT32) if features.int8 => (Scalar::I8, Scalar::I32),
        (T::UINT8, T::UINT32) if features.int8 => (Scalar::U8, Scalar::I32),
        _ => return None,
    };
    let is_plain = p.scope == vk::ScopeKHR::SUBGROUP
        && p.a_type == p.b_type
        && p.c_type == p.result_type
        && p.saturating_accumulation == vk::FALSE;
    let sizes = [p.m_size, p.n_size, p.k_size];
    let fits = sizes.iter().all(|size| size.is_power_of_two() && (4..=64).contains(size));
    let [m, n, k] = sizes;
    (is_plain && fits).then_some(CooperativeShape { m, n, k, operand, sum, fragments: None })
}

/// The queue family for kernels: one that computes and draws nothing, if there is one.
fn compute_family(families: &[vk::QueueFamilyProperties]) -> Option<u32> {
    let computes = families
        .iter()
        .enumerate()
        .filter(|(_, family)| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
    let best = computes.min_by_key(|(_, family)| family.queue_flags.contains(vk::QueueFlags::GRAPHICS));
    best.and_then(|(place, _)| u32::try_from(place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_before_vulkan_1_2_are_refused_with_the_reason() {
        let reason = too_old((1, 1)).unwrap();
        assert_eq!(reason, "its driver supports Vulkan 1.1, expected 1.2 or newer");
        assert_eq!([(1, 2), (1, 4), (2, 0)].map(too_old), [None, None, None]);
    }
}
