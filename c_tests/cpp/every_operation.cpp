/* Every attributes class: a graph of it is checked, written, read again by the classes, written again to the same graph, and
 * computed before and after to the same numbers. */

#include <hipdnn/hipdnn.hpp>

#include "check.hpp"

#include <functional>
#include <map>

using namespace hipdnn;

static hipdnnHandle_t handle;

static TensorPtr tensor(Dims dims, DataType type = DataType::FLOAT)
{
    Dims strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i-- > 0;)
    {
        strides[i] = strides[i + 1] * dims[i + 1];
    }
    return Graph::tensor(Tensor().set_dim(dims).set_stride(strides).set_data_type(type));
}

/* Executes with numbers in floats, and small ascending integers in other tensors; answers the bytes of all outputs. */
static std::map<int64_t, std::vector<char>> compute(Graph& graph, const std::map<int64_t, std::vector<char>>& given)
{
    CHECK_GOOD(graph.create_execution_plans());
    CHECK_GOOD(graph.check_support());
    CHECK_GOOD(graph.build_plans(BuildPlanPolicy::ALL));
    int64_t bytes = 0;
    CHECK_GOOD(graph.get_workspace_size(bytes));
    std::vector<char> workspace(static_cast<size_t>(bytes) + 1);
    std::map<int64_t, std::vector<char>> memory;
    VariantPack pack;
    for (const TensorPtr& one : graph.tensors())
    {
        if (one->get_is_virtual() || one->get_has_compile_time_constant())
        {
            continue;
        }
        const auto count = static_cast<size_t>(one->get_volume());
        std::vector<char>& room = memory[one->get_uid()];
        room.resize(count * 8);
        const auto own = given.find(one->get_uid());
        if (own != given.end())
        {
            room = own->second;
        } else if (one->get_data_type() == DataType::FLOAT)
        {
            std::vector<float> values = numbers(count, static_cast<unsigned>(one->get_uid()) + 7);
            for (float& value : values)
            {
                value = std::fabs(value) + 0.1F;
            }
            std::memcpy(room.data(), values.data(), count * 4);
        }
        pack[one->get_uid()] = room.data();
    }
    CHECK_GOOD(graph.execute(handle, pack, workspace.data()));
    return memory;
}

static std::vector<char> integers(std::vector<int32_t> values)
{
    std::vector<char> bytes(values.size() * 8);
    std::memcpy(bytes.data(), values.data(), values.size() * 4);
    return bytes;
}

/* A graph that is made has an id of its own, which is all that two of the same content differ in. */
static std::string without_id(std::string json)
{
    const size_t at = json.find("\"id\"");
    const size_t length = std::strlen("\"id\":\"00000000-0000-0000-0000-000000000000\"");
    return at == std::string::npos ? json : json.erase(at, length);
}

struct Case
{
    const char* name;
    std::function<void(Graph&)> make;
    const char* in_json;
    std::map<int64_t, std::vector<char>> given = {};
    bool computed = true;
};

static void out(const TensorPtr& one) { one->set_output(true); }
template <size_t Count>
static void out(const std::array<TensorPtr, Count>& list)
{
    for (const TensorPtr& one : list)
    {
        one == nullptr ? void() : out(one);
    }
}

static const Case CASES[] = {
    {"convolution",
     [](Graph& g) {
         out(g.conv_fprop(
             tensor({2, 4, 7, 7}), tensor({6, 2, 3, 3}),
             ConvFpropAttributes().set_pre_padding({1, 0}).set_post_padding({0, 1}).set_stride({2, 1}).set_dilation(
                 {1, 2})));
     },
     "\"pre_padding\":[1,0]"},
    {"convolution's dx",
     [](Graph& g) {
         out(g.conv_dgrad(tensor({2, 6, 7, 7}), tensor({6, 4, 3, 3}),
                          ConvDgradAttributes().set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1})));
     },
     "ConvolutionBwdAttributes"},
    {"convolution's dw",
     [](Graph& g) {
         out(g.conv_wgrad(tensor({2, 6, 7, 7}), tensor({2, 4, 7, 7}),
                          ConvWgradAttributes().set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1})));
     },
     "ConvolutionWrwAttributes"},
    {"matmul", [](Graph& g) { out(g.matmul(tensor({3, 4, 5}), tensor({1, 5, 6}), MatmulAttributes())); },
     "MatmulAttributes"},
    {"pointwise of one",
     [](Graph& g) {
         out(g.pointwise(tensor({3, 4}),
                         PointwiseAttributes().set_mode(PointwiseMode::RELU_FWD).set_relu_lower_clip_slope(0.5F)));
     },
     "\"relu_lower_clip_slope\":0.5"},
    {"pointwise of two",
     [](Graph& g) {
         out(g.pointwise(tensor({3, 4}), tensor({1, 4}), PointwiseAttributes().set_mode(PointwiseMode::SUB)));
     },
     "\"sub\""},
    {"pointwise of three",
     [](Graph& g) {
         out(g.pointwise(tensor({3, 4}), tensor({3, 4}), tensor({3, 4}, DataType::BOOLEAN),
                         PointwiseAttributes().set_mode(PointwiseMode::BINARY_SELECT)));
     },
     "in_2_tensor_uid"},
    {"reduction",
     [](Graph& g) {
         auto y = g.reduction(tensor({3, 4}), ReductionAttributes().set_mode(ReductionMode::MAX));
         y->set_dim({3, 1}).set_stride({1, 1}).set_output(true);
     },
     "ReductionAttributes"},
    {"max pooling",
     [](Graph& g) {
         out(g.resample_fwd(tensor({1, 2, 6, 6}), ResampleFwdAttributes()
                                                      .set_resample_mode(ResampleMode::MAXPOOL)
                                                      .set_padding_mode(PaddingMode::NEG_INF_PAD)
                                                      .set_window({2, 2})
                                                      .set_stride({2, 2})
                                                      .set_pre_padding({0, 0})
                                                      .set_post_padding({0, 0})));
     },
     "\"window\":[2,2]"},
    {"average pooling's dx",
     [](Graph& g) {
         auto dx = g.resample_bwd(tensor({1, 2, 3, 3}), ResampleBwdAttributes()
                                                            .set_resample_mode(ResampleMode::AVGPOOL_INCLUDE_PADDING)
                                                            .set_padding_mode(PaddingMode::ZERO_PAD)
                                                            .set_window({2, 2})
                                                            .set_stride({2, 2})
                                                            .set_pre_padding({0, 0})
                                                            .set_post_padding({0, 0}));
         dx->set_dim({1, 2, 6, 6}).set_stride({72, 36, 6, 1}).set_output(true);
     },
     "ResampleBwdAttributes"},
    {"batchnorm",
     [](Graph& g) {
         auto epsilon = Graph::tensor(Tensor(1e-5F)), momentum = Graph::tensor(Tensor(0.1F));
         out(g.batchnorm(tensor({4, 3, 2, 2}), tensor({1, 3, 1, 1}), tensor({1, 3, 1, 1}),
                         BatchnormAttributes().set_epsilon(epsilon).set_previous_running_stats(
                             tensor({1, 3, 1, 1}), tensor({1, 3, 1, 1}), momentum)));
     },
     "next_running_mean_tensor_uid"},
    {"batchnorm's gradient",
     [](Graph& g) {
         out(g.batchnorm_backward(tensor({4, 3, 2, 2}), tensor({4, 3, 2, 2}), tensor({1, 3, 1, 1}),
                                  BatchnormBackwardAttributes().set_saved_mean_and_inv_variance(tensor({1, 3, 1, 1}),
                                                                                                tensor({1, 3, 1, 1}))));
     },
     "BatchnormBackwardAttributes"},
    {"batchnorm in inference",
     [](Graph& g) {
         out(g.batchnorm_inference(tensor({4, 3, 2, 2}), tensor({1, 3, 1, 1}), tensor({1, 3, 1, 1}),
                                   tensor({1, 3, 1, 1}), tensor({1, 3, 1, 1}), BatchnormInferenceAttributes()));
     },
     "BatchnormInferenceAttributes"},
    {"batchnorm in inference by variance",
     [](Graph& g) {
         out(g.batchnorm_inference_variance_ext(
             tensor({4, 3, 2, 2}), tensor({1, 3, 1, 1}), tensor({1, 3, 1, 1}), tensor({1, 3, 1, 1}),
             tensor({1, 3, 1, 1}), Graph::tensor(Tensor(1e-5F)), BatchnormInferenceAttributesVarianceExt()));
     },
     "BatchnormInferenceAttributesVarianceExt"},
    {"layernorm",
     [](Graph& g) {
         out(g.layernorm(tensor({4, 6}), tensor({1, 6}), tensor({1, 6}),
                         LayernormAttributes().set_forward_phase(NormFwdPhase::TRAINING).set_epsilon(1e-5F)));
     },
     "LayernormAttributes"},
    {"layernorm's gradient",
     [](Graph& g) {
         out(g.layernorm_backward(
             tensor({4, 6}), tensor({4, 6}), tensor({1, 6}),
             LayernormBackwardAttributes().set_saved_mean_and_inv_variance(tensor({4, 1}), tensor({4, 1}))));
     },
     "LayernormBackwardAttributes"},
    {"RMSnorm",
     [](Graph& g) {
         out(g.rmsnorm(tensor({4, 6}), tensor({1, 6}),
                       RMSNormAttributes()
                           .set_forward_phase(NormFwdPhase::TRAINING)
                           .set_bias(tensor({1, 6}))
                           .set_epsilon(Graph::tensor(Tensor(1e-5F)))));
     },
     "RMSNormAttributes"},
    {"RMSnorm's gradient",
     [](Graph& g) {
         out(g.rmsnorm_backward(tensor({4, 6}), tensor({4, 6}), tensor({1, 6}), tensor({4, 1}),
                                RMSNormBackwardAttributes().set_compute_dbias(true)));
     },
     "RMSNormBackwardAttributes"},
    {"attention",
     [](Graph& g) {
         out(g.sdpa(tensor({2, 4, 5, 8}), tensor({2, 2, 6, 8}), tensor({2, 2, 6, 8}),
                    SdpaAttributes().set_generate_stats(true).set_causal_mask(true).set_attn_scale(0.25F)));
     },
     "\"attn_scale_value\":0.25"},
    {"attention's gradient",
     [](Graph& g) {
         out(g.sdpa_backward(tensor({2, 4, 5, 8}), tensor({2, 4, 5, 8}), tensor({2, 4, 5, 8}), tensor({2, 4, 5, 8}),
                             tensor({2, 4, 5, 8}), tensor({2, 4, 5, 1}),
                             SdpaBackwardAttributes().set_attn_scale(0.25F)));
     },
     "SdpaBackwardAttributes"},
    {"quantization of blocks",
     [](Graph& g) {
         auto made =
             g.block_scale_quantize(tensor({4, 32}), BlockScaleQuantizeAttributes().set_block_size(16).set_axis(1));
         made[0]->set_data_type(DataType::FP8_E4M3).set_output(true);
         made[1]->set_data_type(DataType::FLOAT).set_output(true);
     },
     "\"block_size\":16"},
    {"dequantization of blocks",
     [](Graph& g) {
         out(g.block_scale_dequantize(tensor({4, 32}, DataType::FP8_E4M3), tensor({4, 2}),
                                      BlockScaleDequantizeAttributes().set_block_size({1, 16})));
     },
     "\"block_size\":[1,16]"},
    {"grouped matmul",
     [](Graph& g) {
         auto first = tensor({3, 1, 1}, DataType::INT32);
         first->set_uid(9);
         out(g.moe_grouped_matmul(tensor({1, 6, 4}), tensor({3, 4, 5}), first, MoeGroupedMatmulAttributes()));
     },
     "MoeGroupedMatmulAttributes",
     {{9, integers({0, 2, 3})}}},
    {"grouped matmul's gradient",
     [](Graph& g) {
         auto first = tensor({3, 1, 1}, DataType::INT32);
         first->set_uid(9);
         out(g.moe_grouped_matmul_bwd(tensor({1, 6, 5}), tensor({1, 6, 4}), first, MoeGroupedMatmulBwdAttributes()));
     },
     "MoeGroupedMatmulBwdAttributes",
     {{9, integers({0, 2, 3})}}},
    {"operation of a plugin",
     [](Graph& g) {
         auto made =
             g.custom_op({tensor({3})}, 1, CustomOpAttributes().set_custom_op_id("example.twice").set_data({1, 2, 3}));
         made[0]->set_dim({3}).set_stride({1}).set_output(true);
     },
     "example.twice",
     {},
     false},
};

static void check_case(const Case& one)
{
    std::printf("%s\n", one.name);
    std::fflush(stdout);
    Graph graph;
    graph.set_name(one.name).set_io_data_type(DataType::FLOAT).set_intermediate_data_type(DataType::FLOAT);
    graph.set_compute_data_type(DataType::FLOAT);
    one.make(graph);
    CHECK_GOOD(graph.validate());
    CHECK_GOOD(graph.validate());
    CHECK_GOOD(graph.build_operation_graph(handle));
    std::vector<uint8_t> bytes, again;
    std::string json;
    CHECK_GOOD(graph.serialize(bytes));
    CHECK_GOOD(graph.serialize(json));
    std::string packed;
    for (const char c : json)
    {
        packed += c == ' ' || c == '\n' ? "" : std::string(1, c);
    }
    if (packed.find(one.in_json) == std::string::npos && json.find(one.in_json) == std::string::npos)
    {
        std::fprintf(stderr, "%s is missing in\n%s\n", one.in_json, json.c_str());
        std::exit(1);
    }
    Graph read;
    std::string json_again;
    CHECK_GOOD(read.deserialize(bytes));
    CHECK_GOOD(read.build_operation_graph(handle));
    CHECK_GOOD(read.serialize(json_again));
    CHECK(without_id(json_again) == without_id(json));
    Graph from_json;
    CHECK_GOOD(from_json.from_json(handle, json));
    CHECK_GOOD(from_json.serialize(again));
    CHECK(again == bytes);
    if (one.computed)
    {
        const auto before = compute(graph, one.given), after = compute(read, one.given);
        CHECK(before == after);
    } else
    {
        CHECK_BAD(graph.create_execution_plans(), ErrorCode::GRAPH_NOT_SUPPORTED, "no engine");
    }
}

/* What is wrong in an operation is refused by the operation's name, with the shape. */
static void check_errors()
{
    const auto validate = [](const std::function<void(Graph&)>& make) {
        Graph graph;
        graph.set_io_data_type(DataType::FLOAT)
            .set_intermediate_data_type(DataType::FLOAT)
            .set_compute_data_type(DataType::FLOAT);
        make(graph);
        return graph.validate();
    };
    CHECK_BAD(validate([](Graph& g) {
                  g.conv_fprop(tensor({1, 3, 4, 4}), tensor({2, 2, 3, 3}),
                               ConvFpropAttributes().set_padding({0, 0}).set_stride({1, 1}).set_dilation({1, 1}));
              }),
              ErrorCode::INVALID_VALUE, "(");
    CHECK_BAD(validate([](Graph& g) {
                  g.conv_fprop(tensor({1, 2, 4, 4}), tensor({2, 2, 3, 3}), ConvFpropAttributes().set_padding({0, 0}));
              }),
              ErrorCode::ATTRIBUTE_NOT_SET, "stride is not set");
    CHECK_BAD(validate([](Graph& g) { g.pointwise(tensor({3}), PointwiseAttributes().set_mode(PointwiseMode::ADD)); }),
              ErrorCode::INVALID_VALUE, "expected 2");
    CHECK_BAD(validate([](Graph& g) { g.matmul(tensor({3, 3}), nullptr, MatmulAttributes()); }),
              ErrorCode::ATTRIBUTE_NOT_SET, "missing");
    CHECK_BAD(validate([](Graph& g) { g.pointwise(tensor({3}), PointwiseAttributes().set_mode(PointwiseMode::COS)); }),
              ErrorCode::GRAPH_NOT_SUPPORTED, "");
    CHECK_BAD(validate([](Graph& g) { g.matmul(tensor({2, 3}), tensor({4, 5}), MatmulAttributes()); }),
              ErrorCode::INVALID_VALUE, "(");
    CHECK_BAD(validate([](Graph& g) {
                  g.sdpa(tensor({1, 2, 3, 4}), tensor({1, 2, 3, 5}), tensor({1, 2, 3, 4}), SdpaAttributes());
              }),
              ErrorCode::INVALID_VALUE, "sdpa");
    CHECK_BAD(validate([](Graph& g) { g.matmul(Graph::tensor(Tensor()), tensor({4, 5}), MatmulAttributes()); }),
              ErrorCode::INVALID_VALUE, "");
    Graph empty;
    CHECK_BAD(empty.build_operation_graph(handle), ErrorCode::INVALID_VALUE, "no operations");
    CHECK_BAD(empty.deserialize(std::vector<uint8_t>{1, 2, 3}), ErrorCode::HIPDNN_BACKEND_ERROR, "loading the graph");
    CHECK_BAD(empty.from_json(std::string("{")), ErrorCode::HIPDNN_BACKEND_ERROR, "reading the graph");
    try
    {
        check(empty.build(handle));
        CHECK(!"an exception");
    } catch (const Exception& error)
    {
        CHECK(error.error() == ErrorCode::INVALID_VALUE &&
              std::string(error.what()).find("no operations") != std::string::npos);
    }
}

int main()
{
    HandlePtr owner;
    CHECK_GOOD(create_handle(owner));
    handle = *owner;
    for (const Case& one : CASES)
    {
        check_case(one);
    }
    check_errors();
    std::puts("right");
}
