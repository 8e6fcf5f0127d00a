//! Copies graphs, nodes and values from ONNX Runtime, whose objects are alive only during a call.

use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr;

use super::attributes::{attributes, shape, tensor};
use super::{Constant, Dim, Element, Kept, Model, Node, Value, ValueId};
use crate::failure::{Failure, Result};
use crate::ort::*;

/// `ONNX_TYPE_TENSOR`.
const TENSOR: c_int = 1;

/// A model with ONNX Runtime's nodes, in the same order.
pub struct Source {
    /// The copy.
    pub model: Model,
    /// The original nodes, valid during the call.
    pub raw: Vec<*const OrtNode>,
    /// Whether it is a subgraph of a node.
    pub is_nested: bool,
    /// Whether it is a subgraph of a node that ONNX Runtime has made from a function.
    pub is_inlined: bool,
}

/// Copies a graph.
///
/// # Safety
/// The graph is alive during the call.
pub unsafe fn of_graph(ort: Ort, graph: *const OrtGraph) -> Result<Source> {
    let mut reader = Reader::new(ort, Model::default(), HashMap::new());
    let raw = ort.array(
        "the nodes of the graph",
        ptr::null(),
        // SAFETY: the graph is alive, and the array has the given size.
        |count| unsafe { ort.api.Graph_GetNumNodes(graph, count) },
        // SAFETY: the graph is alive, and the array has the given size.
        |items, count| unsafe { ort.api.Graph_GetNodes(graph, items, count) },
    )?;
    for node in &raw {
        // SAFETY: ONNX Runtime has just listed the node as one of the graph, which is alive.
        let node = unsafe { reader.node(*node) }?;
        reader.model.nodes.push(node);
    }
    // ONNX Runtime's nodes come in execution order, but the interface does not guarantee it.
    let order = topological(&reader.model);
    let mut nodes: Vec<Option<Node>> = reader.model.nodes.drain(..).map(Some).collect();
    let sorted = order.iter().filter_map(|at| nodes.get_mut(*at).and_then(Option::take)).collect();
    reader.model.nodes = sorted;
    let raw = order.iter().filter_map(|at| raw.get(*at).copied()).collect();
    // SAFETY: this function requires that the graph is alive, and the function writes only to a local of `value`.
    let parent = ort.value("the node around a graph", ptr::null(), |to| unsafe {
        ort.api.Graph_GetParentNode(graph, to)
    })?;
    // Version 1.23 does not tell every graph's parent node.
    let is_nested = !parent.is_null() || reader.is_nested;
    let mut is_inlined = false;
    if !parent.is_null() {
        // SAFETY: the parent node is alive as well.
        let operator = unsafe { ort.text("an operator", |to| ort.api.Node_GetOperatorType(parent, to)) }?;
        is_inlined = !["If", "Loop", "Scan"].contains(&operator.as_str());
        // Names in the body of SequenceMap, ONNX's only function with subgraphs, when it replaces its call.
        let is_of_function =
            |name: &str| ["SequenceMap_", "_inlfunc_"].iter().any(|word| name.starts_with(word));
        // SAFETY: the parent node is alive as well.
        for id in unsafe { reader.inputs(parent) }?.into_iter().flatten() {
            is_inlined |= reader.model.values.get(id).is_some_and(|value| is_of_function(&value.name));
        }
    }
    Ok(Source { model: reader.model, raw, is_nested, is_inlined })
}

/// Copies the body of a fused node, with the node's inputs and outputs in its order.
///
/// # Safety
/// The graph and the node are alive during the call.
pub unsafe fn of_fused(ort: Ort, graph: *const OrtGraph, fused: *const OrtNode) -> Result<Model> {
    // SAFETY: this function requires that the graph is alive during the call.
    let mut source = unsafe { of_graph(ort, graph) }?;
    let ids = source.model.values.iter().enumerate().map(|(id, value)| (value.name.clone(), id)).collect();
    let mut reader = Reader::new(ort, std::mem::take(&mut source.model), ids);
    // SAFETY: this function requires that the node is alive during the call.
    let (inputs, outputs) = unsafe { (reader.inputs(fused)?, reader.outputs(fused)?) };
    let all = |ids: Vec<Option<ValueId>>| ids.into_iter().collect::<Option<Vec<_>>>();
    let missing = || Failure::ep("hipDNN: the fused node has an input or output without a name");
    reader.model.inputs = all(inputs).ok_or_else(missing)?;
    reader.model.outputs = all(outputs).ok_or_else(missing)?;
    Ok(reader.model)
}

struct Reader {
    ort: Ort,
    model: Model,
    ids: HashMap<String, ValueId>,
    /// Whether a value belongs to an outer graph.
    is_nested: bool,
    /// The symbols of open dimensions with a name.
    symbols: HashMap<String, usize>,
    /// The number of other open dimensions.
    unnamed: usize,
}

impl Reader {
    fn new(ort: Ort, model: Model, ids: HashMap<String, ValueId>) -> Self {
        Self { ort, model, ids, is_nested: false, symbols: HashMap::new(), unnamed: 0 }
    }
}

impl Reader {
    /// The node with its values, which are copied on first use.
    ///
    /// # Safety
    /// The node belongs to a live graph.
    unsafe fn node(&mut self, node: *const OrtNode) -> Result<Node> {
        let (ort, api) = (self.ort, self.ort.api);
        // SAFETY: the node is alive, and every function writes one pointer or number.
        let (name, operator, domain, since, taken_by) = unsafe {
            (
                ort.text("the name of a node", |to| api.Node_GetName(node, to))?,
                ort.text("the operator of a node", |to| api.Node_GetOperatorType(node, to))?,
                ort.text("the domain of a node", |to| api.Node_GetDomain(node, to))?,
                ort.value("the version of a node", 0, |to| api.Node_GetSinceVersion(node, to))?,
                ort.text("the provider of a node", |to| api.Node_GetEpName(node, to))?,
            )
        };
        let domain = if domain == "ai.onnx" { String::new() } else { domain };
        // SAFETY: this function requires a node of a live graph, which owns it.
        let (inputs, outputs, implicit, attributes) = unsafe {
            (self.inputs(node)?, self.outputs(node)?, self.implicit(node)?, attributes(self.ort, node)?)
        };
        Ok(Node { name, operator, domain, since, inputs, outputs, implicit, attributes, taken_by })
    }

    /// The node's inputs; none for an omitted one.
    ///
    /// # Safety
    /// The node belongs to a live graph.
    unsafe fn inputs(&mut self, node: *const OrtNode) -> Result<Vec<Option<ValueId>>> {
        let (ort, api) = (self.ort, self.ort.api);
        let infos = ort.array(
            "the inputs of a node",
            ptr::null(),
            // SAFETY: the node is alive, and the array has the given size.
            |count| unsafe { api.Node_GetNumInputs(node, count) },
            // SAFETY: the node is alive, and the array has the given size.
            |items, count| unsafe { api.Node_GetInputs(node, items, count) },
        )?;
        // SAFETY: ONNX Runtime has just listed the values as those of the node, which is alive.
        infos.into_iter().map(|info| unsafe { self.value(info) }).collect()
    }

    /// The node's outputs; none for an omitted one.
    ///
    /// # Safety
    /// The node belongs to a live graph.
    unsafe fn outputs(&mut self, node: *const OrtNode) -> Result<Vec<Option<ValueId>>> {
        let (ort, api) = (self.ort, self.ort.api);
        let infos = ort.array(
            "the outputs of a node",
            ptr::null(),
            // SAFETY: the node is alive, and the array has the given size.
            |count| unsafe { api.Node_GetNumOutputs(node, count) },
            // SAFETY: the node is alive, and the array has the given size.
            |items, count| unsafe { api.Node_GetOutputs(node, items, count) },
        )?;
        // SAFETY: the values are of the node.
        infos.into_iter().map(|info| unsafe { self.value(info) }).collect()
    }

    /// The outer values that the node's subgraphs read.
    ///
    /// # Safety
    /// The node belongs to a live graph.
    unsafe fn implicit(&mut self, node: *const OrtNode) -> Result<Vec<ValueId>> {
        let (ort, api) = (self.ort, self.ort.api);
        let infos = ort.array(
            "the implicit inputs of a node",
            ptr::null(),
            // SAFETY: the node is alive, and the array has the given size.
            |count| unsafe { api.Node_GetNumImplicitInputs(node, count) },
            // SAFETY: the node is alive, and the array has the given size.
            |items, count| unsafe { api.Node_GetImplicitInputs(node, items, count) },
        )?;
        // SAFETY: the values are of the node.
        let ids = infos.into_iter().map(|info| unsafe { self.value(info) });
        Ok(ids.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The value, copied on first use; none if absent.
    ///
    /// # Safety
    /// The value is null, or belongs to a live graph, whose constants live as long as the session.
    unsafe fn value(&mut self, info: *const OrtValueInfo) -> Result<Option<ValueId>> {
        if info.is_null() {
            return Ok(None);
        }
        let (ort, api) = (self.ort, self.ort.api);
        // SAFETY: the value is alive during the call.
        let name = ort.text("the name of a value", |to| unsafe { api.GetValueInfoName(info, to) })?;
        if name.is_empty() {
            return Ok(None);
        }
        if let Some(id) = self.ids.get(&name) {
            return Ok(Some(*id));
        }
        // SAFETY: the value is alive during the call, as is all that it points to.
        let (kind, is_constant, is_outer) = unsafe {
            (
                ort.value("the type of a value", ptr::null(), |to| api.GetValueInfoTypeInfo(info, to))?,
                ort.value("a value", false, |to| api.ValueInfo_IsConstantInitializer(info, to))?,
                ort.value("a value", false, |to| api.ValueInfo_IsFromOuterScope(info, to))?,
            )
        };
        self.is_nested |= is_outer;
        // SAFETY: the kind is part of the value, which is alive.
        let (element, dims) = unsafe { self.kind(kind) }?;
        // SAFETY: the value is alive during the call.
        let (constant, kept) = if is_constant { unsafe { self.constant(info) }? } else { (None, None) };
        let of_constant = |of: &Constant| of.dims.iter().map(|dim| Dim::Known(*dim)).collect();
        let dims = dims.or_else(|| constant.as_ref().map(of_constant));
        let id = self.model.values.len();
        self.model.values.push(Value { name: name.clone(), element, dims, is_constant, constant, kept });
        self.ids.insert(name, id);
        Ok(Some(id))
    }

    /// Element type and dimensions of a tensor.
    ///
    /// # Safety
    /// The type is null, or is that of a live value.
    unsafe fn kind(&mut self, kind: *const OrtTypeInfo) -> Result<(Option<Element>, Option<Vec<Dim>>)> {
        let (ort, api) = (self.ort, self.ort.api);
        if kind.is_null() {
            return Ok((None, None));
        }
        // SAFETY: the type is alive during the call.
        let form =
            ort.value("the kind of a value", 0, |to| unsafe { api.GetOnnxTypeFromTypeInfo(kind, to) })?;
        if form != TENSOR {
            return Ok((None, None));
        }
        // SAFETY: the type is alive during the call.
        let tensor = ort.value("the type of a tensor", ptr::null(), |to| unsafe {
            api.CastTypeInfoToTensorInfo(kind, to)
        })?;
        if tensor.is_null() {
            return Ok((None, None));
        }
        // SAFETY: the information is part of the type.
        let (element, dims) = unsafe { shape(self.ort, tensor) }?;
        // SAFETY: the information is part of the type.
        let dims = unsafe { self.symbols(tensor, &dims) }?;
        // An unknown shape reads as that of a scalar. Version 23 does not tell the two apart.
        // SAFETY: the information is part of the type; the function exists since version 24.
        let has_shape =
            !dims.is_empty() || (ort.version >= 24 && unsafe { api.TensorTypeAndShape_HasShape(tensor) });
        Ok((Element::from_onnx(element), has_shape.then_some(dims)))
    }

    /// Dimensions, with a symbol for each open one: its name's, or its own.
    ///
    /// # Safety
    /// The description of the tensor is alive.
    unsafe fn symbols(&mut self, tensor: *const OrtTensorTypeAndShapeInfo, dims: &[i64]) -> Result<Vec<Dim>> {
        let (ort, api) = (self.ort, self.ort.api);
        let names = ort.array(
            "the names of dimensions",
            ptr::null(),
            // SAFETY: the information is alive, and the array has the given size.
            |count| unsafe { api.GetDimensionsCount(tensor, count) },
            // SAFETY: the information is alive, and the array has the given size.
            |items, count| unsafe { api.GetSymbolicDimensions(tensor, items, count) },
        )?;
        let names = names.into_iter().map(text_of).chain(std::iter::repeat(String::new()));
        let dim = |(dim, name): (&i64, String)| {
            if *dim >= 0 {
                return Dim::Known(*dim);
            }
            let next = self.symbols.len() + self.unnamed;
            if name.is_empty() {
                self.unnamed += 1;
                return Dim::Open(next);
            }
            Dim::Open(*self.symbols.entry(name).or_insert(next))
        };
        Ok(dims.iter().zip(names).map(dim).collect())
    }

    /// The elements of a constant: a copy of a small one, the address of a large one.
    ///
    /// # Safety
    /// The value belongs to a live graph, whose constants live as long as the session.
    unsafe fn constant(&self, info: *const OrtValueInfo) -> Result<(Option<Constant>, Option<Kept>)> {
        let (ort, api) = (self.ort, self.ort.api);
        // SAFETY: the value is alive during the call.
        let value = ort
            .value("a constant", ptr::null(), |to| unsafe { api.ValueInfo_GetInitializerValue(info, to) })?;
        if value.is_null() {
            return Ok((None, None));
        }
        // SAFETY: the constant lives as long as its graph, and its elements as long as the session.
        unsafe { tensor(self.ort, value) }
    }
}

/// The order in which every value is written before it is read: the given one if it already is.
fn topological(model: &Model) -> Vec<usize> {
    let mut writer: HashMap<ValueId, usize> = HashMap::new();
    for (at, node) in model.nodes.iter().enumerate() {
        writer.extend(node.outputs.iter().flatten().map(|value| (*value, at)));
    }
    let mut order = Vec::with_capacity(model.nodes.len());
    let mut done = vec![false; model.nodes.len()];
    // A node waits on the stack for its inputs. The graph has no cycles, as ONNX Runtime has checked.
    for first in 0..model.nodes.len() {
        let mut stack = vec![first];
        while let Some(at) = stack.last().copied() {
            let waits_for = |value: ValueId| {
                let by = writer.get(&value).copied()?;
                (!done.get(by).copied().unwrap_or(true) && by != at).then_some(by)
            };
            let missing = model.nodes.get(at).and_then(|node| node.reads().find_map(waits_for));
            match missing {
                Some(by) if stack.len() <= model.nodes.len() => stack.push(by),
                _ => {
                    stack.pop();
                    if let Some(slot) = done.get_mut(at)
                        && !*slot
                    {
                        *slot = true;
                        order.push(at);
                    }
                }
            }
        }
    }
    order
}
