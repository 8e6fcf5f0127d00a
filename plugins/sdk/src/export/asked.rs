//! A handle that was made for a host, with the graph that the host last asked about.
//!
//! Hosts ask about one graph several times (applicable engines, details, workspace, plan), each time with the same bytes.

use std::ops::Deref;
use std::sync::Arc;

use super::Result;
use crate::error::PluginError;
use crate::graph::Graph;
use crate::lock::Mutex;
use crate::wire;

/// The most bytes of a graph that a handle keeps.
const MOST: usize = 1 << 20;

/// A handle of a plugin, and the last graph.
pub(super) struct Asked<H> {
    handle: H,
    last: Mutex<Option<Last>>,
}

/// A graph with the bytes from which it was read.
struct Last {
    bytes: Box<[u8]>,
    graph: Arc<Graph>,
}

impl<H> Asked<H> {
    pub fn new(handle: H) -> Self {
        Self { handle, last: Mutex::new(None) }
    }

    /// The graph of these bytes, read unless they equal the last ones. Threads that use one handle at once do not wait for each
    /// other: whoever finds it in use reads the bytes.
    pub fn graph(&self, bytes: &[u8]) -> Result<Arc<Graph>> {
        let known = self.last.try_lock().and_then(|last| {
            let last = last.as_ref().filter(|last| *last.bytes == *bytes)?;
            Some(Arc::clone(&last.graph))
        });
        if let Some(graph) = known {
            return Ok(graph);
        }
        let graph = wire::read(bytes)
            .map(Arc::new)
            .map_err(|error| PluginError::invalid_value(format!("op_graph: {error}")))?;
        if bytes.len() <= MOST {
            let new = Last { bytes: bytes.into(), graph: Arc::clone(&graph) };
            // The old one is dropped after the lock is released.
            let _old = self.last.try_lock().and_then(|mut last| last.replace(new));
        }
        Ok(graph)
    }
}

impl<H> Deref for Asked<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::operation::Pointwise;
    use crate::graph::{DataType, Node, PointwiseMode, Tensor};

    fn bytes(dim: i64) -> Vec<u8> {
        let tensors = (1..=2).map(|uid| Tensor::packed(uid, DataType::Float, &[dim])).collect();
        let nodes = vec![Node::single(Pointwise::new(PointwiseMode::ReluFwd, 1, None, 2))];
        wire::write(&Graph { tensors, nodes, ..Graph::default() }, wire::Layout::G2).unwrap()
    }

    #[test]
    fn equal_bytes_are_read_once_wherever_they_are() {
        let handle = Asked::new(());
        let (mut first, second) = (bytes(4), bytes(4));
        let graph = handle.graph(&first).unwrap();
        assert!(Arc::ptr_eq(&graph, &handle.graph(&second).unwrap()));
        // Other bytes at the same address are another graph.
        first.copy_from_slice(&bytes(5));
        let other = handle.graph(&first).unwrap();
        assert_eq!((graph.tensors[0].dims[0], other.tensors[0].dims[0]), (4, 5));
        assert!(!Arc::ptr_eq(&graph, &handle.graph(&second).unwrap()));
    }

    #[test]
    fn malformed_and_large_bytes_are_not_kept() {
        let handle = Asked::new(());
        let good = bytes(4);
        let graph = handle.graph(&good).unwrap();
        assert!(handle.graph(&good[..good.len() / 2]).is_err());
        assert!(Arc::ptr_eq(&graph, &handle.graph(&good).unwrap()));
        let mut large = Graph { name: "x".repeat(MOST), ..Graph::default() };
        large.tensors.push(Tensor::packed(1, DataType::Float, &[1]));
        let large = wire::write(&large, wire::Layout::G2).unwrap();
        handle.graph(&large).unwrap();
        assert!(Arc::ptr_eq(&graph, &handle.graph(&good).unwrap()));
    }

    #[test]
    fn a_handle_in_use_by_another_thread_is_not_waited_for() {
        let handle = Asked::new(());
        let bytes = bytes(4);
        let graph = handle.graph(&bytes).unwrap();
        let _held = handle.last.lock();
        std::thread::scope(|scope| {
            let own = scope.spawn(|| handle.graph(&bytes).unwrap()).join().unwrap();
            assert!(own == graph && !Arc::ptr_eq(&own, &graph));
        });
    }
}
