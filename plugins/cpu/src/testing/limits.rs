//! What the results of a kernel may differ by from the reference's, derived as by `hipdnn run --check`.

use std::slice;

use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor};
use hipdnn_plugin_sdk::json;
use hipdnn_tool::graph::Graph as Described;
use hipdnn_tool::rounding::Limits;
use hipdnn_tool::steps::Step;
use hipdnn_tool::tensor::Tolerance;

use super::Array;
use crate::fusion::graph::parts_at;
use crate::plan::description;
use crate::plan::steps::Plan;
use crate::prepare::prepare;
use crate::problem::pointers;
use crate::settings::Settings;
use crate::simd::isa::Isa;

/// The tolerance of results beside the magnitude of what is summed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    derived: Tolerance,
    /// The largest magnitude of the result, or of its terms.
    scale: f64,
}

impl Limit {
    /// That of a result of an operation, by the notes of the kernel that the instruction set gets. All elements of a result may be as far
    /// off as one of magnitude `scale`: terms that cancel have errors all the same.
    pub(crate) fn new(
        operation: &Operation,
        compute_type: DataType,
        isa: Isa,
        arrays: &[Array],
        result: (i64, f64),
    ) -> Self {
        Self::of_graph(
            slice::from_ref(operation),
            compute_type,
            (isa, Settings::default()),
            arrays,
            (&[], result),
        )
    }

    /// The same for operations of one graph; `between` are its virtual tensors.
    pub(crate) fn of_graph(
        operations: &[Operation],
        compute_type: DataType,
        (isa, settings): (Isa, Settings),
        arrays: &[Array],
        (between, (uid, scale)): (&[Tensor], (i64, f64)),
    ) -> Self {
        let own = arrays.iter().map(|array| &array.tensor);
        let all = Graph { tensors: own.chain(between).cloned().collect(), ..Graph::default() };
        let used: Vec<i64> = operations.iter().flat_map(|operation| pointers(&all, operation)).collect();
        let is_used = |tensor: &Tensor| tensor.is_virtual || used.contains(&tensor.uid);
        let node =
            |operation: &Operation| Node { name: String::new(), compute_type, operation: operation.clone() };
        let graph = Graph {
            tensors: all.tensors.into_iter().filter(is_used).collect(),
            nodes: operations.iter().map(node).collect(),
            ..Graph::default()
        };
        let prepared = prepare(&graph).unwrap();
        let plan = Plan::in_parts(&prepared, |prepared| parts_at(prepared, isa, settings)).unwrap();
        let steps: Vec<Step> =
            description::steps(&prepared, &plan, Some(settings)).into_iter().map(Step::from).collect();
        let described = Described::from_json(&json::write(&graph)).unwrap();
        let limits = Limits { steps: Some(&steps), factor: 1.0 };
        Self { derived: limits.of(&described, described.tensor(uid).unwrap()), scale }
    }

    /// The same beside terms of another magnitude.
    pub(crate) fn beside(self, scale: f64) -> Self {
        Self { scale, ..self }
    }

    /// Whether two values differ by no more.
    pub(crate) fn holds(&self, got: f64, expected: f64) -> bool {
        (got - expected).abs() <= self.allows(got, expected)
    }

    /// The most that two values may differ by.
    pub(crate) fn allows(&self, got: f64, expected: f64) -> f64 {
        let Tolerance { relative, of_largest, absolute } = self.derived;
        relative * got.abs().max(expected.abs()) + of_largest * self.scale + absolute
    }
}

/// The largest distance between neighbours of a type beside them.
pub(crate) fn step_of(data_type: DataType) -> f64 {
    let described = hipdnn_tool::data_type::DataType::named(data_type.name()).unwrap();
    2.0 * hipdnn_tool::tensor::steps(described).0
}

/// The largest finite magnitude among values, at least that of the operands of these tests.
pub(crate) fn scale_of(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.is_finite()).fold(1.0, |largest, value| largest.max(value.abs()))
}
