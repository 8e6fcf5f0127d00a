//! Runs a graph: chooses an engine and its knobs, binds memory, reads and compares results.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::data_type::DataType;
use crate::failure::{Failure, Result, one_line};
use crate::fill::fill;
use crate::graph::{Graph, Tensor};
use crate::steps::{self, Step};
use crate::tensor::{Array, Bits, Memory, Place, Vulkan, bytes, count, npy, require_host_memory};
use crate::views::Views;
use hipdnn::{
    Engine, EngineConfig, EngineInfo, ExecutionPlan, Handle, KnobSetting, OperationGraph, VariantPack,
};
use hipdnn_plugin_sdk::engine_kind::EngineDevice;

/// The reference engine.
pub const REFERENCE: &str = "CPU_REFERENCE_ENGINE";

/// Fills result memory before an execution: NaN in every float type.
const UNWRITTEN: u8 = 0xff;

/// Arrays by the uids of their tensors.
pub type Arrays = Vec<(i64, Array)>;

/// A tensor, by its uid or name, and a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOf {
    tensor: String,
    path: PathBuf,
}

/// Reads `UID=FILE`.
impl std::str::FromStr for FileOf {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            Some((tensor, path)) if !tensor.is_empty() && !path.is_empty() => {
                Ok(Self { tensor: tensor.to_owned(), path: PathBuf::from(path) })
            }
            _ => Err("expected UID=FILE, with a tensor's uid or name".to_owned()),
        }
    }
}

impl FileOf {
    /// Whether it is a tensor's.
    pub fn names(&self, tensor: &Tensor) -> bool {
        self.tensor == tensor.name || self.tensor.parse() == Ok(tensor.uid)
    }

    /// The named tensor, which must be one that memory is bound to.
    fn tensor<'g>(&self, graph: &'g Graph) -> Result<&'g Tensor> {
        let uid: Option<i64> = self.tensor.parse().ok();
        let found = graph
            .bound()
            .find(|tensor| Some(tensor.uid) == uid)
            .or_else(|| graph.bound().find(|tensor| tensor.name == self.tensor));
        found.ok_or_else(|| {
            let all: Vec<_> =
                graph.bound().map(|tensor| format!("{} ({})", tensor.uid, tensor.name)).collect();
            Failure::input(format!(
                "the graph has no tensor {} that memory is bound to; it has {}",
                self.tensor,
                all.join(", ")
            ))
        })
    }
}

/// Fails if the machine lacks memory for a graph with two engines.
pub fn require_memory(graph: &Graph) -> Result<()> {
    let mut total = 0_usize;
    for tensor in graph.bound() {
        // The memory of two engines, and for each the values being read and written.
        let numbers = count(tensor)?.saturating_mul(2 * size_of::<f64>());
        total = total.saturating_add(bytes(tensor)?.saturating_mul(2)).saturating_add(numbers);
    }
    require_host_memory(total)
}

/// The graph's inputs: from files if given, else random.
pub fn inputs(graph: &Graph, files: &[FileOf], seed: u64) -> Result<Arrays> {
    require_memory(graph)?;
    let mut arrays = Arrays::new();
    for file in files {
        let tensor = file.tensor(graph)?;
        if graph.producer(tensor.uid).is_some() {
            return Err(Failure::input(format!(
                "tensor {} is written by the graph, not read",
                tensor.label()
            )));
        }
        if arrays.iter().any(|(uid, _)| *uid == tensor.uid) {
            return Err(Failure::input(format!("tensor {} is given twice", tensor.label())));
        }
        let array = npy::read(&file.path)?;
        // Checked here, where the file can be named.
        array.check(tensor).map_err(|failure| failure.of_file(&file.path))?;
        arrays.push((tensor.uid, array));
    }
    for tensor in graph.bound().filter(|tensor| graph.producer(tensor.uid).is_none()) {
        if !arrays.iter().any(|(uid, _)| *uid == tensor.uid) {
            arrays.push((tensor.uid, fill(graph, tensor, seed)?));
        }
    }
    Ok(arrays)
}

/// Checks that files for results name results.
pub fn check_outputs(graph: &Graph, files: &[FileOf]) -> Result<()> {
    for file in files {
        let tensor = file.tensor(graph)?;
        if graph.producer(tensor.uid).is_none() {
            return Err(Failure::input(format!(
                "tensor {} is read by the graph, not written",
                tensor.label()
            )));
        }
    }
    Ok(())
}

/// Writes results to files.
pub fn save_outputs(graph: &Graph, files: &[FileOf], outputs: &Arrays) -> Result<()> {
    for file in files {
        let tensor = file.tensor(graph)?;
        if let Some((_, array)) = outputs.iter().find(|(uid, _)| *uid == tensor.uid) {
            npy::write(&file.path, tensor, array)?;
        }
    }
    Ok(())
}

/// The engines to try: the named one, or else all that the library offers, the graph's preferred one first.
pub fn choose_engines(
    handle: &Handle,
    Loaded { operations, graph, .. }: &Loaded,
    named: Option<&str>,
    device: Option<Vulkan>,
) -> Result<Vec<EngineInfo>> {
    let engines = handle.engines()?;
    if let Some(name) = named {
        let found = vec![find_engine(&engines, name)?.clone()];
        return on_device(found, handle, operations, (device, true));
    }
    let offer = operations.offer()?;
    if offer.engines.is_empty() {
        return Err(Failure::work(match offer.reasons.is_empty() {
            true => "no engine can run this graph".to_owned(),
            false => one_line(&offer.reasons),
        }));
    }
    let mut ids = offer.engines;
    ids.sort_by_key(|id| graph.preferred_engine != Some(*id));
    let find = |id: &i64| {
        let found = engines.iter().find(|engine| engine.id == *id).cloned();
        found.ok_or_else(|| Failure::work(format!("the library offers engine {id}, which it does not list")))
    };
    let found = ids.iter().map(find).collect::<Result<_>>()?;
    on_device(found, handle, operations, (device, false))
}

/// The result of `work` with the first engine that succeeds, and a line for each that failed before. Bad arguments and files end it.
pub fn first_that_works<T>(
    engines: &[EngineInfo],
    mut work: impl FnMut(&EngineInfo) -> Result<T>,
) -> Result<(T, String)> {
    let mut told = String::new();
    let mut first = None;
    for engine in engines {
        match work(engine) {
            Ok(done) => return Ok((done, told)),
            Err(failure) if failure.is_input() => return Err(failure),
            Err(failure) => {
                told.push_str(&format!("{} applies and failed: {failure}; going on\n", engine.name));
                first.get_or_insert(failure);
            }
        }
    }
    Err(first.unwrap_or_else(|| Failure::work("no engine can run this graph")))
}

/// An id in hexadecimal.
pub fn hexadecimal(id: i64) -> String {
    format!("{:#018x}", id.cast_unsigned())
}

/// The engine with a name, or with an id in decimal or hexadecimal.
pub fn find_engine<'e>(engines: &'e [EngineInfo], name: &str) -> Result<&'e EngineInfo> {
    let id = match name.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => name.parse().ok(),
    };
    engines.iter().find(|engine| engine.name == name || Some(engine.id) == id).ok_or_else(|| {
        let label = |engine: &EngineInfo| match id {
            Some(_) => format!("{} ({})", engine.name, hexadecimal(engine.id)),
            None => engine.name.clone(),
        };
        let known = match engines {
            [] => "none".to_owned(),
            engines => engines.iter().map(label).collect::<Vec<_>>().join(", "),
        };
        Failure::input(match id {
            Some(id) => format!("there is no engine with the id {id}; there are {known}"),
            None => format!("there is no engine {name:?}; there are {known}"),
        })
    })
}

/// A plan of an engine with knobs, given as `K=V`.
pub fn plan(operations: &OperationGraph, engine: &EngineInfo, knobs: &[String]) -> Result<ExecutionPlan> {
    let made = Engine::new(operations, engine.id)
        .map_err(|_| Failure::work(operations.reason(engine, "")).during(&engine.name))?;
    let settings = settings_of(engine, &made, knobs)?;
    plan_with(&made, &settings)
}

/// A plan of an engine with its knobs set.
pub fn plan_with(engine: &Engine, settings: &[KnobSetting]) -> Result<ExecutionPlan> {
    Ok(ExecutionPlan::new(&EngineConfig::new(engine, settings)?)?)
}

/// Knobs of an engine, given as `K=V`.
pub fn settings(
    operations: &OperationGraph,
    engine: &EngineInfo,
    knobs: &[String],
) -> Result<Vec<KnobSetting>> {
    settings_of(engine, &Engine::new(operations, engine.id)?, knobs)
}

fn settings_of(engine: &EngineInfo, made: &Engine, knobs: &[String]) -> Result<Vec<KnobSetting>> {
    if knobs.is_empty() {
        return Ok(Vec::new());
    }
    let known = made.knobs()?;
    knobs
        .iter()
        .map(|text| {
            let (id, value) = text
                .split_once('=')
                .ok_or_else(|| Failure::input(format!("--knob {text}: expected NAME=VALUE")))?;
            let knob = known.iter().find(|knob| knob.id == id).ok_or_else(|| {
                let ids: Vec<_> = known.iter().map(|knob| knob.id.as_str()).collect();
                let has = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
                Failure::input(format!("{} has no knob {id:?} for this graph; it has {has}", engine.name))
            })?;
            Ok(KnobSetting { id: id.to_owned(), value: knob.parse(value)? })
        })
        .collect()
}

/// Where an engine's tensors are allocated: where `asked` says, or else in memory of its device if there is one.
pub fn place_of(engine: &EngineInfo, asked: Option<Place>) -> Place {
    asked.unwrap_or_else(|| Place::of(engine))
}

/// Of engines, those that compute on the device of `--device`, if it is given.
pub fn on_device(
    engines: Vec<EngineInfo>,
    handle: &Handle,
    operations: &OperationGraph,
    (device, is_named): (Option<Vulkan>, bool),
) -> Result<Vec<EngineInfo>> {
    let Some(device) = device else { return Ok(engines) };
    let is_own = |engine: &EngineInfo| engine.of.device == EngineDevice::Vulkan;
    let (own, others): (Vec<_>, Vec<_>) = engines.into_iter().partition(is_own);
    if !own.is_empty() {
        return Ok(own);
    }
    if let Some(named) = others.first().filter(|_| is_named) {
        let name = &named.name;
        return Err(Failure::input(format!(
            "--device {device}: {name} does not compute there, expected VULKAN_ENGINE"
        )));
    }
    let reason = match handle.engines()?.iter().find(|engine| is_own(engine)) {
        Some(engine) => format!("{}: {}", engine.name, operations.reason(engine, "")),
        None => "no engine for Vulkan devices is loaded".to_owned(),
    };
    Err(Failure::work(reason).during(format!("--device {device}")))
}

/// A plan with memory bound to it.
pub struct Computation {
    plan: ExecutionPlan,
    binding: VariantPack,
    memory: Vec<(i64, Memory)>,
    // The binding has its address.
    _workspace: Memory,
    workspace_size: usize,
    place: Place,
}

impl Computation {
    /// Binds memory for all tensors, filled with the inputs.
    pub fn new(
        handle: &Handle,
        graph: &Graph,
        plan: ExecutionPlan,
        inputs: &Arrays,
        place: Place,
    ) -> Result<Self> {
        Self::bound(handle, graph, plan, inputs, (place, false))
    }

    /// The same, each tensor at an odd multiple of its alignment.
    pub fn displaced(
        handle: &Handle,
        graph: &Graph,
        plan: ExecutionPlan,
        inputs: &Arrays,
        place: Place,
    ) -> Result<Self> {
        Self::bound(handle, graph, plan, inputs, (place, true))
    }

    fn bound(
        handle: &Handle,
        graph: &Graph,
        plan: ExecutionPlan,
        inputs: &Arrays,
        (place, is_displaced): (Place, bool),
    ) -> Result<Self> {
        let workspace_size = plan.workspace_size()?;
        require_host_memory(workspace_size)?;
        let mut workspace = Memory::new(place, workspace_size, 0, UNWRITTEN)?;
        let mut memory = Vec::new();
        for tensor in graph.bound() {
            // The host reads scalars that are passed by value.
            let place = if tensor.is_runtime_pass_by_value { Place::Host } else { place };
            let alignment = usize::try_from(tensor.alignment).unwrap_or(0);
            let offset = if is_displaced { alignment } else { 0 };
            let mut room = Memory::displaced(place, bytes(tensor)?, (2 * alignment, offset), UNWRITTEN)?;
            if let Some((_, array)) = inputs.iter().find(|(uid, _)| *uid == tensor.uid) {
                array.write(tensor, room.bytes_mut())?;
                room.upload()?;
            }
            memory.push((tensor.uid, room));
        }
        let addresses: Vec<_> = memory.iter_mut().map(|(uid, memory)| (*uid, memory.address())).collect();
        let binding = VariantPack::new(handle.backend(), &addresses, workspace.address())?;
        Ok(Self { plan, binding, memory, _workspace: workspace, workspace_size, place })
    }

    /// The size of the workspace in bytes.
    pub fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// Executes once. Returns the time, including work on a device.
    pub fn execute(&mut self, handle: &Handle) -> Result<Duration> {
        self.execute_in_row(handle, 1)
    }

    /// Executes `count` times in a row. Returns the time until all work on a device is done.
    pub fn execute_in_row(&mut self, handle: &Handle, count: u32) -> Result<Duration> {
        let started = Instant::now();
        for _ in 0..count {
            // SAFETY: the memory was allocated for these tensors, this plan's workspace and the engine's place.
            unsafe { self.plan.execute(handle, &self.binding) }?;
        }
        self.place.wait()?;
        Ok(started.elapsed())
    }

    /// The results of the last execution.
    pub fn outputs(&mut self, graph: &Graph) -> Result<Arrays> {
        self.read(graph, Array::read)
    }

    /// What the plan says of its steps, if it does.
    pub fn steps(&self) -> Option<Vec<Step>> {
        steps::of(&self.plan).ok().flatten()
    }

    /// The bits of the results of the last execution.
    pub fn bits(&mut self, graph: &Graph) -> Result<Vec<(i64, Bits)>> {
        self.read(graph, Bits::read)
    }

    fn read<T>(&mut self, graph: &Graph, read: fn(&Tensor, &[u8]) -> Result<T>) -> Result<Vec<(i64, T)>> {
        let mut outputs = Vec::new();
        for (uid, memory) in &mut self.memory {
            if let Some(tensor) = graph.tensor(*uid).filter(|_| graph.producer(*uid).is_some()) {
                memory.download()?;
                outputs.push((*uid, read(tensor, memory.bytes())?));
            }
        }
        Ok(outputs)
    }
}

/// The reference engine's results for the inputs.
pub fn reference(
    handle: &Handle,
    operations: &OperationGraph,
    graph: &Graph,
    inputs: &Arrays,
) -> Result<Arrays> {
    let engines = handle.engines()?;
    let engine = engines.iter().find(|engine| engine.name == REFERENCE).ok_or_else(|| {
        Failure::work(format!("there is nothing to compare with: {REFERENCE} is not loaded"))
    })?;
    let plan = plan(operations, engine, &[])
        .map_err(|failure| failure.during("there is nothing to compare with"))?;
    let mut computation = Computation::new(handle, graph, plan, inputs, Place::Host)?;
    computation.execute(handle).map_err(|failure| failure.during(REFERENCE))?;
    computation.outputs(graph)
}

/// How much each of the reference's results changes at most if every `float` and `double` input moves by one unit in the last
/// place, all upwards or in individual directions: a result in floating point cannot be more precise than that. `compute` are the
/// reference's results for inputs.
pub fn sensitivity(
    graph: &Graph,
    inputs: &Arrays,
    expected: &Arrays,
    compute: impl Fn(&Arrays) -> Result<Arrays>,
) -> Result<Vec<(i64, f64)>> {
    let mut largest: Vec<(i64, f64)> = expected.iter().map(|(uid, _)| (*uid, 0.0)).collect();
    for is_common in [true, false] {
        let mut moved = inputs.clone();
        for (uid, array) in &mut moved {
            let step = match graph.tensor(*uid).map(|tensor| tensor.data_type) {
                Some(DataType::Float) => f64::from(f32::EPSILON),
                Some(DataType::Double) => f64::EPSILON,
                _ => continue,
            };
            for (place, value) in array.values.iter_mut().enumerate() {
                // Elements at the same place of two tensors move apart, too.
                let up = is_common || mixed(place as u64 ^ (uid.cast_unsigned() << 40)) & 1 == 0;
                *value *= if up { 1.0 + step } else { 1.0 - step };
            }
        }
        let changed = compute(&moved)?;
        for ((_, most), ((_, after), (_, before))) in largest.iter_mut().zip(changed.iter().zip(expected)) {
            let differences = after.values.iter().zip(&before.values).map(|(a, b)| (a - b).abs());
            *most = differences.filter(|difference| difference.is_finite()).fold(*most, f64::max);
        }
    }
    Ok(largest)
}

/// Mixes the bits of a number (the finalizer of SplitMix64).
pub fn mixed(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_add(1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A graph in the library's and in this tool's form.
pub struct Loaded {
    /// The library's.
    pub operations: OperationGraph,
    /// Ours.
    pub graph: Graph,
    /// What its nodes read of each other beside their tensors; few programs have these.
    pub views: Views,
}

impl Loaded {
    /// Finalizes a graph of a file and reads it back. One without a name gets the file's.
    pub fn new(handle: &Handle, operations: OperationGraph, path: &Path) -> Result<Self> {
        operations.finalize(handle).map_err(|error| Failure::from(error).of_file(path))?;
        let mut graph = Graph::from_json(&operations.json()?)?;
        if graph.name.is_empty() {
            graph.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        Ok(Self { operations, graph, views: Views::default() })
    }
}
