//! The node of a compiled subgraph, made by ONNX Runtime's model editor.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use crate::compiled::Chain;
use crate::context::{self, Entry};
use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::ort::*;

/// `ORT_OP_ATTR_INT`.
const INT: c_int = 1;

/// `ORT_OP_ATTR_STRING`.
const TEXT: c_int = 5;

/// Attributes made by ONNX Runtime, released on drop.
struct Attributes {
    ort: Ort,
    list: Vec<*mut OrtOpAttr>,
}

impl Drop for Attributes {
    fn drop(&mut self) {
        for attribute in &self.list {
            // SAFETY: ONNX Runtime made the attribute and copied it into the node.
            unsafe { self.ort.api.ReleaseOpAttr(*attribute) };
        }
    }
}

fn text(of: &str) -> Result<CString> {
    CString::new(of).map_err(|_| Failure::ep(format!("the name {of:?} has a NUL")))
}

/// The node for a subgraph of the model at `path`.
pub(super) fn node(ort: Ort, subgraph: &Chain, options: &Options, path: &Path) -> Result<*mut OrtNode> {
    let entries = context::save(subgraph, options.engine_name(), &options.context, path)?;
    let mut attributes = Attributes { ort, list: Vec::with_capacity(entries.len()) };
    for (name, entry) in &entries {
        let name = text(name)?;
        let (data, length, kind): (*const c_void, usize, c_int) = match entry {
            Entry::Int(value) => (ptr::from_ref(value).cast(), 1, INT),
            Entry::Text(text) => (text.as_ptr().cast(), text.len(), TEXT),
        };
        let length = c_int::try_from(length).map_err(|_| {
            Failure::ep(format!("subgraph {}: the compiled form has {length} bytes", subgraph.name()))
        })?;
        // SAFETY: the data has the given length, and is copied.
        let made = ort.value("CreateOpAttr", ptr::null_mut(), |to| unsafe {
            ort.api.CreateOpAttr(name.as_ptr(), data, length, kind, to)
        })?;
        attributes.list.push(made);
    }
    let model = subgraph.model();
    let names = |ids: &[usize]| -> Result<Vec<CString>> {
        ids.iter().filter_map(|id| model.values.get(*id)).map(|value| text(&value.name)).collect()
    };
    let (inputs, outputs) = (names(&model.inputs)?, names(&model.outputs)?);
    let pointers =
        |names: &[CString]| -> Vec<*const c_char> { names.iter().map(|name| name.as_ptr()).collect() };
    let (inputs, outputs) = ((pointers(&inputs), inputs), (pointers(&outputs), outputs));
    let [operator, domain, name] = [context::OPERATOR, context::DOMAIN, subgraph.name()].map(text);
    let (operator, domain, name) = (operator?, domain?, name?);
    // SAFETY: the function takes no arguments and returns a table that lives as long as ONNX Runtime.
    let editor = unsafe { ort.api.GetModelEditorApi() };
    if editor.is_null() {
        return Err(Failure::ep("ONNX Runtime has no model editor, so compiled models cannot be written"));
    }
    // SAFETY: the returned table has the negotiated version.
    let editor = unsafe { OrtModelEditorApi::at(editor) };
    // SAFETY: names end with a NUL, arrays have the given lengths, and everything is copied.
    ort.value("CreateNode", ptr::null_mut(), |to| unsafe {
        let (list, count) = (attributes.list.as_mut_ptr(), attributes.list.len());
        let (ins, outs) = (&inputs.0, &outputs.0);
        let (operator, domain, name) = (operator.as_ptr(), domain.as_ptr(), name.as_ptr());
        editor.CreateNode(
            operator,
            domain,
            name,
            ins.as_ptr(),
            ins.len(),
            outs.as_ptr(),
            outs.len(),
            list,
            count,
            to,
        )
    })
}
