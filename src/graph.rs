//! A finalized operation graph, as bytes in the generations that plugins ask for.

use std::sync::{Arc, OnceLock};

use hipdnn_plugin_sdk::graph::{ApiVersion, DataType, Graph};
use hipdnn_plugin_sdk::wire::{self, Layout, Summary};

use crate::memory;
use crate::status::{Error, Result};

/// The newest plugin interface whose graphs are understood here.
pub const NEWEST_API_VERSION: ApiVersion = ApiVersion::new(1, 3, 0);

/// A graph that does not change any more.
pub struct FrozenGraph {
    /// The handle that the graph was finalized with. Only a number: the handle may be destroyed before the graph.
    handle: usize,
    bytes: Vec<u8>,
    summary: Summary,
    /// The same graph in the other layout, made when the first plugin asks for it.
    converted: OnceLock<Result<Vec<u8>>>,
}

impl FrozenGraph {
    /// Checks bytes that a caller passed as a graph, and keeps them. There is no handle yet, which is 0.
    ///
    /// # Errors
    /// BAD_PARAM when they are not a graph, NOT_SUPPORTED when they ask for a newer plugin interface than any.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Arc<Self>> {
        // A tensor that is checked leaves three words, and its place in the bytes may have four.
        memory::require("the tensors of the graph", bytes.len().saturating_mul(6))?;
        let summary = wire::verify(&bytes)
            .map_err(|error| Error::bad_param(format!("serializedGraph ({} bytes): {error}", bytes.len())))?;
        let required = summary.required_api_version;
        if required > NEWEST_API_VERSION {
            return Err(Error::not_supported(format!(
                "the graph asks for plugin API {required}, this library knows up to {NEWEST_API_VERSION}"
            )));
        }
        Ok(Arc::new(Self { handle: 0, bytes, summary, converted: OnceLock::new() }))
    }

    /// The same graph, finalized with a handle. Nobody else may have it yet.
    pub fn with_handle(mut self: Arc<Self>, handle: usize) -> Result<Arc<Self>> {
        let own = Arc::get_mut(&mut self);
        own.ok_or_else(|| Error::internal("a graph was shared before it was finalized"))?.handle = handle;
        Ok(self)
    }

    /// The name that the caller gave the graph, for the log.
    pub fn name(&self) -> Option<String> {
        wire::graph_name(&self.bytes)
    }

    /// The handle that the graph was finalized with.
    pub fn handle(&self) -> usize {
        self.handle
    }

    /// What is in the graph.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The oldest plugin interface that can express the graph.
    pub fn required_api_version(&self) -> ApiVersion {
        self.summary.required_api_version
    }

    /// Fails where there is no memory for what the bytes are unpacked into.
    pub fn require_unpacking(&self) -> Result<()> {
        memory::require("the unpacked graph", self.bytes.len().saturating_mul(wire::MAX_EXPANSION))
    }

    /// The bytes in a layout.
    ///
    /// # Errors
    /// NOT_SUPPORTED where the layout of November 2025 cannot express the graph.
    pub fn bytes(&self, layout: Layout) -> Result<&[u8]> {
        if layout == self.summary.layout {
            return Ok(&self.bytes);
        }
        if layout == Layout::G1 && !self.summary.fits_g1 {
            return Err(Error::not_supported(
                "the plugin reads graphs of November 2025, which cannot express this one",
            ));
        }
        self.require_unpacking()?;
        self.converted.get_or_init(|| convert(&self.bytes, layout)).as_deref().map_err(Clone::clone)
    }
}

fn convert(bytes: &[u8], layout: Layout) -> Result<Vec<u8>> {
    let graph = wire::read(bytes).map(with_compute_types).and_then(|graph| wire::write(&graph, layout));
    graph.map_err(|error| {
        Error::not_supported(format!("the graph cannot be converted for the plugin: {error}"))
    })
}

/// A node of November 2025 computes in the graph's type, which a newer node states.
pub fn with_compute_types(mut graph: Graph) -> Graph {
    let compute_type = graph.compute_type;
    for node in graph.nodes.iter_mut().filter(|node| node.compute_type == DataType::Unset) {
        node.compute_type = compute_type;
    }
    graph
}
