/* Operations of NVIDIA's frontend that consist of several in hipDNN, and other memory layouts. */

#include "cudnn_graph.hpp"

/* A function that hides later keys and halves what is left: attention of one head by plain loops. */
static void changed_scores(cudnnHandle_t handle)
{
    fe::graph::Graph graph = of_floats();
    const std::vector<int64_t> dims = {1, 2, 4, 2};
    const auto later = [](std::shared_ptr<fe::graph::Graph> to, std::shared_ptr<Tensor_attributes> scores) {
        const auto index = [&](int64_t axis) {
            auto made = to->pointwise(scores, fe::graph::Pointwise_attributes()
                                                  .set_mode(fe::PointwiseMode_t::GEN_INDEX)
                                                  .set_axis(axis)
                                                  .set_compute_data_type(fe::DataType_t::INT32));
            made->set_data_type(fe::DataType_t::INT32);
            return made;
        };
        auto seen = to->pointwise(index(2), index(3),
                                  fe::graph::Pointwise_attributes()
                                      .set_mode(fe::PointwiseMode_t::CMP_GE)
                                      .set_compute_data_type(fe::DataType_t::BOOLEAN));
        seen->set_data_type(fe::DataType_t::BOOLEAN);
        auto half_of = to->pointwise(scores, std::make_shared<Tensor_attributes>(0.5F),
                                     fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::MUL));
        return to->pointwise(half_of, std::make_shared<Tensor_attributes>(-1e30F), seen,
                             fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::BINARY_SELECT));
    };
    auto [o, stats] = graph.sdpa(
        given(1, dims), given(2, dims), given(3, dims),
        fe::graph::SDPA_attributes().set_name("flex").set_generate_stats(true).set_attn_scale(2.0F).set_score_mod(
            later));
    o->set_output(true).set_uid(4);
    stats->set_output(true).set_uid(5);
    CHECK_GOOD(graph.build(handle));
    auto q = numbers(16), k = numbers(16, 2), v = numbers(16, 3);
    std::vector<float> got(16), sums(8), expected(16), logs(8);
    run(graph, handle, {{1, q.data()}, {2, k.data()}, {3, v.data()}, {4, got.data()}, {5, sums.data()}});
    for (size_t row = 0; row < 8; row++)
    {
        const size_t head = row / 4 * 8;
        float sum = 0;
        for (size_t j = 0; j <= row % 4; j++)
        {
            const float e = std::exp(q[row * 2] * k[head + j * 2] + q[row * 2 + 1] * k[head + j * 2 + 1]);
            sum += e;
            expected[row * 2] += e * v[head + j * 2];
            expected[row * 2 + 1] += e * v[head + j * 2 + 1];
        }
        expected[row * 2] /= sum;
        expected[row * 2 + 1] /= sum;
        logs[row] = std::log(sum);
    }
    CHECK(close(got, expected) && close(sums, logs));

    /* NVIDIA's own functions: two before the diagonal that ends in the corner, the scores capped; against the masks that attention has. */
    const auto windowed = [](bool by_function, auto cap) {
        fe::graph::Graph made = of_floats();
        fe::graph::SDPA_attributes how;
        how.set_generate_stats(true);
        if (by_function)
        {
            how.set_score_mod([cap](std::shared_ptr<fe::graph::Graph> to, std::shared_ptr<Tensor_attributes> scores) {
                using namespace fe::graph::attn::score_modifiers;
                scores = cap ? Softcap().forward(to, scores, std::make_shared<Tensor_attributes>(0.25F)) : scores;
                return sliding_window_mask(to, scores, fe::DiagonalAlignment_t::BOTTOM_RIGHT, 2, 0, 4, 6, nullptr,
                                           nullptr);
            });
        } else
        {
            how.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT)
                .set_diagonal_band_left_bound(2)
                .set_diagonal_band_right_bound(0);
        }
        const std::vector<int64_t> keys = {1, 2, 6, 2};
        auto [out, sum] = made.sdpa(given(1, {1, 2, 4, 2}), given(2, keys), given(3, keys), how);
        out->set_output(true).set_uid(4);
        sum->set_output(true).set_uid(5);
        return made;
    };
    auto longer = numbers(24, 2), values = numbers(24, 3);
    std::vector<float> masked(16), by_mask(16), by_cap(16);
    for (auto [by_function, cap, out] :
         {std::tuple(false, false, &masked), std::tuple(true, false, &by_mask), std::tuple(true, true, &by_cap)})
    {
        fe::graph::Graph made = windowed(by_function, cap);
        CHECK_GOOD(made.build(handle));
        run(made, handle, {{1, q.data()}, {2, longer.data()}, {3, values.data()}, {4, out->data()}, {5, sums.data()}});
    }
    std::vector<float> plain(16);
    for (size_t row = 0; row < 8; row++)
    {
        float sum = 0;
        for (size_t key = row % 4 + 1; key <= row % 4 + 2; key++)
        {
            const float *at = &longer[(row / 4 * 6 + key) * 2], *value = &values[(row / 4 * 6 + key) * 2];
            const float e = std::exp(q[row * 2] * at[0] + q[row * 2 + 1] * at[1]);
            sum += e;
            plain[row * 2] += e * value[0];
            plain[row * 2 + 1] += e * value[1];
        }
        plain[row * 2] /= sum;
        plain[row * 2 + 1] /= sum;
    }
    CHECK(close(masked, plain) && close(by_mask, plain));
    float most = 0;
    for (size_t i = 0; i < 16; i++)
    {
        most = std::max(most, std::fabs(by_cap[i] - masked[i]));
    }
    CHECK(most > 1e-3F && most < 1.0F);

    fe::graph::Graph both = of_floats();
    both.sdpa(given(1, dims), given(2, dims), given(3, dims),
              fe::graph::SDPA_attributes().set_causal_mask(true).set_score_mod(later));
    CHECK_BAD(both.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "set_score_mod");
    fe::graph::Graph back = of_floats();
    back.sdpa_backward(given(1, dims), given(2, dims), given(3, dims), given(4, dims), given(5, dims),
                       given(6, {1, 2, 4, 1}), fe::graph::SDPA_backward_attributes().set_score_mod(later));
    CHECK_BAD(back.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "set_score_mod");
}

/* A mask and a scale multiply the weights: NVIDIA's sample gives the scale first. */
static void dropout(cudnnHandle_t handle)
{
    auto q = numbers(16), k = numbers(16, 2), v = numbers(16, 3);
    std::vector<float> keep(32), plain(16), got[2] = {std::vector<float>(16), std::vector<float>(16)}, half = {0.5F};
    for (size_t i = 0; i < keep.size(); i++)
    {
        keep[i] = i % 3 == 0 ? 0.0F : 4.0F;
    }
    for (int order = 0; order < 3; order++)
    {
        fe::graph::Graph graph = of_floats();
        auto mask = given(4, {1, 2, 4, 4}), scale = given(5, {1, 1, 1, 1});
        auto how = fe::graph::SDPA_attributes().set_generate_stats(false).set_attn_scale(0.5F);
        if (order < 2)
        {
            how.set_dropout(order == 0 ? mask : scale, order == 0 ? scale : mask);
        }
        auto [o, stats] = graph.sdpa(given(1, {1, 2, 4, 2}), given(2, {1, 2, 4, 2}), given(3, {1, 2, 4, 2}), how);
        o->set_output(true).set_uid(6);
        CHECK_GOOD(graph.build(handle));
        std::unordered_map<int64_t, void*> pack = {{1, q.data()}, {2, k.data()}, {3, v.data()}};
        pack[6] = order < 2 ? got[order].data() : plain.data();
        if (order < 2)
        {
            pack[4] = keep.data();
            pack[5] = half.data();
        }
        run(graph, handle, pack);
    }
    CHECK(close(got[0], got[1]) && got[0] != plain);
}

/* Each channel of each image has its own mean; the gradient sums to 0 over it, and against the normalized values, too. */
static void norms(cudnnHandle_t handle)
{
    const std::vector<int64_t> dims = {2, 3, 2, 4}, channels = {1, 3, 1, 1};
    auto vx = numbers(48), vscale = numbers(3, 2), vbias = numbers(3, 3), vdy = numbers(48, 4);
    std::vector<float> vy(48), vmean(6), vinverse(6), expected(48), means(6), inverses(6);
    for (size_t row = 0; row < 6; row++)
    {
        float sum = 0, squares = 0;
        for (size_t i = 0; i < 8; i++)
        {
            sum += vx[row * 8 + i];
        }
        means[row] = sum / 8;
        for (size_t i = 0; i < 8; i++)
        {
            squares += (vx[row * 8 + i] - means[row]) * (vx[row * 8 + i] - means[row]);
        }
        inverses[row] = 1 / std::sqrt(squares / 8 + 1e-3F);
        for (size_t i = 0; i < 8; i++)
        {
            expected[row * 8 + i] = (vx[row * 8 + i] - means[row]) * inverses[row] * vscale[row % 3] + vbias[row % 3];
        }
    }
    fe::graph::Graph graph = of_floats();
    auto [y, mean, inverse] = graph.instancenorm(given(1, dims), given(2, channels), given(3, channels),
                                                 fe::graph::Instancenorm_attributes()
                                                     .set_forward_phase(fe::NormFwdPhase_t::TRAINING)
                                                     .set_epsilon(std::make_shared<Tensor_attributes>(1e-3F)));
    y->set_output(true).set_uid(4);
    mean->set_output(true).set_uid(5);
    inverse->set_output(true).set_uid(6);
    CHECK_GOOD(graph.build(handle));
    run(graph, handle,
        {{1, vx.data()},
         {2, vscale.data()},
         {3, vbias.data()},
         {4, vy.data()},
         {5, vmean.data()},
         {6, vinverse.data()}});
    CHECK(close(vy, expected) && close(vmean, means) && close(vinverse, inverses));

    fe::graph::Graph back = of_floats();
    const std::vector<int64_t> stats = {2, 3, 1, 1};
    auto [dx, dscale, dbias] =
        back.instancenorm_backward(given(1, dims), given(2, dims), given(3, channels),
                                   fe::graph::Instancenorm_backward_attributes().set_saved_mean_and_inv_variance(
                                       given(4, stats), given(5, stats)));
    dx->set_output(true).set_uid(6);
    dscale->set_output(true).set_uid(7);
    dbias->set_output(true).set_uid(8);
    CHECK_GOOD(back.build(handle));
    std::vector<float> vdx(48), vdscale(3), vdbias(3), dscales(3), dbiases(3);
    run(back, handle,
        {{1, vdy.data()},
         {2, vx.data()},
         {3, vscale.data()},
         {4, means.data()},
         {5, inverses.data()},
         {6, vdx.data()},
         {7, vdscale.data()},
         {8, vdbias.data()}});
    for (size_t row = 0; row < 6; row++)
    {
        float sum = 0, along = 0;
        for (size_t i = row * 8; i < row * 8 + 8; i++)
        {
            dscales[row % 3] += vdy[i] * (vx[i] - means[row]) * inverses[row];
            dbiases[row % 3] += vdy[i];
            sum += vdx[i];
            along += vdx[i] * (vx[i] - means[row]);
        }
        CHECK(std::fabs(sum) < 1e-4F && std::fabs(along) < 2e-2F);
    }
    CHECK(close(vdscale, dscales) && close(vdbias, dbiases));

    /* A scale for each batch element; in inference, y is the only output. */
    fe::graph::Graph adaptive = of_floats();
    auto [z, none, neither] = adaptive.adalayernorm(given(1, {2, 3, 8}), given(2, {2, 1, 8}), given(3, {2, 1, 8}),
                                                    fe::graph::AdaLayernorm_attributes()
                                                        .set_forward_phase(fe::NormFwdPhase_t::INFERENCE)
                                                        .set_epsilon(std::make_shared<Tensor_attributes>(1e-3F)));
    CHECK(none == nullptr && neither == nullptr);
    z->set_output(true).set_uid(4);
    CHECK_GOOD(adaptive.build(handle));
    auto scales = numbers(16, 5), biases = numbers(16, 6);
    run(adaptive, handle, {{1, vx.data()}, {2, scales.data()}, {3, biases.data()}, {4, vy.data()}});
    for (size_t i = 0; i < 48; i++)
    {
        const size_t factor = i / 24 * 8 + i % 8;
        expected[i] = (vx[i] - means[i / 8]) * inverses[i / 8] * scales[factor] + biases[factor];
    }
    CHECK(close(vy, expected));
}

/* (x^T)[1:, ::2] reshaped, of memory that is bound once; saved and loaded, too. */
static void views(cudnnHandle_t handle)
{
    fe::graph::Graph graph = of_floats();
    auto x = given(1, {4, 6});
    auto turned = graph.transpose(x, fe::graph::Transpose_attributes().set_name("turned").set_permutation({1, 0}));
    turned->set_output(true).set_uid(2).set_dim({6, 4}).set_stride({4, 1});
    auto part = graph.slice(x, fe::graph::Slice_attributes().set_slices({{1, 4}, {0, 6}}).set_strides({1, 2}));
    auto sum = graph.pointwise(part, std::make_shared<Tensor_attributes>(1.0F),
                               fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    sum->set_output(true).set_uid(3).set_dim({3, 3}).set_stride({3, 1});
    auto flat = graph.reshape(x, fe::graph::Reshape_attributes());
    flat->set_dim({3, 8}).set_output(true).set_uid(4);
    CHECK_GOOD(graph.build(handle));
    auto vx = numbers(24);
    std::vector<float> vturned(24), vsum(9), vflat(24), turns(24), sums(9);
    for (size_t i = 0; i < 24; i++)
    {
        turns[i] = vx[i % 4 * 6 + i / 4];
    }
    for (size_t i = 0; i < 9; i++)
    {
        sums[i] = vx[(i / 3 + 1) * 6 + i % 3 * 2] + 1;
    }
    const hipdnn::VariantPack pack = {{1, vx.data()}, {2, vturned.data()}, {3, vsum.data()}, {4, vflat.data()}};
    run(graph, handle, pack);
    CHECK(vturned == turns && close(vsum, sums) && vflat == vx);
    CHECK_BAD(graph.execute(handle, hipdnn::VariantPack{{2, vturned.data()}}, nullptr), fe::error_code_t::INVALID_VALUE,
              "no memory");

    std::vector<uint8_t> saved;
    CHECK_GOOD(graph.serialize(saved));
    fe::graph::Graph loaded;
    CHECK_GOOD(loaded.deserialize(handle, saved));
    vturned.assign(24, 0);
    run(loaded, handle, pack);
    CHECK(vturned == turns);

    const auto refuses = [](const char* word, const auto& add) {
        fe::graph::Graph wrong = of_floats();
        add(wrong)->set_output(true);
        CHECK_BAD(wrong.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, word);
    };
    refuses("transpose",
            [&](auto& to) { return to.transpose(x, fe::graph::Transpose_attributes().set_permutation({0, 0})); });
    refuses("slice", [&](auto& to) { return to.slice(x, fe::graph::Slice_attributes().set_slices({{0, 5}, {0, 6}})); });
    refuses("transpose", [&](auto& to) {
        return to.transpose(to.pointwise(x, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::EXP)),
                            fe::graph::Transpose_attributes().set_permutation({1, 0}));
    });
    fe::graph::Graph larger = of_floats();
    larger.reshape(x, fe::graph::Reshape_attributes())->set_dim({5, 5}).set_stride({5, 1}).set_output(true);
    CHECK_BAD(larger.validate(), fe::error_code_t::INVALID_VALUE, "(5, 5)");
}

static void scaled_product(cudnnHandle_t handle)
{
    fe::graph::Graph graph = of_floats();
    const std::vector<int64_t> one = {1, 1, 1};
    auto [c, amax] = graph.matmul_fp8(given(1, {1, 2, 2}), given(2, {1, 2, 2}), given(3, one), given(4, one),
                                      given(5, one), fe::graph::Matmul_fp8_attributes().set_name("scaled"));
    c->set_output(true).set_uid(6);
    amax->set_output(true).set_uid(7);
    CHECK_GOOD(graph.build(handle));
    std::vector<float> a = {1, 2, 3, 4}, b = {1, 0, 0, -1}, da = {2}, db = {0.5F}, scale = {10}, vc(4), vamax(1);
    run(graph, handle,
        {{1, a.data()},
         {2, b.data()},
         {3, da.data()},
         {4, db.data()},
         {5, scale.data()},
         {6, vc.data()},
         {7, vamax.data()}});
    CHECK(close(vc, {10, -20, 30, -40}) && close(vamax, {4}));
    const auto t = given(1, {1, 1, 2, 2});
    fe::graph::Graph back = of_floats();
    back.sdpa_fp8_backward(t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t,
                           fe::graph::SDPA_fp8_backward_attributes());
    CHECK_BAD(back.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "sdpa_fp8_backward");
}

/* A copy outlives the graph that it is of, and has its plans. */
static void copies(cudnnHandle_t handle)
{
    std::vector<float> x = {1, -2}, y(2);
    const auto made = [&] {
        fe::graph::Graph graph = of_floats();
        auto result =
            graph.pointwise(given(1, {1, 2}), fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::NEG));
        result->set_output(true).set_uid(2);
        CHECK_GOOD(graph.build(handle));
        return std::make_tuple(graph, result);
    };
    auto [graph, result] = made();
    const fe::graph::Graph another = graph;
    graph = of_floats();
    CHECK(graph.build(handle).is_bad() && result->get_uid() == 2);
    CHECK_GOOD(another.execute(handle, hipdnn::VariantPack{{1, x.data()}, {2, y.data()}}, nullptr));
    CHECK(close(y, {-1, 2}));
}

/* Engines by their rank, knobs by numbers, notes, keys; and what is refused. */
static void choices(cudnnHandle_t handle)
{
    const auto make = [&](int64_t rows, int64_t uid) {
        fe::graph::Graph graph = of_floats();
        auto c = graph.matmul(given(uid, {1, rows, 4}), given(uid + 1, {1, 4, 2}), fe::graph::Matmul_attributes());
        c->set_output(true).set_uid(uid + 2);
        CHECK_GOOD(graph.validate());
        return graph;
    };
    CHECK(make(3, 1).key() == make(3, 7).key() && make(3, 1).key() != make(5, 1).key());
    CHECK(make(3, 1).key(true) == make(5, 1).key(true));
    fe::graph::Graph graph = make(3, 1);
    std::ostringstream printed;
    printed << graph;
    CHECK(printed.str().find("matmul") == 0);
    CHECK_GOOD(graph.build_operation_graph(handle));
    CHECK(graph.print().find('{') == 0);
    int64_t count = 0, engine = -1;
    CHECK_GOOD(graph.get_engine_count(count));
    CHECK(count > 0);
    std::vector<fe::Knob> knobs;
    CHECK_GOOD(graph.get_knobs_for_engine(0, knobs));
    CHECK_BAD(graph.get_knobs_for_engine(count, knobs), fe::error_code_t::INVALID_VALUE, "engine index");
    CHECK_BAD(graph.create_execution_plan(0, {{fe::KnobType_t::STAGES, 3}}), fe::error_code_t::INVALID_VALUE, "stages");
    CHECK_GOOD(graph.create_execution_plan(0, {}));
    std::unordered_map<fe::KnobType_t, int64_t> values = {{fe::KnobType_t::TILEK, 1}};
    CHECK_GOOD(graph.get_engine_and_knobs_at_index(0, engine, values));
    CHECK(engine == 0 && values.empty() && graph.get_execution_plan_count() == 1);
    CHECK_GOOD(graph.build_plans(fe::BuildPlanPolicy_t::ALL));
    std::vector<fe::BehaviorNote_t> notes;
    CHECK_GOOD(graph.get_behavior_notes(notes));
    int fake = 0;
    CHECK_BAD(graph.populate_cuda_graph(handle, hipdnn::VariantPack(), nullptr, &fake),
              fe::error_code_t::GRAPH_NOT_SUPPORTED, "captured");
    CHECK_BAD(graph.update_cuda_graph(handle, hipdnn::VariantPack(), nullptr, &fake),
              fe::error_code_t::GRAPH_NOT_SUPPORTED, "captured");
    graph.select_behavior_notes({fe::BehaviorNote_t::SUPPORTS_CUDA_GRAPH_NATIVE_API});
    CHECK(graph.check_support().is_bad());
    fe::graph::Graph elsewhere = make(3, 1);
    auto device = std::make_shared<fe::DeviceProperties>();
    CHECK(device->set_device_id(0).build().is_bad());
    elsewhere.set_device_properties(device).set_kernel_cache(std::make_shared<fe::KernelCache>());
    CHECK_BAD(elsewhere.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "set_device_properties");
    CHECK(fe::detail::knob_type("provider.TILE_M") == fe::KnobType_t::TILE_M &&
          fe::detail::knob_type("other") == fe::KnobType_t::NOT_SET);
    CHECK(fe::detail::knob_type("global.workspace_size_limit") == fe::KnobType_t::WORKSPACE &&
          static_cast<int>(fe::KnobType_t::TILE_CGA) == 32);
}

int main()
{
    cudnnHandle_t handle = nullptr;
    CHECK(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
    changed_scores(handle);
    dropout(handle);
    norms(handle);
    views(handle);
    scaled_product(handle);
    copies(handle);
    choices(handle);
    CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
    std::puts("right");
}
