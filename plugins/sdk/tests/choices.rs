//! A policy that reads the host's predictions, sets knobs and says why, asked through its C functions by hosts with and without predictions.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failure of the test")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;
use std::ptr::{null, null_mut};

use hipdnn_plugin_sdk::ffi::heuristic_plugin_api::*;
use hipdnn_plugin_sdk::ffi::plugin_api::hipdnnPluginGetLastErrorString;
use hipdnn_plugin_sdk::ffi::*;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{
    self, DeviceProperties, EngineConfig, KnobSetting, KnobValue, Layout, Prediction,
};
use hipdnn_plugin_sdk::{Chosen, HeuristicPlugin, PluginError, Predictions, engine_id};

const OK: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_SUCCESS;
const BAD_PARAM: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_BAD_PARAM;
const INVALID_VALUE: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
const INTERNAL_ERROR: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
const NOT_APPLICABLE: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
const NOT_INITIALIZED: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED;

struct Probe;

fn setting(knob: &str, value: impl Into<KnobValue>) -> KnobSetting {
    KnobSetting { knob_id: knob.to_owned(), value: value.into() }
}

impl HeuristicPlugin for Probe {
    const NAME: &'static str = "Probe";
    const VERSION: &'static str = "1.0.0";
    const POLICIES: &'static [&'static str] = &["Probe::Chooses"];
    type Handle = ();

    fn create_handle(_: &DeviceProperties) -> Result<(), PluginError> {
        Ok(())
    }

    /// The graph's name says what to do.
    fn choose(
        _: &(),
        _: usize,
        graph: &Graph,
        engines: &[i64],
        predictions: Option<&Predictions<'_>>,
    ) -> Result<Option<Vec<Chosen>>, PluginError> {
        let first = |knobs: Vec<KnobSetting>, trace: Option<&str>| {
            Ok(Some(vec![Chosen { engine: engines[0], knobs, trace: trace.map(str::to_owned) }]))
        };
        match graph.name.as_str() {
            "twice" => return first(vec![setting("a", 1), setting("a", 2)], None),
            "no id" => return first(vec![setting("", 1)], None),
            "not a number" => return first(vec![setting("a", f64::NAN)], None),
            "no object" => return first(Vec::new(), Some("fast")),
            "a terminator" => return first(Vec::new(), Some("{\"a\":\0}")),
            _ => {}
        }
        let Some(predictions) = predictions else { return Ok(None) };
        let chosen = predictions.rank(engines).into_iter().map(|(engine, predicted)| match predicted {
            None => {
                let reason = predictions.engine(engine).unwrap_err();
                Chosen { engine, knobs: Vec::new(), trace: Some(format!("{{\"none\": \"{reason}\"}}")) }
            }
            Some(predicted) => {
                let best = predictions.configuration(engine).unwrap();
                assert_eq!(best.value, predicted.value);
                let knobs = if engine == 1 { vec![setting("threads", 1)] } else { Vec::new() };
                let trace = format!("{{\"{}\": {}}}", predictions.metric(), predicted.value);
                Chosen { engine, knobs, trace: Some(trace) }
            }
        });
        Ok(Some(chosen.collect()))
    }
}

hipdnn_plugin_sdk::export_heuristic_plugin!(Probe);

/// The predictions of a host: a value for each engine, and the bytes that it has lent.
struct Host {
    metric: &'static CStr,
    values: Vec<(i64, Option<f64>)>,
    lent: RefCell<Vec<Vec<u8>>>,
}

/// The host's answer.
///
/// # Safety
/// `context` points to the host of [`Host::table`]; `prediction` is valid for a write.
unsafe extern "C" fn get_prediction(
    context: *mut c_void,
    engine_id: i64,
    kind: hipdnnEnginePredictionKind_t,
    prediction: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    // SAFETY: the context is a host that lives as long as the policy is asked.
    let host = unsafe { &*context.cast::<Host>() };
    let Some((_, value)) = host.values.iter().find(|(id, _)| *id == engine_id) else { return BAD_PARAM };
    let reason = if value.is_some() { "a table" } else { "no measurement" };
    let bytes = wire::write_prediction(&Prediction {
        engine_id,
        kind: u8::try_from(kind).unwrap(),
        value: *value,
        model: "table",
        reason,
        metric: host.metric.to_str().unwrap(),
    });
    let data = hipdnnPluginConstData_t { ptr: bytes.as_ptr().cast(), size: bytes.len() };
    host.lent.borrow_mut().push(bytes);
    // SAFETY: the policy passes room for one struct.
    unsafe { prediction.write(data) };
    OK
}

impl Host {
    fn new(metric: &'static CStr, values: &[(i64, Option<f64>)]) -> Self {
        Self { metric, values: values.to_vec(), lent: RefCell::default() }
    }

    fn table(&self) -> hipdnnHeuristicHostCallbacks_t {
        hipdnnHeuristicHostCallbacks_t {
            version: 2,
            struct_size: size_of::<hipdnnHeuristicHostCallbacks_t>(),
            context: std::ptr::from_ref(self).cast_mut().cast(),
            get_prediction: Some(get_prediction),
            ranking_metric: self.metric.as_ptr(),
        }
    }
}

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

/// A handle and a descriptor with three engines and a graph of this name.
struct Asked {
    handle: hipdnnHeuristicHandle_t,
    desc: hipdnnHeuristicPolicyDescriptor_t,
}

impl Asked {
    fn new(name: &str) -> Self {
        let (mut handle, mut desc) = (null_mut(), null_mut());
        let device = wire::write_device_properties(&DeviceProperties {
            device_id: -1,
            multi_processor_count: 2,
            total_global_mem: 0,
            architecture_name: "x86_64".to_owned(),
        });
        let node = Node::single(Pointwise::new(PointwiseMode::Identity, 1, None, 2));
        let tensors = (1..=2).map(|uid| Tensor::new(uid, DataType::Float, &[4], &[1])).collect();
        let graph = Graph { name: name.into(), tensors, nodes: vec![node], ..Graph::default() };
        let graph = wire::write(&graph, Layout::G2).unwrap();
        let policy = engine_id("Probe::Chooses");
        // SAFETY: the functions write only to the locals `handle` and `desc`, and the arguments live during the calls.
        unsafe {
            assert_eq!(hipdnnHeuristicHandleCreate(&mut handle), OK);
            assert_eq!(hipdnnHeuristicHandleSetDeviceProperties(handle, &data(&device)), OK);
            assert_eq!(hipdnnHeuristicPolicyDescriptorCreate(handle, policy, &mut desc), OK);
            assert_eq!(hipdnnHeuristicPolicySetEngineIds(desc, [1, 2, 3].as_ptr(), 3), OK);
            assert_eq!(hipdnnHeuristicPolicySetSerializedGraph(desc, &data(&graph)), OK);
        }
        Self { handle, desc }
    }

    fn finalize(&self, host: Option<&hipdnnHeuristicHostCallbacks_t>) -> (hipdnnPluginStatus_t, i32) {
        let mut applied = -1;
        let host = host.map_or(null(), std::ptr::from_ref);
        // SAFETY: the descriptor and the table live, and the function writes only to the local `applied`.
        (unsafe { hipdnnHeuristicPolicyFinalizeWithHost(self.desc, host, &mut applied) }, applied)
    }

    fn order(&self) -> Vec<i64> {
        let (mut ids, mut count) = ([0_i64; 8], 8);
        // SAFETY: the descriptor lives, and there is room for the stated number.
        let status =
            unsafe { hipdnnHeuristicPolicyGetSortedEngineIds(self.desc, ids.as_mut_ptr(), &mut count) };
        assert_eq!(status, OK, "{}", text());
        ids[..count].to_vec()
    }

    fn config(&self, engine: i64) -> Result<EngineConfig, hipdnnPluginStatus_t> {
        let mut data = data(&[]);
        // SAFETY: the descriptor lives, and the function writes only to the local `data`.
        match unsafe { hipdnnHeuristicPolicyGetEngineConfig(self.desc, engine, &mut data) } {
            // SAFETY: on success the bytes live as long as the answer.
            OK => Ok(wire::read_engine_config(unsafe {
                std::slice::from_raw_parts(data.ptr.cast(), data.size)
            })
            .unwrap()),
            status => Err(status),
        }
    }

    fn trace(&self, engine: i64) -> Result<String, hipdnnPluginStatus_t> {
        let mut text: *const c_char = null();
        // SAFETY: the descriptor lives, and the function writes only to the local `text`.
        match unsafe { hipdnnHeuristicPolicyGetTrace(self.desc, engine, &mut text) } {
            // SAFETY: on success the text lives as long as the answer, and is NUL terminated.
            OK => Ok(unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()),
            status => Err(status),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: both were created and are not destroyed yet.
        unsafe {
            assert_eq!(hipdnnHeuristicPolicyDescriptorDestroy(self.desc), OK);
            assert_eq!(hipdnnHeuristicHandleDestroy(self.handle), OK);
        }
    }
}

#[test]
fn a_policy_ranks_by_predictions_sets_knobs_and_says_why() {
    for (metric, name, order) in [(c"time", "time", [2, 3, 1]), (c"tflops", "tflops", [3, 2, 1])] {
        let asked = Asked::new("any");
        let host = Host::new(metric, &[(1, None), (2, Some(0.5)), (3, Some(1.5))]);
        assert_eq!(asked.finalize(Some(&host.table())), (OK, 1), "{}", text());
        assert_eq!(asked.order(), order);
        assert_eq!(asked.trace(2), Ok(format!("{{\"{name}\": 0.5}}")));
        assert_eq!(asked.trace(1), Ok("{\"none\": \"no measurement\"}".to_owned()));
        assert_eq!(asked.config(2), Err(NOT_APPLICABLE));
    }
    let asked = Asked::new("any");
    let host = Host::new(c"time", &[(1, Some(3.0)), (2, None), (3, None)]);
    assert_eq!((asked.finalize(Some(&host.table())), asked.order()), ((OK, 1), vec![1, 2, 3]));
    assert_eq!(asked.config(1), Ok(EngineConfig { engine_id: 1, knobs: vec![setting("threads", 1)] }));
    // Of no engine of the order.
    assert_eq!(
        (asked.config(9), text()),
        (Err(BAD_PARAM), "engine_id is 9, expected one of the order [1, 2, 3]".into())
    );
    assert_eq!(asked.trace(9), Err(BAD_PARAM));
}

#[test]
fn hosts_without_predictions_and_of_other_versions_are_answered() {
    let asked = Asked::new("any");
    assert_eq!((asked.finalize(None), asked.order()), ((OK, 0), vec![]));
    let mut applied = -1;
    // SAFETY: the descriptor lives, and the function writes only to the local `applied`.
    assert_eq!(unsafe { hipdnnHeuristicPolicyFinalize(asked.desc, &mut applied) }, OK);
    assert_eq!(applied, 0);
    let host = Host::new(c"tflops", &[(1, Some(1.0)), (2, Some(2.0)), (3, None)]);
    let without = hipdnnHeuristicHostCallbacks_t { get_prediction: None, ..host.table() };
    assert_eq!(asked.finalize(Some(&without)), (OK, 0));
    // Version 1 ends before the metric.
    let first = hipdnnHeuristicHostCallbacks_t {
        version: 1,
        struct_size: offset_of!(hipdnnHeuristicHostCallbacks_t, ranking_metric),
        ranking_metric: null(),
        ..host.table()
    };
    assert_eq!((asked.finalize(Some(&first)), asked.order()), ((OK, 1), vec![2, 1, 3]));
    // Later ones are longer.
    let later = hipdnnHeuristicHostCallbacks_t { version: 7, struct_size: 4096, ..host.table() };
    assert_eq!((asked.finalize(Some(&later)), asked.order()), ((OK, 1), vec![2, 1, 3]));
    for (wrong, expected) in [
        (
            hipdnnHeuristicHostCallbacks_t { version: 0, ..host.table() },
            "host is a table of version 0 with 40 bytes, expected a version from 1 and at least 32 bytes",
        ),
        (
            hipdnnHeuristicHostCallbacks_t { struct_size: 32, ..host.table() },
            "host is a table of version 2 with 32 bytes, expected a version from 1 and at least 40 bytes",
        ),
        (
            hipdnnHeuristicHostCallbacks_t { ranking_metric: null(), ..host.table() },
            "host->ranking_metric is null, expected a text",
        ),
    ] {
        assert_eq!((asked.finalize(Some(&wrong)), text()), ((INVALID_VALUE, -1), expected.to_owned()));
    }
    // The earlier answer is forgotten.
    assert_eq!((asked.config(1), asked.trace(1)), (Err(NOT_INITIALIZED), Err(NOT_INITIALIZED)));
}

#[test]
fn predictions_in_another_metric_or_without_a_number_count_as_none() {
    let asked = Asked::new("any");
    let values = [(1, Some(f64::NAN)), (2, Some(1.0)), (3, Some(f64::INFINITY))];
    let host = Host::new(c"time", &values);
    let table = host.table();
    assert_eq!((asked.finalize(Some(&table)), asked.order()), ((OK, 1), vec![2, 1, 3]));
    let other = hipdnnHeuristicHostCallbacks_t { ranking_metric: c"tflops".as_ptr(), ..table };
    assert_eq!((asked.finalize(Some(&other)), asked.order()), ((OK, 1), vec![1, 2, 3]));
    let trace = asked.trace(2).unwrap();
    assert!(trace.contains("the host predicted 1 of engine 2 in \"time\""), "{trace}");
}

#[test]
fn answers_that_hosts_would_reject_are_the_policys_errors() {
    for (name, expected) in [
        ("twice", "policy Probe::Chooses configures engine 1: knob \"a\" is set twice, expected once"),
        (
            "no id",
            "policy Probe::Chooses configures engine 1: the id of a knob has 0 bytes, expected 1 to 4096",
        ),
        ("not a number", "policy Probe::Chooses configures engine 1: knob \"a\": NaN, expected a number"),
        ("no object", "policy Probe::Chooses says of engine 1 \"fast\", expected a JSON object"),
        (
            "a terminator",
            "policy Probe::Chooses says of engine 1 \"{\\\"a\\\":\\0}\", expected a JSON object",
        ),
    ] {
        let asked = Asked::new(name);
        assert_eq!((asked.finalize(None), text()), ((INTERNAL_ERROR, -1), expected.to_owned()));
    }
}

#[test]
fn null_and_foreign_arguments_are_refused() {
    let asked = Asked::new("any");
    // SAFETY: the functions must refuse null and foreign objects.
    unsafe {
        assert_eq!(hipdnnHeuristicPolicyFinalizeWithHost(asked.desc, null(), null_mut()), BAD_PARAM);
        assert_eq!(
            (hipdnnHeuristicPolicyGetEngineConfig(asked.desc, 1, null_mut()), text()),
            (BAD_PARAM, "engine_config is null".into())
        );
        assert_eq!(
            (hipdnnHeuristicPolicyGetTrace(asked.desc, 1, null_mut()), text()),
            (BAD_PARAM, "trace_json is null".into())
        );
        for foreign in [null_mut(), asked.handle.cast()] {
            let (mut config, mut trace, mut applied) = (data(&[]), null(), -1);
            assert_eq!(hipdnnHeuristicPolicyFinalizeWithHost(foreign, null(), &mut applied), BAD_PARAM);
            assert_eq!(hipdnnHeuristicPolicyGetEngineConfig(foreign, 1, &mut config), BAD_PARAM);
            assert_eq!(hipdnnHeuristicPolicyGetTrace(foreign, 1, &mut trace), BAD_PARAM);
        }
    }
}
