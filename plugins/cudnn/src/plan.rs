//! A graph as a sequence of library calls.

use std::borrow::Cow;
use std::ffi::c_void;

use hipdnn_plugin_planner::ahead::{self as planner_ahead, Ahead};
use hipdnn_plugin_planner::numerics::{Engine, LIBRARY, of_step};
use hipdnn_plugin_planner::plan::{self, Call, Found, Placed, StepTensors};
use hipdnn_plugin_planner::prepare::{Prepared, prepare};
use hipdnn_plugin_planner::shapes::Asked;
use hipdnn_plugin_planner::step::described;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::{Numerics, PluginError, Refusal};

use crate::ahead;
use crate::handle::{Handle, Ready, enter};
use crate::knob::Options;
use crate::knob::{CUBLASLT_ENGINE, CUDNN_ENGINE, LT};
use crate::lt::step::{Product, products};
use crate::part::{Part, parts};

/// The format of saved cuDNN plans.
pub const CUDNN_PLANS: Payload = Payload { mark: *b"CUDN", version: 2, owner: CUDNN_ENGINE };
/// The format of saved cuBLASLt plans.
pub const LT_PLANS: Payload = Payload { mark: *b"CULT", version: 2, owner: CUBLASLT_ENGINE };

/// cuDNN may compute tanh by `tanh.approx.f32`, which is off by 2⁻¹¹ of the result (PTX ISA).
const CUDNN: Engine = Engine { errors: [&[("tanh", 8192)], &[]], ..LIBRARY };

/// A complete plan.
#[derive(Debug)]
pub enum Plan {
    /// For a present device.
    Here(plan::Plan<Step>),
    /// For an absent device, with the plan as bytes.
    Ahead(Ahead, Vec<u8>),
}

impl Plan {
    /// Allocates the memory that the plan owns, for execution.
    ///
    /// # Errors
    /// The driver's.
    pub fn with_memory(self) -> Result<Self, PluginError> {
        match self {
            Self::Here(plan) => plan.with_memory().map(Self::Here),
            ahead => Ok(ahead),
        }
    }

    /// Bytes of workspace passed to an execution.
    pub fn workspace_size(&self) -> usize {
        match self {
            Self::Here(plan) => plan.workspace_size(),
            Self::Ahead(plan, _) => plan.workspace_size,
        }
    }

    /// Describes an execution.
    pub fn describe(&self) -> Option<Vec<hipdnn_plugin_sdk::Step>> {
        match self {
            Self::Here(plan) => plan.describe(),
            Self::Ahead(plan, _) => Some(plan.steps.clone()),
        }
    }
}

impl Plan {
    /// What it does to numbers.
    pub fn numerics(&self) -> Option<Numerics> {
        let mut all = Numerics::default();
        self.describe()?.iter().for_each(|step| all.add(&step.numerics));
        Some(all)
    }
}

impl Asked for Plan {
    fn request(&self) -> &Request {
        match self {
            Self::Here(plan) => plan.request(),
            Self::Ahead(plan, _) => &plan.request,
        }
    }

    fn finish(&self) {
        if let Self::Here(plan) = self {
            plan.finish();
        }
    }
}

/// A library call.
#[derive(Debug)]
pub enum Step {
    /// A part of the graph, computed by cuDNN.
    Part(Part),
    /// A matmul with its epilogue, computed by cuBLASLt.
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

    fn engine(&self) -> Engine {
        match self {
            Self::Part(_) => CUDNN,
            Self::Product(_) => LIBRARY,
        }
    }

    fn numerics(&self) -> Numerics {
        match self {
            Self::Part(part) => part.numerics(),
            Self::Product(product) => product.numerics.clone(),
        }
    }
}

/// Plans a graph for an engine. `saved` contains earlier results for it.
///
/// # Errors
/// What the engine does not support, and the libraries' own errors; they name the node.
pub fn plan(handle: &Handle, engine: usize, request: Request, saved: &Found) -> Result<Plan, PluginError> {
    if let Some(architecture) = planner_ahead::target("sm_")? {
        return plan_ahead(architecture, engine, request, saved);
    }
    let prepared = prepare(&request.graph).map_err(Refusal::new)?;
    let entered = enter(handle)?;
    let steps: Vec<Step> = if engine == LT {
        let options = Options::of_lt(&request.config.knobs);
        let products = products(&entered.device.own.device, &prepared, &options, saved)?;
        products.into_iter().map(|product| Step::Product(Box::new(product))).collect()
    } else {
        let options = Options::of_cudnn(&request.config.knobs);
        // Held until planning is complete: no other thread may use the cuDNN handle meanwhile.
        let mut ready = None;
        let maker = || Ok(ready.insert(Ready::new(&entered)?).maker);
        parts(maker, &prepared, &options, saved)?.into_iter().map(Step::Part).collect()
    };
    let (placed, scratch) = places(&prepared, &steps)?;
    plan::Plan::new(entered.device, request, steps, placed, scratch).map(Plan::Here)
}

/// The memory of the steps' tensors, and the scratch bytes of the largest step.
fn places(prepared: &Prepared, steps: &[Step]) -> Result<(Placed, usize), Refusal> {
    let tensors: Vec<StepTensors> = steps.iter().map(Step::tensors).collect();
    let placed = Placed::new(&prepared.graph, &prepared.unmarked, tensors.iter()).map_err(Refusal::new)?;
    let scratch = steps.iter().try_fold(0, |most, step| step.scratch().map(|own| own.max(most)))?;
    Ok((placed, scratch))
}

/// Plans a graph for an architecture whose device is not present.
fn plan_ahead(
    architecture: String,
    engine: usize,
    request: Request,
    saved: &Found,
) -> Result<Plan, PluginError> {
    if engine == LT {
        let reason =
            format!("cuBLASLt chooses its algorithms on a device: plan for {architecture} where one is");
        return Err(Refusal::new(reason).into());
    }
    let prepared = prepare(&request.graph).map_err(Refusal::new)?;
    let options = Options::of_cudnn(&request.config.knobs);
    // Alive until planning is complete.
    let mut absent = None;
    let maker = || Ok(absent.insert(ahead::Absent::new(&architecture)?).maker());
    let steps: Vec<Step> = parts(maker, &prepared, &options, saved)?.into_iter().map(Step::Part).collect();
    let (placed, scratch) = places(&prepared, &steps)?;
    let workspace_size = placed.workspace(scratch)?.asked();
    let bytes = save_steps(&request, steps.iter())?;
    let call =
        |step: &Step| (step.nodes().to_vec(), step.library(), format!("{} for {architecture}", step.call()));
    let mut told = described(&request.graph, steps.iter().map(call)).unwrap_or_default();
    for (told, step) in told.iter_mut().zip(&steps) {
        told.numerics = of_step(&prepared, step.nodes(), step.engine());
        told.numerics.add(&step.numerics());
    }
    let steps = told;
    Ok(Plan::Ahead(Ahead { architecture, request, workspace_size, steps }, bytes))
}

/// The plan as bytes.
///
/// # Errors
/// When a part exceeds the format's limit.
pub fn save(plan: &Plan) -> Result<Vec<u8>, PluginError> {
    match plan {
        Plan::Here(plan) => save_steps(plan.request(), plan.steps()),
        Plan::Ahead(_, bytes) => Ok(bytes.clone()),
    }
}

fn save_steps<'a>(request: &Request, steps: impl Iterator<Item = &'a Step>) -> Result<Vec<u8>, PluginError> {
    let mut found = Found::default();
    let mut form = CUDNN_PLANS;
    for step in steps {
        let bytes = match step {
            Step::Part(part) => part.save()?,
            Step::Product(product) => {
                form = LT_PLANS;
                product.save()
            }
        };
        found.add(step.nodes(), bytes);
    }
    form.write_plan(request, &found.write()?)
}

/// Whether kernels were compiled at run time for a plan on a present device.
pub fn is_runtime_compiled(plan: &Plan) -> bool {
    let compiles = |step: &Step| matches!(step, Step::Part(part) if part.is_runtime_compiled());
    matches!(plan, Plan::Here(plan) if plan.steps().any(compiles))
}

/// Queues a plan's work on the handle's stream. Returns when the library has accepted it, not when it is
/// done.
///
/// # Errors
/// When the handle is of another device, a buffer is missing or misaligned, or a library fails.
///
/// # Safety
/// As for [`plan::Plan::execute`].
pub unsafe fn execute(
    plan: &Plan,
    handle: &Handle,
    buffers: &[hipdnnPluginDeviceBuffer_t],
    workspace: *mut c_void,
) -> Result<(), PluginError> {
    let plan = match plan {
        Plan::Here(plan) => plan,
        Plan::Ahead(plan, _) => return Err(plan.refusal()),
    };
    let entered = enter(handle)?;
    let mut ready: Option<Ready> = None;
    let run = |step: &Step, tensors: &[*mut c_void], scratch| match step {
        Step::Part(part) => {
            let ready = match &mut ready {
                Some(ready) => ready,
                none => none.insert(Ready::on_stream(&entered)?),
            };
            // SAFETY: `execute` passes the plan's tensors, valid until the work is done, and a workspace with room for what the largest
            // step needs.
            unsafe { part.run(ready, tensors, scratch) }
        }
        // SAFETY: `execute` passes the plan's tensors, valid until the work is done, and a workspace with room for what the largest step
        // needs.
        Step::Product(product) => unsafe { product.run(tensors, scratch, entered.stream) },
    };
    // SAFETY: the buffers and the workspace are valid until the work is done, as this function requires.
    unsafe { plan.execute(entered.device, entered.stream, buffers, workspace, run) }
}
