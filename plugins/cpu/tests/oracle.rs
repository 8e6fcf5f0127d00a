//! Both engines against results that NumPy computed from closed forms, in double precision.
//!
//! The cases are in `tests/oracle/cases`, a file for each kind of operation, written by `tests/oracle/make.py`, which says how
//! to add one. A case has a graph and an array for each tensor that is bound: what the graph reads is filled in, what it writes
//! is compared.
//!
//! Results are held to the bounds of `hipdnn run --check`: whole numbers are exact, and NaN has to meet NaN.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_planner::problem::NOT_COMPUTED;
use hipdnn_plugin_sdk::graph::{Graph, Operation, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::json;
use safetensors::{Dtype, SafeTensors};

use crate::engines::common::{Case, Memory};
use crate::engines::limits::{Limits, Values};

/// The operations whose cases are in `engines/oracle_attention.rs`.
const ELSEWHERE: &[&str] = &["MoeGroupedMatmul", "MoeGroupedMatmulBackward", "Sdpa", "SdpaBackward"];

/// A case: its name, its graph, and the elements and dims of the tensors that are bound, by uid.
struct Oracle {
    name: String,
    graph: Graph,
    arrays: BTreeMap<i64, (Vec<usize>, Vec<f64>)>,
}

/// All cases, in the order of their names.
fn oracles() -> Vec<Oracle> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/cases");
    let mut oracles = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let (_, head) = SafeTensors::read_metadata(&bytes).unwrap();
        for (name, graph) in head.metadata().as_ref().expect("graphs") {
            let graph = json::read(graph).unwrap_or_else(|error| panic!("{name}: {error}"));
            let oracle = Oracle { name: name.clone(), graph, arrays: BTreeMap::new() };
            assert!(oracles.insert(name.clone(), oracle).is_none(), "{name} is there twice");
        }
        for (name, array) in SafeTensors::deserialize(&bytes).unwrap().iter() {
            let (case, uid) = name.split_once('/').expect("CASE/UID");
            let values = match array.dtype() {
                Dtype::F32 => elements(array.data(), f32::from_le_bytes).map(f64::from).collect(),
                Dtype::F64 => elements(array.data(), f64::from_le_bytes).collect(),
                Dtype::I32 => elements(array.data(), i32::from_le_bytes).map(f64::from).collect(),
                Dtype::I64 => elements(array.data(), i64::from_le_bytes).map(|n| n as f64).collect(),
                other => panic!("{name} has elements of type {other:?}"),
            };
            let arrays = &mut oracles.get_mut(case).expect("a graph").arrays;
            arrays.insert(uid.parse().unwrap(), (array.shape().to_vec(), values));
        }
    }
    oracles.into_values().collect()
}

fn elements<T, const SIZE: usize>(bytes: &[u8], read: fn([u8; SIZE]) -> T) -> impl Iterator<Item = T> {
    let (elements, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    elements.iter().map(move |element| read(*element))
}

impl Oracle {
    /// The elements of a tensor, in the order of its indices.
    fn array(&self, tensor: &Tensor) -> &[f64] {
        let array = self.arrays.get(&tensor.uid);
        let (dims, values) = array.unwrap_or_else(|| panic!("{} has no array {}", self.name, tensor.uid));
        let dims: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
        assert_eq!(dims, tensor.dims, "{} {}", self.name, tensor.uid);
        values
    }
}

/// The tensors that a caller binds.
fn bound(graph: &Graph) -> impl Iterator<Item = &Tensor> {
    graph.tensors.iter().filter(|tensor| !tensor.is_virtual && tensor.value.is_none())
}

fn outputs(graph: &Graph) -> BTreeSet<i64> {
    graph.nodes.iter().flat_map(|node| node.operation.outputs()).collect()
}

#[test]
fn both_engines_give_what_is_expected() {
    let mut compared = 0;
    for oracle in oracles() {
        let graph = &oracle.graph;
        let written = outputs(graph);
        for engine in 0..2 {
            // An odd address for every other tensor.
            let memory = bound(graph).map(|tensor| Memory::new(tensor, tensor.uid as usize % 2));
            let mut case = Case { memory: memory.collect(), graph: graph.clone() };
            for tensor in bound(graph).filter(|tensor| !written.contains(&tensor.uid)) {
                case.fill(tensor.uid, oracle.array(tensor));
            }
            case.run(planner(engine));
            let results = bound(graph).filter(|tensor| written.contains(&tensor.uid));
            let expected: Values =
                results.map(|tensor| (tensor.uid, oracle.array(tensor).to_vec())).collect();
            let what = format!("{} on engine {engine}", oracle.name);
            Limits::of(&case, engine, &[]).hold(&what, &case, &expected);
            compared += expected.len();
        }
    }
    // Cases may be added, not lost.
    assert!(compared >= 624, "{compared}");
}

#[test]
fn cases_hold_what_their_graphs_bind() {
    for oracle in oracles() {
        let uids: BTreeSet<i64> = bound(&oracle.graph).map(|tensor| tensor.uid).collect();
        assert_eq!(oracle.arrays.into_keys().collect::<BTreeSet<_>>(), uids, "{}", oracle.name);
        assert!(!uids.is_disjoint(&outputs(&oracle.graph)), "{}", oracle.name);
    }
}

/// Every operation that there is has a case, but for those that are said to have none; and every pointwise mode.
#[test]
fn every_kind_has_a_case() {
    let (mut kinds, mut modes) = (HashSet::new(), HashSet::new());
    for oracle in oracles() {
        for node in oracle.graph.nodes {
            kinds.insert(node.operation.spec().name);
            if let Operation::Pointwise(pointwise) = &node.operation {
                modes.insert(pointwise.operation);
            }
        }
    }
    for spec in Operation::SPECS {
        let is_without = [ELSEWHERE, NOT_COMPUTED].concat().contains(&spec.name);
        assert_ne!(kinds.contains(spec.name), is_without, "{}", spec.name);
    }
    let known: HashSet<&str> = Operation::SPECS.iter().map(|spec| spec.name).collect();
    assert!(ELSEWHERE.iter().all(|name| known.contains(name)));
    let without: Vec<_> = PointwiseMode::every().filter(|mode| !modes.contains(mode)).collect();
    assert!(
        without.is_empty(),
        "{without:?}: add them to tests/oracle/elements.py and run tests/oracle/make.py"
    );
}
