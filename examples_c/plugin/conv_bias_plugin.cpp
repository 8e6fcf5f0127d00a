// SPDX-License-Identifier: MIT

// An engine plugin in C++: a 2-D convolution of packed floats with a bias, by plain loops, with a knob and plans that are saved.
#include <hipdnn/plugin/hipdnn_plugin.hpp>
using namespace hipdnn_plugin;

// Sizes and places, as they are saved.
struct Shape {
    int64_t version, x, w, b, y, n, c, h, wi, k, r, s, p, q, pad[2], step[2], hole[2], reversed;
    // Whether y has the size that the others give it; small enough that no index overflows.
    bool fits() const
    {
        for (int64_t size : {n, c, h, wi, k, r, s, p, q, step[0], step[1], hole[0], hole[1], pad[0] + 1, pad[1] + 1})
            if (size < 1 || size > 1 << 12)
                return false;
        return version == 1 && h + 2 * pad[0] - hole[0] * (r - 1) - 1 >= (p - 1) * step[0] &&
               wi + 2 * pad[1] - hole[1] * (s - 1) - 1 >= (q - 1) * step[1];
    }
};

struct ConvPlan : DataPlan<Shape> {
    using DataPlan::DataPlan;
    void execute(const Execution& e) const override
    {
        const Shape& t = data;
        const float *x = e.memory<float>(t.x), *w = e.memory<float>(t.w), *bias = e.memory<float>(t.b);
        float* y = e.memory<float>(t.y);
        for (int64_t at = 0; at < t.n * t.k * t.p * t.q; at++) {
            const int64_t i = t.reversed != 0 ? t.n * t.k * t.p * t.q - 1 - at : at;
            const int64_t n = i / (t.k * t.p * t.q), k = i / (t.p * t.q) % t.k, p = i / t.q % t.p, q = i % t.q;
            y[i] = bias[k];
            for (int64_t j = 0; j < t.c * t.r * t.s; j++) {
                const int64_t c = j / (t.r * t.s), r = j / t.s % t.r, s = j % t.s,
                              row = p * t.step[0] + r * t.hole[0] - t.pad[0],
                              column = q * t.step[1] + s * t.hole[1] - t.pad[1];
                if (row >= 0 && row < t.h && column >= 0 && column < t.wi)
                    y[i] += x[((n * t.c + c) * t.h + row) * t.wi + column] * w[((k * t.c + c) * t.r + r) * t.s + s];
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
    std::string refusal(const Graph& g) const override
    {
        if (g.nodes.size() != 2 || g.nodes[0].kind != Kind::ConvolutionFwd || g.nodes[1].kind != Kind::Pointwise)
            return "the graph is not a convolution and one pointwise operation";
        const Node &conv = g.nodes[0], &add = g.nodes[1];
        const Tensor *x = g.tensor(conv, "x"), *w = g.tensor(conv, "w"), *b = g.tensor(add, "in_1"),
                     *y = g.tensor(add, "out_0");
        if (add.integer("operation") != POINTWISE_ADD || add.uid("in_0") != conv.uid("y") ||
            !g.tensor(conv, "y")->is_virtual || !b)
            return "the second operation is not the sum of the convolution and a bias";
        for (const Tensor* one : {x, w, b, y})
            if (!one->is_plain(DataType::FLOAT, 4))
                return "a tensor is not packed floats in 4 dimensions";
        if (x->dims[1] != w->dims[1] || b->dims != std::vector<int64_t>{1, w->dims[0], 1, 1} ||
            conv.integer("conv_mode") == CONV_CONVOLUTION)
            return "groups, another bias or flipped filters";
        if (conv.list("pre_padding") != conv.list("post_padding") || conv.list("pre_padding").size() != 2 ||
            conv.list("stride").size() != 2 || conv.list("dilation").size() != 2)
            return "the padding differs from side to side";
        return y->dims[0] == x->dims[0] && y->dims[1] == w->dims[0] && data(g, {{{"reversed", int64_t{0}}}}).fits()
                   ? ""
                   : "a size is too large, or does not fit the others";
    }
    Shape data(const Graph& g, const Settings& set) const override
    {
        const Tensor &x = *g.tensor(g.nodes[0], "x"), &w = *g.tensor(g.nodes[0], "w"),
                     &y = *g.tensor(g.nodes[1], "out_0");
        const auto pad = g.nodes[0].list("pre_padding"), step = g.nodes[0].list("stride"),
                   hole = g.nodes[0].list("dilation");
        return {1,
                x.uid,
                w.uid,
                *g.nodes[1].uid("in_1"),
                y.uid,
                x.dims[0],
                x.dims[1],
                x.dims[2],
                x.dims[3],
                w.dims[0],
                w.dims[2],
                w.dims[3],
                y.dims[2],
                y.dims[3],
                {pad[0], pad[1]},
                {step[0], step[1]},
                {hole[0], hole[1]},
                set.integer("reversed")};
    }
};
HIPDNN_EXPORT_ENGINES("Example in C++", "1.0.0", ConvEngine);
