/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Asks engines for predictions and candidates, for tools that were written for AMD's frontend.
 */
#pragma once

#include "../EngineQueryTypes.hpp"

#include <hipdnn/backend/HipdnnBackendFlatbufferData.h>

#include "../../../plugin/cpp/bytes.hpp"

namespace hipdnn_frontend
{
namespace detail
{

using ::hipdnn::detail::Descriptor;

/** An engine of a graph; `metric` is what its prediction is in. */
inline Error query_engine(hipdnnBackendDescriptor_t graph, int64_t engine, const std::string& metric, Descriptor& made)
{
    if (graph == nullptr)
    {
        return {ErrorCode::INVALID_VALUE, "the graph is null, expected one that is built"};
    }
    made = Descriptor(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    const char* const attempt = "asking an engine";
    HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(
        made.set(HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph), attempt));
    HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(
        made.set(HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, HIPDNN_TYPE_INT64, 1, &engine), attempt));
    if (!metric.empty())
    {
        HIPDNN_CPP_TRY(
            ::hipdnn::detail::backend_error(made.set_text(HIPDNN_ATTR_ENGINE_PREDICTION_METRIC_EXT, metric), attempt));
    }
    return made.finalize(attempt);
}

/** The prediction in bytes of the library. */
inline Error read_prediction(const hipdnnBackendFlatbufferData_t& data, EnginePrediction& prediction)
{
    try
    {
        const hipdnn_plugin::detail::Bytes bytes{static_cast<const uint8_t*>(data.ptr), data.size};
        const auto table = hipdnn_plugin::detail::Table::root(bytes);
        prediction.engineId = table.number<int64_t>(0, 0);
        prediction.kind = static_cast<PredictionKind>(table.number<uint8_t>(1, 0));
        prediction.status = static_cast<PredictionStatus>(table.number<uint8_t>(2, 0));
        prediction.value = prediction.status == PredictionStatus::AVAILABLE
                               ? std::optional<double>(table.number<double>(3, 0))
                               : std::nullopt;
        prediction.model = table.text(4);
        prediction.reason = table.text(5);
        prediction.binding = JsonText(table.text(7));
        prediction.features = JsonText(table.text(8));
        prediction.metric = table.text(9);
        if (table.has(6))
        {
            EngineVariant variant;
            variant.engineId = table.table(6).number<int64_t>(0, 0);
            prediction.configuration = variant;
        }
        return {};
    } catch (const std::exception& error)
    {
        return {ErrorCode::HIPDNN_BACKEND_ERROR, std::string("reading a prediction: ") + error.what()};
    }
}

/**
 * The prediction of an engine, or of its default configuration. Predictions of the CPU engines are estimates, and say so.
 * @param graph a finalized graph
 * @param constraints knobs that are set; with some no configuration has a prediction
 */
inline Error getEnginePrediction(hipdnnBackendDescriptor_t graph, int64_t engineId, EnginePrediction& prediction,
                                 PredictionKind kind = PredictionKind::ENGINE, bool evaluate = true,
                                 const std::vector<KnobSetting>& constraints = {}, const std::string& metric = "tflops")
{
    prediction = {};
    if (kind == PredictionKind::ENGINE && !constraints.empty())
    {
        return {ErrorCode::INVALID_VALUE, "knobs are given for the prediction of an engine, expected none"};
    }
    Descriptor engine;
    HIPDNN_CPP_TRY(query_engine(graph, engineId, metric, engine));
    hipdnnBackendFlatbufferData_t data{};
    HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(
        engine.get(HIPDNN_ATTR_ENGINE_PREDICTION_EXT, HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, nullptr, &data),
        "asking for a prediction"));
    HIPDNN_CPP_TRY(read_prediction(data, prediction));
    prediction.kind = kind;
    if (kind == PredictionKind::CONFIGURATION && prediction.value)
    {
        prediction.configuration = EngineVariant();
        prediction.configuration->engineId = engineId;
    }
    if (!constraints.empty() || !evaluate)
    {
        prediction.status = PredictionStatus::UNAVAILABLE;
        prediction.value.reset();
        prediction.configuration.reset();
        prediction.reason = evaluate ? "no model of the engine with these knobs is known" : "it was not asked for";
    }
    return {};
}

/** The kinds and metrics that an engine has predictions in for a graph. */
inline Error getPredictionCapabilities(hipdnnBackendDescriptor_t graph, int64_t engineId,
                                       std::vector<PredictionCapability>& capabilities)
{
    capabilities.clear();
    for (const char* metric : {"tflops", "time"})
    {
        EnginePrediction prediction;
        HIPDNN_CPP_TRY(getEnginePrediction(graph, engineId, prediction, PredictionKind::ENGINE, true, {}, metric));
        for (const PredictionKind kind : {PredictionKind::ENGINE, PredictionKind::CONFIGURATION})
        {
            if (prediction.value)
            {
                capabilities.push_back({kind, metric, prediction.model});
            }
        }
    }
    return {};
}

/** Candidates of an engine's catalog. @return HIPDNN_BACKEND_ERROR: the engines of this library have no catalog */
inline Error getEngineCandidates(hipdnnBackendDescriptor_t graph, int64_t engineId, EngineCandidatePage& page,
                                 int64_t offset = 0, int64_t limit = 10000, const std::vector<KnobSetting>& scope = {})
{
    static_cast<void>(scope);
    page = {};
    if (offset < 0 || limit < 1 || limit > 10000)
    {
        return {ErrorCode::INVALID_VALUE, ::hipdnn::detail::join({"offset is ", offset, " and limit ", limit,
                                                                  ", expected at least 0, and 1 to 10000"})};
    }
    Descriptor engine;
    HIPDNN_CPP_TRY(query_engine(graph, engineId, "", engine));
    return {ErrorCode::HIPDNN_BACKEND_ERROR,
            ::hipdnn::detail::join({"engine ", engineId, " has no catalog of candidates, expected its knobs"})};
}

} // namespace detail
} // namespace hipdnn_frontend
