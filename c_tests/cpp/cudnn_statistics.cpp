/* Sums over rows and channels that are one operation in NVIDIA's frontend and several in hipDNN. */

#include "cudnn_graph.hpp"

/* The gradient of a score that every row has: minus its share of a row times do o, over the rows within the lengths. */
static void sinks(cudnnHandle_t handle)
{
    fe::graph::Graph graph = of_floats();
    const std::vector<int64_t> dims = {2, 1, 2, 2}, lines = {2, 1, 2, 1};
    const auto lengths = graph.tensor(Tensor_attributes()
                                          .set_uid(8)
                                          .set_dim({2, 1, 1, 1})
                                          .set_stride({1, 1, 1, 1})
                                          .set_data_type(fe::DataType_t::INT32));
    const auto dsink = given(7, {1, 1, 1, 1});
    dsink->set_output(true);
    auto how = fe::graph::SDPA_backward_attributes().set_name("back").set_attn_scale(1.0F);
    how.set_padding_mask(true).set_seq_len_q(lengths).set_seq_len_kv(lengths);
    auto [dq, dk, dv] =
        graph.sdpa_backward(given(1, dims), given(2, dims), given(3, dims), given(4, dims), given(5, dims),
                            given(6, lines), how.set_sink_token(given(9, {1, 1, 1, 1})).set_dsink_token(dsink));
    dq->set_output(true).set_uid(10);
    dk->set_output(true).set_uid(11);
    dv->set_output(true).set_uid(12);
    CHECK_GOOD(graph.build(handle));
    auto q = numbers(8), k = numbers(8, 2), v = numbers(8, 3), o = numbers(8, 4), d_o = numbers(8, 5);
    std::vector<float> stats = {1, 2, 3, 4}, sink = {0.5F}, got(1), dx[3];
    std::vector<int32_t> sizes = {1, 2};
    float wanted = 0;
    for (const size_t row : {size_t{0}, size_t{2}, size_t{3}})
    {
        const float inner = d_o[2 * row] * o[2 * row] + d_o[2 * row + 1] * o[2 * row + 1];
        wanted -= std::exp(sink[0] - stats[row]) * inner;
    }
    hipdnn::VariantPack pack = {{1, q.data()},     {2, k.data()},   {3, v.data()},     {4, o.data()},   {5, d_o.data()},
                                {6, stats.data()}, {7, got.data()}, {8, sizes.data()}, {9, sink.data()}};
    for (int64_t i = 0; i < 3; i++)
    {
        dx[i].resize(8);
        pack[10 + i] = dx[i].data();
    }
    run(graph, handle, pack);
    CHECK(close(got, {wanted}));
    fe::graph::Graph wrong = of_floats();
    wrong.sdpa_backward(given(1, dims), given(2, dims), given(3, dims), given(4, dims), given(5, dims), given(6, lines),
                        fe::graph::SDPA_backward_attributes().set_dsink_token(dsink));
    CHECK_BAD(wrong.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "set_sink_token");
}

/* A batch normalization in training from sums, and its gradient from sums: against the formulas, for two channels of two elements. */
static void finalized(cudnnHandle_t handle)
{
    const std::vector<int64_t> channels = {1, 2, 1, 1}, dims = {2, 2, 1, 1};
    fe::graph::Graph graph = of_floats();
    const auto rate = graph.tensor(0.25F);
    const auto made = graph.bn_finalize(given(1, channels), given(2, channels), given(3, channels), given(4, channels),
                                        graph.tensor(0.5F), graph.tensor(int64_t{2}),
                                        fe::graph::BN_finalize_attributes().set_name("bn").set_previous_running_stats(
                                            given(5, channels), given(6, channels), rate));
    std::vector<float> sums = {6, -2}, squares = {20, 10}, scale = {2, 1}, bias = {1, -1}, mean = {1, 0}, var = {1, 2};
    std::vector<std::vector<float>> got(6, std::vector<float>(2));
    hipdnn::VariantPack pack = {{1, sums.data()}, {2, squares.data()}, {3, scale.data()},
                                {4, bias.data()}, {5, mean.data()},    {6, var.data()}};
    for (size_t i = 0; i < 6; i++)
    {
        made[i]->set_output(true).set_uid(static_cast<int64_t>(10 + i));
        pack[static_cast<int64_t>(10 + i)] = got[i].data();
    }
    CHECK_GOOD(graph.build(handle));
    run(graph, handle, pack);
    /* Means 3 and -1, variances 1 and 4, of which the unbiased are 2 and 8. */
    const float inverse[] = {1 / std::sqrt(1.5F), 1 / std::sqrt(4.5F)};
    CHECK(close(got[0], {2 * inverse[0], inverse[1]}) && close(got[1], {1 - 6 * inverse[0], -1 + inverse[1]}));
    CHECK(close(got[2], {3, -1}) && close(got[3], {inverse[0], inverse[1]}));
    CHECK(close(got[4], {1.5F, -0.25F}) && close(got[5], {1.25F, 3.5F}));

    fe::graph::Graph back = of_floats();
    const auto sums_of = back.dbn_weight(given(1, dims), given(2, dims), given(3, channels), given(4, channels),
                                         given(5, channels), fe::graph::DBN_weight_attributes().set_name("dbn"));
    std::vector<float> dy = {1, 2, -3, 0.5F}, x = {4, 1, 2, -3}, m = {3, -1}, inv = {1, 0.5F};
    pack = {{1, dy.data()}, {2, x.data()}, {3, m.data()}, {4, inv.data()}, {5, scale.data()}};
    for (size_t i = 0; i < 5; i++)
    {
        sums_of[i]->set_output(true).set_uid(static_cast<int64_t>(10 + i));
        pack[static_cast<int64_t>(10 + i)] = got[i].data();
    }
    CHECK_GOOD(back.build(handle));
    run(back, handle, pack);
    CHECK(close(got[0], {4, 1.5F}) && close(got[1], {-2, 2.5F}) && close(got[2], {2, 0.5F}));
    for (size_t i = 0; i < 4; i++)
    {
        const size_t c = i % 2;
        const float normal = (x[i] - m[c]) * inv[c];
        const float dx = scale[c] * inv[c] * (dy[i] - (got[1][c] + normal * got[0][c]) / 2);
        CHECK(std::abs(got[2][c] * dy[i] + got[3][c] * x[i] + got[4][c] - dx) < 1e-5F);
    }
}

int main()
{
    cudnnHandle_t handle = nullptr;
    CHECK(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
    sinks(handle);
    finalized(handle);
    CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
    std::puts("right");
}
