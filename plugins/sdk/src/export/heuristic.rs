//! The exported functions of a heuristic plugin.

use std::ffi::c_char;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::answer::Answer;
use super::declaration::PolicyNames;
use super::engine::{bytes, count, give_ids};
use super::owned::Owned;
use super::{guard, not_null, write};
use crate::error::PluginError;
use crate::ffi::{
    hipdnnHeuristicHandle_t, hipdnnHeuristicHostCallbacks_t, hipdnnHeuristicPolicyDescriptor_t,
    hipdnnPluginConstData_t, hipdnnPluginStatus_t,
};
use crate::graph::Graph;
use crate::heuristic_plugin::HeuristicPlugin;
use crate::predictions::Predictions;
use crate::{fork, lock, wire};

/// A handle, which has no state until the host sets its device.
type Handle<P> =
    Owned<lock::Mutex<Option<Arc<<P as HeuristicPlugin>::Handle>>>, { u64::from_be_bytes(*b"heur-hdl") }>;
type Descriptor<P> = Owned<Mutex<Choice<P>>, { u64::from_be_bytes(*b"heur-pol") }>;

/// One query of one policy.
struct Choice<P: HeuristicPlugin> {
    handle: Arc<P::Handle>,
    policy: usize,
    engines: Option<Vec<i64>>,
    graph: Option<Graph>,
    answer: Option<Answer>,
}

impl<P: HeuristicPlugin> Choice<P> {
    /// The answer.
    ///
    /// # Errors
    /// The policy has not answered.
    fn answer(&self) -> Result<&Answer, PluginError> {
        self.answer
            .as_ref()
            .ok_or_else(|| PluginError::not_initialized("desc is not finalized, expected it to be"))
    }
}

/// What the host sets is consistent at any time, even after a policy panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `hipdnnHeuristicPluginGetAllPolicyIds`: writes the number of policies, and at most `max_policies` of their
/// ids.
///
/// # Safety
/// `policy_ids` is null or valid for `max_policies` writes, `num_policies` is null or valid for a write.
pub unsafe fn get_all_policy_ids<P: HeuristicPlugin>(
    policy_ids: *mut i64,
    max_policies: u32,
    num_policies: *mut u32,
) -> hipdnnPluginStatus_t {
    guard(|| {
        not_null("num_policies", num_policies)?;
        let ids = PolicyNames::<P>::POLICIES.ids();
        // SAFETY: `policy_ids` is null or has room for `max_policies`; `give_ids` refuses a null `num_policies`.
        unsafe {
            give_ids(ids, policy_ids, max_policies, num_policies)?;
            write(num_policies, count(ids));
        }
        Ok(())
    })
}

/// `hipdnnHeuristicPluginGetPolicyName`: a text that lives as long as the library.
///
/// # Safety
/// `name` is null or valid for a write.
pub unsafe fn get_policy_name<P: HeuristicPlugin>(
    policy_id: i64,
    name: *mut *const c_char,
) -> hipdnnPluginStatus_t {
    guard(|| {
        not_null("name", name)?;
        let text = PolicyNames::<P>::POLICIES.name(policy_id).ok_or_else(|| unknown::<P>(policy_id))?;
        // SAFETY: `name` is not null, so it is valid for a write.
        unsafe { write(name, text.as_ptr().cast()) };
        Ok(())
    })
}

#[cold]
fn unknown<P: HeuristicPlugin>(policy_id: i64) -> PluginError {
    let names = P::POLICIES.join(", ");
    PluginError::invalid_value(format!("policy_id is {policy_id}, expected the id of one of {names}"))
}

/// `hipdnnHeuristicHandleCreate`: a handle, to be passed to `hipdnnHeuristicHandleDestroy` once.
///
/// # Safety
/// `out_handle` is null or valid for a write.
pub unsafe fn create_heuristic_handle<P: HeuristicPlugin>(
    out_handle: *mut hipdnnHeuristicHandle_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        not_null("out_handle", out_handle)?;
        fork::protect(&fork::List::EMPTY);
        let made = Handle::<P>::give(lock::Mutex::new(None));
        // SAFETY: `out_handle` is not null, so it is valid for a write.
        unsafe { write(out_handle, made) };
        Ok(())
    })
}

/// `hipdnnHeuristicHandleDestroy`. Descriptors created with the handle stay valid.
///
/// # Safety
/// `handle` is null or from `create_heuristic_handle` of this plugin, not destroyed, and no other call uses it.
pub unsafe fn destroy_heuristic_handle<P: HeuristicPlugin>(
    handle: hipdnnHeuristicHandle_t,
) -> hipdnnPluginStatus_t {
    // SAFETY: `handle` is null or this plugin's, and no other call uses it.
    guard(|| unsafe { Handle::<P>::take("handle", handle) })
}

/// `hipdnnHeuristicHandleSetDeviceProperties`: creates the handle's state. If set again, later descriptors
/// get a new state.
///
/// # Safety
/// `handle` is null or from `create_heuristic_handle` of this plugin and not destroyed; `device_props_serialized` is null or
/// points to readable bytes.
pub unsafe fn set_device_properties<P: HeuristicPlugin>(
    handle: hipdnnHeuristicHandle_t,
    device_props_serialized: *const hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `handle` is null or a live object of this plugin; `device_props_serialized` is null or points to readable bytes.
        let (handle, bytes) = unsafe {
            let handle = Handle::<P>::borrow("handle", handle)?;
            (handle, bytes("device_props_serialized", device_props_serialized)?)
        };
        let device =
            wire::read_device_properties(bytes).map_err(|error| PluginError::invalid_value(error.0))?;
        let state = Arc::new(P::create_handle(&device)?);
        *handle.lock() = Some(state);
        Ok(())
    })
}

/// `hipdnnHeuristicPolicyDescriptorCreate`: a descriptor, to be passed to
/// `hipdnnHeuristicPolicyDescriptorDestroy` once.
///
/// # Safety
/// `plugin_handle` as in [`set_device_properties`]; `out_desc` is null or valid for a write.
pub unsafe fn create_policy_descriptor<P: HeuristicPlugin>(
    plugin_handle: hipdnnHeuristicHandle_t,
    policy_id: i64,
    out_desc: *mut hipdnnHeuristicPolicyDescriptor_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `plugin_handle` is null or a live object of this plugin.
        let handle = unsafe { Handle::<P>::borrow("plugin_handle", plugin_handle) }?;
        not_null("out_desc", out_desc)?;
        let policy = PolicyNames::<P>::POLICIES.position(policy_id).ok_or_else(|| unknown::<P>(policy_id))?;
        let handle = handle.lock().clone().ok_or_else(|| {
            PluginError::not_initialized(
                "plugin_handle has no device, expected its properties to be set first",
            )
        })?;
        let choice = Choice::<P> { handle, policy, engines: None, graph: None, answer: None };
        let made = Descriptor::<P>::give(Mutex::new(choice));
        // SAFETY: `out_desc` is not null, so it is valid for a write.
        unsafe { write(out_desc, made) };
        Ok(())
    })
}

/// `hipdnnHeuristicPolicyDescriptorDestroy`.
///
/// # Safety
/// `desc` is null or from `create_policy_descriptor` of this plugin, not destroyed, and no other call uses it.
pub unsafe fn destroy_policy_descriptor<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
) -> hipdnnPluginStatus_t {
    // SAFETY: `desc` is null or this plugin's, and no other call uses it.
    guard(|| unsafe { Descriptor::<P>::take("desc", desc) })
}

/// `hipdnnHeuristicPolicySetEngineIds`.
///
/// # Safety
/// `desc` is null or from `create_policy_descriptor` of this plugin and not destroyed; `engine_ids` is null or readable for
/// `engine_id_count`.
pub unsafe fn set_engine_ids<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    engine_ids: *const i64,
    engine_id_count: usize,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin.
        let choice = unsafe { Descriptor::<P>::borrow("desc", desc) }?;
        if engine_ids.is_null()
            || engine_id_count == 0
            || engine_id_count > isize::MAX as usize / size_of::<i64>()
        {
            return Err(PluginError::bad_param(format!(
                "engine_ids is {engine_ids:p} with engine_id_count {engine_id_count}, expected an array of ids"
            )));
        }
        // SAFETY: `engine_ids` is readable for `engine_id_count` ids. Hosts may pass memory of any alignment.
        let ids: Vec<i64> =
            (0..engine_id_count).map(|i| unsafe { engine_ids.add(i).read_unaligned() }).collect();
        let twice =
            ids.iter().enumerate().find(|(at, id)| ids.get(..*at).is_some_and(|ids| ids.contains(id)));
        if let Some((at, id)) = twice {
            return Err(PluginError::invalid_value(format!(
                "engine_ids[{at}] is {id}, expected each id once"
            )));
        }
        let mut choice = locked(choice);
        (choice.engines, choice.answer) = (Some(ids), None);
        Ok(())
    })
}

/// `hipdnnHeuristicPolicySetSerializedGraph`.
///
/// # Safety
/// `desc` as in [`set_engine_ids`]; `serialized_graph` is null or points to readable bytes.
pub unsafe fn set_serialized_graph<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    serialized_graph: *const hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin; `serialized_graph` is null or points to readable bytes.
        let (choice, bytes) =
            unsafe { (Descriptor::<P>::borrow("desc", desc)?, bytes("serialized_graph", serialized_graph)?) };
        let graph = wire::read(bytes)
            .map_err(|error| PluginError::invalid_value(format!("serialized_graph: {error}")))?;
        let mut choice = locked(choice);
        (choice.graph, choice.answer) = (Some(graph), None);
        Ok(())
    })
}

/// `hipdnnHeuristicPolicyFinalize`: asks the policy.
///
/// # Safety
/// `desc` as in [`set_engine_ids`]; `out_applied` is null or valid for a write.
pub unsafe fn finalize_policy<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    out_applied: *mut i32,
) -> hipdnnPluginStatus_t {
    // SAFETY: this function requires `desc` and `out_applied` as that one does; null stands for no host's table.
    unsafe { finalize_policy_with_host::<P>(desc, ptr::null(), out_applied) }
}

/// `hipdnnHeuristicPolicyFinalizeWithHost`: asks the policy, which may ask the host for predictions.
///
/// # Safety
/// `desc` as in [`set_engine_ids`]; `host` is null or a table that is valid during the call; `out_applied` is null or valid for a
/// write.
pub unsafe fn finalize_policy_with_host<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    host: *const hipdnnHeuristicHostCallbacks_t,
    out_applied: *mut i32,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin.
        let choice = unsafe { Descriptor::<P>::borrow("desc", desc) }?;
        not_null("out_applied", out_applied)?;
        let mut choice = locked(choice);
        // If the policy fails now, an earlier result must not remain.
        choice.answer = None;
        let missing = |what: &str| PluginError::not_initialized(format!("desc has no {what}, expected one"));
        let engines = choice.engines.as_deref().ok_or_else(|| missing("engine ids"))?;
        let graph = choice.graph.as_ref().ok_or_else(|| missing("graph"))?;
        // SAFETY: `host` is null or a table that is valid during the call.
        let predictions = unsafe { Predictions::of_host(host) }?;
        let chosen = P::choose(&choice.handle, choice.policy, graph, engines, predictions.as_ref())?;
        let policy = P::POLICIES.get(choice.policy).copied().unwrap_or_default();
        let answer = Answer::new(policy, engines, chosen.unwrap_or_default())?;
        let applied = i32::from(!answer.order.is_empty());
        choice.answer = Some(answer);
        // SAFETY: `out_applied` is not null, so it is valid for a write.
        unsafe { write(out_applied, applied) };
        Ok(())
    })
}

/// `hipdnnHeuristicPolicyGetSortedEngineIds`: the policy's order, empty where it did not apply.
///
/// # Safety
/// `desc` as in [`set_engine_ids`]; `num_engines` is null or valid for a read and a write, `engine_ids` is null or valid for
/// as many writes as `num_engines` says.
pub unsafe fn get_sorted_engine_ids<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    engine_ids: *mut i64,
    num_engines: *mut usize,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin.
        let choice = unsafe { Descriptor::<P>::borrow("desc", desc) }?;
        not_null("num_engines", num_engines)?;
        let choice = locked(choice);
        let order = &choice.answer()?.order;
        if !engine_ids.is_null() {
            // SAFETY: `num_engines` is not null, so it is valid for a read.
            let room = unsafe { num_engines.read_unaligned() };
            if room < order.len() {
                return Err(PluginError::bad_param(format!(
                    "num_engines is {room}, expected room for {}",
                    order.len()
                )));
            }
            for (at, id) in order.iter().enumerate() {
                // SAFETY: `engine_ids` has room for `num_engines` ids, which is enough for the order.
                unsafe { write(engine_ids.add(at), *id) };
            }
        }
        // SAFETY: `num_engines` is not null, so it is valid for a write.
        unsafe { write(num_engines, order.len()) };
        Ok(())
    })
}

/// `hipdnnHeuristicPolicyGetEngineConfig`: the knobs that the policy set, in bytes that live as long as the answer.
///
/// # Safety
/// `desc` is null or from `create_policy_descriptor` of this plugin and not destroyed; `engine_config` is null or valid for a write.
pub unsafe fn get_policy_engine_config<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    engine_id: i64,
    engine_config: *mut hipdnnPluginConstData_t,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin.
        let choice = unsafe { Descriptor::<P>::borrow("desc", desc) }?;
        not_null("engine_config", engine_config)?;
        let choice = locked(choice);
        let Some(bytes) = &choice.answer()?.of(engine_id)?.config else {
            return Err(PluginError::not_applicable(format!("engine {engine_id} keeps its default knobs")));
        };
        let data = hipdnnPluginConstData_t { ptr: bytes.as_ptr().cast(), size: bytes.len() };
        // SAFETY: `engine_config` is not null, so it is valid for a write.
        unsafe { write(engine_config, data) };
        Ok(())
    })
}

/// `hipdnnHeuristicPolicyGetTrace`: the reason that the policy gave, a text that lives as long as the answer.
///
/// # Safety
/// `desc` as in [`get_policy_engine_config`]; `trace_json` is null or valid for a write.
pub unsafe fn get_policy_trace<P: HeuristicPlugin>(
    desc: hipdnnHeuristicPolicyDescriptor_t,
    engine_id: i64,
    trace_json: *mut *const c_char,
) -> hipdnnPluginStatus_t {
    guard(|| {
        // SAFETY: `desc` is null or a live object of this plugin.
        let choice = unsafe { Descriptor::<P>::borrow("desc", desc) }?;
        not_null("trace_json", trace_json)?;
        let choice = locked(choice);
        let Some(text) = &choice.answer()?.of(engine_id)?.trace else {
            return Err(PluginError::not_applicable(format!("nothing is known of engine {engine_id}")));
        };
        // SAFETY: `trace_json` is not null, so it is valid for a write.
        unsafe { write(trace_json, text.as_ptr()) };
        Ok(())
    })
}
