//! Graphs with the values that their first execution reads, in a folder, for `hipdnn numerics`.

use std::ffi::c_void;
use std::fs;
use std::path::Path;

use hipdnn::graph::{Graph, Tensor};
use hipdnn::{Handle, OperationGraph};
use hipdnn_plugin_sdk::wire::Span;

use crate::failure::{Failure, Result};

/// A graph that is recorded when it is first executed.
#[derive(Debug)]
pub struct Recording {
    /// Of the files, without their ends.
    pub name: String,
    /// The graph.
    pub graph: Graph,
}

/// The bytes from a tensor's first element to its last; none for elements below a byte.
fn extent(tensor: &Tensor) -> Option<usize> {
    let dims = tensor.dims.iter().copied().zip(tensor.strides.iter().copied());
    let span = Span::of(tensor.data_type.size()?, dims)?;
    usize::try_from(span.end).ok().filter(|_| span.begin == 0)
}

/// The name of a subgraph in those of files.
pub fn plain_name(subgraph: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let name = subgraph.rsplit("HipDNNExecutionProvider_").next().unwrap_or_default();
    name.chars().filter(is_plain).collect()
}

impl Recording {
    /// Writes `NAME.UID.bin` for each tensor that the graph reads, and then `NAME.json`, unless that is there.
    ///
    /// # Safety
    /// Each address is that of the tensor, on the host and with all its elements.
    pub unsafe fn write(&self, folder: &Path, handle: &Handle, memory: &[(i64, *mut c_void)]) -> Result<()> {
        let path = folder.join(format!("{}.json", self.name));
        if path.exists() {
            return Ok(());
        }
        let failure = |path: &Path, error: &std::io::Error| {
            Failure::argument(format!("option record: {} cannot be written: {error}", path.display()))
        };
        fs::create_dir_all(folder).map_err(|error| failure(folder, &error))?;
        let is_written =
            |uid: i64| self.graph.nodes.iter().any(|node| node.operation.outputs().contains(&uid));
        for (uid, address) in memory.iter().filter(|(uid, address)| !is_written(*uid) && !address.is_null()) {
            let Some(size) = self.graph.tensor(*uid).and_then(extent) else { continue };
            // SAFETY: the address is that of the tensor, with all its elements, as this function requires.
            let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), size) };
            let path = folder.join(format!("{}.{uid}.bin", self.name));
            fs::write(&path, bytes).map_err(|error| failure(&path, &error))?;
        }
        let text = OperationGraph::from_graph(handle, &self.graph)?.json()?;
        fs::write(&path, text).map_err(|error| failure(&path, &error))
    }
}

#[cfg(test)]
mod tests {
    use hipdnn::graph::DataType;

    use super::*;

    #[test]
    fn a_tensor_ends_at_its_last_element() {
        let of = |data_type, dims: &[i64], strides: &[i64]| extent(&Tensor::new(1, data_type, dims, strides));
        assert_eq!(of(DataType::Float, &[2, 3], &[3, 1]), Some(24));
        assert_eq!(of(DataType::Half, &[2, 3], &[8, 2]), Some(26));
        assert_eq!(of(DataType::Float, &[2, 0], &[0, 1]), None);
        assert_eq!(of(DataType::Int4, &[8], &[1]), None);
        assert_eq!(of(DataType::Float, &[i64::MAX, 3], &[i64::MAX, 1]), None);
    }
}
