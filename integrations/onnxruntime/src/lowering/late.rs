//! Results one of whose dimensions is only known when they are computed.

use super::{Lowered, Lowering, OnHost, Reason, View};
use crate::model::{Element, Node, ValueId};

/// Such a result, packed at the beginning of memory with room for the largest one.
pub struct Late {
    /// The value.
    pub value: ValueId,
    /// The axis whose dimension is not known.
    pub axis: usize,
    /// Where this dimension is written, as one 64-bit integer.
    pub size: View,
}

impl Lowering<'_> {
    /// The provider's own operation, whose first result has at most these dimensions. It writes the actual one of `axis` to its second
    /// result.
    pub fn set_late(
        &mut self,
        node: &Node,
        own: impl OnHost + 'static,
        reads: &[&View],
        (element, dims, axis): (Element, Vec<i64>, usize),
    ) -> Lowered<()> {
        let packed = reads.iter().map(|view| self.packed(view)).collect::<Lowered<Vec<_>>>()?;
        let results = [(element, dims), (Element::Int64, vec![1])];
        let made = self.on_host(own, &packed.iter().collect::<Vec<_>>(), &results);
        let Ok([result, size]) = <[View; 2]>::try_from(made) else {
            return Err(Reason("an operation without a result".to_owned()));
        };
        if let Some(value) = node.outputs.first().copied().flatten() {
            self.late.push(Late { value, axis, size });
        }
        self.set(node, 0, result)
    }
}
