//! Every exported function of a plugin, called through its C signature with good, null and wrong arguments.

#![expect(clippy::unwrap_used, reason = "a failure here is a failure of the test")]
#![expect(clippy::panic, reason = "a plugin that panics is part of the test")]

mod engine;
mod execution;
mod log;
mod optional;
mod plugin;
mod steps;

use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

use hipdnn_plugin_sdk::ffi::engine_plugin_api::*;
use hipdnn_plugin_sdk::ffi::plugin_api::*;
use hipdnn_plugin_sdk::ffi::*;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{self, EngineConfig, KnobSetting, KnobValue, Layout};

const OK: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_SUCCESS;
const BAD_PARAM: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_BAD_PARAM;
const INVALID_VALUE: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
const INTERNAL_ERROR: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
const NOT_APPLICABLE: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;

/// The last error text of this thread.
fn text() -> String {
    let mut text = null();
    // SAFETY: the function writes only to the local `text`, and the text is NUL terminated.
    unsafe {
        hipdnnPluginGetLastErrorString(&mut text);
        CStr::from_ptr(text).to_str().unwrap().to_owned()
    }
}

/// The result of one of the functions that return a text.
fn given(function: unsafe extern "C" fn(*mut *const c_char) -> hipdnnPluginStatus_t) -> String {
    let mut text = null();
    // SAFETY: the function writes only to the local `text`, and the text is NUL terminated.
    unsafe {
        assert_eq!(function(&mut text), OK);
        CStr::from_ptr(text).to_str().unwrap().to_owned()
    }
}

/// A handle that is destroyed at the end of the test.
struct Handle(hipdnnEnginePluginHandle_t);

impl Handle {
    fn new() -> Self {
        let mut handle = null_mut();
        // SAFETY: the function writes only to the local `handle`.
        assert_eq!(unsafe { hipdnnEnginePluginCreate(&mut handle) }, OK);
        assert!(!handle.is_null());
        Self(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was created and is not destroyed yet.
        assert_eq!(unsafe { hipdnnEnginePluginDestroy(self.0) }, OK);
    }
}

/// A graph whose name controls the plugin.
fn graph(name: &str) -> Vec<u8> {
    graph_of(name, Layout::G2)
}

fn graph_of(name: &str, layout: Layout) -> Vec<u8> {
    let relu = Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2);
    let node = Node::single(relu);
    let tensors = (1..=2).map(|uid| Tensor::new(uid, DataType::Float, &[4], &[1])).collect();
    wire::write(&Graph { name: name.into(), tensors, nodes: vec![node], ..Graph::default() }, layout).unwrap()
}

fn config(engine: &str, workspace: Option<i64>) -> Vec<u8> {
    let knobs =
        workspace.map(|size| KnobSetting { knob_id: "workspace".into(), value: KnobValue::Int(size) });
    let engine_id = hipdnn_plugin_sdk::engine_id(engine);
    wire::write_engine_config(&EngineConfig { engine_id, knobs: knobs.into_iter().collect() })
}

fn data(bytes: &[u8]) -> hipdnnPluginConstData_t {
    hipdnnPluginConstData_t { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

/// Invalid buffer arguments, and the expected messages.
fn wrong_buffers() -> Vec<(hipdnnPluginConstData_t, &'static str)> {
    static GARBAGE: [u8; 64] = [0xee; 64];
    vec![
        (hipdnnPluginConstData_t { ptr: null(), size: 8 }, "has 8 bytes at 0x0"),
        (hipdnnPluginConstData_t { ptr: GARBAGE.as_ptr().cast(), size: 0 }, "has 0 bytes"),
        (hipdnnPluginConstData_t { ptr: GARBAGE.as_ptr().cast(), size: usize::MAX }, "expected a buffer"),
        (data(&GARBAGE), "not a well-formed FlatBuffer"),
    ]
}

#[test]
fn the_plugin_describes_itself() {
    assert_eq!(given(hipdnnPluginGetName), "Probe");
    assert_eq!(given(hipdnnPluginGetVersion), "4.5.6");
    assert_eq!(given(hipdnnPluginGetApiVersion), "1.0.0");
    let mut kind = -1;
    // SAFETY: the function writes only to the local `kind`.
    assert_eq!(unsafe { hipdnnPluginGetType(&mut kind) }, OK);
    assert_eq!(kind, HIPDNN_PLUGIN_TYPE_ENGINE);
}

#[test]
fn a_null_output_is_named() {
    // SAFETY: each function must refuse null.
    unsafe {
        assert_eq!((hipdnnPluginGetName(null_mut()), text()), (BAD_PARAM, "name is null".into()));
        assert_eq!((hipdnnPluginGetVersion(null_mut()), text()), (BAD_PARAM, "version is null".into()));
        assert_eq!((hipdnnPluginGetApiVersion(null_mut()), text()), (BAD_PARAM, "version is null".into()));
        assert_eq!((hipdnnPluginGetType(null_mut()), text()), (BAD_PARAM, "type is null".into()));
        assert_eq!((hipdnnEnginePluginCreate(null_mut()), text()), (BAD_PARAM, "handle is null".into()));
        hipdnnPluginGetLastErrorString(null_mut());
    }
    assert_eq!(text(), "handle is null");
}

#[test]
fn the_error_text_is_of_one_thread() {
    // SAFETY: the function must refuse null.
    assert_eq!(unsafe { hipdnnPluginGetName(null_mut()) }, BAD_PARAM);
    std::thread::spawn(|| assert_eq!(text(), "")).join().unwrap();
    assert_eq!(text(), "name is null");
}

#[test]
fn handles_are_distinct_and_recognized() {
    let (a, b) = (Handle::new(), Handle::new());
    assert_ne!(a.0, b.0);
    // SAFETY: null and a misaligned pointer are refused without a look at what they point to.
    unsafe {
        assert_eq!((hipdnnEnginePluginDestroy(null_mut()), text()), (BAD_PARAM, "handle is null".into()));
        assert_eq!(hipdnnEnginePluginSetStream(null_mut(), null_mut()), BAD_PARAM);
        let forged = std::ptr::without_provenance_mut(1);
        assert_eq!(hipdnnEnginePluginDestroy(forged), BAD_PARAM);
        assert_eq!(text(), "handle is 0x1, which this plugin did not make");
    }
}

#[test]
fn a_stream_reaches_the_handle_and_a_refused_one_is_explained() {
    let handle = Handle::new();
    // SAFETY: the plugin does not look into streams.
    unsafe {
        assert_eq!(hipdnnEnginePluginSetStream(handle.0, std::ptr::without_provenance_mut(64)), OK);
        assert_eq!(hipdnnEnginePluginSetStream(handle.0, plugin::BAD_STREAM), INTERNAL_ERROR);
    }
    assert_eq!(text(), "no such stream");
}
