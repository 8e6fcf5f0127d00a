//! The log of a stub plugin lists its calls, in order and with arguments.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

use hipdnn_plugin_sdk::engine_id;
use hipdnn_plugin_sdk::ffi::{
    hipdnnPluginConstData_t as ConstData, hipdnnPluginDeviceBuffer_t as DeviceBuffer,
};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, Tensor, operation::Pointwise};
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use libloading::Library;

type Pointer = *mut c_void;

fn const_data(bytes: &[u8]) -> ConstData {
    ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

fn relu() -> Node {
    let operation = Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2);
    Node::single(operation)
}

fn graph() -> Graph {
    let tensors = (1..=3).map(|uid| Tensor::new(uid, DataType::Float, &[4], &[1])).collect();
    Graph { tensors, nodes: vec![relu(), relu()], ..Graph::default() }
}

/// Drives the life of one handle and one context.
fn drive(library: &Library, id: i64, graph: &[u8]) {
    let config = wire::write_engine_config(&EngineConfig { engine_id: id, knobs: vec![] });
    let (graph, config) = (const_data(graph), const_data(&config));
    let mut details = ConstData { ptr: std::ptr::null(), size: 0 };
    let (mut handle, mut context): (Pointer, Pointer) = (null_mut(), null_mut());
    let (mut ids, mut count, mut size) = ([0_i64; 4], 0_u32, 0_usize);
    macro_rules! call {
        ($name:literal, $($type:ty = $value:expr),+) => {{
            // SAFETY: the signature is that of the plugin interface, and the arguments live during the call.
            let status = unsafe {
                library.get::<unsafe extern "C" fn($($type),+) -> i32>($name).unwrap()($($value),+)
            };
            assert_eq!(status, 0, "{}", $name);
        }};
    }
    type In = *const ConstData;
    type Out = *mut ConstData;
    call!("hipdnnEnginePluginCreate", *mut Pointer = &mut handle);
    call!("hipdnnEnginePluginSetStream", Pointer = handle, Pointer = without_provenance_mut(64));
    call!(
        "hipdnnEnginePluginGetApplicableEngineIds",
        Pointer = handle, In = &graph, *mut i64 = ids.as_mut_ptr(), u32 = 4, *mut u32 = &mut count
    );
    assert_eq!(ids[0], id);
    call!("hipdnnEnginePluginGetEngineDetails", Pointer = handle, i64 = id, In = &graph, Out = &mut details);
    // SAFETY: the plugin answered success with these bytes.
    let bytes = unsafe { std::slice::from_raw_parts(details.ptr.cast::<u8>(), details.size) };
    assert_eq!(wire::read_engine_details(bytes).unwrap().engine_id, id);
    call!("hipdnnEnginePluginDestroyEngineDetails", Pointer = handle, Out = &mut details);
    call!("hipdnnEnginePluginGetWorkspaceSize", Pointer = handle, In = &config, In = &graph, *mut usize = &mut size);
    call!(
        "hipdnnEnginePluginCreateExecutionContext",
        Pointer = handle, In = &config, In = &graph, *mut Pointer = &mut context
    );
    let buffers =
        [DeviceBuffer { uid: 1, ptr: without_provenance_mut(16) }, DeviceBuffer { uid: -2, ptr: null_mut() }];
    call!(
        "hipdnnEnginePluginExecuteOpGraph",
        Pointer = handle, Pointer = context, Pointer = without_provenance_mut(4096),
        *const DeviceBuffer = buffers.as_ptr(), u32 = 2
    );
    call!("hipdnnEnginePluginDestroyExecutionContext", Pointer = handle, Pointer = context);
    call!("hipdnnEnginePluginDestroy", Pointer = handle);
}

fn expected(id: i64, layout: &str) -> String {
    let graph = format!("graph={layout} tensors=3 operations=[2,2]");
    format!(
        "Create handle=1
SetStream handle=1 stream=64
GetApplicableEngineIds handle=1 max=4 {graph}
GetEngineDetails handle=1 engine={id} {graph}
DestroyEngineDetails handle=1
GetWorkspaceSize handle=1 engine={id} {graph}
CreateExecutionContext handle=1 engine={id} {graph} context=1
ExecuteOpGraph handle=1 context=1 workspace=4096 count=2 buffers=[1:16,-2:0]
DestroyExecutionContext handle=1 context=1
Destroy handle=1
"
    )
}

#[test]
fn both_layouts_are_told_apart_and_every_call_is_logged() {
    let log = std::env::temp_dir().join(format!("stub_plugins_{}.log", std::process::id()));
    // SAFETY: this is the only test of its process, and nothing else runs yet.
    unsafe { std::env::set_var(stub_plugins::LOG, &log) };
    for (name, layout, id) in [
        ("good", Layout::G2, engine_id("STUB_ENGINE")),
        ("g1", Layout::G1, engine_id("OLDER_STUB_ENGINE") + 1),
    ] {
        let _ = std::fs::remove_file(&log);
        // SAFETY: the stub does nothing when it is loaded.
        let library = unsafe { Library::new(stub_plugins::library(name).unwrap()) }.unwrap();
        drive(&library, id, &wire::write(&graph(), layout).unwrap());
        assert_eq!(std::fs::read_to_string(&log).unwrap(), expected(id, &format!("{layout:?}")));
    }
    let _ = std::fs::remove_file(&log);
}
