//! Checks the bytes of a graph once, from front to back, before anything else reads them.

use super::reader::{Broken, Table};
use super::span::{self, Span};
use super::{LAST_G1_DATA_TYPE, LAST_G1_OPERATION, LAST_G1_VALUE, Layout, graph_field, tensor_field};
use crate::graph::operation::{FieldKind, OperationSpec};
use crate::graph::{ApiVersion, GraphError, Tensor};

type Result<T> = std::result::Result<T, GraphError>;

/// Maximum number of tables in a graph, the limit of the format's own verifier.
const MAX_TABLES: usize = 1_000_000;
/// How much larger than its bytes an unpacked graph may become if tables share parts.
pub const MAX_EXPANSION: usize = 16;

/// What the backend needs to know about a graph without unpacking it.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The generation of the bytes.
    pub layout: Layout,
    /// The tensors, in the order of the graph.
    pub tensors: Vec<TensorSummary>,
    /// The number of nodes.
    pub nodes: usize,
    /// Whether the layout of November 2025 can express the graph without loss of meaning.
    pub fits_g1: bool,
    /// Whether shapes may be replaced at execution.
    pub is_override_shape_enabled: bool,
    /// The oldest plugin interface that can express the graph: the version in the bytes or, without one,
    /// 1.0.0.
    pub required_api_version: ApiVersion,
    /// Whether the graph has an id.
    pub has_id: bool,
}

/// What the backend needs to know about a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSummary {
    /// The tensor's uid.
    pub uid: i64,
    /// Alignment in bytes of the first element; 1 in the older layout, which promises nothing, and for a
    /// scalar passed by the host at execution.
    pub alignment: i64,
    /// Whether it has no memory of the caller.
    pub is_virtual: bool,
    /// Whether an operation writes it.
    pub is_written: bool,
    /// The bytes that its elements occupy. Empty if the caller binds no device memory, or for a ragged
    /// tensor, whose offsets decide.
    pub span: Span,
}

/// Checks that the bytes are a graph of either layout, and summarizes it.
///
/// Every table, vector and text is visited. Unknown fields, operations and enumeration values pass: they are
/// for plugins that know them. A known operation must have its attributes.
pub fn verify(bytes: &[u8]) -> Result<Summary> {
    let graph = Table::root(bytes)?;
    let mut extent = Extent::default();
    extent.table(&graph);
    extent.bytes += graph.text(graph_field::NAME)?.len();
    let nodes = graph.places(graph_field::NODES)?;
    let layout = layout(bytes, nodes.clone())?;
    let stamp = graph.inline::<12, 4>(graph_field::MIN_API_VERSION)?.map(api_version);
    let has_id = graph.inline::<16, 1>(graph_field::ID)?.is_some();
    let is_override_shape_enabled = flag(&graph, graph_field::IS_OVERRIDE_SHAPE_ENABLED)?;
    graph.scalar::<i64>(graph_field::PREFERRED_ENGINE_ID)?;
    let mut summary = Summary {
        layout,
        tensors: Vec::new(),
        nodes: 0,
        fits_g1: !is_override_shape_enabled,
        is_override_shape_enabled,
        required_api_version: stamp.unwrap_or(ApiVersion::new(1, 0, 0)),
        has_id,
    };
    let fits = |index| Ok::<_, GraphError>(graph.scalar::<u8>(index)?.unwrap_or(0) <= LAST_G1_DATA_TYPE);
    summary.fits_g1 &= fits(graph_field::COMPUTE_TYPE)?;
    summary.fits_g1 &= fits(graph_field::INTERMEDIATE_TYPE)?;
    summary.fits_g1 &= fits(graph_field::IO_TYPE)?;
    let io_type = graph.scalar::<u8>(graph_field::IO_TYPE)?.unwrap_or(0);
    let tensors = graph.places(graph_field::TENSORS)?;
    summary.tensors = Vec::with_capacity(tensors.len());
    for at in tensors {
        tensor(bytes, at?, io_type, &mut summary, &mut extent)?;
    }
    let mut written = Written::of(&summary.tensors);
    for at in nodes {
        node(bytes, at?, &mut summary, &mut written, &mut extent)?;
    }
    extent.check(bytes.len())?;
    written.mark(&mut summary.tensors);
    Ok(summary)
}

/// The name of a verified graph, if it has one.
pub fn graph_name(bytes: &[u8]) -> Option<String> {
    let name = Table::root(bytes).ok()?.text(graph_field::NAME).ok()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// The oldest plugin interface version, from its three numbers.
pub(super) fn api_version(bytes: [u8; 12]) -> ApiVersion {
    let part = |i: usize| {
        let part = bytes.get(i..i + 4).and_then(|part| part.try_into().ok());
        part.map_or(0, u32::from_le_bytes)
    };
    ApiVersion::new(part(0), part(4), part(8))
}

/// Tells the layouts apart: only nodes of the newer one have a fourth slot, and every useful node has its
/// attributes there.
fn layout(
    bytes: &[u8],
    nodes: impl ExactSizeIterator<Item = std::result::Result<usize, Broken>>,
) -> Result<Layout> {
    if nodes.len() == 0 {
        return Ok(Layout::G2);
    }
    for at in nodes {
        if Table::open(bytes, at?)?.has(3) {
            return Ok(Layout::G2);
        }
    }
    Ok(Layout::G1)
}

pub(super) fn flag(table: &Table<'_>, index: u16) -> Result<bool> {
    Ok(table.scalar::<u8>(index)?.unwrap_or(0) != 0)
}

/// Checks the tensor at `at` and adds it to the summary. Out of line, so that its few values stay in
/// registers.
#[inline(never)]
fn tensor(bytes: &[u8], at: usize, io_type: u8, summary: &mut Summary, extent: &mut Extent) -> Result<()> {
    use tensor_field as field;
    let table = Table::open(bytes, at)?;
    extent.table(&table);
    let uid = table.scalar::<i64>(field::UID)?.unwrap_or(0);
    extent.bytes += table.text(field::NAME)?.len();
    let data_type = table.scalar::<u8>(field::DATA_TYPE)?.unwrap_or(0);
    let (dims, strides) = (table.scalars::<i64>(field::DIMS)?, table.scalars::<i64>(field::STRIDES)?);
    extent.bytes += (dims.len() + strides.len()) * size_of::<i64>();
    let is_virtual = flag(&table, field::VIRTUAL)?;
    let value_type = table.scalar::<u8>(field::VALUE_TYPE)?.unwrap_or(0);
    let has_value = match value_type {
        0 => true,
        1 | 2 | 3 | 5 => table.pointed::<4>(field::VALUE)?.is_some(),
        4 | 8 => table.pointed::<1>(field::VALUE)?.is_some(),
        6 | 7 => table.pointed::<8>(field::VALUE)?.is_some(),
        _ => true,
    };
    if !has_value {
        return Err(GraphError(format!(
            "tensor {uid} names a type for its value (number {value_type}) but has no value"
        )));
    }
    let by_value = flag(&table, field::IS_RUNTIME_PASS_BY_VALUE)?;
    let ragged = table.scalar::<i64>(field::RAGGED_OFFSET_UID)?.is_some();
    let stated = table.scalar::<i64>(field::ALIGNMENT)?;
    table.scalar::<i64>(field::RAGGED_OFFSET_MULTIPLIER)?;
    let alignment = match summary.layout {
        Layout::G1 => 1,
        // A host scalar, usually a variable on the stack.
        Layout::G2 if by_value => 1,
        Layout::G2 => stated.unwrap_or(Tensor::DEFAULT_ALIGNMENT),
    };
    summary.fits_g1 &= data_type <= LAST_G1_DATA_TYPE
        && value_type <= LAST_G1_VALUE
        && !by_value
        && !ragged
        && stated.is_none_or(|stated| stated == Tensor::DEFAULT_ALIGNMENT);
    let has_memory = !is_virtual && !by_value && !ragged && value_type == 0 && dims.len() == strides.len();
    let size = span::size(data_type, io_type).filter(|_| has_memory);
    let span = size.and_then(|size| Span::of(size, dims.zip(strides))).unwrap_or_default();
    summary.tensors.push(TensorSummary { uid, alignment, is_virtual, is_written: false, span });
    Ok(())
}

/// The tensors written by operations.
enum Written {
    /// Marked at once, as there are few tensors to search.
    Few,
    /// Collected, and marked at the end.
    Many(Vec<i64>),
}

impl Written {
    const FEW: usize = 16;

    fn of(tensors: &[TensorSummary]) -> Self {
        if tensors.len() > Self::FEW { Self::Many(Vec::new()) } else { Self::Few }
    }

    #[inline]
    fn add(&mut self, tensors: &mut [TensorSummary], uid: i64) {
        match self {
            Self::Few => {
                tensors.iter_mut().filter(|tensor| tensor.uid == uid).for_each(|it| it.is_written = true);
            }
            // No more are needed if each tensor is written once.
            Self::Many(uids) if uids.len() < tensors.len() => uids.push(uid),
            Self::Many(_) => {}
        }
    }

    fn mark(self, tensors: &mut [TensorSummary]) {
        if let Self::Many(mut uids) = self {
            uids.sort_unstable();
            tensors.iter_mut().for_each(|tensor| tensor.is_written = uids.binary_search(&tensor.uid).is_ok());
        }
    }
}

/// Checks the node at `at`, counts it and adds its outputs to `written`. Out of line like [`tensor`].
#[inline(never)]
fn node(
    bytes: &[u8],
    at: usize,
    summary: &mut Summary,
    written: &mut Written,
    extent: &mut Extent,
) -> Result<()> {
    let node = Table::open(bytes, at)?;
    extent.table(&node);
    let position = summary.nodes;
    summary.nodes += 1;
    let fields = summary.layout.node_fields();
    extent.bytes += node.text(fields.name)?.len();
    if let Some(index) = fields.compute_type {
        node.scalar::<u8>(index)?;
    }
    let number = node.scalar::<u8>(fields.operation_type)?.unwrap_or(0);
    if number == 0 {
        return Err(GraphError(format!("node {position} has no operation")));
    }
    summary.fits_g1 &= number <= LAST_G1_OPERATION;
    let Some(spec) = OperationSpec::from_wire(number) else { return Ok(()) };
    let Some(at) = node.target(fields.operation)? else {
        return Err(GraphError(format!(
            "node {position} is a {} (number {number}) without attributes",
            spec.table
        )));
    };
    let table = Table::open(bytes, at)?;
    extent.table(&table);
    for field in spec.fields {
        match field.kind {
            FieldKind::Input { .. } | FieldKind::Int { .. } => {
                table.scalar::<i64>(field.index)?;
            }
            FieldKind::Output { required } => {
                let uid = table.scalar::<i64>(field.index)?;
                // A missing required field has the format's default, as everywhere.
                if let Some(uid) = uid.or(required.then_some(0)) {
                    written.add(&mut summary.tensors, uid);
                }
            }
            FieldKind::Int32 { .. } => {
                table.scalar::<i32>(field.index)?;
            }
            FieldKind::Float => {
                table.scalar::<f32>(field.index)?;
            }
            FieldKind::Flag { .. } | FieldKind::Enum(_) => {
                table.scalar::<u8>(field.index)?;
            }
            FieldKind::Inputs | FieldKind::Ints => {
                extent.bytes += table.scalars_size::<i64>(field.index)?;
            }
            FieldKind::Outputs => {
                extent.bytes += table.scalars_size::<i64>(field.index)?;
                for uid in table.scalars::<i64>(field.index)? {
                    written.add(&mut summary.tensors, uid);
                }
            }
            FieldKind::Int32s => extent.bytes += table.scalars_size::<i32>(field.index)?,
            FieldKind::Text => extent.bytes += table.text(field.index)?.len(),
            FieldKind::Bytes => extent.bytes += table.raw(field.index)?.len(),
        }
    }
    Ok(())
}

/// The size of an unpacked graph: parts can be shared, so a small buffer could otherwise grow without limit.
#[derive(Default)]
struct Extent {
    tables: usize,
    bytes: usize,
}

impl Extent {
    fn table(&mut self, table: &Table<'_>) {
        self.tables += 1;
        self.bytes += table.size();
    }

    /// Fails if the graph is too large for one read from `size` bytes.
    fn check(&self, size: usize) -> Result<()> {
        if self.tables >= MAX_TABLES {
            return Err(GraphError(format!(
                "the graph has {} tables, expected less than {MAX_TABLES}",
                self.tables
            )));
        }
        // Short texts are often shared, so small buffers may grow more.
        if self.bytes > size.saturating_mul(MAX_EXPANSION).saturating_add(1 << 16) {
            return Err(GraphError(format!(
                "the graph shares parts so often that it unpacks from {size} bytes to {}, expected at most {MAX_EXPANSION} times as many",
                self.bytes
            )));
        }
        Ok(())
    }
}
