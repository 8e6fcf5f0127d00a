//! Graphs in which a node is fused with the only one that reads its result.

use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, Tensor};

use crate::fusion::graph::parts_at;
use crate::prepare::prepare;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, packed, run_together};

const DIMS: [i64; 4] = [2, 3, 5, 7];
/// In memory.
const A: i64 = 1;
const B: i64 = 2;
const C: i64 = 3;
const RESULT: i64 = 4;
/// Virtual.
const FIRST: i64 = 10;
const SECOND: i64 = 11;
const THIRD: i64 = 12;

fn array(uid: i64) -> Array {
    Array::packed(uid, DataType::Float, &DIMS)
}

fn virtuals() -> Vec<Tensor> {
    [FIRST, SECOND, THIRD].map(|uid| Tensor { is_virtual: true, ..array(uid).tensor }).to_vec()
}

/// a · b, which has to wait for c² + b.
fn operations() -> Vec<Operation> {
    let binary = |mode, x, y, to| Pointwise::new(mode, x, Some(y), to).into();
    vec![
        binary(PointwiseMode::Mul, A, B, FIRST),
        binary(PointwiseMode::Mul, C, C, SECOND),
        binary(PointwiseMode::Add, SECOND, B, THIRD),
        binary(PointwiseMode::Sub, FIRST, THIRD, RESULT),
    ]
}

fn parts_of(operations: Vec<Operation>, more: Vec<Tensor>) -> usize {
    let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
    let mut tensors: Vec<Tensor> = [A, B, C, RESULT].map(|uid| array(uid).tensor).to_vec();
    tensors.extend(virtuals());
    tensors.extend(more);
    let graph = Graph { tensors, nodes: operations.into_iter().map(node).collect(), ..Graph::default() };
    parts_at(&prepare(&graph).unwrap(), Isa::detect(), Settings::default()).unwrap().len()
}

#[test]
fn nodes_that_one_member_reads_are_fused() {
    assert_eq!(parts_of(operations(), Vec::new()), 1);
    let mut random = Random::new(14);
    let mut arrays = [A, B, C, RESULT].map(|uid| array(uid).filled(|| random.whole())).to_vec();
    for isa in Isa::available() {
        run_together(&operations(), DataType::Float, *isa, &mut arrays, &virtuals());
        let [a, b, c, result] = [0, 1, 2, 3].map(|i| arrays[i].values());
        for (i, got) in result.into_iter().enumerate() {
            assert_eq!(got, a[i] * b[i] - (c[i] * c[i] + b[i]), "element {i} at {isa:?}");
        }
    }
}

#[test]
fn nodes_that_others_read_are_not_fused() {
    let mut operations = operations();
    let other = packed(20, DataType::Float, &DIMS);
    operations.push(Pointwise::new(PointwiseMode::Neg, THIRD, None, 20).into());
    assert!(parts_of(operations, vec![other]) > 1);
}

#[test]
fn the_epilogue_of_a_convolution_stays_with_it() {
    let filter = [3, 3, 1, 1];
    let filter = packed(20, DataType::Float, &filter);
    let mut operations = operations();
    operations[1] = ConvolutionForward::new(C, 20, SECOND, 2).into();
    // The product, the convolution with the sum, then the difference, which is fused with the product.
    assert_eq!(parts_of(operations, vec![filter]), 2);
}
