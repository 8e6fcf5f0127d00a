/* A program as users of AMD's frontend write it: its names, its order of calls, its two ways to bind memory. */

#include <hipdnn/compat/hipdnn_frontend.hpp>

#include "check.hpp"

#include <unordered_map>

using namespace hipdnn_frontend;
using namespace hipdnn_frontend::graph;

static float relu(float x) { return x > 0 ? x : 0; }

/* Convolution, bias and ReLU, each step called by itself. */
static void step_by_step(hipdnnHandle_t handle)
{
    Graph graph;
    graph.set_name("conv_bias_relu").set_io_data_type(DataType::FLOAT);
    graph.set_intermediate_data_type(DataType_t::FLOAT).set_compute_data_type(DataType::FLOAT);
    auto x = std::make_shared<TensorAttributes>();
    x->set_name("x").set_uid(1).set_dim({1, 2, 4, 4}).set_stride({32, 16, 4, 1});
    auto w = Graph::tensor(Tensor_attributes().set_name("w").set_uid(2).set_dim({3, 2, 1, 1}).set_stride({2, 1, 1, 1}));
    auto b = makeTensorAttributes("b", DataType::FLOAT, {1, 3, 1, 1}, {3, 1, 1, 1});
    auto conv =
        graph.conv_fprop(x, w, ConvFpropAttributes().set_padding({0, 0}).set_stride({1, 1}).set_dilation({1, 1}));
    auto sum = graph.pointwise(conv, b, Pointwise_attributes().set_name("bias").set_mode(PointwiseMode_t::ADD));
    auto y = graph.pointwise(sum, PointwiseAttributes().set_mode(PointwiseMode::RELU_FWD));
    y->set_output(true).set_uid(7);

    CHECK_GOOD(graph.validate());
    CHECK((y->get_dim() == std::vector<int64_t>{1, 3, 4, 4}));
    CHECK((y->get_stride() == std::vector<int64_t>{48, 16, 4, 1}));
    CHECK(conv->get_name() == "ConvolutionFprop_0::Y" && sum->get_name() == "bias::OUT_0");
    CHECK_GOOD(graph.build_operation_graph(handle));
    CHECK(b->has_uid() && conv->has_uid());
    std::vector<int64_t> engines;
    CHECK_GOOD(graph.get_ranked_engine_ids(engines));
    CHECK(!engines.empty());
    CHECK_GOOD(graph.create_execution_plans({HeurMode_t::FALLBACK}));
    CHECK_GOOD(graph.check_support());
    CHECK_GOOD(graph.build_plans(BuildPlanPolicy_t::ALL));
    int64_t bytes = -1;
    CHECK_GOOD(graph.get_workspace_size(bytes));
    std::vector<char> workspace(static_cast<size_t>(bytes) + 1);

    auto vx = numbers(32), vw = numbers(6, 2), vb = numbers(3, 3);
    std::vector<float> vy(48), expected(48);
    for (size_t k = 0; k < 3; k++)
    {
        for (size_t at = 0; at < 16; at++)
        {
            expected[k * 16 + at] = relu(vx[at] * vw[k * 2] + vx[16 + at] * vw[k * 2 + 1] + vb[k]);
        }
    }
    std::unordered_map<int64_t, void*> pack{{1, vx.data()}, {2, vw.data()}, {b->get_uid(), vb.data()}, {7, vy.data()}};
    CHECK_GOOD(graph.execute(handle, pack, workspace.data()));
    CHECK(close(vy, expected));
    for (int64_t plan = 0; plan < graph.get_execution_plan_count(); plan++)
    {
        if (graph.build_plan_at_index(plan).is_good())
        {
            std::vector<char> room(static_cast<size_t>(graph.get_workspace_size_plan_at_index(plan)) + 1);
            vy.assign(48, -1.0F);
            std::unordered_map<std::shared_ptr<TensorAttributes>, void*> by_tensor{
                {x, vx.data()}, {w, vw.data()}, {b, vb.data()}, {y, vy.data()}};
            CHECK_GOOD(graph.execute_plan_at_index(handle, by_tensor, room.data(), plan));
            CHECK(close(vy, expected));
        }
    }

    /* The graph and the plan go to another process as bytes. */
    std::vector<uint8_t> data;
    CHECK_GOOD(graph.serialize(data));
    Graph loaded;
    CHECK_GOOD(loaded.deserialize(handle, data));
    CHECK(loaded.get_name() == "conv_bias_relu" && loaded.getTensorsByUid().count(7) == 1 &&
          loaded.getTensorsByName().count("b") == 1);
    std::vector<uint8_t> again;
    CHECK_GOOD(loaded.serialize(again));
    CHECK(again == data);
    CHECK_GOOD(loaded.create_execution_plans());
    CHECK_GOOD(loaded.build_plans());
    CHECK_GOOD(loaded.get_workspace_size(bytes));
    workspace.resize(static_cast<size_t>(bytes) + 1);
    vy.assign(48, -1.0F);
    CHECK_GOOD(loaded.execute(handle, pack, workspace.data()));
    CHECK(close(vy, expected));
    auto [plan, error] = loaded.to_compiled_plan_binary();
    CHECK_GOOD(error);
    Graph ready;
    CHECK_GOOD(ready.from_compiled_plan_binary(handle, plan));
    vy.assign(48, -1.0F);
    CHECK_GOOD(ready.execute(handle, pack, workspace.data()));
    CHECK(close(vy, expected));
}

/* Failures have a code and a message. */
static void errors(hipdnnHandle_t handle)
{
    Graph graph;
    graph.set_io_data_type(DataType::FLOAT).set_compute_data_type(DataType::FLOAT);
    auto a = makeTensorAttributes("a", {1, 2, 3}, {6, 3, 1}), b = makeTensorAttributes("b", {1, 4, 5}, {20, 5, 1});
    auto c = graph.matmul(a, b, Matmul_attributes());
    c->set_output(true);
    CHECK_BAD(graph.validate(), ErrorCode::INVALID_VALUE, "b");
    CHECK_BAD(graph.build_plans(), error_code_t::INVALID_VALUE, "create_execution_plans");
    CHECK_BAD(graph.execute(handle, std::unordered_map<int64_t, void*>{}, nullptr), ErrorCode::INVALID_VALUE, "build");

    Graph parts;
    parts.set_io_data_type(DataType::FLOAT)
        .set_compute_data_type(DataType::FLOAT)
        .set_intermediate_data_type(DataType::FLOAT);
    for (const char* name : {"p", "q"})
    {
        auto in = makeTensorAttributes(name, {2, 2}, {2, 1});
        parts.pointwise(in, PointwiseAttributes().set_mode(PointwiseMode::EXP))->set_output(true);
    }
    CHECK_BAD(parts.validate(), ErrorCode::INVALID_VALUE, "share no tensor");
    CHECK_BAD(parts.checkTensorUidsSet(), ErrorCode::ATTRIBUTE_NOT_SET, "no uid");

    Graph doubled;
    auto one = makeTensorAttributes("one", DataType::FLOAT, {2}, {1}),
         two = makeTensorAttributes("two", DataType::FLOAT, {2}, {1});
    one->set_uid(5);
    two->set_uid(5);
    doubled.pointwise(one, two, PointwiseAttributes().set_mode(PointwiseMode::ADD));
    CHECK_BAD(doubled.checkNoDuplicateTensorIds(), ErrorCode::INVALID_VALUE, "uid 5");
}

static hipdnn_frontend::error_t through_macros(bool fail)
{
    HIPDNN_RETURN_IF_TRUE(fail, ErrorCode::INVALID_VALUE, "asked to fail");
    HIPDNN_CHECK_ERROR(Error());
    return {};
}

static std::string last_line;
static void keep_line(hipdnnSeverity_t, const char* line) { last_line = line; }

int main()
{
    auto [handle, error] = createHipdnnHandle();
    CHECK_GOOD(error);
    hipStream_t stream = nullptr;
    CHECK_GOOD(getHipdnnHandleStream(handle, &stream));
    CHECK_GOOD(setHipdnnHandleStream(handle, stream));
    std::vector<std::string> plugins;
    CHECK_GOOD(getLoadedEnginePluginPaths(*handle, plugins));
    CHECK(!plugins.empty() &&
          (plugins[0].find(".so") != std::string::npos || plugins[0].find(".dll") != std::string::npos));
    auto [policies, policies_error] = getLoadedHeuristicPolicyInfos(*handle);
    CHECK_GOOD(policies_error);
    CHECK(!policies.empty() && !policies[0].policyName.empty());
    CHECK(initializeFrontendLogging(nullptr) == -1 && initializeFrontendLogging(keep_line) == 0);
    HIPDNN_FE_LOG_INFO("made " << 1 << " handle");
    CHECK(last_line == "made 1 handle");
    CHECK_GOOD(through_macros(false));
    CHECK_BAD(through_macros(true), ErrorCode::INVALID_VALUE, "asked to fail");
    step_by_step(*handle);
    errors(*handle);
    std::puts("right");
}
