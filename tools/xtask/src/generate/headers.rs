//! Which public header comes from which file of `src/ffi`, and what it needs besides the types in that file.

use crate::generate::aliases::{self, Alias};

/// One generated header.
pub struct Header {
    /// File name under `include/hipdnn/backend`.
    pub file: &'static str,
    /// The Rust file it is generated from, under `src/ffi`.
    pub source: &'static str,
    /// The types to emit, in this order.
    pub items: &'static [&'static str],
    /// Standard headers that the types need. A header of macros alone takes one too: C has no empty file.
    pub includes: &'static [&'static str],
    /// A macro that this header shares with a frontend's or plugin SDK's copy of the same types.
    pub shared_guard: Option<&'static str>,
    /// A header that defines the same types, perhaps without the shared guard: included first where it exists.
    pub foreign_copy: Option<&'static str>,
    /// Types of `items` that C takes as a plain `int32_t`.
    pub open: bool,
    /// Types that the foreign copy may lack; they are emitted outside the shared guard. Only types whose repetition
    /// C allows.
    pub repeatable: &'static [&'static str],
    /// Further names of enumerators.
    pub aliases: &'static [Alias],
    /// Replace prefix by prefix to get a further name of every enumerator.
    pub prefix_alias: Option<(&'static str, &'static str)>,
    /// A suffix without which every enumerator that has it gets a further name.
    pub suffix_alias: Option<&'static str>,
}

const PLAIN: Header = Header {
    file: "",
    source: "",
    items: &[],
    includes: &[],
    shared_guard: None,
    foreign_copy: None,
    open: false,
    repeatable: &[],
    aliases: &[],
    prefix_alias: None,
    suffix_alias: None,
};

/// The headers of types. `hipdnn_backend.h` itself is put together from `src/c_api`.
pub const HEADERS: &[Header] = &[
    Header {
        file: "HipdnnAttentionImplementation.h",
        source: "attention_implementation.rs",
        items: &["hipdnnAttentionImplementation_t"],
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendAttributeName.h",
        source: "attribute_name.rs",
        items: &["hipdnnBackendAttributeName_t"],
        aliases: aliases::ATTRIBUTES,
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendAttributeType.h",
        source: "attribute_type.rs",
        items: &["hipdnnBackendAttributeType_t"],
        aliases: aliases::ATTRIBUTE_TYPES,
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendBehaviorNote.h",
        source: "behavior_note.rs",
        items: &["hipdnnBackendBehaviorNote_t"],
        includes: &["stdint.h"],
        shared_guard: Some("HIPDNN_BEHAVIOR_NOTE_TYPES_DEFINED"),
        open: true,
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendCallbackTypes.h",
        source: "callback_types.rs",
        items: &["hipdnnSeverity_t", "hipdnnCallback_t"],
        shared_guard: Some("HIPDNN_CALLBACK_TYPES_DEFINED"),
        foreign_copy: Some("hipdnn_sdk/logging/CallbackTypes.h"),
        repeatable: &["hipdnnUserLogCallbackHandle_t", "hipdnnUserLogCallback_t"],
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendDescriptorType.h",
        source: "descriptor_type.rs",
        items: &["hipdnnBackendDescriptorType_t"],
        aliases: aliases::DESCRIPTOR_TYPES,
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendFlatbufferData.h",
        source: "flatbuffer_data.rs",
        items: &["hipdnnBackendFlatbufferData_t"],
        includes: &["stddef.h"],
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendHeuristicType.h",
        source: "heuristic_type.rs",
        items: &["hipdnnBackendHeurMode_t"],
        ..PLAIN
    },
    Header { file: "HipdnnBackendLimits.h", source: "limits.rs", includes: &["stddef.h"], ..PLAIN },
    Header {
        file: "HipdnnBackendNumericalNote.h",
        source: "numerical_note.rs",
        items: &["hipdnnBackendNumericalNote_t"],
        includes: &["stdint.h"],
        open: true,
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendPluginLoadingMode.h",
        source: "plugin_loading_mode.rs",
        items: &["hipdnnPluginLoadingMode_ext_t"],
        aliases: aliases::LOADING_MODES,
        ..PLAIN
    },
    Header {
        file: "HipdnnBackendPluginUnloadingMode.h",
        source: "plugin_unloading_mode.rs",
        items: &["hipdnnPluginUnloadingMode_ext_t"],
        aliases: aliases::UNLOADING_MODES,
        ..PLAIN
    },
    Header {
        file: "HipdnnConvolutionMode.h",
        source: "convolution_mode.rs",
        items: &["hipdnnConvolutionMode_t"],
        prefix_alias: Some(("HIPDNN_", "HIPDNN_CONVOLUTION_MODE_")),
        ..PLAIN
    },
    Header { file: "HipdnnDataType.h", source: "data_type.rs", items: &["hipdnnDataType_t"], ..PLAIN },
    Header {
        file: "HipdnnDiagonalAlignment.h",
        source: "diagonal_alignment.rs",
        items: &["hipdnnDiagonalAlignment_t"],
        ..PLAIN
    },
    Header {
        file: "HipdnnMoeGroupedMatmulMode.h",
        source: "moe_grouped_matmul_mode.rs",
        items: &["hipdnnMoeGroupedMatmulMode_t"],
        ..PLAIN
    },
    Header {
        file: "HipdnnNormFwdPhase.h",
        source: "norm_fwd_phase.rs",
        items: &["hipdnnNormFwdPhase_t"],
        ..PLAIN
    },
    Header {
        file: "HipdnnOperationType.h",
        source: "operation_type.rs",
        items: &["hipdnnOperationType_ext_t", "hipdnnOperationType_t"],
        suffix_alias: Some("_EXT"),
        ..PLAIN
    },
    Header {
        file: "HipdnnPaddingMode.h",
        source: "padding_mode.rs",
        items: &["hipdnnPaddingMode_t"],
        ..PLAIN
    },
    Header {
        file: "HipdnnPointwiseMode.h",
        source: "pointwise_mode.rs",
        items: &["hipdnnPointwiseMode_t"],
        prefix_alias: Some(("HIPDNN_POINTWISE_", "HIPDNN_POINTWISE_MODE_")),
        ..PLAIN
    },
    Header {
        file: "HipdnnReduceTensorOp.h",
        source: "reduce_tensor_op.rs",
        items: &["hipdnnReduceTensorOp_t", "hipdnnReductionMode_t"],
        prefix_alias: Some(("HIPDNN_REDUCE_TENSOR_", "HIPDNN_REDUCTION_")),
        ..PLAIN
    },
    Header {
        file: "HipdnnResampleMode.h",
        source: "resample_mode.rs",
        items: &["hipdnnResampleMode_t"],
        ..PLAIN
    },
    Header { file: "HipdnnStatus.h", source: "status.rs", items: &["hipdnnStatus_t"], ..PLAIN },
];

/// What `hipdnn_backend.h` says of itself.
pub const BACKEND_DOC: &[&str] = &[
    "hipDNN's backend interface: a program describes a graph of tensor operations, asks which engines can compute it,",
    "and has one of them do so.",
    "",
    "  1. hipdnnCreate makes a handle and loads the engine plugins.",
    "  2. Tensors, operations and the graph are descriptors: create, set attributes, finalize. Or",
    "     hipdnnBackendCreateAndDeserializeGraph_ext makes a graph from bytes; it gets its handle and is finalized.",
    "  3. An engine heuristic gives engine configurations for the graph, best first.",
    "  4. An execution plan is made from one of them; its workspace size is an attribute.",
    "  5. A variant pack holds the memory of the tensors and the workspace. hipdnnBackendExecute runs the plan on it.",
    "",
    "Every function that can fail answers a status; hipdnnGetLastErrorString then has the reason in words, for the thread",
    "that made the call. Outputs are written on success only. A handle or descriptor that is null, was destroyed, or is of",
    "another kind than is wanted is refused.",
];

/// The headers that `hipdnn_backend.h` includes, in this order.
pub const INCLUDED_BY_BACKEND: &[&str] = &[
    "hipdnn_backend_export.h",
    "hipdnn_backend_hip.h",
    "HipdnnBackendAttributeName.h",
    "HipdnnBackendAttributeType.h",
    "HipdnnBackendBehaviorNote.h",
    "HipdnnBackendCallbackTypes.h",
    "HipdnnBackendDescriptorType.h",
    "HipdnnBackendHeuristicType.h",
    "HipdnnBackendLimits.h",
    "HipdnnBackendNumericalNote.h",
    "HipdnnBackendPluginLoadingMode.h",
    "HipdnnBackendPluginUnloadingMode.h",
    "HipdnnConvolutionMode.h",
    "HipdnnDataType.h",
    "HipdnnMoeGroupedMatmulMode.h",
    "HipdnnPaddingMode.h",
    "HipdnnReduceTensorOp.h",
    "HipdnnResampleMode.h",
    "HipdnnStatus.h",
];

/// The files of `src/c_api` in the order of the header. Others follow by name.
pub const SECTIONS: &[&str] =
    &["handle.rs", "descriptor.rs", "graph.rs", "plugin_paths.rs", "logging.rs", "error.rs", "version.rs"];

/// Functions that callers are warned away from. They stay in the library.
pub const DEPRECATED: &[&str] = &["hipdnnGetVersion_ext"];
