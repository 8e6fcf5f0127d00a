/* SPDX-License-Identifier: MIT */

/*
 * Saving in one process and loading in another: graphs as bytes and as text, plans, both together, and the results, which must be
 * the same bits.
 */
#include "plain.hpp"

#include <fstream>
#include <iterator>

namespace client
{

namespace
{

using Bytes = std::vector<char>;

void write(const std::string& path, const void* from, size_t size)
{
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char*>(from), static_cast<std::streamsize>(size));
    require(file.good(), path + " cannot be written");
}

Bytes read(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    Bytes all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    require(file.good() && !all.empty(), path + " cannot be read");
    return all;
}

const uint8_t* begin_of(const Bytes& all) { return reinterpret_cast<const uint8_t*>(all.data()); }

/* A computation with its own memory. */
struct Computation
{
    std::string name;
    std::function<Descriptor(const Session&)> graph;
    std::map<int64_t, std::vector<float>> inputs;
    int64_t output;
    std::vector<float> want;

    std::vector<float> execute(const Session& session, const Descriptor& plan)
    {
        std::vector<float> y(want.size(), UNTOUCHED);
        Bindings bindings = {{output, y.data()}};
        for (auto& input : inputs)
        {
            bindings[input.first] = input.second.data();
        }
        run(session, plan, bindings);
        compare(y, want, 1e-5F, name);
        return y;
    }
};

/* A convolution whose tensors in between are virtual, and an attention with a constant. */
std::vector<Computation> computations()
{
    const Layer layer({2, 3, 8, 8});
    const Dims dims = {2, 2, 9, 8};
    const size_t count = elements(dims);
    Computation attention{"attention",
                          [=](const Session& session) {
                              GraphMaker maker(session);
                              Attention of{Tensor(0, dims), Tensor(1, dims), Tensor(2, dims), Tensor(3, dims)};
                              of.scale = Tensor(4, {1}).constant(0.25F);
                              of.causal = true;
                              add_attention(maker, of);
                              return maker.finish("attention");
                          },
                          {{0, numbers(count, 1)}, {1, numbers(count, 2)}, {2, numbers(count, 3)}},
                          3,
                          {}};
    for (int64_t sequence = 0; sequence < dims[0]; sequence++)
    {
        const auto rows = [&](int64_t uid) { return Rows{attention.inputs[uid].data() + sequence * 144, 72, 8}; };
        const auto part = OneAttention{2, 9, 9, 8, 0.25, true}.compute(rows(0), rows(1), rows(2));
        attention.want.insert(attention.want.end(), part.begin(), part.end());
    }
    Computation convolution{"layer",
                            [=](const Session& session) { return layer.graph(session); },
                            {{0, layer.x}, {1, layer.w}, {2, layer.bias}},
                            5,
                            layer.result()};
    return {convolution, attention};
}

Descriptor load_plan(const Session& session, const Bytes& all)
{
    hipdnnBackendDescriptor_t raw = nullptr;
    CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeExecutionPlan_ext, session.handle(), &raw, begin_of(all),
                 all.size());
    return {session, raw};
}

Descriptor load_graph(const Session& session, const Bytes& all)
{
    hipdnnBackendDescriptor_t raw = nullptr;
    CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeGraph_ext, &raw, begin_of(all), all.size());
    Descriptor graph(session, raw);
    bind_and_finalize(session, graph);
    return graph;
}

Descriptor load_json(const Session& session, const Bytes& all)
{
    hipdnnBackendDescriptor_t raw = nullptr;
    CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeJsonGraph_ext, &raw, all.data(), all.size());
    Descriptor graph(session, raw);
    bind_and_finalize(session, graph);
    return graph;
}

std::string prefix(const Session& session, const std::string& folder, const Computation& computation, int64_t engine)
{
    return folder + "/" + computation.name + "-" + name_of(session, engine);
}

/* The knobs that each engine's saved plan has set, so that there is more to keep than the engine's id. */
Settings settings_of(int64_t engine)
{
    return engine == id_of("CPU_ENGINE") ? Settings{{"threads", 1}, {"deterministic", 1}} : Settings{};
}

int contents(const Session& session, const Bytes& all)
{
    int flags = -1;
    CLIENT_CHECK(session, hipdnnBackendGetSerializedBinaryContents_ext, begin_of(all), all.size(), &flags);
    return flags;
}

/* Loaded plans compute the same bits and have the same description. */
void check_loaded(const Session& session, Computation& computation, const Bytes& bits, int64_t engine,
                  const Descriptor& plan, const std::string& what)
{
    require(plan.number(HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT) == engine,
            what + ": another engine's plan");
    const auto y = computation.execute(session, plan);
    require(bits.size() == y.size() * sizeof(float) && std::memcmp(bits.data(), y.data(), bits.size()) == 0,
            what + ": other bits than before");
}

} // namespace

void run_saving(const Library& library, const std::string& folder)
{
    for (auto& computation : computations())
    {
        const Session session(library);
        const Descriptor graph = computation.graph(session);
        for (const int64_t engine : both_engines(session, graph))
        {
            const Descriptor plan = plan_of(session, graph, engine, settings_of(engine));
            const auto y = computation.execute(session, plan);
            const std::string path = prefix(session, folder, computation, engine);
            const auto keep = [&](const char* suffix, const auto& all) {
                write(path + suffix, all.data(), all.size() * sizeof all[0]);
            };
            keep(".bits", y);
            keep(".graph",
                 bytes<uint8_t>(session, library.hipdnnBackendGetSerializedBinaryGraph_ext, "graph", graph.raw()));
            keep(".json", bytes<char>(session, library.hipdnnBackendGetSerializedJsonGraph_ext, "JSON", graph.raw()));
            keep(".plan",
                 bytes<uint8_t>(session, library.hipdnnBackendGetSerializedExecutionPlan_ext, "plan", plan.raw()));
            keep(".both", bytes<uint8_t>(session, library.hipdnnBackendGetSerializedBinaryGraphAndPlan_ext,
                                         "graph and plan", graph.raw(), plan.raw()));
            const hipdnnBackendDescriptor_t no_plan = nullptr;
            keep(".only", bytes<uint8_t>(session, library.hipdnnBackendGetSerializedBinaryGraphAndPlan_ext,
                                         "graph alone", graph.raw(), no_plan));
        }
    }
    /* What was saved outlives the handle, in this process too. */
    run_loading(library, folder);
}

void run_loading(const Library& library, const std::string& folder)
{
    const Session session(library);
    for (auto& computation : computations())
    {
        for (const char* name : {"CPU_ENGINE", "CPU_REFERENCE_ENGINE"})
        {
            const int64_t engine = id_of(name);
            const std::string path = prefix(session, folder, computation, engine);
            const Bytes bits = read(path + ".bits");
            const Bytes graph = read(path + ".graph");
            const Bytes plan = read(path + ".plan");
            const Bytes both = read(path + ".both");
            const Bytes only = read(path + ".only");
            constexpr int a_graph = HIPDNN_SERIALIZED_CONTENT_GRAPH;
            require(contents(session, graph) == a_graph && contents(session, only) == a_graph,
                    path + ".graph is something else");
            require(contents(session, both) == (a_graph | HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN),
                    path + ".both is something else");
            check_loaded(session, computation, bits, engine, load_plan(session, plan), path + ".plan");
            check_loaded(session, computation, bits, engine, load_plan(session, both), path + ".both");
            require_failure([&] { load_plan(session, only); }, {"hipdnnBackendCreateAndDeserializeExecutionPlan_ext"},
                            path + ".only, which has no plan");

            std::vector<Descriptor> graphs;
            graphs.push_back(load_graph(session, graph));
            graphs.push_back(load_graph(session, both));
            graphs.push_back(load_graph(session, only));
            graphs.push_back(load_json(session, read(path + ".json")));
            for (const auto& loaded : graphs)
            {
                const Descriptor again = plan_of(session, loaded, engine, settings_of(engine));
                check_loaded(session, computation, bits, engine, again, path + ", planned again");
            }
            /* A plan with a flipped bit, or cut off, is refused. */
            for (size_t at = 0; at < plan.size(); at += 1 + plan.size() / 16)
            {
                Bytes damaged = plan;
                damaged[at] = static_cast<char>(damaged[at] ^ 4);
                require_failure([&] { load_plan(session, damaged); }, {"failed: "}, path + " with a flipped bit");
                damaged = plan;
                damaged.resize(at);
                require_failure([&] { load_plan(session, damaged); }, {"failed: "}, path + " cut off");
            }
        }
    }
}

} // namespace client
