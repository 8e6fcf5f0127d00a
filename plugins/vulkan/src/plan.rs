//! A plan: compiled kernels, where their tensors are, and the memory between them.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use hipdnn_kernels::Target;
use hipdnn_kernels::form::Parameter;
use hipdnn_kernels::print::spirv;
use hipdnn_kernels::target::{CooperativeShape, MatrixShape};
use hipdnn_plugin_lowering::{Argument, Lowered, Options, Program, lower};
use hipdnn_plugin_planner::layout::{Layout, storage_size};
use hipdnn_plugin_planner::numerics::{Engine, generated, of_step};
use hipdnn_plugin_planner::prepare::{Prepared, prepare};
use hipdnn_plugin_planner::shapes::Asked;
use hipdnn_plugin_planner::step::described;
use hipdnn_plugin_planner::workspace::place_in_steps;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Tensor};
use hipdnn_plugin_sdk::lock::OnceLock;
use hipdnn_plugin_sdk::numerics::{EngineNumerics, NoteKnob, note};
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::wire::{KnobSetting, int_setting};
use hipdnn_plugin_sdk::{Numerics, PluginError, Refusal, Step, trace};

use crate::bind::{Binding, Bound};
use crate::buffer::Buffer;
use crate::gpu::Gpu;
use crate::pipeline::Pipeline;
use crate::target::{options, target};
use crate::trust;
use crate::work::Recorder;

/// The format of saved plans.
pub const PAYLOAD: Payload = Payload { mark: *b"HVKP", version: 1, owner: "VULKAN_ENGINE" };

/// The knob that switches cooperative matrices off.
pub const MATRICES: &str = "vulkan.matrices";

/// The knob with which the bits of an item of a batch depend on it alone.
pub const BATCH_INVARIANT: &str = "batch_invariant";

/// What offsets between kernels are multiples of.
const ALIGNMENT: usize = 256;

/// Most bytes of parameters.
const PARAMETERS: usize = 8 * 256;

/// What is passed to a kernel.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// The address of a tensor that the program binds, by its place among them; checked for this alignment.
    Bound(usize, usize),
    /// An offset in the plan's own memory.
    Between(u64),
    /// An output that the program may leave out: as [`Slot::Bound`], or else at an offset in the plan's own memory.
    Unmarked(usize, usize, u64),
    /// A number in host memory, of this type.
    Number(i64, DataType),
}

/// A kernel, ready to be started.
struct Kernel {
    name: String,
    nodes: Vec<usize>,
    pipeline: Pipeline,
    groups: [u32; 3],
    threads: u32,
    slots: Box<[Slot]>,
    has_float_numbers: bool,
    has_matrices: bool,
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
fn numerics(prepared: &Prepared, nodes: &[usize], has_matrices: bool, engine: Engine) -> Numerics {
    let mut numerics = of_step(prepared, nodes, engine).note_if(has_matrices, note::TENSOR_CORE);
    let floats = nodes.iter().filter_map(|place| prepared.graph.nodes.get(*place));
    if floats.into_iter().any(|node| node.compute_type != DataType::Int32) {
        numerics = numerics.note(note::FLUSH_SUBNORMALS);
    }
    numerics
}

/// What the kernels of a graph do to numbers, and the knobs that change it.
fn engine_numerics(graph: &Graph, target: &Target, options: Options) -> Result<EngineNumerics, Refusal> {
    let prepared = prepare(graph)?;
    let own = generated(options.batch_invariant);
    let mut all = Numerics::default();
    for lowered in &lower(graph, target, options)?.kernels {
        all.add(&numerics(&prepared, &lowered.nodes, has_matrices(lowered), own));
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

/// The shapes of matrices that a plan may multiply with.
fn shapes(gpu: &Gpu, knobs: &[KnobSetting]) -> Vec<CooperativeShape> {
    if int_setting(knobs, MATRICES) == Some(0) { Vec::new() } else { trust::of(gpu).shapes.clone() }
}

/// Whether matrix instructions multiply.
fn has_matrices(lowered: &Lowered) -> bool {
    lowered.written.kernel.shapes.iter().any(MatrixShape::is_matrix)
}

impl Plan {
    /// Plans a graph for a device.
    ///
    /// # Errors
    /// What the engine does not support, and the driver's errors.
    pub fn new(gpu: &Arc<Gpu>, request: Request) -> Result<Self, PluginError> {
        let properties = &gpu.device.properties;
        let target = target(properties, shapes(gpu, &request.config.knobs));
        let program =
            lower(&request.graph, &target, options(properties, is_invariant(&request.config.knobs)))
                .map_err(Refusal::new)?;
        let steps: Vec<Vec<i64>> = program
            .kernels
            .iter()
            .map(|kernel| kernel.arguments.iter().map(Argument::uid).collect())
            .collect();
        let places =
            place_in_steps(&program.graph, &program.unmarked, steps.iter().map(Vec::as_slice), ALIGNMENT);
        let places = places.map_err(Refusal::new)?;
        let between = match places.size {
            0 => None,
            size => Some(gpu.allocate(size as u64)?),
        };
        let offsets: HashMap<i64, u64> =
            places.places.iter().map(|place| (place.uid, place.offset as u64)).collect();
        let mut placing = Placing { program: &program, offsets, bindings: Vec::new() };
        let mut kernels = Vec::with_capacity(program.kernels.len());
        for lowered in &program.kernels {
            let slots = placing.slots(lowered)?;
            kernels.push(Kernel::new(gpu, lowered, slots)?);
        }
        let bindings = placing.bindings;
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
        let engine = generated(is_invariant(&self.request.config.knobs));
        for (step, kernel) in steps.iter_mut().zip(&self.kernels) {
            step.numerics = numerics(&prepared, &kernel.nodes, kernel.has_matrices, engine);
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
            &target(properties, shapes(gpu, knobs)),
            options(properties, is_invariant(knobs)),
        )
    }

    /// The plan as bytes.
    ///
    /// # Errors
    /// When a part is too large.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        PAYLOAD.write_plan(&self.request, &[])
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
        let copies = |recorder: &mut Recorder<'_>, to_device: bool| {
            for bound in &bound {
                bound.record(recorder, to_device);
            }
        };
        let time = if steps.is_none() {
            gpu.queue.submit(|recorder| {
                copies(recorder, true);
                for kernel in &self.kernels {
                    recorder.then();
                    self.launch(recorder, kernel, &bound, buffers)?;
                }
                recorder.then();
                copies(recorder, false);
                Ok(())
            })?
        } else {
            // Steps are measured one by one.
            let mut told = trace::Execution::begin(|| self.names());
            gpu.queue.submit(|recorder| {
                copies(recorder, true);
                Ok(())
            })?;
            for kernel in &self.kernels {
                gpu.queue
                    .wait(gpu.queue.submit(|recorder| self.launch(recorder, kernel, &bound, buffers))?)?;
                told.end_step();
            }
            gpu.queue.submit(|recorder| {
                copies(recorder, false);
                Ok(())
            })?
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

    /// Records a kernel.
    fn launch(
        &self,
        recorder: &Recorder<'_>,
        kernel: &Kernel,
        bound: &[Bound],
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        let mut bytes = [0_u8; PARAMETERS];
        let mut used = 0;
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
            if let Some(room) = bytes.get_mut(used..used + 8) {
                room.copy_from_slice(&word.to_le_bytes());
            }
            used += 8;
        }
        let parameters = bytes.get(..used).unwrap_or_default();
        match &kernel.parameters {
            None => recorder.launch(&kernel.pipeline, kernel.groups, parameters),
            Some(buffer) => {
                recorder.write(buffer, parameters);
                recorder.then();
                recorder.launch(&kernel.pipeline, kernel.groups, &buffer.address.to_le_bytes());
            }
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
        drop(self.gpu.queue.synchronize());
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // Pipelines and memory may still be in use.
        self.finish();
    }
}

impl Kernel {
    fn new(gpu: &Arc<Gpu>, lowered: &Lowered, slots: Box<[Slot]>) -> Result<Self, PluginError> {
        let form = &lowered.written.kernel;
        let module = spirv::print(form, &trust::features(gpu)).map_err(Refusal::new)?;
        if slots.len() * 8 > PARAMETERS {
            return Err(PluginError::not_applicable(format!("a kernel has {} parameters", slots.len())));
        }
        // SAFETY: the printer writes valid modules, with the features that the device has.
        let pipeline = unsafe { Pipeline::new(&gpu.device, &module) }?;
        let parameters = match module.is_indirect {
            true => Some(gpu.allocate(8 * slots.len() as u64)?),
            false => None,
        };
        Ok(Self {
            name: form.name.clone(),
            nodes: lowered.nodes.clone(),
            pipeline,
            groups: lowered.written.groups,
            threads: form.threads,
            slots,
            has_float_numbers: module.has_float_numbers,
            has_matrices: has_matrices(lowered),
            parameters,
        })
    }
}

/// Decides where tensors are.
struct Placing<'a> {
    program: &'a Program,
    offsets: HashMap<i64, u64>,
    bindings: Vec<Binding>,
}

impl Placing<'_> {
    fn slots(&mut self, lowered: &Lowered) -> Result<Box<[Slot]>, PluginError> {
        let parameters = &lowered.written.kernel.parameters;
        let mut slots = Vec::with_capacity(parameters.len());
        for (argument, parameter) in lowered.arguments.iter().zip(parameters) {
            slots.push(match (*argument, *parameter) {
                (Argument::Number { uid, data_type }, _) => Slot::Number(uid, data_type),
                (Argument::Memory(uid), Parameter::Memory { written, alignment, .. }) => {
                    let is_unmarked = self.program.unmarked.contains(&uid);
                    match (self.offsets.get(&uid).copied(), is_unmarked) {
                        (Some(offset), false) => Slot::Between(offset),
                        (Some(offset), true) => {
                            Slot::Unmarked(self.binding(uid, written, true)?, alignment, offset)
                        }
                        (None, _) => Slot::Bound(self.binding(uid, written, false)?, alignment),
                    }
                }
                (Argument::Memory(uid), Parameter::Number(_)) => {
                    return Err(PluginError::internal(format!("tensor {uid} is passed as a number")));
                }
            });
        }
        Ok(slots.into())
    }

    /// The place of a tensor among those that the program binds.
    fn binding(&mut self, uid: i64, written: bool, is_optional: bool) -> Result<usize, PluginError> {
        let place = match self.bindings.iter().position(|binding| binding.uid == uid) {
            Some(place) => place,
            None => {
                let tensor = self.program.graph.tensor(uid);
                let tensor =
                    tensor.ok_or_else(|| PluginError::internal(format!("the graph has no tensor {uid}")))?;
                self.bindings.push(new_binding(tensor, is_optional).map_err(Refusal::new)?);
                self.bindings.len() - 1
            }
        };
        if let Some(binding) = self.bindings.get_mut(place) {
            binding.reads |= !written;
            binding.writes |= written;
        }
        Ok(place)
    }
}

fn new_binding(tensor: &Tensor, is_optional: bool) -> Result<Binding, String> {
    let layout = Layout::of(tensor)?;
    let bytes = storage_size(tensor.data_type, layout.extent())? as u64;
    // What lies between elements must keep its content, and what between sequences.
    let has_gaps = layout.extent() != layout.elements() || tensor.ragged_offset_uid.is_some();
    Ok(Binding { uid: tensor.uid, bytes, reads: false, writes: false, has_gaps, is_optional })
}

/// A number in host memory.
///
/// # Safety
/// There is one of this type.
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
mod numerics_tests;
