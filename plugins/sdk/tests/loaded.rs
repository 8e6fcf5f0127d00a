//! The example plugin, loaded as a host would load it, computes the right result.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use hipdnn_plugin_sdk::engine_id;
use hipdnn_plugin_sdk::ffi::{
    hipdnnPluginConstData_t as ConstData, hipdnnPluginDeviceBuffer_t as DeviceBuffer,
};
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use libloading::Library;

type Pointer = *mut c_void;

/// Cargo puts examples next to the folder of the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/libadd_plugin.so");
    assert!(path.exists(), "{} is built by `cargo build --examples`", path.display());
    path
}

fn sum(mode: PointwiseMode) -> Graph {
    let add = Pointwise::new(mode, 10, Some(11), 12);
    let node = Node::single(add);
    let tensors = (10..=12).map(|uid| Tensor::new(uid, DataType::Float, &[6], &[1])).collect();
    Graph { tensors, nodes: vec![node], ..Graph::default() }
}

fn data(bytes: &[u8]) -> ConstData {
    ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

#[test]
fn the_example_adds() {
    // SAFETY: the example does nothing when it is loaded.
    let library = unsafe { Library::new(example()) }.unwrap();
    macro_rules! call {
        ($name:literal, $($type:ty = $value:expr),+) => {
            // SAFETY: the signature is that of the plugin interface, and the arguments live during the call.
            unsafe { library.get::<unsafe extern "C" fn($($type),+) -> i32>($name).unwrap()($($value),+) }
        };
    }
    type In = *const ConstData;
    let (mut handle, mut context): (Pointer, Pointer) = (null_mut(), null_mut());
    assert_eq!(call!("hipdnnEnginePluginCreate", *mut Pointer = &mut handle), 0);
    let (mut id, mut count) = (0_i64, 0_u32);
    for (mode, expected) in [(PointwiseMode::Mul, 0), (PointwiseMode::Add, 1)] {
        let graph = wire::write(&sum(mode), Layout::G1).unwrap();
        let status = call!(
            "hipdnnEnginePluginGetApplicableEngineIds",
            Pointer = handle, In = &data(&graph), *mut i64 = &mut id, u32 = 1, *mut u32 = &mut count
        );
        assert_eq!((status, count), (0, expected));
    }
    assert_eq!(id, engine_id("EXAMPLE_ADD_ENGINE"));
    let graph = wire::write(&sum(PointwiseMode::Add), Layout::G2).unwrap();
    let config = wire::write_engine_config(&EngineConfig { engine_id: id, knobs: vec![] });
    let status = call!(
        "hipdnnEnginePluginCreateExecutionContext",
        Pointer = handle, In = &data(&config), In = &data(&graph), *mut Pointer = &mut context
    );
    assert_eq!(status, 0);
    let (mut a, mut b, mut c) = ([1_f32, 2., 3., 4., 5., 6.], [0.5_f32; 6], [0_f32; 6]);
    let buffers = [
        DeviceBuffer { uid: 12, ptr: c.as_mut_ptr().cast() },
        DeviceBuffer { uid: 10, ptr: a.as_mut_ptr().cast() },
        DeviceBuffer { uid: 11, ptr: b.as_mut_ptr().cast() },
    ];
    let execute = |buffers: &[DeviceBuffer]| {
        call!(
            "hipdnnEnginePluginExecuteOpGraph",
            Pointer = handle, Pointer = context, Pointer = null_mut(),
            *const DeviceBuffer = buffers.as_ptr(), u32 = buffers.len() as u32
        )
    };
    assert_eq!(execute(&buffers), 0);
    assert_eq!(c, [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]);
    assert_ne!(execute(&buffers[..2]), 0);
    let mut text = null();
    // SAFETY: the signature is that of the plugin interface, and the text is NUL terminated.
    let text = unsafe {
        library
            .get::<unsafe extern "C" fn(*mut *const std::ffi::c_char)>("hipdnnPluginGetLastErrorString")
            .unwrap()(&mut text);
        std::ffi::CStr::from_ptr(text).to_str().unwrap()
    };
    assert_eq!(text, "tensor 11 has no buffer among the 2 given");
    assert_eq!(call!("hipdnnEnginePluginDestroyExecutionContext", Pointer = handle, Pointer = context), 0);
    assert_eq!(call!("hipdnnEnginePluginDestroy", Pointer = handle), 0);
}
