//! Tensors in memory, element by element, for the reference kernels.

use crate::dtype::element::{Element, Real, is_float_of_eight_bits};
use crate::kernel::Refusal;
use crate::problem;
use crate::problem::batchnorm::{Parameter, Scalar};

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
pub(crate) struct Memory<R> {
    pub(crate) slot: usize,
    pub(crate) element: Element<R>,
}

impl<R> Clone for Memory<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Memory<R> {}

impl<R: Real> Memory<R> {
    pub(crate) fn of(argument: &str, operand: &problem::Operand) -> Result<Self, Refusal> {
        Ok(Self { slot: operand.slot, element: float_element(argument, operand.data_type)? })
    }

    /// The same for operations that take integers too.
    pub(crate) fn of_numbers(argument: &str, operand: &problem::Operand) -> Result<Self, Refusal> {
        let element = Element::of(operand.data_type).map_err(|refusal| format!("{argument}: {refusal}"))?;
        Ok(Self { slot: operand.slot, element })
    }

    /// Binds the pointer of a run.
    ///
    /// # Safety
    /// `tensors` has the pointers that the kernel was planned for; until the view is dropped, they stay valid for the extent
    /// of the tensor.
    pub(crate) unsafe fn bind(&self, tensors: &[*mut u8]) -> View<R> {
        // SAFETY: a pointer for every tensor of the operation is valid, as this function requires.
        View { base: unsafe { *tensors.get_unchecked(self.slot) }, element: self.element }
    }
}

/// A tensor during a run.
pub(crate) struct View<R> {
    pub(crate) base: *mut u8,
    pub(crate) element: Element<R>,
}

impl<R: Real> View<R> {
    /// # Safety
    /// `offset` lies inside the tensor.
    pub(crate) unsafe fn get(&self, offset: usize) -> R {
        // SAFETY: the view is valid for the tensor's extent, and the caller promises that the offset lies inside.
        unsafe { self.element.load(self.base, offset) }
    }

    /// # Safety
    /// `offset` lies inside the tensor, which the kernel writes.
    pub(crate) unsafe fn set(&self, offset: usize, value: R) {
        // SAFETY: as in `get`; the kernel contract makes outputs writable.
        unsafe { self.element.store(self.base, offset, value) }
    }
}

/// One number for each channel.
pub(crate) struct Channels<R> {
    pub(crate) memory: Memory<R>,
    pub(crate) stride: usize,
}

impl<R: Real> Channels<R> {
    pub(crate) fn of(argument: &str, parameter: &Parameter) -> Result<Self, Refusal> {
        let element = float_element(argument, parameter.data_type)?;
        Ok(Self { memory: Memory { slot: parameter.slot, element }, stride: parameter.stride })
    }

    /// # Safety
    /// As for [`Memory::bind`]; `channel` is a channel of the operation.
    pub(crate) unsafe fn get(&self, tensors: &[*mut u8], channel: usize) -> R {
        // SAFETY: passed on; the parameter has an element for every channel.
        unsafe { self.memory.bind(tensors).get(channel * self.stride) }
    }

    /// # Safety
    /// As for [`Channels::get`], for a tensor that the kernel writes.
    pub(crate) unsafe fn set(&self, tensors: &[*mut u8], channel: usize, value: R) {
        // SAFETY: the function called requires what this one requires.
        unsafe { self.memory.bind(tensors).set(channel * self.stride, value) }
    }
}

/// A single number.
pub(crate) struct Single<R> {
    pub(crate) memory: Memory<R>,
}

impl<R: Real> Single<R> {
    pub(crate) fn of(argument: &str, scalar: &Scalar) -> Result<Self, Refusal> {
        let element = Element::of(scalar.data_type).map_err(|refusal| format!("{argument}: {refusal}"))?;
        Ok(Self { memory: Memory { slot: scalar.slot, element } })
    }

    /// # Safety
    /// As for [`Memory::bind`].
    pub(crate) unsafe fn get(&self, tensors: &[*mut u8]) -> R {
        // SAFETY: passed on; a scalar has its only element at offset 0.
        unsafe { self.memory.bind(tensors).get(0) }
    }
}
