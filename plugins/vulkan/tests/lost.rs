//! A device that is lost: every function has a status with the reason, memory can be freed, and the process goes on. The test has a
//! process of its own, since a lost device stays lost.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use ash::vk;
use hipdnn_plugin_sdk::EnginePlugin;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, Tensor};
use hipdnn_vulkan_plugin::handle::Handle;
use hipdnn_vulkan_plugin::instance;
use hipdnn_vulkan_plugin::plugin::VulkanPlugin;
use hipdnn_vulkan_plugin::public::*;

fn reason() -> String {
    let mut text = [0 as c_char; 512];
    // SAFETY: the buffer has this size, and the text ends with a NUL.
    unsafe {
        hipdnnVulkanGetLastError_ext(text.as_mut_ptr(), text.len());
        CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_owned()
    }
}

fn relu() -> Graph {
    let tensor = |uid| Tensor::new(uid, DataType::Float, &[8], &[1]);
    let operation = Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2).into();
    let node = Node { name: "relu".to_owned(), compute_type: DataType::Float, operation };
    Graph { nodes: vec![node], tensors: vec![tensor(1), tensor(2)], ..Graph::default() }
}

#[test]
fn a_lost_device_is_a_status_with_a_reason() {
    let Ok(gpu) = instance::device(0) else {
        eprintln!("skipped: no Vulkan device");
        return;
    };
    let handle = Handle::on(gpu.clone());
    let plan = VulkanPlugin::plan(&handle, 0, &relu(), &[]).unwrap();
    let (mut memory, mut host) = (null_mut::<c_void>(), [0_u8; 64]);
    // SAFETY: the function writes only to the local `memory`.
    assert_eq!(unsafe { hipdnnVulkanAllocate_ext(0, 64, &mut memory) }, 0);

    let lost = gpu.device.check::<()>("vkQueueSubmit", Err(vk::Result::ERROR_DEVICE_LOST)).unwrap_err();
    assert!(lost.message().contains("the device is lost"), "{lost}");

    let (own, mut other) = (host.as_mut_ptr().cast::<c_void>(), null_mut());
    let upload = || {
        // SAFETY: `host` has the 64 bytes, and so has the memory that was allocated above.
        unsafe { hipdnnVulkanCopyToDevice_ext(0, memory, own, 64) }
    };
    let download = || {
        // SAFETY: `host` has the 64 bytes, and so has the memory that was allocated above.
        unsafe { hipdnnVulkanCopyToHost_ext(0, own, memory, 64) }
    };
    let copy = || hipdnnVulkanCopy_ext(0, memory, memory.wrapping_byte_add(32), 16);
    let synchronize = || hipdnnVulkanSynchronize_ext(0);
    let calls: [(&str, &dyn Fn() -> c_int); 4] =
        [("upload", &upload), ("download", &download), ("copy", &copy), ("synchronize", &synchronize)];
    for (name, call) in calls {
        assert_ne!(call(), 0, "{name}");
        assert!(reason().contains("the device is lost"), "{name}: {}", reason());
    }
    // SAFETY: the function writes only to the local `other`.
    assert_ne!(unsafe { hipdnnVulkanAllocate_ext(0, 64, &mut other) }, 0);
    assert!(other.is_null() && reason().contains("the device is lost"), "{}", reason());

    let refusal = VulkanPlugin::supports(&handle, 0, &relu()).unwrap_err();
    assert!(refusal.to_string().contains("the device is lost"), "{refusal}");
    let buffers = [1, 2].map(|uid| hipdnnPluginDeviceBuffer_t { uid, ptr: own });
    // SAFETY: the host's memory has the elements of both tensors.
    let failed = unsafe { VulkanPlugin::execute(&handle, &plan, null_mut(), &buffers) }.unwrap_err();
    assert!(failed.message().contains("the device is lost"), "{failed}");

    // It can be closed when nothing uses it, and is then opened again.
    drop(gpu);
    assert_ne!(hipdnnVulkanCloseDevice_ext(0), 0);
    assert!(reason().contains("still used: by 2 handles, plans or calls, and 1 places"), "{}", reason());
    assert_eq!(hipdnnVulkanFree_ext(0, memory), 0, "{}", reason());
    drop((plan, handle));
    assert_eq!(hipdnnVulkanCloseDevice_ext(0), 0, "{}", reason());
    assert_eq!(hipdnnVulkanCloseDevice_ext(0), 0, "{}", reason());
    assert_ne!(hipdnnVulkanCloseDevice_ext(1000), 0);
    let handle = Handle::on(instance::device(0).unwrap());
    let plan = VulkanPlugin::plan(&handle, 0, &relu(), &[]).unwrap();
    let (mut x, mut y) = ([-1_f32, 2.0].repeat(4), [-1_f32; 8]);
    let buffers = [(1, x.as_mut_ptr()), (2, y.as_mut_ptr())]
        .map(|(uid, numbers)| hipdnnPluginDeviceBuffer_t { uid, ptr: numbers.cast() });
    // SAFETY: both have the elements of their tensors.
    unsafe { VulkanPlugin::execute(&handle, &plan, null_mut(), &buffers) }.unwrap();
    assert_eq!(y[..4], [0.0, 2.0, 0.0, 2.0]);
}
