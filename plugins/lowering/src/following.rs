//! Products and convolutions with what follows them: element-wise nodes become the epilogue of their kernels.

use std::collections::HashSet;

use hipdnn_kernels::Target;
use hipdnn_kernels::domain::Epilogue;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_sdk::graph::{Graph, Node};

use crate::attention::Whole;
use crate::group::Group;
use crate::way::Way;
use crate::{Argument, Options, convolution, product};

/// A product or convolution that kernels of its own compute.
pub(crate) struct Multiplied {
    /// Its kernels.
    pub kernels: Vec<Whole>,
    /// Its place in the graph.
    pub place: usize,
    pub node: Node,
    pub problem: Problem,
}

impl Multiplied {
    /// The kernels with a group as their epilogue: where nothing else reads the result, and the group reads its elements in their places.
    pub fn followed_by(
        &self,
        group: &Group,
        graph: &mut Graph,
        target: &Target,
        options: Options,
    ) -> Option<Vec<Whole>> {
        let [result] = *self.node.operation.outputs().as_slice() else { return None };
        let epilogue = group.epilogue_of(graph.tensor(result)?)?;
        let name = format!("product_{}", self.place);
        let way = Way { target, name: &name, shares: !options.batch_invariant };
        self.written(graph, way, epilogue)
    }

    fn written(
        &self,
        graph: &mut Graph,
        way: Way<'_>,
        epilogue: (Epilogue, Vec<Argument>),
    ) -> Option<Vec<Whole>> {
        let written = match &self.problem {
            Problem::Matmul(own) => product::kernels(graph, &self.node, own, way, Some(epilogue)),
            Problem::Convolution(own) => convolution::kernels(graph, &self.node, own, way, Some(epilogue)),
            _ => return None,
        };
        // The kernels without it stay where one cannot be written.
        written.ok()
    }

    /// Whether only a kernel that goes on from the result sees it.
    pub fn is_hidden(&self, graph: &Graph, unmarked: &HashSet<i64>, readers: impl Fn(i64) -> usize) -> bool {
        self.node.operation.outputs().iter().all(|uid| {
            let is_virtual = graph.tensor(*uid).is_some_and(|tensor| tensor.is_virtual);
            is_virtual && !unmarked.contains(uid) && readers(*uid) == 1
        })
    }
}
