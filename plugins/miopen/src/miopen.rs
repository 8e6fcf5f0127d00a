//! The part of MIOpen that the engines need, looked for at run time.
//!
//! The signatures and numbers are those of `miopen/miopen.h` of MIOpen 3; `cargo xtask amd-test` compares them with the
//! installed header.

#![expect(non_camel_case_types, reason = "the names of MIOpen")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;

use hipdnn_plugin_sdk::dynlib::guard::thrown;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::{PluginError, function_table};

/// What a MIOpen function answers; 0 is success.
pub type miopenStatus_t = c_int;

/// Declares handles: pointers to what only MIOpen knows.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        pub type $name = *mut c_void;
    )+};
}

handles! {
    /// A stream with everything that MIOpen keeps for it.
    miopenHandle_t;
    /// Shape, layout and type of a tensor.
    miopenTensorDescriptor_t;
    /// The numbers of a convolution.
    miopenConvolutionDescriptor_t;
    /// The numbers of an activation.
    miopenActivationDescriptor_t;
    /// The numbers of a pooling.
    miopenPoolingDescriptor_t;
    /// The numbers of a reduction.
    miopenReduceTensorDescriptor_t;
    /// An operation on tensors of known shapes.
    miopenProblem_t;
    /// A way to compute a problem.
    miopenSolution_t;
    /// What a search for solutions may do.
    miopenFindOptions_t;
}

hipdnn_plugin_sdk::header_constants! {
    /// No error.
    STATUS_SUCCESS: c_int = miopenStatusSuccess 0;
    /// Half precision.
    HALF: c_int = miopenHalf 0;
    /// Single precision.
    FLOAT: c_int = miopenFloat 1;
    /// Bfloat16.
    BFLOAT16: c_int = miopenBFloat16 5;
    /// A cross-correlation.
    CONVOLUTION: c_int = miopenConvolution 0;
    /// Whether equal inputs give equal bits.
    CONVOLUTION_DETERMINISTIC: c_int = MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC 1;
    /// One mean for each channel.
    BATCHNORM_SPATIAL: c_int = miopenBNSpatial 1;
    /// y = x.
    ACTIVATION_PASS: c_int = miopenActivationPASTHRU 0;
    /// y = 1 / (1 + exp(-x)).
    ACTIVATION_LOGISTIC: c_int = miopenActivationLOGISTIC 1;
    /// y = β tanh(α x).
    ACTIVATION_TANH: c_int = miopenActivationTANH 2;
    /// y = max(0, x).
    ACTIVATION_RELU: c_int = miopenActivationRELU 3;
    /// y = ln(1 + exp(x)).
    ACTIVATION_SOFT_RELU: c_int = miopenActivationSOFTRELU 4;
    /// y = |x|.
    ACTIVATION_ABS: c_int = miopenActivationABS 5;
    /// y = (α + β x)^γ.
    ACTIVATION_POWER: c_int = miopenActivationPOWER 6;
    /// y = min(α, max(0, x)).
    ACTIVATION_CLIPPED_RELU: c_int = miopenActivationCLIPPEDRELU 7;
    /// y = x > 0 ? x : α x.
    ACTIVATION_LEAKY_RELU: c_int = miopenActivationLEAKYRELU 8;
    /// y = x > 0 ? x : α (exp(x) - 1).
    ACTIVATION_ELU: c_int = miopenActivationELU 9;
    /// a + b.
    TENSOR_ADD: c_int = miopenTensorOpAdd 0;
    /// a b.
    TENSOR_MUL: c_int = miopenTensorOpMul 1;
    /// The smaller one.
    TENSOR_MIN: c_int = miopenTensorOpMin 2;
    /// The larger one.
    TENSOR_MAX: c_int = miopenTensorOpMax 3;
    /// The largest element of a window.
    POOLING_MAX: c_int = miopenPoolingMax 0;
    /// The mean of the elements of a window that lie inside the image.
    POOLING_MEAN: c_int = miopenPoolingAverage 1;
    /// The mean over a whole window.
    POOLING_MEAN_OF_WINDOW: c_int = miopenPoolingAverageInclusive 2;
    /// Indices of 32 bits.
    INDEX_32: c_int = miopenIndexUint32 2;
    /// Indices count the elements of the image.
    INDEX_OF_IMAGE: c_int = miopenPoolingWorkspaceIndexImage 1;
    /// The sum.
    REDUCE_ADD: c_int = MIOPEN_REDUCE_TENSOR_ADD 0;
    /// The product.
    REDUCE_MUL: c_int = MIOPEN_REDUCE_TENSOR_MUL 1;
    /// The smallest.
    REDUCE_MIN: c_int = MIOPEN_REDUCE_TENSOR_MIN 2;
    /// The largest.
    REDUCE_MAX: c_int = MIOPEN_REDUCE_TENSOR_MAX 3;
    /// The largest magnitude.
    REDUCE_AMAX: c_int = MIOPEN_REDUCE_TENSOR_AMAX 4;
    /// The mean.
    REDUCE_AVG: c_int = MIOPEN_REDUCE_TENSOR_AVG 5;
    /// The sum of magnitudes.
    REDUCE_NORM1: c_int = MIOPEN_REDUCE_TENSOR_NORM1 6;
    /// The root of the sum of squares.
    REDUCE_NORM2: c_int = MIOPEN_REDUCE_TENSOR_NORM2 7;
    /// What is no number counts.
    PROPAGATE_NAN: c_int = MIOPEN_PROPAGATE_NAN 1;
    /// A reduction alone.
    NO_INDICES: c_int = MIOPEN_REDUCE_TENSOR_NO_INDICES 0;
    /// Indices of a reduction have 32 bits.
    REDUCE_INDEX_32: c_int = MIOPEN_32BIT_INDICES 0;
    /// Powers of numbers less the largest, as shares of their sum.
    SOFTMAX_ACCURATE: c_int = MIOPEN_SOFTMAX_ACCURATE 1;
    /// The logarithm of that.
    SOFTMAX_LOG: c_int = MIOPEN_SOFTMAX_LOG 2;
    /// A softmax along the second dimension.
    SOFTMAX_CHANNEL: c_int = MIOPEN_SOFTMAX_MODE_CHANNEL 1;
    /// A normalization with given factors and summands.
    WEIGHT_BIAS: c_int = MIOPEN_WEIGHT_BIAS 1;
    /// A normalization by the root of the mean square with given factors.
    WEIGHT_T5: c_int = MIOPEN_WEIGHT_BIAS_T5 5;
    /// y from x and w.
    DIRECTION_FORWARD: c_int = miopenProblemDirectionForward 0;
    /// x from y and w.
    DIRECTION_BACKWARD: c_int = miopenProblemDirectionBackward 1;
    /// w from x and y.
    DIRECTION_BACKWARD_WEIGHTS: c_int = miopenProblemDirectionBackwardWeights 2;
    /// y of a batch normalization from given statistics.
    DIRECTION_INFERENCE: c_int = miopenProblemDirectionInference 4;
    /// x of a convolution.
    CONVOLUTION_X: c_uint = miopenTensorConvolutionX 1;
    /// The filter of a convolution.
    CONVOLUTION_W: c_uint = miopenTensorConvolutionW 2;
    /// y of a convolution.
    CONVOLUTION_Y: c_uint = miopenTensorConvolutionY 3;
    /// x of an activation.
    ACTIVATION_X: c_uint = miopenTensorActivationX 37;
    /// y of an activation.
    ACTIVATION_Y: c_uint = miopenTensorActivationY 38;
    /// The gradient of x of an activation.
    ACTIVATION_DX: c_uint = miopenTensorActivationDX 39;
    /// The gradient of y of an activation.
    ACTIVATION_DY: c_uint = miopenTensorActivationDY 40;
    /// What a bias is added to.
    BIAS_X: c_uint = miopenTensorBiasX 41;
    /// The sum with a bias.
    BIAS_Y: c_uint = miopenTensorBiasY 42;
    /// A bias.
    BIAS: c_uint = miopenTensorBias 43;
    /// x of a batch normalization.
    BATCHNORM_X: c_uint = miopenTensorBatchnormX 48;
    /// y of a batch normalization.
    BATCHNORM_Y: c_uint = miopenTensorBatchnormY 49;
    /// Means over many batches.
    BATCHNORM_RUNNING_MEAN: c_uint = miopenTensorBatchnormRunningMean 50;
    /// Variances over many batches.
    BATCHNORM_RUNNING_VARIANCE: c_uint = miopenTensorBatchnormRunningVariance 51;
    /// Means of x.
    BATCHNORM_SAVED_MEAN: c_uint = miopenTensorBatchnormSavedMean 52;
    /// Inverse deviations of x.
    BATCHNORM_SAVED_INVERSE: c_uint = miopenTensorBatchnormSavedVariance 53;
    /// The factors of a batch normalization.
    BATCHNORM_SCALE: c_uint = miopenTensorBatchnormScale 54;
    /// The gradient of the factors.
    BATCHNORM_DSCALE: c_uint = miopenTensorBatchnormScaleDiff 55;
    /// Given means.
    BATCHNORM_MEAN: c_uint = miopenTensorBatchnormEstimatedMean 56;
    /// Given variances.
    BATCHNORM_VARIANCE: c_uint = miopenTensorBatchnormEstimatedVariance 57;
    /// The summands of a batch normalization.
    BATCHNORM_BIAS: c_uint = miopenTensorBatchnormBias 58;
    /// The gradient of the summands.
    BATCHNORM_DBIAS: c_uint = miopenTensorBatchnormBiasDiff 59;
    /// The gradient of x of a batch normalization.
    BATCHNORM_DX: c_uint = miopenTensorBatchnormDX 60;
    /// The gradient of y of a batch normalization.
    BATCHNORM_DY: c_uint = miopenTensorBatchnormDY 61;
    /// The weight of the new value in running statistics, a `double` on the host.
    BATCHNORM_MOMENTUM: c_uint = miopenScalarBatchnormExpAvgFactor 0x8000_0002;
    /// What is added to variances, a `double` on the host.
    BATCHNORM_EPSILON: c_uint = miopenScalarBatchnormEpsilon 0x8000_0003;
}

/// A tensor of a solution that is run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct miopenTensorArgument_t {
    /// Which tensor it is.
    pub id: c_uint,
    /// Another descriptor than the problem's; null for the problem's.
    pub descriptor: *mut miopenTensorDescriptor_t,
    /// Its memory.
    pub buffer: *mut c_void,
}

function_table! {
    /// The functions of MIOpen.
    #[expect(non_snake_case, reason = "the names of MIOpen")]
    pub struct Miopen: "MIOpen", ["libMIOpen_private.so.1" + "_impl", "libMIOpen.so.1"] {
        required {
            /// The text of a status, which lives for ever.
            fn miopenGetErrorString(error: miopenStatus_t) -> *const c_char;
            /// The library's version.
            fn miopenGetVersion(major: *mut usize, minor: *mut usize, patch: *mut usize) -> miopenStatus_t;
            /// Makes a handle for a stream of the current device.
            fn miopenCreateWithStream(handle: *mut miopenHandle_t, stream: hipStream_t) -> miopenStatus_t;
            /// Ends a handle.
            fn miopenDestroy(handle: miopenHandle_t) -> miopenStatus_t;
            /// Sets the stream of a handle.
            fn miopenSetStream(handle: miopenHandle_t, stream: hipStream_t) -> miopenStatus_t;
            /// Makes a tensor descriptor.
            fn miopenCreateTensorDescriptor(descriptor: *mut miopenTensorDescriptor_t) -> miopenStatus_t;
            /// Sets what a tensor descriptor describes.
            fn miopenSetTensorDescriptor(
                descriptor: miopenTensorDescriptor_t,
                data_type: c_int,
                rank: c_int,
                dims: *const c_int,
                strides: *const c_int
            ) -> miopenStatus_t;
            /// Ends a tensor descriptor.
            fn miopenDestroyTensorDescriptor(descriptor: miopenTensorDescriptor_t) -> miopenStatus_t;
            /// Makes a convolution descriptor.
            fn miopenCreateConvolutionDescriptor(
                descriptor: *mut miopenConvolutionDescriptor_t
            ) -> miopenStatus_t;
            /// Sets what a convolution descriptor describes.
            fn miopenInitConvolutionNdDescriptor(
                descriptor: miopenConvolutionDescriptor_t,
                spatial: c_int,
                padding: *const c_int,
                stride: *const c_int,
                dilation: *const c_int,
                mode: c_int
            ) -> miopenStatus_t;
            /// Sets the number of groups.
            fn miopenSetConvolutionGroupCount(
                descriptor: miopenConvolutionDescriptor_t,
                groups: c_int
            ) -> miopenStatus_t;
            /// Sets an attribute.
            fn miopenSetConvolutionAttribute(
                descriptor: miopenConvolutionDescriptor_t,
                attribute: c_int,
                value: c_int
            ) -> miopenStatus_t;
            /// Sets how solutions are looked for.
            fn miopenSetConvolutionFindMode(
                descriptor: miopenConvolutionDescriptor_t,
                mode: c_int
            ) -> miopenStatus_t;
            /// Ends a convolution descriptor.
            fn miopenDestroyConvolutionDescriptor(
                descriptor: miopenConvolutionDescriptor_t
            ) -> miopenStatus_t;
            /// Makes a problem of a convolution.
            fn miopenCreateConvProblem(
                problem: *mut miopenProblem_t,
                convolution: miopenConvolutionDescriptor_t,
                direction: c_int
            ) -> miopenStatus_t;
            /// Describes a tensor of a problem.
            fn miopenSetProblemTensorDescriptor(
                problem: miopenProblem_t,
                id: c_uint,
                descriptor: miopenTensorDescriptor_t
            ) -> miopenStatus_t;
            /// Ends a problem.
            fn miopenDestroyProblem(problem: miopenProblem_t) -> miopenStatus_t;
            /// Makes options of a search.
            fn miopenCreateFindOptions(options: *mut miopenFindOptions_t) -> miopenStatus_t;
            /// Whether the search tunes kernels, which takes long.
            fn miopenSetFindOptionTuning(options: miopenFindOptions_t, value: c_int) -> miopenStatus_t;
            /// The most workspace that a solution may need.
            fn miopenSetFindOptionWorkspaceLimit(
                options: miopenFindOptions_t,
                bytes: usize
            ) -> miopenStatus_t;
            /// Ends options.
            fn miopenDestroyFindOptions(options: miopenFindOptions_t) -> miopenStatus_t;
            /// Looks for solutions of a problem, the best first.
            fn miopenFindSolutions(
                handle: miopenHandle_t,
                problem: miopenProblem_t,
                options: miopenFindOptions_t,
                solutions: *mut miopenSolution_t,
                count: *mut usize,
                max_count: usize
            ) -> miopenStatus_t;
            /// Runs a solution.
            fn miopenRunSolution(
                handle: miopenHandle_t,
                solution: miopenSolution_t,
                count: usize,
                tensors: *const miopenTensorArgument_t,
                workspace: *mut c_void,
                workspace_size: usize
            ) -> miopenStatus_t;
            /// The bytes of workspace that a solution needs.
            fn miopenGetSolutionWorkspaceSize(
                solution: miopenSolution_t,
                size: *mut usize
            ) -> miopenStatus_t;
            /// The bytes of a saved solution.
            fn miopenGetSolutionSize(solution: miopenSolution_t, size: *mut usize) -> miopenStatus_t;
            /// Saves a solution.
            fn miopenSaveSolution(solution: miopenSolution_t, data: *mut c_char) -> miopenStatus_t;
            /// Makes a solution of a saved one.
            fn miopenLoadSolution(
                solution: *mut miopenSolution_t,
                data: *const c_char,
                size: usize
            ) -> miopenStatus_t;
            /// Ends a solution.
            fn miopenDestroySolution(solution: miopenSolution_t) -> miopenStatus_t;
            /// Normalizes with given statistics.
            fn miopenBatchNormalizationForwardInference(
                handle: miopenHandle_t,
                mode: c_int,
                alpha: *mut c_void,
                beta: *mut c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void,
                parameter_descriptor: miopenTensorDescriptor_t,
                scale: *mut c_void,
                bias: *mut c_void,
                mean: *mut c_void,
                variance: *mut c_void,
                epsilon: f64
            ) -> miopenStatus_t;
            /// Normalizes with the statistics of x.
            fn miopenBatchNormalizationForwardTraining(
                handle: miopenHandle_t,
                mode: c_int,
                alpha: *mut c_void,
                beta: *mut c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void,
                parameter_descriptor: miopenTensorDescriptor_t,
                scale: *mut c_void,
                bias: *mut c_void,
                momentum: f64,
                running_mean: *mut c_void,
                running_variance: *mut c_void,
                epsilon: f64,
                mean: *mut c_void,
                inv_variance: *mut c_void
            ) -> miopenStatus_t;
            /// The gradients of a normalization.
            fn miopenBatchNormalizationBackward(
                handle: miopenHandle_t,
                mode: c_int,
                alpha_data: *const c_void,
                beta_data: *const c_void,
                alpha_parameter: *const c_void,
                beta_parameter: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                dy_descriptor: miopenTensorDescriptor_t,
                dy: *const c_void,
                dx_descriptor: miopenTensorDescriptor_t,
                dx: *mut c_void,
                parameter_descriptor: miopenTensorDescriptor_t,
                scale: *const c_void,
                dscale: *mut c_void,
                dbias: *mut c_void,
                epsilon: f64,
                mean: *const c_void,
                inv_variance: *const c_void
            ) -> miopenStatus_t;
            /// Makes an activation descriptor.
            fn miopenCreateActivationDescriptor(
                descriptor: *mut miopenActivationDescriptor_t
            ) -> miopenStatus_t;
            /// Sets what an activation descriptor describes.
            fn miopenSetActivationDescriptor(
                descriptor: miopenActivationDescriptor_t,
                mode: c_int,
                alpha: f64,
                beta: f64,
                gamma: f64
            ) -> miopenStatus_t;
            /// Ends an activation descriptor.
            fn miopenDestroyActivationDescriptor(descriptor: miopenActivationDescriptor_t) -> miopenStatus_t;
            /// An activation.
            fn miopenActivationForward(
                handle: miopenHandle_t,
                activation: miopenActivationDescriptor_t,
                alpha: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                beta: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void
            ) -> miopenStatus_t;
            /// The gradient of an activation.
            fn miopenActivationBackward(
                handle: miopenHandle_t,
                activation: miopenActivationDescriptor_t,
                alpha: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *const c_void,
                dy_descriptor: miopenTensorDescriptor_t,
                dy: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                beta: *const c_void,
                dx_descriptor: miopenTensorDescriptor_t,
                dx: *mut c_void
            ) -> miopenStatus_t;
            /// An operation on two tensors, element by element.
            fn miopenOpTensor(
                handle: miopenHandle_t,
                operation: c_int,
                alpha1: *const c_void,
                a_descriptor: miopenTensorDescriptor_t,
                a: *const c_void,
                alpha2: *const c_void,
                b_descriptor: miopenTensorDescriptor_t,
                b: *const c_void,
                beta: *const c_void,
                c_descriptor: miopenTensorDescriptor_t,
                c: *mut c_void
            ) -> miopenStatus_t;
        }
        optional {
            /// Whether solutions carry their compiled kernels.
            fn miopenSetFindOptionAttachBinaries(
                options: miopenFindOptions_t,
                attach: c_uint
            ) -> miopenStatus_t;
            /// Fills a tensor with a number of its type.
            fn miopenSetTensor(
                handle: miopenHandle_t,
                descriptor: miopenTensorDescriptor_t,
                tensor: *mut c_void,
                value: *const c_void
            ) -> miopenStatus_t;
            /// Copies a tensor to one with other strides.
            fn miopenTransformTensor(
                handle: miopenHandle_t,
                alpha: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                beta: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void
            ) -> miopenStatus_t;
            /// Makes a pooling descriptor.
            fn miopenCreatePoolingDescriptor(descriptor: *mut miopenPoolingDescriptor_t) -> miopenStatus_t;
            /// Sets what a pooling descriptor describes.
            fn miopenSetNdPoolingDescriptor(
                descriptor: miopenPoolingDescriptor_t,
                mode: c_int,
                spatial: c_int,
                window: *const c_int,
                padding: *const c_int,
                stride: *const c_int
            ) -> miopenStatus_t;
            /// Sets the type of indices.
            fn miopenSetPoolingIndexType(
                descriptor: miopenPoolingDescriptor_t,
                index: c_int
            ) -> miopenStatus_t;
            /// Sets what indices count.
            fn miopenSetPoolingWorkSpaceIndexMode(
                descriptor: miopenPoolingDescriptor_t,
                mode: c_int
            ) -> miopenStatus_t;
            /// Ends a pooling descriptor.
            fn miopenDestroyPoolingDescriptor(descriptor: miopenPoolingDescriptor_t) -> miopenStatus_t;
            /// A pooling.
            fn miopenPoolingForward(
                handle: miopenHandle_t,
                pooling: miopenPoolingDescriptor_t,
                alpha: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                beta: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void,
                with_indices: bool,
                indices: *mut c_void,
                size: usize
            ) -> miopenStatus_t;
            /// The gradient of a pooling.
            fn miopenPoolingBackward(
                handle: miopenHandle_t,
                pooling: miopenPoolingDescriptor_t,
                alpha: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *const c_void,
                dy_descriptor: miopenTensorDescriptor_t,
                dy: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                beta: *const c_void,
                dx_descriptor: miopenTensorDescriptor_t,
                dx: *mut c_void,
                indices: *mut c_void
            ) -> miopenStatus_t;
            /// Makes a reduction descriptor.
            fn miopenCreateReduceTensorDescriptor(
                descriptor: *mut miopenReduceTensorDescriptor_t
            ) -> miopenStatus_t;
            /// Sets what a reduction descriptor describes.
            fn miopenSetReduceTensorDescriptor(
                descriptor: miopenReduceTensorDescriptor_t,
                operation: c_int,
                compute_type: c_int,
                nan: c_int,
                indices: c_int,
                index_type: c_int
            ) -> miopenStatus_t;
            /// Ends a reduction descriptor.
            fn miopenDestroyReduceTensorDescriptor(
                descriptor: miopenReduceTensorDescriptor_t
            ) -> miopenStatus_t;
            /// The bytes of workspace that a reduction needs.
            fn miopenGetReductionWorkspaceSize(
                handle: miopenHandle_t,
                reduction: miopenReduceTensorDescriptor_t,
                x_descriptor: miopenTensorDescriptor_t,
                y_descriptor: miopenTensorDescriptor_t,
                size: *mut usize
            ) -> miopenStatus_t;
            /// A reduction.
            fn miopenReduceTensor(
                handle: miopenHandle_t,
                reduction: miopenReduceTensorDescriptor_t,
                indices: *mut c_void,
                indices_size: usize,
                workspace: *mut c_void,
                workspace_size: usize,
                alpha: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                beta: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void
            ) -> miopenStatus_t;
            /// A softmax.
            fn miopenSoftmaxForward_V2(
                handle: miopenHandle_t,
                alpha: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                beta: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void,
                algorithm: c_int,
                mode: c_int
            ) -> miopenStatus_t;
            /// The gradient of a softmax.
            fn miopenSoftmaxBackward_V2(
                handle: miopenHandle_t,
                alpha: *const c_void,
                y_descriptor: miopenTensorDescriptor_t,
                y: *const c_void,
                dy_descriptor: miopenTensorDescriptor_t,
                dy: *const c_void,
                beta: *const c_void,
                dx_descriptor: miopenTensorDescriptor_t,
                dx: *mut c_void,
                algorithm: c_int,
                mode: c_int
            ) -> miopenStatus_t;
            /// The bytes of workspace that the gradient of a normalization by the root of the mean square needs.
            fn miopenGetT5LayerNormBackwardWorkspaceSize(
                handle: miopenHandle_t,
                mode: c_int,
                dy_descriptor: miopenTensorDescriptor_t,
                x_descriptor: miopenTensorDescriptor_t,
                scale_descriptor: miopenTensorDescriptor_t,
                inverse_descriptor: miopenTensorDescriptor_t,
                dx_descriptor: miopenTensorDescriptor_t,
                dscale_descriptor: miopenTensorDescriptor_t,
                size: *mut usize
            ) -> miopenStatus_t;
            /// The gradient of a normalization by the root of the mean square.
            fn miopenT5LayerNormBackward(
                handle: miopenHandle_t,
                mode: c_int,
                workspace: *mut c_void,
                workspace_size: usize,
                dy_descriptor: miopenTensorDescriptor_t,
                dy: *const c_void,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                scale_descriptor: miopenTensorDescriptor_t,
                scale: *const c_void,
                inverse_descriptor: miopenTensorDescriptor_t,
                inverse: *const c_void,
                dx_descriptor: miopenTensorDescriptor_t,
                dx: *mut c_void,
                dscale_descriptor: miopenTensorDescriptor_t,
                dscale: *mut c_void
            ) -> miopenStatus_t;
            /// A layer normalization.
            fn miopenLayerNormForward(
                handle: miopenHandle_t,
                mode: c_int,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                scale_descriptor: miopenTensorDescriptor_t,
                scale: *const c_void,
                bias_descriptor: miopenTensorDescriptor_t,
                bias: *const c_void,
                epsilon: f32,
                leading: i32,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void,
                mean_descriptor: miopenTensorDescriptor_t,
                mean: *mut c_void,
                inverse_descriptor: miopenTensorDescriptor_t,
                inverse: *mut c_void
            ) -> miopenStatus_t;
            /// A normalization by the root of the mean square.
            fn miopenT5LayerNormForward(
                handle: miopenHandle_t,
                mode: c_int,
                x_descriptor: miopenTensorDescriptor_t,
                x: *const c_void,
                scale_descriptor: miopenTensorDescriptor_t,
                scale: *const c_void,
                epsilon: f32,
                y_descriptor: miopenTensorDescriptor_t,
                y: *mut c_void,
                inverse_descriptor: miopenTensorDescriptor_t,
                inverse: *mut c_void
            ) -> miopenStatus_t;
            /// Makes a problem of an activation.
            fn miopenCreateActivationProblem(
                problem: *mut miopenProblem_t,
                activation: miopenActivationDescriptor_t,
                direction: c_int
            ) -> miopenStatus_t;
            /// Makes a problem of a batch normalization.
            fn miopenCreateBatchnormProblem(
                problem: *mut miopenProblem_t,
                mode: c_int,
                running: bool,
                direction: c_int
            ) -> miopenStatus_t;
            /// Makes a problem of adding a bias.
            fn miopenCreateBiasProblem(problem: *mut miopenProblem_t, direction: c_int) -> miopenStatus_t;
            /// Adds the second problem to the first.
            fn miopenFuseProblems(first: miopenProblem_t, second: miopenProblem_t) -> miopenStatus_t;
        }
    }
}

/// A MIOpen function that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiopenError {
    /// The number of the status.
    pub status: miopenStatus_t,
    /// The function and MIOpen's own words.
    pub message: String,
}

impl fmt::Display for MiopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MiopenError {}

impl From<MiopenError> for PluginError {
    fn from(error: MiopenError) -> Self {
        Self::internal(error.message)
    }
}

impl Miopen {
    /// Makes an error of an answer that is not success.
    ///
    /// # Errors
    /// When `status` is an error.
    #[inline]
    pub fn check(&self, function: &str, status: miopenStatus_t) -> Result<(), MiopenError> {
        if status == STATUS_SUCCESS { Ok(()) } else { Err(self.error(function, status)) }
    }

    #[cold]
    fn error(&self, function: &str, status: miopenStatus_t) -> MiopenError {
        if let Some(message) = thrown(function, status) {
            return MiopenError { status, message };
        }
        // SAFETY: any number is fine.
        let text = unsafe { (self.miopenGetErrorString)(status) };
        let text = if text.is_null() {
            "no text".into()
        } else {
            // SAFETY: MIOpen's texts are NUL terminated and live for ever.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        MiopenError { status, message: format!("{function} failed with status {status}: {text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_or_the_error_says_what_was_looked_for() {
        match Miopen::get() {
            Ok(miopen) => {
                assert_eq!(miopen.check("f", STATUS_SUCCESS), Ok(()));
                let message = miopen.check("f", 3).unwrap_err().message;
                assert!(message.starts_with("f failed with status 3: "), "{message}");
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with("no library for MIOpen was found"), "{message}");
                assert!(message.contains("libMIOpen.so.1"), "{message}");
            }
        }
    }
}
