//! Engine configurations, which the host passes to plugins, and engine details, which plugins return.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};

use super::graph_reader::text;
use super::graph_writer::slot;
use super::knob::{
    Knob, KnobConstraint, KnobSetting, KnobValue, MAX_KNOB_CHOICES, check_id_length, check_text_length,
};
use super::reader::Table;
use crate::graph::GraphError;

type Result<T> = std::result::Result<T, GraphError>;
type Offset = WIPOffset<TableFinishedWIPOffset>;

/// An engine and its knob settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineConfig {
    /// The engine's id.
    pub engine_id: i64,
    /// The knobs that were set; all others have their defaults.
    pub knobs: Vec<KnobSetting>,
}

/// A plugin's description of one of its engines for one graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineDetails {
    /// The engine's id.
    pub engine_id: i64,
    /// Its knobs.
    pub knobs: Vec<Knob>,
    /// Its behavior notes, as numbered in the C API.
    pub behavior_notes: Vec<i32>,
    /// Its readable name.
    pub name: String,
}

/// Packs an engine configuration.
pub fn write_engine_config(config: &EngineConfig) -> Vec<u8> {
    write_ranked_engine_config(config, "")
}

/// Packs an engine configuration with the metric that it was ranked by; empty for none.
pub fn write_ranked_engine_config(config: &EngineConfig, metric: &str) -> Vec<u8> {
    let mut b = FlatBufferBuilder::with_capacity(64);
    let root = write_engine_config_in(&mut b, config, metric);
    b.finish_minimal(root);
    b.finished_data().to_vec()
}

pub(super) fn write_engine_config_in(
    b: &mut FlatBufferBuilder<'_>,
    config: &EngineConfig,
    metric: &str,
) -> Offset {
    let settings: Vec<_> = config.knobs.iter().map(|setting| write_setting(b, setting)).collect();
    let knobs = (!settings.is_empty()).then(|| b.create_vector(&settings));
    let metric = (!metric.is_empty()).then(|| b.create_string(metric));
    let table = b.start_table();
    b.push_slot_always(slot(0), config.engine_id);
    if let Some(knobs) = knobs {
        b.push_slot_always(slot(1), knobs);
    }
    if let Some(metric) = metric {
        b.push_slot_always(slot(2), metric);
    }
    b.end_table(table)
}

/// Unpacks an engine configuration.
///
/// # Errors
/// When the bytes are not well formed, a knob has no value, or a limit is exceeded.
pub fn read_engine_config(bytes: &[u8]) -> Result<EngineConfig> {
    read_engine_config_in(&Table::root(bytes)?)
}

pub(super) fn read_engine_config_in(table: &Table<'_>) -> Result<EngineConfig> {
    let settings = table.tables(1)?;
    check_count(settings.len())?;
    let knobs = settings.map(|table| read_setting(&table?));
    Ok(EngineConfig { engine_id: table.scalar(0)?.unwrap_or(0), knobs: knobs.collect::<Result<_>>()? })
}

/// Packs a knob on its own, as the root of its bytes.
pub fn write_knob(knob: &Knob) -> Vec<u8> {
    let mut b = FlatBufferBuilder::with_capacity(256);
    let root = write_knob_table(&mut b, knob);
    b.finish_minimal(root);
    b.finished_data().to_vec()
}

/// Packs a setting on its own, as the root of its bytes.
pub fn write_knob_setting(setting: &KnobSetting) -> Vec<u8> {
    let mut b = FlatBufferBuilder::with_capacity(64);
    let root = write_setting(&mut b, setting);
    b.finish_minimal(root);
    b.finished_data().to_vec()
}

/// Unpacks a knob that is the root of its bytes.
///
/// # Errors
/// When the bytes are not well formed or the default value is of an unknown kind.
pub fn read_knob(bytes: &[u8]) -> Result<Knob> {
    let knob = read_knob_table(&Table::root(bytes)?)?;
    knob.ok_or_else(|| GraphError("the knob has no default value of a known kind".to_owned()))
}

/// Unpacks a setting that is the root of its bytes.
///
/// # Errors
/// When the bytes are not well formed or the knob has no value of a known kind.
pub fn read_knob_setting(bytes: &[u8]) -> Result<KnobSetting> {
    read_setting(&Table::root(bytes)?)
}

/// Packs engine details.
pub fn write_engine_details(details: &EngineDetails) -> Vec<u8> {
    let mut b = FlatBufferBuilder::with_capacity(256);
    let knobs: Vec<_> = details.knobs.iter().map(|knob| write_knob_table(&mut b, knob)).collect();
    let knobs = (!knobs.is_empty()).then(|| b.create_vector(&knobs));
    let notes = (!details.behavior_notes.is_empty()).then(|| b.create_vector(&details.behavior_notes));
    let name = (!details.name.is_empty()).then(|| b.create_string(&details.name));
    let table = b.start_table();
    b.push_slot_always(slot(0), details.engine_id);
    if let Some(knobs) = knobs {
        b.push_slot_always(slot(1), knobs);
    }
    if let Some(notes) = notes {
        b.push_slot_always(slot(2), notes);
    }
    if let Some(name) = name {
        b.push_slot_always(slot(3), name);
    }
    let root = b.end_table(table);
    b.finish_minimal(root);
    b.finished_data().to_vec()
}

/// The engine id in details that have neither knobs nor notes, and so nothing else.
///
/// # Errors
/// When the bytes are not well formed.
#[inline]
pub fn read_bare_engine_details(bytes: &[u8]) -> Result<Option<i64>> {
    let root = Table::root(bytes)?;
    if root.has(1) || root.has(2) {
        return Ok(None);
    }
    root.text(3)?;
    Ok(Some(root.scalar(0)?.unwrap_or(0)))
}

/// Unpacks engine details; knobs whose value is of an unknown kind are skipped.
///
/// # Errors
/// When the bytes are not well formed.
pub fn read_engine_details(bytes: &[u8]) -> Result<EngineDetails> {
    let root = Table::root(bytes)?;
    let mut details = EngineDetails::default();
    let knobs = root.places(1)?;
    check_count(knobs.len())?;
    for at in knobs {
        details.knobs.extend(read_knob_table(&Table::open(bytes, at?)?)?);
    }
    details.engine_id = root.scalar(0)?.unwrap_or(0);
    details.behavior_notes.extend(root.scalars::<i32>(2)?);
    details.name.push_str(&String::from_utf8_lossy(root.text(3)?));
    Ok(details)
}

/// Small buffers can unpack to large structures, because several offsets may refer to one place: so there are
/// limits.
fn check_count(knobs: usize) -> Result<()> {
    if knobs > MAX_KNOB_CHOICES {
        return Err(GraphError(format!("{knobs} knobs, expected at most {MAX_KNOB_CHOICES}")));
    }
    Ok(())
}

fn write_setting(b: &mut FlatBufferBuilder<'_>, setting: &KnobSetting) -> Offset {
    let id = b.create_string(&setting.knob_id);
    let (number, value) = write_value(b, &setting.value);
    let table = b.start_table();
    b.push_slot_always(slot(0), id);
    b.push_slot_always(slot(1), number);
    b.push_slot_always(slot(2), value);
    b.end_table(table)
}

fn read_setting(table: &Table<'_>) -> Result<KnobSetting> {
    let knob_id = table.text(0)?;
    check_id_length(knob_id.len())?;
    let knob_id = text(knob_id);
    match read_value(table, 1)? {
        Some(value) => Ok(KnobSetting { knob_id, value }),
        None => Err(GraphError(format!("the setting of knob {knob_id:?} has no value of a known kind"))),
    }
}

fn write_value(b: &mut FlatBufferBuilder<'_>, value: &KnobValue) -> (u8, Offset) {
    match value {
        KnobValue::Int(x) => {
            let table = b.start_table();
            b.push_slot_always(slot(0), *x);
            (1, b.end_table(table))
        }
        KnobValue::Float(x) => {
            let table = b.start_table();
            b.push_slot_always(slot(0), *x);
            (2, b.end_table(table))
        }
        KnobValue::Text(x) => {
            let x = b.create_string(x);
            let table = b.start_table();
            b.push_slot_always(slot(0), x);
            (3, b.end_table(table))
        }
    }
}

fn read_value(table: &Table<'_>, index: u16) -> Result<Option<KnobValue>> {
    let number = table.scalar::<u8>(index)?.unwrap_or(0);
    let Some(value) = table.table(index + 1)? else { return Ok(None) };
    Ok(match number {
        1 => Some(KnobValue::Int(value.scalar(0)?.unwrap_or(0))),
        2 => Some(KnobValue::Float(value.scalar(0)?.unwrap_or(0.0))),
        3 => {
            let bytes = value.text(0)?;
            check_text_length(bytes.len())?;
            Some(KnobValue::Text(text(bytes)))
        }
        _ => None,
    })
}

fn write_knob_table(b: &mut FlatBufferBuilder<'_>, knob: &Knob) -> Offset {
    let id = b.create_string(&knob.knob_id);
    let description = b.create_string(&knob.description);
    let (number, value) = write_value(b, &knob.default_value);
    let constraint = knob.constraint.as_ref().map(|constraint| write_constraint(b, constraint));
    let table = b.start_table();
    b.push_slot_always(slot(0), id);
    b.push_slot_always(slot(1), description);
    b.push_slot_always(slot(2), number);
    b.push_slot_always(slot(3), value);
    if let Some((number, constraint)) = constraint {
        b.push_slot_always(slot(4), number);
        b.push_slot_always(slot(5), constraint);
    }
    b.push_slot(slot(6), knob.deprecated, false);
    b.end_table(table)
}

fn write_constraint(b: &mut FlatBufferBuilder<'_>, constraint: &KnobConstraint) -> (u8, Offset) {
    match constraint {
        KnobConstraint::Int { min, max, step, valid } => {
            let valid = b.create_vector(valid);
            let table = b.start_table();
            b.push_slot(slot(0), *min, 0);
            b.push_slot(slot(1), *max, 0);
            b.push_slot(slot(2), *step, 1);
            b.push_slot_always(slot(3), valid);
            (1, b.end_table(table))
        }
        KnobConstraint::Float { min, max } => {
            let table = b.start_table();
            b.push_slot(slot(0), *min, 0.0);
            b.push_slot(slot(1), *max, 0.0);
            (2, b.end_table(table))
        }
        KnobConstraint::Text { max_length, valid } => {
            let texts: Vec<_> = valid.iter().map(|text| b.create_string(text)).collect();
            let valid = b.create_vector(&texts);
            let table = b.start_table();
            b.push_slot(slot(0), *max_length, 0);
            b.push_slot_always(slot(1), valid);
            (3, b.end_table(table))
        }
    }
}

fn read_knob_table(table: &Table<'_>) -> Result<Option<Knob>> {
    let Some(default_value) = read_value(table, 2)? else { return Ok(None) };
    let number = table.scalar::<u8>(4)?.unwrap_or(0);
    let constraint = match (number, table.table(5)?) {
        (1, Some(c)) => Some(KnobConstraint::Int {
            min: c.scalar(0)?.unwrap_or(0),
            max: c.scalar(1)?.unwrap_or(0),
            step: c.scalar(2)?.unwrap_or(1),
            valid: c.scalars(3)?.collect(),
        }),
        (2, Some(c)) => {
            Some(KnobConstraint::Float { min: c.scalar(0)?.unwrap_or(0.0), max: c.scalar(1)?.unwrap_or(0.0) })
        }
        (3, Some(c)) => {
            Some(KnobConstraint::Text { max_length: c.scalar(0)?.unwrap_or(0), valid: c.texts(1)? })
        }
        _ => None,
    };
    Ok(Some(Knob {
        knob_id: text(table.text(0)?),
        description: text(table.text(1)?),
        default_value,
        constraint,
        deprecated: table.scalar::<u8>(6)?.unwrap_or(0) != 0,
    }))
}
