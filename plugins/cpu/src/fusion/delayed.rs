//! Reads that a fusion would put off for too long.
//!
//! A result may be bound to the memory of an operand whose readers come before it in the graph. A part runs at the place of its last node,
//! so that an early member must not read such an operand after another part wrote to it.

use crate::fusion::state::Fusion;

/// Whether a member reads what a node between it and the last member, itself outside, may overwrite in place.
pub(crate) fn reads(fusion: &Fusion<'_>) -> bool {
    let [inner @ .., last] = fusion.members.as_slice() else { return false };
    let nodes = &fusion.prepared.graph.nodes;
    inner.iter().any(|member| {
        let read = nodes.get(*member).map(|node| node.operation.inputs()).unwrap_or_default();
        (member + 1..*last).filter(|between| !fusion.members.contains(between)).any(|between| {
            let written = nodes.get(between).map(|node| node.operation.outputs()).unwrap_or_default();
            read.iter().any(|from| written.iter().any(|to| is_in_place(fusion, *from, *to, between)))
        })
    })
}

/// Whether what a node writes may be bound to the memory of an operand.
fn is_in_place(fusion: &Fusion<'_>, from: i64, to: i64, writer: usize) -> bool {
    let tensor = |uid| fusion.uses.tensors.get(&uid).filter(|tensor| !tensor.is_virtual);
    let (Some(from_tensor), Some(to_tensor)) = (tensor(from), tensor(to)) else { return false };
    !fusion.uses.writers.contains_key(&from)
        && from_tensor.dims == to_tensor.dims
        && from_tensor.strides == to_tensor.strides
        && from_tensor.data_type.size() == to_tensor.data_type.size()
        && fusion.uses.readers(from).iter().all(|reader| *reader <= writer)
}
