//! Operation graphs.

use std::ffi::c_char;
use std::ptr;

use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{self, Layout};

use crate::constants::{
    HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_ATTR_ENGINEHEUR_MODE,
    HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, HIPDNN_ATTR_ENGINEHEUR_RESULTS,
    HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR,
    HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, HIPDNN_HEUR_MODE_FALLBACK, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
    HIPDNN_TYPE_HANDLE, HIPDNN_TYPE_HEUR_MODE,
};
use crate::error::{Error, Result, Status};
use crate::functions::RawDescriptor;
use crate::serialized::two_calls;
use crate::{Backend, Descriptor, Engine, EngineConfig, Handle};

/// An operation graph.
pub struct OperationGraph {
    descriptor: Descriptor,
}

/// The engines that can run a graph, best first, or the library's reasons if there are none.
pub struct Offer {
    /// The ids of the engines.
    pub engines: Vec<i64>,
    /// The library's reasons, empty if there are engines.
    pub reasons: String,
}

impl OperationGraph {
    /// Passes a graph to the library, which checks it.
    pub fn from_graph(handle: &Handle, graph: &Graph) -> Result<Self> {
        let bytes = wire::write(graph, Layout::G2)
            .map_err(|error| Error::argument(format!("graph {:?}: {error}", graph.name)))?;
        let graph = Self::from_bytes(handle.backend(), &bytes)?;
        graph.finalize(handle)?;
        Ok(graph)
    }

    /// A graph from JSON text.
    pub fn from_json(backend: &Backend, text: &[u8]) -> Result<Self> {
        let read = backend.functions.hipdnnBackendCreateAndDeserializeJsonGraph_ext()?;
        let descriptor = Descriptor::made_by(backend, "reading the JSON graph", |to| {
            // SAFETY: `made_by` passes the address of a local, the only place that the function writes to, and the text has the given
            // length.
            unsafe { read(to, text.as_ptr().cast::<c_char>(), text.len()) }
        })?;
        Ok(Self { descriptor })
    }

    /// A graph from FlatBuffers bytes, or from a container with a graph.
    pub fn from_bytes(backend: &Backend, bytes: &[u8]) -> Result<Self> {
        let read = backend.functions.hipdnnBackendCreateAndDeserializeGraph_ext()?;
        let descriptor = Descriptor::made_by(backend, "reading the binary graph", |to| {
            // SAFETY: `made_by` passes the address of a local, the only place that the function writes to, and the bytes have the given
            // length.
            unsafe { read(to, bytes.as_ptr(), bytes.len()) }
        })?;
        Ok(Self { descriptor })
    }

    /// The descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The graph as the library's JSON.
    pub fn json(&self) -> Result<String> {
        let write = self.descriptor.backend().functions.hipdnnBackendGetSerializedJsonGraph_ext()?;
        let mut bytes =
            two_calls(self.descriptor.backend(), "writing the graph as JSON", |room, size, to| {
                // SAFETY: the graph is alive, the size valid, and the buffer has the given size.
                unsafe { write(self.descriptor.raw(), room, size, to.cast::<c_char>()) }
            })?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        String::from_utf8(bytes).map_err(|_| Error::answer("the library's JSON is not UTF-8"))
    }

    /// The graph's bytes, in the layout of 2026.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let backend = self.descriptor.backend();
        let write = backend.functions.hipdnnBackendGetSerializedBinaryGraph_ext()?;
        two_calls(backend, "writing the graph", |room, size, to| {
            // SAFETY: the graph is alive, the size valid, and the buffer has the given size.
            unsafe { write(self.descriptor.raw(), room, size, to) }
        })
    }

    /// The graph as plain data.
    pub fn graph(&self) -> Result<Graph> {
        wire::read(&self.bytes()?).map_err(|error| Error::answer(format!("the library's graph: {}", error.0)))
    }

    /// Connects the graph to a handle's plugins, and finalizes it.
    pub fn finalize(&self, handle: &Handle) -> Result<()> {
        // SAFETY: HANDLE elements are C's handle pointers.
        unsafe {
            self.descriptor.set_array(HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, &[handle.raw()])
        }?;
        self.descriptor.finalize("finalizing the graph")
    }

    /// The engines that can run it, best first.
    pub fn offer(&self) -> Result<Offer> {
        let backend = self.descriptor.backend();
        let heuristic = Descriptor::new(backend, HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        heuristic.set_descriptors(HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[&self.descriptor])?;
        // SAFETY: HEUR_MODE elements are enums as wide as an int.
        unsafe {
            heuristic.set_array(
                HIPDNN_ATTR_ENGINEHEUR_MODE,
                HIPDNN_TYPE_HEUR_MODE,
                &[HIPDNN_HEUR_MODE_FALLBACK],
            )
        }?;
        // Clear earlier messages, so that they are not taken for reasons.
        backend.last_error();
        heuristic.finalize("looking for engines")?;
        let count = heuristic.count(HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR)?;
        if count == 0 {
            return Ok(Offer { engines: Vec::new(), reasons: backend.last_error() });
        }
        // The library fills in descriptors of ours.
        let configs = (0..count)
            .map(|_| Descriptor::new(backend, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR))
            .collect::<Result<Vec<_>>>()?;
        let mut raw: Vec<RawDescriptor> = configs.iter().map(Descriptor::raw).collect();
        // SAFETY: BACKEND_DESCRIPTOR elements are C's descriptor pointers.
        let got = unsafe {
            heuristic.get_into(HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, &mut raw)
        }?;
        let engines = configs
            .iter()
            .take(got)
            .map(|config| {
                // A configuration's engine can only be read once it is finalized.
                config.finalize("finalizing an engine configuration")?;
                let mut engine = [ptr::null_mut()];
                // SAFETY: BACKEND_DESCRIPTOR elements are C's descriptor pointers.
                unsafe {
                    config.get_into(HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, &mut engine)
                }?;
                let [engine] = engine;
                let engine = Descriptor::made_by(backend, "reading the engine of a configuration", |to| {
                    // SAFETY: `made_by` passes the address of a local.
                    unsafe { to.write(engine) };
                    0
                })?;
                engine.i64(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Offer { engines, reasons: String::new() })
    }

    /// The offer if one engine that supports the graph cannot be configured: each engine is asked separately. Engines that
    /// fail come first, so that planning in this order reports why, then those that can run the graph, in the handle's order.
    pub fn offer_one_by_one(&self, handle: &Handle) -> Result<Offer> {
        let (mut failing, mut working) = (Vec::new(), Vec::new());
        for engine in handle.engines()? {
            let found = Engine::find(self, engine.id).and_then(|found| EngineConfig::new(&found, &[]));
            match found {
                Ok(_) => working.push(engine.id),
                Err(Error::Status { status: Status::Plugin, .. }) => failing.push(engine.id),
                Err(_) => {}
            }
        }
        failing.append(&mut working);
        Ok(Offer { engines: failing, reasons: String::new() })
    }
}
