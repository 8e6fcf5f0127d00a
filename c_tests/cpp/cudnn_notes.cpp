/* Numerical notes and peer statistics of cuDNN's interface, through AMD's path for it: honoured or refused, never ignored. */

#include <hipdnn_compatibility/cudnn/cudnn_frontend.h>

#include "check.hpp"

namespace cudnn_frontend = hipdnn_frontend::compatibility::cudnn_frontend;
namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

namespace
{

hipdnn::TensorPtr given(int64_t uid, const std::vector<int64_t>& dims)
{
    return fe::graph::Graph::tensor(
        Tensor_attributes().set_uid(uid).set_dim(dims).set_stride(hipdnn::packed_strides(dims)));
}

void make(fe::graph::Graph& graph)
{
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    graph.matmul(given(1, {1, 8, 8}), given(2, {1, 8, 8}), fe::graph::Matmul_attributes())->set_output(true).set_uid(3);
}

/** Tells the knobs of the chosen plan. */
class Looked : public fe::graph::Graph
{
public:
    bool is_deterministic() const
    {
        const auto* plan = active();
        return plan != nullptr && plan->settings != nullptr &&
               *plan->settings == std::vector<hipdnn::KnobSetting>{{"deterministic", int64_t{1}}};
    }
};

void equal_bits(cudnnHandle_t handle)
{
    /* Before plans exist, and after. */
    for (const bool before : {true, false})
    {
        Looked graph;
        make(graph);
        if (before)
        {
            graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
        }
        CHECK_GOOD(graph.validate());
        CHECK_GOOD(graph.build_operation_graph(handle));
        CHECK_GOOD(graph.create_execution_plans({fe::HeurMode_t::A}));
        if (!before)
        {
            graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
        }
        CHECK_GOOD(graph.check_support(handle));
        CHECK_GOOD(graph.build_plans(handle));
        std::string name;
        CHECK_GOOD(graph.get_plan_name(name));
        CHECK(name == "CPU_ENGINE");
        /* The plan has the knob. */
        CHECK(graph.is_deterministic());
        std::vector<float> a = numbers(64), b = numbers(64, 2), c(64);
        std::vector<char> workspace(static_cast<size_t>(graph.get_workspace_size()) + 64);
        CHECK_GOOD(graph.execute(handle, {{1, a.data()}, {2, b.data()}, {3, c.data()}}, workspace.data()));
    }
}

void refused(cudnnHandle_t handle)
{
    fe::graph::Graph graph;
    make(graph);
    graph.deselect_numeric_notes({fe::NumericalNote_t::NOT_SET});
    graph.select_numeric_notes({});
    CHECK_GOOD(graph.build(handle));

    fe::graph::Graph reduced;
    make(reduced);
    reduced.deselect_numeric_notes({fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION});
    CHECK_BAD(reduced.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "REDUCED_PRECISION_REDUCTION");
    CHECK_BAD(reduced.build(handle), fe::error_code_t::GRAPH_NOT_SUPPORTED, "deselect_numeric_notes");

    fe::graph::Graph late;
    make(late);
    CHECK_GOOD(late.build_operation_graph(handle));
    CHECK_GOOD(late.create_execution_plans({fe::HeurMode_t::A}));
    late.select_numeric_notes({fe::NumericalNote_t::TENSOR_CORE});
    CHECK_BAD(late.check_support(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "select_numeric_notes(TENSOR_CORE)");
    CHECK_BAD(late.build_plans(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "TENSOR_CORE");
    CHECK_BAD(late.build_plan_at_index(0), fe::error_code_t::GRAPH_NOT_SUPPORTED, "TENSOR_CORE");
}

hipdnn::Error normalize(cudnnHandle_t handle, int64_t peers, std::vector<float>& y)
{
    fe::graph::Graph graph;
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const std::vector<int64_t> dims = {2, 2, 1, 1}, channels = {1, 2, 1, 1};
    std::vector<hipdnn::TensorPtr> statistics;
    for (int64_t peer = 0; peer < peers; peer++)
    {
        statistics.push_back(given(20 + peer, {2, 8, 1, 1}));
    }
    auto how = fe::graph::Batchnorm_attributes().set_epsilon(graph.tensor(0.5F)).set_peer_stats(statistics);
    const auto made = graph.batchnorm(given(1, dims), given(2, channels), given(3, channels), how);
    made[0]->set_output(true).set_uid(4);
    HIPDNN_CPP_TRY(graph.build(handle));
    std::vector<float> x = {1, 2, 3, -2}, scale = {1, 2}, bias = {0, 1}, peer(16);
    hipdnn::VariantPack pack = {{1, x.data()}, {2, scale.data()}, {3, bias.data()}, {4, y.data()}};
    for (int64_t at = 0; at < peers; at++)
    {
        pack[20 + at] = peer.data();
    }
    std::vector<char> workspace(static_cast<size_t>(graph.get_workspace_size()) + 64);
    return graph.execute(handle, pack, workspace.data());
}

/** One device's buffer changes nothing; those of several are refused with the reason. */
void peers(cudnnHandle_t handle)
{
    std::vector<float> alone(4), one(4), two(4);
    CHECK_GOOD(normalize(handle, 0, alone));
    CHECK_GOOD(normalize(handle, 1, one));
    CHECK(alone == one && close(alone[0], -1 / std::sqrt(1.5F)));
    CHECK_BAD(normalize(handle, 2, two), fe::error_code_t::GRAPH_NOT_SUPPORTED, "peer_stats: has 2 tensors");
}

} // namespace

int main()
{
    const auto handle = create_cudnn_handle();
    CHECK(handle != nullptr);
    equal_bits(*handle);
    refused(*handle);
    peers(*handle);
    std::puts("right");
}
