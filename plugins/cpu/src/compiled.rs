//! A plan as the engines hand it out: with what it takes to save it, and to run it with other shapes.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::wire::{self, EngineConfig, Layout};
use hipdnn_plugin_sdk::{Overrides, PluginError, Refusal};

use crate::plan::Plan;
use crate::plugin::Planner;

/// How many plans for other shapes are kept, those that were used last.
const KEPT: usize = 8;

/// What a saved plan begins with, and the version of what follows.
const MAGIC: [u8; 4] = *b"HCPU";
const VERSION: u32 = 1;

/// A graph, how it was configured, and its plan.
pub struct Compiled {
    graph: Graph,
    config: EngineConfig,
    planner: Planner,
    plan: Plan,
    /// Plans for other shapes, the one that was used last first.
    others: Mutex<Vec<Other>>,
}

/// A plan of the graph with other shapes.
struct Other {
    shapes: Vec<Shape>,
    plan: Arc<Plan>,
}

/// The shape of a tensor in place of that of the graph.
struct Shape {
    uid: i64,
    dims: Vec<i64>,
    strides: Vec<i64>,
}

impl Other {
    fn is_for(&self, overrides: Overrides<'_>) -> bool {
        let same = |(own, other): (&Shape, hipdnn_plugin_sdk::Override<'_>)| {
            own.uid == other.uid && own.dims == other.dims && own.strides == other.strides
        };
        self.shapes.len() == overrides.len() && self.shapes.iter().zip(overrides.iter()).all(same)
    }
}

impl Compiled {
    /// Plans a graph.
    pub fn new(graph: &Graph, config: EngineConfig, planner: Planner) -> Result<Self, Refusal> {
        let plan = planner.plan(graph)?;
        Ok(Self { graph: graph.clone(), config, planner, plan, others: Mutex::default() })
    }

    /// The plan for the shapes of the graph.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the graph with other shapes. The first time with these shapes a plan is made for them, which is kept for the
    /// next times. Where they need more workspace than those of the graph, that is allocated for the time of the call.
    ///
    /// # Safety
    /// As for [`Plan::execute`]; the extents are those of the overrides, the workspace is that of the graph's own shapes.
    pub unsafe fn execute_with(
        &self,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        workspace: *mut u8,
        overrides: Overrides<'_>,
    ) -> Result<(), PluginError> {
        let plan = self.plan_for(overrides)?;
        let size = plan.workspace_size();
        let mut larger: Vec<MaybeUninit<u8>> = Vec::new();
        let workspace = if size > self.plan.workspace_size() {
            larger.try_reserve_exact(size).map_err(|_| {
                PluginError::alloc_failed(format!("there is no memory for {size} bytes of workspace"))
            })?;
            larger.as_mut_ptr().cast()
        } else {
            workspace
        };
        // SAFETY: the caller promises the buffers, and a workspace unless one was made that is large enough.
        unsafe { plan.execute(buffers, workspace) }.map_err(|error| PluginError::invalid_value(error.0))
    }

    /// The plan for other shapes.
    fn plan_for(&self, overrides: Overrides<'_>) -> Result<Arc<Plan>, PluginError> {
        // What is kept is whole at any time, also when a thread panicked.
        let others = || self.others.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut others = others();
            if let Some(place) = others.iter().position(|other| other.is_for(overrides)) {
                let front = others.get_mut(..=place).unwrap_or_default();
                front.rotate_right(1);
                if let Some(other) = front.first() {
                    return Ok(Arc::clone(&other.plan));
                }
            }
        }
        let mut graph = self.graph.clone();
        let mut shapes = Vec::with_capacity(overrides.len());
        for shape in overrides.iter() {
            let tensor = graph.tensors.iter_mut().find(|tensor| tensor.uid == shape.uid);
            let tensor = tensor.ok_or_else(|| {
                PluginError::invalid_value(format!(
                    "tensor {} has another shape and is not in the graph",
                    shape.uid
                ))
            })?;
            tensor.dims = shape.dims.to_vec();
            tensor.strides = shape.strides.to_vec();
            shapes.push(Shape { uid: shape.uid, dims: tensor.dims.clone(), strides: tensor.strides.clone() });
        }
        let plan = Arc::new(self.planner.plan(&graph).map_err(PluginError::invalid_value)?);
        let mut others = others();
        others.insert(0, Other { shapes, plan: Arc::clone(&plan) });
        others.truncate(KEPT);
        Ok(plan)
    }

    /// The plan as bytes: the graph and the configuration, of which the same plan is made again.
    pub fn save(&self) -> Result<Vec<u8>, PluginError> {
        let config = wire::write_engine_config(&self.config);
        let graph = wire::write(&self.graph, Layout::G2)?;
        let size = u32::try_from(config.len())
            .map_err(|_| PluginError::internal(format!("a configuration of {} bytes", config.len())))?;
        let mut body = Vec::with_capacity(size as usize + graph.len() + 4);
        body.extend(size.to_le_bytes());
        body.extend(config);
        body.extend(graph);
        let mut bytes = Vec::with_capacity(body.len() + 16);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(Fnv1a::new().add(&body).number().to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// The graph and the configuration of a saved plan.
    pub fn read(bytes: &[u8]) -> Result<(Graph, EngineConfig), PluginError> {
        let short = || PluginError::invalid_value(format!("the saved plan ends after {} bytes", bytes.len()));
        let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        if *magic != MAGIC {
            return Err(PluginError::invalid_value("the bytes are not a saved plan of the CPU engines"));
        }
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(PluginError::not_applicable(format!(
                "the saved plan is of version {version}, the CPU engines read version {VERSION}"
            )));
        }
        let (checksum, body) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        if Fnv1a::new().add(body).number() != u64::from_le_bytes(*checksum) {
            return Err(PluginError::invalid_value("the saved plan is damaged: its checksum is another one"));
        }
        let (size, rest) = body.split_first_chunk::<4>().ok_or_else(short)?;
        let (config, graph) = rest.split_at_checked(u32::from_le_bytes(*size) as usize).ok_or_else(short)?;
        Ok((wire::read(graph)?, wire::read_engine_config(config)?))
    }
}

#[cfg(test)]
mod tests;
