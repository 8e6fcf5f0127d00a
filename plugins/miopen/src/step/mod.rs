//! One node of a graph, or several, as calls of MIOpen.
//!
//! A [`Design`] is made from the graph alone, so that an engine can say whether it applies without touching a device. It
//! makes a [`Step`], which has all of MIOpen's objects ready.

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

/// The computation of one node, ready to run.
pub trait Step: Send + Sync {
    /// The function of MIOpen's that does most of the work.
    fn call(&self) -> &'static str;

    /// Bytes of device memory that a run may use for itself.
    fn workspace_size(&self) -> usize {
        0
    }

    /// What it took long to find out, for [`Design::make`] in another process; empty where there is nothing.
    fn saved(&self) -> &[u8] {
        &[]
    }

    /// Puts the work on the stream.
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

/// What a step is to be, known without a device.
pub trait Design {
    /// Whether this MIOpen has every function that the step needs.
    ///
    /// # Errors
    /// The first one that it lacks.
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        let _ = miopen;
        Ok(())
    }

    /// Has MIOpen make what the step needs. `saved` is what [`Step::saved`] gave, or empty.
    ///
    /// # Errors
    /// MIOpen's, or that it has no way to compute the node.
    fn make(&self, ready: &Ready<'_>, options: &Options, saved: &[u8]) -> Result<Box<dyn Step>, PluginError>;
}

/// Fails for the first function that is not there.
///
/// # Errors
/// As [`missing`].
pub(crate) fn require(functions: &[(&str, bool)]) -> Result<(), PluginError> {
    functions.iter().find(|(_, is_there)| !is_there).map_or(Ok(()), |(name, _)| Err(missing(name)))
}

/// That this MIOpen is too old for an operation.
pub(crate) fn missing(function: &str) -> PluginError {
    PluginError::not_applicable(format!("this MIOpen has no {function}"))
}

/// The pointers of a node's tensors.
pub struct Tensors<'a>(pub &'a [*mut c_void]);

impl Tensors<'_> {
    /// The pointer in this slot; null where there is none, which MIOpen refuses.
    #[inline]
    pub fn at(&self, slot: usize) -> *mut c_void {
        self.0.get(slot).copied().unwrap_or_default()
    }

    /// The pointer in a slot that may be absent.
    #[inline]
    pub fn at_optional(&self, slot: Option<usize>) -> *mut c_void {
        slot.map_or(std::ptr::null_mut(), |slot| self.at(slot))
    }
}

/// A number that MIOpen takes from the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostScalar {
    /// The graph has it.
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

    /// The same number where the operation's tensors come after so many others.
    pub fn moved(self, by: usize) -> Self {
        match self {
            Self::Value(value) => Self::Value(value),
            Self::Bound(scalar) => Self::Bound(Scalar { slot: scalar.slot + by, ..scalar }),
        }
    }

    /// The number for one execution.
    ///
    /// # Safety
    /// Where it is bound, the pointer is to host memory of its type.
    pub unsafe fn read(&self, tensors: &Tensors<'_>) -> f64 {
        match self {
            Self::Value(value) => *value,
            Self::Bound(scalar) => {
                let pointer = tensors.at(scalar.slot);
                // SAFETY: the caller's; a plan checks that no bound pointer is null.
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
