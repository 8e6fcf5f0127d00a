//! Readers and writers of the tensors of a graph.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::{Graph, Tensor};

use crate::layout::Layout;
use crate::problem::Operand;

/// The tensors of a graph by uid, with their readers and writers.
pub(crate) struct Uses<'a> {
    pub(crate) tensors: HashMap<i64, &'a Tensor>,
    readers: HashMap<i64, Vec<usize>>,
    pub(crate) writers: HashMap<i64, usize>,
}

impl<'a> Uses<'a> {
    pub(crate) fn of(graph: &'a Graph) -> Self {
        let mut readers: HashMap<i64, Vec<usize>> = HashMap::new();
        let mut writers = HashMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            for uid in node.operation.inputs() {
                let indices = readers.entry(uid).or_default();
                if indices.last() != Some(&index) {
                    indices.push(index);
                }
            }
            writers.extend(node.operation.outputs().into_iter().map(|uid| (uid, index)));
        }
        // Whoever reads a ragged tensor also reads its offsets; no chain does.
        for tensor in &graph.tensors {
            if let Some(offsets) = tensor.ragged_offset_uid {
                readers.entry(offsets).or_default().push(usize::MAX);
            }
        }
        Self { tensors: graph.tensors.iter().map(|tensor| (tensor.uid, tensor)).collect(), readers, writers }
    }

    pub(crate) fn readers(&self, uid: i64) -> &[usize] {
        self.readers.get(&uid).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn operand(&self, uid: i64, slot: usize) -> Option<Operand> {
        let tensor = self.tensors.get(&uid)?;
        Some(Operand { slot, data_type: tensor.data_type, layout: Layout::of(tensor).ok()? })
    }
}
