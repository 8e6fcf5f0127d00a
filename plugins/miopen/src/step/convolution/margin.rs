//! Pads images in the workspace. MIOpen itself only pads symmetrically.

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
    /// The image within the larger one: its dims, and the larger one's strides.
    inside: Shape,
    /// The larger one as a single row.
    whole: Shape,
    /// Offset of the image's first element in bytes.
    offset: usize,
    /// Size of the larger one in bytes.
    size: usize,
}

impl Margin {
    /// The image inside `padded`, with `front` additional elements before each dimension.
    ///
    /// # Errors
    /// When a number exceeds MIOpen's integer type.
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

    /// Creates the MIOpen objects for copies.
    ///
    /// # Errors
    /// MIOpen's, or that it lacks these copies.
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

/// Copies between an image and its padded version.
pub struct MarginStep {
    image: Object,
    inside: Object,
    whole: Object,
    offset: usize,
    size: usize,
}

impl MarginStep {
    /// Bytes of workspace for the padded image, a multiple of [`ALIGNMENT`].
    pub fn size(&self) -> usize {
        self.size
    }

    /// Writes the padded image.
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
        // SAFETY: `padded` is valid for its size, as this function requires; a zero of any type consists of such bytes.
        let status = unsafe { fill(ready.handle(), self.whole.get(), padded, factor(&ZERO)) };
        miopen.check("miopenSetTensor", status)?;
        // SAFETY: both images are in memory of their descriptors' sizes, as this function requires.
        unsafe { self.copy(ready, [&self.image, &self.inside], image, padded.wrapping_byte_add(self.offset)) }
    }

    /// Copies the image out of the padded one.
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
    /// `from` and `to` are device memory of their descriptors, valid until the work is done.
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

/// Checks that this MIOpen has the functions for copies.
///
/// # Errors
/// The first function that it lacks.
pub fn check(miopen: &Miopen) -> Result<(), PluginError> {
    require(&[
        ("miopenSetTensor", miopen.miopenSetTensor.is_some()),
        ("miopenTransformTensor", miopen.miopenTransformTensor.is_some()),
    ])
}
