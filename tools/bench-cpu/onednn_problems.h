// The public problem lists: any number of spatial dimensions, channels first or last.

#pragma once

#include "onednn_arrays.h"

namespace {

class Problems : public Arrays {
protected:
    using Arrays::Arrays;

    void softmax()
    {
        const auto x = plain(dims("x"));
        const dnnl::softmax_forward::primitive_desc desc(engine, dnnl::prop_kind::forward_inference,
                                                         dnnl::algorithm::softmax_accurate, x, x,
                                                         static_cast<int>(number("axis")), attributes());
        add(dnnl::softmax_forward(desc), desc, {{DNNL_ARG_SRC, read_as(x)}, {DNNL_ARG_DST, made(x, x)}});
    }

    // A convolution of images with any number of spatial dimensions.
    void images(const std::string& direction)
    {
        const auto x = dims("x"), window = dims("window"), stride = dims("stride"), pre = dims("pre"),
                   post = dims("post");
        auto dilation = dims("dilation");
        const auto k = number("k"), groups = number("groups");
        Dims y{x[0], k}, w, own_w{k, x[1] / groups};
        if (groups > 1) {
            w = {groups, k / groups, x[1] / groups};
        } else {
            w = own_w;
        }
        for (size_t axis = 0; axis < window.size(); axis++) {
            const auto extent = dilation[axis] * (window[axis] - 1) + 1;
            y.push_back((x[axis + 2] + pre[axis] + post[axis] - extent) / stride[axis] + 1);
            w.push_back(window[axis]);
            own_w.push_back(window[axis]);
            dilation[axis]--;
        }
        const auto image = laid_out(x), result = laid_out(y);
        // Weights in the caller's layout, with separate groups.
        auto filters = laid_out(own_w);
        if (groups > 1) {
            const auto strides = filters.get_strides();
            Dims apart{strides[0] * (k / groups)};
            apart.insert(apart.end(), strides.begin(), strides.end());
            filters = memory::desc(w, F32, apart);
        }
        const dnnl::convolution_forward::primitive_desc forward(
            engine, direction == "fwd" ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
            dnnl::algorithm::convolution_auto, image, any(w), result, stride, dilation, pre, post, attributes());
        if (direction == "fwd") {
            Arguments arguments{{DNNL_ARG_SRC, read_as(image)}};
            arguments[DNNL_ARG_WEIGHTS] = moved(read_as(filters), forward.weights_desc());
            arguments[DNNL_ARG_DST] = made(result, result);
            add(dnnl::convolution_forward(forward), forward, arguments);
        } else if (direction == "data") {
            const dnnl::convolution_backward_data::primitive_desc desc(engine, dnnl::algorithm::convolution_auto, image,
                                                                       any(w), result, stride, dilation, pre, post,
                                                                       forward, attributes());
            Arguments arguments{{DNNL_ARG_DIFF_DST, read_as(result)}};
            arguments[DNNL_ARG_WEIGHTS] = moved(read_as(filters), desc.weights_desc());
            arguments[DNNL_ARG_DIFF_SRC] = made(image, image);
            add(dnnl::convolution_backward_data(desc), desc, arguments);
        } else {
            const dnnl::convolution_backward_weights::primitive_desc desc(engine, dnnl::algorithm::convolution_auto,
                                                                          image, any(w), result, stride, dilation, pre,
                                                                          post, forward, attributes());
            Arguments arguments{{DNNL_ARG_SRC, read_as(image)}};
            arguments[DNNL_ARG_DIFF_DST] = read_as(result);
            arguments[DNNL_ARG_DIFF_WEIGHTS] = made(desc.diff_weights_desc(), filters);
            add(dnnl::convolution_backward_weights(desc), desc, arguments);
        }
    }

    void pooling()
    {
        const auto x = dims("x"), window = dims("window"), stride = dims("stride"), pre = dims("pre"),
                   post = dims("post");
        const bool trains = number("train") != 0;
        Dims y{x[0], x[1]};
        for (size_t axis = 0; axis < window.size(); axis++) {
            y.push_back((x[axis + 2] + pre[axis] + post[axis] - window[axis]) / stride[axis] + 1);
        }
        const auto algorithm = values["alg"] == "max"      ? dnnl::algorithm::pooling_max
                               : values["alg"] == "avg_np" ? dnnl::algorithm::pooling_avg_exclude_padding
                                                           : dnnl::algorithm::pooling_avg_include_padding;
        const auto image = laid_out(x), result = laid_out(y);
        const Dims dilation(window.size(), 0);
        const dnnl::pooling_forward::primitive_desc forward(
            engine, trains ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference, algorithm, image,
            result, stride, window, dilation, pre, post, attributes());
        Arguments arguments{{DNNL_ARG_SRC, read_as(image)}, {DNNL_ARG_DST, made(result, result)}};
        memory workspace;
        if (trains && algorithm == dnnl::algorithm::pooling_max) {
            workspace = memory(forward.workspace_desc(), engine);
            arguments[DNNL_ARG_WORKSPACE] = workspace;
        }
        add(dnnl::pooling_forward(forward), forward, arguments);
        if (trains) {
            const dnnl::pooling_backward::primitive_desc backward(engine, algorithm, image, result, stride, window,
                                                                  dilation, pre, post, forward, attributes());
            Arguments back{{DNNL_ARG_DIFF_DST, read_as(result)}, {DNNL_ARG_DIFF_SRC, made(image, image)}};
            if (algorithm == dnnl::algorithm::pooling_max) {
                back[DNNL_ARG_WORKSPACE] = workspace;
            }
            add(dnnl::pooling_backward(backward), backward, back);
        }
    }

    void reduction()
    {
        const auto x = plain(dims("x")), y = plain(dims("y"));
        const std::map<std::string, dnnl::algorithm> algorithms{
            {"sum", dnnl::algorithm::reduction_sum},          {"mean", dnnl::algorithm::reduction_mean},
            {"max", dnnl::algorithm::reduction_max},          {"min", dnnl::algorithm::reduction_min},
            {"mul", dnnl::algorithm::reduction_mul},          {"norm1", dnnl::algorithm::reduction_norm_lp_sum},
            {"norm2", dnnl::algorithm::reduction_norm_lp_sum}};
        const float power = values["alg"] == "norm1" ? 1.0F : 2.0F;
        const dnnl::reduction::primitive_desc desc(engine, algorithms.at(values["alg"]), x, y, power, 0.0F,
                                                   attributes());
        add(dnnl::reduction(desc), desc, {{DNNL_ARG_SRC, read_as(x)}, {DNNL_ARG_DST, made(y, y)}});
    }

    void eltwise()
    {
        const auto x = plain(dims("x"));
        const std::map<std::string, dnnl::algorithm> algorithms{
            {"relu", dnnl::algorithm::eltwise_relu}, {"gelu_erf", dnnl::algorithm::eltwise_gelu_erf},
            {"tanh", dnnl::algorithm::eltwise_tanh}, {"logistic", dnnl::algorithm::eltwise_logistic},
            {"elu", dnnl::algorithm::eltwise_elu},   {"soft_relu", dnnl::algorithm::eltwise_soft_relu},
            {"exp", dnnl::algorithm::eltwise_exp},   {"log", dnnl::algorithm::eltwise_log},
            {"sqrt", dnnl::algorithm::eltwise_sqrt}, {"abs", dnnl::algorithm::eltwise_abs}};
        const float alpha = values["alg"] == "relu" ? 0.0F : 1.0F;
        const dnnl::eltwise_forward::primitive_desc desc(engine, dnnl::prop_kind::forward_inference,
                                                         algorithms.at(values["alg"]), x, x, alpha, 0.0F, attributes());
        add(dnnl::eltwise_forward(desc), desc, {{DNNL_ARG_SRC, read_as(x)}, {DNNL_ARG_DST, made(x, x)}});
    }

    void binary()
    {
        const auto a = plain(dims("a")), b = plain(dims("b"));
        const std::map<std::string, dnnl::algorithm> algorithms{
            {"add", dnnl::algorithm::binary_add}, {"sub", dnnl::algorithm::binary_sub},
            {"mul", dnnl::algorithm::binary_mul}, {"div", dnnl::algorithm::binary_div},
            {"max", dnnl::algorithm::binary_max}, {"min", dnnl::algorithm::binary_min}};
        const dnnl::binary::primitive_desc desc(engine, algorithms.at(values["alg"]), a, b, a, attributes());
        Arguments arguments{{DNNL_ARG_SRC_0, read_as(a)}};
        arguments[DNNL_ARG_SRC_1] = read_as(b);
        arguments[DNNL_ARG_DST] = made(a, a);
        add(dnnl::binary(desc), desc, arguments);
    }

    // Matmuls with batch dimensions.
    void matmuls()
    {
        const auto a = dims("a"), b = dims("b");
        Dims y(a);
        for (size_t axis = 0; axis + 2 < a.size(); axis++) {
            y[axis] = std::max(a[axis], b[axis]);
        }
        y.back() = b.back();
        const auto weights = b.size() == 2 ? any(b) : plain(b);
        const dnnl::matmul::primitive_desc desc(engine, plain(a), weights, plain(y), attributes());
        Arguments arguments{{DNNL_ARG_SRC, read(a)}};
        arguments[DNNL_ARG_WEIGHTS] = read(b, desc.weights_desc());
        arguments[DNNL_ARG_DST] = made(desc.dst_desc(), plain(y));
        add(dnnl::matmul(desc), desc, arguments);
    }
};

} // namespace
