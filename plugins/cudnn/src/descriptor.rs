//! Builds the objects of cuDNN's graph API from a lowered graph.

use std::ffi::{c_int, c_void};
use std::ptr;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::dynlib::Object;

use crate::cudnn::Cudnn;
use crate::lowering::{Described, Descriptor, Place, Tensor, Value};
use crate::names::{
    ATTR_OPERATIONGRAPH_HANDLE, ATTR_OPERATIONGRAPH_OPS, ATTR_TENSOR_BYTE_ALIGNMENT, ATTR_TENSOR_DATA_TYPE,
    ATTR_TENSOR_DIMENSIONS, ATTR_TENSOR_IS_BY_VALUE, ATTR_TENSOR_IS_VIRTUAL, ATTR_TENSOR_RAGGED_OFFSET_DESC,
    ATTR_TENSOR_STRIDES, ATTR_TENSOR_UNIQUE_ID, BACKEND_OPERATIONGRAPH_DESCRIPTOR, BACKEND_TENSOR_DESCRIPTOR,
    TYPE_BACKEND_DESCRIPTOR, TYPE_BOOLEAN, TYPE_DATA_TYPE, TYPE_DOUBLE, TYPE_FLOAT, TYPE_HANDLE, TYPE_INT32,
    TYPE_INT64,
};

/// A descriptor whose attributes can be set.
#[derive(Debug)]
pub struct Open {
    cudnn: &'static Cudnn,
    object: Object,
}

impl Open {
    /// Creates a descriptor of a kind.
    ///
    /// # Errors
    /// cuDNN's.
    pub fn new(cudnn: &'static Cudnn, kind: c_int) -> Result<Self, PluginError> {
        let mut object = ptr::null_mut();
        // SAFETY: the function writes only to the local `object`, and the new object is owned at once.
        let object = unsafe {
            let status = (cudnn.cudnnBackendCreateDescriptor)(kind, &mut object);
            cudnn.check_described("cudnnBackendCreateDescriptor", status)?;
            Object::new(object, cudnn.cudnnBackendDestroyDescriptor)
        };
        Ok(Self { cudnn, object })
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// cuDNN's, with the attribute's number.
    ///
    /// # Safety
    /// `T` is the type of the attribute type's elements.
    pub unsafe fn set<T>(&self, name: c_int, kind: c_int, elements: &[T]) -> Result<(), PluginError> {
        // SAFETY: the object is alive and not finalized, and the elements are as many as stated and of the attribute's type, as this
        // function requires.
        let status = unsafe {
            (self.cudnn.cudnnBackendSetAttribute)(
                self.object.get(),
                name,
                kind,
                elements.len() as i64,
                elements.as_ptr().cast(),
            )
        };
        self.cudnn
            .check_described("cudnnBackendSetAttribute", status)
            .map_err(|error| error.with_context(|text| format!("{text} (attribute {name})")))
    }

    /// Finalizes the descriptor.
    ///
    /// # Errors
    /// cuDNN's.
    pub fn finalize(self) -> Result<Object, PluginError> {
        // SAFETY: `self.object` owns the descriptor, which is destroyed only when it is dropped.
        let status = unsafe { (self.cudnn.cudnnBackendFinalize)(self.object.get()) };
        self.cudnn.check_described("cudnnBackendFinalize", status)?;
        Ok(self.object)
    }

    /// The descriptor as it is, if cuDNN itself finalized it.
    pub fn into_object(self) -> Object {
        self.object
    }
}

/// Gets at most as many elements of a finalized descriptor's attribute as `room` has; returns how many there
/// are.
///
/// # Errors
/// cuDNN's.
///
/// # Safety
/// `T` is the type of the attribute type's elements, and the descriptor is alive.
pub unsafe fn get<T>(
    cudnn: &Cudnn,
    object: *mut c_void,
    name: c_int,
    kind: c_int,
    room: &mut [T],
) -> Result<usize, PluginError> {
    let mut count = 0;
    let elements = if room.is_empty() { ptr::null_mut() } else { room.as_mut_ptr().cast() };
    // SAFETY: the function writes only to the local `count` and as many elements as `room` has; they are of the attribute's type and the
    // object is alive, as this function requires.
    let status = unsafe {
        (cudnn.cudnnBackendGetAttribute)(object, name, kind, room.len() as i64, &mut count, elements)
    };
    cudnn.check("cudnnBackendGetAttribute", status)?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// cuDNN's uid of the tensor at an index.
pub fn uid(place: usize) -> i64 {
    place as i64 + 1
}

/// The tensor at the next index. The offsets of a ragged tensor precede it.
fn tensor(cudnn: &'static Cudnn, before: &[Object], tensor: &Tensor) -> Result<Object, PluginError> {
    let open = Open::new(cudnn, BACKEND_TENSOR_DESCRIPTOR)?;
    let is_by_value = matches!(tensor.place, Place::Constant(_) | Place::Host(_));
    // SAFETY: the types are those of the attributes.
    unsafe {
        open.set(ATTR_TENSOR_DATA_TYPE, TYPE_DATA_TYPE, &[tensor.data_type])?;
        open.set(ATTR_TENSOR_DIMENSIONS, TYPE_INT64, &tensor.shape.dims)?;
        open.set(ATTR_TENSOR_STRIDES, TYPE_INT64, &tensor.shape.strides)?;
        open.set(ATTR_TENSOR_UNIQUE_ID, TYPE_INT64, &[uid(before.len())])?;
        open.set(ATTR_TENSOR_BYTE_ALIGNMENT, TYPE_INT64, &[tensor.alignment])?;
        open.set(ATTR_TENSOR_IS_VIRTUAL, TYPE_BOOLEAN, &[tensor.place == Place::Virtual])?;
        open.set(ATTR_TENSOR_IS_BY_VALUE, TYPE_BOOLEAN, &[is_by_value])?;
        if let Some(offsets) = tensor.offsets {
            let offsets =
                before.get(offsets).ok_or_else(|| PluginError::internal("a tensor without its offsets"))?;
            open.set(ATTR_TENSOR_RAGGED_OFFSET_DESC, TYPE_BACKEND_DESCRIPTOR, &[offsets.get()])?;
        }
    }
    open.finalize().map_err(|error| {
        error.with_context(|text| {
            format!(
                "{text} (a tensor of dims {:?} and strides {:?})",
                tensor.shape.dims, tensor.shape.strides
            )
        })
    })
}

fn object(
    cudnn: &'static Cudnn,
    described: &Descriptor,
    tensors: &[Object],
    inner: &mut Vec<Object>,
) -> Result<Object, PluginError> {
    let open = Open::new(cudnn, described.kind)?;
    for (name, value) in &described.attributes {
        // SAFETY: each variant has the type of its attribute type.
        unsafe {
            match value {
                Value::Tensor(place) => {
                    let tensor = tensors
                        .get(*place)
                        .ok_or_else(|| PluginError::internal("an operation without its tensor"))?;
                    open.set(*name, TYPE_BACKEND_DESCRIPTOR, &[tensor.get()])?;
                }
                Value::Integers(values) => open.set(*name, TYPE_INT64, values)?,
                Value::Counts(values) => open.set(*name, TYPE_INT32, values)?,
                Value::Number(kind, value) => open.set(*name, *kind, &[*value])?,
                Value::Double(bits) => open.set(*name, TYPE_DOUBLE, &[f64::from_bits(*bits)])?,
                Value::Float(bits) => open.set(*name, TYPE_FLOAT, &[f32::from_bits(*bits)])?,
                Value::Descriptor(described) => {
                    let made = object(cudnn, described, tensors, inner)?;
                    open.set(*name, TYPE_BACKEND_DESCRIPTOR, &[made.get()])?;
                    inner.push(made);
                }
            }
        }
    }
    open.finalize()
}

/// An operation graph with the objects it consists of.
#[derive(Debug)]
pub struct OperationGraph {
    /// The graph.
    pub graph: Object,
    _parts: Vec<Object>,
}

impl OperationGraph {
    /// Builds the operation graph of a lowered graph.
    ///
    /// # Errors
    /// cuDNN's reason if it refuses an object.
    ///
    /// # Safety
    /// `handle` is alive, if there is one.
    pub unsafe fn new(
        cudnn: &'static Cudnn,
        handle: Option<*mut c_void>,
        described: &Described,
    ) -> Result<Self, PluginError> {
        let (operations, mut parts) = operations(cudnn, described)?;
        let pointers: Vec<*mut c_void> = operations.iter().map(Object::get).collect();
        parts.extend(operations);
        let open = Open::new(cudnn, BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        // SAFETY: the types are those of the attributes, and the handle is alive, as this function requires.
        unsafe {
            open.set(ATTR_OPERATIONGRAPH_OPS, TYPE_BACKEND_DESCRIPTOR, &pointers)?;
            if let Some(handle) = handle {
                open.set(ATTR_OPERATIONGRAPH_HANDLE, TYPE_HANDLE, &[handle])?;
            }
        }
        Ok(Self { graph: open.finalize()?, _parts: parts })
    }
}

/// The operations of a graph, and the objects they consist of. Needs no device.
///
/// # Errors
/// cuDNN's reason if it refuses an object.
pub fn operations(
    cudnn: &'static Cudnn,
    described: &Described,
) -> Result<(Vec<Object>, Vec<Object>), PluginError> {
    let mut tensors = Vec::with_capacity(described.tensors.len());
    for described in &described.tensors {
        let made = tensor(cudnn, &tensors, described)?;
        tensors.push(made);
    }
    let mut parts = Vec::new();
    let operations = described
        .operations
        .iter()
        .map(|described| object(cudnn, described, &tensors, &mut parts))
        .collect::<Result<_, _>>()?;
    parts.extend(tensors);
    Ok((operations, parts))
}
