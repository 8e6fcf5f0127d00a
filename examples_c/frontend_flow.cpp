// SPDX-License-Identifier: MIT

// Drives the library as two generations of header-only C++ frontends do, and checks the results.
//
// The older frontend (November 2025) writes the whole graph as FlatBuffers bytes, in the layout of that time,
// and passes them. The newer one (2026) builds the graph from tensor and operation descriptors. Both then continue
// with their own order of calls: heuristic, engine configuration, plan, variant pack, execution.
//
// Exit status: 0 when both ways give the expected values.

#include "flatbuffer_writer.hpp"

#include <hipdnn_backend.h>
#include <HipdnnOperationType.h>
#include <HipdnnPointwiseMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

// Like a frontend, turns every status into its own kind of error, with the library's message.
void check(hipdnnStatus_t status, const char* call)
{
    if (status != HIPDNN_STATUS_SUCCESS) {
        std::array<char, 256> text{};
        hipdnnGetLastErrorString(text.data(), text.size());
        throw std::runtime_error(std::string(call) + ": " + hipdnnGetErrorString(status) + ": " + text.data());
    }
}
#define CHECK(call) check((call), #call)

void require(bool condition, const char* what)
{
    if (!condition) {
        throw std::runtime_error(what);
    }
}

// Owns a descriptor, as a frontend's wrapper does.
class Descriptor {
public:
    explicit Descriptor(hipdnnBackendDescriptorType_t type)
    {
        CHECK(hipdnnBackendCreateDescriptor(type, &_descriptor));
    }

    explicit Descriptor(const std::vector<std::uint8_t>& graph)
    {
        CHECK(hipdnnBackendCreateAndDeserializeGraph_ext(&_descriptor, graph.data(), graph.size()));
    }

    Descriptor(Descriptor&& other) noexcept : _descriptor(std::exchange(other._descriptor, nullptr)) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    Descriptor& operator=(Descriptor&&) = delete;

    ~Descriptor()
    {
        if (_descriptor != nullptr) {
            hipdnnBackendDestroyDescriptor(_descriptor);
        }
    }

    hipdnnBackendDescriptor_t get() const { return _descriptor; }

    void set(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, std::int64_t count,
             const void* values)
    {
        CHECK(hipdnnBackendSetAttribute(_descriptor, name, type, count, values));
    }

    void set(hipdnnBackendAttributeName_t name, const Descriptor& value)
    {
        const hipdnnBackendDescriptor_t raw = value.get();
        set(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
    }

    void set(hipdnnBackendAttributeName_t name, const std::vector<std::int64_t>& values)
    {
        set(name, HIPDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
    }

    void set(hipdnnBackendAttributeName_t name, hipdnnDataType_t value) { set(name, HIPDNN_TYPE_DATA_TYPE, 1, &value); }

    void set(hipdnnBackendAttributeName_t name, const std::string& value)
    {
        set(name, HIPDNN_TYPE_CHAR, static_cast<std::int64_t>(value.size()), value.data());
    }

    void finalize() { CHECK(hipdnnBackendFinalize(_descriptor)); }

private:
    hipdnnBackendDescriptor_t _descriptor = nullptr;
};

class Handle {
public:
    Handle() { CHECK(hipdnnCreate(&_handle)); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { hipdnnDestroy(_handle); }

    hipdnnHandle_t get() const { return _handle; }

private:
    hipdnnHandle_t _handle = nullptr;
};

using Shape = std::vector<std::int64_t>;

// The graph schema's numbers, which differ from those of the C enums.
constexpr std::int8_t graph_float = 1;
constexpr std::int8_t graph_cross_correlation = 2;
constexpr std::uint8_t graph_convolution_forward = 5;

// x [1,2,4,4] convolved with w [2,2,3,3], padding 1: y [1,2,4,4]
constexpr std::int64_t uid_x = 11;
constexpr std::int64_t uid_w = 12;
constexpr std::int64_t uid_y = 13;
const Shape shape_x{1, 2, 4, 4};
const Shape shape_w{2, 2, 3, 3};

Shape packed(const Shape& shape)
{
    Shape strides(shape.size(), 1);
    for (std::size_t i = shape.size() - 1; i > 0; i--) {
        strides[i - 1] = strides[i] * shape[i];
    }
    return strides;
}

FlatBuffer::Position write_tensor(FlatBuffer& buffer, std::int64_t uid, const std::string& name, const Shape& shape)
{
    const auto name_position = buffer.string(name);
    const auto strides = buffer.vector(packed(shape));
    const auto dims = buffer.vector(shape);
    buffer.begin_table();
    buffer.field(0, uid);
    buffer.field_offset(1, name_position);
    buffer.field(2, graph_float);
    buffer.field_offset(3, strides);
    buffer.field_offset(4, dims);
    buffer.field(5, std::uint8_t{0}); // not virtual
    return buffer.end_table();
}

// The graph as written by the frontend of November 2025: a node is {name, kind of operation, operation}. The layout of
// 2026 has a data type before the kind.
std::vector<std::uint8_t> write_graph()
{
    FlatBuffer buffer;
    const std::vector<FlatBuffer::Position> tensors{write_tensor(buffer, uid_x, "x", shape_x),
                                                    write_tensor(buffer, uid_w, "w", shape_w),
                                                    write_tensor(buffer, uid_y, "y", shape_x)};
    const auto tensor_list = buffer.offsets(tensors);

    const auto ones = buffer.vector(Shape{1, 1});
    buffer.begin_table();
    buffer.field(0, uid_x);
    buffer.field(1, uid_w);
    buffer.field(2, uid_y);
    buffer.field_offset(3, ones); // padding before
    buffer.field_offset(4, ones); // padding after
    buffer.field_offset(5, ones); // stride
    buffer.field_offset(6, ones); // dilation
    buffer.field(7, graph_cross_correlation);
    const auto convolution = buffer.end_table();

    const auto node_name = buffer.string("convolution");
    buffer.begin_table();
    buffer.field_offset(0, node_name);
    buffer.field(1, graph_convolution_forward);
    buffer.field_offset(2, convolution);
    const auto node = buffer.end_table();
    const auto node_list = buffer.offsets({node});

    const auto graph_name = buffer.string("one convolution");
    buffer.begin_table();
    buffer.field_offset(0, graph_name);
    buffer.field(1, graph_float); // computation
    buffer.field(2, graph_float); // intermediate tensors
    buffer.field(3, graph_float); // inputs and outputs
    buffer.field_offset(4, tensor_list);
    buffer.field_offset(5, node_list);
    return buffer.finish(buffer.end_table());
}

struct Data {
    alignas(64) std::array<float, 32> x{};
    alignas(64) std::array<float, 36> w{};
    alignas(64) std::array<float, 32> y{};

    Data()
    {
        for (std::size_t i = 0; i < x.size(); i++) {
            x[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6) / 4.0F;
        }
        for (std::size_t i = 0; i < w.size(); i++) {
            w[i] = static_cast<float>(static_cast<int>(i * 5 % 11) - 5) / 8.0F;
        }
        y.fill(std::nanf(""));
    }

    // The largest difference from the result of plain loops; NaN if a value was not written.
    float error(bool relu) const
    {
        float largest = 0.0F;
        for (int k = 0; k < 2; k++) {
            for (int row = 0; row < 4; row++) {
                for (int column = 0; column < 4; column++) {
                    float sum = 0.0F;
                    for (int c = 0; c < 2; c++) {
                        for (int r = std::max(0, 1 - row); r < std::min(3, 5 - row); r++) {
                            for (int s = std::max(0, 1 - column); s < std::min(3, 5 - column); s++) {
                                sum += x.at(static_cast<std::size_t>((c * 4 + row + r - 1) * 4 + column + s - 1)) *
                                       w.at(static_cast<std::size_t>(((k * 2 + c) * 3 + r) * 3 + s));
                            }
                        }
                    }
                    const float want = relu ? std::max(sum, 0.0F) : sum;
                    const float difference =
                        std::fabs(y.at(static_cast<std::size_t>((k * 4 + row) * 4 + column)) - want);
                    if (!(difference <= largest)) {
                        largest = difference;
                    }
                }
            }
        }
        return largest;
    }
};

std::int64_t read_int64(const Descriptor& descriptor, hipdnnBackendAttributeName_t name)
{
    std::int64_t value = -1;
    CHECK(hipdnnBackendGetAttribute(descriptor.get(), name, HIPDNN_TYPE_INT64, 1, nullptr, &value));
    return value;
}

Descriptor make_heuristic(const Descriptor& graph)
{
    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    Descriptor heuristic(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.set(HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode);
    heuristic.finalize();
    return heuristic;
}

std::int64_t count_results(const Descriptor& heuristic)
{
    std::int64_t count = 0;
    CHECK(hipdnnBackendGetAttribute(heuristic.get(), HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                    &count, nullptr));
    require(count > 0, "no engine can run the graph");
    return count;
}

void execute(const Handle& handle, const Descriptor& plan, Data& data, void* workspace)
{
    const std::array<void*, 3> pointers{data.x.data(), data.w.data(), data.y.data()};
    const std::array<std::int64_t, 3> uids{uid_x, uid_w, uid_y};
    Descriptor pack(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, pointers.size(), pointers.data());
    pack.set(HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, uids.size(), uids.data());
    pack.set(HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    pack.finalize();
    CHECK(hipdnnBackendExecute(handle.get(), plan.get(), pack.get()));
}

// Graph bytes, one result of the heuristic, and a plan created before it gets its configuration.
void older_flow(const Handle& handle)
{
    Descriptor graph(write_graph());
    hipdnnHandle_t raw_handle = handle.get();
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &raw_handle);
    graph.finalize();

    const Descriptor heuristic = make_heuristic(graph);
    count_results(heuristic);
    Descriptor config(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    hipdnnBackendDescriptor_t raw_config = config.get();
    std::int64_t filled = 0;
    CHECK(hipdnnBackendGetAttribute(heuristic.get(), HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                    &filled, &raw_config));
    require(filled == 1 && raw_config == config.get(), "the configuration was replaced instead of filled");

    Descriptor plan(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    config.finalize();
    plan.set(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    plan.finalize();
    std::vector<char> workspace(static_cast<std::size_t>(read_int64(plan, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)));

    Data data;
    execute(handle, plan, data, workspace.data());
    const float error = data.error(false);
    std::printf("Graph bytes of 2025: convolution, largest error %.2g\n", static_cast<double>(error));
    require(error <= 1e-5F, "the result of the graph bytes is wrong");
}

Descriptor make_tensor(std::int64_t uid, const char* name, const Shape& shape, bool is_virtual)
{
    const std::int64_t alignment = 16;
    Descriptor tensor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor.set(HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid);
    tensor.set(HIPDNN_ATTR_TENSOR_NAME_EXT, std::string(name));
    tensor.set(HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_DATA_FLOAT);
    tensor.set(HIPDNN_ATTR_TENSOR_DIMENSIONS, shape);
    tensor.set(HIPDNN_ATTR_TENSOR_STRIDES, packed(shape));
    tensor.set(HIPDNN_ATTR_TENSOR_IS_VIRTUAL, HIPDNN_TYPE_BOOLEAN, 1, &is_virtual);
    tensor.set(HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, HIPDNN_TYPE_INT64, 1, &alignment);
    tensor.finalize();
    return tensor;
}

Descriptor make_graph(const Handle& handle)
{
    const Descriptor x = make_tensor(uid_x, "x", shape_x, false);
    const Descriptor w = make_tensor(uid_w, "w", shape_w, false);
    const Descriptor between = make_tensor(14, "between", shape_x, true);
    const Descriptor y = make_tensor(uid_y, "y", shape_x, false);

    const Shape ones{1, 1};
    const hipdnnConvolutionMode_t convolution_mode = HIPDNN_CROSS_CORRELATION;
    Descriptor convolution(HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    convolution.set(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    convolution.set(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    convolution.set(HIPDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, between);
    convolution.set(HIPDNN_ATTR_CONVOLUTION_PRE_PADDINGS, ones);
    convolution.set(HIPDNN_ATTR_CONVOLUTION_POST_PADDINGS, ones);
    convolution.set(HIPDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ones);
    convolution.set(HIPDNN_ATTR_CONVOLUTION_DILATIONS, ones);
    convolution.set(HIPDNN_ATTR_CONVOLUTION_CONV_MODE, HIPDNN_TYPE_CONVOLUTION_MODE, 1, &convolution_mode);
    convolution.set(HIPDNN_ATTR_CONVOLUTION_COMP_TYPE, HIPDNN_DATA_FLOAT);
    convolution.set(HIPDNN_ATTR_OPERATION_NAME_EXT, std::string("convolution"));
    convolution.finalize();

    const hipdnnPointwiseMode_t pointwise_mode = HIPDNN_POINTWISE_RELU_FWD;
    Descriptor relu(HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    relu.set(HIPDNN_ATTR_OPERATION_POINTWISE_IN_0_EXT, between);
    relu.set(HIPDNN_ATTR_OPERATION_POINTWISE_OUT_0_EXT, y);
    relu.set(HIPDNN_ATTR_POINTWISE_MODE, HIPDNN_TYPE_POINTWISE_MODE, 1, &pointwise_mode);
    relu.set(HIPDNN_ATTR_POINTWISE_MATH_PREC, HIPDNN_DATA_FLOAT);
    relu.set(HIPDNN_ATTR_OPERATION_NAME_EXT, std::string("relu"));
    relu.finalize();

    const std::array<hipdnnBackendDescriptor_t, 2> operations{convolution.get(), relu.get()};
    hipdnnHandle_t raw_handle = handle.get();
    Descriptor graph(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, operations.size(), operations.data());
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT, HIPDNN_DATA_FLOAT);
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT, HIPDNN_DATA_FLOAT);
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT, HIPDNN_DATA_FLOAT);
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, std::string("convolution, relu"));
    graph.set(HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &raw_handle);
    graph.finalize();
    return graph;
}

// Descriptors, every result of the heuristic, the details of each engine, and a plan for each.
void newer_flow(const Handle& handle)
{
    const Descriptor graph = make_graph(handle);
    const Descriptor heuristic = make_heuristic(graph);
    std::int64_t count = count_results(heuristic);
    std::vector<Descriptor> configs;
    std::vector<hipdnnBackendDescriptor_t> raw_configs;
    for (std::int64_t i = 0; i < count; i++) {
        configs.emplace_back(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        raw_configs.push_back(configs.back().get());
    }
    CHECK(hipdnnBackendGetAttribute(heuristic.get(), HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                    count, &count, raw_configs.data()));
    require(count == static_cast<std::int64_t>(configs.size()), "fewer results than were counted");

    for (Descriptor& config : configs) {
        config.finalize();
        hipdnnBackendDescriptor_t raw_engine = nullptr;
        CHECK(hipdnnBackendGetAttribute(config.get(), HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                        nullptr, &raw_engine));
        std::array<char, 128> name{};
        std::int64_t length = 0;
        const hipdnnStatus_t status = hipdnnBackendGetAttribute(raw_engine, HIPDNN_ATTR_ENGINE_NAME_EXT,
                                                                HIPDNN_TYPE_CHAR, name.size(), &length, name.data());
        hipdnnBackendDestroyDescriptor(raw_engine);
        check(status, "reading the name of an engine");
        require(read_int64(config, HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) >= 0, "the workspace estimate is negative");

        Descriptor plan(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        plan.set(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        plan.finalize();
        const auto bytes = static_cast<std::size_t>(read_int64(plan, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
        std::vector<std::max_align_t> workspace(bytes / sizeof(std::max_align_t) + 1);

        Data data;
        execute(handle, plan, data, workspace.data());
        const float error = data.error(true);
        std::printf("Descriptors: convolution and relu on %s, largest error %.2g\n", name.data(),
                    static_cast<double>(error));
        require(error <= 1e-5F, "the result of the descriptors is wrong");
    }
}

} // namespace

int main()
{
    try {
        // The data below is in host memory, so only CPU engines can be used. A relative path starts at the library.
        const std::array<const char*, 1> plugins{"hipdnn_plugins/engines/libhipdnn_cpu_plugin.so"};
        CHECK(hipdnnSetEnginePluginPaths_ext(plugins.size(), plugins.data(), HIPDNN_PLUGIN_LOADING_ABSOLUTE));
        const Handle handle;
        older_flow(handle);
        newer_flow(handle);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
    return 0;
}
