/* A program as users of NVIDIA's frontend write it: its names, its order of calls, its saved graphs. */

#include <hipdnn/compat/cudnn_frontend.h>

#include "check.hpp"

#include <unordered_map>

namespace fe = cudnn_frontend;

static void conv_relu(cudnnHandle_t handle)
{
    fe::graph::Graph graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    auto x =
        graph.tensor(fe::graph::Tensor_attributes().set_name("image").set_dim({2, 3, 4, 4}).set_stride({48, 1, 12, 3}));
    auto w =
        graph.tensor(fe::graph::Tensor_attributes().set_name("filter").set_dim({5, 3, 1, 1}).set_stride({3, 1, 3, 3}));
    auto y = graph.conv_fprop(
        x, w, fe::graph::Conv_fprop_attributes().set_padding({0, 0}).set_stride({1, 1}).set_dilation({1, 1}));
    auto z = graph.pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    z->set_output(true);
    CHECK_GOOD(graph.validate());
    CHECK((z->get_stride() == std::vector<int64_t>{80, 1, 20, 5}));
    CHECK_GOOD(graph.build_operation_graph(handle));
    CHECK_GOOD(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
    CHECK(graph.check_support(handle).is_good());
    CHECK(graph.build_plans(handle, fe::BuildPlanPolicy_t::ALL).get_code() == fe::error_code_t::OK);
    auto vx = numbers(96), vw = numbers(15, 2);
    std::vector<float> vz(160), expected(160);
    for (size_t at = 0; at < 32; at++)
    {
        for (size_t k = 0; k < 5; k++)
        {
            float sum = 0;
            for (size_t c = 0; c < 3; c++)
            {
                sum += vx[at * 3 + c] * vw[k * 3 + c];
            }
            expected[at * 5 + k] = sum > 0 ? sum : 0;
        }
    }
    std::vector<int8_t> workspace(static_cast<size_t>(graph.get_workspace_size()) + 1);
    std::unordered_map<std::shared_ptr<fe::graph::Tensor_attributes>, void*> pack = {
        {x, vx.data()}, {w, vw.data()}, {z, vz.data()}};
    CHECK(graph.execute(handle, pack, workspace.data()).is_good());
    CHECK(close(vz, expected));

    std::vector<int8_t> room(static_cast<size_t>(graph.get_autotune_workspace_size()) + 1);
    CHECK_GOOD(graph.autotune(handle, pack, room.data()));
    std::vector<uint8_t> saved;
    CHECK_GOOD(graph.serialize(saved));
    fe::graph::Graph loaded;
    CHECK_GOOD(loaded.deserialize(handle, saved));
    std::unordered_map<int64_t, void*> by_uid = {
        {x->get_uid(), vx.data()}, {w->get_uid(), vw.data()}, {z->get_uid(), vz.data()}};
    vz.assign(160, -1.0F);
    std::vector<int8_t> other(static_cast<size_t>(loaded.get_workspace_size()) + 1);
    CHECK_GOOD(loaded.execute(handle, by_uid, other.data()));
    CHECK(close(vz, expected));
    CHECK(loaded.get_variant_pack_uids_sorted().size() == 3);
    fe::graph::Tensor_attributes found;
    CHECK_GOOD(loaded.query_tensor_attributes_of_uid(z->get_uid(), found));
    CHECK(found.get_dim() == z->get_dim());
    CHECK_BAD(loaded.query_tensor_attributes_of_uid(99, found), fe::error_code_t::INVALID_VALUE, "uid 99");
    for (const size_t length : {size_t{0}, size_t{7}, size_t{15}, size_t{40}, saved.size() - 1})
    {
        fe::graph::Graph damaged;
        CHECK(damaged
                  .deserialize(handle,
                               std::vector<uint8_t>(saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(length)))
                  .is_bad());
    }
    /* Addresses by themselves, in the order of uids, and a first execution. */
    std::vector<void*> sorted;
    for (const int64_t uid : loaded.get_variant_pack_uids_sorted())
    {
        sorted.push_back(by_uid.at(uid));
    }
    vz.assign(160, -1.0F);
    CHECK_GOOD(loaded.execute(handle, sorted.data(), 3, other.data()));
    CHECK(close(vz, expected));
    CHECK_BAD(loaded.execute(handle, sorted.data(), 2, other.data()), fe::error_code_t::INVALID_VALUE, "2 addresses");
    vz.assign(160, -1.0F);
    CHECK_GOOD(loaded.warmup(handle, by_uid, other.data()));
    CHECK(close(vz, expected));
    CHECK_GOOD(loaded.deserialize(handle, saved, true));

    /* Without a handle the plan is left out. */
    fe::graph::Graph structure;
    CHECK_GOOD(structure.deserialize(saved));
    CHECK_GOOD(structure.validate());
    CHECK(structure.execute(handle, by_uid, other.data()).is_bad());
    saved[15] = 0xff;
    CHECK_BAD(loaded.deserialize(handle, saved), fe::error_code_t::INVALID_VALUE, "serialize()");
    CHECK_BAD(structure.deserialize(saved), fe::error_code_t::INVALID_VALUE, "serialize()");

    /* A graph alone. */
    fe::graph::Graph unplanned, planned;
    unplanned.set_io_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    auto some = unplanned.tensor(fe::graph::Tensor_attributes().set_dim({2, 3}).set_stride({3, 1}).set_uid(1));
    unplanned.pointwise(some, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::NEG))
        ->set_output(true)
        .set_uid(2);
    CHECK_GOOD(unplanned.serialize(saved));
    CHECK_BAD(planned.deserialize(handle, saved, true), fe::error_code_t::INVALID_VALUE, "no plan");
    CHECK_GOOD(planned.deserialize(handle, saved));
    CHECK_GOOD(planned.create_execution_plans());
    CHECK_GOOD(planned.build_plans());

    fe::graph::Graph empty, again;
    empty.tensor(fe::graph::Tensor_attributes().set_dim({1}).set_stride({1}).set_uid(1));
    CHECK_GOOD(empty.serialize(saved));
    CHECK_GOOD(again.deserialize(saved));
    CHECK_GOOD(again.validate());
}

/* softmax(q k^T) v of one row sees its own key and those before it. */
static void attention(cudnnHandle_t handle)
{
    fe::graph::Graph graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const auto make = [&](const char* name, int64_t uid) {
        return graph.tensor(
            fe::graph::Tensor_attributes().set_name(name).set_uid(uid).set_dim({1, 1, 3, 2}).set_stride({6, 6, 2, 1}));
    };
    auto q = make("Q", 1), k = make("K", 2), v = make("V", 3);
    auto [o, stats] = graph.sdpa(
        q, k, v,
        fe::graph::SDPA_attributes().set_name("flash").set_is_inference(false).set_causal_mask(true).set_attn_scale(
            0.5F));
    o->set_output(true).set_uid(4);
    stats->set_output(true).set_uid(5).set_data_type(fe::DataType_t::FLOAT);
    CHECK_GOOD(graph.build(handle, {fe::HeurMode_t::A}));
    auto vq = numbers(6), vk = numbers(6, 2), vv = numbers(6, 3);
    std::vector<float> vo(6), vs(3), expected(6);
    for (size_t i = 0; i < 3; i++)
    {
        float sum = 0;
        for (size_t j = 0; j <= i; j++)
        {
            const float e = std::exp(0.5F * (vq[i * 2] * vk[j * 2] + vq[i * 2 + 1] * vk[j * 2 + 1]));
            sum += e;
            expected[i * 2] += e * vv[j * 2];
            expected[i * 2 + 1] += e * vv[j * 2 + 1];
        }
        expected[i * 2] /= sum;
        expected[i * 2 + 1] /= sum;
    }
    std::vector<int8_t> workspace(static_cast<size_t>(graph.get_workspace_size()) + 1);
    std::unordered_map<int64_t, void*> pack = {
        {1, vq.data()}, {2, vk.data()}, {3, vv.data()}, {4, vo.data()}, {5, vs.data()}};
    CHECK_GOOD(graph.execute(handle, pack, workspace.data()));
    CHECK(close(vo, expected));
}

static void statistics(cudnnHandle_t handle)
{
    fe::graph::Graph graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    auto x = graph.tensor(fe::graph::Tensor_attributes().set_uid(1).set_dim({2, 2, 2, 1}).set_stride({4, 2, 1, 1}));
    auto [sum, squares] = graph.genstats(x, fe::graph::Genstats_attributes());
    sum->set_output(true).set_uid(2);
    squares->set_output(true).set_uid(3);
    CHECK_GOOD(graph.build(handle));
    std::vector<float> vx = {1, 2, 3, 4, 5, 6, 7, 8}, vsum(2), vsquares(2);
    std::vector<int8_t> workspace(static_cast<size_t>(graph.get_workspace_size()) + 1);
    std::unordered_map<int64_t, void*> pack = {{1, vx.data()}, {2, vsum.data()}, {3, vsquares.data()}};
    CHECK_GOOD(graph.execute(handle, pack, workspace.data()));
    CHECK(close(vsum, {14, 22}) && close(vsquares, {66, 138}));
}

static void pooling(cudnnHandle_t handle)
{
    fe::graph::Graph graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT);
    auto x = graph.tensor(fe::graph::Tensor_attributes().set_uid(1).set_dim({1, 1, 2, 4}).set_stride({8, 8, 4, 1}));
    auto scale = graph.tensor(2.0F, fe::ScalarType::COMPILE_TIME_CONST);
    auto [y, index] = graph.resample(x, fe::graph::Resample_attributes()
                                            .set_is_inference(true)
                                            .set_resampling_mode(fe::ResampleMode_t::MAXPOOL)
                                            .set_padding_mode(fe::PaddingMode_t::NEG_INF_PAD)
                                            .set_window({2, 2})
                                            .set_stride({2, 2})
                                            .set_pre_padding({0, 0})
                                            .set_post_padding({0, 0}));
    CHECK(index == nullptr);
    auto z = graph.pointwise(y, scale, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::MUL));
    z->set_output(true).set_uid(2);
    CHECK_GOOD(graph.build(handle));
    std::vector<float> vx = {1, 2, 3, 4, 5, 6, 8, 7}, vz(2);
    std::vector<int8_t> workspace(static_cast<size_t>(graph.get_workspace_size()) + 1);
    std::unordered_map<int64_t, void*> pack = {{1, vx.data()}, {2, vz.data()}};
    CHECK_GOOD(graph.execute(handle, pack, workspace.data()));
    CHECK(close(vz, {12, 16}));

    /* Averages have no index, and a copy passes its second operand over. */
    fe::graph::Graph average;
    average.set_io_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT);
    auto [mean, none] = average.resample(x, fe::graph::Resample_attributes()
                                                .set_generate_index(true)
                                                .set_resampling_mode(fe::ResampleMode_t::AVGPOOL_INCLUDE_PADDING)
                                                .set_padding_mode(fe::PaddingMode_t::ZERO_PAD)
                                                .set_window({2, 2})
                                                .set_stride({2, 2})
                                                .set_pre_padding({0, 0})
                                                .set_post_padding({0, 0}));
    CHECK(none == nullptr);
    auto copy =
        average.pointwise(mean, mean, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::IDENTITY));
    copy->set_output(true).set_uid(2);
    CHECK_GOOD(average.build(handle));
    CHECK_GOOD(average.execute(handle, pack, workspace.data()));
    CHECK(close(vz, {3.5F, 5.5F}));
}

static void refused(cudnnHandle_t handle)
{
    fe::graph::Graph graph;
    auto x = graph.tensor(
        fe::graph::Tensor_attributes().set_dim({4, 4}).set_stride({4, 1}).set_data_type(fe::DataType_t::FLOAT));
    auto y = graph.concatenate({x, x}, fe::graph::Concatenate_attributes().set_axis(1));
    graph.pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::EXP))->set_output(true);
    CHECK_BAD(graph.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "concatenate");
    CHECK_BAD(graph.build(handle, {fe::HeurMode_t::A}), fe::error_code_t::GRAPH_NOT_SUPPORTED, "concatenate");
}

/* What create_execution_plans() does on a machine with a GPU. */
struct BesideGpu : fe::graph::Graph
{
    fe::error_t keep()
    {
        return fe::detail::drop_host_plans(_plans, _active, [this](int64_t id) { return engine_name(id); });
    }
};

static void host_engines(cudnnHandle_t handle)
{
    struct Plan
    {
        int64_t engine;
    };
    std::vector<Plan> plans{{2}, {7}, {9}};
    size_t active = 1;
    const auto name = [](int64_t id) { return std::string(id == 2 ? "CPU_ENGINE" : "CUDNN_ENGINE"); };
    CHECK_GOOD(fe::detail::drop_host_plans(plans, active, name));
    CHECK(plans.size() == 2 && plans[active].engine == 7);
    BesideGpu graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    auto x = graph.tensor(fe::graph::Tensor_attributes().set_dim({2, 3}).set_stride({3, 1}));
    auto y = graph.pointwise(x, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    y->set_output(true).set_dim({2, 3}).set_stride({3, 1});
    CHECK_GOOD(graph.build_operation_graph(handle));
    CHECK_GOOD(graph.create_execution_plans());
    CHECK_BAD(graph.keep(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "HIPDNN_CPU_FALLBACK");
}

int main()
{
    cudnnHandle_t handle = nullptr;
    CHECK(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
    conv_relu(handle);
    attention(handle);
    statistics(handle);
    pooling(handle);
    refused(handle);
    host_engines(handle);
    CHECK(float(half(1.5F)) == 1.5F && float(nv_bfloat16(-2.0F)) == -2.0F);
    CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
    std::puts("right");
}
