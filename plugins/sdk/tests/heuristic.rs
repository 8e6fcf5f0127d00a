//! Every exported function of a heuristic plugin, called through its C signature with good, null and wrong arguments.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failure of the test")]
#![expect(clippy::panic, reason = "a plugin that panics is part of the test")]

use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::ffi::heuristic_plugin_api::*;
use hipdnn_plugin_sdk::ffi::plugin_api::*;
use hipdnn_plugin_sdk::ffi::*;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{self, DeviceProperties, Layout};
use hipdnn_plugin_sdk::{HeuristicPlugin, PluginError, engine_id};

const OK: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_SUCCESS;
const BAD_PARAM: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_BAD_PARAM;
const INVALID_VALUE: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
const INTERNAL_ERROR: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
const NOT_INITIALIZED: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED;

/// A plugin whose policies do what the graph's name says.
struct Probe;

/// Whether a policy was already asked about the graph on which it fails the second time.
static ASKED: AtomicBool = AtomicBool::new(false);

/// The device of a handle, to verify that it was passed on.
struct Device(DeviceProperties);

impl Drop for Device {
    fn drop(&mut self) {
        assert!(self.0.architecture_name != "panic in drop", "a drop that panics");
    }
}

impl HeuristicPlugin for Probe {
    const NAME: &'static str = "Probe";
    const VERSION: &'static str = "4.5.6";
    const POLICIES: &'static [&'static str] = &["Probe::First", "Probe::Second"];
    type Handle = Device;

    fn create_handle(device: &DeviceProperties) -> Result<Device, PluginError> {
        match device.architecture_name.as_str() {
            "none" => Err(PluginError::internal("no such device")),
            "panic" => panic!("device {} lost its way", device.device_id),
            _ => Ok(Device(device.clone())),
        }
    }

    fn order(
        Device(device): &Device,
        policy: usize,
        graph: &Graph,
        engines: &[i64],
    ) -> Result<Option<Vec<i64>>, PluginError> {
        let mut order = engines.to_vec();
        Ok(match graph.name.as_str() {
            "reverse" => {
                order.reverse();
                Some(order)
            }
            "only the second" if policy == 0 => None,
            "only the second" => Some(vec![engines[1]]),
            "none" => Some(Vec::new()),
            "foreign" => Some(vec![engines[0], 99]),
            "twice" => Some(vec![engines[0], engines[0]]),
            "fail" => {
                return Err(PluginError::internal(format!(
                    "{} bytes are not enough",
                    device.total_global_mem
                )));
            }
            "fail the second time" if ASKED.swap(true, Ordering::Relaxed) => {
                return Err(PluginError::internal("asked twice"));
            }
            "panic" => panic!("policy {policy} lost its way"),
            _ => Some(order),
        })
    }
}

hipdnn_plugin_sdk::export_heuristic_plugin!(Probe);

/// The last error text of this thread.
fn text() -> String {
    let mut text = null();
    // SAFETY: the function writes only to the local `text`, and the text is NUL terminated.
    unsafe {
        hipdnnPluginGetLastErrorString(&mut text);
        CStr::from_ptr(text).to_str().unwrap().to_owned()
    }
}

fn data(bytes: &[u8]) -> hipdnnPluginConstData_t {
    hipdnnPluginConstData_t { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

fn device(architecture: &str) -> Vec<u8> {
    wire::write_device_properties(&DeviceProperties {
        device_id: 3,
        multi_processor_count: 96,
        total_global_mem: 24 << 30,
        architecture_name: architecture.to_owned(),
    })
}

/// A graph whose name controls the policies.
fn graph(name: &str) -> Vec<u8> {
    let identity = Pointwise::new(PointwiseMode::Identity, 1, None, 2);
    let node = Node::single(identity);
    let tensors = (1..=2).map(|uid| Tensor::new(uid, DataType::Float, &[4], &[1])).collect();
    let graph = Graph { name: name.into(), tensors, nodes: vec![node], ..Graph::default() };
    wire::write(&graph, Layout::G2).unwrap()
}

/// A handle with a device, destroyed at the end of the test.
struct Handle(hipdnnHeuristicHandle_t);

impl Handle {
    fn new() -> Self {
        let mut handle = null_mut();
        // SAFETY: the function writes only to the local `handle`, and the bytes live during the call.
        unsafe {
            assert_eq!(hipdnnHeuristicHandleCreate(&mut handle), OK);
            assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&device("gfx1100"))), OK);
        }
        Self(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was created and is not destroyed yet.
        assert_eq!(unsafe { hipdnnHeuristicHandleDestroy(self.0) }, OK);
    }
}

/// A descriptor that is destroyed at the end of the test.
struct Descriptor(hipdnnHeuristicPolicyDescriptor_t);

impl Descriptor {
    fn new(handle: &Handle, policy: &str) -> Self {
        let mut desc = null_mut();
        // SAFETY: the handle lives, and the function writes only to the local `desc`.
        let status = unsafe { hipdnnHeuristicPolicyDescriptorCreate(handle.0, engine_id(policy), &mut desc) };
        assert_eq!(status, OK, "{}", text());
        Self(desc)
    }

    fn set(&self, engines: &[i64], graph: &[u8]) {
        // SAFETY: the descriptor lives, and the arguments do during the calls.
        unsafe {
            assert_eq!(hipdnnHeuristicPolicySetEngineIds(self.0, engines.as_ptr(), engines.len()), OK);
            assert_eq!(hipdnnHeuristicPolicySetSerializedGraph(self.0, &data(graph)), OK, "{}", text());
        }
    }

    fn finalize(&self) -> (hipdnnPluginStatus_t, i32) {
        let mut applied = -1;
        // SAFETY: the descriptor lives, and the function writes only to the local `applied`.
        (unsafe { hipdnnHeuristicPolicyFinalize(self.0, &mut applied) }, applied)
    }

    fn order(&self) -> Vec<i64> {
        let mut count = 0;
        let mut ids = [0_i64; 8];
        // SAFETY: the descriptor lives, and there is room for the stated number.
        unsafe {
            assert_eq!(hipdnnHeuristicPolicyGetSortedEngineIds(self.0, null_mut(), &mut count), OK);
            assert_eq!(hipdnnHeuristicPolicyGetSortedEngineIds(self.0, ids.as_mut_ptr(), &mut count), OK);
        }
        ids[..count].to_vec()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: it was created and is not destroyed yet.
        assert_eq!(unsafe { hipdnnHeuristicPolicyDescriptorDestroy(self.0) }, OK);
    }
}

#[test]
fn the_plugin_describes_itself() {
    let given = |function: unsafe extern "C" fn(*mut *const c_char) -> hipdnnPluginStatus_t| {
        let mut text = null();
        // SAFETY: the function writes only to the local `text`, and the text is NUL terminated.
        unsafe {
            assert_eq!(function(&mut text), OK);
            CStr::from_ptr(text).to_str().unwrap().to_owned()
        }
    };
    assert_eq!(given(hipdnnPluginGetName), "Probe");
    assert_eq!(given(hipdnnPluginGetVersion), "4.5.6");
    assert_eq!(given(hipdnnPluginGetApiVersion), "0.1.0");
    let mut kind = -1;
    // SAFETY: the functions write only to the local `kind`, and must refuse null.
    unsafe {
        assert_eq!(hipdnnPluginGetType(&mut kind), OK);
        assert_eq!(hipdnnPluginSetLoggingCallback(None), OK);
        assert_eq!(hipdnnPluginSetLogLevel(9), BAD_PARAM);
    }
    assert_eq!(kind, HIPDNN_PLUGIN_TYPE_HEURISTIC);
}

#[test]
fn policies_are_counted_and_named() {
    let (mut ids, mut count) = ([0_i64; 3], 0_u32);
    let expected = ["Probe::First", "Probe::Second"].map(engine_id);
    // SAFETY: the functions write only to the locals `count` and `name` and to as many ids as `ids` has; they must refuse null.
    unsafe {
        assert_eq!(hipdnnHeuristicPluginGetAllPolicyIds(null_mut(), 0, &mut count), OK);
        assert_eq!(count, 2);
        assert_eq!(hipdnnHeuristicPluginGetAllPolicyIds(ids.as_mut_ptr(), 1, &mut count), OK);
        assert_eq!((ids, count), ([expected[0], 0, 0], 2));
        assert_eq!(hipdnnHeuristicPluginGetAllPolicyIds(ids.as_mut_ptr(), 3, &mut count), OK);
        assert_eq!((ids, count), ([expected[0], expected[1], 0], 2));
        assert_eq!(hipdnnHeuristicPluginGetAllPolicyIds(ids.as_mut_ptr(), 3, null_mut()), BAD_PARAM);
        assert_eq!(text(), "num_policies is null");
        let mut name = null();
        assert_eq!(hipdnnHeuristicPluginGetPolicyName(expected[1], &mut name), OK);
        assert_eq!(CStr::from_ptr(name).to_str(), Ok("Probe::Second"));
        assert_eq!(hipdnnHeuristicPluginGetPolicyName(5, &mut name), INVALID_VALUE);
        assert_eq!(text(), "policy_id is 5, expected the id of one of Probe::First, Probe::Second");
        assert_eq!(hipdnnHeuristicPluginGetPolicyName(expected[1], null_mut()), BAD_PARAM);
    }
}

#[test]
fn a_policy_decides() {
    let handle = Handle::new();
    let desc = Descriptor::new(&handle, "Probe::First");
    desc.set(&[1, 2, 3], &graph("reverse"));
    assert_eq!(desc.finalize(), (OK, 1));
    assert_eq!(desc.order(), [3, 2, 1]);
    // Finalized again, it answers for the new inputs.
    desc.set(&[4, 5], &graph("as they are"));
    let mut count = 0;
    // SAFETY: the descriptor lives, and the function writes only to the local `count`.
    let status = unsafe { hipdnnHeuristicPolicyGetSortedEngineIds(desc.0, null_mut(), &mut count) };
    assert_eq!((status, text()), (NOT_INITIALIZED, "desc is not finalized, expected it to be".into()));
    assert_eq!(desc.finalize(), (OK, 1));
    assert_eq!(desc.order(), [4, 5]);
}

#[test]
fn a_policy_leaves_the_choice_to_others() {
    let handle = Handle::new();
    for (policy, name, applied, order) in [
        ("Probe::First", "only the second", 0, vec![]),
        ("Probe::Second", "only the second", 1, vec![8]),
        ("Probe::Second", "none", 0, vec![]),
    ] {
        let desc = Descriptor::new(&handle, policy);
        desc.set(&[7, 8], &graph(name));
        assert_eq!((desc.finalize(), desc.order()), ((OK, applied), order), "{policy} {name}");
    }
}

#[test]
fn an_invalid_order_is_reported_as_the_policys_error() {
    let handle = Handle::new();
    let desc = Descriptor::new(&handle, "Probe::Second");
    for (name, expected) in [
        (
            "foreign",
            "policy Probe::Second put engine 99 at place 1 of its order, expected engines of [7, 8], each once",
        ),
        (
            "twice",
            "policy Probe::Second put engine 7 at place 1 of its order, expected engines of [7, 8], each once",
        ),
        ("fail", "25769803776 bytes are not enough"),
        ("panic", "the plugin panicked: policy 1 lost its way"),
    ] {
        desc.set(&[7, 8], &graph(name));
        assert_eq!((desc.finalize(), text()), ((INTERNAL_ERROR, -1), expected.to_owned()));
    }
    // It still works.
    desc.set(&[7, 8], &graph("reverse"));
    assert_eq!(desc.finalize(), (OK, 1));
}

#[test]
fn an_order_is_forgotten_when_the_policy_fails_later() {
    let handle = Handle::new();
    let desc = Descriptor::new(&handle, "Probe::First");
    desc.set(&[7, 8], &graph("fail the second time"));
    assert_eq!((desc.finalize(), desc.order()), ((OK, 1), vec![7, 8]));
    assert_eq!((desc.finalize(), text()), ((INTERNAL_ERROR, -1), "asked twice".into()));
    let mut count = 99;
    // SAFETY: the descriptor lives, and the function writes only to the local `count`.
    let status = unsafe { hipdnnHeuristicPolicyGetSortedEngineIds(desc.0, null_mut(), &mut count) };
    assert_eq!((status, count), (NOT_INITIALIZED, 99));
}

#[test]
fn a_state_that_panics_is_a_status() {
    let (mut handle, mut desc) = (null_mut(), null_mut());
    let policy = engine_id("Probe::Second");
    // SAFETY: the functions write only to the locals `handle` and `desc`, and the arguments live during the calls.
    unsafe {
        assert_eq!(hipdnnHeuristicHandleCreate(&mut handle), OK);
        assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&device("panic"))), INTERNAL_ERROR);
        assert_eq!(text(), "the plugin panicked: device 3 lost its way");
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle, policy, &mut desc), NOT_INITIALIZED);
        // A second device replaces the first one's state; the descriptor created before keeps it alive.
        assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&device("panic in drop"))), OK);
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle, policy, &mut desc), OK);
        assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&device("gfx942"))), OK);
        assert_eq!(hipdnnHeuristicPolicyDescriptorDestroy(desc), INTERNAL_ERROR);
        assert_eq!(text(), "the plugin panicked: a drop that panics");
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle, policy, &mut desc), OK);
        assert_eq!(hipdnnHeuristicPolicyDescriptorDestroy(desc), OK);
        assert_eq!(hipdnnHeuristicHandleDestroy(handle), OK);
    }
}

#[test]
fn missing_and_invalid_values_are_named() {
    let handle = Handle::new();
    let desc = Descriptor::new(&handle, "Probe::First");
    let ids = [1_i64, 2, 1];
    let bytes = graph("reverse");
    let (mut count, mut room) = (0_usize, 1_usize);
    // SAFETY: each function must refuse null, foreign and damaged objects; the rest lives.
    unsafe {
        assert_eq!(
            (desc.finalize(), text()),
            ((NOT_INITIALIZED, -1), "desc has no engine ids, expected one".into())
        );
        assert_eq!(hipdnnHeuristicPolicySetEngineIds(desc.0, ids.as_ptr(), 3), INVALID_VALUE);
        assert_eq!(text(), "engine_ids[2] is 1, expected each id once");
        assert_eq!(hipdnnHeuristicPolicySetEngineIds(desc.0, null(), 3), BAD_PARAM);
        assert_eq!(hipdnnHeuristicPolicySetEngineIds(desc.0, ids.as_ptr(), 0), BAD_PARAM);
        assert_eq!(hipdnnHeuristicPolicySetEngineIds(desc.0, ids.as_ptr(), usize::MAX), BAD_PARAM);
        assert_eq!(hipdnnHeuristicPolicySetEngineIds(desc.0, ids.as_ptr(), 2), OK);
        assert_eq!(
            (desc.finalize(), text()),
            ((NOT_INITIALIZED, -1), "desc has no graph, expected one".into())
        );
    }
    // SAFETY: the functions must refuse null and damaged bytes; the rest lives.
    unsafe {
        assert_eq!(hipdnnHeuristicPolicySetSerializedGraph(desc.0, null()), BAD_PARAM);
        assert_eq!(hipdnnHeuristicPolicySetSerializedGraph(desc.0, &data(&bytes[..20])), INVALID_VALUE);
        assert!(text().starts_with("serialized_graph: "), "{}", text());
        assert_eq!(hipdnnHeuristicPolicySetSerializedGraph(desc.0, &data(&bytes)), OK);
        assert_eq!(hipdnnHeuristicPolicyFinalize(desc.0, null_mut()), BAD_PARAM);
        assert_eq!(desc.finalize(), (OK, 1));
        assert_eq!(hipdnnHeuristicPolicyGetSortedEngineIds(desc.0, null_mut(), null_mut()), BAD_PARAM);
        let mut small = [0_i64; 1];
        assert_eq!(hipdnnHeuristicPolicyGetSortedEngineIds(desc.0, small.as_mut_ptr(), &mut room), BAD_PARAM);
        assert_eq!((text(), small, room), ("num_engines is 1, expected room for 2".into(), [0], 1));
    }
    // A handle is not a descriptor, and neither is null.
    for foreign in [null_mut(), handle.0.cast()] {
        // SAFETY: the functions must refuse null and foreign objects.
        unsafe {
            assert_eq!(hipdnnHeuristicPolicySetEngineIds(foreign, ids.as_ptr(), 2), BAD_PARAM);
            assert_eq!(hipdnnHeuristicPolicySetSerializedGraph(foreign, &data(&bytes)), BAD_PARAM);
            assert_eq!(hipdnnHeuristicPolicyFinalize(foreign, &mut -1), BAD_PARAM);
            assert_eq!(hipdnnHeuristicPolicyGetSortedEngineIds(foreign, null_mut(), &mut count), BAD_PARAM);
            assert_eq!(hipdnnHeuristicPolicyDescriptorDestroy(foreign), BAD_PARAM);
        }
    }
    // SAFETY: the functions must refuse null and foreign objects; the handle lives.
    unsafe {
        assert_eq!(hipdnnHeuristicHandleDestroy(desc.0.cast()), BAD_PARAM);
        assert!(text().contains("which this plugin did not make"), "{}", text());
        assert_eq!(hipdnnHeuristicHandleCreate(null_mut()), BAD_PARAM);
        let mut made = null_mut();
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle.0, 5, &mut made), INVALID_VALUE);
        let policy = engine_id("Probe::First");
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle.0, policy, null_mut()), BAD_PARAM);
        assert!(made.is_null());
    }
}

#[test]
fn a_handle_needs_a_device() {
    let mut handle = null_mut();
    let mut desc = null_mut();
    let policy = engine_id("Probe::First");
    // SAFETY: the functions write only to the locals `handle` and `desc`, and the arguments live during the calls.
    unsafe {
        assert_eq!(hipdnnHeuristicHandleCreate(&mut handle), OK);
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle, policy, &mut desc), NOT_INITIALIZED);
        assert_eq!(text(), "plugin_handle has no device, expected its properties to be set first");
        assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, null()), BAD_PARAM);
        assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&graph("a graph"))), INVALID_VALUE);
        assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&device("none"))), INTERNAL_ERROR);
        assert_eq!(text(), "no such device");
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle, policy, &mut desc), NOT_INITIALIZED);
        assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&device("gfx942"))), OK);
        assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle, policy, &mut desc), OK);
        // A descriptor outlives its handle.
        assert_eq!(hipdnnHeuristicHandleDestroy(handle), OK);
    }
    let desc = Descriptor(desc);
    desc.set(&[1, 2], &graph("reverse"));
    assert_eq!((desc.finalize(), desc.order()), ((OK, 1), vec![2, 1]));
}
