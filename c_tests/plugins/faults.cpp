// SPDX-License-Identifier: MIT

// An engine with faults that engines of this project once had; with the knob `fault` 0 it computes the same graphs right.
#include <hipdnn/plugin/hipdnn_plugin.hpp>
using namespace hipdnn_plugin;

#include <cmath>

constexpr int64_t REDUCTION_NORM2 = 8;

static float value_of(const Graph& graph, const Node& node, const std::string& field)
{
    const Tensor* tensor = graph.tensor(node, field);
    support(tensor != nullptr && tensor->value.has_value(), "a scalar is not a constant");
    return static_cast<float>(*tensor->value);
}

static float from_bfloat16(uint16_t bits)
{
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

static float rounded_to_bfloat16(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    return from_bfloat16(static_cast<uint16_t>(bits >> 16));
}

/* A depthwise convolution of 1 x 1 that is requantized: times a scale, rounded by adding and subtracting 1.5 * 2^23, plus a zero point.
 * The fault leaves the two additions out, so that the conversion to bytes truncates. */
struct Quantized : Plan {
    int64_t fault = 0, x = 0, w = 0, y = 0, channels = 0, pixels = 0;
    float scale = 0, magic = 0, zero_point = 0;

    void execute(const Execution& e) const override
    {
        const float *image = e.memory<float>(x), *filter = e.memory<float>(w);
        auto* result = e.memory<int8_t>(y);
        for (int64_t i = 0; i < channels * pixels; i++) {
            volatile float product = image[i] * filter[i / pixels];
            volatile float scaled = product * scale;
            volatile float moved = scaled + magic;
            const float whole = fault != 0 ? scaled : moved - magic;
            result[i] = static_cast<int8_t>(std::fmin(127.0F, std::fmax(-128.0F, std::trunc(whole + zero_point))));
        }
    }
};

/* The Euclidean norm of rows. The fault adds squares in single precision, where those of large numbers overflow. */
struct Norm : Plan {
    int64_t fault = 0, x = 0, y = 0, rows = 0, length = 0;

    void execute(const Execution& e) const override
    {
        for (int64_t row = 0; row < rows; row++) {
            double exact = 0;
            float narrow = 0;
            for (int64_t i = 0; i < length; i++) {
                const float value = e.memory<float>(x)[row * length + i];
                exact += static_cast<double>(value) * value;
                narrow += value * value;
            }
            e.memory<float>(y)[row] = fault != 0 ? std::sqrt(narrow) : static_cast<float>(std::sqrt(exact));
        }
    }
};

/* RMSNorm of rows in bfloat16. The fault rounds epsilon to that type. */
struct Rms : Plan {
    int64_t fault = 0, x = 0, scale = 0, y = 0, rows = 0, length = 0;
    float epsilon = 0;

    void execute(const Execution& e) const override
    {
        const auto* from = e.memory<uint16_t>(x);
        const double added = fault != 0 ? rounded_to_bfloat16(epsilon) : epsilon;
        for (int64_t row = 0; row < rows; row++) {
            double sum = 0;
            for (int64_t i = 0; i < length; i++) {
                sum += std::pow(from_bfloat16(from[row * length + i]), 2.0);
            }
            const double inverse = 1 / std::sqrt(sum / static_cast<double>(length) + added);
            for (int64_t i = 0; i < length; i++) {
                const int64_t place = row * length + i;
                e.memory<float>(y)[place] =
                    static_cast<float>(from_bfloat16(from[place]) * inverse * e.memory<float>(scale)[i]);
            }
        }
    }
};

struct FaultyEngine : Engine {
    const char* name() const override { return "FAULTY_ENGINE"; }
    EngineDevice device() const override { return EngineDevice::HOST; }
    std::vector<Knob> knobs(const Graph&) const override
    {
        return {{"fault", "1: with the fault.", int64_t{1}, 0, 1, 1, {}}};
    }
    std::string refusal(const Graph& graph) const override
    {
        try {
            Settings defaults;
            defaults.complete(knobs(graph));
            plan(graph, defaults);
            return "";
        } catch (const Refusal& reason) {
            return reason.what();
        }
    }
    std::unique_ptr<Plan> plan(const Graph& graph, const Settings& settings) const override
    {
        const int64_t fault = settings.integer("fault");
        const Node& first = graph.nodes.at(0);
        const auto rows_of = [](auto& made, const Tensor& x) {
            made->x = x.uid;
            made->length = x.dims.back();
            made->rows = x.volume() / made->length;
        };
        if (first.kind == Kind::Reduction) {
            support(first.integer("mode") == REDUCTION_NORM2, "another reduction");
            auto made = std::make_unique<Norm>();
            made->fault = fault;
            rows_of(made, *graph.tensor(first, "in"));
            made->y = *first.uid("out");
            return made;
        }
        if (first.kind == Kind::RMSNorm) {
            auto made = std::make_unique<Rms>();
            made->fault = fault;
            rows_of(made, *graph.tensor(first, "x"));
            made->scale = *first.uid("scale");
            made->y = *first.uid("y");
            made->epsilon = value_of(graph, first, "epsilon");
            return made;
        }
        const auto [conv, mul, add, sub, shift] =
            chain<Kind::ConvolutionFwd, Kind::Pointwise, Kind::Pointwise, Kind::Pointwise, Kind::Pointwise>(graph);
        auto made = std::make_unique<Quantized>();
        const Tensor& x = *graph.tensor(conv, "x");
        made->fault = fault;
        made->x = x.uid;
        made->w = *conv.uid("w");
        made->y = *shift.uid("out_0");
        made->channels = x.dims[1];
        made->pixels = x.dims[2] * x.dims[3];
        made->scale = value_of(graph, mul, "in_1");
        made->magic = value_of(graph, add, "in_1");
        support(made->magic == value_of(graph, sub, "in_1"), "the two numbers differ");
        made->zero_point = value_of(graph, shift, "in_1");
        return made;
    }
};
HIPDNN_EXPORT_ENGINES("Faults", "1.0.0", FaultyEngine);
