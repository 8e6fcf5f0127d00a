//! Detects reads that fusion would delay for too long.
//!
//! A result may share memory with an operand whose readers come earlier in the graph. A part runs at the
//! position of its last node, so an early member must not read such an operand if another part overwrites it
//! first.

use crate::fusion::uses::Uses;
use crate::prepare::Prepared;

/// Whether a member reads what a node outside the part, between it and the last member, may overwrite.
pub(crate) fn reads(prepared: &Prepared, uses: &Uses<'_>, members: &[usize]) -> bool {
    let Some(last) = members.iter().max() else { return false };
    let nodes = &prepared.graph.nodes;
    members.iter().any(|member| {
        let read = nodes.get(*member).map(|node| node.operation.inputs()).unwrap_or_default();
        (member + 1..*last).filter(|between| !members.contains(between)).any(|between| {
            let written = nodes.get(between).map(|node| node.operation.outputs()).unwrap_or_default();
            read.iter().any(|from| written.iter().any(|to| is_in_place(uses, *from, *to, between)))
        })
    })
}

/// Whether the tensor that a node writes may share the memory of an operand.
fn is_in_place(uses: &Uses<'_>, from: i64, to: i64, writer: usize) -> bool {
    let tensor = |uid| uses.tensors.get(&uid).filter(|tensor| !tensor.is_virtual);
    let (Some(from_tensor), Some(to_tensor)) = (tensor(from), tensor(to)) else { return false };
    !uses.writers.contains_key(&from)
        && from_tensor.has_view_of(to_tensor)
        && uses.readers(from).iter().all(|reader| *reader <= writer)
}
