//! The numbers of the C interface that this crate uses, under their C names.
//!
//! The library is opened at run time and may be another one, so nothing of ours is linked for them. A test compares each
//! with the definition in `hipdnn_backend::ffi`.

use std::ffi::c_int;

macro_rules! constants {
    ($($(#[$meta:meta])* $enumeration:ident { $($name:ident = $value:literal,)+ })+) => {
        $($(#[doc = concat!("`", stringify!($name), "`")] pub const $name: c_int = $value;)+)+

        #[cfg(test)]
        mod tests {
            use hipdnn_backend::ffi::raw::CEnum;

            #[test]
            fn numbers_are_those_of_the_library() {
                $($(
                    let theirs = hipdnn_backend::ffi::$enumeration::$name.raw();
                    assert_eq!(super::$name, theirs, stringify!($name));
                )+)+
            }
        }
    };
}

constants! {
    hipdnnStatus_t {
        HIPDNN_STATUS_SUCCESS = 0,
        HIPDNN_STATUS_NOT_INITIALIZED = 1,
        HIPDNN_STATUS_BAD_PARAM = 2,
        HIPDNN_STATUS_BAD_PARAM_NULL_POINTER = 3,
        HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 4,
        HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND = 5,
        HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT = 6,
        HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH = 7,
        HIPDNN_STATUS_NOT_SUPPORTED = 8,
        HIPDNN_STATUS_INTERNAL_ERROR = 9,
        HIPDNN_STATUS_ALLOC_FAILED = 10,
        HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 11,
        HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 12,
        HIPDNN_STATUS_EXECUTION_FAILED = 13,
        HIPDNN_STATUS_PLUGIN_ERROR = 14,
        HIPDNN_STATUS_VERSION_MISMATCH = 15,
    }

    hipdnnBackendDescriptorType_t {
        HIPDNN_BACKEND_ENGINE_DESCRIPTOR = 1,
        HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR = 2,
        HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 3,
        HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 4,
        HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 6,
        HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 11,
    }

    hipdnnBackendAttributeType_t {
        HIPDNN_TYPE_HANDLE = 0,
        HIPDNN_TYPE_BOOLEAN = 2,
        HIPDNN_TYPE_INT64 = 3,
        HIPDNN_TYPE_DOUBLE = 5,
        HIPDNN_TYPE_VOID_PTR = 6,
        HIPDNN_TYPE_HEUR_MODE = 7,
        HIPDNN_TYPE_BACKEND_DESCRIPTOR = 13,
        HIPDNN_TYPE_BEHAVIOR_NOTE = 16,
        HIPDNN_TYPE_CHAR = 19,
    }

    hipdnnBackendHeurMode_t {
        HIPDNN_HEUR_MODE_FALLBACK = 0,
    }

    hipdnnBackendAttributeName_t {
        HIPDNN_ATTR_ENGINEHEUR_MODE = 100,
        HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 101,
        HIPDNN_ATTR_ENGINEHEUR_RESULTS = 102,
        HIPDNN_ATTR_ENGINECFG_ENGINE = 200,
        HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES = 202,
        HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 301,
        HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 302,
        HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT = 308,
        HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT = 309,
        HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT = 310,
        HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 500,
        HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 501,
        HIPDNN_ATTR_OPERATIONGRAPH_HANDLE = 600,
        HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 700,
        HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 701,
        HIPDNN_ATTR_VARIANT_PACK_WORKSPACE = 703,
        HIPDNN_ATTR_KNOB_INFO_TYPE = 900,
        HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE = 901,
        HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE = 902,
        HIPDNN_ATTR_KNOB_INFO_STRIDE = 903,
        HIPDNN_ATTR_KNOB_INFO_DESCRIPTION = 904,
        HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE = 905,
        HIPDNN_ATTR_KNOB_INFO_DEPRECATED = 906,
        HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT = 907,
        HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING = 908,
        HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE = 910,
        HIPDNN_ATTR_ENGINE_OPERATION_GRAPH = 1000,
        HIPDNN_ATTR_ENGINE_GLOBAL_INDEX = 1001,
        HIPDNN_ATTR_ENGINE_KNOB_INFO = 1002,
        HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE = 1005,
    }

    hipdnnSeverity_t {
        HIPDNN_SEV_INFO = 0,
        HIPDNN_SEV_OFF = 4,
    }

    hipdnnLogCallbackMode_t {
        HIPDNN_LOG_CALLBACK_SYNC = 0,
    }

    hipdnnPluginLoadingMode_ext_t {
        HIPDNN_PLUGIN_LOADING_ABSOLUTE = 1,
    }

    hipdnnSerializedContentFlags_t {
        HIPDNN_SERIALIZED_CONTENT_GRAPH = 1,
        HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN = 2,
    }

    hipdnnAutotuneCacheWriteOutcome_ext_t {
        HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN = 0,
        HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED = 1,
        HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED = 2,
        HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_NO_ENGINES = 3,
        HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED = 4,
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
