/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Predictions and candidates of engines, for tools that were written for AMD's frontend.
 */
#pragma once

#include "../hipdnn_frontend.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hipdnn_frontend
{

/** What a prediction is of. */
enum class PredictionKind {
    ENGINE = 0,       ///< An engine with its default knobs.
    CONFIGURATION = 1 ///< A configuration of an engine.
};

/** Whether there is a prediction. */
enum class PredictionStatus { UNAVAILABLE = 0, AVAILABLE = 1, INVALID = 2 };

/** JSON as text. AMD's member is an object of a JSON library, whose dump() returns the same. */
class JsonText
{
public:
    JsonText(std::string text = "{}") : _text(text.empty() ? "{}" : std::move(text)) {}
    const std::string& dump() const { return _text; }
    bool empty() const { return _text == "{}"; }

private:
    std::string _text;
};

/** How well an engine is expected to do. */
struct EnginePrediction
{
    int64_t engineId = -1;
    PredictionKind kind = PredictionKind::ENGINE;
    PredictionStatus status = PredictionStatus::UNAVAILABLE;
    std::string metric;          ///< `tflops` or `time` (milliseconds).
    std::optional<double> value; ///< In the metric's unit, if available.
    std::string model;           ///< What made the prediction.
    std::string reason;          ///< Why the engine predicts nothing, or how it estimated.
    JsonText binding, features;
    std::optional<EngineVariant> configuration;
};

/** A kind of prediction that an engine has in a metric. */
struct PredictionCapability
{
    PredictionKind kind = PredictionKind::ENGINE;
    std::string metric;
    std::string model;
};

/** An entry of an engine's catalog of kernels. */
struct EngineCandidate
{
    std::string id;
    EngineVariant variant;
    JsonText kernelFeatures;
};

/** A part of such a catalog. */
struct EngineCandidatePage
{
    int64_t engineId = -1;
    std::string engineName, engineDescriptorId, graphId, deviceId, deviceArch;
    JsonText problemFeatures, deviceFeatures;
    uint64_t totalCount = 0, offset = 0;
    std::optional<uint64_t> nextOffset;
    std::vector<EngineCandidate> candidates;
};

} // namespace hipdnn_frontend
