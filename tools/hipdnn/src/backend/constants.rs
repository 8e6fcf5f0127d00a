//! The numbers of the C interface that this tool uses, under their C names.
//!
//! The library is opened at run time and may be another one: what is taken from ours are the numbers alone.

use std::ffi::c_int;

macro_rules! constants {
    ($($enumeration:ident { $($name:ident,)+ })+) => {
        $($(#[doc = concat!("`", stringify!($name), "`")]
        pub const $name: c_int = hipdnn_abi::$enumeration::$name as c_int;)+)+
    };
}

constants! {
    hipdnnStatus_t {
        HIPDNN_STATUS_SUCCESS,
    }

    hipdnnBackendDescriptorType_t {
        HIPDNN_BACKEND_ENGINE_DESCRIPTOR,
        HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
        HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
        HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
        HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
    }

    hipdnnBackendAttributeType_t {
        HIPDNN_TYPE_HANDLE,
        HIPDNN_TYPE_BOOLEAN,
        HIPDNN_TYPE_INT64,
        HIPDNN_TYPE_DOUBLE,
        HIPDNN_TYPE_VOID_PTR,
        HIPDNN_TYPE_HEUR_MODE,
        HIPDNN_TYPE_BACKEND_DESCRIPTOR,
        HIPDNN_TYPE_BEHAVIOR_NOTE,
        HIPDNN_TYPE_CHAR,
    }

    hipdnnBackendHeurMode_t {
        HIPDNN_HEUR_MODE_FALLBACK,
    }

    hipdnnBackendAttributeName_t {
        HIPDNN_ATTR_ENGINEHEUR_MODE,
        HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
        HIPDNN_ATTR_ENGINEHEUR_RESULTS,
        HIPDNN_ATTR_ENGINECFG_ENGINE,
        HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES,
        HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
        HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
        HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT,
        HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT,
        HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT,
        HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
        HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
        HIPDNN_ATTR_OPERATIONGRAPH_HANDLE,
        HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
        HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
        HIPDNN_ATTR_VARIANT_PACK_WORKSPACE,
        HIPDNN_ATTR_KNOB_INFO_TYPE,
        HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE,
        HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE,
        HIPDNN_ATTR_KNOB_INFO_STRIDE,
        HIPDNN_ATTR_KNOB_INFO_DESCRIPTION,
        HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE,
        HIPDNN_ATTR_KNOB_INFO_DEPRECATED,
        HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT,
        HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING,
        HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE,
        HIPDNN_ATTR_ENGINE_OPERATION_GRAPH,
        HIPDNN_ATTR_ENGINE_GLOBAL_INDEX,
        HIPDNN_ATTR_ENGINE_KNOB_INFO,
        HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
    }

    hipdnnSeverity_t {
        HIPDNN_SEV_INFO,
        HIPDNN_SEV_OFF,
    }

    hipdnnLogCallbackMode_t {
        HIPDNN_LOG_CALLBACK_SYNC,
    }

    hipdnnPluginLoadingMode_ext_t {
        HIPDNN_PLUGIN_LOADING_ABSOLUTE,
    }

    hipdnnSerializedContentFlags_t {
        HIPDNN_SERIALIZED_CONTENT_GRAPH,
        HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN,
    }

    hipdnnAutotuneCacheWriteOutcome_ext_t {
        HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN,
        HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED,
        HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED,
        HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES,
        HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED,
    }
}

/// Names of the behavior notes, by their numbers.
pub const BEHAVIOR_NOTES: &[&str] = &[
    "runtime compilation",
    "requires layout transform",
    "supports graph capture",
    "external library dependency",
    "supports execution plan serialization",
];
