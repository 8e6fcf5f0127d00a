//! A plan: compiled kernels, where their tensors are, and the memory between them.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use hipdnn_kernels::Target;
use hipdnn_kernels::print::spirv::{self, Features};
use hipdnn_kernels::target::{CooperativeShape, Language};
use hipdnn_plugin_lowering::numerics::{engine, of_kernel};
use hipdnn_plugin_lowering::{Options, lower};
use hipdnn_plugin_planner::numerics::{Engine, of_step};
use hipdnn_plugin_planner::prepare::{Prepared, prepare};
use hipdnn_plugin_planner::shapes::Asked;
use hipdnn_plugin_planner::step::described;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Graph};
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::numerics::{EngineNumerics, NoteKnob, note};
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::wire::{KnobSetting, int_setting};
use hipdnn_plugin_sdk::{Numerics, PluginError, Refusal, Step, trace};

use crate::bind::{Binding, Bound};
use crate::buffer::Buffer;
use crate::cache;
use crate::clock::Clock;
use crate::code::{self, Code, Slot};
use crate::gpu::Gpu;
use crate::pipeline::Pipeline;
use crate::saved::Saved;
use crate::target::{options, target};
use crate::trust;
use crate::work::Recorder;

/// The format of saved plans.
pub const PAYLOAD: Payload = Payload { mark: *b"HVKP", version: 1, owner: "VULKAN_ENGINE" };

/// The knob that switches cooperative matrices off.
pub const MATRICES: &str = "vulkan.matrices";

/// The knob that chooses tiles of products and convolutions by their rank.
pub const TILES: &str = "vulkan.tiles";

/// The last rank that it takes.
pub const MOST_TILES: i64 = 15;

/// The knob with which the bits of an item of a batch depend on it alone.
pub const BATCH_INVARIANT: &str = "batch_invariant";

/// A kernel, ready to be started.
struct Kernel {
    name: String,
    nodes: Vec<usize>,
    pipeline: Pipeline,
    groups: [u32; 3],
    threads: u32,
    slots: Box<[Slot]>,
    has_float_numbers: bool,
    /// What it does to numbers, beside what its nodes do.
    numerics: Numerics,
    /// Where its parameters are written if they are too many to be pushed.
    parameters: Option<Buffer>,
}

/// A graph, ready to be computed on one device.
pub struct Plan {
    gpu: Arc<Gpu>,
    request: Request,
    kernels: Vec<Kernel>,
    bindings: Vec<Binding>,
    /// The tensors between kernels.
    between: Option<Buffer>,
    names: OnceLock<Box<[CString]>>,
}

/// What a kernel does to numbers. Whether subnormal ones are flushed is the device's choice.
fn numerics(prepared: &Prepared, nodes: &[usize], own: &Numerics, engine: Engine) -> Numerics {
    let mut numerics = of_step(prepared, nodes, engine);
    numerics.add(own);
    let floats = nodes.iter().filter_map(|place| prepared.graph.nodes.get(*place));
    if floats.into_iter().any(|node| node.compute_type != DataType::Int32) {
        numerics = numerics.note(note::FLUSH_SUBNORMALS);
    }
    numerics
}

/// What the kernels of a graph do to numbers, and the knobs that change it.
fn engine_numerics(graph: &Graph, target: &Target, options: Options) -> Result<EngineNumerics, Refusal> {
    let prepared = prepare(graph)?;
    let own = engine(Language::SpirV, options.batch_invariant);
    let mut all = Numerics::default();
    for lowered in &lower(graph, target, options)?.kernels {
        let of_kernel = of_kernel(&lowered.written.kernel, target);
        all.add(&numerics(&prepared, &lowered.nodes, &of_kernel, own));
    }
    let knobs = vec![
        NoteKnob::removes(note::TENSOR_CORE, MATRICES, 0),
        NoteKnob::removes(note::BATCH_DEPENDENT, BATCH_INVARIANT, 1),
    ];
    Ok(EngineNumerics { numerics: all, knobs })
}

/// Whether the bits of an item must depend on it alone.
pub fn is_invariant(knobs: &[KnobSetting]) -> bool {
    int_setting(knobs, BATCH_INVARIANT) == Some(1)
}

/// What the modules of a graph are written for.
struct Described {
    target: Target,
    features: Features,
    options: Options,
    /// Tells all of these and the generator's version.
    key: u64,
}

impl Described {
    fn of(gpu: &Gpu, request: &Request) -> Self {
        let (properties, knobs) = (&gpu.device.properties, &request.config.knobs);
        let target = with_tiles(target(properties, shapes(gpu, knobs)), knobs);
        let (features, options) = (trust::features(gpu), options(properties, is_invariant(knobs)));
        let text = format!("{target:?} {features:?} {options:?} {}", env!("CARGO_PKG_VERSION"));
        Self { target, features, options, key: Fnv1a::new().add(text.as_bytes()).number() }
    }

    fn generate(&self, graph: &Graph) -> Result<Code, PluginError> {
        Code::generate(graph, &self.target, &self.features, self.options)
    }
}

/// The target, with the tiles that a plan asks for.
fn with_tiles(target: Target, knobs: &[KnobSetting]) -> Target {
    let tiles = int_setting(knobs, TILES).and_then(|tiles| usize::try_from(tiles).ok());
    Target { tiles: tiles.unwrap_or(0), ..target }
}

/// The shapes of matrices that a plan may multiply with.
fn shapes(gpu: &Gpu, knobs: &[KnobSetting]) -> Vec<CooperativeShape> {
    if int_setting(knobs, MATRICES) == Some(0) { Vec::new() } else { trust::of(gpu).shapes.clone() }
}

impl Plan {
    /// Plans a graph for a device, with a saved plan's modules if these are what would be written.
    ///
    /// # Errors
    /// What the engine does not support, and the driver's errors.
    pub fn new(gpu: &Arc<Gpu>, request: Request, saved: &[u8]) -> Result<Self, PluginError> {
        let device = Described::of(gpu, &request);
        let (code, data) = match Saved::read(saved, device.key, &request.graph) {
            Some(Saved { code, data }) => (code, data),
            None => (device.generate(&request.graph)?, Vec::new()),
        };
        let between = match code.between {
            0 => None,
            size => Some(gpu.allocate(size)?),
        };
        let mut data = data.into_iter();
        let mut kernels = Vec::with_capacity(code.kernels.len());
        for kernel in code.kernels {
            kernels.push(Kernel::new(gpu, kernel, &data.next().unwrap_or_default())?);
        }
        let bindings = code.bindings;
        Ok(Self { gpu: Arc::clone(gpu), request, kernels, bindings, between, names: OnceLock::new() })
    }

    /// Checks that a graph is supported on a device, without compiling kernels.
    ///
    /// # Errors
    /// What is not supported.
    pub fn check(gpu: &Gpu, graph: &Graph) -> Result<(), Refusal> {
        let properties = &gpu.device.properties;
        let target = target(properties, trust::of(gpu).shapes.clone());
        let program = lower(graph, &target, options(properties, false))?;
        for lowered in &program.kernels {
            spirv::print(&lowered.written.kernel, &trust::features(gpu))?;
        }
        Ok(())
    }

    /// What an execution does.
    pub fn describe(&self) -> Option<Vec<Step>> {
        let call = |kernel: &Kernel| {
            let [x, y, z] = kernel.groups;
            (
                kernel.nodes.clone(),
                "Vulkan",
                format!("{}, {} x {} threads", kernel.name, x * y * z, kernel.threads),
            )
        };
        let mut steps = described(&self.request.graph, self.kernels.iter().map(call))?;
        let prepared = prepare(&self.request.graph).ok()?;
        let engine = engine(Language::SpirV, is_invariant(&self.request.config.knobs));
        for (step, kernel) in steps.iter_mut().zip(&self.kernels) {
            step.numerics = numerics(&prepared, &kernel.nodes, &kernel.numerics, engine);
        }
        Some(steps)
    }

    /// What the kernels of a graph do to numbers on a device, and the knobs that change it.
    ///
    /// # Errors
    /// What is not supported.
    pub fn numerics(gpu: &Gpu, graph: &Graph, knobs: &[KnobSetting]) -> Result<EngineNumerics, Refusal> {
        let properties = &gpu.device.properties;
        engine_numerics(
            graph,
            &with_tiles(target(properties, shapes(gpu, knobs)), knobs),
            options(properties, is_invariant(knobs)),
        )
    }

    /// The plan as bytes: also its modules, and what the driver made of them.
    ///
    /// # Errors
    /// When a part is too large.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        let device = Described::of(&self.gpu, &self.request);
        let code = device.generate(&self.request.graph)?;
        // SAFETY: the printer writes valid modules, with the features that the device has.
        let data = |kernel: &code::Kernel| unsafe { cache::data(&self.gpu.device, &kernel.module) };
        let data = code.kernels.iter().map(data).collect();
        PAYLOAD.write_plan(&self.request, &Saved { code, data }.write(device.key))
    }

    #[cold]
    fn names(&self) -> &[CString] {
        let name = |kernel: &Kernel| trace::name(&kernel.name, &kernel.nodes);
        self.names.get_or_init(|| self.kernels.iter().map(name).collect())
    }

    /// Computes the graph. Returns when work is queued if all tensors are on the device, else when it is done.
    ///
    /// # Errors
    /// When a buffer is missing or of no known memory, and the driver's errors.
    ///
    /// # Safety
    /// Each buffer is valid for the extent of its tensor until the work is done.
    pub unsafe fn execute(
        &self,
        gpu: &Arc<Gpu>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        if !Arc::ptr_eq(gpu, &self.gpu) {
            let [own, other] = [&self.gpu, gpu].map(|gpu| gpu.device.properties.label());
            return Err(PluginError::bad_param(format!(
                "the plan is for device {own}, and the handle works on {other}"
            )));
        }
        let mut bound = Vec::with_capacity(self.bindings.len());
        for binding in &self.bindings {
            // SAFETY: each buffer is valid for its tensor, as this function requires.
            bound.push(unsafe { binding.bind(gpu, buffers) }?);
        }
        let steps = trace::steps();
        let mut parameters = Vec::new();
        for kernel in &self.kernels {
            self.add_parameters(&mut parameters, kernel, &bound, buffers)?;
        }
        let mut rest = parameters.as_slice();
        let mut next = |kernel: &Kernel| {
            let (own, after) = rest.split_at_checked(8 * kernel.slots.len()).unwrap_or_default();
            rest = after;
            own
        };
        let copies = |recorder: &Recorder<'_>, to_device: bool| {
            for bound in &bound {
                bound.record(recorder, to_device);
            }
        };
        let time = if steps.is_none() {
            gpu.queue.submit(|recorder| {
                copies(recorder, true);
                for kernel in &self.kernels {
                    recorder.then();
                    kernel.launch(recorder, next(kernel));
                }
                recorder.then();
                copies(recorder, false);
            })?
        } else {
            let copied = gpu.queue.submit(|recorder| copies(recorder, true))?;
            // Steps are measured one by one.
            gpu.queue.wait(copied)?;
            for (kernel, name) in self.kernels.iter().zip(self.names()) {
                let begin = trace::now();
                let device_time = kernel.timed(&self.gpu, next(kernel))?;
                if let Some(steps) = steps {
                    steps.tell(name, device_time.map_or(begin, |time| trace::now().saturating_sub(time)));
                }
            }
            gpu.queue.submit(|recorder| copies(recorder, false))?
        };
        let has_host = bound.iter().any(Bound::is_of_host);
        if has_host || self.kernels.iter().any(|kernel| kernel.parameters.is_some()) {
            gpu.queue.wait(time)?;
        }
        for bound in bound {
            // SAFETY: each buffer is valid for its tensor, as this function requires, and the work is done.
            unsafe { bound.finish(gpu) }?;
        }
        Ok(())
    }

    /// Adds a kernel's parameters, as bytes.
    fn add_parameters(
        &self,
        to: &mut Vec<u8>,
        kernel: &Kernel,
        bound: &[Bound],
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        let between = self.between.as_ref().map_or(0, |buffer| buffer.address);
        for slot in &kernel.slots {
            let address = |place: usize| bound.get(place).and_then(Bound::address);
            let word = match *slot {
                Slot::Bound(place, alignment) => {
                    let address = address(place).unwrap_or(0);
                    self.check_alignment(place, address, alignment)?;
                    address
                }
                Slot::Between(offset) => between + offset,
                Slot::Unmarked(place, alignment, offset) => match address(place) {
                    Some(address) => {
                        self.check_alignment(place, address, alignment)?;
                        address
                    }
                    None => between + offset,
                },
                Slot::Number(uid, data_type) => {
                    let number = hipdnn_plugin_sdk::buffer(buffers, uid)?;
                    // SAFETY: the buffer of a number has one of the tensor's type, as an execution requires.
                    let number = unsafe { read_number(number, data_type) };
                    if kernel.has_float_numbers {
                        u64::from((number as f32).to_bits())
                    } else {
                        number.to_bits()
                    }
                }
            };
            to.extend_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    fn check_alignment(&self, place: usize, address: u64, alignment: usize) -> Result<(), PluginError> {
        if address.is_multiple_of(alignment as u64) {
            return Ok(());
        }
        let uid = self.bindings.get(place).map_or(0, |binding| binding.uid);
        Err(PluginError::bad_param(format!(
            "the buffer of tensor {uid} is at {address:#x}, expected a multiple of {alignment}"
        )))
    }
}

impl Asked for Plan {
    fn request(&self) -> &Request {
        &self.request
    }

    fn finish(&self) {
        // A failure means that the device and all its work are lost.
        drop(self.gpu.queue.finish());
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // Pipelines and memory may still be in use.
        self.finish();
    }
}

impl Kernel {
    fn new(gpu: &Arc<Gpu>, kernel: code::Kernel, saved: &[u8]) -> Result<Self, PluginError> {
        let module = &kernel.module;
        // SAFETY: the printer writes valid modules, with the features that the device has; the saved data is checked with its plan.
        let pipeline = unsafe { cache::compile(&gpu.device, module, saved) }?;
        let parameters = match module.is_indirect {
            true => Some(gpu.allocate(8 * kernel.slots.len() as u64)?),
            false => None,
        };
        let parts = Numerics::default();
        let parts = if kernel.parts > 1 { parts.parts(kernel.parts) } else { parts };
        Ok(Self {
            has_float_numbers: module.has_float_numbers,
            name: kernel.name,
            nodes: kernel.nodes,
            pipeline,
            groups: kernel.groups,
            threads: kernel.threads,
            slots: kernel.slots,
            numerics: parts.note_if(kernel.has_matrices, note::TENSOR_CORE),
            parameters,
        })
    }

    /// Records it with these parameters.
    fn launch(&self, recorder: &Recorder<'_>, parameters: &[u8]) {
        match &self.parameters {
            None => recorder.launch(&self.pipeline, self.groups, parameters),
            Some(buffer) => {
                recorder.write(buffer, parameters);
                recorder.then();
                recorder.launch(&self.pipeline, self.groups, &buffer.address.to_le_bytes());
            }
        }
    }

    /// Executes it, and waits. Returns how many nanoseconds it took by the device's clock, if it has one.
    fn timed(&self, gpu: &Gpu, parameters: &[u8]) -> Result<Option<u64>, PluginError> {
        let clock = Clock::new(&gpu.device);
        let time = gpu.queue.submit(|recorder| match &clock {
            Some(clock) => recorder.timed(clock, || self.launch(recorder, parameters)),
            None => self.launch(recorder, parameters),
        })?;
        gpu.queue.wait(time)?;
        Ok(clock.and_then(|clock| clock.nanoseconds()))
    }
}

/// A number in host memory.
///
/// # Safety
/// `at` is readable for a number of the type, at any alignment.
unsafe fn read_number(at: *const c_void, data_type: DataType) -> f64 {
    // SAFETY: there is a number of the type, at any address, as this function requires.
    unsafe {
        match data_type {
            DataType::Double => at.cast::<f64>().read_unaligned(),
            DataType::Half => half::f16::from_bits(at.cast::<u16>().read_unaligned()).to_f64(),
            DataType::Bfloat16 => half::bf16::from_bits(at.cast::<u16>().read_unaligned()).to_f64(),
            DataType::Int64 => at.cast::<i64>().read_unaligned() as f64,
            DataType::Int32 => at.cast::<i32>().read_unaligned().into(),
            DataType::Int8 => at.cast::<i8>().read().into(),
            DataType::Uint8 | DataType::Boolean => at.cast::<u8>().read().into(),
            _ => at.cast::<f32>().read_unaligned().into(),
        }
    }
}

#[cfg(test)]
mod clock_tests;
#[cfg(test)]
mod numerics_tests;
