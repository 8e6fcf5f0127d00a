//! A plan of compiled kernels and their arguments.

use std::borrow::Cow;
use std::ffi::c_void;

use half::{bf16, f16};
use hipdnn_kernels::target::Language;
use hipdnn_plugin_lowering::numerics::engine;
use hipdnn_plugin_planner::ahead::Ahead;
use hipdnn_plugin_planner::numerics::{Engine, of_step};
use hipdnn_plugin_planner::plan::{self, Call};
use hipdnn_plugin_planner::prepare::{Prepared, prepare};
use hipdnn_plugin_planner::shapes::Asked;
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::gpu::check_alignment;
use hipdnn_plugin_sdk::gpu::handle::Entered;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::numerics::{EngineNumerics, NoteKnob, Numerics, note};
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::{PluginError, Refusal, log};

use crate::cache::Cache;
use crate::handle::{Handle, Platform, Target, enter};
use crate::knob::{BATCH_INVARIANT, options};
use crate::module::{Driver, Function, Module};
use crate::source::generate_with;
use crate::source::group::MAX_TENSORS;
use crate::source::kernel::{Argument, Kernel};

/// The format of saved plans.
pub const PAYLOAD: Payload = Payload { mark: *b"HRTP", version: 1, owner: "an engine of generated kernels" };

/// The display name of a platform's compiler.
fn compiler_name(platform: Platform) -> &'static str {
    match platform {
        Platform::Hip => "hipRTC",
        Platform::Cuda => "NVRTC",
    }
}

/// Code in a saved plan: the architecture and source that it was compiled for, and the code object.
const CODE: Payload = Payload { mark: *b"HRTO", version: 1, owner: "an engine of generated kernels" };

/// The executable content of a plan.
#[derive(Debug)]
enum Made {
    /// Kernels loaded on a device.
    Loaded(plan::Plan<Step>),
    /// Code for a device that is not present.
    Ahead(Ahead),
}

/// A graph with compiled kernels.
#[derive(Debug)]
pub struct Plan {
    made: Made,
    /// Empty if there is nothing to compute.
    code: Vec<u8>,
    platform: Platform,
    /// Contains the functions of the steps; last, so that it is dropped last.
    _module: Option<Module>,
}

/// A kernel ready to be launched.
#[derive(Debug)]
struct Step {
    compiler: &'static str,
    name: String,
    nodes: Vec<usize>,
    function: Function,
    arguments: Box<[Argument]>,
    grid: [u32; 2],
    block: u32,
    shared: u32,
    engine: Engine,
    numerics: Numerics,
}

impl Call for Step {
    fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    fn library(&self) -> &'static str {
        self.compiler
    }

    fn call(&self) -> Cow<'static, str> {
        let [across, down] = self.grid;
        let groups = u64::from(across) * u64::from(down);
        format!("{}, {groups} x {} threads", self.name, self.block).into()
    }

    fn engine(&self) -> Engine {
        self.engine
    }

    fn numerics(&self) -> Numerics {
        self.numerics.clone()
    }
}

/// The code object of a saved plan, if it is for this source and architecture.
fn saved_code(saved: &[u8], source: &str, architecture: &str) -> Option<Vec<u8>> {
    let [of, for_, code] = CODE.read(saved).ok()?;
    (of == source.as_bytes() && for_ == architecture.as_bytes() && !code.is_empty()).then(|| code.to_vec())
}

/// Code for an architecture: the result of `try_out` for saved or cached code, or newly compiled.
fn code_for<T>(
    platform: Platform,
    architecture: &str,
    source: &str,
    saved: &[u8],
    try_out: impl Fn(&[u8]) -> Result<T, PluginError>,
) -> Result<(T, Vec<u8>), PluginError> {
    if let Some(code) = saved_code(saved, source, architecture)
        && let Ok(made) = try_out(&code)
    {
        return Ok((made, code));
    }
    let compiler = platform.compiler()?;
    let key = format!("{}\n{}\n{architecture}\n{source}", compiler.name()?, compiler.options.join(" "));
    let cache = Cache::from_environment();
    if let Some(code) = cache.as_ref().and_then(|cache| cache.find(&key))
        && let Ok(made) = try_out(&code)
    {
        return Ok((made, code));
    }
    let code = compiler.compile(source, architecture)?;
    let made = try_out(&code)?;
    if let Some(Err(reason)) = cache.map(|cache| cache.store(&key, &code)) {
        log::warn(format!("compiled kernels are not kept: {reason}"));
    }
    Ok((made, code))
}

/// What a kernel does to numbers.
fn numerics(prepared: &Prepared, kernel: &Kernel, own: Engine) -> Numerics {
    let mut numerics = of_step(prepared, &kernel.nodes, own);
    numerics.add(&kernel.numerics);
    numerics
}

/// What the kernels of a graph do to numbers on an architecture, and the knobs that change it.
///
/// # Errors
/// What the engine does not support.
pub fn engine_numerics(request: &Request, architecture: &str) -> Result<EngineNumerics, Refusal> {
    let chosen = options(&request.config.knobs).on(architecture);
    let language = chosen.target.as_ref().map_or(Language::Hip, |target| target.language);
    let own = engine(language, chosen.batch_invariant);
    let prepared = prepare(&request.graph).map_err(Refusal::new)?;
    let mut all = Numerics::default();
    for kernel in generate_with(&request.graph, chosen).map_err(Refusal::new)?.kernels {
        all.add(&numerics(&prepared, &kernel, own));
    }
    let knobs = vec![NoteKnob::removes(note::BATCH_DEPENDENT, BATCH_INVARIANT, 1)];
    Ok(EngineNumerics { numerics: all, knobs })
}

impl Plan {
    /// Plans a graph, with a saved plan's code if it matches.
    ///
    /// # Errors
    /// What the engine does not support, and the errors of the driver and the compiler.
    pub fn new(
        platform: Platform,
        entered: &Entered<'_, Target>,
        request: Request,
        saved: &[u8],
    ) -> Result<Self, PluginError> {
        let target = &entered.device.own;
        let chosen = options(&request.config.knobs).on(&target.architecture);
        let engine = engine(platform.kernels(), chosen.batch_invariant);
        let program = generate_with(&request.graph, chosen).map_err(Refusal::new)?;
        let (module, code) = if program.kernels.is_empty() {
            (None, Vec::new())
        } else {
            let source = program.source(platform.language());
            let load = |code: &[u8]| Module::load(target.driver, code);
            let (module, code) = code_for(platform, &target.architecture, &source, saved, load)?;
            (Some(module), CODE.write(&[source.as_bytes(), target.architecture.as_bytes(), &code])?)
        };
        let mut steps = Vec::with_capacity(program.kernels.len());
        for kernel in program.kernels {
            let Some(module) = &module else { continue };
            steps.push(Step {
                compiler: compiler_name(platform),
                function: module.function(&kernel.name, kernel.shared)?,
                name: kernel.name,
                nodes: kernel.nodes,
                arguments: kernel.arguments.into(),
                grid: [kernel.grid, kernel.down],
                block: kernel.block,
                shared: kernel.shared as u32,
                engine,
                numerics: kernel.numerics,
            });
        }
        let plan = plan::Plan::new(entered.device, request, steps, program.placed, 0)?.with_memory()?;
        Ok(Self { made: Made::Loaded(plan), code, platform, _module: module })
    }

    /// Plans a graph for an architecture whose device is not present, with a saved plan's code if it matches.
    /// Such a plan can be saved.
    ///
    /// # Errors
    /// What the engine does not support, and the errors of the compiler.
    pub fn ahead(
        platform: Platform,
        architecture: String,
        request: Request,
        saved: &[u8],
    ) -> Result<Self, PluginError> {
        let chosen = options(&request.config.knobs).on(&architecture);
        let prepared = prepare(&request.graph).map_err(Refusal::new)?;
        let own = engine(platform.kernels(), chosen.batch_invariant);
        let program = generate_with(&request.graph, chosen).map_err(Refusal::new)?;
        let code = if program.kernels.is_empty() {
            Vec::new()
        } else {
            let source = program.source(platform.language());
            let ((), code) = code_for(platform, &architecture, &source, saved, |_| Ok(()))?;
            CODE.write(&[source.as_bytes(), architecture.as_bytes(), &code])?
        };
        let step = |kernel: &Kernel| hipdnn_plugin_sdk::Step {
            nodes: kernel.nodes.clone(),
            algorithm: format!("{} for {architecture}", compiler_name(platform)),
            kernel: kernel.name.clone(),
            numerics: numerics(&prepared, kernel, own),
            ..hipdnn_plugin_sdk::Step::default()
        };
        let steps = program.kernels.iter().map(step).collect();
        let workspace_size = program.placed.workspace(0)?.asked();
        let made = Made::Ahead(Ahead { architecture, request, workspace_size, steps });
        Ok(Self { made, code, platform, _module: None })
    }

    /// The plan as bytes.
    ///
    /// # Errors
    /// When a part exceeds the format's limit.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        PAYLOAD.write_plan(self.request(), &self.code)
    }

    /// Describes an execution: the generated kernels.
    pub fn describe(&self) -> Option<Vec<hipdnn_plugin_sdk::Step>> {
        match &self.made {
            Made::Loaded(plan) => plan.describe(),
            Made::Ahead(plan) => Some(plan.steps.clone()),
        }
    }

    /// Bytes of device memory that [`Plan::execute`] expects, at any address.
    pub fn workspace_size(&self) -> usize {
        match &self.made {
            Made::Loaded(plan) => plan.workspace_size(),
            Made::Ahead(plan) => plan.workspace_size,
        }
    }

    /// Queues the graph's work on the handle's stream. Returns when the driver has accepted it, not when it
    /// is done.
    ///
    /// # Errors
    /// When the handle is of another device, a buffer is missing or misaligned, or the driver fails.
    ///
    /// # Safety
    /// As for [`plan::Plan::execute`].
    pub unsafe fn execute(
        &self,
        handle: &Handle,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let plan = match &self.made {
            Made::Loaded(plan) => plan,
            Made::Ahead(plan) => return Err(plan.refusal()),
        };
        let Entered { device, stream, .. } = &enter(handle, self.platform)?;
        let run = |step: &Step, tensors: &[*mut c_void], _| {
            // SAFETY: the tensors are valid until the work is done, as this function requires; the module is alive with the plan.
            unsafe { step.run(device.own.driver, *stream, tensors) }
        };
        // SAFETY: the buffers and the workspace are valid until the work is done, as this function requires.
        unsafe { plan.execute(device, *stream, buffers, workspace, run) }
    }
}

impl Asked for Plan {
    fn request(&self) -> &Request {
        match &self.made {
            Made::Loaded(plan) => plan.request(),
            Made::Ahead(plan) => &plan.request,
        }
    }

    fn finish(&self) {
        if let Made::Loaded(plan) = &self.made {
            plan.finish();
        }
    }
}

impl Step {
    /// Launches the kernel on a stream.
    ///
    /// # Safety
    /// The module of the function is loaded, and each tensor is valid for its extent until the work is done.
    unsafe fn run(
        &self,
        driver: Driver,
        stream: hipStream_t,
        tensors: &[*mut c_void],
    ) -> Result<(), PluginError> {
        let mut words = [0_u64; MAX_TENSORS];
        let mut parameters = [std::ptr::null_mut(); MAX_TENSORS];
        let arguments = self.arguments.iter().zip(tensors);
        for ((word, parameter), (argument, pointer)) in words.iter_mut().zip(&mut parameters).zip(arguments) {
            *word = match *argument {
                Argument::Memory { uid, alignment } => {
                    check_alignment(uid, *pointer, alignment)?;
                    pointer.expose_provenance() as u64
                }
                // SAFETY: values are passed in host memory of their type, which is valid for its extent, as this function requires.
                Argument::Number { data_type, .. } => unsafe { number(*pointer, data_type) }.to_bits(),
            };
            *parameter = std::ptr::from_mut(word).cast();
        }
        // SAFETY: the arguments are those that the kernel was written with, each of eight bytes; the module is loaded and the tensors are
        // valid until the work is done, as this function requires.
        unsafe { driver.launch(self.function, self.grid, [self.block, self.shared], stream, &mut parameters) }
    }
}

/// Reads an element in host memory.
///
/// # Safety
/// `pointer` is valid for an element of the type.
unsafe fn number(pointer: *mut c_void, data_type: DataType) -> f64 {
    // SAFETY: `pointer` is valid for an element of the type, as this function requires; it may have any alignment.
    unsafe {
        match data_type {
            DataType::Float => f64::from(pointer.cast::<f32>().read_unaligned()),
            DataType::Double => pointer.cast::<f64>().read_unaligned(),
            DataType::Half => f64::from(pointer.cast::<f16>().read_unaligned()),
            DataType::Bfloat16 => f64::from(pointer.cast::<bf16>().read_unaligned()),
            DataType::Int64 => pointer.cast::<i64>().read_unaligned() as f64,
            DataType::Int32 => f64::from(pointer.cast::<i32>().read_unaligned()),
            DataType::Int8 => f64::from(pointer.cast::<i8>().read()),
            DataType::Uint8 => f64::from(pointer.cast::<u8>().read()),
            DataType::Boolean => f64::from(u8::from(pointer.cast::<u8>().read() != 0)),
            // No kernel takes other types.
            _ => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise, Reduction};
    use hipdnn_plugin_sdk::graph::{Graph, Node, Operation, PointwiseMode, ReductionMode, Tensor};
    use hipdnn_plugin_sdk::wire::{EngineConfig, KnobSetting};

    use hipdnn_plugin_sdk::numerics::name_of;

    use super::*;

    fn notes(architecture: &str, data_type: DataType, knob: Option<NoteKnob>) -> Vec<&'static str> {
        let tensors = (1..=3).map(|uid| Tensor::new(uid, data_type, &[64, 64], &[64, 1])).collect();
        let node = Node {
            name: "m".to_owned(),
            compute_type: DataType::Float,
            operation: Matmul { a: 1, b: 2, c: 3 }.into(),
        };
        let setting =
            |knob: NoteKnob| KnobSetting { knob_id: knob.knob.to_owned(), value: knob.value.into() };
        let config = EngineConfig { engine_id: 0, knobs: knob.map(setting).into_iter().collect() };
        let request = Request { graph: Graph { tensors, nodes: vec![node], ..Graph::default() }, config };
        let told = engine_numerics(&request, architecture).unwrap();
        assert_eq!(told.numerics.accumulators, ["float"].into());
        told.numerics.notes.into_iter().map(name_of).collect()
    }

    /// What a node does to tensors of these dims on an architecture.
    fn told(architecture: &str, dims: &[&[i64]], compute_type: DataType, operation: Operation) -> Numerics {
        let tensors = (1..).zip(dims).map(|(uid, dims)| Tensor::packed(uid, compute_type, dims)).collect();
        let node = Node { name: "n".to_owned(), compute_type, operation };
        let config = EngineConfig { engine_id: 0, knobs: Vec::new() };
        let request = Request { graph: Graph { tensors, nodes: vec![node], ..Graph::default() }, config };
        engine_numerics(&request, architecture).unwrap().numerics
    }

    #[test]
    fn functions_have_the_errors_of_the_maker_of_the_device() {
        for (architecture, compute_type, mode, expected) in [
            ("sm_90", DataType::Float, PointwiseMode::TanhFwd, ("tanh", Some(4))),
            ("sm_90", DataType::Double, PointwiseMode::Log, ("log", Some(1))),
            ("gfx1100", DataType::Float, PointwiseMode::Log, ("log", Some(2))),
        ] {
            let operation = Pointwise::new(mode, 1, None, 2).into();
            let told = told(architecture, &[&[64], &[64]], compute_type, operation);
            assert_eq!(told.functions, [expected].into(), "{architecture} {}", mode.name());
        }
    }

    #[test]
    fn the_threads_of_a_row_are_the_parts_of_its_sum() {
        let sum = |out| Reduction { in_: 1, out, mode: ReductionMode::Add, is_deterministic: false };
        let rows = told("sm_90", &[&[64, 4096], &[64, 1]], DataType::Float, sum(2).into());
        assert!(rows.parts.is_some_and(|parts| parts > 1 && parts <= 1024), "{:?}", rows.parts);
        let copy = Pointwise::new(PointwiseMode::Neg, 1, None, 2).into();
        assert_eq!(told("sm_90", &[&[64], &[64]], DataType::Float, copy).parts, None);
    }

    #[test]
    fn matrix_instructions_and_batches_are_noted() {
        let invariant = NoteKnob::removes(note::BATCH_DEPENDENT, BATCH_INVARIANT, 1);
        for (architecture, data_type, knob, expected) in [
            ("sm_90", DataType::Half, None, &["TENSOR_CORE", "SPLIT_SUMS", "BATCH_DEPENDENT"][..]),
            ("sm_90", DataType::Half, Some(invariant), &["TENSOR_CORE", "SPLIT_SUMS"]),
            ("gfx942", DataType::Bfloat16, None, &["TENSOR_CORE", "SPLIT_SUMS", "BATCH_DEPENDENT"]),
            ("gfx1030", DataType::Half, None, &["SPLIT_SUMS", "BATCH_DEPENDENT"]),
            ("sm_90", DataType::Float, None, &["SPLIT_SUMS", "BATCH_DEPENDENT"]),
        ] {
            assert_eq!(notes(architecture, data_type, knob), expected, "{architecture} {data_type:?}");
        }
    }
}
