//! Buffers with memory and an address of their own.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use hipdnn_plugin_sdk::PluginError;

use crate::device::{Device, Purpose};

/// Uses of every buffer.
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS.as_raw(),
);

/// A buffer with memory of its own.
pub struct Buffer {
    device: Arc<Device>,
    /// The driver's object.
    pub buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    /// Its address on the device.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Where the host sees it, if it does.
    mapped: Option<NonNull<u8>>,
}

// SAFETY: the driver's objects belong to no thread, and the mapped memory is used through raw pointers only.
unsafe impl Send for Buffer {}
// SAFETY: nothing of it changes while it is shared but the mapped memory, whose users are apart by the queue's time line.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates memory.
    ///
    /// # Errors
    /// The driver's; out of memory has a status of its own.
    pub fn new(device: &Arc<Device>, bytes: u64, purpose: Purpose) -> Result<Self, PluginError> {
        device.check_alive()?;
        let bytes = bytes.max(16).next_multiple_of(16);
        let largest = device.properties.largest;
        if largest > 0 && bytes > largest {
            let label = device.properties.label();
            return Err(PluginError::alloc_failed(format!(
                "{bytes} bytes were asked for, expected at most the {largest} that device {label} allocates at once"
            )));
        }
        let info =
            vk::BufferCreateInfo::default().size(bytes).usage(USAGE).sharing_mode(vk::SharingMode::EXCLUSIVE);
        let mut made = Self::without_memory(device, &info)?;
        // SAFETY: the buffer is the device's.
        let needs = unsafe { device.functions.get_buffer_memory_requirements(made.buffer) };
        let (kind, maps) = device
            .kind(needs.memory_type_bits, purpose)
            .ok_or_else(|| PluginError::internal("the device has no memory for buffers of this kind"))?;
        made.allocate(needs.size, kind, None)?;
        if maps {
            // SAFETY: the memory is visible to the host and not mapped yet.
            let mapped = unsafe {
                device.functions.map_memory(made.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())
            };
            made.mapped = NonNull::new(device.check("vkMapMemory", mapped)?.cast());
        }
        Ok(made)
    }

    /// Makes host memory a buffer, if the driver can. Both numbers are multiples of the device's alignment.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The memory has these bytes and outlives the result.
    pub unsafe fn import(device: &Arc<Device>, host: *mut u8, bytes: u64) -> Result<Self, PluginError> {
        let import = device
            .host_import
            .as_ref()
            .ok_or_else(|| PluginError::internal("the device imports no memory"))?;
        let handle = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handle);
        let info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(USAGE)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .push_next(&mut external);
        let mut made = Self::without_memory(device, &info)?;
        let mut pointer = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the pointer is one of the host; the struct is written.
        let answer = unsafe {
            (import.fp().get_memory_host_pointer_properties_ext)(
                import.device(),
                handle,
                host.cast(),
                &mut pointer,
            )
        };
        device.check("vkGetMemoryHostPointerPropertiesEXT", answer.result())?;
        // SAFETY: the buffer is the device's.
        let needs = unsafe { device.functions.get_buffer_memory_requirements(made.buffer) };
        let allowed = needs.memory_type_bits & pointer.memory_type_bits;
        if allowed == 0 || needs.size > bytes {
            return Err(PluginError::internal("the device has no kind of memory for this import"));
        }
        made.allocate(bytes, allowed.trailing_zeros(), Some(host))?;
        Ok(made)
    }

    fn without_memory(device: &Arc<Device>, info: &vk::BufferCreateInfo<'_>) -> Result<Self, PluginError> {
        // SAFETY: the struct is alive during the call.
        let buffer = device.check("vkCreateBuffer", unsafe { device.functions.create_buffer(info, None) })?;
        let (device, memory) = (Arc::clone(device), vk::DeviceMemory::null());
        Ok(Self { device, buffer, memory, address: 0, bytes: info.size, mapped: None })
    }

    fn allocate(&mut self, bytes: u64, kind: u32, host: Option<*mut u8>) -> Result<(), PluginError> {
        let functions = &self.device.functions;
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(bytes)
            .memory_type_index(kind)
            .push_next(&mut flags);
        if let Some(host) = host {
            import = import.host_pointer(host.cast());
            info = info.push_next(&mut import);
        }
        // SAFETY: the structs are alive during the call, and the caller of `import` promises the memory.
        self.memory =
            self.device.check("vkAllocateMemory", unsafe { functions.allocate_memory(&info, None) })?;
        // SAFETY: buffer and memory are the device's, new, and fit.
        let bound = unsafe { functions.bind_buffer_memory(self.buffer, self.memory, 0) };
        self.device.check("vkBindBufferMemory", bound)?;
        let info = vk::BufferDeviceAddressInfo::default().buffer(self.buffer);
        // SAFETY: the buffer was made for that, and has memory.
        self.address = unsafe { functions.get_buffer_device_address(&info) };
        Ok(())
    }

    /// Where the host sees the buffer, if it does.
    pub fn mapped(&self) -> Option<NonNull<u8>> {
        self.mapped
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: whoever drops it waited for work that uses it; freeing memory unmaps it.
        unsafe {
            self.device.functions.destroy_buffer(self.buffer, None);
            self.device.functions.free_memory(self.memory, None);
        }
    }
}
