//! Saved execution plans, and containers of a graph and a plan.
//!
//! Other libraries write and read these envelopes too. This library adds the origin of a plan and a seal: a
//! checksum over every byte, in a field that others leave unused, and a mark between the head of the buffer
//! and its tables, which no offset refers to. The mark shows that there is a checksum even if the tables are
//! damaged, so that damage cannot make a sealed envelope look like an unsealed one.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};

use super::graph_reader::text;
use super::graph_writer::slot;
use super::reader::Table;
use super::verify::flag;
use crate::graph::GraphError;
use crate::hash::Fnv1a;

type Result<T> = std::result::Result<T, GraphError>;

/// The version of the plan envelopes written here.
pub const SAVED_PLAN_VERSION: u32 = 1;

/// Identifies a container, after the offset of its root.
const CONTAINER: [u8; 4] = *b"HDGP";
/// Identifies a seal, and its position.
const MARK: [u8; 8] = *b"HDSEALED";
const MARK_AT: usize = 8;

/// Maximum size of an envelope in bytes; the format allows twice as many.
const MAX_SIZE: usize = 1 << 30;

/// The indices of the fields of `SerializedExecutionPlan`.
mod plan_field {
    pub const VERSION: u16 = 0;
    pub const ENGINE_ID: u16 = 1;
    pub const WORKSPACE_SIZE: u16 = 2;
    pub const TENSOR_UIDS: u16 = 3;
    pub const PAYLOAD: u16 = 4;
    pub const IS_OVERRIDE_SHAPE_ENABLED: u16 = 5;
    // 6 to 15 are reserved for extensions of others.
    pub const PLUGIN_NAME: u16 = 16;
    pub const PLUGIN_VERSION: u16 = 17;
    pub const DEVICE: u16 = 18;
    pub const TENSOR_ALIGNMENTS: u16 = 19;
    pub const CHECKSUM: u16 = 20;
    pub const GRAPH: u16 = 21;
}

/// The indices of the fields of `SerializedGraphAndPlan`.
mod container_field {
    pub const GRAPH: u16 = 0;
    pub const PLAN: u16 = 1;
    // 2 to 7 are reserved for extensions of others.
    pub const CHECKSUM: u16 = 8;
}

/// A saved execution plan.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedPlan<'a> {
    /// The version of the envelope.
    pub version: u32,
    /// The engine that made the plan.
    pub engine_id: i64,
    /// Bytes of workspace that an execution needs.
    pub workspace_size: i64,
    /// The uids of the graph's tensors.
    pub tensor_uids: Vec<i64>,
    /// The plugin's own bytes.
    pub payload: &'a [u8],
    /// Whether shapes may be replaced at execution.
    pub is_override_shape_enabled: bool,
    /// The graph that the plan was made for; empty if the envelope does not contain it.
    pub graph: &'a [u8],
    /// Where the plan comes from; none if the envelope does not tell. An envelope with an origin is sealed.
    pub origin: Option<Origin>,
}

/// Where a saved plan comes from, and what else its execution is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The name of the plugin with the engine.
    pub plugin_name: String,
    /// That plugin's version.
    pub plugin_version: String,
    /// The device that the plan was made for.
    pub device: String,
    /// The alignment in bytes of each tensor, in the order of the uids.
    pub tensor_alignments: Vec<i64>,
}

/// A graph together with a plan for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container<'a> {
    /// The bytes of the graph.
    pub graph: &'a [u8],
    /// The envelope of the plan; empty if there is none.
    pub plan: &'a [u8],
}

/// Packs a plan; if it has an origin, seals it.
///
/// # Errors
/// When it exceeds the size of an envelope.
pub fn write_plan(plan: &SavedPlan<'_>) -> Result<Vec<u8>> {
    let texts = plan
        .origin
        .as_ref()
        .map_or(0, |origin| origin.plugin_name.len() + origin.plugin_version.len() + origin.device.len());
    let rest = plan.payload.len().saturating_add(plan.tensor_uids.len().saturating_mul(16));
    check_size(texts.saturating_add(rest).saturating_add(plan.graph.len()))?;
    let mut b = FlatBufferBuilder::with_capacity(plan.payload.len() + plan.graph.len() + 512);
    let graph = (!plan.graph.is_empty()).then(|| b.create_vector(plan.graph));
    let origin = plan.origin.as_ref().map(|origin| {
        let name = b.create_string(&origin.plugin_name);
        let version = b.create_string(&origin.plugin_version);
        let device = b.create_string(&origin.device);
        (name, version, device, b.create_vector(&origin.tensor_alignments))
    });
    let payload = b.create_vector(plan.payload);
    let uids = b.create_vector(&plan.tensor_uids);
    let table = b.start_table();
    b.push_slot_always(slot(plan_field::VERSION), plan.version);
    b.push_slot_always(slot(plan_field::ENGINE_ID), plan.engine_id);
    b.push_slot_always(slot(plan_field::WORKSPACE_SIZE), plan.workspace_size);
    b.push_slot_always(slot(plan_field::TENSOR_UIDS), uids);
    b.push_slot_always(slot(plan_field::PAYLOAD), payload);
    b.push_slot(slot(plan_field::IS_OVERRIDE_SHAPE_ENABLED), plan.is_override_shape_enabled, false);
    if let Some(graph) = graph {
        b.push_slot_always(slot(plan_field::GRAPH), graph);
    }
    let sealed = origin.is_some();
    if let Some((name, version, device, alignments)) = origin {
        b.push_slot_always(slot(plan_field::PLUGIN_NAME), name);
        b.push_slot_always(slot(plan_field::PLUGIN_VERSION), version);
        b.push_slot_always(slot(plan_field::DEVICE), device);
        b.push_slot_always(slot(plan_field::TENSOR_ALIGNMENTS), alignments);
        b.push_slot_always(slot(plan_field::CHECKSUM), 0_u64);
    }
    let root = b.end_table(table);
    if sealed {
        return seal(b, root, None, plan_field::CHECKSUM);
    }
    b.finish_minimal(root);
    Ok(b.finished_data().to_vec())
}

/// Verifies and unpacks a plan, of any version.
///
/// # Errors
/// When the bytes are not well formed, or are sealed and damaged.
pub fn read_plan(bytes: &[u8]) -> Result<SavedPlan<'_>> {
    let root = Table::root(bytes)?;
    let sealed = check_seal(bytes, &root, plan_field::CHECKSUM)?;
    let tensor_uids: Vec<i64> = root.scalars(plan_field::TENSOR_UIDS)?.collect();
    let origin = if sealed { Some(read_origin(&root, tensor_uids.len())?) } else { None };
    Ok(SavedPlan {
        version: root.scalar(plan_field::VERSION)?.unwrap_or(0),
        engine_id: root.scalar(plan_field::ENGINE_ID)?.unwrap_or(0),
        workspace_size: root.scalar(plan_field::WORKSPACE_SIZE)?.unwrap_or(0),
        tensor_uids,
        payload: root.raw(plan_field::PAYLOAD)?,
        graph: root.raw(plan_field::GRAPH)?,
        is_override_shape_enabled: flag(&root, plan_field::IS_OVERRIDE_SHAPE_ENABLED)?,
        origin,
    })
}

fn read_origin(root: &Table<'_>, tensors: usize) -> Result<Origin> {
    let tensor_alignments: Vec<i64> = root.scalars(plan_field::TENSOR_ALIGNMENTS)?.collect();
    if tensor_alignments.len() != tensors {
        return Err(GraphError(format!(
            "the plan has {tensors} tensors and {} alignments, expected equally many",
            tensor_alignments.len()
        )));
    }
    Ok(Origin {
        plugin_name: text(root.text(plan_field::PLUGIN_NAME)?),
        plugin_version: text(root.text(plan_field::PLUGIN_VERSION)?),
        device: text(root.text(plan_field::DEVICE)?),
        tensor_alignments,
    })
}

/// Packs and seals a graph and, if there is one, the envelope of a plan.
///
/// # Errors
/// When they exceed the size of a container.
pub fn write_container(container: Container<'_>) -> Result<Vec<u8>> {
    let Container { graph, plan } = container;
    check_size(graph.len().saturating_add(plan.len()))?;
    let mut b = FlatBufferBuilder::with_capacity(graph.len() + plan.len() + 256);
    let plan = (!plan.is_empty()).then(|| b.create_vector(plan));
    let graph = b.create_vector(graph);
    let table = b.start_table();
    b.push_slot_always(slot(container_field::GRAPH), graph);
    if let Some(plan) = plan {
        b.push_slot_always(slot(container_field::PLAN), plan);
    }
    b.push_slot_always(slot(container_field::CHECKSUM), 0_u64);
    let root = b.end_table(table);
    seal(b, root, Some("HDGP"), container_field::CHECKSUM)
}

/// Whether the bytes are marked as a container.
///
/// # Errors
/// When they differ from that mark in a single bit: nothing else is known to have these bytes, and a damaged
/// container could pass for a graph without operations.
pub fn is_container(bytes: &[u8]) -> Result<bool> {
    let Some(identifier) = bytes.get(4..).and_then(<[u8]>::first_chunk) else { return Ok(false) };
    match (u32::from_le_bytes(*identifier) ^ u32::from_le_bytes(CONTAINER)).count_ones() {
        0 => Ok(true),
        1 => Err(GraphError(format!(
            "the bytes are damaged: their identifier {:?} differs from that of a container, \"HDGP\", in one bit",
            String::from_utf8_lossy(identifier)
        ))),
        _ => Ok(false),
    }
}

/// Verifies and unpacks a container.
///
/// # Errors
/// When the bytes are not well formed, or are sealed and damaged.
pub fn read_container(bytes: &[u8]) -> Result<Container<'_>> {
    let root = Table::root(bytes)?;
    check_seal(bytes, &root, container_field::CHECKSUM)?;
    Ok(Container { graph: root.raw(container_field::GRAPH)?, plan: root.raw(container_field::PLAN)? })
}

fn check_size(size: usize) -> Result<()> {
    if size > MAX_SIZE {
        return Err(GraphError(format!("{size} bytes are to be saved, expected at most {MAX_SIZE}")));
    }
    Ok(())
}

/// Finishes a buffer whose root has an empty checksum in field `checksum`: adds the mark and fills in the
/// checksum.
fn seal(
    mut b: FlatBufferBuilder<'_>,
    root: WIPOffset<TableFinishedWIPOffset>,
    identifier: Option<&str>,
    checksum: u16,
) -> Result<Vec<u8>> {
    // Buffers are filled from the end, so this goes right before the tables, after the head of eight bytes.
    b.push(u64::from_le_bytes(MARK));
    b.finish(root, identifier);
    let mut bytes = b.finished_data().to_vec();
    let place = Table::root(&bytes)?.place(checksum);
    let sum = checksum_of(&bytes, place);
    if let Some(field) = bytes.get_mut(place..).and_then(<[u8]>::first_chunk_mut) {
        *field = sum.to_le_bytes();
    }
    Ok(bytes)
}

/// Whether a buffer is sealed.
///
/// # Errors
/// When it is, and has changed since it was sealed.
fn check_seal(bytes: &[u8], root: &Table<'_>, checksum: u16) -> Result<bool> {
    let marked = bytes.get(MARK_AT..).and_then(<[u8]>::first_chunk) == Some(&MARK);
    let damaged = |what: String| Err(GraphError(format!("the bytes are damaged: {what}")));
    match (marked, root.scalar::<u64>(checksum)?) {
        (false, None) => Ok(false),
        (true, None) => damaged("they are marked as sealed and have no checksum".to_owned()),
        (false, Some(_)) => damaged("they have a checksum and are not marked as sealed".to_owned()),
        (true, Some(stated)) => match checksum_of(bytes, root.place(checksum)) {
            sum if sum == stated => Ok(true),
            sum => damaged(format!("their checksum is {sum:016x}, expected {stated:016x}")),
        },
    }
}

/// The checksum of all bytes except the eight of the checksum itself, which are at `place`.
fn checksum_of(bytes: &[u8], place: usize) -> u64 {
    let before = bytes.get(..place).unwrap_or(bytes);
    let after = bytes.get(place + 8..).unwrap_or_default();
    Fnv1a::new().add(before).add(after).number()
}

#[cfg(test)]
mod tests;
