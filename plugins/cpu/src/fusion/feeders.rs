//! Element-wise nodes on tensors in memory that only one member of a chain uses.

use std::collections::BTreeSet;

use hipdnn_plugin_sdk::graph::{Node, Operation};

use crate::fusion::state::{Fusion, is_chainable};

/// The nodes, in graph order, that can join a chain just before `node` because it alone reads their results:
/// element-wise nodes on tensors in memory, or on results of other such nodes. None after a producer, which
/// computes some epilogues in registers.
pub(crate) fn of(fusion: &Fusion<'_>, node: &Node, taken: &[bool]) -> BTreeSet<usize> {
    let mut feeders = BTreeSet::new();
    if fusion.producer.is_none() && matches!(node.operation, Operation::Pointwise(_)) {
        for uid in node.operation.inputs() {
            let mut more = BTreeSet::new();
            if is_fed(fusion, uid, taken, &mut more) {
                feeders.append(&mut more);
            }
        }
    }
    feeders
}

/// Whether a tensor is in memory, known, or computable with nodes that this adds to `feeders`.
fn is_fed(fusion: &Fusion<'_>, uid: i64, taken: &[bool], feeders: &mut BTreeSet<usize>) -> bool {
    let Some(tensor) = fusion.uses.tensors.get(&uid) else { return false };
    if !tensor.is_virtual || fusion.values.contains_key(&uid) {
        return true;
    }
    let Some((index, node)) = fusion
        .uses
        .writers
        .get(&uid)
        .and_then(|index| Some((*index, fusion.prepared.graph.nodes.get(*index)?)))
    else {
        return false;
    };
    let is_free = taken.get(index) == Some(&false) && fusion.members.last() < Some(&index);
    if !is_free
        || !matches!(node.operation, Operation::Pointwise(_))
        || !is_chainable(&node.operation)
        || fusion.uses.readers(uid).len() != 1
        || tensor.dims != fusion.dims
        || !node.operation.inputs().into_iter().all(|uid| is_fed(fusion, uid, taken, feeders))
    {
        return false;
    }
    feeders.insert(index);
    true
}
