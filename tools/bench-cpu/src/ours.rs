//! Our side of a case: plans of `CPU_ENGINE`, executed through the C interface.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use hipdnn::{
    Backend, Engine, EngineConfig, ExecutionPlan, Handle, KnobSetting, KnobValue, OperationGraph, VariantPack,
};
use hipdnn_tool::failure::{Failure, Result};

use crate::array::Array;
use crate::case::Case;

const ENGINE: &str = "CPU_ENGINE";

/// The knob that promises constant weights, which the peers know by themselves.
const PROMISE: &str = "constant_weights";

/// Plans with their memory.
pub struct Ours<'b> {
    handle: &'b Handle,
    plan: ExecutionPlan,
    /// The same without the promise; none without weights.
    unpromised: Option<ExecutionPlan>,
    binding: VariantPack,
    // The memory that the binding points to.
    arrays: Vec<(i64, Array)>,
    _workspace: Array,
    /// The time to choose the engine, make the plan and execute it once.
    pub first: Duration,
}

/// What a plan knows about the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    /// They are constant, so they are packed once, as at the peers.
    Promised,
    /// Nothing, so each execution packs them.
    Any,
}

/// The id of the engine.
pub fn engine(handle: &Handle) -> Result<i64> {
    let engines = handle.engines()?;
    let found = engines.iter().find(|engine| engine.name == ENGINE);
    found.map(|engine| engine.id).ok_or_else(|| Failure::work(format!("the library has no {ENGINE}")))
}

fn count(dims: &[i64]) -> usize {
    usize::try_from(dims.iter().product::<i64>()).unwrap_or(0)
}

/// The inputs of a case, by uid.
pub fn inputs(case: &Case) -> Vec<(i64, Array)> {
    let array = |input: &crate::case::Input| {
        let (len, seed) = (count(&input.dims), input.uid.unsigned_abs());
        let array = match &input.stored {
            None => Array::random(len, input.range, seed),
            Some(stored) => Array::integers(len, stored.data_type, seed),
        };
        (input.uid, array)
    };
    case.inputs.iter().map(array).collect()
}

impl<'b> Ours<'b> {
    /// Plans a case and executes it once.
    pub fn new(
        handle: &'b Handle,
        backend: &'b Backend,
        engine: i64,
        case: &Case,
        inputs: Vec<(i64, Array)>,
    ) -> Result<Self> {
        let graph = OperationGraph::from_json(backend, case.graph.json().as_bytes())?;
        graph.finalize(handle)?;
        let mut arrays = inputs;
        // Allocate results before the clock starts, to exclude the system's page faults.
        let outputs =
            case.outputs.iter().map(|output| (output.uid, Array::new(count(&output.dims), f32::NAN)));
        arrays.extend(outputs);
        let memory: Vec<(i64, *mut c_void)> =
            arrays.iter_mut().map(|(uid, array)| (*uid, array.pointer())).collect();

        let start = Instant::now();
        let engine = Engine::new(&graph, engine)?;
        let weighs = case.inputs.iter().any(|input| input.is_weight);
        let promise = KnobSetting { id: PROMISE.to_owned(), value: KnobValue::Int(1) };
        let promises = if weighs { std::slice::from_ref(&promise) } else { &[] };
        let plan = ExecutionPlan::new(&EngineConfig::new(&engine, promises)?)?;
        let room = |plan: &ExecutionPlan| -> Result<Array> {
            Ok(Array::new(plan.workspace_size()?.div_ceil(size_of::<f32>()).max(1), 0.0))
        };
        let mut workspace = room(&plan)?;
        let binding = VariantPack::new(backend, &memory, workspace.pointer())?;
        let mut made = Self {
            handle,
            plan,
            unpromised: None,
            binding,
            arrays,
            _workspace: workspace,
            first: Duration::ZERO,
        };
        made.run(Weights::Promised)?;
        made.first = start.elapsed();
        if weighs {
            let plan = ExecutionPlan::new(&EngineConfig::new(&engine, &[])?)?;
            if plan.workspace_size()? > made.plan.workspace_size()? {
                let mut workspace = room(&plan)?;
                made.binding = VariantPack::new(backend, &memory, workspace.pointer())?;
                made._workspace = workspace;
            }
            made.unpromised = Some(plan);
        }
        Ok(made)
    }

    /// The variants to execute, the main one first.
    pub fn ways(&self) -> &'static [Weights] {
        if self.unpromised.is_some() { &[Weights::Promised, Weights::Any] } else { &[Weights::Promised] }
    }

    /// Executes it once.
    pub fn run(&self, weights: Weights) -> Result<()> {
        let plan = match (weights, &self.unpromised) {
            (Weights::Any, Some(plan)) => plan,
            _ => &self.plan,
        };
        // SAFETY: each array has its tensor's size, and the workspace the larger size of both plans.
        unsafe { plan.execute(self.handle, &self.binding) }.map_err(Failure::from)
    }

    /// Executes for some time. Returns the mean milliseconds of an execution.
    pub fn burst(&self, weights: Weights, length: Duration) -> Result<f64> {
        self.run(weights)?;
        let start = Instant::now();
        let mut count = 0_u32;
        loop {
            self.run(weights)?;
            count += 1;
            let passed = start.elapsed();
            if passed >= length {
                return Ok(1000.0 * passed.as_secs_f64() / f64::from(count));
            }
        }
    }

    /// The memory of a tensor.
    pub fn array(&self, uid: i64) -> Option<&Array> {
        self.arrays.iter().find(|(of, _)| *of == uid).map(|(_, array)| array)
    }
}
