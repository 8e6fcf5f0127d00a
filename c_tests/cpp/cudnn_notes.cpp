/* Numerical notes and peer statistics of cuDNN's interface, through AMD's path for it: honoured by knobs, or the engines
 * that cannot are left out with the reason. */

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

/** A convolution of 3 x 3, which CPU_ENGINE transforms by Winograd if a knob asks for it. */
void convolve(fe::graph::Graph& graph)
{
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    auto how = fe::graph::Conv_fprop_attributes().set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1});
    graph.conv_fprop(given(1, {1, 16, 8, 8}), given(2, {16, 16, 3, 3}), how)->set_output(true).set_uid(3);
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
        convolve(graph);
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
        std::vector<float> x = numbers(1024), w = numbers(2304, 2), y(1024);
        std::vector<char> workspace(static_cast<size_t>(graph.get_workspace_size()) + 64);
        CHECK_GOOD(graph.execute(handle, {{1, x.data()}, {2, w.data()}, {3, y.data()}}, workspace.data()));
    }
}

void refused(cudnnHandle_t handle)
{
    fe::graph::Graph graph;
    make(graph);
    graph.deselect_numeric_notes({fe::NumericalNote_t::NOT_SET});
    graph.select_numeric_notes({});
    CHECK_GOOD(graph.build(handle));

    /* No engine on the CPU adds up in fewer bits, so that this asks for nothing. */
    fe::graph::Graph reduced;
    make(reduced);
    reduced.deselect_numeric_notes({fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION, fe::NumericalNote_t::FFT});
    CHECK_GOOD(reduced.build(handle));

    fe::graph::Graph late;
    make(late);
    CHECK_GOOD(late.build_operation_graph(handle));
    CHECK_GOOD(late.create_execution_plans({fe::HeurMode_t::A}));
    late.select_numeric_notes({fe::NumericalNote_t::FFT});
    CHECK_BAD(late.check_support(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "select_numeric_notes(FFT)");
    CHECK_BAD(late.build_plans(), fe::error_code_t::GRAPH_NOT_SUPPORTED,
              "engine CPU_ENGINE does not have the note FFT, which is selected");
    CHECK_BAD(late.build_plan_at_index(0), fe::error_code_t::GRAPH_NOT_SUPPORTED, "engine CPU_REFERENCE_ENGINE");

    fe::graph::Graph unknown;
    make(unknown);
    unknown.select_numeric_notes({static_cast<fe::NumericalNote_t>(77)});
    CHECK_BAD(unknown.validate(), fe::error_code_t::GRAPH_NOT_SUPPORTED, "select_numeric_notes(77)");
}

/** The result of a convolution with notes selected and deselected. */
std::vector<float> convolved(cudnnHandle_t handle, const std::vector<fe::NumericalNote_t>& selected,
                             const std::vector<fe::NumericalNote_t>& deselected)
{
    fe::graph::Graph graph;
    convolve(graph);
    graph.select_numeric_notes(selected).deselect_numeric_notes(deselected);
    CHECK_GOOD(graph.build(handle));
    std::vector<float> x = numbers(1024), w = numbers(2304, 2), y(1024);
    std::vector<char> workspace(static_cast<size_t>(graph.get_workspace_size()) + 64);
    CHECK_GOOD(graph.execute(handle, {{1, x.data()}, {2, w.data()}, {3, y.data()}}, workspace.data()));
    return y;
}

/** The knobs that notes set show in the numbers. */
void winograd(cudnnHandle_t handle)
{
    using Note = fe::NumericalNote_t;
    const auto direct = convolved(handle, {}, {Note::WINOGRAD, Note::WINOGRAD_TILE_4x4, Note::WINOGRAD_TILE_6x6});
    const auto two = convolved(handle, {Note::WINOGRAD, Note::WINOGRAD_TILE_4x4}, {});
    const auto four = convolved(handle, {Note::WINOGRAD_TILE_6x6}, {Note::NONDETERMINISTIC});
    CHECK(direct != two && direct != four && two != four);
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
    winograd(*handle);
    peers(*handle);
    std::puts("right");
}
