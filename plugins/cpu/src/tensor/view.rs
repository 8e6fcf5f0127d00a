//! Tensors element by element, whatever their dtype and strides.
//!
//! A [`View`] knows its tensor's extent: elements beyond it read as 0 and are never written.

use std::marker::PhantomData;

use hipdnn_plugin_planner::problem::attention::shape::Integers;
use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::{ComputeType, Element, is_float_of_eight_bits};
use crate::kernel::Refusal;
use crate::problem::Operand;
use crate::problem::batchnorm::{Parameter, Scalar};

/// The element of an operation's floating-point tensor of at least 8 bits.
pub(crate) fn float_element<R: ComputeType>(
    argument: &str,
    data_type: DataType,
) -> Result<Element<R>, Refusal> {
    use DataType::{Bfloat16, Double, Float, Half};
    if matches!(data_type, Float | Double | Half | Bfloat16) || is_float_of_eight_bits(data_type) {
        return Element::of(data_type);
    }
    let name = data_type.name();
    Err(format!(
        "{argument}: data type is {name}, expected float, double, half, bfloat16 or a float of 8 bits"
    ))
}

/// The element of any dtype.
fn any_element<R: ComputeType>(argument: &str, data_type: DataType) -> Result<Element<R>, Refusal> {
    Element::of(data_type).map_err(|refusal| format!("{argument}: {refusal}"))
}

/// The count of elements from the first to the last in memory.
fn extent(dims: &[usize], strides: &[usize]) -> usize {
    1 + dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>()
}

/// Offset of an element.
pub(crate) fn offset(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(index, stride)| index * stride).sum()
}

/// The sum in double precision; an empty sum is 0, not -0 as with [`Iterator::sum`].
pub(crate) fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// The tensors of a run.
#[derive(Clone, Copy)]
pub(crate) struct Pointers<'a>(&'a [*mut u8]);

impl<'a> Pointers<'a> {
    /// # Safety
    /// As for [`Kernel::run`](crate::kernel::Kernel::run), for the kernel whose [`Memory`] is bound: each pointer is
    /// valid for the extent of its tensor while `'a` lasts.
    pub(crate) unsafe fn new(pointers: &'a [*mut u8]) -> Self {
        Self(pointers)
    }

    /// An integer, or 0 if the tensor has none at this index.
    pub(crate) fn integer(self, integers: &Integers, index: [usize; 2]) -> i64 {
        let at = offset(&index, &integers.strides);
        let is_inside = at < extent(&integers.dims, &integers.strides);
        debug_assert!(is_inside);
        let Some(base) = self.0.get(integers.slot).filter(|_| is_inside) else { return 0 };
        // SAFETY: the pointer is valid for the tensor's extent, as `Pointers::new` requires, and `at` is below it.
        unsafe {
            match integers.data_type {
                DataType::Int64 => base.cast::<i64>().add(at).read_unaligned(),
                _ => i64::from(base.cast::<i32>().add(at).read_unaligned()),
            }
        }
    }
}

/// A tensor that a kernel reads or writes: its pointer's slot, its extent, and the conversion of its elements.
pub(crate) struct Memory<R> {
    slot: usize,
    extent: usize,
    element: Element<R>,
}

impl<R> Clone for Memory<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Memory<R> {}

impl<R: ComputeType> Memory<R> {
    /// A floating-point tensor.
    pub(crate) fn of(argument: &str, operand: &Operand) -> Result<Self, Refusal> {
        let element = float_element(argument, operand.data_type)?;
        Ok(Self { slot: operand.slot, extent: operand.layout.extent(), element })
    }

    /// A tensor of any dtype.
    pub(crate) fn of_any(argument: &str, operand: &Operand) -> Result<Self, Refusal> {
        let element = any_element(argument, operand.data_type)?;
        Ok(Self { slot: operand.slot, extent: operand.layout.extent(), element })
    }

    /// A tensor of bytes.
    pub(crate) fn of_bytes(slot: usize, dims: &[usize], strides: &[usize]) -> Result<Self, Refusal> {
        Ok(Self { slot, extent: extent(dims, strides), element: Element::of(DataType::Uint8)? })
    }

    pub(crate) fn of_scalar(argument: &str, scalar: &Scalar) -> Result<Self, Refusal> {
        Ok(Self { slot: scalar.slot, extent: 1, element: any_element(argument, scalar.data_type)? })
    }

    /// Binds the tensor to its pointer in a run.
    pub(crate) fn bind<'a>(&self, tensors: Pointers<'a>) -> View<'a, R> {
        let base = tensors.0.get(self.slot).copied();
        let extent = base.map_or(0, |_| self.extent);
        View { base: base.unwrap_or(std::ptr::null_mut()), extent, element: self.element, run: PhantomData }
    }

    pub(crate) fn get(&self, tensors: Pointers<'_>, offset: usize) -> R {
        self.bind(tensors).get(offset)
    }

    pub(crate) fn set(&self, tensors: Pointers<'_>, offset: usize, value: R) {
        self.bind(tensors).set(offset, value);
    }
}

/// A tensor during a run.
pub(crate) struct View<'a, R> {
    base: *mut u8,
    extent: usize,
    element: Element<R>,
    run: PhantomData<Pointers<'a>>,
}

impl<R: ComputeType> View<'_, R> {
    pub(crate) fn get(&self, offset: usize) -> R {
        debug_assert!(offset < self.extent);
        if offset >= self.extent {
            return R::ZERO;
        }
        // SAFETY: the pointer is valid for the tensor's extent, as `Pointers::new` requires, and the offset is below it.
        unsafe { self.element.load(self.base, offset) }
    }

    /// Kernels call this only for their outputs.
    pub(crate) fn set(&self, offset: usize, value: R) {
        debug_assert!(offset < self.extent);
        if offset < self.extent {
            // SAFETY: the pointer is valid for the tensor's extent, the offset is below it, and kernels call this only for
            // outputs.
            unsafe { self.element.store(self.base, offset, value) }
        }
    }
}

/// A tensor broadcast to `N` dimensions, with stride 0 along those in which it repeats.
pub(crate) struct Spread<R, const N: usize> {
    pub(crate) memory: Memory<R>,
    pub(crate) strides: [usize; N],
}

impl<R: ComputeType, const N: usize> Spread<R, N> {
    /// A floating-point tensor broadcast to these dimensions.
    pub(crate) fn of(
        argument: &str,
        (slot, data_type): (usize, DataType),
        dims: &[usize],
        strides: [usize; N],
    ) -> Result<Self, Refusal> {
        let element = float_element(argument, data_type)?;
        Ok(Self { memory: Memory { slot, extent: extent(dims, &strides), element }, strides })
    }

    pub(crate) fn get(&self, tensors: Pointers<'_>, index: [usize; N]) -> R {
        self.memory.get(tensors, offset(&index, &self.strides))
    }

    pub(crate) fn set(&self, tensors: Pointers<'_>, index: [usize; N], value: R) {
        self.memory.set(tensors, offset(&index, &self.strides), value);
    }
}

impl<R: ComputeType> Spread<R, 1> {
    /// A tensor with one value per channel.
    pub(crate) fn of_channels(
        argument: &str,
        parameter: &Parameter,
        channels: usize,
    ) -> Result<Self, Refusal> {
        Self::of(argument, (parameter.slot, parameter.data_type), &[channels], [parameter.stride])
    }
}
