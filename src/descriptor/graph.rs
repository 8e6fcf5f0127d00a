//! OPERATIONGRAPH: the graph to compute, from operation descriptors or from bytes.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor};
use hipdnn_plugin_sdk::json;
use hipdnn_plugin_sdk::wire::{self, Layout};

use super::attribute::{Incoming, Outgoing, unknown};
use super::operation::{FrozenOperation, size_of_values};
use super::tensor::FrozenTensor;
use super::{DESCRIPTORS, Descriptor, Draft, Lifecycle, saved_plan};
use crate::ffi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type, hipdnnSeverity_t as Severity,
};
use crate::graph::{FrozenGraph, with_compute_types};
use crate::graph_file;
use crate::handle as handles;
use crate::hints;
use crate::log;
use crate::memory::{self, copy};
use crate::object::{Access, thread_store};
use crate::status::{Error, Result};
use crate::trace;

const KIND: &str = "operation graph";

/// The approximate bytes of a tensor or a node without its lists and texts.
const TABLE: usize = 256;

const HANDLE: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_HANDLE as c_int;
const OPS: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_OPS as c_int;
const COMPUTE_TYPE: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT as c_int;
const INTERMEDIATE_TYPE: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT as c_int;
const IO_TYPE: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT as c_int;
const PREFERRED_ENGINE_ID: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT as c_int;
const NAME: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT as c_int;
const IS_OVERRIDE_SHAPE_ENABLED: c_int =
    Name::HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT as c_int;
const IS_PLAN_CACHE_ENABLED: c_int = Name::HIPDNN_ATTR_OPERATIONGRAPH_IS_PLAN_CACHE_ENABLED_EXT as c_int;

/// An open graph.
#[derive(Default)]
pub struct GraphDraft {
    handle: usize,
    /// Whether the caller has switched the plan cache off; not part of the graph.
    is_uncached: bool,
    content: Content,
}

/// The graph's content.
#[derive(Default)]
enum Content {
    /// Empty.
    #[default]
    Nothing,
    /// Verified bytes, unpacked only when the graph is changed.
    Bytes(FrozenGraph),
    /// Operations from the caller or unpacked from bytes.
    Parts(Box<Parts>),
}

#[derive(Clone, Default)]
struct Parts {
    operations: Vec<Arc<FrozenOperation>>,
    /// Tensors of unpacked bytes that no operation names.
    unused: Vec<Arc<FrozenTensor>>,
    /// Everything but tensors and nodes.
    header: Graph,
}

impl GraphDraft {
    /// The graph's parts; unpacks bytes first.
    fn parts(&mut self) -> Result<&mut Parts> {
        match &self.content {
            Content::Nothing => self.content = Content::Parts(Box::default()),
            Content::Bytes(graph) => {
                graph.require_unpacking()?;
                let graph = wire::read(graph.bytes(graph.summary().layout)?)
                    .map_err(|error| Error::not_supported(format!("the graph: {error}")))?;
                self.content = Content::Parts(Box::new(unpack(with_compute_types(graph))?));
            }
            Content::Parts(_) => {}
        }
        match &mut self.content {
            Content::Parts(parts) => Ok(parts),
            _ => Err(Error::internal("a graph was unpacked and is still packed")),
        }
    }
}

impl Draft for GraphDraft {
    type Frozen = FrozenGraph;

    const FINALIZE_ONCE: bool = false;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            HANDLE => {
                let handle = incoming.one::<usize>(Type::HIPDNN_TYPE_HANDLE)?;
                handles::with(handle, |_| Ok(())).map_err(|error| incoming.about(error))?;
                self.handle = handle;
                return Ok(());
            }
            IS_PLAN_CACHE_ENABLED => {
                self.is_uncached = !incoming.flag()?;
                return Ok(());
            }
            OPS => {
                let operations = incoming.descriptors(Descriptor::operation)?;
                self.parts()?.operations.extend(operations);
            }
            COMPUTE_TYPE => self.parts()?.header.compute_type = data_type(incoming)?,
            INTERMEDIATE_TYPE => self.parts()?.header.intermediate_type = data_type(incoming)?,
            IO_TYPE => self.parts()?.header.io_type = data_type(incoming)?,
            PREFERRED_ENGINE_ID => {
                let id = incoming.one(Type::HIPDNN_TYPE_INT64)?;
                self.parts()?.header.preferred_engine_id = Some(id);
            }
            NAME => {
                let name = incoming.text()?;
                self.parts()?.header.name = name;
            }
            IS_OVERRIDE_SHAPE_ENABLED => {
                let enabled = incoming.flag()?;
                self.parts()?.header.is_override_shape_enabled = enabled;
            }
            other => return Err(unknown(KIND, other, "set")),
        }
        // The graph has changed, so it needs a new id.
        self.parts()?.header.id = None;
        Ok(())
    }

    fn get_open(&mut self, outgoing: &Outgoing) -> Result<()> {
        if outgoing.name() == IS_PLAN_CACHE_ENABLED {
            return outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(!self.is_uncached));
        }
        let parts = self.parts()?;
        get(parts, outgoing)
    }

    fn finalize(&mut self) -> Result<Self::Frozen> {
        let is_empty = match &self.content {
            Content::Nothing => true,
            Content::Bytes(..) => false,
            Content::Parts(parts) => parts.operations.is_empty(),
        };
        if is_empty {
            return Err(Error::bad_param(
                "the operation graph has no operations (HIPDNN_ATTR_OPERATIONGRAPH_OPS)",
            ));
        }
        if self.handle == 0 {
            return Err(Error::bad_param(
                "HIPDNN_ATTR_OPERATIONGRAPH_HANDLE of the operation graph is not set",
            ));
        }
        // With bytes nothing can fail, so they are moved, not copied.
        let frozen = match std::mem::take(&mut self.content) {
            Content::Bytes(graph) => graph,
            Content::Parts(parts) => {
                let _phase = trace::phase("pack the graph", String::new);
                let packed = pack(&parts, Some(random_id()));
                self.content = Content::Parts(parts);
                FrozenGraph::from_own(packed?)?
            }
            Content::Nothing => return Err(Error::internal("an empty operation graph passed its checks")),
        };
        let frozen = frozen.with_handle(self.handle, !self.is_uncached);
        graph_file::write_if_wanted(&frozen);
        if log::is_on(Severity::HIPDNN_SEV_WARN) {
            hints::look_at(&frozen);
        }
        Ok(frozen)
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        if outgoing.name() == IS_PLAN_CACHE_ENABLED {
            return outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(frozen.is_cached()));
        }
        frozen.require_unpacking()?;
        let graph = wire::read(frozen.bytes(Layout::G2)?);
        let graph = graph.map_err(|error| Error::not_supported(format!("the graph: {error}")))?;
        get(&unpack(graph)?, outgoing)
    }
}

impl Descriptor {
    /// The bytes of an operation graph in the layout of 2026, finalized or not.
    pub fn serialized_graph(&self, access: Access) -> Result<Vec<u8>> {
        match self {
            Self::Graph(lifecycle) => lifecycle.look(
                access,
                |draft| match &draft.content {
                    Content::Bytes(graph) if graph.summary().layout == Layout::G2 => {
                        copy("the bytes of the graph", graph.bytes(Layout::G2)?)
                    }
                    _ => pack(draft.parts()?, None),
                },
                |graph| copy("the bytes of the graph", graph.bytes(Layout::G2)?),
            ),
            other => Err(other.wrong_kind(KIND)),
        }
    }

    /// Registers an open operation graph with the content of verified bytes, or of the graph in a container. Returns its handle,
    /// which the caller owns.
    pub fn enter_graph_from_bytes(bytes: &[u8]) -> Result<usize> {
        let bytes = saved_plan::graph_in("serializedGraph", bytes)?;
        let content = Content::Bytes(FrozenGraph::from_foreign(bytes, &thread_store().graphs)?);
        // Made in place: a descriptor is large.
        DESCRIPTORS
            .insert_with(|| Self::Graph(Lifecycle::open(GraphDraft { content, ..GraphDraft::default() })))
    }

    /// An operation graph as JSON, finalized or not.
    pub fn json_graph(&self, access: Access) -> Result<String> {
        let bytes = self.serialized_graph(access)?;
        // The graph and its text: a number of eight bytes has up to twenty digits.
        memory::require("the JSON of the graph", bytes.len().saturating_mul(wire::MAX_EXPANSION))?;
        wire::read(&bytes)
            .map(|graph| json::write(&graph))
            .map_err(|error| Error::not_supported(format!("the graph: {error}")))
    }

    /// An open operation graph with the content of a JSON text.
    pub fn graph_from_json(text: &[u8]) -> Result<Self> {
        memory::require("the graph in the JSON", json::memory_for(text.len()))?;
        let bytes = json::read_with_remarks(text).and_then(|(graph, remarks)| {
            remarks.iter().for_each(|remark| log::warn(|| format!("jsonGraph: {remark}")));
            wire::write(&graph, Layout::G2)
        });
        let bytes = bytes.map_err(|error| Error::bad_param(format!("jsonGraph: {error}")))?;
        let content = Content::Bytes(FrozenGraph::from_own(bytes)?);
        Ok(Self::Graph(Lifecycle::open(GraphDraft { content, ..GraphDraft::default() })))
    }

    /// A finalized operation graph that shares a graph.
    pub(super) fn of_graph(graph: FrozenGraph) -> Self {
        Self::Graph(Lifecycle::finalized(GraphDraft::default(), graph))
    }
}

fn data_type(incoming: &Incoming) -> Result<DataType> {
    let number = incoming.one::<i32>(Type::HIPDNN_TYPE_DATA_TYPE)?;
    DataType::from_c(number).ok_or_else(|| incoming.bad_value(number, "a hipdnnDataType_t, 0 to 17"))
}

fn get(parts: &Parts, outgoing: &Outgoing) -> Result<()> {
    let header = &parts.header;
    match outgoing.name() {
        OPS => {
            let total = parts.operations.len();
            outgoing
                .all_descriptors(total, |i| parts.operations.get(i).cloned().map(Descriptor::of_operation))
        }
        COMPUTE_TYPE => outgoing.optional(Type::HIPDNN_TYPE_DATA_TYPE, header.compute_type.c()),
        INTERMEDIATE_TYPE => outgoing.optional(Type::HIPDNN_TYPE_DATA_TYPE, header.intermediate_type.c()),
        IO_TYPE => outgoing.optional(Type::HIPDNN_TYPE_DATA_TYPE, header.io_type.c()),
        PREFERRED_ENGINE_ID => outgoing.optional(Type::HIPDNN_TYPE_INT64, header.preferred_engine_id),
        NAME => outgoing.text(&header.name),
        IS_OVERRIDE_SHAPE_ENABLED => {
            outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(header.is_override_shape_enabled))
        }
        other => Err(unknown(KIND, other, "read")),
    }
}

/// Converts an unpacked graph into the form that descriptors share.
fn unpack(mut graph: Graph) -> Result<Parts> {
    let tensors = std::mem::take(&mut graph.tensors);
    let nodes = std::mem::take(&mut graph.nodes);
    let mut by_uid: HashMap<i64, Tensor> = tensors.into_iter().map(|tensor| (tensor.uid, tensor)).collect();
    let mut frozen: HashMap<i64, Arc<FrozenTensor>> = HashMap::new();
    let (ragged, plain): (Vec<i64>, Vec<i64>) = by_uid
        .keys()
        .copied()
        .partition(|uid| by_uid.get(uid).is_some_and(|t| t.ragged_offset_uid.is_some()));
    for uid in plain.into_iter().chain(ragged) {
        let Some(tensor) = by_uid.remove(&uid) else { continue };
        let ragged_offset = match tensor.ragged_offset_uid {
            None => None,
            Some(offsets) => Some(frozen.get(&offsets).cloned().ok_or_else(|| {
                Error::bad_param(format!(
                    "tensor {uid} takes its ragged offsets from tensor {offsets}, which is missing or ragged itself"
                ))
            })?),
        };
        frozen.insert(uid, Arc::new(FrozenTensor { tensor, ragged_offset }));
    }
    let mut used = std::collections::HashSet::new();
    let operations = nodes.into_iter().map(|node| {
        let uids = node.operation.tensors();
        used.extend(uids.iter().copied());
        let of_uid = |uid: &i64| {
            let tensor = frozen.get(uid).cloned();
            tensor.ok_or_else(|| {
                Error::bad_param(format!("node {:?} names tensor {uid}, which is missing", node.name))
            })
        };
        let tensors = uids.iter().map(of_uid).collect::<Result<_>>()?;
        let size = size_of_values(&node.name, &node.operation.values());
        Ok(Arc::new(FrozenOperation { node, tensors, size }))
    });
    let operations = operations.collect::<Result<_>>()?;
    let unused =
        frozen.into_iter().filter(|(uid, _)| !used.contains(uid)).map(|(_, tensor)| tensor).collect();
    Ok(Parts { operations, unused, header: graph })
}

/// Packs the parts: tensors in the order of their first use, one for each uid, those with ragged offsets right after the
/// tensor that names them. A graph without an id gets `id`.
fn pack(parts: &Parts, id: Option<[u8; 16]>) -> Result<Vec<u8>> {
    require_packing(parts)?;
    let mut header = parts.header.clone();
    let count = parts.operations.iter().map(|operation| operation.tensors.len()).sum();
    let mut seen: HashMap<i64, &Arc<FrozenTensor>> = HashMap::with_capacity(count);
    let mut tensors = Vec::with_capacity(count);
    let used = parts.operations.iter().flat_map(|operation| &operation.tensors);
    for tensor in used.chain(&parts.unused) {
        for tensor in [Some(tensor), tensor.ragged_offset.as_ref()].into_iter().flatten() {
            match seen.insert(tensor.tensor.uid, tensor) {
                None => tensors.push(&tensor.tensor),
                Some(other) if Arc::ptr_eq(other, tensor) => {}
                Some(_) => {
                    return Err(Error::bad_param(format!(
                        "two different tensors of the operation graph have the uid {}",
                        tensor.tensor.uid
                    )));
                }
            }
        }
    }
    let nodes: Vec<&Node> = parts.operations.iter().map(|operation| &operation.node).collect();
    header.min_required_engine_api_version = Some(header.required_api_version_of(tensors.iter().copied()));
    header.id = header.id.or(id);
    Ok(wire::write_parts(&header, &tensors, &nodes))
}

/// Fails if there is not enough memory to pack the parts.
fn require_packing(parts: &Parts) -> Result<()> {
    let tensor = |tensor: &Arc<FrozenTensor>| {
        let Tensor { name, dims, strides, .. } = &tensor.tensor;
        TABLE + name.len() + 8 * (dims.len() + strides.len())
    };
    let node = |operation: &Arc<FrozenOperation>| {
        TABLE + operation.size + operation.tensors.iter().map(tensor).sum::<usize>()
    };
    let nodes: usize = parts.operations.iter().map(node).sum();
    let size = nodes + parts.unused.iter().map(tensor).sum::<usize>() + parts.header.name.len();
    // A buffer that doubles, its old content, the bytes themselves, and a copy of a node's lists.
    memory::require("the bytes of the graph", size.saturating_mul(6))
}

/// A random 128-bit number, in the form of a version 4 UUID.
fn random_id() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    // Every `RandomState` is seeded from the system's random numbers.
    let word = || RandomState::new().hash_one(0_u8).to_le_bytes();
    let (mut id, high) = ([0; 16], word());
    id.iter_mut().zip(word().into_iter().chain(high)).for_each(|(to, from)| *to = from);
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut id;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    id
}
