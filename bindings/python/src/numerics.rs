//! What an engine's plan loses of a graph, node by node: the analysis of the tool `hipdnn`, on Python's arrays.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use hipdnn_tool::computation::{Arrays, Loaded, require_memory};
use hipdnn_tool::fill::fill;
use hipdnn_tool::graph::{Graph, Tensor};
use hipdnn_tool::numerics::{Report, results};
use hipdnn_tool::tensor::{Array, bytes};
use hipdnn_tool::views::{View, Views};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::device::Place;
use crate::error::{ArrayError, Error};
use crate::execute::uid_of;
use crate::library::OperationGraph;
use crate::protocols::Reader;
use crate::spec::Spec;

/// JSON, table and SVG; and the bytes of each result, `f64` in the order of its dimensions, by uid.
type Answer = (String, String, String, Vec<(i64, Vec<u8>)>);

/// A tensor that has others' elements: its uid, their uids, numbers as bytes of `f64`, and indices of elements as bytes of `u64`.
type Rearranged = (i64, Vec<i64>, PyBackedBytes, PyBackedBytes);

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
    (seed, views): (u64, &Views),
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
    let is_view = |uid: i64| views.all.iter().any(|view| view.uid == uid);
    let read = graph.bound().filter(|tensor| graph.producer(tensor.uid).is_none() && !is_view(tensor.uid));
    let all = read.map(|tensor| match given.remove(&tensor.uid) {
        Some(array) => Ok((tensor.uid, array)),
        None => {
            fill(graph, tensor, seed).map(|array| (tensor.uid, array)).map_err(|failure| failed(&failure))
        }
    });
    all.collect()
}

/// Words of eight bytes.
fn words<T>(bytes: &[u8], read: impl Fn([u8; 8]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|word| read(*word)).collect()
}

/// The views of a graph, and the tensors that it writes for these only.
fn views_of((all, inner): (Vec<Rearranged>, HashSet<i64>)) -> Views {
    let view = |(uid, sources, numbers, elements): Rearranged| View {
        uid,
        sources,
        numbers: words(&numbers, f64::from_le_bytes),
        // An index beyond memory is none of any source.
        elements: words(&elements, |word| usize::try_from(u64::from_le_bytes(word)).unwrap_or(usize::MAX)),
    };
    Views { all: all.into_iter().map(view).collect(), inner }
}

/// The errors of each node with an engine, as JSON, as a table and as SVG, and the results. `knobs` are NAME=VALUE.
#[pyfunction]
pub fn numerics(
    py: Python<'_>,
    graph: &OperationGraph,
    choice: (i64, Vec<String>),
    tensors: Vec<Spec>,
    arrays: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    seed: u64,
    views: (Vec<Rearranged>, HashSet<i64>),
) -> PyResult<Answer> {
    let (engine, knobs) = choice;
    let (operations, handle) = graph.copied(py)?;
    let mut loaded =
        Loaded::new(&handle, operations, Path::new("graph")).map_err(|failure| failed(&failure))?;
    require_memory(&loaded.graph).map_err(|failure| failed(&failure))?;
    loaded.views = views_of(views);
    let inputs = inputs(&loaded.graph, &tensors, &arrays, (seed, &loaded.views))?;
    let engines = handle.engines().map_err(|error| Error::new_err(error.to_string()))?;
    let found = engines.into_iter().find(|other| other.id == engine);
    let engine = found.ok_or_else(|| Error::new_err(format!("there is no engine with the id {engine}")))?;
    let answer = py.detach(move || {
        let choice = (&engine, knobs.as_slice());
        let results = results(&handle, &loaded, choice, &inputs, None)?;
        let report = Report::new(&handle, &loaded, choice, (&inputs, &results), None)?;
        let picture = report.svg(&loaded.views.joined(&loaded.graph))?;
        let bytes = |array: &Array| array.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let results = results.iter().map(|(uid, array)| (*uid, bytes(array))).collect();
        Ok((report.json()?, report.text(&loaded.graph), picture, results))
    });
    answer.map_err(|failure| failed(&failure))
}
