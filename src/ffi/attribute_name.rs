//! The attributes of descriptors.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// Declares the attributes as `name = number: text for the header`.
macro_rules! attributes {
    ($(#[doc = $about:literal])+ $enumeration:ident { $($name:ident = $number:literal: $doc:literal,)+ }) => {
        $(#[doc = $about])+
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
        pub enum $enumeration {
            $(#[doc = $doc] $name = $number,)+
        }

        /// The header's text about attributes, line by line.
        pub const ABOUT: &[&str] = &[$($about,)+];

        /// Every attribute with its text in the header.
        pub const ATTRIBUTES: &[($enumeration, &str)] = &[$(($enumeration::$name, $doc),)+];
    };
}

attributes! {
    /// What `hipdnnBackendSetAttribute` sets and `hipdnnBackendGetAttribute` reads.
    ///
    /// In brackets: the attribute's `hipdnnBackendAttributeType_t` without its prefix, the number of elements
    /// (n: any number from 1), and how it may be used. Reserved attributes have no meaning yet and return
    /// `HIPDNN_STATUS_NOT_SUPPORTED`. Tensors, operations and other objects are `BACKEND_DESCRIPTOR`s and must be
    /// finalized.
    hipdnnBackendAttributeName_t {
        // Engine heuristic.
        HIPDNN_ATTR_ENGINEHEUR_MODE = 100: "How engines are ranked (HEUR_MODE, 1, required).",
        HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 101:
            "The finalized operation graph to find engines for (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_ENGINEHEUR_RESULTS = 102:
            "Engine configurations in order of preference; a read fills configurations the caller created\n(BACKEND_DESCRIPTOR, n, read only).",
        HIPDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET = 103: "Number of compute units to plan for (INT32, 1, reserved).",
        HIPDNN_ATTR_ENGINEHEUR_DEVICEPROP = 104: "Device to plan for (BACKEND_DESCRIPTOR, 1, reserved).",
        HIPDNN_ATTR_ENGINEHEUR_FIND_FIRST_EXT = 105: "Stop at the first plugin with an applicable engine (BOOLEAN, 1).",
        HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT = 106: "Ids of the selection policies to try, in order (INT64, n).",
        HIPDNN_ATTR_ENGINEHEUR_RANKING_METRIC_EXT = 107: "Metric that predictions are ranked by (CHAR, n).",
        // Engine configuration.
        HIPDNN_ATTR_ENGINECFG_ENGINE = 200: "The finalized engine (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO = 201: "Intermediate tensors (BACKEND_DESCRIPTOR, n, reserved).",
        HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES = 202: "Finalized knob choices (BACKEND_DESCRIPTOR, n).",
        HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE = 203: "Workspace the engine needs, in bytes (INT64, 1, read only).",
        HIPDNN_ATTR_ENGINECFG_PREDICTION_EVALUATE_EXT = 204: "Whether reading a prediction may evaluate the engine (INT64, 1).",
        HIPDNN_ATTR_ENGINECFG_PREDICTION_EXT = 205: "Predicted performance (FLATBUFFER_DATA_STRUCT_EXT, 0 or 1, read only).",
        HIPDNN_ATTR_ENGINECFG_RANKING_METRIC_EXT = 206: "Metric of the prediction (CHAR, n).",
        HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT = 290:
            "Notes that the engine must have; knobs are set for them (NUMERICAL_NOTE, n).",
        HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT = 291:
            "Notes that the engine must not have; knobs are set against them (NUMERICAL_NOTE, n).",
        HIPDNN_ATTR_ENGINECFG_NUMERICAL_NOTES_EXT = 292:
            "What the engine may do to numbers with these knobs (NUMERICAL_NOTE, n, read only).",
        HIPDNN_ATTR_ENGINECFG_CHOSEN_KNOBS_EXT = 293:
            "The knob choices, with those that the notes ask for (BACKEND_DESCRIPTOR, n, read only).",
        // Execution plan.
        HIPDNN_ATTR_EXECUTION_PLAN_HANDLE = 300: "A handle; accepted but ignored, execute has its own (HANDLE, 1).",
        HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 301: "The finalized engine configuration (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 302: "Workspace that execute needs, in bytes (INT64, 1, read only).",
        HIPDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS = 303: "Uids of intermediates to compute (INT64, n, reserved).",
        HIPDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS = 304: "Uids of intermediates to run alone (INT64, n, reserved).",
        HIPDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION = 305: "The plan as JSON (CHAR, n, read only).",
        HIPDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE = 306: "Kernel cache (BACKEND_DESCRIPTOR, 1, reserved).",
        HIPDNN_ATTR_EXECUTION_PLAN_DEVICEPROP = 307: "Device of the plan (BACKEND_DESCRIPTOR, 1, reserved).",
        HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT = 308:
            "Uids of the tensors that a variant pack must bind (INT64, n, read only).",
        HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT = 309: "Id of the plan's engine (INT64, 1, read only).",
        HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT = 310:
            "Whether a variant pack may override shapes (BOOLEAN, 1, read only).",
        // Intermediate tensors.
        HIPDNN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID = 400: "Uid of the intermediate (INT64, 1, reserved).",
        HIPDNN_ATTR_INTERMEDIATE_INFO_SIZE = 401: "Its size in bytes (INT64, 1, reserved).",
        HIPDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS = 402: "Uids of the tensors it depends on (INT64, n, reserved).",
        HIPDNN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES = 403: "Attributes it depends on (ATTRIB_NAME, n, reserved).",
        // Knob choice.
        HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 500: "Id of the knob (CHAR, n, required).",
        HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 501: "Chosen value (INT64, 1; DOUBLE, 1; or CHAR, n, as the knob has it, required).",
        // Operation graph.
        HIPDNN_ATTR_OPERATIONGRAPH_HANDLE = 600:
            "The handle whose plugins serve the graph (HANDLE, 1, write only, required).",
        HIPDNN_ATTR_OPERATIONGRAPH_OPS = 601:
            "Finalized operations in topological order; a repeated set appends (BACKEND_DESCRIPTOR, n,\nrequired unless the graph came from bytes).",
        HIPDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT = 602: "Number of engines (INT64, 1, reserved).",
        HIPDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED = 603: "Dynamic shapes (BOOLEAN, 1, reserved).",
        HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT = 604: "Compute type of operations without one (DATA_TYPE, 1).",
        HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT = 605: "Data type of virtual tensors without one (DATA_TYPE, 1).",
        HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT = 606: "Data type of other tensors without one (DATA_TYPE, 1).",
        HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT = 607: "Id of the engine the caller prefers (INT64, 1).",
        HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT = 608: "Name of the graph (CHAR, n).",
        HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT = 609:
            "Whether shapes may be overridden at execute, false unless set (BOOLEAN, 1).",
        // Variant pack.
        HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 700: "Tensor uids, in the order of the data pointers (INT64, n, required).",
        HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 701: "Device pointers, in the order of the uids (VOID_PTR, n, required).",
        HIPDNN_ATTR_VARIANT_PACK_INTERMEDIATES = 702: "Intermediates (BACKEND_DESCRIPTOR, n, reserved).",
        HIPDNN_ATTR_VARIANT_PACK_WORKSPACE = 703: "Device memory of at least the plan's workspace size (VOID_PTR, 1).",
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT = 704: "Uids of the tensors whose shape is overridden (INT64, n).",
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT = 705: "Overriding dimensions, one tensor after the other (INT64, n).",
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT = 706: "Overriding strides, one tensor after the other (INT64, n).",
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT = 707: "Number of dimensions of each overridden tensor (INT64, n).",
        // Layout.
        HIPDNN_ATTR_LAYOUT_INFO_TENSOR_UID = 800: "Uid of the tensor (INT64, 1, reserved).",
        HIPDNN_ATTR_LAYOUT_INFO_TYPES = 801: "Layouts of the tensor (LAYOUT_TYPE, n, reserved).",
        // Knob.
        HIPDNN_ATTR_KNOB_INFO_TYPE = 900: "Id of the knob (CHAR, n).",
        HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE = 901: "Largest value (INT64, 1 or DOUBLE, 1).",
        HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE = 902: "Smallest value (INT64, 1 or DOUBLE, 1).",
        HIPDNN_ATTR_KNOB_INFO_STRIDE = 903: "Step between integer values (INT64, 1).",
        HIPDNN_ATTR_KNOB_INFO_DESCRIPTION = 904: "What the knob does (CHAR, n).",
        HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE = 905: "Value when none is chosen (INT64, 1; DOUBLE, 1; or CHAR, n).",
        HIPDNN_ATTR_KNOB_INFO_DEPRECATED = 906: "Whether the knob is deprecated (BOOLEAN, 1).",
        HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT = 907: "The integers allowed (INT64, n).",
        HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING = 908: "The strings allowed, each ended by a NUL (CHAR, n).",
        HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH = 909: "Longest string allowed (INT32, 1).",
        HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE = 910:
            "Type of the value as a number of hipdnnBackendAttributeType_t (INT64, 1, read only).",
        // Engine.
        HIPDNN_ATTR_ENGINE_OPERATION_GRAPH = 1000: "The finalized graph the engine is to run (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_ENGINE_GLOBAL_INDEX = 1001: "Id of the engine (INT64, 1, required).",
        HIPDNN_ATTR_ENGINE_KNOB_INFO = 1002: "The engine's knobs (BACKEND_DESCRIPTOR, n, read only).",
        HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1003: "What the engine may do to numbers with default knobs (NUMERICAL_NOTE, n, read only).",
        HIPDNN_ATTR_ENGINE_LAYOUT_INFO = 1004: "Layouts (BACKEND_DESCRIPTOR, n, reserved).",
        HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE = 1005: "The engine's notes on its behaviour (BEHAVIOR_NOTE, n, read only).",
        HIPDNN_ATTR_ENGINE_CU_COUNT_TARGET_EXT = 1006: "Number of compute units to use (INT32, 1, reserved).",
        HIPDNN_ATTR_ENGINE_DEVICEPROP = 1007: "Device of the engine (BACKEND_DESCRIPTOR, 1, reserved).",
        HIPDNN_ATTR_ENGINE_NAME_EXT = 1008: "Name of the engine, never empty (CHAR, n, read only).",
        HIPDNN_ATTR_ENGINE_PREDICTION_EVALUATE_EXT = 1009: "Whether reading a prediction may evaluate the engine (INT64, 1).",
        HIPDNN_ATTR_ENGINE_PREDICTION_EXT = 1010: "Predicted performance (FLATBUFFER_DATA_STRUCT_EXT, 0 or 1, read only).",
        HIPDNN_ATTR_ENGINE_CANDIDATE_OFFSET_EXT = 1011: "First candidate to list (INT64, 1).",
        HIPDNN_ATTR_ENGINE_CANDIDATE_LIMIT_EXT = 1012: "Number of candidates to list (INT64, 1).",
        HIPDNN_ATTR_ENGINE_CANDIDATE_SCOPE_EXT = 1013: "Which candidates to list (INT64, 1).",
        HIPDNN_ATTR_ENGINE_CANDIDATES_EXT = 1014:
            "A page of the engine's candidates (FLATBUFFER_DATA_STRUCT_EXT, 0 or 1, read only).",
        HIPDNN_ATTR_ENGINE_PREDICTION_METRIC_EXT = 1015: "Metric of the prediction (CHAR, n).",
        // Kernel cache and device properties.
        HIPDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED = 1100:
            "Whether a configuration's kernels are cached (BOOLEAN, 1, reserved).",
        HIPDNN_ATTR_DEVICEPROP_DEVICE_ID = 1200: "Number of the device (INT32, 1, reserved).",
        HIPDNN_ATTR_DEVICEPROP_HANDLE = 1201: "Handle whose device is meant (HANDLE, 1, reserved).",
        HIPDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = 1202: "The device as JSON (CHAR, n, reserved).",
        // Tensor.
        HIPDNN_ATTR_TENSOR_UNIQUE_ID = 1300: "Uid, unique within a graph, default 0 (INT64, 1).",
        HIPDNN_ATTR_TENSOR_NAME_EXT = 1301: "Name of the tensor (CHAR, n).",
        HIPDNN_ATTR_TENSOR_DATA_TYPE = 1302: "Type of an element (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_TENSOR_DIMENSIONS = 1303: "Dimensions (INT64, n, required).",
        HIPDNN_ATTR_TENSOR_STRIDES = 1304: "Strides in elements, one per dimension (INT64, n, required).",
        HIPDNN_ATTR_TENSOR_IS_VIRTUAL = 1305: "True for a tensor that lives only inside the graph (BOOLEAN, 1).",
        HIPDNN_ATTR_TENSOR_VALUE_EXT = 1306:
            "Value of a constant tensor, set after its data type: the bytes of one element (CHAR, size of the\nelement).",
        HIPDNN_ATTR_TENSOR_IS_BY_VALUE = 1307: "Whether a value is stored (BOOLEAN, 1, read only).",
        HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT = 1308:
            "True when the variant pack binds a host pointer to the value (BOOLEAN, 1).",
        HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 1309: "Alignment of the data pointer in bytes, default 16 (INT64, 1).",
        HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC = 1310: "Tensor of the offsets of a ragged batch (BACKEND_DESCRIPTOR, 1).",
        HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER = 1311: "Factor of the ragged offsets, default 1 (INT64, 1).",
        // Convolutions.
        HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 1400: "Filter (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 1401: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 1402: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_CONVOLUTION_COMP_TYPE = 1500: "Type that products are summed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_CONVOLUTION_CONV_MODE = 1501: "Convolution or cross-correlation (CONVOLUTION_MODE, 1).",
        HIPDNN_ATTR_CONVOLUTION_DILATIONS = 1502: "Dilations, one per spatial dimension (INT64, n).",
        HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 1503: "Strides of the filter, one per spatial dimension (INT64, n).",
        HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS = 1504: "Padding after the data, one per spatial dimension (INT64, n).",
        HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 1505: "Padding before the data, one per spatial dimension (INT64, n).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 1600:
            "Input of the forward convolution (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 1601: "Gradient of its output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 1602: "Gradient of the filter (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 1700:
            "Gradient of the forward convolution's output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 1701: "Filter (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 1702: "Gradient of the input (BACKEND_DESCRIPTOR, 1, required).",
        // Batch normalization.
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_X_EXT = 1800: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_MEAN_EXT = 1801: "Mean per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_INV_VARIANCE_EXT = 1802:
            "1 / sqrt(variance + epsilon) per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_SCALE_EXT = 1803: "Scale per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_BIAS_EXT = 1804: "Bias per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_Y_EXT = 1805: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_BATCHNORM_INF_COMP_TYPE_EXT = 1806: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT = 1900: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT = 1901: "Mean per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT = 1902:
            "Variance per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT = 1903:
            "Scale per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT = 1904: "Bias per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT = 1905: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT = 1906:
            "Scalar added to the variance (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT = 1907: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DY_EXT = 2000: "Gradient of the output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_X_EXT = 2001: "Input of the forward pass (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_SCALE_EXT = 2002: "Scale per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DX_EXT = 2003: "Gradient of the input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DSCALE_EXT = 2004: "Gradient of the scale (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_DBIAS_EXT = 2005: "Gradient of the bias (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_MEAN_EXT = 2006:
            "Mean saved by the forward pass (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT = 2007:
            "Inverse deviation saved by the forward pass (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_BATCHNORM_BACKWARD_COMP_TYPE_EXT = 2100: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BACKWARD_PEER_STATS_EXT = 2101:
            "Statistics of other devices (BACKEND_DESCRIPTOR, n, optional).",
        // Pointwise.
        HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT = 2200: "First operand (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT = 2201: "Result (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT = 2202: "Second operand (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_POINTWISE_IN_2_EXT = 2203: "Third operand (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_POINTWISE_MODE = 2300: "The function (POINTWISE_MODE, 1, required).",
        HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP = 2301: "Lower bound of RELU (FLOAT, 1, optional).",
        HIPDNN_ATTR_POINTWISE_RELU_UPPER_CLIP = 2302: "Upper bound of RELU (FLOAT, 1, optional).",
        HIPDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE = 2303: "Slope of RELU below its lower bound (FLOAT, 1, optional).",
        HIPDNN_ATTR_POINTWISE_SWISH_BETA = 2304: "Beta of SWISH (FLOAT, 1, optional).",
        HIPDNN_ATTR_POINTWISE_ELU_ALPHA = 2305: "Alpha of ELU (FLOAT, 1, optional).",
        HIPDNN_ATTR_POINTWISE_SOFTPLUS_BETA = 2306: "Beta of SOFTPLUS (FLOAT, 1, optional).",
        HIPDNN_ATTR_POINTWISE_MATH_PREC = 2307: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_POINTWISE_AXIS = 2308: "Axis of GEN_INDEX (INT64, 1, optional).",
        // RMS normalization.
        HIPDNN_ATTR_OPERATION_RMSNORM_X_EXT = 2400: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_SCALE_EXT = 2401: "Scale (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_EPSILON_EXT = 2402: "Scalar added to the mean square (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_Y_EXT = 2403: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_BIAS_EXT = 2404: "Bias (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_RMSNORM_INV_RMS_EXT = 2405: "Inverse root mean square (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_RMSNORM_FWD_PHASE_EXT = 2406: "Inference or training (NORM_FWD_PHASE, 1).",
        HIPDNN_ATTR_RMSNORM_COMP_TYPE_EXT = 2407: "Type computed in (DATA_TYPE, 1, required).",
        // Matrix multiplication.
        HIPDNN_ATTR_OPERATION_MATMUL_ADESC = 2500: "Left operand (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MATMUL_BDESC = 2501: "Right operand (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MATMUL_CDESC = 2502: "Product (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_MATMUL_COMP_TYPE = 2503: "Type that products are summed in (DATA_TYPE, 1, required).",
        // Scaled dot product attention, forward.
        HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC = 2600: "Queries (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_KDESC = 2601: "Keys (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_VDESC = 2602: "Values (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_ODESC = 2603: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_ATTN_MASK_EXT = 2604: "Additive mask (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC = 2605: "Scale of the scores (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC = 2606: "Length of each query sequence (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC = 2607:
            "Length of each key and value sequence (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SEED_EXT = 2608: "Seed of the dropout generator (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_OFFSET_EXT = 2609: "Offset of the dropout generator (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_MASK_EXT = 2610: "Dropout mask (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SCALE_EXT = 2611: "Dropout scale (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC = 2612: "Page table of the keys (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC = 2613: "Page table of the values (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC = 2614: "Block mask (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SINK_TOKEN_EXT = 2615: "Sink token (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_Q_EXT = 2616:
            "Factor that undoes the scaling of Q (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_K_EXT = 2617:
            "Factor that undoes the scaling of K (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_V_EXT = 2618:
            "Factor that undoes the scaling of V (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_DESCALE_S_EXT = 2619:
            "Factor that undoes the scaling of the scores (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_S_EXT = 2620: "Scale of the scores (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALE_O_EXT = 2621: "Scale of the output (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC = 2622:
            "Softmax statistics for the backward pass (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_MAX_EXT = 2623: "Maximum of each row (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_SUM_EXP_EXT = 2624: "Sum of exponentials of each row (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_RNG_DUMP_EXT = 2625: "Random numbers used (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_S_EXT = 2626: "Largest absolute score (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_FWD_AMAX_O_EXT = 2627: "Largest absolute output (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_GENERATE_STATS_EXT = 2628: "Whether softmax statistics are written (BOOLEAN, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_ALIBI_MASK_EXT = 2629: "Linear bias by distance (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_FWD_PADDING_MASK_EXT = 2630: "Mask beyond the sequence lengths (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_EXT = 2631:
            "Causal mask from the top left; deprecated, see DIAGONAL_ALIGNMENT (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_FWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT = 2632:
            "Causal mask from the bottom right; deprecated, see DIAGONAL_ALIGNMENT (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_FWD_DROPOUT_PROBABILITY_EXT = 2633: "Probability of dropping a score (FLOAT, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_ATTN_SCALE_VALUE_EXT = 2634: "Scale of the scores as a number (FLOAT, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_LEFT_BOUND_EXT = 2635: "Width of the window to the left (INT64, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_RIGHT_BOUND_EXT = 2636: "Width of the window to the right (INT64, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_MAX_SEQ_LEN_KV_EXT = 2637: "Longest key and value sequence (INT32, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_DIAGONAL_ALIGNMENT_EXT = 2638: "Corner that the diagonal starts from (DIAGONAL_ALIGNMENT_EXT, 1).",
        HIPDNN_ATTR_SDPA_FWD_MMA_CORE_MODE_EXT = 2639: "Type of the matrix instructions (DATA_TYPE, 1, optional).",
        HIPDNN_ATTR_SDPA_FWD_IMPLEMENTATION_EXT = 2640: "How attention is built (ATTENTION_IMPLEMENTATION_EXT, 1).",
        HIPDNN_ATTR_SDPA_FWD_COMP_TYPE_EXT = 2641: "Type computed in (DATA_TYPE, 1, required).",
        // Layer normalization.
        HIPDNN_ATTR_OPERATION_LAYERNORM_X_EXT = 2700: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_SCALE_EXT = 2701: "Scale (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BIAS_EXT = 2702: "Bias (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_EPSILON_EXT = 2703: "Scalar added to the variance (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_Y_EXT = 2704: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_MEAN_EXT = 2705: "Mean of each row (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_INV_VARIANCE_EXT = 2706:
            "Inverse deviation of each row (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_FWD_PHASE_EXT = 2707: "Inference or training (NORM_FWD_PHASE, 1).",
        HIPDNN_ATTR_LAYERNORM_COMP_TYPE_EXT = 2708: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_NORMALIZED_DIM_COUNT_EXT = 2709:
            "Number of trailing dimensions normalized over (INT64, 1).",
        // Block scaling.
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_XDESC = 2800: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC = 2801: "Quantized output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC = 2802: "Scale of each block (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE = 2803: "Elements that share a scale (INT32, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_AXIS_EXT = 2804: "Axis of the blocks (INT64, 1, optional).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_TRANSPOSE_EXT = 2805: "Whether the output is transposed (BOOLEAN, 1).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC = 2806: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC = 2807: "Quantized input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC = 2808: "Scale of each block (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC = 2809: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE = 2810:
            "Elements that share a scale, one per dimension (INT32, n).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE = 2811:
            "Whether scales are exponents of a negative power (BOOLEAN, 1).",
        HIPDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC = 2812: "Type computed in (DATA_TYPE, 1, required).",
        // Batch normalization, training.
        HIPDNN_ATTR_OPERATION_BATCHNORM_X_EXT = 2900: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_SCALE_EXT = 2901: "Scale per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_BIAS_EXT = 2902: "Bias per channel (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_EPSILON_EXT = 2903: "Scalar added to the variance (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_Y_EXT = 2904: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT = 2905:
            "Running mean before the step (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT = 2906:
            "Running variance before the step (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_MOMENTUM_EXT = 2907:
            "Scalar weight of the new statistics (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_MEAN_EXT = 2908: "Mean of the batch (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_INV_VARIANCE_EXT = 2909:
            "Inverse deviation of the batch (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT = 2910:
            "Running mean after the step (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT = 2911:
            "Running variance after the step (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_BATCHNORM_COMP_TYPE_EXT = 2912: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_BATCHNORM_PEER_STATS_EXT = 2913: "Statistics of other devices (BACKEND_DESCRIPTOR, n, optional).",
        // Custom operation.
        HIPDNN_ATTR_OPERATION_CUSTOM_OP_INPUTS_EXT = 3000: "Input tensors (BACKEND_DESCRIPTOR, n).",
        HIPDNN_ATTR_OPERATION_CUSTOM_OP_OUTPUTS_EXT = 3001: "Output tensors (BACKEND_DESCRIPTOR, n).",
        HIPDNN_ATTR_OPERATION_CUSTOM_OP_ID_EXT = 3002: "Id that the engine knows the operation by (CHAR, n, required).",
        HIPDNN_ATTR_OPERATION_CUSTOM_OP_DATA_EXT = 3003: "Bytes handed to the engine as they are (CHAR, n).",
        HIPDNN_ATTR_CUSTOM_OP_COMP_TYPE_EXT = 3004: "Type computed in (DATA_TYPE, 1, required).",
        // Scaled dot product attention, backward.
        HIPDNN_ATTR_OPERATION_SDPA_BWD_Q_EXT = 3100: "Queries (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_K_EXT = 3101: "Keys (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_V_EXT = 3102: "Values (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_O_EXT = 3103: "Output of the forward pass (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DO_EXT = 3104: "Gradient of the output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_STATS_EXT = 3105:
            "Softmax statistics of the forward pass (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DQ_EXT = 3106: "Gradient of the queries (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DK_EXT = 3107: "Gradient of the keys (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DV_EXT = 3108: "Gradient of the values (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_SCALE_EXT = 3109: "Scale of the scores (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_ATTN_MASK_EXT = 3110: "Additive mask (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_Q_EXT = 3111: "Length of each query sequence (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KV_EXT = 3112:
            "Length of each key and value sequence (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_SEED_EXT = 3113: "Seed of the dropout generator (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_OFFSET_EXT = 3114: "Offset of the dropout generator (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_MASK_EXT = 3115: "Dropout mask (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_EXT = 3116: "Dropout scale (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DROPOUT_SCALE_INV_EXT = 3117:
            "Inverse of the dropout scale (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_SDPA_BWD_DBIAS_EXT = 3118: "Gradient of the additive mask (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_SDPA_BWD_ALIBI_MASK_EXT = 3119: "Linear bias by distance (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_BWD_PADDING_MASK_EXT = 3120: "Mask beyond the sequence lengths (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_EXT = 3121: "Causal mask from the top left (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_BWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT = 3122: "Causal mask from the bottom right (BOOLEAN, 1).",
        HIPDNN_ATTR_SDPA_BWD_DROPOUT_PROBABILITY_EXT = 3123: "Probability of dropping a score (FLOAT, 1, optional).",
        HIPDNN_ATTR_SDPA_BWD_ATTN_SCALE_VALUE_EXT = 3124: "Scale of the scores as a number (FLOAT, 1, optional).",
        HIPDNN_ATTR_SDPA_BWD_LEFT_BOUND_EXT = 3125: "Width of the window to the left (INT64, 1, optional).",
        HIPDNN_ATTR_SDPA_BWD_RIGHT_BOUND_EXT = 3126: "Width of the window to the right (INT64, 1, optional).",
        HIPDNN_ATTR_SDPA_BWD_DIAGONAL_ALIGNMENT_EXT = 3127: "Corner that the diagonal starts from (DIAGONAL_ALIGNMENT_EXT, 1).",
        HIPDNN_ATTR_SDPA_BWD_COMP_TYPE_EXT = 3128: "Type computed in (DATA_TYPE, 1, required).",
        // Reduction.
        HIPDNN_ATTR_OPERATION_REDUCTION_XDESC = 3200: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_REDUCTION_YDESC = 3201: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_REDUCTION_OPERATOR = 3202: "How elements are combined (REDUCTION_OPERATOR_TYPE, 1, required).",
        HIPDNN_ATTR_REDUCTION_COMP_TYPE = 3203: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_REDUCTION_IS_DETERMINISTIC = 3204: "Whether equal inputs must give equal bits (BOOLEAN, 1).",
        // Resampling.
        HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC = 3300: "Input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC = 3301: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC = 3302: "Index of each maximum (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_RESAMPLE_MODE = 3400: "How a window is reduced (RESAMPLE_MODE, 1, required).",
        HIPDNN_ATTR_RESAMPLE_PRE_PADDINGS = 3401: "Padding before the data, one per spatial dimension (INT64, n, required).",
        HIPDNN_ATTR_RESAMPLE_POST_PADDINGS = 3402: "Padding after the data, one per spatial dimension (INT64, n, required).",
        HIPDNN_ATTR_RESAMPLE_STRIDES = 3403: "Strides, one per spatial dimension (INT64, n, required).",
        HIPDNN_ATTR_RESAMPLE_WINDOW_DIMS = 3404: "Window, one per spatial dimension (INT64, n, required).",
        HIPDNN_ATTR_RESAMPLE_PADDING_MODE = 3405: "What padding holds (PADDING_MODE, 1, optional).",
        HIPDNN_ATTR_RESAMPLE_GENERATE_INDEX_EXT = 3406: "Whether the index of each maximum is written (BOOLEAN, 1).",
        HIPDNN_ATTR_RESAMPLE_COMP_TYPE = 3407: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC = 3408: "Gradient of the output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC = 3409: "Gradient of the input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC = 3410: "Index of each maximum (BACKEND_DESCRIPTOR, 1, optional).",
        // RMS normalization, backward.
        HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DY_EXT = 3500: "Gradient of the output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_X_EXT = 3501: "Input of the forward pass (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_SCALE_EXT = 3502: "Scale (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_INV_RMS_EXT = 3503:
            "Inverse root mean square of the forward pass (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DX_EXT = 3504: "Gradient of the input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DSCALE_EXT = 3505: "Gradient of the scale (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_RMSNORM_BACKWARD_DBIAS_EXT = 3506: "Gradient of the bias (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_RMSNORM_BACKWARD_COMP_TYPE_EXT = 3507: "Type computed in (DATA_TYPE, 1, required).",
        // Layer normalization, backward.
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DY_EXT = 3600: "Gradient of the output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_X_EXT = 3601: "Input of the forward pass (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_SCALE_EXT = 3602: "Scale (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_MEAN_EXT = 3603: "Mean of each row (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_INV_VARIANCE_EXT = 3604:
            "Inverse deviation of each row (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_EPSILON_EXT = 3605:
            "Scalar added to the variance (BACKEND_DESCRIPTOR, 1, optional).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DX_EXT = 3606: "Gradient of the input (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DSCALE_EXT = 3607: "Gradient of the scale (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_LAYERNORM_BACKWARD_DBIAS_EXT = 3608: "Gradient of the bias (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_LAYERNORM_BACKWARD_NORMALIZED_DIM_COUNT_EXT = 3609:
            "Number of trailing dimensions normalized over (INT64, 1).",
        HIPDNN_ATTR_LAYERNORM_BACKWARD_COMP_TYPE_EXT = 3610: "Type computed in (DATA_TYPE, 1, required).",
        // Grouped matrix multiplication of a mixture of experts.
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC = 3700: "Tokens (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC = 3701: "Weights of the experts (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC = 3702:
            "First token of each expert (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC = 3703:
            "Index of each routed token (BACKEND_DESCRIPTOR, 1, required by GATHER and SCATTER).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC = 3704:
            "Rank of each routed token (BACKEND_DESCRIPTOR, 1, required by SCATTER).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC = 3705: "Output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE = 3706: "How tokens are routed (MOE_GROUPED_MATMUL_MODE, 1).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOP_K = 3707: "Experts per token (INT32, 1, required by SCATTER).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC = 3708: "Type computed in (DATA_TYPE, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DOUTPUT_DESC = 3800:
            "Gradient of the output (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_TOKEN_DESC = 3801: "Tokens (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_FIRST_TOKEN_OFFSET_DESC = 3802:
            "First token of each expert (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC = 3803:
            "Gradient of the weights (BACKEND_DESCRIPTOR, 1, required).",
        HIPDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_BWD_MATH_PREC = 3804: "Type computed in (DATA_TYPE, 1, required).",
        // Serialized values, and what every operation has.
        HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE = 60000:
            "The engine's knobs as buffers whose root is a Knob table; they live as long as the descriptor\n(FLATBUFFER_DATA_STRUCT_EXT, n, read only).",
        HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE = 60100:
            "A knob choice as a buffer whose root is a KnobSetting table (FLATBUFFER_DATA_STRUCT_EXT, n,\nwrite only).",
        HIPDNN_ATTR_OPERATION_TYPE_EXT = 60200: "Which operation a descriptor is (OPERATION_TYPE_EXT, 1, read only).",
        HIPDNN_ATTR_OPERATION_NAME_EXT = 60300: "Name of an operation (CHAR, n).",
        // Profiling control.
        HIPDNN_ATTR_PROFILING_HANDLE_EXT = 60400: "Handle whose stream is timed, set first (HANDLE, 1).",
        HIPDNN_ATTR_PROFILING_START_EXT = 60401: "Trigger: record the start (BOOLEAN, 1, write only).",
        HIPDNN_ATTR_PROFILING_STOP_EXT = 60402: "Trigger: record the end (BOOLEAN, 1, write only).",
        HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT = 60403: "Milliseconds from start to end, after finalize (FLOAT, 1, read only).",
        HIPDNN_ATTR_PROFILING_DEVICE_SYNC_EXT = 60404: "Trigger: wait for the device (BOOLEAN, 1, write only).",
        HIPDNN_ATTR_PROFILING_STALL_ARM_EXT = 60405: "Trigger: hold the stream until it is released (BOOLEAN, 1, write only).",
        HIPDNN_ATTR_PROFILING_STALL_RELEASE_EXT = 60406: "Trigger: release the stream (BOOLEAN, 1, write only).",
        HIPDNN_ATTR_PROFILING_STALL_TIMED_OUT_EXT = 60407:
            "Whether the hold ran into its limit, after finalize (BOOLEAN, 1, read only).",
        HIPDNN_ATTR_PROFILING_STALL_USED_EXT = 60408: "Whether the stream was held, after finalize (BOOLEAN, 1, read only).",
        HIPDNN_ATTR_PROFILING_RESET_EXT = 60409: "Trigger: ready for another measurement (BOOLEAN, 1, write only).",
        // This library's own attributes, far from the numbers that AMD assigns.
        HIPDNN_ATTR_OPERATIONGRAPH_IS_PLAN_CACHE_ENABLED_EXT = 1_000_000:
            "Whether the plan cache may serve engines and plans of the graph, true unless set; not saved with the graph\n(BOOLEAN, 1).",
    }
}
