//! A graph as modules, what these are given, and where tensors are: what a plan compiles, and what saved plans keep.

use std::collections::HashMap;

use hipdnn_kernels::Target;
use hipdnn_kernels::form::Parameter;
use hipdnn_kernels::print::spirv::{self, Features, Spirv};
use hipdnn_kernels::target::MatrixShape;
use hipdnn_plugin_lowering::{Argument, Lowered, Options, Program, lower};
use hipdnn_plugin_planner::layout::{Layout, storage_size};
use hipdnn_plugin_planner::workspace::place_in_steps;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Tensor};
use hipdnn_plugin_sdk::{PluginError, Refusal};

use crate::bind::Binding;

/// What offsets between kernels are multiples of.
const ALIGNMENT: usize = 256;

/// Most bytes of parameters.
pub const PARAMETERS: usize = 8 * 256;

/// What is passed to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The address of a tensor that the program binds, by its place among them; checked for this alignment.
    Bound(usize, usize),
    /// An offset in the plan's own memory.
    Between(u64),
    /// An output that the program may leave out: as [`Slot::Bound`], or else at an offset in the plan's own memory.
    Unmarked(usize, usize, u64),
    /// A number in host memory, of this type.
    Number(i64, DataType),
}

/// A kernel as a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// The nodes that it computes.
    pub nodes: Vec<usize>,
    /// The module.
    pub module: Spirv,
    /// Workgroups along each axis.
    pub groups: [u32; 3],
    /// Threads of a workgroup.
    pub threads: u32,
    /// Its parameters.
    pub slots: Box<[Slot]>,
    /// Whether matrix instructions multiply.
    pub has_matrices: bool,
    /// The most parts that a sum is divided into.
    pub parts: u32,
}

/// A graph as modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The kernels in order.
    pub kernels: Vec<Kernel>,
    /// The tensors that programs bind.
    pub bindings: Vec<Binding>,
    /// Bytes of the tensors between kernels.
    pub between: u64,
}

impl Code {
    /// Writes the modules of a graph for a device.
    ///
    /// # Errors
    /// What the engine does not support.
    pub fn generate(
        graph: &Graph,
        target: &Target,
        features: &Features,
        options: Options,
    ) -> Result<Self, PluginError> {
        let program = lower(graph, target, options).map_err(Refusal::new)?;
        let steps: Vec<Vec<i64>> = program
            .kernels
            .iter()
            .map(|kernel| kernel.arguments.iter().map(Argument::uid).collect())
            .collect();
        let places =
            place_in_steps(&program.graph, &program.unmarked, steps.iter().map(Vec::as_slice), ALIGNMENT);
        let places = places.map_err(Refusal::new)?;
        let offsets: HashMap<i64, u64> =
            places.places.iter().map(|place| (place.uid, place.offset as u64)).collect();
        let mut placing = Placing { program: &program, offsets, bindings: Vec::new() };
        let mut kernels = Vec::with_capacity(program.kernels.len());
        for lowered in &program.kernels {
            let form = &lowered.written.kernel;
            let slots = placing.slots(lowered)?;
            if slots.len() * 8 > PARAMETERS {
                return Err(PluginError::not_applicable(format!("a kernel has {} parameters", slots.len())));
            }
            kernels.push(Kernel {
                name: form.name.clone(),
                nodes: lowered.nodes.clone(),
                module: spirv::print(form, features).map_err(Refusal::new)?,
                groups: lowered.written.groups,
                threads: form.threads,
                slots,
                has_matrices: form.shapes.iter().any(MatrixShape::is_matrix),
                parts: form.parts,
            });
        }
        Ok(Self { kernels, bindings: placing.bindings, between: places.size as u64 })
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

/// A tensor that programs bind, which no kernel reads or writes yet.
///
/// # Errors
/// When its size cannot be told.
pub fn new_binding(tensor: &Tensor, is_optional: bool) -> Result<Binding, String> {
    let layout = Layout::of(tensor)?;
    let bytes = storage_size(tensor.data_type, layout.extent())? as u64;
    // What lies between elements must keep its content, and what between sequences.
    let has_gaps = layout.extent() != layout.elements() || tensor.ragged_offset_uid.is_some();
    Ok(Binding { uid: tensor.uid, bytes, reads: false, writes: false, has_gaps, is_optional })
}
