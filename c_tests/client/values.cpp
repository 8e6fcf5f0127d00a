/* SPDX-License-Identifier: MIT */

/*
 * Scalars by value: those that come from the host at each execution, through the pointers of the variant pack, and those that
 * are part of the graph.
 */
#include "plain.hpp"

namespace client
{

namespace
{

enum Uid : int64_t { X, FACTOR, Y, SUMMAND, BETWEEN, MEAN, VARIANCE, EPSILON };

constexpr int64_t COUNT = 12;

bool flag(const Session& session, const Descriptor& descriptor, hipdnnBackendAttributeName_t name)
{
    bool is = false;
    CLIENT_CHECK(session, hipdnnBackendGetAttribute, descriptor.raw(), name, HIPDNN_TYPE_BOOLEAN, 1, nullptr, &is);
    return is;
}

/* A number as the bytes of an element of some type. */
struct Scalar
{
    const char* name;
    hipdnnDataType_t type;
    std::vector<char> bytes;
    float number;

    template <typename Number>
    Scalar(const char* called, hipdnnDataType_t of, Number element, float is)
        : name(called), type(of), bytes(sizeof element), number(is)
    {
        std::memcpy(bytes.data(), &element, sizeof element);
    }
};

/* Two numbers of each type that a scalar may have. */
std::vector<std::pair<Scalar, Scalar>> scalars()
{
    constexpr auto half = HIPDNN_DATA_HALF;
    constexpr auto brain = HIPDNN_DATA_BFLOAT16;
    return {
        {{"float", HIPDNN_DATA_FLOAT, -2.5F, -2.5F}, {"float", HIPDNN_DATA_FLOAT, 0.75F, 0.75F}},
        {{"double", HIPDNN_DATA_DOUBLE, 1.5, 1.5F}, {"double", HIPDNN_DATA_DOUBLE, -0.25, -0.25F}},
        {{"half", half, uint16_t{0x3e00}, 1.5F}, {"half", half, uint16_t{0xc400}, -4.0F}},
        {{"bfloat16", brain, uint16_t{0x3fc0}, 1.5F}, {"bfloat16", brain, uint16_t{0xc080}, -4.0F}},
        {{"int32", HIPDNN_DATA_INT32, int32_t{-3}, -3.0F}, {"int32", HIPDNN_DATA_INT32, int32_t{70000}, 70000.0F}},
        {{"int64", HIPDNN_DATA_INT64, int64_t{5}, 5.0F}, {"int64", HIPDNN_DATA_INT64, int64_t{-70000}, -70000.0F}},
        {{"boolean", HIPDNN_DATA_BOOLEAN, uint8_t{1}, 1.0F}, {"boolean", HIPDNN_DATA_BOOLEAN, uint8_t{0}, 0.0F}},
        {{"int8", HIPDNN_DATA_INT8, int8_t{-7}, -7.0F}, {"int8", HIPDNN_DATA_INT8, int8_t{100}, 100.0F}},
        {{"uint8", HIPDNN_DATA_UINT8, uint8_t{200}, 200.0F}, {"uint8", HIPDNN_DATA_UINT8, uint8_t{3}, 3.0F}},
    };
}

/* y = x * factor + summand. The factor comes at each execution or is part of the graph, the summand is part of it. */
Descriptor make_graph(const Session& session, const Tensor& factor)
{
    GraphMaker maker(session);
    const Tensor between = Tensor(BETWEEN, {3, 4}).between();
    add_pointwise(maker, HIPDNN_POINTWISE_MUL, {Tensor(X, {3, 4}), factor}, between);
    add_pointwise(maker, HIPDNN_POINTWISE_ADD, {between, Tensor(SUMMAND, {1}).constant(0.5F)}, Tensor(Y, {3, 4}));
    return maker.finish("scaled");
}

std::vector<float> scaled(const std::vector<float>& x, float factor)
{
    std::vector<float> y;
    for (const float one : x)
    {
        y.push_back(one * factor + 0.5F);
    }
    return y;
}

/* The tensor of a graph's first operation that is its factor, as the library gives it back. */
Descriptor factor_of(const Descriptor& graph)
{
    return graph.descriptors(HIPDNN_ATTR_OPERATIONGRAPH_OPS).at(0).descriptor(HIPDNN_ATTR_OPERATION_POINTWISE_IN_1_EXT);
}

void run_at_execution(const Session& session, const std::pair<Scalar, Scalar>& both)
{
    const std::string name = std::string("a factor of type ") + both.first.name + " at execution";
    const Descriptor graph = make_graph(session, Tensor(FACTOR, {1}, both.first.type).by_value());
    const Descriptor factor = factor_of(graph);
    require(flag(session, factor, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT), name + " is not said to come then");
    require(!flag(session, factor, HIPDNN_ATTR_TENSOR_IS_BY_VALUE), name + " has a value already");
    auto x = numbers(COUNT, 1);
    for (const int64_t engine : both_engines(session, graph))
    {
        const Descriptor plan = plan_of(session, graph, engine);
        const auto uids = plan.numbers(HIPDNN_ATTR_EXECUTION_PLAN_TENSOR_UIDS_EXT);
        require(std::find(uids.begin(), uids.end(), FACTOR) != uids.end(), name + " is not among the plan's tensors");
        for (const Scalar& scalar : {both.first, both.second, both.first})
        {
            /* The host's memory has no alignment to keep: it may lie at an odd address. */
            std::vector<char> host(1, 0);
            host.insert(host.end(), scalar.bytes.begin(), scalar.bytes.end());
            std::vector<float> y(COUNT, UNTOUCHED);
            run(session, plan, {{X, x.data()}, {FACTOR, host.data() + 1}, {Y, y.data()}});
            compare(y, scaled(x, scalar.number), 1e-6F, name_of(session, engine) + ", " + name);
        }
        std::vector<float> y(COUNT, UNTOUCHED);
        require_failure([&] { run(session, plan, {{X, x.data()}, {Y, y.data()}}); }, {"tensor 1"},
                        name + " that is not bound");
        require(y == std::vector<float>(COUNT, UNTOUCHED), name + ": something was written without it");
    }
}

/* The graph through its bytes and its text, and back. */
std::vector<Descriptor> read_back(const Session& session, const Descriptor& graph)
{
    const Library& library = session.library;
    const auto binary =
        bytes<uint8_t>(session, library.hipdnnBackendGetSerializedBinaryGraph_ext, "binary", graph.raw());
    const auto json = bytes<char>(session, library.hipdnnBackendGetSerializedJsonGraph_ext, "JSON", graph.raw());
    hipdnnBackendDescriptor_t from_binary = nullptr;
    hipdnnBackendDescriptor_t from_json = nullptr;
    CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeGraph_ext, &from_binary, binary.data(), binary.size());
    std::vector<Descriptor> graphs;
    graphs.emplace_back(session, from_binary);
    CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeJsonGraph_ext, &from_json, json.data(), json.size());
    graphs.emplace_back(session, from_json);
    for (auto& read : graphs)
    {
        bind_and_finalize(session, read);
    }
    return graphs;
}

void run_constant(const Session& session, const Scalar& scalar)
{
    const std::string name = std::string("a constant of type ") + scalar.name;
    Tensor tensor(FACTOR, {1}, scalar.type);
    tensor.value = scalar.bytes;
    std::vector<Descriptor> graphs;
    graphs.push_back(make_graph(session, tensor));
    for (auto& read : read_back(session, graphs[0]))
    {
        graphs.push_back(std::move(read));
    }
    auto x = numbers(COUNT, 2);
    for (const auto& graph : graphs)
    {
        const Descriptor factor = factor_of(graph);
        require(flag(session, factor, HIPDNN_ATTR_TENSOR_IS_BY_VALUE), name + " has no value");
        require(!flag(session, factor, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT), name + " comes at execution");
        std::vector<char> value(scalar.bytes.size());
        int64_t count = 0;
        CLIENT_CHECK(session, hipdnnBackendGetAttribute, factor.raw(), HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR,
                     static_cast<int64_t>(value.size()), &count, value.data());
        require(value == scalar.bytes, name + " has another value when it is read");
        for (const int64_t engine : both_engines(session, graph))
        {
            std::vector<float> y(COUNT, UNTOUCHED);
            run(session, plan_of(session, graph, engine), {{X, x.data()}, {Y, y.data()}});
            compare(y, scaled(x, scalar.number), 1e-6F, name_of(session, engine) + ", " + name);
        }
    }
}

/* As PyTorch has it: the scale of an attention, and the epsilon of a batch normalization, which is at times a constant. */
void run_scale_of_attention(const Session& session)
{
    const Dims dims = {1, 2, 6, 8};
    auto q = numbers(elements(dims), 3), k = numbers(elements(dims), 4), v = numbers(elements(dims), 5);
    GraphMaker maker(session);
    Attention attention{Tensor(0, dims), Tensor(1, dims), Tensor(2, dims), Tensor(3, dims)};
    attention.scale = Tensor(4, {1, 1, 1, 1}).by_value();
    add_attention(maker, attention);
    const Descriptor graph = maker.finish("scale at execution");
    for (const int64_t engine : both_engines(session, graph))
    {
        const Descriptor plan = plan_of(session, graph, engine);
        for (float scale : {0.125F, 1.0F, -0.5F})
        {
            std::vector<float> o(elements(dims), UNTOUCHED);
            run(session, plan, {{0, q.data()}, {1, k.data()}, {2, v.data()}, {3, o.data()}, {4, &scale}});
            const auto rows = [](const std::vector<float>& of) { return Rows{of.data(), 48, 8}; };
            const OneAttention plain{2, 6, 6, 8, static_cast<double>(scale)};
            compare(o, plain.compute(rows(q), rows(k), rows(v)), 1e-5F, name_of(session, engine) + ", scale by value");
        }
    }
}

void run_batchnorm(const Session& session, const Tensor& epsilon_tensor)
{
    alignas(16) float epsilon = 0.25F;
    const Dims dims = {2, 3, 2, 2};
    const Dims channels = {1, 3, 1, 1};
    auto x = numbers(elements(dims), 6), scale = numbers(3, 7), bias = numbers(3, 8), mean = numbers(3, 9);
    std::vector<float> variance = {0.5F, 1.25F, 3};
    GraphMaker maker(session);
    Descriptor operation = maker.begin(HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT);
    maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT, Tensor(X, dims));
    maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT, Tensor(MEAN, channels));
    maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT, Tensor(VARIANCE, channels));
    maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT, Tensor(FACTOR, channels));
    maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT, Tensor(SUMMAND, channels));
    maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT, Tensor(Y, dims));
    maker.put(operation, HIPDNN_ATTR_OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT, epsilon_tensor);
    operation.set_float(HIPDNN_ATTR_BATCHNORM_INF_VAR_COMP_TYPE_EXT);
    maker.end(std::move(operation), "batchnorm");
    const Descriptor graph = maker.finish("batchnorm");
    std::vector<float> want;
    for (size_t i = 0; i < x.size(); i++)
    {
        const size_t c = i / 4 % 3;
        want.push_back((x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + bias[c]);
    }
    for (const int64_t engine : both_engines(session, graph))
    {
        std::vector<float> y(x.size(), UNTOUCHED);
        Bindings bindings = {{X, x.data()},          {MEAN, mean.data()},    {VARIANCE, variance.data()},
                             {FACTOR, scale.data()}, {SUMMAND, bias.data()}, {Y, y.data()}};
        if (epsilon_tensor.value.empty())
        {
            bindings[EPSILON] = &epsilon;
        }
        run(session, plan_of(session, graph, engine), bindings);
        compare(y, want, 1e-5F, name_of(session, engine) + ", batchnorm with epsilon");
    }
}

} // namespace

void run_values(const Library& library)
{
    const Session session(library);
    for (const auto& both : scalars())
    {
        run_at_execution(session, both);
        run_constant(session, both.first);
        run_constant(session, both.second);
    }
    run_scale_of_attention(session);
    const Tensor epsilon(EPSILON, {1, 1, 1, 1});
    run_batchnorm(session, epsilon.by_value());
    run_batchnorm(session, epsilon.constant(0.25F));
    run_batchnorm(session, epsilon);
}

} // namespace client
