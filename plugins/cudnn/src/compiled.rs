//! The plans that cuDNN makes, each once per process.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use hipdnn_plugin_sdk::dynlib::Object;
use hipdnn_plugin_sdk::dynlib::answer::{MOST_CODE, room};
use hipdnn_plugin_sdk::ffi::HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::{PluginError, Refusal};
use parking_lot::Mutex;

use crate::cudnn::{Cudnn, cudnnHandle_t};
use crate::descriptor::{Open, OperationGraph, get};
use crate::knob::{Options, TIMED_PLANS};
use crate::lowering::Described;
use crate::names::{
    ATTR_DEVICEPROP_JSON_REPRESENTATION, ATTR_ENGINEHEUR_DEVICEPROP, ATTR_ENGINEHEUR_MODE,
    ATTR_ENGINEHEUR_OPERATION_GRAPH, ATTR_ENGINEHEUR_RESULTS, ATTR_EXECUTION_PLAN_DEVICEPROP,
    ATTR_EXECUTION_PLAN_ENGINE_CONFIG, ATTR_EXECUTION_PLAN_HANDLE, ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
    ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, ATTR_VARIANT_PACK_DATA_POINTERS, ATTR_VARIANT_PACK_UNIQUE_IDS,
    ATTR_VARIANT_PACK_WORKSPACE, BACKEND_DEVICEPROP_DESCRIPTOR, BACKEND_ENGINECFG_DESCRIPTOR,
    BACKEND_ENGINEHEUR_DESCRIPTOR, BACKEND_EXECUTION_PLAN_DESCRIPTOR, BACKEND_VARIANT_PACK_DESCRIPTOR,
    BEHAVIOR_NOTE_RUNTIME_COMPILATION, HEUR_MODE_A, HEUR_MODE_FALLBACK, TYPE_BACKEND_DESCRIPTOR, TYPE_CHAR,
    TYPE_HANDLE, TYPE_HEUR_MODE, TYPE_INT64, TYPE_VOID_PTR,
};
use crate::notes::{forbidden, notes, numerical_notes};
use crate::trial;

/// Number of unused plans that are cached.
const KEPT: usize = 128;

/// Maximum number of configurations to try per heuristic.
const MOST: usize = 64;

/// A cuDNN plan.
#[derive(Debug)]
pub struct Compiled {
    plan: Object,
    /// Bytes of workspace that it needs.
    pub workspace_size: usize,
    /// Whether its kernels were compiled at run time, as far as cuDNN tells.
    pub is_runtime_compiled: bool,
    /// cuDNN's notes on its numbers, and ours; none of a plan that was loaded.
    pub numerical: Vec<c_int>,
}

/// Everything that determines a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    device: c_int,
    context: usize,
    described: Described,
    options: Options,
}

/// A plan, or why there is none. Locked by the thread that searches for it, while others wait.
type Slot = Arc<Mutex<Option<Result<Arc<Compiled>, PluginError>>>>;

/// The plans of this process.
struct Plans {
    /// The cached plans, most recently used last.
    kept: VecDeque<(Key, Arc<Compiled>)>,
    /// Plans that threads are searching for. They do not evict cached ones, because cuDNN may refuse them.
    sought: Vec<(Key, Slot)>,
}

static PLANS: Mutex<Plans> = Mutex::new(Plans { kept: VecDeque::new(), sought: Vec::new() });

impl Plans {
    /// A cached plan, which becomes the most recently used.
    fn kept(&mut self, key: &Key) -> Option<Arc<Compiled>> {
        let place = self.kept.iter().position(|(other, _)| other == key)?;
        let entry = self.kept.remove(place)?;
        let plan = Arc::clone(&entry.1);
        self.kept.push_back(entry);
        Some(plan)
    }

    /// The slot for a plan that is not cached.
    fn slot(&mut self, key: &Key) -> Slot {
        if let Some((_, slot)) = self.sought.iter().find(|(other, _)| other == key) {
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        self.sought.push((key.clone(), Arc::clone(&slot)));
        slot
    }

    /// Ends the search of a slot, and caches what it found. The result was evicted: drop it without holding a
    /// lock, since cuDNN destroys a plan.
    #[must_use]
    fn end(&mut self, key: Key, slot: &Slot, found: Option<&Arc<Compiled>>) -> Option<Arc<Compiled>> {
        self.sought.retain(|(_, other)| !Arc::ptr_eq(other, slot));
        // Two threads find the same plan if the first search of a slot failed and a third thread overtook the
        // second.
        if let (Some(plan), None) = (found, self.kept(&key)) {
            self.kept.push_back((key, Arc::clone(plan)));
        }
        if self.kept.len() > KEPT { self.kept.pop_front().map(|(_, plan)| plan) } else { None }
    }
}

/// How cuDNN identifies the device of a plan. The object is alive.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// A handle, on a device that is present and entered.
    Handle(*mut c_void, Gpu),
    /// Device properties from [`properties`]: plans for them are made but not run.
    Properties(*mut c_void),
}

impl Target {
    /// Sets the device of an object, by the attribute for handles or for properties.
    fn name_to(self, open: &Open, handle: c_int, properties: c_int) -> Result<(), PluginError> {
        // SAFETY: the types are those of the attributes, and what is named is alive.
        unsafe {
            match self {
                Self::Handle(target, _) => open.set(handle, TYPE_HANDLE, &[target]),
                Self::Properties(target) => open.set(properties, TYPE_BACKEND_DESCRIPTOR, &[target]),
            }
        }
    }
}

/// The properties of a device that may be absent, from the JSON object that cuDNN wrote where it was present.
///
/// # Errors
/// What cuDNN misses in it; versions before 9.8 do not support such objects.
pub fn properties(cudnn: &'static Cudnn, json: &str) -> Result<Object, PluginError> {
    let open = Open::new(cudnn, BACKEND_DEVICEPROP_DESCRIPTOR)?;
    // SAFETY: the type is that of the attribute.
    unsafe { open.set(ATTR_DEVICEPROP_JSON_REPRESENTATION, TYPE_CHAR, json.as_bytes()) }?;
    open.finalize()
}

/// cuDNN and the device that it makes plans for.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    /// The library.
    pub cudnn: &'static Cudnn,
    /// The target of the plans.
    pub target: Target,
    /// The driver's number of the device.
    pub device: c_int,
    /// Its context.
    pub context: *mut c_void,
}

impl Maker {
    /// The device's compute capability, 90 for 9.0.
    pub fn capability(&self) -> c_int {
        match self.target {
            Target::Handle(_, Gpu::Cuda(device)) => device.capability,
            // The number of an absent device is its version, 900 for 9.0, below 0.
            _ => -self.device / 10,
        }
    }
}

impl Compiled {
    /// The plan of a graph with these options: cached, made now, or by another thread meanwhile.
    ///
    /// # Errors
    /// cuDNN's reason if it has none.
    pub fn of(maker: Maker, described: &Described, options: &Options) -> Result<Arc<Self>, PluginError> {
        let key = Key {
            device: maker.device,
            context: maker.context.addr(),
            described: described.clone(),
            options: options.clone(),
        };
        let slot = {
            let mut plans = PLANS.lock();
            if let Some(plan) = plans.kept(&key) {
                return Ok(plan);
            }
            plans.slot(&key)
        };
        let mut made = slot.lock();
        match &*made {
            Some(Ok(plan)) => return Ok(Arc::clone(plan)),
            // A refusal that another thread got meanwhile holds for this one, too. Other failures may be
            // temporary.
            Some(Err(error)) if error.status() == HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE => {
                return Err(error.clone());
            }
            _ => {}
        }
        let found = search(maker, described, options).map(Arc::new);
        *made = Some(found.clone());
        drop(made);
        // After a failure, later callers search again.
        let evicted = PLANS.lock().end(key, &slot, found.as_ref().ok());
        drop(evicted);
        found
    }

    /// Queues the work on a handle's stream.
    ///
    /// # Errors
    /// cuDNN's.
    ///
    /// # Safety
    /// The handle is alive, and no other thread uses it meanwhile. The tensors with these cuDNN uids are
    /// valid until the work is done, as is `workspace` for [`Compiled::workspace_size`] bytes.
    pub unsafe fn run(
        &self,
        cudnn: &'static Cudnn,
        handle: cudnnHandle_t,
        uids: &[i64],
        pointers: &[*mut c_void],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let pack = || {
            let pack = Open::new(cudnn, BACKEND_VARIANT_PACK_DESCRIPTOR)?;
            // SAFETY: the types are those of the attributes.
            unsafe {
                pack.set(ATTR_VARIANT_PACK_UNIQUE_IDS, TYPE_INT64, uids)?;
                pack.set(ATTR_VARIANT_PACK_DATA_POINTERS, TYPE_VOID_PTR, pointers)?;
                pack.set(ATTR_VARIANT_PACK_WORKSPACE, TYPE_VOID_PTR, &[workspace])?;
            }
            pack.finalize()
        };
        // cuDNN made a plan, so this is not a refusal of the graph any more.
        let pack = pack().map_err(|error| PluginError::internal(error.message().to_owned()))?;
        // SAFETY: plan and pack are alive; the handle is this thread's, and the tensors and the workspace are valid until the work is
        // done, as this function requires.
        let status = unsafe { (cudnn.cudnnBackendExecute)(handle, self.plan.get(), pack.get()) };
        cudnn.check("cudnnBackendExecute", status)
    }

    /// The plan as written by cuDNN in JSON.
    ///
    /// # Errors
    /// When cuDNN cannot write it.
    pub fn json(&self, cudnn: &Cudnn) -> Result<Vec<u8>, PluginError> {
        let (plan, name) = (self.plan.get(), ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
        // SAFETY: the plan is alive, and the type that of the attribute.
        unsafe {
            let size = get::<u8>(cudnn, plan, name, TYPE_CHAR, &mut [])?;
            let mut text = room("cudnnBackendGetAttribute of the plan's JSON", size, MOST_CODE)?;
            let size = get(cudnn, plan, name, TYPE_CHAR, &mut text)?;
            text.truncate(size);
            Ok(text)
        }
    }

    /// Restores a plan from what [`Compiled::json`] wrote.
    ///
    /// # Errors
    /// When cuDNN cannot read it here.
    pub fn load(maker: Maker, json: &[u8]) -> Result<Self, PluginError> {
        let Maker { cudnn, target, .. } = maker;
        let open = Open::new(cudnn, BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        let text: Vec<c_char> = json.iter().map(|byte| byte.cast_signed()).collect();
        target.name_to(&open, ATTR_EXECUTION_PLAN_HANDLE, ATTR_EXECUTION_PLAN_DEVICEPROP)?;
        // SAFETY: the type is that of the attribute.
        unsafe { open.set(ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, TYPE_CHAR, &text) }?;
        Self::finalized(cudnn, open)
    }

    fn of_config(maker: Maker, config: *mut c_void) -> Result<Self, PluginError> {
        let open = Open::new(maker.cudnn, BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        maker.target.name_to(&open, ATTR_EXECUTION_PLAN_HANDLE, ATTR_EXECUTION_PLAN_DEVICEPROP)?;
        // SAFETY: the type is that of the attribute, and the configuration is alive.
        unsafe { open.set(ATTR_EXECUTION_PLAN_ENGINE_CONFIG, TYPE_BACKEND_DESCRIPTOR, &[config]) }?;
        Self::finalized(maker.cudnn, open)
    }

    fn finalized(cudnn: &Cudnn, open: Open) -> Result<Self, PluginError> {
        let plan = open.finalize()?;
        let mut size = [0_i64];
        // SAFETY: the plan is alive, and the type that of the attribute.
        unsafe { get(cudnn, plan.get(), ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, TYPE_INT64, &mut size)? };
        let [size] = size;
        let workspace_size = usize::try_from(size).unwrap_or(0);
        Ok(Self { plan, workspace_size, is_runtime_compiled: false, numerical: Vec::new() })
    }
}

/// The configurations recommended by a heuristic, best first.
fn configurations(maker: Maker, graph: &OperationGraph, mode: c_int) -> Result<Vec<Object>, PluginError> {
    let cudnn = maker.cudnn;
    let open = Open::new(cudnn, BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    // SAFETY: the types are those of the attributes, and the graph is alive.
    unsafe {
        open.set(ATTR_ENGINEHEUR_OPERATION_GRAPH, TYPE_BACKEND_DESCRIPTOR, &[graph.graph.get()])?;
        open.set(ATTR_ENGINEHEUR_MODE, TYPE_HEUR_MODE, &[mode])?;
        // The graph already has the handle.
        if let Target::Properties(properties) = maker.target {
            open.set(ATTR_ENGINEHEUR_DEVICEPROP, TYPE_BACKEND_DESCRIPTOR, &[properties])?;
        }
    }
    let heuristic = open.finalize()?;
    let (name, kind) = (ATTR_ENGINEHEUR_RESULTS, TYPE_BACKEND_DESCRIPTOR);
    // SAFETY: the heuristic is alive, and its results are objects of the kind that is made here.
    unsafe {
        let count = get::<*mut c_void>(cudnn, heuristic.get(), name, kind, &mut [])?.min(MOST);
        let made: Vec<Object> = (0..count)
            .map(|_| Open::new(cudnn, BACKEND_ENGINECFG_DESCRIPTOR).map(Open::into_object))
            .collect::<Result<_, _>>()?;
        let mut pointers: Vec<*mut c_void> = made.iter().map(Object::get).collect();
        let count = get(cudnn, heuristic.get(), name, kind, &mut pointers)?;
        Ok(made.into_iter().take(count).collect())
    }
}

/// The plan at the index requested in the options, among those that can be made: first those of heuristic A,
/// then the fallback's, or sorted by time.
fn search(maker: Maker, described: &Described, options: &Options) -> Result<Compiled, PluginError> {
    let wanted = options.engine + 1;
    let most = if options.benchmarking { wanted.max(TIMED_PLANS) } else { wanted };
    let mut found = candidates(maker, described, options, most)?;
    let count = found.len();
    if let (true, Target::Handle(handle, gpu)) = (options.benchmarking && count > 1, maker.target) {
        found = trial::fastest_first(
            gpu,
            described,
            found,
            |plan| plan.workspace_size,
            // SAFETY: the handle is alive, and its device is entered; each tensor has memory for its extent, and the workspace is the
            // largest that is asked for. It lives until the device is done, which is awaited.
            |plan, uids, pointers, workspace| unsafe {
                plan.run(maker.cudnn, handle, uids, pointers, workspace)
            },
        )?;
    }
    let place = options.engine;
    found.into_iter().nth(place).ok_or_else(|| {
        Refusal::new(format!("cuDNN has {count} plans for it, expected more than the chosen index {place}"))
            .into()
    })
}

/// At most this many plans, best first by cuDNN's heuristics.
fn candidates(
    maker: Maker,
    described: &Described,
    options: &Options,
    most: usize,
) -> Result<Vec<Compiled>, PluginError> {
    let cudnn = maker.cudnn;
    let handle = match maker.target {
        Target::Handle(handle, _) => Some(handle),
        Target::Properties(_) => None,
    };
    // Discard earlier messages, which belong to other graphs.
    let _ = cudnn.last_words();
    // SAFETY: a target names an object that lives while plans are made.
    let graph = unsafe { OperationGraph::new(cudnn, handle, described) }.map_err(refused)?;
    let mut reasons: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for mode in [HEUR_MODE_A, HEUR_MODE_FALLBACK] {
        let configurations = match configurations(maker, &graph, mode) {
            Ok(configurations) => configurations,
            Err(error) => {
                note(&mut reasons, error.message());
                continue;
            }
        };
        if configurations.is_empty() {
            note(&mut reasons, &cudnn.last_words());
        }
        for configuration in &configurations {
            let notes = notes(cudnn, configuration)?;
            if let Some(reason) = forbidden(&notes, described, options) {
                note(&mut reasons, &format!("a cuDNN engine {reason}"));
                continue;
            }
            match Compiled::of_config(maker, configuration.get()) {
                Ok(made) if options.workspace_size_limit.is_some_and(|limit| made.workspace_size > limit) => {
                    note(
                        &mut reasons,
                        &format!("a cuDNN engine needs {} bytes of workspace", made.workspace_size),
                    );
                }
                Ok(made) => {
                    let is_runtime_compiled = notes.behavior.contains(&BEHAVIOR_NOTE_RUNTIME_COMPILATION);
                    let numerical = numerical_notes(&notes, described, made.workspace_size, options);
                    found.push(Compiled { is_runtime_compiled, numerical, ..made });
                }
                Err(error) => note(&mut reasons, error.message()),
            }
            if found.len() == most {
                return Ok(found);
            }
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    Err(Refusal::new(format!("cuDNN has no engine for it{reasons}")).into())
}

/// Adds a reason, if it is new and there are not too many.
fn note(reasons: &mut Vec<String>, reason: &str) {
    if !reason.is_empty() && reasons.len() < 4 && !reasons.iter().any(|known| known == reason) {
        reasons.push(reason.to_owned());
    }
}

/// Turns an error about unsupported input into a refusal of the graph. Other failures, such as allocations,
/// stay as they are.
fn refused(error: PluginError) -> PluginError {
    if error.status() != HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE {
        return error;
    }
    error.with_context(|text| format!("cuDNN refuses the graph: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_listed_once() {
        let mut reasons = Vec::new();
        for reason in ["a", "", "b", "a", "c", "d", "e"] {
            note(&mut reasons, reason);
        }
        assert_eq!(reasons, ["a", "b", "c", "d"]);
    }
}
