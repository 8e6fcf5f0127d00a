//! MIOpen's types and constants.

use std::ffi::{c_int, c_uint, c_void};

/// Result of a MIOpen function; 0 is success.
pub type miopenStatus_t = c_int;

/// Declares handles: pointers to opaque objects of MIOpen.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        pub type $name = *mut c_void;
    )+};
}

handles! {
    /// A stream with MIOpen's state for it.
    miopenHandle_t;
    /// Shape, layout and type of a tensor.
    miopenTensorDescriptor_t;
    /// The parameters of a convolution.
    miopenConvolutionDescriptor_t;
    /// The parameters of an activation.
    miopenActivationDescriptor_t;
    /// The parameters of a pooling.
    miopenPoolingDescriptor_t;
    /// The parameters of a reduction.
    miopenReduceTensorDescriptor_t;
    /// An operation on tensors of known shapes.
    miopenProblem_t;
    /// An implementation of a problem.
    miopenSolution_t;
    /// Options of a search for solutions.
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
    /// The minimum.
    TENSOR_MIN: c_int = miopenTensorOpMin 2;
    /// The maximum.
    TENSOR_MAX: c_int = miopenTensorOpMax 3;
    /// The maximum of a window.
    POOLING_MAX: c_int = miopenPoolingMax 0;
    /// The mean of a window's elements that are inside the image.
    POOLING_MEAN: c_int = miopenPoolingAverage 1;
    /// The mean over the whole window.
    POOLING_MEAN_OF_WINDOW: c_int = miopenPoolingAverageInclusive 2;
    /// 32-bit indices.
    INDEX_32: c_int = miopenIndexUint32 2;
    /// Indices count the elements of the image.
    INDEX_OF_IMAGE: c_int = miopenPoolingWorkspaceIndexImage 1;
    /// The sum.
    REDUCE_ADD: c_int = MIOPEN_REDUCE_TENSOR_ADD 0;
    /// The product.
    REDUCE_MUL: c_int = MIOPEN_REDUCE_TENSOR_MUL 1;
    /// The maximum magnitude.
    REDUCE_AMAX: c_int = MIOPEN_REDUCE_TENSOR_AMAX 4;
    /// The mean.
    REDUCE_AVG: c_int = MIOPEN_REDUCE_TENSOR_AVG 5;
    /// The sum of magnitudes.
    REDUCE_NORM1: c_int = MIOPEN_REDUCE_TENSOR_NORM1 6;
    /// The square root of the sum of squares.
    REDUCE_NORM2: c_int = MIOPEN_REDUCE_TENSOR_NORM2 7;
    /// NaNs propagate.
    PROPAGATE_NAN: c_int = MIOPEN_PROPAGATE_NAN 1;
    /// No indices.
    NO_INDICES: c_int = MIOPEN_REDUCE_TENSOR_NO_INDICES 0;
    /// 32-bit indices of a reduction.
    REDUCE_INDEX_32: c_int = MIOPEN_32BIT_INDICES 0;
    /// Softmax that subtracts the maximum first.
    SOFTMAX_ACCURATE: c_int = MIOPEN_SOFTMAX_ACCURATE 1;
    /// The logarithm of softmax.
    SOFTMAX_LOG: c_int = MIOPEN_SOFTMAX_LOG 2;
    /// A softmax along the second dimension.
    SOFTMAX_CHANNEL: c_int = MIOPEN_SOFTMAX_MODE_CHANNEL 1;
    /// Normalization with given scale and bias.
    WEIGHT_BIAS: c_int = MIOPEN_WEIGHT_BIAS 1;
    /// RMS normalization with a given scale.
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
    /// The input of adding a bias.
    BIAS_X: c_uint = miopenTensorBiasX 41;
    /// The output of adding a bias.
    BIAS_Y: c_uint = miopenTensorBiasY 42;
    /// A bias.
    BIAS: c_uint = miopenTensorBias 43;
    /// x of a batch normalization.
    BATCHNORM_X: c_uint = miopenTensorBatchnormX 48;
    /// y of a batch normalization.
    BATCHNORM_Y: c_uint = miopenTensorBatchnormY 49;
    /// Running means.
    BATCHNORM_RUNNING_MEAN: c_uint = miopenTensorBatchnormRunningMean 50;
    /// Running variances.
    BATCHNORM_RUNNING_VARIANCE: c_uint = miopenTensorBatchnormRunningVariance 51;
    /// Saved means of x.
    BATCHNORM_SAVED_MEAN: c_uint = miopenTensorBatchnormSavedMean 52;
    /// Saved inverse deviations of x.
    BATCHNORM_SAVED_INVERSE: c_uint = miopenTensorBatchnormSavedVariance 53;
    /// The scale of a batch normalization.
    BATCHNORM_SCALE: c_uint = miopenTensorBatchnormScale 54;
    /// The gradient of the scale.
    BATCHNORM_DSCALE: c_uint = miopenTensorBatchnormScaleDiff 55;
    /// Given means.
    BATCHNORM_MEAN: c_uint = miopenTensorBatchnormEstimatedMean 56;
    /// Given variances.
    BATCHNORM_VARIANCE: c_uint = miopenTensorBatchnormEstimatedVariance 57;
    /// The bias of a batch normalization.
    BATCHNORM_BIAS: c_uint = miopenTensorBatchnormBias 58;
    /// The gradient of the bias.
    BATCHNORM_DBIAS: c_uint = miopenTensorBatchnormBiasDiff 59;
    /// The gradient of x of a batch normalization.
    BATCHNORM_DX: c_uint = miopenTensorBatchnormDX 60;
    /// The gradient of y of a batch normalization.
    BATCHNORM_DY: c_uint = miopenTensorBatchnormDY 61;
    /// The weight of the new value in running statistics, a `double` on the host.
    BATCHNORM_MOMENTUM: c_uint = miopenScalarBatchnormExpAvgFactor 0x8000_0002;
    /// Added to variances, a `double` on the host.
    BATCHNORM_EPSILON: c_uint = miopenScalarBatchnormEpsilon 0x8000_0003;
}

/// A tensor argument of a solution.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct miopenTensorArgument_t {
    /// Which tensor it is.
    pub id: c_uint,
    /// Replaces the problem's descriptor; null to keep it.
    pub descriptor: *mut miopenTensorDescriptor_t,
    /// Its memory.
    pub buffer: *mut c_void,
}
