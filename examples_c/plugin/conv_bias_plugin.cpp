// SPDX-License-Identifier: MIT

// An engine plugin in C++: a 2-D convolution of packed floats with a bias, by plain loops, with a knob and plans that are saved.
#include <hipdnn/plugin/hipdnn_plugin.hpp>
using namespace hipdnn_plugin;

// The shapes of image, filter, bias and result, as they are saved.
struct Shape {
    int64_t version, reversed, uid[4], dims[4][4], pad[2], step[2], hole[2];
    // Whether the sizes fit each other, and are so small that no index overflows.
    bool fits() const
    {
        const auto& [x, w, b, y] = dims;
        const auto all = [](const int64_t* first, int count, int64_t least) {
            return std::all_of(first, first + count, [&](int64_t size) { return size >= least && size <= 1 << 12; });
        };
        const auto reaches = [&](int i) {
            return x[2 + i] + 2 * pad[i] - hole[i] * (w[2 + i] - 1) - 1 >= (y[2 + i] - 1) * step[i];
        };
        return version == 1 && all(x, 4, 1) && all(w, 4, 1) && all(b, 4, 1) && all(y, 4, 1) && all(pad, 2, 0) &&
               all(step, 2, 1) && all(hole, 2, 1) && x[1] == w[1] && b[0] * b[2] * b[3] == 1 && b[1] == w[0] &&
               y[0] == x[0] && y[1] == w[0] && reaches(0) && reaches(1);
    }
};

struct ConvPlan : DataPlan<Shape> {
    using DataPlan::DataPlan;
    void execute(const Execution& e) const override
    {
        const auto& [version, reversed, uid, dims, pad, step, hole] = data;
        const auto& [x, w, b, y] = dims;
        const float *image = e.memory<float>(uid[0]), *filter = e.memory<float>(uid[1]),
                    *bias = e.memory<float>(uid[2]);
        float* result = e.memory<float>(uid[3]);
        const int64_t count = y[0] * y[1] * y[2] * y[3], taps = w[1] * w[2] * w[3];
        for (int64_t at = 0; at < count; at++) {
            const int64_t i = reversed != 0 ? count - 1 - at : at, q = i % y[3], p = i / y[3] % y[2],
                          k = i / y[3] / y[2] % y[1], n = i / y[3] / y[2] / y[1];
            result[i] = bias[k];
            for (int64_t j = 0; j < taps; j++) {
                const int64_t row = p * step[0] + j / w[3] % w[2] * hole[0] - pad[0],
                              column = q * step[1] + j % w[3] * hole[1] - pad[1], c = n * x[1] + j / w[3] / w[2];
                if (row >= 0 && row < x[2] && column >= 0 && column < x[3])
                    result[i] += image[(c * x[2] + row) * x[3] + column] * filter[k * taps + j];
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
    Shape data(const Graph& g, const Settings& set) const override
    {
        support(g.nodes.size() == 2 && g.nodes[0].kind == Kind::ConvolutionFwd && g.nodes[1].kind == Kind::Pointwise,
                "the graph is not a convolution and one pointwise operation");
        const Node &conv = g.nodes[0], &add = g.nodes[1];
        support(add.integer("operation") == POINTWISE_ADD && add.uid("in_0") == conv.uid("y") && add.uid("in_1") &&
                    g.tensor(conv, "y")->is_virtual,
                "the second operation is not the sum of the convolution and a bias");
        support(conv.integer("conv_mode") != CONV_CONVOLUTION && conv.list("pre_padding") == conv.list("post_padding"),
                "filters are flipped, or the padding differs from side to side");
        Shape shape{1, set.integer("reversed"), {}, {}, {}, {}, {}};
        const Tensor* tensors[] = {g.tensor(conv, "x"), g.tensor(conv, "w"), g.tensor(add, "in_1"),
                                   g.tensor(add, "out_0")};
        for (int i = 0; i < 4; i++) {
            support(tensors[i]->is_plain(DataType::FLOAT, 4), "a tensor is not packed floats in 4 dimensions");
            shape.uid[i] = tensors[i]->uid;
            copy_exactly(tensors[i]->dims, shape.dims[i]);
        }
        copy_exactly(conv.list("pre_padding"), shape.pad);
        copy_exactly(conv.list("stride"), shape.step);
        copy_exactly(conv.list("dilation"), shape.hole);
        return shape;
    }
};
HIPDNN_EXPORT_ENGINES("Example in C++", "1.0.0", ConvEngine);
