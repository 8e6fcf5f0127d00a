//! One or more nodes of a graph as calls of MIOpen.
//!
//! A [`Design`] is made from the graph alone, so that an engine can decide whether it applies without
//! touching a device. It creates a [`Step`], which holds all MIOpen objects.

pub mod activation;
pub mod batchnorm;
mod choice;
pub mod convolution;
pub mod fusion;
pub mod normalization;
pub mod pooling;
pub mod reduction;
pub mod softmax;
pub mod tensor_op;

pub use choice::design;

use std::ffi::c_void;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::batchnorm::Scalar;
use hipdnn_plugin_planner::problem::named_tensors;
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation};

use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::Miopen;

/// The computation of one step, ready to run.
pub trait Step: Send + Sync {
    /// The MIOpen function that does most of the work.
    fn call(&self) -> &'static str;

    /// Bytes of device memory for a run.
    fn workspace_size(&self) -> usize {
        0
    }

    /// Results that are expensive to recompute, for [`Design::make`] in another process; empty if there are
    /// none.
    fn saved(&self) -> &[u8] {
        &[]
    }

    /// Queues the work on the stream.
    ///
    /// # Errors
    /// MIOpen's and HIP's.
    ///
    /// # Safety
    /// `tensors` are the operation's tensors in the order of `Operation::tensors`, each valid for its extent until the work
    /// is done, and `workspace` for [`Step::workspace_size`] bytes.
    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError>;
}

/// The description of a step, made without a device.
pub trait Design {
    /// Checks that this MIOpen has every function that the step needs.
    ///
    /// # Errors
    /// The first one that it lacks.
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        let _ = miopen;
        Ok(())
    }

    /// Creates the MIOpen objects of the step. `saved` is the result of [`Step::saved`], or empty.
    ///
    /// # Errors
    /// MIOpen's, or that it cannot compute the node.
    fn make(&self, ready: &Ready<'_>, options: &Options, saved: &[u8]) -> Result<Box<dyn Step>, PluginError>;
}

/// Fails for the first missing function.
///
/// # Errors
/// As [`missing`].
pub(crate) fn require(functions: &[(&str, bool)]) -> Result<(), PluginError> {
    functions.iter().find(|(_, is_there)| !is_there).map_or(Ok(()), |(name, _)| Err(missing(name)))
}

/// The error for a MIOpen that is too old for an operation.
pub(crate) fn missing(function: &str) -> PluginError {
    PluginError::not_applicable(format!("this MIOpen has no {function}"))
}

/// The addresses of a node's tensors.
pub struct Tensors<'a>(pub &'a [*mut c_void]);

impl Tensors<'_> {
    /// The address in this slot; null if there is none, which MIOpen refuses.
    #[inline]
    pub fn at(&self, slot: usize) -> *mut c_void {
        self.0.get(slot).copied().unwrap_or_default()
    }

    /// The address in an optional slot.
    #[inline]
    pub fn at_optional(&self, slot: Option<usize>) -> *mut c_void {
        slot.map_or(std::ptr::null_mut(), |slot| self.at(slot))
    }
}

/// A number that MIOpen reads from host memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostScalar {
    /// In the graph.
    Value(f64),
    /// The caller binds a host pointer at execution.
    Bound(Scalar),
}

impl HostScalar {
    /// The number in a scalar tensor of the operation.
    pub fn of(graph: &Graph, operation: &Operation, name: &str, scalar: Scalar) -> Result<Self, Refusal> {
        let tensor = named_tensors(operation).get(scalar.slot).and_then(|(_, uid)| graph.tensor(*uid));
        match tensor {
            Some(tensor) if tensor.is_runtime_pass_by_value => match scalar.data_type {
                DataType::Float | DataType::Double => Ok(Self::Bound(scalar)),
                other => Err(format!("{name}: data type is {}, expected float or double", other.name())),
            },
            Some(tensor) => match tensor.value.and_then(|value| value.as_f64()) {
                Some(value) => Ok(Self::Value(value)),
                None => Err(format!(
                    "{name}: is in device memory, expected a value in the graph or one that is passed at execution"
                )),
            },
            None => Err(format!("{name}: absent, expected a tensor")),
        }
    }

    /// The same number if the operation's tensors follow `by` others.
    pub fn moved(self, by: usize) -> Self {
        match self {
            Self::Value(value) => Self::Value(value),
            Self::Bound(scalar) => Self::Bound(Scalar { slot: scalar.slot + by, ..scalar }),
        }
    }

    /// The number for one execution.
    ///
    /// # Safety
    /// If it is bound, the pointer is to host memory of its type.
    pub unsafe fn read(&self, tensors: &Tensors<'_>) -> f64 {
        match self {
            Self::Value(value) => *value,
            Self::Bound(scalar) => {
                let pointer = tensors.at(scalar.slot);
                // SAFETY: this function requires host memory of the type, and plans refuse to bind null.
                unsafe {
                    match scalar.data_type {
                        DataType::Double => pointer.cast::<f64>().read_unaligned(),
                        _ => f64::from(pointer.cast::<f32>().read_unaligned()),
                    }
                }
            }
        }
    }
}

/// The factors that MIOpen takes by address.
pub(crate) static ONE: f32 = 1.0;
/// See [`ONE`].
pub(crate) static ZERO: f32 = 0.0;
/// See [`ONE`].
pub(crate) static MINUS_ONE: f32 = -1.0;

/// The address of a factor.
pub(crate) fn factor(value: &'static f32) -> *const c_void {
    (&raw const *value).cast()
}

#[cfg(test)]
mod tests;
