//! A graph as compiled kernels, and what each is passed.

use std::borrow::Cow;
use std::ffi::c_void;

use half::{bf16, f16};
use hipdnn_plugin_planner::plan::{self, Call};
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::gpu::check_alignment;
use hipdnn_plugin_sdk::gpu::handle::Entered;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::{PluginError, Refusal, log};

use crate::cache::Cache;
use crate::handle::{Platform, Target};
use crate::knob::options;
use crate::module::{Driver, Function, Module};
use crate::source::generate_with;
use crate::source::group::MAX_TENSORS;
use crate::source::kernel::Argument;

/// The form of saved plans.
pub const PAYLOAD: Payload = Payload { mark: *b"HRTP", version: 1, owner: "an engine of generated kernels" };

/// Code of a saved plan: the source and the architecture that it was compiled for and from, and the code object.
const CODE: Payload = Payload { mark: *b"HRTO", version: 1, owner: "an engine of generated kernels" };

/// A graph with compiled kernels.
#[derive(Debug)]
pub struct Plan {
    plan: plan::Plan<Step>,
    /// Empty where there is nothing to compute.
    code: Vec<u8>,
    platform: Platform,
    /// Behind the functions of the steps; last, so that it is dropped last.
    _module: Option<Module>,
}

/// A kernel that is ready to be started.
#[derive(Debug)]
struct Step {
    compiler: &'static str,
    name: String,
    nodes: Vec<usize>,
    function: Function,
    arguments: Box<[Argument]>,
    grid: u32,
    block: u32,
}

impl Call for Step {
    fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    fn library(&self) -> &'static str {
        self.compiler
    }

    fn call(&self) -> Cow<'static, str> {
        format!("{}, {} x {} threads", self.name, self.grid, self.block).into()
    }
}

/// The code object of a saved plan, where it is of this source and for this architecture.
fn saved_code(saved: &[u8], source: &str, architecture: &str) -> Option<Vec<u8>> {
    let [of, for_, code] = CODE.read(saved).ok()?;
    (of == source.as_bytes() && for_ == architecture.as_bytes() && !code.is_empty()).then(|| code.to_vec())
}

/// A code object on the device: the saved one, the one in the cache, or a new one.
fn load(
    platform: Platform,
    target: &Target,
    source: &str,
    saved: &[u8],
) -> Result<(Module, Vec<u8>), PluginError> {
    let Target { driver, architecture } = target;
    if let Some(code) = saved_code(saved, source, architecture)
        && let Ok(module) = Module::load(*driver, &code)
    {
        return Ok((module, code));
    }
    let compiler = platform.compiler()?;
    let key = format!("{}\n{}\n{architecture}\n{source}", compiler.name()?, compiler.options.join(" "));
    let cache = Cache::from_environment();
    if let Some(code) = cache.as_ref().and_then(|cache| cache.find(&key))
        && let Ok(module) = Module::load(*driver, &code)
    {
        return Ok((module, code));
    }
    let code = compiler.compile(source, architecture)?;
    let module = Module::load(*driver, &code)?;
    if let Some(Err(reason)) = cache.map(|cache| cache.store(&key, &code)) {
        log::warn(format!("compiled kernels are not kept: {reason}"));
    }
    Ok((module, code))
}

impl Plan {
    /// Plans a graph, with the code of a saved plan where that fits.
    ///
    /// # Errors
    /// What the engine does not compute, and the errors of the driver and the compiler.
    pub fn new(
        platform: Platform,
        entered: &Entered<'_, Target>,
        request: Request,
        saved: &[u8],
    ) -> Result<Self, PluginError> {
        let target = &entered.device.own;
        let program = generate_with(&request.graph, options(&request.config.knobs)).map_err(Refusal::new)?;
        let (module, code) = if program.kernels.is_empty() {
            (None, Vec::new())
        } else {
            let source = program.source(platform.language());
            let (module, code) = load(platform, target, &source, saved)?;
            (Some(module), CODE.write(&[source.as_bytes(), target.architecture.as_bytes(), &code])?)
        };
        let mut steps = Vec::with_capacity(program.kernels.len());
        for kernel in program.kernels {
            let Some(module) = &module else { continue };
            steps.push(Step {
                compiler: match platform {
                    Platform::Hip => "hipRTC",
                    Platform::Cuda => "NVRTC",
                },
                function: module.function(&kernel.name)?,
                name: kernel.name,
                nodes: kernel.nodes,
                arguments: kernel.arguments.into(),
                grid: kernel.grid,
                block: kernel.block,
            });
        }
        let plan = plan::Plan::new(entered.device, request, steps, program.placed, 0)?.with_memory()?;
        Ok(Self { plan, code, platform, _module: module })
    }

    /// The plan as bytes.
    ///
    /// # Errors
    /// When a part is larger than the form allows.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        PAYLOAD.write_plan(self.plan.request(), &self.code)
    }

    /// What an execution does: the generated kernels.
    pub fn describe(&self) -> Option<Vec<hipdnn_plugin_sdk::Step>> {
        self.plan.describe()
    }

    /// Whose devices the plan is for.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// Bytes of device memory that callers of [`Plan::execute`] are asked for, at any address.
    pub fn workspace_size(&self) -> usize {
        self.plan.workspace_size()
    }

    /// Puts the work of the graph on the stream of `entered`. Returns when the driver has taken it, not when it is done.
    ///
    /// # Errors
    /// When the handle is another device's, a buffer is missing or not aligned, or the driver fails.
    ///
    /// # Safety
    /// As for [`plan::Plan::execute`].
    pub unsafe fn execute(
        &self,
        entered: &Entered<'_, Target>,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let Entered { device, stream, .. } = entered;
        let run = |step: &Step, tensors: &[*mut c_void], _| {
            // SAFETY: the tensors are valid until the work is done, as this function requires; the module is alive with the plan.
            unsafe { step.run(device.own.driver, *stream, tensors) }
        };
        // SAFETY: the buffers and the workspace are valid until the work is done, as this function requires.
        unsafe { self.plan.execute(device, *stream, buffers, workspace, run) }
    }
}

impl Step {
    /// Puts the kernel on a stream.
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
                // SAFETY: the caller vouches for the host memory of what is passed by value.
                Argument::Number { data_type, .. } => unsafe { number(*pointer, data_type) }.to_bits(),
            };
            *parameter = std::ptr::from_mut(word).cast();
        }
        // SAFETY: the arguments are those that the kernel was written with, each of eight bytes; the caller vouches for the module
        // and the memory.
        unsafe { driver.launch(self.function, self.grid, self.block, stream, &mut parameters) }
    }
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
