//! A graph as calls of the libraries, in order.

use std::borrow::Cow;
use std::ffi::c_void;

use hipdnn_plugin_planner::plan::{self, Call, Found, Placed, StepTensors};
use hipdnn_plugin_planner::prepare::{Prepared, prepare};
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::handle::{Handle, Ready, enter};
use crate::knob::Options;
use crate::knob::{CUBLASLT_ENGINE, CUDNN_ENGINE, LT};
use crate::lt::step::{Product, products};
use crate::part::{Part, parts};

/// The form of saved plans of cuDNN's.
pub const CUDNN_PLANS: Payload = Payload { mark: *b"CUDN", version: 2, owner: CUDNN_ENGINE };
/// The form of those of cuBLASLt's.
pub const LT_PLANS: Payload = Payload { mark: *b"CULT", version: 2, owner: CUBLASLT_ENGINE };

/// A graph with every decision made.
pub type Plan = plan::Plan<Step>;

/// A call of a library.
#[derive(Debug)]
pub enum Step {
    /// A part of the graph, by cuDNN.
    Part(Part),
    /// A product of matrices with what follows it, by cuBLASLt.
    Product(Box<Product>),
}

impl Step {
    fn tensors(&self) -> StepTensors {
        match self {
            Self::Part(part) => part.tensors.clone().into(),
            Self::Product(product) => product.part.tensors.all().collect::<Vec<_>>().into(),
        }
    }

    fn scratch(&self) -> Result<usize, Refusal> {
        match self {
            Self::Part(part) => part.scratch(),
            Self::Product(product) => Ok(product.run.workspace_size()),
        }
    }
}

impl Call for Step {
    fn nodes(&self) -> &[usize] {
        match self {
            Self::Part(part) => &part.nodes,
            Self::Product(product) => &product.part.nodes,
        }
    }

    fn library(&self) -> &'static str {
        match self {
            Self::Part(_) => "cuDNN",
            Self::Product(_) => "cuBLASLt",
        }
    }

    fn call(&self) -> Cow<'static, str> {
        match self {
            Self::Part(_) => "cudnnBackendExecute".into(),
            Self::Product(_) => "cublasLtMatmul".into(),
        }
    }
}

/// Plans a graph for an engine. `saved` is what was once found out for it.
///
/// # Errors
/// What the engine does not compute, and the libraries' own errors; they name the node.
pub fn plan(handle: &Handle, engine: usize, request: Request, saved: &Found) -> Result<Plan, PluginError> {
    let prepared = prepare(&request.graph).map_err(Refusal::new)?;
    let Prepared { graph, unmarked, .. } = &prepared;
    let entered = enter(handle)?;
    let steps: Vec<Step> = if engine == LT {
        let options = Options::of_lt(&request.config.knobs);
        let products = products(&entered.device.own.device, &prepared, &options, saved)?;
        products.into_iter().map(|product| Step::Product(Box::new(product))).collect()
    } else {
        let options = Options::of_cudnn(&request.config.knobs);
        // Kept until all is planned: no other thread may use the handle of cuDNN's meanwhile.
        let mut ready = None;
        let maker = || Ok(ready.insert(Ready::new(&entered)?).maker);
        parts(maker, &prepared, &options, saved)?.into_iter().map(Step::Part).collect()
    };
    let tensors: Vec<StepTensors> = steps.iter().map(Step::tensors).collect();
    let placed = Placed::new(graph, unmarked, tensors.iter()).map_err(Refusal::new)?;
    let scratch = steps.iter().try_fold(0, |most, step| step.scratch().map(|own| own.max(most)))?;
    Plan::new(entered.device, request, steps, placed, scratch)
}

/// The plan as bytes.
///
/// # Errors
/// When a part is larger than the form allows.
pub fn save(plan: &Plan) -> Result<Vec<u8>, PluginError> {
    let mut found = Found::default();
    let mut form = CUDNN_PLANS;
    for step in plan.steps() {
        let bytes = match step {
            Step::Part(part) => part.save()?,
            Step::Product(product) => {
                form = LT_PLANS;
                product.save()
            }
        };
        found.add(step.nodes(), bytes);
    }
    form.write_plan(plan.request(), &found.write()?)
}

/// Whether kernels were compiled for a plan.
pub fn is_runtime_compiled(plan: &Plan) -> bool {
    plan.steps().any(|step| matches!(step, Step::Part(part) if part.is_runtime_compiled()))
}

/// Puts the work of a plan on the handle's stream. Returns when the library has taken it, not when it is done.
///
/// # Errors
/// When the handle is another device's, a buffer is missing or not aligned, or a library fails.
///
/// # Safety
/// As for [`plan::Plan::execute`].
pub unsafe fn execute(
    plan: &Plan,
    handle: &Handle,
    buffers: &[hipdnnPluginDeviceBuffer_t],
    workspace: *mut c_void,
) -> Result<(), PluginError> {
    let entered = enter(handle)?;
    let mut ready: Option<Ready> = None;
    let run = |step: &Step, tensors: &[*mut c_void], scratch| match step {
        Step::Part(part) => {
            let ready = match &mut ready {
                Some(ready) => ready,
                none => none.insert(Ready::on_stream(&entered)?),
            };
            // SAFETY: the caller vouches for the memory, and the workspace has room for what the largest step needs.
            unsafe { part.run(ready, tensors, scratch) }
        }
        // SAFETY: the caller vouches for the memory, and the workspace has room for what the largest step needs.
        Step::Product(product) => unsafe { product.run(tensors, scratch, entered.stream) },
    };
    // SAFETY: the buffers and the workspace are valid until the work is done, as this function requires.
    unsafe { plan.execute(entered.device, entered.stream, buffers, workspace, run) }
}
