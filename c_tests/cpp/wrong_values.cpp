/* What newcomers leave out, and sizes near 2^63: each is an error that says what was expected, with every compiler. */

#include <hipdnn/hipdnn.hpp>

#include <cstdint>

#include "check.hpp"

using hipdnn::DataType;
using hipdnn::ErrorCode;

namespace
{

hipdnn::TensorPtr tensor(hipdnn::Graph& graph, const hipdnn::Dims& dims)
{
    return graph.tensor(hipdnn::Tensor().set_dim(dims).set_stride(hipdnn::packed_strides(dims)));
}

hipdnn::Graph typed()
{
    hipdnn::Graph graph;
    graph.set_io_data_type(DataType::FLOAT).set_intermediate_data_type(DataType::FLOAT);
    graph.set_compute_data_type(DataType::FLOAT);
    return graph;
}

/** Modes and phases that are not set. */
void unset()
{
    hipdnn::Graph pointwise = typed();
    pointwise.pointwise(tensor(pointwise, {2, 3}), hipdnn::PointwiseAttributes())->set_output(true);
    CHECK_BAD(pointwise.validate(), ErrorCode::ATTRIBUTE_NOT_SET, "pointwise \"Pointwise_0\": the mode is not set");

    hipdnn::Graph named = typed();
    named.pointwise(tensor(named, {2, 3}), hipdnn::PointwiseAttributes().set_name("first"))->set_output(true);
    CHECK_BAD(named.validate(), ErrorCode::ATTRIBUTE_NOT_SET, "pointwise \"first\": the mode is not set");

    hipdnn::Graph reduction = typed();
    reduction.reduction(tensor(reduction, {2, 3}), hipdnn::ReductionAttributes())->set_output(true);
    CHECK_BAD(reduction.validate(), ErrorCode::ATTRIBUTE_NOT_SET, "mode");

    hipdnn::Graph layernorm = typed();
    auto epsilon = layernorm.tensor(hipdnn::Tensor(1e-5F));
    auto scale = tensor(layernorm, {1, 3});
    layernorm
        .layernorm(tensor(layernorm, {2, 3}), scale, scale, hipdnn::LayernormAttributes().set_epsilon(epsilon))[0]
        ->set_output(true);
    CHECK_BAD(layernorm.validate(), ErrorCode::ATTRIBUTE_NOT_SET, "phase");

    hipdnn::Graph resample = typed();
    hipdnn::ResampleFwdAttributes pooling;
    pooling.set_resampling_mode(hipdnn::ResampleMode::BILINEAR);
    resample.resample_fwd(tensor(resample, {1, 1, 4, 4}), pooling)->set_output(true);
    CHECK_BAD(resample.validate(), ErrorCode::GRAPH_NOT_SUPPORTED, "the mode is one that hipDNN does not have");
}

hipdnn::Error convolution(const hipdnn::Dims& x, const hipdnn::Dims& w, int64_t padding, int64_t stride, int64_t dilation)
{
    hipdnn::Graph graph = typed();
    hipdnn::ConvFpropAttributes attributes;
    attributes.set_padding({padding, padding}).set_stride({stride, stride}).set_dilation({dilation, dilation});
    graph.conv_fprop(tensor(graph, x), tensor(graph, w), attributes)->set_output(true);
    return graph.validate();
}

hipdnn::Error gradient(const hipdnn::Dims& dy, const hipdnn::Dims& w, int64_t stride, int64_t dilation)
{
    hipdnn::Graph graph = typed();
    hipdnn::ConvDgradAttributes attributes;
    attributes.set_padding({0, 0}).set_stride({stride, stride}).set_dilation({dilation, dilation});
    graph.conv_dgrad(tensor(graph, dy), tensor(graph, w), attributes)->set_output(true);
    return graph.validate();
}

hipdnn::Error filter_gradient(const hipdnn::Dims& dy, const hipdnn::Dims& x, int64_t padding, int64_t stride)
{
    hipdnn::Graph graph = typed();
    hipdnn::ConvWgradAttributes attributes;
    attributes.set_padding({padding, padding}).set_stride({stride, stride}).set_dilation({1, 1});
    graph.conv_wgrad(tensor(graph, dy), tensor(graph, x), attributes)->set_output(true);
    return graph.validate();
}

hipdnn::Error pooling(const hipdnn::Dims& x, int64_t padding, int64_t window)
{
    hipdnn::Graph graph = typed();
    hipdnn::ResampleFwdAttributes attributes;
    attributes.set_pre_padding({padding, padding}).set_post_padding({padding, padding}).set_stride({1, 1});
    attributes.set_window({window, window}).set_resampling_mode(hipdnn::ResampleMode::MAXPOOL);
    graph.resample_fwd(tensor(graph, x), attributes)->set_output(true);
    return graph.validate();
}

/** Numbers that overflow 64 bits on the way to a shape. */
void large()
{
    constexpr int64_t most = INT64_MAX, half = INT64_MAX / 2;
    CHECK(hipdnn::packed_strides({2, half, half}) == hipdnn::Dims({most, half, 1}));
    CHECK(hipdnn::channels_last_strides({2, half, half, half})[0] == most);
    CHECK(hipdnn::Tensor().set_dim({half, half}).get_volume() == most);
    CHECK(hipdnn::Tensor().set_dim({half, 2}).get_volume() == most - 1);

    hipdnn::Graph graph = typed();
    graph.pointwise(tensor(graph, {2, half, half}), hipdnn::PointwiseAttributes().set_mode(hipdnn::PointwiseMode::ABS))
        ->set_output(true);
    CHECK_BAD(graph.validate(), ErrorCode::INVALID_VALUE, "expected elements that 64 bits can count");
    CHECK_BAD(hipdnn::Tensor().set_data_type(DataType::FLOAT).set_dim({3, 2}).set_stride({INT64_MIN, 1}).validate(),
              ErrorCode::INVALID_VALUE, "expected");

    for (const int64_t size : {most, half, half - 1, half + 1})
    {
        CHECK_BAD(convolution({1, 1, 4, 4}, {1, 1, 3, 3}, size, 1, 1), ErrorCode::INVALID_VALUE, "64 bits");
        CHECK_BAD(convolution({1, 1, 4, 4}, {1, 1, 3, 3}, 0, 1, size), ErrorCode::INVALID_VALUE, "");
        CHECK_BAD(convolution({1, 1, size, 4}, {1, 1, size, 3}, 0, 1, size), ErrorCode::INVALID_VALUE, "64 bits");
        CHECK_GOOD(convolution({1, 1, 4, 4}, {1, 1, 3, 3}, 0, size, 1));
        CHECK_BAD(gradient({1, 1, 3, 3}, {1, 1, 3, 3}, size, 1), ErrorCode::INVALID_VALUE, "64 bits");
        CHECK_BAD(gradient({1, 1, 3, 3}, {1, 1, 3, 3}, 1, size), ErrorCode::INVALID_VALUE, "64 bits");
        CHECK_BAD(filter_gradient({1, 1, 3, 3}, {1, 1, 4, 4}, size, 1), ErrorCode::INVALID_VALUE, "");
        CHECK_BAD(filter_gradient({1, 1, 3, 3}, {1, 1, 4, 4}, 0, size), ErrorCode::INVALID_VALUE, "");
        CHECK_BAD(pooling({1, 1, 4, 4}, size, 2), ErrorCode::INVALID_VALUE, "64 bits");
        /* Windows larger than the image: an output below 1. */
        CHECK_BAD(pooling({1, 1, 4, 4}, 0, size), ErrorCode::INVALID_VALUE, "below 1");
    }
    CHECK_GOOD(convolution({1, 1, 4, 4}, {1, 1, 3, 3}, 1, 1, 1));

    hipdnn::Graph scaled = typed();
    auto quantized = scaled.block_scale_quantize(tensor(scaled, {1, most}),
                                                 hipdnn::BlockScaleQuantizeAttributes().set_block_size(32).set_axis(1));
    quantized[0]->set_output(true).set_data_type(DataType::FP8_E4M3);
    quantized[1]->set_output(true).set_data_type(DataType::FP8_E8M0);
    static_cast<void>(scaled.validate());
    CHECK(quantized[1]->get_dim() == hipdnn::Dims({1, most / 32 + 1}));
}

} // namespace

int main()
{
    unset();
    large();
    std::puts("right");
}
