//! What an engine's plan loses of a graph, node by node: the analysis of the tool `hipdnn`, on Python's arrays.

use std::collections::HashMap;
use std::path::Path;

use hipdnn_tool::computation::{Arrays, Loaded, require_memory};
use hipdnn_tool::fill::fill;
use hipdnn_tool::graph::{Graph, Tensor};
use hipdnn_tool::numerics::{Report, results};
use hipdnn_tool::tensor::{Array, bytes};
use pyo3::prelude::*;

use crate::device::Place;
use crate::error::{ArrayError, Error};
use crate::execute::uid_of;
use crate::library::OperationGraph;
use crate::protocols::Reader;
use crate::spec::Spec;

/// JSON, table and SVG.
type Answer = (String, String, String);

fn failed(failure: &hipdnn_tool::failure::Failure) -> PyErr {
    Error::new_err(failure.to_string())
}

/// The values of an array for a tensor of a graph.
fn values(reader: &mut Reader, spec: &Spec, tensor: &Tensor, array: &Bound<'_, PyAny>) -> PyResult<Array> {
    let wrong = |what: String| ArrayError::new_err(format!("{}: {what}", spec.label()));
    if spec.is_output {
        return Err(wrong("the graph writes it, expected arrays of inputs alone".to_owned()));
    }
    if spec.is_pass_by_value
        && let Ok(number) = array.extract::<f64>()
    {
        return Ok(Array { dims: vec![1; tensor.dims.len()], values: vec![number] });
    }
    // Keeps the memory until it is copied.
    let _guard = reader.read(array, &|| spec.label())?;
    let view = &reader.view;
    let place = spec.place(view)?;
    if place != Place::Host {
        return Err(wrong(format!("the array is in {place}, expected {}", Place::Host)));
    }
    spec.check(view)?;
    let size = bytes(tensor).map_err(|failure| wrong(failure.to_string()))?;
    let given = view.dims().iter().fold(1_i64, |count, dim| count.saturating_mul(*dim));
    if tensor.data_type.bits() < 8 && usize::try_from(given).is_ok_and(|given| given < size) {
        return Err(wrong(format!("the array has {given} bytes, expected {size}")));
    }
    let mut memory = vec![0_u8; size];
    if size > 0 {
        // SAFETY: the array was checked to have the tensor's elements, at its strides, and thus all bytes from the first to the last;
        // smaller elements are bytes that were counted. The guard and the interpreter's lock keep the memory.
        unsafe { view.data.cast::<u8>().copy_to_nonoverlapping(memory.as_mut_ptr(), size) };
    }
    Array::read(tensor, &memory).map_err(|failure| failed(&failure))
}

/// The inputs of a graph: the arrays given by tensor or uid, random values for the others.
fn inputs(
    graph: &Graph,
    specs: &[Spec],
    arrays: &[(Bound<'_, PyAny>, Bound<'_, PyAny>)],
    seed: u64,
) -> PyResult<Arrays> {
    let mut reader = Reader::default();
    let mut given = HashMap::new();
    for (key, array) in arrays {
        let uid = uid_of(key)?;
        let spec = specs.iter().find(|spec| spec.uid == uid);
        let spec =
            spec.ok_or_else(|| ArrayError::new_err(format!("numerics: tensor {uid} takes no array")))?;
        // A tensor that the library does not know makes no difference.
        if let Some(tensor) = graph.tensor(uid) {
            given.insert(uid, values(&mut reader, spec, tensor, array)?);
        }
    }
    let read = graph.bound().filter(|tensor| graph.producer(tensor.uid).is_none());
    let all = read.map(|tensor| match given.remove(&tensor.uid) {
        Some(array) => Ok((tensor.uid, array)),
        None => {
            fill(graph, tensor, seed).map(|array| (tensor.uid, array)).map_err(|failure| failed(&failure))
        }
    });
    all.collect()
}

/// The errors of each node with an engine, as JSON, as a table and as SVG. `knobs` are NAME=VALUE.
#[pyfunction]
pub fn numerics(
    py: Python<'_>,
    graph: &OperationGraph,
    choice: (i64, Vec<String>),
    tensors: Vec<Spec>,
    arrays: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    seed: u64,
) -> PyResult<Answer> {
    let (engine, knobs) = choice;
    let (operations, handle) = graph.copied(py)?;
    let loaded = Loaded::new(&handle, operations, Path::new("graph")).map_err(|failure| failed(&failure))?;
    require_memory(&loaded.graph).map_err(|failure| failed(&failure))?;
    let inputs = inputs(&loaded.graph, &tensors, &arrays, seed)?;
    let engines = handle.engines().map_err(|error| Error::new_err(error.to_string()))?;
    let found = engines.into_iter().find(|other| other.id == engine);
    let engine = found.ok_or_else(|| Error::new_err(format!("there is no engine with the id {engine}")))?;
    let answer = py.detach(move || {
        let choice = (&engine, knobs.as_slice());
        let results = results(&handle, &loaded, choice, &inputs, None)?;
        let report = Report::new(&handle, &loaded, choice, (&inputs, &results), None)?;
        Ok((report.json()?, report.text(&loaded.graph), report.svg(&loaded.graph)?))
    });
    answer.map_err(|failure| failed(&failure))
}
