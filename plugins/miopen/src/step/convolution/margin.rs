//! Zeros around an image, in the workspace. MIOpen itself pads by as much before as behind.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_sdk::PluginError;

use crate::handle::Ready;
use crate::miopen::Miopen;
use crate::object::Object;
use crate::operand::Shape;
use crate::step::{ONE, ZERO, factor, missing, require};
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;

/// An image inside a larger one that is zero around it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Margin {
    image: Shape,
    /// The image as a part of the larger one: its dims, and the strides of the larger one.
    inside: Shape,
    /// All of the larger one, in a row.
    whole: Shape,
    /// Bytes before the first element of the image.
    offset: usize,
    /// Bytes of the larger one.
    size: usize,
}

impl Margin {
    /// The image in `padded`, which has as many elements more before each dimension as `front` says.
    ///
    /// # Errors
    /// When a number is beyond what MIOpen takes.
    pub fn new(image: Shape, padded: &Shape, front: &[usize], element: usize) -> Result<Self, Refusal> {
        let too_large = || format!("x: dims {:?} with its padding are too large", padded.dims);
        let number = |value: &c_int| usize::try_from(*value).unwrap_or_default();
        let mut elements = 1_usize;
        for dim in &padded.dims {
            elements = elements.checked_mul(number(dim)).ok_or_else(too_large)?;
        }
        let in_a_row = c_int::try_from(elements).map_err(|_| too_large())?;
        let before: usize =
            front.iter().zip(&padded.strides).map(|(count, stride)| count * number(stride)).sum();
        Ok(Self {
            inside: Shape { strides: padded.strides.clone(), ..image.clone() },
            whole: Shape {
                data_type: image.data_type,
                dims: vec![1, 1, 1, in_a_row],
                strides: vec![in_a_row, in_a_row, in_a_row, 1],
            },
            image,
            offset: before * element,
            size: elements * element,
        })
    }

    /// What copies need of MIOpen.
    ///
    /// # Errors
    /// MIOpen's, or that it has no such copies.
    pub fn make(&self, miopen: &Miopen) -> Result<MarginStep, PluginError> {
        check(miopen)?;
        Ok(MarginStep {
            image: self.image.descriptor(miopen)?,
            inside: self.inside.descriptor(miopen)?,
            whole: self.whole.descriptor(miopen)?,
            offset: self.offset,
            size: self.size.next_multiple_of(ALIGNMENT),
        })
    }
}

/// Copies between an image and the one with zeros around it.
pub struct MarginStep {
    image: Object,
    inside: Object,
    whole: Object,
    offset: usize,
    size: usize,
}

impl MarginStep {
    /// Bytes of workspace of the image with its zeros, a multiple of [`ALIGNMENT`].
    pub fn size(&self) -> usize {
        self.size
    }

    /// Writes the image with zeros around it.
    ///
    /// # Errors
    /// MIOpen's.
    ///
    /// # Safety
    /// `image` is valid for the image, and `padded` for [`MarginStep::size`] bytes, until the work is done.
    pub unsafe fn pad(
        &self,
        ready: &Ready<'_>,
        image: *mut c_void,
        padded: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let fill = miopen.miopenSetTensor.ok_or_else(|| missing("miopenSetTensor"))?;
        // SAFETY: the caller vouches for the memory; a zero of any type is one of these bytes.
        let status = unsafe { fill(ready.handle(), self.whole.get(), padded, factor(&ZERO)) };
        miopen.check("miopenSetTensor", status)?;
        // SAFETY: both images are in memory of their descriptors' sizes, as this function requires.
        unsafe { self.copy(ready, [&self.image, &self.inside], image, padded.wrapping_byte_add(self.offset)) }
    }

    /// Copies the image out of the one with a margin.
    ///
    /// # Errors
    /// MIOpen's.
    ///
    /// # Safety
    /// As for [`MarginStep::pad`].
    pub unsafe fn cut(
        &self,
        ready: &Ready<'_>,
        padded: *mut c_void,
        image: *mut c_void,
    ) -> Result<(), PluginError> {
        // SAFETY: both images are in memory of their descriptors' sizes, as this function requires.
        unsafe { self.copy(ready, [&self.inside, &self.image], padded.wrapping_byte_add(self.offset), image) }
    }

    /// # Safety
    /// Both are valid for their descriptors.
    unsafe fn copy(
        &self,
        ready: &Ready<'_>,
        [from_descriptor, to_descriptor]: [&Object; 2],
        from: *mut c_void,
        to: *mut c_void,
    ) -> Result<(), PluginError> {
        let miopen = ready.runtime.miopen;
        let copy = miopen.miopenTransformTensor.ok_or_else(|| missing("miopenTransformTensor"))?;
        // SAFETY: both pointers are valid for their descriptors, as this function requires.
        let status = unsafe {
            copy(
                ready.handle(),
                factor(&ONE),
                from_descriptor.get(),
                from,
                factor(&ZERO),
                to_descriptor.get(),
                to,
            )
        };
        Ok(miopen.check("miopenTransformTensor", status)?)
    }
}

/// Whether this MIOpen has what copies need.
///
/// # Errors
/// The first function that it lacks.
pub fn check(miopen: &Miopen) -> Result<(), PluginError> {
    require(&[
        ("miopenSetTensor", miopen.miopenSetTensor.is_some()),
        ("miopenTransformTensor", miopen.miopenTransformTensor.is_some()),
    ])
}
