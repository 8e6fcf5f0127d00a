//! Copies attributes and tensors from ONNX Runtime.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;

use super::{Attribute, Constant, Element, Kept};
use crate::failure::Result;
use crate::ort::*;

/// Constants up to this size in bytes are copied: shapes, axes, scalars.
const SMALL: usize = 4096;

/// The node's attributes by name.
///
/// # Safety
/// The node belongs to a live graph.
pub(super) unsafe fn attributes(ort: Ort, node: *const OrtNode) -> Result<BTreeMap<String, Attribute>> {
    let api = ort.api;
    let raw = ort.array(
        "the attributes of a node",
        ptr::null(),
        // SAFETY: the node is alive, and the array has the given size.
        |count| unsafe { api.Node_GetNumAttributes(node, count) },
        // SAFETY: the node is alive, and the array has the given size.
        |items, count| unsafe { api.Node_GetAttributes(node, items, count) },
    )?;
    let mut attributes = BTreeMap::new();
    for attribute in raw.into_iter().filter(|attribute| !attribute.is_null()) {
        // SAFETY: the attribute is one of the node's, which this function requires to be alive.
        let name = ort.text("the name of an attribute", |to| unsafe { api.OpAttr_GetName(attribute, to) })?;
        // SAFETY: the attribute is of the node, which is alive.
        let value = unsafe { value(ort, attribute) }?;
        attributes.insert(name, value);
    }
    Ok(attributes)
}

/// The value of an attribute.
///
/// # Safety
/// The attribute belongs to a live node.
unsafe fn value(ort: Ort, attribute: *const OrtOpAttr) -> Result<Attribute> {
    let api = ort.api;
    // SAFETY: the attribute is alive during the call.
    let kind =
        match ort.value("the type of an attribute", 0, |to| unsafe { api.OpAttr_GetType(attribute, to) }) {
            Ok(kind) => kind,
            // Kinds that the interface has no number for.
            Err(_) => return Ok(Attribute::Other),
        };
    // SAFETY: the attribute is alive; the kinds are ONNX Runtime's numbers for the types that `read` requests.
    Ok(unsafe {
        match kind {
            1 => read::<i64>(ort, attribute, kind)?.first().map_or(Attribute::Other, |v| Attribute::Int(*v)),
            2 => Attribute::Ints(read(ort, attribute, kind)?),
            3 => {
                read::<f32>(ort, attribute, kind)?.first().map_or(Attribute::Other, |v| Attribute::Float(*v))
            }
            4 => Attribute::Floats(read(ort, attribute, kind)?),
            5 => words(ort, attribute, kind)?,
            6 => texts(ort, attribute, kind)?,
            8 => tensor_attribute(ort, attribute)?,
            _ => Attribute::Other,
        }
    })
}

/// A list of strings.
///
/// # Safety
/// The attribute belongs to a live node. It is a list of strings, whose number is `kind`.
unsafe fn texts(ort: Ort, attribute: *const OrtOpAttr, kind: c_int) -> Result<Attribute> {
    // SAFETY: the attribute is a list of strings, whose elements are bytes with a NUL after each string.
    let bytes: Vec<u8> = unsafe { read::<u8>(ort, attribute, kind) }?;
    let whole = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    let texts = whole.split(|byte| *byte == 0).map(|text| String::from_utf8(text.to_vec()));
    Ok(texts.collect::<std::result::Result<_, _>>().map_or(Attribute::NotUtf8, Attribute::Texts))
}

/// A string.
///
/// # Safety
/// The attribute belongs to a live node. It is a string, whose number is `kind`.
unsafe fn words(ort: Ort, attribute: *const OrtOpAttr, kind: c_int) -> Result<Attribute> {
    // SAFETY: the attribute is a string, whose elements are bytes.
    let mut bytes: Vec<u8> = unsafe { read::<u8>(ort, attribute, kind) }?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(String::from_utf8(bytes).map_or(Attribute::NotUtf8, Attribute::Text))
}

/// A small tensor.
///
/// # Safety
/// The attribute belongs to a live node. It is a tensor.
unsafe fn tensor_attribute(ort: Ort, attribute: *const OrtOpAttr) -> Result<Attribute> {
    let api = ort.api;
    // SAFETY: the attribute is a tensor; we release its value.
    let constant = unsafe {
        let value = ort.value("a tensor attribute", ptr::null_mut(), |to| {
            api.OpAttr_GetTensorAttributeAsOrtValue(attribute, to)
        })?;
        let constant = tensor(ort, value);
        api.ReleaseValue(value);
        // The elements of a large one were released with the value.
        constant?.0
    };
    Ok(constant.map_or(Attribute::Other, Attribute::Tensor))
}

/// The elements of an attribute. `T` is the element type of its kind.
///
/// # Safety
/// The attribute belongs to a live node. `kind` is its kind, whose elements are `T`, of which any bits
/// are a value.
unsafe fn read<T: Copy + Default>(ort: Ort, attribute: *const OrtOpAttr, kind: c_int) -> Result<Vec<T>> {
    let api = ort.api;
    let mut size = 0;
    // SAFETY: without a buffer only the size is written, and the call fails if there is something to read.
    let status = unsafe { api.ReadOpAttr(attribute, kind, ptr::null_mut(), 0, &raw mut size) };
    let asked = ort.check(status, "the size of an attribute");
    if size == 0 {
        return Ok(Vec::new());
    }
    drop(asked);
    let mut items = vec![T::default(); size.div_ceil(size_of::<T>())];
    let room = items.len() * size_of::<T>();
    // SAFETY: the array has the given size, and any bytes are valid elements.
    let status =
        unsafe { api.ReadOpAttr(attribute, kind, items.as_mut_ptr().cast::<c_void>(), room, &raw mut size) };
    ort.check(status, "an attribute")?;
    items.truncate(size / size_of::<T>());
    Ok(items)
}

/// The number of the element type, and the dimensions; -1 for an open one.
///
/// # Safety
/// The description of the tensor is alive.
pub(super) unsafe fn shape(ort: Ort, tensor: *const OrtTensorTypeAndShapeInfo) -> Result<(c_int, Vec<i64>)> {
    let api = ort.api;
    // SAFETY: the information is alive during the call.
    let element = ort.value("an element type", 0, |to| unsafe { api.GetTensorElementType(tensor, to) })?;
    let dims = ort.array(
        "the dimensions of a tensor",
        0_i64,
        // SAFETY: the information is alive, and the array has the given size.
        |count| unsafe { api.GetDimensionsCount(tensor, count) },
        // SAFETY: the information is alive, and the array has the given size.
        |items, count| unsafe { api.GetDimensions(tensor, items, count) },
    )?;
    Ok((element, dims))
}

/// A copy of a small tensor, or the address of a large one; neither if its type is unknown.
///
/// # Safety
/// The tensor is alive and in host memory. Its elements live as long as the address that is returned is
/// used.
pub(super) unsafe fn tensor(ort: Ort, value: *const OrtValue) -> Result<(Option<Constant>, Option<Kept>)> {
    let api = ort.api;
    // SAFETY: the value is alive during the call; we release its description.
    let (element, dims) = unsafe {
        let info =
            ort.value("the type of a constant", ptr::null_mut(), |to| api.GetTensorTypeAndShape(value, to))?;
        let shape = shape(ort, info);
        api.ReleaseTensorTypeAndShapeInfo(info);
        shape?
    };
    let Some(element) = Element::from_onnx(element) else { return Ok((None, None)) };
    let count =
        dims.iter().try_fold(1_usize, |product, dim| product.checked_mul(usize::try_from(*dim).ok()?));
    let Some(bytes) = count.and_then(|count| element.bytes(count)) else {
        return Ok((None, None));
    };
    if bytes == 0 {
        return Ok((Some(Constant { element, dims, bytes: Vec::new() }), None));
    }
    // SAFETY: the value is alive during the call.
    let data =
        ort.value("the elements of a constant", ptr::null(), |to| unsafe { api.GetTensorData(value, to) })?;
    if data.is_null() {
        return Ok((None, None));
    }
    // SAFETY: the tensor has as many elements as its shape says, in host memory; they are as constant as the caller says.
    let kept = unsafe { Kept::new(data.cast(), bytes) };
    if bytes > SMALL {
        return Ok((None, Some(kept)));
    }
    Ok((Some(Constant { element, dims, bytes: kept.bytes().to_vec() }), None))
}
