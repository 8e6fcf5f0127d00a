/* Values that AMD's frontend infers: names, uids, the order of operations, shapes and strides. */

#include <hipdnn/compat/hipdnn_frontend.hpp>

#include "check.hpp"

using namespace hipdnn_frontend;
using namespace hipdnn_frontend::graph;

using Dims = std::vector<int64_t>;
using Tensor = std::shared_ptr<TensorAttributes>;

static Tensor tensor(const Dims& dims, const Dims& strides)
{
    return Graph::tensor(TensorAttributes().set_dim(dims).set_stride(strides));
}
static Tensor packed(const Dims& dims) { return tensor(dims, hipdnn::packed_strides(dims)); }

static Graph graph_of_floats()
{
    Graph graph;
    graph.set_io_data_type(DataType::FLOAT).set_compute_data_type(DataType::FLOAT);
    graph.set_intermediate_data_type(DataType::FLOAT);
    return graph;
}

static Tensor unary(Graph& graph, const Tensor& in, PointwiseMode mode)
{
    return graph.pointwise(in, PointwiseAttributes().set_mode(mode));
}

/* Operations that depend on another one come after all independent ones. */
static void order()
{
    Graph graph = graph_of_floats();
    const Tensor x = packed({4, 4}), z = packed({4, 4});
    const Tensor left = unary(graph, unary(graph, x, PointwiseMode::EXP), PointwiseMode::NEG);
    const Tensor right = unary(graph, unary(graph, z, PointwiseMode::EXP), PointwiseMode::NEG);
    graph.pointwise(left, right, PointwiseAttributes().set_mode(PointwiseMode::ADD))->set_output(true);
    for (int time = 0; time < 2; time++)
    {
        CHECK_GOOD(graph.validate());
        std::string names;
        for (const auto& operation : graph.operations())
        {
            names += operation->get_name().back();
        }
        CHECK(names == "02134");
    }
}

static void names_and_uids()
{
    Graph graph = graph_of_floats();
    const Tensor q = packed({1, 2, 4, 8}), k = packed({1, 2, 4, 8}), v = packed({1, 2, 4, 8});
    k->set_name("keys").set_uid(1);
    const auto [o, stats] = graph.sdpa(q, k, v, SdpaAttributes().set_generate_stats(true));
    o->set_output(true);
    CHECK(q->get_name() == "SdpaFwd_0::Q" && k->get_name() == "keys" && v->get_name() == "SdpaFwd_0::V");
    CHECK(o->get_name() == "SdpaFwd_0::O" && stats->get_name() == "SdpaFwd_0::STATS");
    const Tensor d_o = packed({1, 2, 4, 8});
    const auto gradients = graph.sdpa_backward(q, k, v, o, d_o, stats, SdpaBackwardAttributes());
    CHECK(d_o->get_name() == "SdpaBwd_1::dO" && gradients[2]->get_name() == "SdpaBwd_1::dV");
    const auto quantized = graph.block_scale_quantize(gradients[0], BlockScaleQuantizeAttributes().set_block_size(4));
    CHECK(quantized[1]->get_name() == "BlockScaleQuantize_2::Scale");
    std::string json;
    CHECK_GOOD(graph.serialize(json));
    std::vector<int64_t> uids;
    for (const auto& one : graph.getTensorsByUid())
    {
        uids.push_back(one.first);
    }
    std::sort(uids.begin(), uids.end());
    for (size_t i = 0; i < uids.size(); i++)
    {
        CHECK(uids[i] == static_cast<int64_t>(i));
    }
    CHECK(k->get_uid() == 1);
}

/* Statistics of channels lie in the order of the images. */
static void channels()
{
    for (const bool last : {false, true})
    {
        Graph graph = graph_of_floats();
        const Tensor x = tensor({2, 3, 4, 5}, last ? Dims{60, 1, 15, 3} : Dims{60, 20, 5, 1});
        const Tensor scale = packed({1, 3, 1, 1}), bias = packed({1, 3, 1, 1});
        const auto epsilon = std::make_shared<TensorAttributes>(1e-5F);
        const auto made = graph.batchnorm(x, scale, bias, BatchnormAttributes().set_epsilon(epsilon));
        const auto back = graph.batchnorm_backward(
            made[0], x, scale, BatchnormBackwardAttributes().set_saved_mean_and_inv_variance(made[1], made[2]));
        CHECK_GOOD(graph.validate());
        for (const Tensor& one : {made[1], made[2], back[1], back[2]})
        {
            CHECK((one->get_dim() == Dims{1, 3, 1, 1}));
            CHECK((one->get_stride() == (last ? Dims{3, 1, 3, 3} : Dims{3, 1, 1, 1})));
        }
    }
}

/* The last operand with the result's shape determines the layout. */
static void pointwise()
{
    Graph graph = graph_of_floats();
    const Tensor first = tensor({2, 3, 4, 5}, {60, 20, 5, 1}), second = tensor({2, 3, 4, 5}, {60, 1, 15, 3});
    const Tensor sum = graph.pointwise(first, second, PointwiseAttributes().set_mode(PointwiseMode::ADD));
    const Tensor more = graph.pointwise(sum, packed({1, 3, 1, 1}), PointwiseAttributes().set_mode(PointwiseMode::ADD));
    CHECK_GOOD(graph.validate());
    CHECK(sum->get_stride() == second->get_stride() && more->get_stride() == second->get_stride());
}

/* Gradients of attention are packed, whatever their operands are. */
static void attention()
{
    Graph graph = graph_of_floats();
    const Tensor q = tensor({1, 2, 4, 8}, {64, 8, 16, 1}), k = tensor({1, 2, 4, 8}, {64, 8, 16, 1});
    const Tensor v = packed({1, 2, 4, 8}), o = tensor({1, 2, 4, 8}, {64, 8, 16, 1}), stats = packed({1, 2, 4, 1});
    const auto gradients = graph.sdpa_backward(q, k, v, o, packed({1, 2, 4, 8}), stats, SdpaBackwardAttributes());
    CHECK_GOOD(graph.validate());
    for (const Tensor& one : gradients)
    {
        CHECK((one->get_stride() == Dims{64, 32, 8, 1}));
    }
}

/* Transposed blocks lie with their axis innermost. */
static void blocks()
{
    Graph graph = graph_of_floats();
    const auto made = graph.block_scale_quantize(
        packed({2, 4, 8}), BlockScaleQuantizeAttributes().set_block_size(2).set_axis(1).set_transpose(true));
    CHECK_GOOD(graph.validate());
    CHECK((made[0]->get_dim() == Dims{2, 4, 8} && made[0]->get_stride() == Dims{4, 1, 8}));
    CHECK((made[1]->get_dim() == Dims{2, 2, 8} && made[1]->get_stride() == Dims{2, 1, 4}));
}

/* A scale without strides lies in the order of the input, and gradients that lack a shape have that of their operand. */
static void norms()
{
    Graph graph = graph_of_floats();
    const Tensor x = tensor({2, 3, 4, 5}, {60, 1, 15, 3}), scale = std::make_shared<TensorAttributes>();
    scale->set_dim({1, 3, 4, 5});
    const auto epsilon = std::make_shared<TensorAttributes>(1e-5F);
    RMSNormAttributes attributes;
    attributes.set_epsilon(epsilon).set_forward_phase(NormFwdPhase::TRAINING);
    const auto made = graph.rmsnorm(x, scale, attributes);
    const Tensor dy = std::make_shared<TensorAttributes>(), factor = packed({1, 3, 4, 5});
    const auto back = graph.layernorm_backward(dy, made[0], factor, LayernormBackwardAttributes());
    CHECK_GOOD(graph.validate());
    CHECK((scale->get_stride() == Dims{60, 1, 15, 3} && made[1]->get_dim() == Dims{2, 1, 1, 1}));
    CHECK(dy->get_dim() == x->get_dim() && dy->get_stride() == x->get_stride());
    CHECK(back[0]->get_stride() == x->get_stride() && back[1]->get_stride() == factor->get_stride());
}

int main()
{
    order();
    names_and_uids();
    channels();
    pointwise();
    attention();
    blocks();
    norms();
    std::puts("right");
}
