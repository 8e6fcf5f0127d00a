//! A softmax written as five operations is one kernel, along any dimension.

use hipdnn_plugin_sdk::graph::operation::{Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, ReductionMode, Tensor};

use crate::fusion::graph::parts_at;
use crate::prepare::prepare;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::limits::Limit;
use crate::testing::{Array, Random, packed, run_together};

const X: i64 = 1;
const Y: i64 = 2;
/// Virtual.
const LARGEST: i64 = 10;
const LESS: i64 = 11;
const POWER: i64 = 12;
const SUM: i64 = 13;

fn operations() -> Vec<Operation> {
    let reduction = |mode, in_, out| Reduction { in_, out, mode, is_deterministic: false }.into();
    let pointwise = |mode, x, y, to| Pointwise::new(mode, x, y, to).into();
    vec![
        reduction(ReductionMode::Max, X, LARGEST),
        pointwise(PointwiseMode::Sub, X, Some(LARGEST), LESS),
        pointwise(PointwiseMode::Exp, LESS, None, POWER),
        reduction(ReductionMode::Add, POWER, SUM),
        pointwise(PointwiseMode::Div, POWER, Some(SUM), Y),
    ]
}

fn virtuals(dims: &[i64], axis: usize) -> Vec<Tensor> {
    let mut column = dims.to_vec();
    column[axis] = 1;
    let tensor = |uid, dims: &[i64]| Tensor { is_virtual: true, ..packed(uid, DataType::Float, dims) };
    vec![tensor(LARGEST, &column), tensor(SUM, &column), tensor(LESS, dims), tensor(POWER, dims)]
}

#[test]
fn softmax_along_any_dimension_is_one_kernel() {
    let mut random = Random::new(51);
    for (dims, axis, name) in [
        (&[1, 2, 9, 16][..], 3, "softmax of rows"),
        (&[1, 1, 3, 40], 3, "softmax of rows"),
        (&[70, 4], 1, "softmax of rows"),
        (&[33, 10], 1, "softmax of rows"),
        (&[1, 2, 5, 3, 9], 4, "softmax of rows"),
        (&[2, 3, 99], 0, "softmax of columns"),
        (&[2, 19, 5, 70], 1, "softmax of columns"),
        (&[1, 7, 1, 33], 1, "softmax of columns"),
        (&[1, 2100, 3], 1, "softmax of columns"),
        // Longer than a row whose results stay in the cache.
        (&[2, 33_001], 1, "softmax of rows"),
    ] {
        let array = |uid| Array::packed(uid, DataType::Float, dims);
        let mut arrays = [array(X).filled(|| 8.0 * random.real()), array(Y)].to_vec();
        let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
        let mut tensors: Vec<Tensor> = arrays.iter().map(|array| array.tensor.clone()).collect();
        tensors.extend(virtuals(dims, axis));
        let graph =
            Graph { tensors, nodes: operations().into_iter().map(node).collect(), ..Graph::default() };
        let inner: i64 = dims[axis + 1..].iter().product();
        let (inner, len) = (inner as usize, dims[axis] as usize);
        for isa in Isa::available() {
            let parts = parts_at(&prepare(&graph).unwrap(), *isa, Settings::default()).unwrap();
            let names: Vec<_> = parts.iter().map(|part| part.kernel.facts().algorithm).collect();
            assert_eq!(names, [name], "{dims:?} along {axis} at {isa:?}");
            run_together(&operations(), DataType::Float, *isa, &mut arrays, &virtuals(dims, axis));
            let (x, y) = (arrays[0].values(), arrays[1].values());
            let of = (&virtuals(dims, axis)[..], (Y, 1.0));
            let settings = (*isa, Settings::default());
            let limit = Limit::of_graph(&operations(), DataType::Float, settings, &arrays, of);
            for (i, got) in y.iter().enumerate().step_by(if len > 4096 { 997 } else { 1 }) {
                let first = i - i / inner % len * inner;
                let column = (0..len).map(|at| x[first + at * inner]);
                let most = column.clone().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = column.map(|x| (x - most).exp()).sum();
                let expected = (x[i] - most).exp() / sum;
                assert!(
                    limit.holds(*got, expected),
                    "{got} at {i} of {dims:?}, expected {expected}, {limit:?}"
                );
            }
        }
    }
}
