//! A graph as a sequence of library calls.

use std::borrow::Cow;
use std::ffi::c_void;

use hipdnn_plugin_planner::numerics::{Engine, LIBRARY, of_amd, of_chain};
use hipdnn_plugin_planner::plan::{self, Call, Found, Placed, StepTensors};
use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::ffi::{HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::numerics::note;
use hipdnn_plugin_sdk::payload::{Payload, Request};
use hipdnn_plugin_sdk::{Numerics, PluginError, Refusal};

use crate::algorithm::{AlgorithmName, AlgorithmRun};
use crate::gemm::GemmRun;
use crate::handle::Ready;
use crate::knob::{Library, Options};
use crate::run::Run;
use hipdnn_plugin_planner::chain::{Chain, Part, is_small, partition};

/// The format of saved plans.
pub const PAYLOAD: Payload = Payload { mark: *b"HBLT", version: 2, owner: "HIPBLASLT_ENGINE" };

/// A complete plan.
pub type Plan = plan::Plan<Step>;

/// A chain with the call that computes it.
pub struct Step {
    part: Part,
    run: Box<dyn Run>,
    choice: Choice,
}

/// The choice for a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    library: Library,
    algorithm: AlgorithmName,
}

impl Choice {
    fn write(&self) -> Vec<u8> {
        let library = match self.library {
            Library::HipblasLt => 1,
            Library::Rocblas => 2,
        };
        std::iter::once(library).chain(self.algorithm).collect()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (library, algorithm) = bytes.split_first()?;
        let library = match library {
            1 => Library::HipblasLt,
            2 => Library::Rocblas,
            _ => return None,
        };
        Some(Self { library, algorithm: algorithm.try_into().ok()? })
    }

    /// The choice in a saved plan for the chain of these nodes.
    fn of(saved: &Found, nodes: &[usize]) -> Result<Option<Self>, PluginError> {
        let wrong =
            || PluginError::invalid_value("a saved choice names an unknown library or ends too early");
        saved.of(nodes).map(|bytes| Self::read(bytes).ok_or_else(wrong)).transpose()
    }
}

impl AsRef<Part> for Step {
    fn as_ref(&self) -> &Part {
        &self.part
    }
}

impl Call for Step {
    fn nodes(&self) -> &[usize] {
        &self.part.nodes
    }

    fn library(&self) -> &'static str {
        match self.choice.library {
            Library::HipblasLt => "hipBLASLt",
            Library::Rocblas => "rocBLAS",
        }
    }

    fn engine(&self) -> Engine {
        LIBRARY
    }

    fn numerics(&self) -> Numerics {
        let mut numerics = of_chain(&self.part.chain, false);
        // Taken back, so that the first sums are not added to ones that are not known.
        if numerics.notes.remove(&note::TENSOR_CORE) {
            for operand in [&self.part.chain.product.a, &self.part.chain.product.b] {
                numerics = numerics.matrix_sums(of_amd(operand.data_type));
            }
        }
        numerics
    }

    fn call(&self) -> Cow<'static, str> {
        match self.choice.library {
            Library::HipblasLt => "hipblasLtMatmul".into(),
            Library::Rocblas => "rocblas_gemm_strided_batched_ex".into(),
        }
    }
}

/// The call for a chain: as saved, else of the first library that supports it. The refusal states each
/// library's reason.
fn make(
    ready: &mut Ready<'_>,
    chain: &Chain,
    options: &Options,
    saved: Option<Choice>,
) -> Result<(Box<dyn Run>, Library, AlgorithmName), PluginError> {
    let mut reasons: Vec<PluginError> = Vec::new();
    let mut order = [Library::HipblasLt, Library::Rocblas];
    if saved.is_some_and(|choice| choice.library == Library::Rocblas) {
        order.reverse();
    }
    for library in order.into_iter().filter(|library| options.allows(*library)) {
        let made = match library {
            Library::HipblasLt => {
                AlgorithmRun::new(ready, chain, options, saved.map(|choice| choice.algorithm))
                    .map(|run| (run.name(), Box::new(run) as Box<dyn Run>))
            }
            Library::Rocblas => {
                GemmRun::new(ready, chain, options).map(|run| ([0; 16], Box::new(run) as Box<dyn Run>))
            }
        };
        match made {
            Ok((algorithm, run)) => return Ok((run, library, algorithm)),
            Err(error) => reasons.push(error),
        }
    }
    let failed = reasons.iter().any(|reason| reason.status() == HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR);
    let words: Vec<&str> = reasons.iter().map(PluginError::message).collect();
    let words = words.join("; ");
    Err(if failed { PluginError::internal(words) } else { PluginError::not_applicable(words) })
}

/// Plans a graph that [`check`](hipdnn_plugin_planner::chain::check) accepts. `saved` contains earlier
/// choices for it.
///
/// # Errors
/// What neither library supports, and the libraries' own errors; they name the node.
pub fn plan(
    ready: &mut Ready<'_>,
    request: Request,
    options: &Options,
    saved: &Found,
) -> Result<Plan, PluginError> {
    let prepared = prepare(&request.graph).map_err(Refusal::new)?;
    let steps = partition(&prepared, |part| {
        let factors = part.chain.product.a.data_type;
        if is_small(factors) {
            return Err(PluginError::not_applicable(format!(
                "a: data type is {}, expected float, half, bfloat16 or double",
                factors.name()
            )));
        }
        let saved = Choice::of(saved, &part.nodes)?;
        let (run, library, algorithm) = make(ready, &part.chain, options, saved)?;
        Ok(Step { part, run, choice: Choice { library, algorithm } })
    })?;
    let tensors: Vec<StepTensors> =
        steps.iter().map(|step| step.part.tensors.all().collect::<Vec<_>>().into()).collect();
    let placed = Placed::new(&prepared.graph, &prepared.unmarked, tensors.iter()).map_err(Refusal::new)?;
    let scratch = steps.iter().map(|step| step.run.workspace_size()).max().unwrap_or(0);
    Plan::new(ready.entered.device, request, steps, placed, scratch)
}

/// The plan as bytes.
///
/// # Errors
/// When a part exceeds the format's limit.
pub fn save(plan: &Plan) -> Result<Vec<u8>, PluginError> {
    let mut found = Found::default();
    for step in plan.steps() {
        found.add(&step.part.nodes, step.choice.write());
    }
    PAYLOAD.write_plan(plan.request(), &found.write()?)
}

/// Queues a plan's work on the stream of `ready`. Returns when the libraries have accepted it, not when it is
/// done.
///
/// # Errors
/// When the handle is of another device, a buffer is missing or a library fails.
///
/// # Safety
/// As for [`plan::Plan::execute`].
pub unsafe fn execute(
    plan: &Plan,
    ready: &mut Ready<'_>,
    buffers: &[hipdnnPluginDeviceBuffer_t],
    workspace: *mut c_void,
) -> Result<(), PluginError> {
    let (device, stream) = (ready.entered.device, ready.entered.stream);
    let run = |step: &Step, tensors: &[*mut c_void], scratch| {
        let tensors = step.part.tensors.filled(tensors);
        // SAFETY: `execute` passes the plan's tensors, valid until the work is done, and a workspace with room for the largest run.
        unsafe { step.run.run(ready, &tensors, scratch) }
    };
    // SAFETY: buffers and workspace are valid for the sizes of the plan.
    unsafe { plan.execute(device, stream, buffers, workspace, run) }
}

#[cfg(test)]
mod tests;
