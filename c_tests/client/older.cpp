/* SPDX-License-Identifier: MIT */

/* The flow of a frontend of November 2025: a graph of bytes in the layout of that time, and a plan that is created early. */
#include "flows.hpp"

#include "../../examples_c/flatbuffer_writer.hpp"

namespace client
{

namespace
{

constexpr std::int8_t FLOAT = 1;
constexpr std::int8_t CROSS_CORRELATION = 2;
constexpr std::uint8_t CONVOLUTION_FORWARD = 5;

FlatBuffer::Position write_tensor(FlatBuffer& buffer, int64_t uid, const std::vector<int64_t>& dims)
{
    const auto name = buffer.string("tensor " + std::to_string(uid));
    const auto strides =
        buffer.vector(std::vector<int64_t>{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1});
    const auto dims_at = buffer.vector(dims);
    buffer.begin_table();
    buffer.field(0, uid);
    buffer.field_offset(1, name);
    buffer.field(2, FLOAT);
    buffer.field_offset(3, strides);
    buffer.field_offset(4, dims_at);
    return buffer.end_table();
}

/* A node of that time has no data type between its name and its kind. */
std::vector<uint8_t> write_graph()
{
    FlatBuffer buffer;
    const auto x = write_tensor(buffer, UID_X, {1, 2, 4, 4});
    const auto w = write_tensor(buffer, UID_W, {2, 2, 3, 3});
    const auto y = write_tensor(buffer, UID_Y, {1, 2, 4, 4});
    const auto tensors = buffer.offsets({x, w, y});
    const auto ones = buffer.vector(std::vector<int64_t>{1, 1});
    buffer.begin_table();
    buffer.field(0, UID_X);
    buffer.field(1, UID_W);
    buffer.field(2, UID_Y);
    for (int padding_stride_dilation = 3; padding_stride_dilation <= 6; padding_stride_dilation++)
    {
        buffer.field_offset(padding_stride_dilation, ones);
    }
    buffer.field(7, CROSS_CORRELATION);
    const auto convolution = buffer.end_table();
    const auto name = buffer.string("convolution");
    buffer.begin_table();
    buffer.field_offset(0, name);
    buffer.field(1, CONVOLUTION_FORWARD);
    buffer.field_offset(2, convolution);
    const auto node = buffer.end_table();
    const auto nodes = buffer.offsets({node});
    buffer.begin_table();
    for (int computation_between_ends = 1; computation_between_ends <= 3; computation_between_ends++)
    {
        buffer.field(computation_between_ends, FLOAT);
    }
    buffer.field_offset(4, tensors);
    buffer.field_offset(5, nodes);
    return buffer.finish(buffer.end_table());
}

} // namespace

void run_older_flow(const Library& library)
{
    const Session session(library);
    look_around(session);
    const auto bytes = write_graph();
    hipdnnBackendDescriptor_t raw = nullptr;
    CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeGraph_ext, &raw, bytes.data(), bytes.size());
    Descriptor graph(session, raw);
    hipdnnHandle_t handle = session.handle();
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle).finalize();

    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    Descriptor heuristic(session, HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode)
        .finalize();
    int64_t count = 0;
    CLIENT_CHECK(session, hipdnnBackendGetAttribute, heuristic.raw(), HIPDNN_ATTR_ENGINEHEUR_RESULTS,
                 HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
    require(count == 2, "another number of engines than two");
    /* Room for one is enough for the best. */
    Descriptor config(session, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    hipdnnBackendDescriptor_t best = config.raw();
    CLIENT_CHECK(session, hipdnnBackendGetAttribute, heuristic.raw(), HIPDNN_ATTR_ENGINEHEUR_RESULTS,
                 HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &best);
    require(best == config.raw() && count == 1, "the configuration was replaced instead of filled");

    Descriptor plan(session, HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    config.finalize();
    plan.set(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finalize();
    Data data(1);
    execute(session, plan, data, {UID_X, UID_W, UID_Y});
    data.check(false, "graph bytes of November 2025");
}

} // namespace client
