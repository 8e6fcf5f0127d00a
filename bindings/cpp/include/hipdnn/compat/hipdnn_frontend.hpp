/* SPDX-License-Identifier: MIT */

/**
 * @file
 * The names of AMD's frontend for hipDNN: programs written for it compile with this header in its place, and use our classes.
 *
 * Put the folder of this header on the include path, as the CMake target hipdnn::compat does, and keep
 * `#include <hipdnn_frontend.hpp>`. Calls, shapes, units and errors are documented with the classes of hipdnn/hipdnn.hpp.
 */
#pragma once

#include "../hipdnn.hpp"

/* Parts of the standard library that AMD's frontend includes, and programs rely on. */
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "hipdnn_data_sdk/types.hpp"
#include "hipdnn_data_sdk/utilities/EngineNames.hpp"
#include "hipdnn_compat/checks.hpp"
#include "hipdnn_compat/log_lines.hpp"
#include "hipdnn_compat/saved_graph.hpp"

namespace hipdnn_frontend
{

/* Errors. */
using ::hipdnn::Error;
using ::hipdnn::ErrorCode;
using ::hipdnn::to_string;
using error_t = Error;
using error_object = Error;
using error_code_t = ErrorCode;

/* Types and modes. */
using ::hipdnn::AttentionImplementation;
using ::hipdnn::BehaviorNote;
using ::hipdnn::bfloat16;
using ::hipdnn::BuildPlanPolicy;
using ::hipdnn::ConvolutionMode;
using ::hipdnn::DataType;
using ::hipdnn::DiagonalAlignment;
using ::hipdnn::getDataTypeEnumFromType;
using ::hipdnn::half;
using ::hipdnn::HeuristicMode;
using ::hipdnn::isBinaryPointwiseMode;
using ::hipdnn::isKnownBehaviorNote;
using ::hipdnn::isTernaryPointwiseMode;
using ::hipdnn::isUnaryPointwiseMode;
using ::hipdnn::KnobValueType;
using ::hipdnn::MoeGroupedMatmulMode;
using ::hipdnn::NormFwdPhase;
using ::hipdnn::PaddingMode;
using ::hipdnn::PointwiseMode;
using ::hipdnn::ReductionMode;
using ::hipdnn::ResampleMode;
using AttentionImplementation_t = AttentionImplementation;
using BehaviorNote_t = BehaviorNote;
using BuildPlanPolicy_t = BuildPlanPolicy;
using ConvolutionMode_t = ConvolutionMode;
using DataType_t = DataType;
using DiagonalAlignment_t = DiagonalAlignment;
using HeurMode_t = HeuristicMode;
using KnobValueType_t = KnobValueType;
using MoeGroupedMatmulMode_t = MoeGroupedMatmulMode;
using NormFwdPhase_t = NormFwdPhase;
using PaddingMode_t = PaddingMode;
using PointwiseMode_t = PointwiseMode;
using ReductionMode_t = ReductionMode;
using ResampleMode_t = ResampleMode;

/* Knobs and autotuning. */
using ::hipdnn::AutotuneConfig;
using ::hipdnn::AutotuneRankingFn;
using ::hipdnn::AutotuneResult;
using ::hipdnn::AutotuneStorageConfig;
using ::hipdnn::AutotuneStrategy;
using ::hipdnn::ConstraintKind;
using ::hipdnn::EngineConfigInfo;
using ::hipdnn::EngineSweepSpec;
using ::hipdnn::EngineVariant;
using ::hipdnn::FloatConstraint;
using ::hipdnn::IConstraint;
using ::hipdnn::IntConstraint;
using ::hipdnn::Knob;
using ::hipdnn::KnobSetting;
using ::hipdnn::KnobSweepAxis;
using ::hipdnn::KnobType_t;
using ::hipdnn::KnobValueVariant;
using ::hipdnn::PrimingFailurePolicy;
using ::hipdnn::StringConstraint;
using ::hipdnn::TuneMode;

/** Whether a sweep's ranking was stored for later programs. */
enum class AutotuneCacheWriteOutcome {
    NOT_ATTEMPTED_NO_SUCCESSFUL_ENGINE, ///< No engine computed the graph.
    WRITTEN,                            ///< It was written.
    DECLINED_DISABLED,                  ///< Rankings are switched off, or their file cannot be used.
    DECLINED_UNKEYABLE,                 ///< The graph is not finalized.
    UNCHANGED,                          ///< The same ranking was stored already.
    NOT_ATTEMPTED_PARTIAL_SWEEP         ///< Not every engine was timed with its default knobs.
};

/** What the time of an execution contains. */
enum class TimingQuality {
    DEVICE_ONLY, ///< Work of the device, which waited until all of it had been submitted.
    UNSTALLED,   ///< Also the device's waits for the program.
    HOST_INCLUDED = UNSTALLED,
    INVALID ///< Nothing was timed.
};

/** The time of one execution. */
struct ExecutionTiming
{
    std::optional<float> elapsedMs; ///< Milliseconds.
    TimingQuality quality = TimingQuality::INVALID;
    bool timedOut = false; ///< Whether the device waited too long for the program.
};

inline const char* tuneModeToString(TuneMode mode) { return mode == TuneMode::EXHAUSTIVE ? "EXHAUSTIVE" : "STANDARD"; }
inline const char* strategyToString(AutotuneStrategy strategy)
{
    return strategy == AutotuneStrategy::SINGLE_SHOT     ? "SINGLE_SHOT"
           : strategy == AutotuneStrategy::FIXED_AVERAGE ? "FIXED_AVERAGE"
                                                         : "RUN_UNTIL_STABLE";
}

/* Handles and plugins. */
using HipdnnHandlePtr = ::hipdnn::HandlePtr;
using HipdnnHandleDeleter = ::hipdnn::HandleDeleter;
using ::hipdnn::create_handle;
using ::hipdnn::get_loaded_engine_plugin_paths;
using ::hipdnn::HeuristicPolicyInfo;
using ::hipdnn::PluginLoadingMode;
using ::hipdnn::set_engine_plugin_paths;
using PluginLoadingMode_t = PluginLoadingMode;

inline Error createHipdnnHandle(HipdnnHandlePtr& handle, hipStream_t stream = nullptr)
{
    return ::hipdnn::create_handle(handle, stream);
}
inline std::pair<HipdnnHandlePtr, Error> createHipdnnHandle(hipStream_t stream = nullptr)
{
    return ::hipdnn::create_handle(stream);
}
inline Error setHipdnnHandleStream(const HipdnnHandlePtr& handle, hipStream_t stream)
{
    return ::hipdnn::set_handle_stream(handle, stream);
}
inline Error getHipdnnHandleStream(const HipdnnHandlePtr& handle, hipStream_t* stream)
{
    return ::hipdnn::get_handle_stream(handle, stream);
}
inline Error create_hipdnn_handle(HipdnnHandlePtr& handle, hipStream_t stream = nullptr)
{
    return ::hipdnn::create_handle(handle, stream);
}
inline std::pair<HipdnnHandlePtr, Error> create_hipdnn_handle(hipStream_t stream = nullptr)
{
    return ::hipdnn::create_handle(stream);
}
inline Error set_hipdnn_handle_stream(const HipdnnHandlePtr& handle, hipStream_t stream)
{
    return ::hipdnn::set_handle_stream(handle, stream);
}
inline Error get_hipdnn_handle_stream(const HipdnnHandlePtr& handle, hipStream_t* stream)
{
    return ::hipdnn::get_handle_stream(handle, stream);
}

template <typename Container>
Error setEnginePluginPaths(const Container& paths, PluginLoadingMode mode)
{
    return ::hipdnn::set_engine_plugin_paths(paths, mode);
}
template <typename Path>
Error getLoadedEnginePluginPaths(hipdnnHandle_t handle, std::vector<Path>& paths)
{
    return ::hipdnn::get_loaded_engine_plugin_paths(handle, paths);
}
inline std::pair<std::vector<HeuristicPolicyInfo>, Error> getLoadedHeuristicPolicyInfos(hipdnnHandle_t handle)
{
    return ::hipdnn::get_loaded_heuristic_policy_infos(handle);
}
inline std::pair<std::vector<HeuristicPolicyInfo>, Error> get_loaded_heuristic_policy_infos(hipdnnHandle_t handle)
{
    return ::hipdnn::get_loaded_heuristic_policy_infos(handle);
}

#ifdef HIPDNN_FRONTEND_RUNTIME_LOAD_BACKEND
HIPDNN_CPP_HIDDEN inline bool setBackendLibraryPath(const std::string& folder)
{
    return ::hipdnn::set_backend_library_path(folder);
}
HIPDNN_CPP_HIDDEN inline bool setBackendLibraryPath_ext(const std::string& folder)
{
    return ::hipdnn::set_backend_library_path(folder);
}
#endif

namespace graph
{

/* Tensors and attributes, under both names that AMD's frontend has for each. */
using TensorAttributes = ::hipdnn::Tensor;
using Tensor_attributes = ::hipdnn::Tensor;
using ::hipdnn::BatchnormAttributes;
using ::hipdnn::BatchnormBackwardAttributes;
using ::hipdnn::BatchnormInferenceAttributes;
using ::hipdnn::BatchnormInferenceAttributesVarianceExt;
using ::hipdnn::BlockScaleDequantizeAttributes;
using ::hipdnn::BlockScaleQuantizeAttributes;
using ::hipdnn::ConvDgradAttributes;
using ::hipdnn::ConvFpropAttributes;
using ::hipdnn::ConvWgradAttributes;
using ::hipdnn::CustomOpAttributes;
using ::hipdnn::LayernormAttributes;
using ::hipdnn::LayernormBackwardAttributes;
using ::hipdnn::MatmulAttributes;
using ::hipdnn::MoeGroupedMatmulAttributes;
using ::hipdnn::MoeGroupedMatmulBwdAttributes;
using ::hipdnn::OverrideEntry;
using ::hipdnn::PointwiseAttributes;
using ::hipdnn::ReductionAttributes;
using ::hipdnn::ResampleBwdAttributes;
using ::hipdnn::ResampleFwdAttributes;
using ::hipdnn::RMSNormAttributes;
using ::hipdnn::RMSNormBackwardAttributes;
using ::hipdnn::SdpaAttributes;
using ::hipdnn::SdpaBackwardAttributes;
using Batchnorm_attributes = BatchnormAttributes;
using Batchnorm_backward_attributes = BatchnormBackwardAttributes;
using Batchnorm_inference_attributes = BatchnormInferenceAttributes;
using Batchnorm_inference_attributes_variance_ext = BatchnormInferenceAttributesVarianceExt;
using Block_scale_dequantize_attributes = BlockScaleDequantizeAttributes;
using Block_scale_quantize_attributes = BlockScaleQuantizeAttributes;
using Conv_dgrad_attributes = ConvDgradAttributes;
using Conv_fprop_attributes = ConvFpropAttributes;
using Conv_wgrad_attributes = ConvWgradAttributes;
using Custom_op_attributes = CustomOpAttributes;
using Layernorm_attributes = LayernormAttributes;
using Layernorm_backward_attributes = LayernormBackwardAttributes;
using Matmul_attributes = MatmulAttributes;
using Moe_grouped_matmul_attributes = MoeGroupedMatmulAttributes;
using Moe_grouped_matmul_bwd_attributes = MoeGroupedMatmulBwdAttributes;
using Pointwise_attributes = PointwiseAttributes;
using Reduction_attributes = ReductionAttributes;
using Resample_bwd_attributes = ResampleBwdAttributes;
using Resample_fwd_attributes = ResampleFwdAttributes;
using Resample_attributes = ResampleFwdAttributes;
using Rmsnorm_attributes = RMSNormAttributes;
using Rmsnorm_backward_attributes = RMSNormBackwardAttributes;
using SDPA_attributes = SdpaAttributes;
using SDPA_backward_attributes = SdpaBackwardAttributes;

/** A tensor by name, type, shape and strides. */
inline std::shared_ptr<TensorAttributes> makeTensorAttributes(const std::string& name, DataType type,
                                                              const std::vector<int64_t>& dims,
                                                              const std::vector<int64_t>& strides)
{
    auto made = std::make_shared<TensorAttributes>();
    made->set_name(name).set_data_type(type).set_dim(dims).set_stride(strides);
    return made;
}
inline std::shared_ptr<TensorAttributes> makeTensorAttributes(const std::string& name, const std::vector<int64_t>& dims,
                                                              const std::vector<int64_t>& strides)
{
    return makeTensorAttributes(name, DataType::NOT_SET, dims, strides);
}

/** A graph. Like AMD's, it rejects operations that share no tensor with the others, and orders operations breadth first. */
class Graph : public ::hipdnn_compat::SavedGraph<Graph>
{
public:
    using Base = ::hipdnn_compat::SavedGraph<Graph>;
    using Base::autotune;
    using Base::get_engine_configs;
    using Base::get_plan_name;
    using Base::get_plan_name_at_index;

    Graph() { this->_as_amd = true; }

    /* Names need no handle; AMD's frontend takes one. */
    Error get_plan_name(hipdnnHandle_t, std::string& name) const { return get_plan_name(name); }
    Error get_plan_name_at_index(hipdnnHandle_t, int64_t index, std::string& name) const
    {
        return get_plan_name_at_index(index, name);
    }
    Error get_engine_configs(hipdnnHandle_t, std::vector<::hipdnn::EngineConfigInfo>& found,
                             const std::vector<HeuristicMode>& modes = {HeuristicMode::FALLBACK})
    {
        return get_engine_configs(found, modes);
    }

    /* The order of parameters of NVIDIA's frontend; the last one has no effect. */
    Error autotune(hipdnnHandle_t handle, std::unordered_map<int64_t, void*>& pack, void* workspace, void* = nullptr)
    {
        return autotune(handle, std::as_const(pack), workspace);
    }
    Error autotune(hipdnnHandle_t handle, std::unordered_map<std::shared_ptr<TensorAttributes>, void*>& tensors,
                   void* workspace, void* = nullptr)
    {
        return autotune(handle, std::as_const(tensors), workspace);
    }

    /**
     * Computes as execute() does, waits for the end and says how long it took. A device that can wait is held until all work is
     * submitted, so that the time is the device's alone.
     */
    Error execute_timed_ext(hipdnnHandle_t handle, const std::unordered_map<int64_t, void*>& pack, void* workspace,
                            ExecutionTiming& timing) const
    {
        timing = {};
        const auto* plan = this->active();
        if (plan == nullptr || !plan->ready())
        {
            return this->must_plan();
        }
        const ::hipdnn::detail::Descriptor control(HIPDNN_BACKEND_PROFILING_CONTROL_EXT);
        const char* attempt = "timing an execution";
        HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(
            control.set(HIPDNN_ATTR_PROFILING_HANDLE_EXT, HIPDNN_TYPE_HANDLE, 1, &handle), attempt));
        /* Whether it was held is asked later. */
        static_cast<void>(control.set_flag(HIPDNN_ATTR_PROFILING_STALL_ARM_EXT, true));
        Error error = ::hipdnn::detail::backend_error(control.set_flag(HIPDNN_ATTR_PROFILING_START_EXT, true), attempt);
        error = error.is_good() ? this->run(handle, *plan, pack, workspace, nullptr) : error;
        if (error.is_good())
        {
            error = ::hipdnn::detail::backend_error(control.set_flag(HIPDNN_ATTR_PROFILING_STOP_EXT, true), attempt);
        }
        static_cast<void>(control.set_flag(HIPDNN_ATTR_PROFILING_STALL_RELEASE_EXT, true));
        HIPDNN_CPP_TRY(error);
        HIPDNN_CPP_TRY(control.finalize(attempt));
        float milliseconds = 0;
        if (!control.value(HIPDNN_ATTR_PROFILING_ELAPSED_MS_EXT, HIPDNN_TYPE_FLOAT, milliseconds))
        {
            return {ErrorCode::HIPDNN_BACKEND_ERROR, "timing an execution: the library returned no time"};
        }
        bool held = false;
        control.value(HIPDNN_ATTR_PROFILING_STALL_USED_EXT, HIPDNN_TYPE_BOOLEAN, held);
        control.value(HIPDNN_ATTR_PROFILING_STALL_TIMED_OUT_EXT, HIPDNN_TYPE_BOOLEAN, timing.timedOut);
        timing.elapsedMs = milliseconds;
        timing.quality = held && !timing.timedOut ? TimingQuality::DEVICE_ONLY : TimingQuality::UNSTALLED;
        return {};
    }

    /**
     * Times every engine with its default knobs, after its own tuning, chooses the one with the least robustTimeMs unless the
     * configuration ranks, and stores the ranking for graphs that compute the same.
     * @return as autotune(); what became of the ranking is no error
     */
    Error autotuneExhaustiveSweep(hipdnnHandle_t handle, const std::unordered_map<int64_t, void*>& pack,
                                  void* workspace, int64_t workspace_size, const AutotuneConfig& config = {},
                                  const AutotuneStorageConfig& storage = {},
                                  std::vector<AutotuneResult>* results = nullptr,
                                  AutotuneCacheWriteOutcome* outcome = nullptr)
    {
        AutotuneCacheWriteOutcome became = AutotuneCacheWriteOutcome::NOT_ATTEMPTED_NO_SUCCESSFUL_ENGINE;
        std::vector<AutotuneResult> found;
        AutotuneConfig sweep = config;
        sweep.mode = TuneMode::EXHAUSTIVE;
        sweep.primingFailurePolicy = PrimingFailurePolicy::BENCHMARK_UNPRIMED;
        sweep.continueOnPrimingFailure = true;
        if (!sweep.rankingFn)
        {
            sweep.rankingFn = [](std::vector<AutotuneResult>& ranked) {
                std::stable_sort(ranked.begin(), ranked.end(), [](const AutotuneResult& a, const AutotuneResult& b) {
                    return a.robustTimeMs < b.robustTimeMs;
                });
            };
        }
        if (workspace_size < 0)
        {
            return {ErrorCode::INVALID_VALUE, "workspaceSize is below 0"};
        }
        if (!this->_has_candidates)
        {
            HIPDNN_CPP_TRY(this->add_all_engines());
        }
        const Error error = this->autotune(handle, pack, workspace, workspace_size, sweep, storage, &found);
        if (error.is_good())
        {
            became = store(handle, found, !sweep.engineIdFilter.empty());
        }
        if (results != nullptr)
        {
            *results = std::move(found);
        }
        if (outcome != nullptr)
        {
            *outcome = became;
        }
        return error;
    }

    /** Rejects equal uids: INVALID_VALUE with both names. */
    Error checkNoDuplicateTensorIds() const { return this->check_uids(); }
    /** Requires a uid of every tensor: ATTRIBUTE_NOT_SET with the first one without. */
    Error checkTensorUidsSet() const
    {
        for (const auto& tensor : this->tensors())
        {
            if (!tensor->has_uid())
            {
                return {ErrorCode::ATTRIBUTE_NOT_SET, "tensor \"" + tensor->get_name() + "\" has no uid"};
            }
        }
        return {};
    }
    /** Orders the operations so that tensors are written before they are read. */
    Error topologicallySortGraph() { return this->sort(); }
    std::unordered_map<int64_t, std::shared_ptr<TensorAttributes>> getTensorsByUid() const
    {
        return this->tensors_by_uid();
    }
    std::unordered_map<std::string, std::shared_ptr<TensorAttributes>> getTensorsByName() const
    {
        std::unordered_map<std::string, std::shared_ptr<TensorAttributes>> found;
        for (const auto& tensor : this->tensors())
        {
            if (!tensor->get_name().empty())
            {
                found.emplace(tensor->get_name(), tensor);
            }
        }
        return found;
    }

private:
    /** Stores the order of engines that were timed, if these are all. */
    AutotuneCacheWriteOutcome store(hipdnnHandle_t handle, std::vector<AutotuneResult> results, bool filtered) const
    {
        std::sort(results.begin(), results.end(), [](const AutotuneResult& a, const AutotuneResult& b) {
            return static_cast<unsigned>(a.rank) < static_cast<unsigned>(b.rank);
        });
        std::vector<int64_t> order, all;
        bool whole = !filtered && this->get_ranked_engine_ids(all).is_good();
        for (const AutotuneResult& result : results)
        {
            whole = whole && result.knobSettings.empty();
            if (result.succeeded)
            {
                order.push_back(result.engineId);
            }
        }
        if (order.empty())
        {
            return AutotuneCacheWriteOutcome::NOT_ATTEMPTED_NO_SUCCESSFUL_ENGINE;
        }
        if (!whole || std::set<int64_t>(order.begin(), order.end()) != std::set<int64_t>(all.begin(), all.end()))
        {
            return AutotuneCacheWriteOutcome::NOT_ATTEMPTED_PARTIAL_SWEEP;
        }
        hipdnnAutotuneCacheWriteOutcome_ext_t outcome = HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED;
        static_cast<void>(HIPDNN_CPP_CALL(hipdnnBackendWriteEngineRankingResults_ext)(
            handle, this->_graph.get(), order.data(), order.size(), &outcome));
        switch (outcome)
        {
        case HIPDNN_AUTOTUNE_CACHE_WRITE_WRITTEN: return AutotuneCacheWriteOutcome::WRITTEN;
        case HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED: return AutotuneCacheWriteOutcome::UNCHANGED;
        case HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_UNKEYABLE_OR_UNFINALIZED:
            return AutotuneCacheWriteOutcome::DECLINED_UNKEYABLE;
        default: return AutotuneCacheWriteOutcome::DECLINED_DISABLED;
        }
    }
};

} // namespace graph
} // namespace hipdnn_frontend
