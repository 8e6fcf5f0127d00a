//! A graph made ready to run: compiled kernels, and where each finds its arguments.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use half::{bf16, f16};
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::gpu::plan_memory::PlanMemory;
use hipdnn_plugin_sdk::gpu::workspace::{Workspace, same_device};
use hipdnn_plugin_sdk::graph::{DataType, Graph};
use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use hipdnn_plugin_sdk::{PluginError, Refusal, bound, buffer, log};

use crate::cache::Cache;
use crate::handle::{Device, Entered, Platform};
use crate::module::{Function, Module};
use crate::source::group::MAX_TENSORS;
use crate::source::kernel::Argument;
use crate::source::{Program, generate};

/// The form of saved plans.
const PAYLOAD: Payload = Payload { mark: *b"HRTP", version: 1, owner: "an engine of generated kernels" };

/// Code of a saved plan: the source and the architecture that it was compiled for and from, and the code object.
const CODE: Payload = Payload { mark: *b"HRTO", version: 1, owner: "an engine of generated kernels" };

/// A graph with compiled kernels. It may run with any handle of the device that it was made on.
#[derive(Debug)]
pub struct Plan {
    graph: Graph,
    config: EngineConfig,
    steps: Vec<Step>,
    /// Empty where there is nothing to compute.
    code: Vec<u8>,
    platform: Platform,
    /// The driver's number of the device that has the kernels.
    device: c_int,
    memory: PlanMemory,
    /// Behind the functions of the steps; last, so that it is dropped last.
    _module: Option<Module>,
}

#[derive(Debug)]
struct Step {
    function: Function,
    arguments: Box<[Slot]>,
    grid: u32,
    block: u32,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// The address of the caller's memory, a multiple of the number.
    Bound(i64, usize),
    /// The address of this offset in bytes from the beginning of the workspace.
    Workspace(usize),
    /// An output that nobody marked as one: the address of the caller's memory, a multiple of the first number, where it is bound,
    /// else of the other number's offset in the workspace.
    Unmarked(i64, usize, usize),
    /// The number in the caller's host memory.
    Number(i64, DataType),
}

/// What a saved plan has.
pub struct Saved {
    /// The graph.
    pub graph: Graph,
    /// The configuration.
    pub config: EngineConfig,
    code: Vec<u8>,
}

impl Saved {
    /// Reads a saved plan.
    ///
    /// # Errors
    /// When the bytes are no saved plan of this plugin.
    pub fn read(bytes: &[u8]) -> Result<Self, PluginError> {
        let [config, code, graph] = PAYLOAD.read(bytes)?;
        Ok(Self { graph: wire::read(graph)?, config: wire::read_engine_config(config)?, code: code.to_vec() })
    }

    /// The code object, where it is of this source and for this architecture.
    fn code_for(&self, source: &str, architecture: &str) -> Option<Vec<u8>> {
        let [of, for_, code] = CODE.read(&self.code).ok()?;
        (of == source.as_bytes() && for_ == architecture.as_bytes() && !code.is_empty())
            .then(|| code.to_vec())
    }
}

/// The workspace of a program, each of whose kernels is a step that needs nothing for itself.
///
/// # Errors
/// When it is larger than the address space.
pub fn workspace(program: &Program) -> Result<Workspace, Refusal> {
    Workspace::new(program.places.size, 0)
}

/// A code object on the device: the saved one, the one in the cache, or a new one.
fn load(
    platform: Platform,
    device: &Device,
    source: &str,
    saved: Option<&Saved>,
) -> Result<(Module, Vec<u8>), PluginError> {
    let architecture = &device.architecture;
    if let Some(code) = saved.and_then(|saved| saved.code_for(source, architecture))
        && let Ok(module) = Module::load(device.driver, &code)
    {
        return Ok((module, code));
    }
    let compiler = platform.compiler()?;
    let key = format!("{}\n{}\n{architecture}\n{source}", compiler.name()?, compiler.options.join(" "));
    let cache = Cache::from_environment();
    if let Some(code) = cache.as_ref().and_then(|cache| cache.find(&key))
        && let Ok(module) = Module::load(device.driver, &code)
    {
        return Ok((module, code));
    }
    let code = compiler.compile(source, architecture)?;
    let module = Module::load(device.driver, &code)?;
    if let Some(Err(reason)) = cache.map(|cache| cache.store(&key, &code)) {
        log::warn(format!("compiled kernels are not kept: {reason}"));
    }
    Ok((module, code))
}

impl Plan {
    /// Plans a graph, with the code of `saved` where that fits.
    ///
    /// # Errors
    /// What the engine does not compute, and the errors of the driver and the compiler.
    pub fn new(
        platform: Platform,
        entered: &Entered<'_>,
        original: &Graph,
        config: EngineConfig,
        saved: Option<&Saved>,
    ) -> Result<Self, PluginError> {
        let device = entered.device;
        let program = generate(original).map_err(Refusal::new)?;
        let (module, code) = if program.kernels.is_empty() {
            (None, Vec::new())
        } else {
            let source = program.source(platform.language());
            let (module, code) = load(platform, device, &source, saved)?;
            let parts = [source.as_bytes(), device.architecture.as_bytes(), &code];
            (Some(module), CODE.write(&parts)?)
        };
        let places: HashMap<i64, usize> =
            program.places.places.iter().map(|place| (place.uid, place.offset)).collect();
        let mut steps = Vec::with_capacity(program.kernels.len());
        for kernel in &program.kernels {
            let Some(module) = &module else { continue };
            if kernel.arguments.len() > MAX_TENSORS {
                return Err(PluginError::internal(format!("{} has too many arguments", kernel.name)));
            }
            let arguments = kernel.arguments.iter().map(|argument| match *argument {
                Argument::Memory { uid, alignment } => match places.get(&uid) {
                    Some(offset) if program.unmarked.contains(&uid) => {
                        Slot::Unmarked(uid, alignment, *offset)
                    }
                    Some(offset) => Slot::Workspace(*offset),
                    None => Slot::Bound(uid, alignment),
                },
                Argument::Number { uid, data_type } => Slot::Number(uid, data_type),
            });
            steps.push(Step {
                function: module.function(&kernel.name)?,
                arguments: arguments.collect(),
                grid: kernel.grid,
                block: kernel.block,
            });
        }
        let memory = PlanMemory::new(device.gpu()?, workspace(&program)?);
        memory.make_first()?;
        Ok(Self {
            graph: original.clone(),
            config,
            steps,
            code,
            platform,
            device: device.number,
            memory,
            _module: module,
        })
    }

    /// The plan as bytes: the configuration, the code object, and the graph.
    ///
    /// # Errors
    /// When a part is larger than the form allows.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        PAYLOAD.write(&[
            &wire::write_engine_config(&self.config),
            &self.code,
            &wire::write(&self.graph, Layout::G2)?,
        ])
    }

    /// Whose devices the plan is for.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// Bytes of device memory that callers of [`Plan::execute`] are asked for, at any address.
    pub fn workspace_size(&self) -> usize {
        self.memory.workspace_size()
    }

    /// Puts the work of the graph on the stream of `entered`. Returns when the driver has taken it, not when it is done.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing or not aligned, or the driver fails.
    ///
    /// # Safety
    /// The buffers are device memory (host memory where a tensor is passed by value at execution), valid for their tensors
    /// until the work is done, and `workspace` is null or valid for [`Plan::workspace_size`] bytes as long.
    pub unsafe fn execute(
        &self,
        entered: &Entered<'_>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        same_device(self.device, entered.device.number)?;
        self.memory.run(workspace, entered.stream, |[virtuals, _]| {
            // SAFETY: as promised by the caller.
            self.steps.iter().try_for_each(|step| unsafe { step.run(entered, buffers, virtuals) })
        })
    }
}

impl Step {
    /// Puts the kernel on the stream, with the virtual tensors from this address on.
    ///
    /// # Safety
    /// As for [`Plan::execute`].
    unsafe fn run(
        &self,
        entered: &Entered<'_>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        virtuals: *mut c_void,
    ) -> Result<(), PluginError> {
        let mut words = [0_u64; MAX_TENSORS];
        let mut parameters = [std::ptr::null_mut(); MAX_TENSORS];
        let place = |offset: usize| virtuals.wrapping_byte_add(offset).expose_provenance() as u64;
        for ((word, parameter), slot) in words.iter_mut().zip(&mut parameters).zip(&self.arguments) {
            *word = match *slot {
                Slot::Bound(uid, alignment) => {
                    let pointer = buffer(buffers, uid)?;
                    entered.device.check_memory(uid, pointer)?;
                    aligned(uid, pointer, alignment)?
                }
                Slot::Workspace(offset) => place(offset),
                Slot::Unmarked(uid, alignment, offset) => match bound(buffers, uid) {
                    Some(pointer) => aligned(uid, pointer, alignment)?,
                    None => place(offset),
                },
                Slot::Number(uid, data_type) => {
                    let pointer = buffer(buffers, uid)?;
                    // SAFETY: the caller vouches for the host memory of what is passed by value.
                    unsafe { number(pointer, data_type) }.to_bits()
                }
            };
            *parameter = std::ptr::from_mut(word).cast();
        }
        // SAFETY: the module is alive with the plan, and the arguments are those that the kernel was written with, each of
        // eight bytes; the caller vouches for the memory.
        unsafe {
            entered.device.driver.launch(
                self.function,
                self.grid,
                self.block,
                entered.stream,
                &mut parameters,
            )
        }
    }
}

/// The address of a tensor's memory as an argument of a kernel.
fn aligned(uid: i64, pointer: *mut c_void, alignment: usize) -> Result<u64, PluginError> {
    if !pointer.addr().is_multiple_of(alignment) {
        return Err(PluginError::bad_param(format!(
            "the buffer of tensor {uid} is at {pointer:?}, expected a multiple of {alignment}"
        )));
    }
    Ok(pointer.expose_provenance() as u64)
}

/// An element in host memory.
///
/// # Safety
/// `pointer` is valid for an element of the type.
unsafe fn number(pointer: *mut c_void, data_type: DataType) -> f64 {
    // SAFETY: the caller vouches for the memory, of which no alignment is asked.
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
            // No kernel takes another type.
            _ => f64::NAN,
        }
    }
}
