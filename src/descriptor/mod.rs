//! Descriptors: objects that a caller configures by attributes, then finalizes.
//!
//! A descriptor is open until it is finalized and frozen from then on. A lock guards open ones; frozen ones are read without
//! a lock. Descriptors share the frozen forms they need, so a caller may destroy them in any order.

pub mod attribute;
mod compile;
pub mod engine;
mod engine_config;
mod execution;
mod frozen_plan;
mod graph;
mod heuristic;
mod knob_choice;
mod knob_info;
mod lifecycle;
mod operation;
mod overrides;
mod packaged_plan;
mod plan;
mod plan_json;
mod profiling;
mod recording;
mod renaming;
pub mod saved_plan;
mod source;
mod stored_plan;
mod tensor;
mod variant_pack;

use std::ffi::c_int;
use std::sync::Arc;

use hipdnn_plugin_sdk::graph::Operation;
use hipdnn_plugin_sdk::graph::operation::OperationSpec;

use crate::ffi::{CEnum, hipdnnBackendDescriptorType_t as Kind};
use crate::object::{Access, Table};
use crate::status::{Error, Result};
use attribute::{Incoming, Outgoing};

pub use frozen_plan::FrozenPlan;
pub use lifecycle::{Draft, Lifecycle};
pub use variant_pack::Pack;

/// All live descriptors.
pub static DESCRIPTORS: Table<Descriptor> = Table::new("hipdnnBackendDescriptor_t", 0x5, 1);

macro_rules! kinds {
    ($($variant:ident($draft:ty) = $kind:ident,)+) => {
        /// The object that a `hipdnnBackendDescriptor_t` refers to.
        #[expect(missing_docs, reason = "each is the descriptor type of its name")]
        pub enum Descriptor {
            $($variant(Lifecycle<$draft>),)+
            Operation(Lifecycle<operation::OperationDraft>),
            Profiling(Box<profiling::Profiling>),
        }

        impl Descriptor {
            /// Creates an open descriptor of this type and returns its handle, which the caller owns.
            ///
            /// # Errors
            /// NOT_SUPPORTED for types that are unknown or cannot be created.
            pub fn create(kind: c_int) -> Result<usize> {
                $(if kind == Kind::$kind as c_int {
                    return DESCRIPTORS.insert_with(|| Self::$variant(Lifecycle::open(<$draft>::default())));
                })+
                if kind == Kind::HIPDNN_BACKEND_PROFILING_CONTROL_EXT as c_int {
                    return DESCRIPTORS.insert_with(|| Self::Profiling(Box::default()));
                }
                let spec = operation_spec(kind).ok_or_else(|| not_creatable(kind))?;
                DESCRIPTORS.insert_with(|| Self::Operation(Lifecycle::open(operation::OperationDraft::new(spec))))
            }

            /// Finalizes the descriptor.
            pub fn finalize(&self, access: Access) -> Result<()> {
                match self {
                    $(Self::$variant(lifecycle) => lifecycle.finalize(access),)+
                    Self::Operation(lifecycle) => lifecycle.finalize(access),
                    Self::Profiling(profiling) => profiling.finalize(),
                }
            }

            /// Sets an attribute.
            pub fn set(&self, access: Access, incoming: &Incoming) -> Result<()> {
                match self {
                    $(Self::$variant(lifecycle) => lifecycle.set(access, incoming),)+
                    Self::Operation(lifecycle) => lifecycle.set(access, incoming),
                    Self::Profiling(profiling) => profiling.set(incoming),
                }
            }

            /// Gets an attribute.
            pub fn get(&self, access: Access, outgoing: &Outgoing) -> Result<()> {
                match self {
                    $(Self::$variant(lifecycle) => lifecycle.get(access, outgoing),)+
                    Self::Operation(lifecycle) => lifecycle.get(access, outgoing),
                    Self::Profiling(profiling) => profiling.get(outgoing),
                }
            }

            /// The kind's name in messages.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(lifecycle) => lifecycle.name(),)+
                    Self::Operation(lifecycle) => lifecycle.name(),
                    Self::Profiling(profiling) => profiling.name(),
                }
            }
        }
    };
}

kinds! {
    VariantPack(variant_pack::Pack) = HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
    Tensor(tensor::TensorDraft) = HIPDNN_BACKEND_TENSOR_DESCRIPTOR,
    Graph(graph::GraphDraft) = HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
    Heuristic(heuristic::HeuristicDraft) = HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
    Engine(engine::EngineDraft) = HIPDNN_BACKEND_ENGINE_DESCRIPTOR,
    EngineConfig(engine_config::ConfigDraft) = HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR,
    Plan(plan::PlanDraft) = HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
    KnobInfo(Box<knob_info::KnobInfo>) = HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR,
    KnobChoice(knob_choice::ChoiceDraft) = HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
}

fn operation_spec(kind: c_int) -> Option<&'static OperationSpec> {
    Operation::SPECS.iter().find(|spec| spec.descriptor_type == kind).copied()
}

/// Reserved kinds: defined in the interface but unused.
const RESERVED: [Kind; 5] = [
    Kind::HIPDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR,
    Kind::HIPDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR,
    Kind::HIPDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
    Kind::HIPDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR,
    Kind::HIPDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR,
];

#[cold]
fn not_creatable(kind: c_int) -> Error {
    let (name, reason) = match Kind::from_raw(kind) {
        Some(known) if RESERVED.contains(&known) => (known.name(), ", which is reserved and unused"),
        Some(known) if kind != 0 => (known.name(), ""),
        _ => ("UNKNOWN_TYPE", ", expected a hipdnnBackendDescriptorType_t"),
    };
    Error::not_supported(format!("Descriptor type {name} is not supported. descriptorType is {kind}{reason}"))
}

impl Descriptor {
    /// Looks up a caller's descriptor and calls `f` with it.
    #[inline(always)]
    pub fn with<R>(handle: usize, f: impl FnOnce(&Self) -> Result<R>) -> Result<R> {
        DESCRIPTORS.with(handle, f)
    }

    /// The same, with access to the draft of an open descriptor.
    #[inline(always)]
    pub fn with_access<R>(handle: usize, f: impl FnOnce(&Self, Access) -> Result<R>) -> Result<R> {
        DESCRIPTORS.with_access(handle, f)
    }

    /// The same for a call that changes the descriptor, with exclusive access if no other call uses it.
    #[inline(always)]
    pub fn alone<R>(handle: usize, f: impl FnOnce(&Self, Access) -> Result<R>) -> Result<R> {
        DESCRIPTORS.alone(handle, f)
    }

    /// Registers the descriptor and returns its handle, which the caller owns.
    pub fn enter(self) -> Result<usize> {
        DESCRIPTORS.insert(self)
    }

    /// The graph of an operation graph; none while it is not finalized.
    ///
    /// # Errors
    /// BAD_PARAM when this is another kind of descriptor.
    pub fn finalized_graph(&self) -> Result<Option<crate::graph::FrozenGraph>> {
        match self {
            Self::Graph(lifecycle) => Ok(lifecycle.frozen().cloned()),
            other => Err(other.wrong_kind("operation graph")),
        }
    }

    #[cold]
    fn wrong_kind(&self, expected: &str) -> Error {
        Error::bad_param(format!("the descriptor is a {}, expected a {expected}", self.name()))
    }
}

/// Moves a draft's content into its frozen form once `check` has succeeded; otherwise leaves it in place.
fn take_checked<T, R>(
    held: &mut Option<T>,
    missing: impl Fn() -> Error,
    check: impl FnOnce(&T) -> Result<R>,
) -> Result<(T, R)> {
    let checked = check(held.as_ref().ok_or_else(&missing)?)?;
    Ok((held.take().ok_or_else(missing)?, checked))
}

/// The error for a child that is not finalized.
#[cold]
fn child_not_finalized(name: &str) -> Error {
    Error::not_finalized(format!("the {name} is not finalized"))
}

/// Gets the shared content of a finalized child of the right kind.
macro_rules! child_of_kind {
    ($($(#[$meta:meta])* $name:ident, $variant:ident, $shared:ty, $text:literal;)+) => {
        impl Descriptor {
            $($(#[$meta])*
            fn $name(&self) -> Result<$shared> {
                match self {
                    Self::$variant(lifecycle) => lifecycle.frozen().cloned().ok_or_else(|| child_not_finalized($text)),
                    other => Err(other.wrong_kind($text)),
                }
            })+
        }
    };
}

child_of_kind! {
    /// The tensor in a finalized tensor descriptor.
    tensor, Tensor, Arc<tensor::FrozenTensor>, "tensor";
    /// The graph in a finalized operation graph.
    graph, Graph, crate::graph::FrozenGraph, "operation graph";
    /// The engine in a finalized engine descriptor.
    engine, Engine, engine::FrozenEngine, "engine";
    /// The setting in a finalized knob choice.
    knob_choice, KnobChoice, Arc<hipdnn_plugin_sdk::wire::KnobSetting>, "knob choice";
    /// The configuration in a finalized engine configuration.
    engine_config, EngineConfig, Arc<engine_config::FrozenConfig>, "engine configuration";
}
