//! Both engines against results that NumPy computed from closed forms, in double precision.
//!
//! The cases are the folders of `tests/oracle/cases`, written by `tests/oracle/make.py`, which says how to add one. Each has a
//! graph and an array for each tensor that is bound: what the graph reads is filled in, what it writes is compared.
//!
//! An element `x` of a result may differ from the expected `e` by `u · (|e| + m)`, where `m` is the largest finite magnitude
//! that is expected in the tensor and `u` is that of [`unit`] for the type of the tensor. NaN has to meet NaN.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests: a failure is what a panic is for"
)]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Operation, Tensor};
use hipdnn_plugin_sdk::json;
use npyz::{NpyFile, TypeChar};

#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "engines/common.rs"]
mod common;

use common::{Case, Memory};

/// The operations without a folder. Attention and mixtures of experts have their cases in `engines/oracle_attention.rs`; a
/// custom operation is whatever a plugin makes of it.
const WITHOUT: &[&str] =
    &["CustomOp", "MoeGroupedMatmul", "MoeGroupedMatmulBackward", "Sdpa", "SdpaBackward"];

/// How far a result of a type may be off, for operations of some hundred terms in single precision (`double`: in double
/// precision). The 16-bit types are rounded once, whole numbers are exact.
fn unit(data_type: DataType) -> f64 {
    match data_type {
        DataType::Float => 2e-6,
        DataType::Double => 1e-14,
        DataType::Half => 2_f64.powi(-11),
        DataType::Bfloat16 => 2_f64.powi(-8),
        _ => 0.0,
    }
}

fn folders() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/cases");
    let mut folders: Vec<_> = fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn graph(folder: &Path) -> Graph {
    let text = fs::read_to_string(folder.join("graph.json")).unwrap();
    json::read(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

/// The array of a tensor, in the order of its indices.
fn array(folder: &Path, tensor: &Tensor) -> Vec<f64> {
    let path = folder.join(format!("{}.npy", tensor.uid));
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = NpyFile::new(&bytes[..]).unwrap();
    let dims: Vec<i64> = file.shape().iter().map(|dim| *dim as i64).collect();
    assert_eq!(dims, tensor.dims, "{}", path.display());
    assert_eq!(file.order(), npyz::Order::C, "{}", path.display());
    let npyz::DType::Plain(kind) = file.dtype() else { panic!("{} has fields", path.display()) };
    match (kind.type_char(), kind.size_field()) {
        (TypeChar::Float, 4) => file.into_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        (TypeChar::Float, 8) => file.into_vec::<f64>().unwrap(),
        (TypeChar::Int, 4) => file.into_vec::<i32>().unwrap().into_iter().map(f64::from).collect(),
        (TypeChar::Int, 8) => file.into_vec::<i64>().unwrap().into_iter().map(|n| n as f64).collect(),
        _ => panic!("{} has elements of type {kind}", path.display()),
    }
}

/// The tensors that a caller binds.
fn bound(graph: &Graph) -> impl Iterator<Item = &Tensor> {
    graph.tensors.iter().filter(|tensor| !tensor.is_virtual && tensor.value.is_none())
}

fn outputs(graph: &Graph) -> HashSet<i64> {
    graph.nodes.iter().flat_map(|node| node.operation.outputs()).collect()
}

fn compare(what: &str, tensor: &Tensor, got: &[f64], expected: &[f64]) {
    let largest = expected.iter().filter(|e| e.is_finite()).fold(0.0, |most: f64, e| most.max(e.abs()));
    let unit = unit(tensor.data_type);
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        let near = (got - expected).abs() <= unit * (expected.abs() + largest);
        assert!(
            got == expected || near || got.is_nan() && expected.is_nan(),
            "{what}: element {place} of tensor {} ({}) is {got}, expected {expected}",
            tensor.uid,
            tensor.data_type.name()
        );
    }
}

#[test]
fn both_engines_give_what_is_expected() {
    let folders = folders();
    for folder in &folders {
        let graph = graph(folder);
        let written = outputs(&graph);
        for engine in 0..2 {
            // An odd address for every other tensor.
            let memory = bound(&graph).map(|tensor| Memory::new(tensor, tensor.uid as usize % 2));
            let mut case = Case { memory: memory.collect(), graph: graph.clone() };
            for tensor in bound(&graph).filter(|tensor| !written.contains(&tensor.uid)) {
                case.fill(tensor.uid, &array(folder, tensor));
            }
            case.run(planner(engine));
            for tensor in bound(&graph).filter(|tensor| written.contains(&tensor.uid)) {
                let what = format!("{} on engine {engine}", folder.file_name().unwrap().display());
                compare(&what, tensor, &case.values(tensor.uid), &array(folder, tensor));
            }
        }
    }
}

#[test]
fn folders_hold_what_their_graphs_bind() {
    for folder in folders() {
        let graph = graph(&folder);
        let arrays = bound(&graph).map(|tensor| format!("{}.npy", tensor.uid));
        let expected: HashSet<_> = arrays.chain(["graph.json".to_owned()]).collect();
        let found: HashSet<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(found, expected, "{}", folder.display());
        assert!(bound(&graph).any(|tensor| outputs(&graph).contains(&tensor.uid)), "{}", folder.display());
    }
}

/// Every operation that there is has a case, but for those that are said to have none; and every pointwise mode.
#[test]
fn every_kind_has_a_case() {
    let (mut kinds, mut modes) = (HashSet::new(), HashSet::new());
    for folder in folders() {
        for node in graph(&folder).nodes {
            kinds.insert(node.operation.spec().name);
            if let Operation::Pointwise(pointwise) = &node.operation {
                modes.insert(pointwise.operation);
            }
        }
    }
    for spec in Operation::SPECS {
        assert_ne!(kinds.contains(spec.name), WITHOUT.contains(&spec.name), "{}", spec.name);
    }
    let known: HashSet<&str> = Operation::SPECS.iter().map(|spec| spec.name).collect();
    assert!(WITHOUT.iter().all(|name| known.contains(name)));
    let all = hipdnn_plugin_sdk::graph::PointwiseMode::ALL;
    assert_eq!(modes.len(), all.len() - 1, "all modes but none");
}
