//! The part of MIOpen that the engines need, loaded at run time.
//!
//! The signatures and constants are those of `miopen/miopen.h` of MIOpen 3; `cargo xtask amd-test` compares
//! them with the installed header.

#![expect(non_camel_case_types, reason = "the names of MIOpen")]

mod error;
mod types;

use std::ffi::{c_char, c_int, c_uint, c_void};

use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::function_table;

pub use error::MiopenError;
pub use types::*;

function_table! {
    /// The functions of MIOpen.
    #[expect(non_snake_case, reason = "the names of MIOpen")]
    pub struct Miopen: "MIOpen", ["libMIOpen_private.so.1" + "_impl", "libMIOpen.so.1"] {
        required {
            /// The text of a status, which lives for ever.
            fn miopenGetErrorString(error: miopenStatus_t) -> *const c_char;
            /// The library's version.
            fn miopenGetVersion(major: *mut usize, minor: *mut usize, patch: *mut usize) -> miopenStatus_t;
            /// Creates a handle for a stream of the current device.
            fn miopenCreateWithStream(handle: *mut miopenHandle_t, stream: hipStream_t) -> miopenStatus_t;
            /// Destroys a handle.
            fn miopenDestroy(handle: miopenHandle_t) -> miopenStatus_t;
            /// Sets the stream of a handle.
            fn miopenSetStream(handle: miopenHandle_t, stream: hipStream_t) -> miopenStatus_t;
            /// Creates a tensor descriptor.
            fn miopenCreateTensorDescriptor(descriptor: *mut miopenTensorDescriptor_t) -> miopenStatus_t;
            /// Sets a tensor descriptor.
            fn miopenSetTensorDescriptor(
                descriptor: miopenTensorDescriptor_t,
                data_type: c_int,
                rank: c_int,
                dims: *const c_int,
                strides: *const c_int
            ) -> miopenStatus_t;
            /// Destroys a tensor descriptor.
            fn miopenDestroyTensorDescriptor(descriptor: miopenTensorDescriptor_t) -> miopenStatus_t;
            /// Creates a convolution descriptor.
            fn miopenCreateConvolutionDescriptor(
                descriptor: *mut miopenConvolutionDescriptor_t
            ) -> miopenStatus_t;
            /// Sets a convolution descriptor.
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
            /// Sets how solutions are searched.
            fn miopenSetConvolutionFindMode(
                descriptor: miopenConvolutionDescriptor_t,
                mode: c_int
            ) -> miopenStatus_t;
            /// Destroys a convolution descriptor.
            fn miopenDestroyConvolutionDescriptor(
                descriptor: miopenConvolutionDescriptor_t
            ) -> miopenStatus_t;
            /// Creates a convolution problem.
            fn miopenCreateConvProblem(
                problem: *mut miopenProblem_t,
                convolution: miopenConvolutionDescriptor_t,
                direction: c_int
            ) -> miopenStatus_t;
            /// Sets a tensor descriptor of a problem.
            fn miopenSetProblemTensorDescriptor(
                problem: miopenProblem_t,
                id: c_uint,
                descriptor: miopenTensorDescriptor_t
            ) -> miopenStatus_t;
            /// Destroys a problem.
            fn miopenDestroyProblem(problem: miopenProblem_t) -> miopenStatus_t;
            /// Creates search options.
            fn miopenCreateFindOptions(options: *mut miopenFindOptions_t) -> miopenStatus_t;
            /// Whether the search tunes kernels, which is slow.
            fn miopenSetFindOptionTuning(options: miopenFindOptions_t, value: c_int) -> miopenStatus_t;
            /// Limits the workspace of solutions.
            fn miopenSetFindOptionWorkspaceLimit(
                options: miopenFindOptions_t,
                bytes: usize
            ) -> miopenStatus_t;
            /// Destroys search options.
            fn miopenDestroyFindOptions(options: miopenFindOptions_t) -> miopenStatus_t;
            /// Searches for solutions of a problem, best first.
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
            /// The size of a saved solution.
            fn miopenGetSolutionSize(solution: miopenSolution_t, size: *mut usize) -> miopenStatus_t;
            /// Saves a solution.
            fn miopenSaveSolution(solution: miopenSolution_t, data: *mut c_char) -> miopenStatus_t;
            /// Restores a saved solution.
            fn miopenLoadSolution(
                solution: *mut miopenSolution_t,
                data: *const c_char,
                size: usize
            ) -> miopenStatus_t;
            /// Destroys a solution.
            fn miopenDestroySolution(solution: miopenSolution_t) -> miopenStatus_t;
            /// Batch normalization with given statistics.
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
            /// Batch normalization with the statistics of x.
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
            /// The gradients of batch normalization.
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
            /// Creates an activation descriptor.
            fn miopenCreateActivationDescriptor(
                descriptor: *mut miopenActivationDescriptor_t
            ) -> miopenStatus_t;
            /// Sets an activation descriptor.
            fn miopenSetActivationDescriptor(
                descriptor: miopenActivationDescriptor_t,
                mode: c_int,
                alpha: f64,
                beta: f64,
                gamma: f64
            ) -> miopenStatus_t;
            /// Destroys an activation descriptor.
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
            /// A pointwise operation on two tensors.
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
            /// Whether solutions include their compiled kernels.
            fn miopenSetFindOptionAttachBinaries(
                options: miopenFindOptions_t,
                attach: c_uint
            ) -> miopenStatus_t;
            /// Fills a tensor with a value of its type.
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
            /// Creates a pooling descriptor.
            fn miopenCreatePoolingDescriptor(descriptor: *mut miopenPoolingDescriptor_t) -> miopenStatus_t;
            /// Sets a pooling descriptor.
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
            /// Sets whether indices count in the window or the image.
            fn miopenSetPoolingWorkSpaceIndexMode(
                descriptor: miopenPoolingDescriptor_t,
                mode: c_int
            ) -> miopenStatus_t;
            /// Destroys a pooling descriptor.
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
            /// Creates a reduction descriptor.
            fn miopenCreateReduceTensorDescriptor(
                descriptor: *mut miopenReduceTensorDescriptor_t
            ) -> miopenStatus_t;
            /// Sets a reduction descriptor.
            fn miopenSetReduceTensorDescriptor(
                descriptor: miopenReduceTensorDescriptor_t,
                operation: c_int,
                compute_type: c_int,
                nan: c_int,
                indices: c_int,
                index_type: c_int
            ) -> miopenStatus_t;
            /// Destroys a reduction descriptor.
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
            /// The bytes of workspace that the gradient of RMS normalization needs.
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
            /// The gradient of RMS normalization.
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
            /// RMS normalization.
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
            /// Creates an activation problem.
            fn miopenCreateActivationProblem(
                problem: *mut miopenProblem_t,
                activation: miopenActivationDescriptor_t,
                direction: c_int
            ) -> miopenStatus_t;
            /// Creates a batch normalization problem.
            fn miopenCreateBatchnormProblem(
                problem: *mut miopenProblem_t,
                mode: c_int,
                running: bool,
                direction: c_int
            ) -> miopenStatus_t;
            /// Creates a bias problem.
            fn miopenCreateBiasProblem(problem: *mut miopenProblem_t, direction: c_int) -> miopenStatus_t;
            /// Fuses the second problem to the first.
            fn miopenFuseProblems(first: miopenProblem_t, second: miopenProblem_t) -> miopenStatus_t;
        }
    }
}
