// SPDX-License-Identifier: MIT

// An engine plugin in C++: a 2-D convolution of packed floats with a bias, by plain loops, with a knob and plans that are saved.
#include <hipdnn/plugin/hipdnn_plugin.hpp>
using namespace hipdnn_plugin;

using Floats = Packed<float, 4>;

// The data of a plan, which is also what is saved.
struct Convolution {
    int64_t version, reversed;
    Floats x, w, b, y;
    Window<2> window;
    // Saved bytes may come from anywhere.
    bool fits() const { return version == 1 && window.fits(x, w, y) && b.dims == Floats::Index{1, y.dims[1], 1, 1}; }
};

struct ConvPlan : DataPlan<Convolution> {
    using DataPlan::DataPlan;
    void execute(const Execution& e) const override
    {
        const auto& [version, reversed, x, w, b, y, window] = data;
        const float *image = e.memory(x), *filter = e.memory(w), *bias = e.memory(b);
        float* result = e.memory(y);
        for (int64_t count = y.volume(), i = 0; i < count; i++) {
            const int64_t place = reversed != 0 ? count - 1 - i : i;
            const auto [n, k, p, q] = y.index(place);
            result[place] = bias[k];
            for (int64_t c = 0; c < w.dims[1]; c++)
                for (int64_t r = 0; r < w.dims[2]; r++)
                    for (int64_t s = 0; s < w.dims[3]; s++) {
                        const auto pixel = Floats::Index{n, c, window.at(0, p, r), window.at(1, q, s)};
                        if (x.contains(pixel))
                            result[place] += image[x.at(pixel)] * filter[w.at({k, c, r, s})];
                    }
        }
    }
};

struct ConvEngine : DataEngine<ConvPlan> {
    const char* name() const override { return "EXAMPLE_CPP_CONV_BIAS_ENGINE"; }
    std::vector<Knob> knobs(const Graph&) const override
    {
        return {{"reversed", "1: from the last element on.", int64_t{0}, 0, 1, 1, {}}};
    }
    // Sums in single precision, one term after the other.
    std::optional<Numerics> numerics(const Graph&, const Settings&) const override
    {
        Numerics told;
        told.accumulators = {"float"};
        return told;
    }
    Convolution data(const Graph& g, const Settings& set) const override
    {
        const auto [conv, add] = chain<Kind::ConvolutionFwd, Kind::Pointwise>(g);
        support(add.integer("operation") == POINTWISE_ADD && add.uid("in_0") == conv.uid("y"),
                "the second operation is not the sum of the convolution and a bias");
        return {1,
                set.integer("reversed"),
                Floats::of(g, conv, "x"),
                Floats::of(g, conv, "w"),
                Floats::of(g, add, "in_1"),
                Floats::of(g, add, "out_0"),
                Window<2>::of(conv)};
    }
};
HIPDNN_EXPORT_ENGINES("Example in C++", "1.0.0", ConvEngine);
