//! Kernels that do what the formulas say, one element after the other, in the compute type and for any strides.

mod attention;
mod batchnorm;
mod block_scale;
mod convolution;
mod matmul;
mod mixture;
mod normalization;
mod pointwise;
mod reduction;
mod resample;

pub(crate) use attention::{Lengths, Sequence, slope};
pub use pointwise::{Function, Numbers, function};

use hipdnn_plugin_sdk::graph::{Graph, Node};

use crate::dtype::element::{Compute, Element, Real, is_float_of_eight_bits};
use crate::kernel::{Kernel, Refusal};
use crate::problem;
use crate::problem::attention::{Attention, AttentionGradients};
use crate::problem::batchnorm::{Batchnorm, Parameter, Scalar};
use crate::problem::block_scale::BlockScale;
use crate::problem::convolution::Convolution;
use crate::problem::matmul::Matmul;
use crate::problem::mixture::{Mixture, MixtureGradient};
use crate::problem::normalization::Normalization;
use crate::problem::pointwise::Pointwise;
use crate::problem::reduction::Reduction;
use crate::problem::resample::Resample;

/// Plans one node of a graph that [`prepare`](crate::prepare::prepare) returned.
///
/// The refusal names the argument whose type is not supported, or what is wrong with the node.
pub fn plan_node(graph: &Graph, node: &Node) -> Result<Box<dyn Kernel>, Refusal> {
    match Compute::of(node.compute_type)? {
        Compute::Single => plan_in::<f32>(graph, node),
        Compute::Double => plan_in::<f64>(graph, node),
    }
}

fn plan_in<R: Real>(graph: &Graph, node: &Node) -> Result<Box<dyn Kernel>, Refusal> {
    let operation = &node.operation;
    if let Some(problem) = Convolution::of(graph, operation) {
        convolution::plan::<R>(problem?)
    } else if let Some(problem) = Batchnorm::of(graph, operation) {
        batchnorm::plan::<R>(problem?)
    } else if let Some(problem) = Pointwise::of(graph, operation) {
        pointwise::plan::<R>(problem?)
    } else if let Some(problem) = Attention::of(graph, operation) {
        attention::plan(&problem?)
    } else if let Some(problem) = AttentionGradients::of(graph, operation) {
        attention::plan_gradients(&problem?)
    } else if let Some(problem) = Mixture::of(graph, operation) {
        mixture::plan(&problem?)
    } else if let Some(problem) = MixtureGradient::of(graph, operation) {
        mixture::plan_gradient(&problem?)
    } else if let Some(problem) = Matmul::of(graph, operation) {
        matmul::plan::<R>(problem?)
    } else if let Some(problem) = Reduction::of(graph, operation) {
        reduction::plan::<R>(problem?)
    } else if let Some(problem) = Resample::of(graph, operation) {
        resample::plan::<R>(problem?)
    } else if let Some(problem) = Normalization::of(graph, operation) {
        normalization::plan::<R>(problem?)
    } else if let Some(problem) = BlockScale::of(graph, operation) {
        block_scale::plan(problem?)
    } else {
        Err("operation is not one that the reference computes".to_owned())
    }
}

/// The elements of an operand, for operations that want floating point tensors of at least 8 bits.
pub(crate) fn float_element<R: Real>(
    argument: &str,
    data_type: hipdnn_plugin_sdk::graph::DataType,
) -> Result<Element<R>, Refusal> {
    use hipdnn_plugin_sdk::graph::DataType::{Bfloat16, Double, Float, Half};
    match data_type {
        Float | Double | Half | Bfloat16 => Element::of(data_type),
        other if is_float_of_eight_bits(other) => Element::of(data_type),
        other => Err(format!(
            "{argument}: data type is {}, expected float, double, half, bfloat16 or a float of 8 bits",
            other.name()
        )),
    }
}

/// A tensor that a kernel reads or writes: which pointer, and how its elements become numbers.
struct Memory<R> {
    slot: usize,
    element: Element<R>,
}

impl<R> Clone for Memory<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Memory<R> {}

impl<R: Real> Memory<R> {
    fn of(argument: &str, operand: &problem::Operand) -> Result<Self, Refusal> {
        Ok(Self { slot: operand.slot, element: float_element(argument, operand.data_type)? })
    }

    /// The same for operations that take integers too.
    fn of_numbers(argument: &str, operand: &problem::Operand) -> Result<Self, Refusal> {
        let element = Element::of(operand.data_type).map_err(|refusal| format!("{argument}: {refusal}"))?;
        Ok(Self { slot: operand.slot, element })
    }

    /// Binds the pointer of a run.
    ///
    /// # Safety
    /// `tensors` has the pointers that the kernel was planned for; until the view is dropped, they stay valid for the extent
    /// of the tensor.
    unsafe fn bind(&self, tensors: &[*mut u8]) -> View<R> {
        // SAFETY: the caller promises a pointer for every tensor of the operation.
        View { base: unsafe { *tensors.get_unchecked(self.slot) }, element: self.element }
    }
}

/// A tensor during a run.
struct View<R> {
    base: *mut u8,
    element: Element<R>,
}

impl<R: Real> View<R> {
    /// # Safety
    /// `offset` lies inside the tensor.
    unsafe fn get(&self, offset: usize) -> R {
        // SAFETY: the view is valid for the tensor's extent, and the caller promises that the offset lies inside.
        unsafe { self.element.load(self.base, offset) }
    }

    /// # Safety
    /// `offset` lies inside the tensor, which the kernel writes.
    unsafe fn set(&self, offset: usize, value: R) {
        // SAFETY: as in `get`; the kernel contract makes outputs writable.
        unsafe { self.element.store(self.base, offset, value) }
    }
}

/// One number for each channel.
struct Channels<R> {
    memory: Memory<R>,
    stride: usize,
}

impl<R: Real> Channels<R> {
    fn of(argument: &str, parameter: &Parameter) -> Result<Self, Refusal> {
        let element = float_element(argument, parameter.data_type)?;
        Ok(Self { memory: Memory { slot: parameter.slot, element }, stride: parameter.stride })
    }

    /// # Safety
    /// As for [`Memory::bind`]; `channel` is a channel of the operation.
    unsafe fn get(&self, tensors: &[*mut u8], channel: usize) -> R {
        // SAFETY: passed on; the parameter has an element for every channel.
        unsafe { self.memory.bind(tensors).get(channel * self.stride) }
    }

    /// # Safety
    /// As for [`Channels::get`], for a tensor that the kernel writes.
    unsafe fn set(&self, tensors: &[*mut u8], channel: usize, value: R) {
        // SAFETY: passed on.
        unsafe { self.memory.bind(tensors).set(channel * self.stride, value) }
    }
}

/// A single number.
struct Single<R> {
    memory: Memory<R>,
}

impl<R: Real> Single<R> {
    fn of(argument: &str, scalar: &Scalar) -> Result<Self, Refusal> {
        let element = Element::of(scalar.data_type).map_err(|refusal| format!("{argument}: {refusal}"))?;
        Ok(Self { memory: Memory { slot: scalar.slot, element } })
    }

    /// # Safety
    /// As for [`Memory::bind`].
    unsafe fn get(&self, tensors: &[*mut u8]) -> R {
        // SAFETY: passed on; a scalar has its only element at offset 0.
        unsafe { self.memory.bind(tensors).get(0) }
    }
}
