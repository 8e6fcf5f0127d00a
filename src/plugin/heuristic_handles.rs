//! A handle's heuristic plugin handles, and asking policies.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use hipdnn_plugin_sdk::ffi::{
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, HIPDNN_PLUGIN_STATUS_SUCCESS, hipdnnHeuristicHandle_opaque,
    hipdnnHeuristicHostCallbacks_t as Callbacks, hipdnnHeuristicPolicyDescriptor_opaque,
    hipdnnPluginConstData_t as ConstData, hipdnnPluginStatus_t,
};
use hipdnn_plugin_sdk::wire::{self, KnobSetting, Layout};

use super::admission::first_duplicate;
use super::api::{HeuristicApi, foreign_text};
use super::heuristic_host::Host;
use super::{HeuristicPlugin, PluginSet, Policy};
use crate::device;
use crate::graph::{FrozenGraph, with_compute_types};
use crate::log;
use crate::selection::{Metric, Predictor};

/// The most bytes of a policy's configuration of an engine.
const MAX_CONFIG: usize = 1 << 20;

/// A plugin's handle, opaque to the host.
struct Opened(NonNull<hipdnnHeuristicHandle_opaque>);

// SAFETY: the interface lets a host use a plugin handle from any thread.
unsafe impl Send for Opened {}
// SAFETY: the interface lets threads share a plugin handle.
unsafe impl Sync for Opened {}

/// A handle with each heuristic plugin of a set.
pub struct HeuristicHandles {
    handles: Vec<Option<Opened>>,
    set: Arc<PluginSet>,
}

impl HeuristicHandles {
    /// Asks each plugin for a handle and passes it the device of this thread; a plugin that fails is left out.
    pub fn open(set: Arc<PluginSet>) -> Self {
        let device = device::current();
        let open = |plugin: &HeuristicPlugin| match open(plugin, &device.bytes) {
            Ok(handle) => Some(Opened(handle)),
            Err(reason) => {
                log::error(|| format!("heuristic plugin {} is left out: {reason}", plugin.path.display()));
                None
            }
        };
        let handles = set.heuristics.iter().map(open).collect();
        Self { handles, set }
    }

    /// Every policy of the plugins that gave a handle, with its plugin.
    pub fn policies(&self) -> impl Iterator<Item = (&HeuristicPlugin, &Policy)> {
        self.opened().flat_map(|(plugin, _)| plugin.policies.iter().map(move |policy| (plugin, policy)))
    }

    fn opened(&self) -> impl Iterator<Item = (&HeuristicPlugin, &Opened)> {
        self.set
            .heuristics
            .iter()
            .zip(&self.handles)
            .filter_map(|(plugin, handle)| Some((plugin, handle.as_ref()?)))
    }

    /// Asks a policy for an order of engines; none if it leaves the choice to others. The outer result is none if no plugin has
    /// the policy.
    pub fn ask(
        &self,
        policy: i64,
        graph: &FrozenGraph,
        engines: &[i64],
        predictor: &Predictor,
    ) -> Option<(&str, Result<Option<Order>, String>)> {
        let (plugin, handle) = self.opened().find(|(plugin, _)| plugin.has(policy))?;
        let name = plugin.policies.iter().find(|own| own.id == policy)?.name.as_str();
        Some((name, ask(&plugin.api, handle, policy, graph, engines, predictor)))
    }
}

/// What a policy chose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// The engines, best first.
    pub engines: Vec<i64>,
    /// The knobs of some of them.
    pub settings: Vec<(i64, Vec<KnobSetting>)>,
    /// What the policy says of some of them, as JSON.
    pub traces: Vec<(i64, String)>,
}

impl From<Vec<i64>> for Order {
    fn from(engines: Vec<i64>) -> Self {
        Self { engines, ..Self::default() }
    }
}

fn open(plugin: &HeuristicPlugin, device: &[u8]) -> Result<NonNull<hipdnnHeuristicHandle_opaque>, String> {
    let api = &plugin.api;
    let mut handle = ptr::null_mut();
    // SAFETY: the function writes one pointer.
    check(api, "create heuristic handle", unsafe { api.create(&raw mut handle) })?;
    let handle =
        NonNull::new(handle).ok_or("Failed to create heuristic handle: the plugin gave a null one")?;
    let data = ConstData { ptr: device.as_ptr().cast(), size: device.len() };
    // SAFETY: the handle is the plugin's own, the bytes outlive the call.
    let status = unsafe { api.set_device_properties(handle.as_ptr(), &raw const data) };
    check(api, "set device properties", status).inspect_err(|_| close(api, handle))?;
    Ok(handle)
}

fn close(api: &HeuristicApi, handle: NonNull<hipdnnHeuristicHandle_opaque>) {
    // SAFETY: the handle is the plugin's own, and this is its last use.
    let status = unsafe { api.destroy(handle.as_ptr()) };
    if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
        log::error(|| api.failure("destroy heuristic handle", status));
    }
}

impl Drop for HeuristicHandles {
    fn drop(&mut self) {
        for (plugin, handle) in self.opened() {
            close(&plugin.api, handle.0);
        }
    }
}

fn check(api: &HeuristicApi, action: &str, status: hipdnnPluginStatus_t) -> Result<(), String> {
    if status == HIPDNN_PLUGIN_STATUS_SUCCESS { Ok(()) } else { Err(api.failure(action, status)) }
}

/// A policy descriptor, destroyed on drop.
struct Choice<'a> {
    api: &'a HeuristicApi,
    descriptor: NonNull<hipdnnHeuristicPolicyDescriptor_opaque>,
}

impl Drop for Choice<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is the plugin's own, and this is its last use.
        let status = unsafe { self.api.destroy_descriptor(self.descriptor.as_ptr()) };
        if status != HIPDNN_PLUGIN_STATUS_SUCCESS {
            log::warn(|| self.api.failure("destroy policy descriptor", status));
        }
    }
}

thread_local! {
    /// The policies that this thread is asking, the last one first: a policy may call this library, which must not ask it again.
    /// Without a destructor, see `crate::lock`.
    static ASKING: Cell<*const Asking> = const { Cell::new(ptr::null()) };
}

/// A policy that a thread is asking, until it is dropped.
struct Asking {
    policy: i64,
    outer: *const Asking,
}

impl Asking {
    /// Whether this thread is asking a policy now.
    fn is_asked(policy: i64) -> bool {
        let mut at: *const Self = ASKING.get();
        // SAFETY: each is a local of a call of `ask` on this thread, and leaves the list before that returns.
        while let Some(asking) = unsafe { at.as_ref() } {
            if asking.policy == policy {
                return true;
            }
            at = asking.outer;
        }
        false
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.set(self.outer);
    }
}

fn ask(
    api: &HeuristicApi,
    handle: &Opened,
    policy: i64,
    graph: &FrozenGraph,
    engines: &[i64],
    predictor: &Predictor,
) -> Result<Option<Order>, String> {
    if Asking::is_asked(policy) {
        return Err("it is being asked on this thread already, and called back".to_owned());
    }
    let asking = Asking { policy, outer: ASKING.get() };
    ASKING.set(&raw const asking);
    let bytes = graph.bytes(Layout::G2).map_err(|error| error.message.to_string())?;
    let mut descriptor = ptr::null_mut();
    // SAFETY: the handle is the plugin's own; the function writes one pointer.
    let status = unsafe { api.create_descriptor(handle.0.as_ptr(), policy, &raw mut descriptor) };
    check(api, "create policy descriptor", status)?;
    let descriptor =
        NonNull::new(descriptor).ok_or("Failed to create policy descriptor: the plugin gave a null one")?;
    let choice = Choice { api, descriptor };
    let descriptor = choice.descriptor.as_ptr();
    // SAFETY: the descriptor is the plugin's own, the array has as many ids.
    let status = unsafe { api.set_engine_ids(descriptor, engines.as_ptr(), engines.len()) };
    check(api, "set engine IDs", status)?;
    let data = ConstData { ptr: bytes.as_ptr().cast(), size: bytes.len() };
    // SAFETY: the bytes outlive the descriptor.
    check(api, "set graph", unsafe { api.set_graph(descriptor, &raw const data) })?;
    // An invalid value, to detect a policy that writes nothing.
    let mut applied = i32::MIN;
    // The predictions that it was given live as long as this.
    let parsed = api.finalizes_with_host().then(|| wire::read(bytes)).transpose();
    let parsed = parsed.map_err(|error| error.0)?.map(with_compute_types);
    let host = parsed.as_ref().map(|graph| Host::new(graph, engines, predictor));
    let finalize = |table: *const Callbacks| {
        // SAFETY: the descriptor is the plugin's own, the table is null or static; the function writes one integer.
        unsafe { api.finalize_with_host(descriptor, table, &raw mut applied) }
    };
    let status = match host.as_ref().and_then(|host| host.during(finalize)) {
        Some(status) => status,
        // SAFETY: the function writes one integer.
        None => unsafe { api.finalize(descriptor, &raw mut applied) },
    };
    check(api, "finalize policy", status)?;
    match applied {
        0 => return Ok(None),
        1 => {}
        other => return Err(format!("Failed to finalize policy: out_applied is {other}, expected 0 or 1")),
    }
    let mut count = 0;
    // SAFETY: without an array the function only writes the count.
    let status = unsafe { api.get_sorted_engine_ids(descriptor, ptr::null_mut(), &raw mut count) };
    check(api, "get number of sorted engine IDs", status)?;
    if count == 0 || count > engines.len() {
        return Err(format!("The policy chose {count} engines, expected 1 to {}", engines.len()));
    }
    let mut sorted = vec![0; count];
    let mut written = count;
    // SAFETY: the array has room for `count` ids.
    let status = unsafe { api.get_sorted_engine_ids(descriptor, sorted.as_mut_ptr(), &raw mut written) };
    check(api, "get sorted engine IDs", status)?;
    if written != count {
        return Err(format!("The policy chose {written} engines when it had said {count}"));
    }
    if let Some(id) = sorted.iter().find(|id| !engines.contains(id)) {
        return Err(format!("The policy chose engine {id}, which is not among those it was given"));
    }
    if let Some(id) = first_duplicate(&sorted) {
        return Err(format!("The policy chose engine {id} twice"));
    }
    let mut order = Order::from(sorted);
    for engine in order.engines.clone() {
        if let Some(settings) = settings_of(&choice, engine)? {
            order.settings.push((engine, settings));
        }
        order.traces.extend(trace_of(&choice, engine).map(|trace| (engine, trace)));
    }
    Ok(Some(order))
}

/// The knobs that a policy wants for an engine, if it has any.
fn settings_of(choice: &Choice, engine: i64) -> Result<Option<Vec<KnobSetting>>, String> {
    let mut data = ConstData { ptr: ptr::null(), size: 0 };
    // SAFETY: the descriptor is the plugin's own; the function writes one struct.
    let status = unsafe { choice.api.get_engine_config(choice.descriptor.as_ptr(), engine, &raw mut data) };
    match status {
        None | Some(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE) => return Ok(None),
        Some(status) => check(choice.api, "get the configuration of an engine", status)?,
    }
    if data.ptr.is_null() || data.size == 0 || data.size > MAX_CONFIG {
        return Err(format!(
            "The policy gave {} bytes of a configuration of engine {engine}, expected 1 to {MAX_CONFIG}",
            data.size
        ));
    }
    // SAFETY: the bytes are the plugin's, and live until it is called again.
    let bytes = unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) }.to_vec();
    let about = |reason: String| format!("The policy's configuration of engine {engine}: {reason}");
    let config = wire::read_engine_config(&bytes).map_err(|error| about(error.0))?;
    let metric = wire::read_ranking_metric(&bytes).map_err(|error| about(error.0))?;
    if config.engine_id != engine {
        return Err(about(format!("it is of engine {}", config.engine_id)));
    }
    if !metric.is_empty() && Metric::named(&metric).is_none() {
        return Err(about(format!("its ranking metric is {metric:?}, expected tflops or time")));
    }
    for setting in &config.knobs {
        wire::check_knob_id(&setting.knob_id).map_err(|error| about(error.0))?;
        setting.value.check_size().map_err(|error| about(error.0))?;
    }
    Ok((!config.knobs.is_empty()).then_some(config.knobs))
}

/// What a policy says of an engine, for people only: a failure is logged.
fn trace_of(choice: &Choice, engine: i64) -> Option<String> {
    let mut text = ptr::null();
    // SAFETY: the descriptor is the plugin's own; the function writes one pointer.
    let status = unsafe { choice.api.get_trace(choice.descriptor.as_ptr(), engine, &raw mut text) }?;
    match status {
        HIPDNN_PLUGIN_STATUS_SUCCESS => {}
        HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE => return None,
        status => {
            log::warn(|| choice.api.failure("get the trace of an engine", status));
            return None;
        }
    }
    // SAFETY: on success the pointer is null or a text of the plugin's.
    let trace = unsafe { foreign_text(text) }?;
    match serde_json::from_str::<serde_json::Value>(&trace) {
        Ok(json) => Some(json.to_string()),
        Err(error) => {
            log::warn(|| format!("the policy's trace of engine {engine} is not JSON: {error}"));
            None
        }
    }
}
