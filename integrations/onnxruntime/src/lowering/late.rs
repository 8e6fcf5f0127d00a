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
        self.set_all_late(node, own, reads, vec![(element, dims, Some(axis))])
    }

    /// The provider's own operation with several results: each with the axis whose dimension is not known, or none, and at most these
    /// dimensions. It writes the actual dimension, the same for all, behind them.
    pub fn set_all_late(
        &mut self,
        node: &Node,
        own: impl OnHost + 'static,
        reads: &[&View],
        results: Vec<(Element, Vec<i64>, Option<usize>)>,
    ) -> Lowered<()> {
        let packed = reads.iter().map(|view| self.packed(view)).collect::<Lowered<Vec<_>>>()?;
        let axes: Vec<Option<usize>> = results.iter().map(|(_, _, axis)| *axis).collect();
        let all = results.into_iter().map(|(element, dims, _)| (element, dims));
        let all: Vec<_> = all.chain([(Element::Int64, vec![1])]).collect();
        let mut made = self.on_host(own, &packed.iter().collect::<Vec<_>>(), &all);
        let size = made.pop().ok_or_else(|| Reason("an operation without a result".to_owned()))?;
        for (at, (result, axis)) in made.into_iter().zip(axes).enumerate() {
            let Some(value) = node.outputs.get(at).copied().flatten() else { continue };
            if let Some(axis) = axis {
                self.late.push(Late { value, axis, size: size.clone() });
            }
            self.set(node, at, result)?;
        }
        Ok(())
    }
}
