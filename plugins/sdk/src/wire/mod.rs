//! Graphs, engine configurations, engine details and saved plans as FlatBuffers bytes.
//!
//! The layout is that of `schema/hipdnn.fbs`. Two generations of it are in use: a node of 2026 has a compute
//! type before its union of attributes, a node of November 2025 does not, so neither reader understands the
//! other's bytes. `verify` tells them apart by the slots of a node.

mod device;
mod engine;
mod graph_reader;
mod graph_writer;
mod knob;
mod prediction;
mod reader;
mod saved;
mod span;
mod verify;

pub use device::{DeviceProperties, read_device_properties, write_device_properties};
pub use engine::{
    EngineConfig, EngineDetails, read_bare_engine_details, read_engine_config, read_engine_details,
    read_knob, read_knob_setting, write_engine_config, write_engine_details, write_knob, write_knob_setting,
    write_ranked_engine_config,
};
pub use graph_reader::read;
pub use graph_writer::{write, write_parts};
pub(crate) use knob::check_possible;
pub use knob::{
    Knob, KnobConstraint, KnobLimits, KnobSetting, KnobValue, MAX_KNOB_CHOICES, WORKSPACE_SIZE_LIMIT,
    check_knob_id, check_settings, int_setting, positive_setting, setting, take_unknown, verify_knob,
};
pub use prediction::{Prediction, read_prediction, read_ranking_metric, write_prediction};
pub use saved::{
    Container, Origin, SAVED_PLAN_VERSION, SavedPlan, is_container, read_container, read_plan,
    write_container, write_plan,
};
pub use span::Span;
pub use verify::{MAX_EXPANSION, Summary, TensorSummary, graph_name, verify};

/// The generation of a graph's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// November 2025: a node has a name and attributes.
    G1,
    /// 2026: a node has a name, a compute type and attributes.
    G2,
}

/// The last operation that exists in the layout of November 2025.
const LAST_G1_OPERATION: u8 = 7;
/// The last data type that exists in the layout of November 2025, INT32.
const LAST_G1_DATA_TYPE: u8 = 6;
/// The last kind of stored value that exists in the layout of November 2025, Float64Value.
const LAST_G1_VALUE: u8 = 6;

/// The indices of the fields of `Graph`.
mod graph_field {
    pub const NAME: u16 = 0;
    pub const COMPUTE_TYPE: u16 = 1;
    pub const INTERMEDIATE_TYPE: u16 = 2;
    pub const IO_TYPE: u16 = 3;
    pub const TENSORS: u16 = 4;
    pub const NODES: u16 = 5;
    pub const PREFERRED_ENGINE_ID: u16 = 6;
    pub const IS_OVERRIDE_SHAPE_ENABLED: u16 = 7;
    pub const MIN_API_VERSION: u16 = 8;
    pub const ID: u16 = 9;
}

/// The indices of the fields of `TensorAttributes`.
mod tensor_field {
    pub const UID: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DATA_TYPE: u16 = 2;
    pub const STRIDES: u16 = 3;
    pub const DIMS: u16 = 4;
    pub const VIRTUAL: u16 = 5;
    pub const VALUE_TYPE: u16 = 6;
    pub const VALUE: u16 = 7;
    pub const IS_RUNTIME_PASS_BY_VALUE: u16 = 8;
    pub const RAGGED_OFFSET_UID: u16 = 9;
    pub const ALIGNMENT: u16 = 10;
    pub const RAGGED_OFFSET_MULTIPLIER: u16 = 11;
}

/// The indices of the fields of `Node`, which depend on the layout.
struct NodeFields {
    name: u16,
    compute_type: Option<u16>,
    operation_type: u16,
    operation: u16,
}

impl Layout {
    const fn node_fields(self) -> NodeFields {
        match self {
            Self::G1 => NodeFields { name: 0, compute_type: None, operation_type: 1, operation: 2 },
            Self::G2 => NodeFields { name: 0, compute_type: Some(1), operation_type: 2, operation: 3 },
        }
    }
}

#[cfg(test)]
mod tests;
