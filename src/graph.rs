//! A finalized operation graph, as bytes in the layout that each plugin needs.

pub mod recent;

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

use hipdnn_plugin_sdk::graph::{ApiVersion, DataType, Graph};
use hipdnn_plugin_sdk::wire::{self, Layout, Summary, TensorSummary};

use self::recent::Recent;
use crate::cache_limit;
use crate::lock::OnceLock;
use crate::memory;
use crate::overlap::Sharing;
use crate::status::{Error, Result};

/// The newest plugin interface whose graphs are understood here.
pub const NEWEST_API_VERSION: ApiVersion = ApiVersion::new(1, 3, 0);

/// An immutable graph, and what it was finalized with.
#[derive(Clone)]
pub struct FrozenGraph {
    /// Only a number: the handle may be destroyed before the graph. 0 while there is none.
    handle: usize,
    /// Whether the plan cache may know the graph: 0 or 1. A word, since a `bool` is stored with its padding in small pieces, and
    /// reading these as a whole is slow: the processor cannot forward several stores to one load.
    is_cached: usize,
    graph: Arc<VerifiedGraph>,
}

/// The bytes of a graph, verified. Graphs with equal bytes may share them.
pub struct VerifiedGraph {
    bytes: Vec<u8>,
    summary: Summary,
    // Boxed, because every graph is moved once and few have these.
    /// The same graph in the other layout, made when the first plugin asks for it.
    converted: OnceLock<Box<Result<Vec<u8>>>>,
    /// Which tensors may share memory; computed when a pack first binds overlapping ones.
    sharing: OnceLock<Box<Option<Sharing>>>,
    /// The key of graphs that this library wrote, computed on first use. Equal graphs have equal keys.
    key: OnceLock<Box<Option<Key>>>,
    /// The hash of a caller's bytes if it will be needed, else 0.
    hash: u64,
    /// Whether this library wrote the bytes.
    is_own: bool,
}

/// The key shared by equal graphs.
struct Key {
    hash: u64,
    bytes: Vec<u8>,
}

impl Deref for FrozenGraph {
    type Target = VerifiedGraph;

    #[inline]
    fn deref(&self) -> &VerifiedGraph {
        &self.graph
    }
}

impl FrozenGraph {
    fn new(graph: Arc<VerifiedGraph>) -> Self {
        Self { handle: 0, is_cached: 1, graph }
    }

    /// The graph in bytes that this library wrote.
    ///
    /// # Errors
    /// As [`FrozenGraph::from_foreign`].
    pub fn from_own(bytes: Vec<u8>) -> Result<Self> {
        VerifiedGraph::verify(bytes, true, 0).map(Self::new)
    }

    /// Verifies and copies a caller's bytes, without a handle yet. Bytes that the thread remembers in `recent` are not
    /// verified again.
    ///
    /// # Errors
    /// BAD_PARAM when they are not a graph, NOT_SUPPORTED when they require an unknown newer plugin interface.
    pub fn from_foreign(bytes: &[u8], recent: &RefCell<Recent>) -> Result<Self> {
        let own = |hash| VerifiedGraph::verify(memory::copy("the bytes of the graph", bytes)?, false, hash);
        if cache_limit::limit() == 0 {
            return own(0).map(Self::new);
        }
        if let Some(graph) = recent.borrow_mut().guess(bytes) {
            return Ok(Self::new(graph));
        }
        let hash = recent::hash(bytes);
        if let Some(graph) = recent.borrow_mut().find(hash, bytes) {
            return Ok(Self::new(graph));
        }
        let graph = own(hash)?;
        recent.borrow_mut().remember(&graph);
        Ok(Self::new(graph))
    }

    /// The same graph, finalized with a handle. `is_cached`: whether the plan cache may know it.
    pub fn with_handle(self, handle: usize, is_cached: bool) -> Self {
        Self { handle, is_cached: usize::from(is_cached), ..self }
    }

    /// Whether the plan cache may know the graph.
    pub fn is_cached(&self) -> bool {
        self.is_cached != 0
    }

    /// The handle that the graph was finalized with.
    pub fn handle(&self) -> usize {
        self.handle
    }

    /// The part that does not depend on the handle.
    pub fn verified(&self) -> &Arc<VerifiedGraph> {
        &self.graph
    }
}

impl VerifiedGraph {
    fn verify(bytes: Vec<u8>, is_own: bool, hash: u64) -> Result<Arc<Self>> {
        // A verified tensor takes 48 bytes of summary and may take as few as 4 in the bytes.
        memory::require("the tensors of the graph", bytes.len().saturating_mul(12))?;
        let summary = wire::verify(&bytes)
            .map_err(|error| Error::bad_param(format!("serializedGraph ({} bytes): {error}", bytes.len())))?;
        let required = summary.required_api_version;
        if required > NEWEST_API_VERSION {
            return Err(Error::not_supported(format!(
                "the graph asks for plugin API {required}, this library knows up to {NEWEST_API_VERSION}"
            )));
        }
        let (converted, sharing, key) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let graph = Arc::<Self>::new_uninit();
        // Made in place: a move would read in large pieces what was just stored in small ones, which is slow, since the
        // processor cannot forward several stores to one load.
        // SAFETY: the memory has a graph's size, only this function uses it, and it is fully initialized here.
        Ok(unsafe {
            let place = Arc::as_ptr(&graph).cast_mut().cast::<Self>();
            place.write(Self { bytes, summary, converted, sharing, key, hash, is_own });
            graph.assume_init()
        })
    }

    /// The hash of the key; none for graphs that cannot be compared.
    pub fn hash(&self) -> Option<u64> {
        if self.is_own { self.key().map(|key| key.hash) } else { Some(self.hash) }
    }

    /// Whether both graphs have the same bytes, so that engines compute the same. In bytes that this library wrote, names, ids
    /// and uids do not count, and tensors at the same position correspond.
    pub fn is_equal(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other) || self.equal_bytes().is_some_and(|own| Some(own) == other.equal_bytes())
    }

    /// The bytes that the graph occupies in memory.
    pub fn size(&self) -> usize {
        let key = if self.is_own { self.key().map_or(0, |key| key.bytes.len()) } else { 0 };
        self.bytes.capacity() + key + self.summary.tensors.len() * size_of::<TensorSummary>()
    }

    /// Which tensors may share memory; `None` for graphs with operations that this check does not know.
    pub fn sharing(&self) -> Option<&Sharing> {
        let make = || {
            self.require_unpacking().ok()?;
            wire::read(&self.bytes).ok().map(|graph| Sharing::of(&graph))
        };
        self.sharing.get_or_init(|| Box::new(make())).as_ref().as_ref()
    }

    /// The bytes as they were passed or written.
    pub fn written(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes shared by equal graphs.
    pub fn equal_bytes(&self) -> Option<&[u8]> {
        if self.is_own { self.key().map(|key| key.bytes.as_slice()) } else { Some(&self.bytes) }
    }

    /// The bytes shared by graphs that compute the same, whoever wrote them: names, ids and uids do not count.
    pub fn canonical_bytes(&self) -> Option<Vec<u8>> {
        if self.is_own { self.key().map(|key| key.bytes.clone()) } else { canonical(&self.bytes, Layout::G2) }
    }

    fn key(&self) -> Option<&Key> {
        let make = || {
            let bytes = canonical(&self.bytes, self.summary.layout)?;
            Some(Key { hash: recent::hash(&bytes), bytes })
        };
        self.key.get_or_init(|| Box::new(make())).as_ref().as_ref()
    }

    /// The name that the caller gave the graph, for the log.
    pub fn name(&self) -> Option<String> {
        wire::graph_name(&self.bytes)
    }

    /// A summary of the graph.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The oldest plugin interface that can express the graph.
    pub fn required_api_version(&self) -> ApiVersion {
        self.summary.required_api_version
    }

    /// Fails if there is not enough memory to unpack the bytes.
    pub fn require_unpacking(&self) -> Result<()> {
        memory::require("the unpacked graph", self.bytes.len().saturating_mul(wire::MAX_EXPANSION))
    }

    /// The bytes in a layout.
    ///
    /// # Errors
    /// NOT_SUPPORTED if the layout of November 2025 cannot express the graph.
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
        self.converted.get_or_init(|| Box::new(convert(&self.bytes, layout))).as_deref().map_err(Clone::clone)
    }
}

/// A graph without names and id, its tensors numbered by position. None if a uid occurs twice or names no tensor.
fn canonical(bytes: &[u8], layout: Layout) -> Option<Vec<u8>> {
    memory::require("the unpacked graph", bytes.len().saturating_mul(wire::MAX_EXPANSION)).ok()?;
    let mut graph = wire::read(bytes).ok()?;
    let mut places: Vec<(i64, i64)> = graph.tensors.iter().map(|tensor| tensor.uid).zip(0..).collect();
    places.sort_unstable();
    let is_twice = |pair: &[(i64, i64)]| matches!(pair, [(one, _), (other, _)] if one == other);
    if places.windows(2).any(is_twice) {
        return None;
    }
    let mut is_whole = true;
    let mut renumber = |uid: &mut i64| {
        let found = places.binary_search_by_key(uid, |(uid, _)| *uid).ok().and_then(|at| places.get(at));
        is_whole &= found.is_some();
        *uid = found.map_or(0, |(_, place)| *place);
    };
    graph.id = None;
    graph.name.clear();
    for tensor in &mut graph.tensors {
        tensor.name.clear();
        renumber(&mut tensor.uid);
        tensor.ragged_offset_uid.iter_mut().for_each(&mut renumber);
    }
    for node in &mut graph.nodes {
        node.name.clear();
        node.operation.for_each_tensor(&mut renumber);
    }
    if is_whole { wire::write(&graph, layout).ok() } else { None }
}

fn convert(bytes: &[u8], layout: Layout) -> Result<Vec<u8>> {
    let read = wire::read(bytes).map(with_compute_types);
    let graph = read.and_then(|graph| wire::write(&graph, layout));
    graph.map_err(|error| {
        Error::not_supported(format!("the graph cannot be converted for the plugin: {error}"))
    })
}

/// Writes the graph's compute type into nodes that have none, as those of November 2025.
pub fn with_compute_types(mut graph: Graph) -> Graph {
    let compute_type = graph.compute_type;
    for node in graph.nodes.iter_mut().filter(|node| node.compute_type == DataType::Unset) {
        node.compute_type = compute_type;
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::thread_store;

    fn foreign(bytes: &[u8]) -> Result<FrozenGraph> {
        FrozenGraph::from_foreign(bytes, &thread_store().graphs)
    }

    fn graph(name: &str, id: u8, dim: i64) -> Graph {
        with_uids(name, id, dim, [1, 2])
    }

    fn with_uids(name: &str, id: u8, dim: i64, uids: [i64; 2]) -> Graph {
        use hipdnn_plugin_sdk::graph::{Node, PointwiseMode, Tensor, operation::Pointwise};
        let tensor =
            |uid| Tensor { name: format!("{name} {uid}"), ..Tensor::new(uid, DataType::Float, &[dim], &[1]) };
        let operation = Pointwise::new(PointwiseMode::ReluFwd, uids[0], None, uids[1]);
        Graph {
            name: name.into(),
            id: Some([id; 16]),
            tensors: uids.map(tensor).to_vec(),
            nodes: vec![Node {
                name: name.into(),
                compute_type: DataType::Float,
                operation: operation.into(),
            }],
            ..Graph::default()
        }
    }

    fn bytes(name: &str, id: u8, dim: i64) -> Vec<u8> {
        wire::write(&graph(name, id, dim), Layout::G2).unwrap()
    }

    #[test]
    fn names_and_ids_do_not_count_in_bytes_of_our_own() {
        let own = |name: &str, id, dim| FrozenGraph::from_own(bytes(name, id, dim)).unwrap();
        let one = own("a", 1, 8);
        let other = own("another name", 2, 8);
        assert!(one.verified().is_equal(other.verified()) && one.hash() == other.hash());
        let larger = own("a", 1, 9);
        assert!(!one.verified().is_equal(larger.verified()) && one.hash() != larger.hash());
        // Plugins still get the names.
        assert_eq!(other.name().as_deref(), Some("another name"));
    }

    #[test]
    fn uids_do_not_count_in_bytes_of_our_own_but_the_tensors_they_name_do() {
        let own = |graph: &Graph| FrozenGraph::from_own(wire::write(graph, Layout::G2).unwrap()).unwrap();
        let one = own(&with_uids("", 1, 8, [1, 2]));
        for uids in [[2, 1], [-7, i64::MAX], [0, 1]] {
            let other = own(&with_uids("", 1, 8, uids));
            assert!(one.verified().is_equal(other.verified()) && one.hash() == other.hash(), "{uids:?}");
        }
        let mut turned = with_uids("", 1, 8, [1, 2]);
        turned.tensors.swap(0, 1);
        assert!(!one.verified().is_equal(own(&turned).verified()));
        // A graph with a missing or ambiguous uid equals no other.
        let mut missing = with_uids("", 1, 8, [1, 2]);
        missing.nodes[0].operation.for_each_tensor(|uid| *uid += 5);
        let mut twice = with_uids("", 1, 8, [1, 2]);
        twice.tensors[1].uid = 1;
        for graph in [missing, twice] {
            if let Ok(graph) = FrozenGraph::from_own(wire::write(&graph, Layout::G2).unwrap()) {
                assert_eq!(graph.hash(), None);
            }
        }
    }

    #[test]
    fn every_byte_of_a_callers_graph_counts_and_equal_ones_are_verified_once() {
        let foreign = |name: &str| foreign(&bytes(name, 1, 8)).unwrap();
        let one = foreign("a");
        assert!(Arc::ptr_eq(one.verified(), foreign("a").verified()));
        assert!(!one.verified().is_equal(foreign("b").verified()));
        // In any order, as long as there are not too many others.
        for name in ["b", "a", "c", "a", "c", "c", "b", "a"] {
            foreign(name);
        }
        assert!(Arc::ptr_eq(one.verified(), foreign("a").verified()));
        for number in 0..20 {
            foreign(&number.to_string());
        }
        assert!(!Arc::ptr_eq(one.verified(), foreign("a").verified()));
        let elsewhere = std::thread::spawn(move || foreign("a")).join().unwrap();
        assert!(!Arc::ptr_eq(one.verified(), elsewhere.verified()));
        assert!(one.verified().is_equal(elsewhere.verified()) && one.hash() == elsewhere.hash());
    }
}
