/* SPDX-License-Identifier: MIT */

/*
 * The calls of an execution provider for ONNX Runtime: plugins are unloaded with the last handle, engines are listed, an unknown name is
 * looked up, errors are read without clearing them, and graphs are JSON.
 */
#include "plain.hpp"

namespace client
{

namespace
{

/* The functions that it resolves besides those of the frontends. */
struct Further
{
    /* Its declaration says that it is deprecated. */
    using GetVersion = hipdnnStatus_t (*)(const char**);

    explicit Further(const Library& library)
    {
#define CLIENT_FIND(name) name.function = library.find<decltype(&::name)>(#name)
        CLIENT_FIND(hipdnnPeekLastErrorString_ext);
        CLIENT_FIND(hipdnnSetPluginUnloadMode_ext);
        CLIENT_FIND(hipdnnGetEngineCount_ext);
        CLIENT_FIND(hipdnnGetEngineInfo_ext);
        CLIENT_FIND(hipdnnGetEngineIdByName_ext);
#undef CLIENT_FIND
        hipdnnGetVersion_ext.function = library.find<GetVersion>("hipdnnGetVersion_ext");
    }

    Resolved<decltype(&::hipdnnPeekLastErrorString_ext)> hipdnnPeekLastErrorString_ext;
    Resolved<decltype(&::hipdnnSetPluginUnloadMode_ext)> hipdnnSetPluginUnloadMode_ext;
    Resolved<decltype(&::hipdnnGetEngineCount_ext)> hipdnnGetEngineCount_ext;
    Resolved<decltype(&::hipdnnGetEngineInfo_ext)> hipdnnGetEngineInfo_ext;
    Resolved<decltype(&::hipdnnGetEngineIdByName_ext)> hipdnnGetEngineIdByName_ext;
    Resolved<GetVersion> hipdnnGetVersion_ext;

    std::string peek() const
    {
        char text[256] = "";
        hipdnnPeekLastErrorString_ext(text, sizeof text);
        return text;
    }
};

/* Names and ids of all engines. */
std::map<std::string, int64_t> list(const Session& session, const Further& further)
{
    size_t count = 0;
    session.check(further.hipdnnGetEngineCount_ext(session.handle(), &count), "hipdnnGetEngineCount_ext");
    std::map<std::string, int64_t> engines;
    for (size_t i = 0; i < count; i++)
    {
        size_t lengths[4] = {};
        int64_t id = 0;
        session.check(further.hipdnnGetEngineInfo_ext(session.handle(), i, &id, nullptr, &lengths[0], nullptr,
                                                      &lengths[1], nullptr, &lengths[2], nullptr, &lengths[3]),
                      "the lengths of an engine's texts");
        std::string texts[4];
        for (size_t k = 0; k < 4; k++)
        {
            texts[k].resize(lengths[k]);
        }
        session.check(further.hipdnnGetEngineInfo_ext(session.handle(), i, &id, texts[0].data(), &lengths[0],
                                                      texts[1].data(), &lengths[1], texts[2].data(), &lengths[2],
                                                      texts[3].data(), &lengths[3]),
                      "the texts of an engine");
        const std::string name = texts[0].c_str();
        int64_t found = 0;
        session.check(further.hipdnnGetEngineIdByName_ext(session.handle(), name.c_str(), &found),
                      "the id of an engine");
        require(found == id && id_of(name) == id && name_of(session, id) == name, name + " has several ids or names");
        engines[name] = id;
    }
    return engines;
}

/* A matmul and a RELU, as JSON. */
std::string write_json()
{
    const auto tensor = [](int uid, const char* dims, const char* strides, bool is_virtual) {
        return std::string(R"({"data_type":"float","dims":)") + dims + R"(,"name":"t","strides":)" + strides +
               R"(,"uid":)" + std::to_string(uid) + R"(,"virtual":)" + (is_virtual ? "true" : "false") + "}";
    };
    return R"({"compute_data_type":"float","intermediate_data_type":"float","io_data_type":"float","name":"from JSON","nodes":[)"
           R"({"compute_data_type":"float","inputs":{"a_tensor_uid":0,"b_tensor_uid":1},"name":"product",)"
           R"("outputs":{"c_tensor_uid":2},"type":"MatmulAttributes"},)"
           R"({"compute_data_type":"float","inputs":{"in_0_tensor_uid":2,"in_1_tensor_uid":null,"in_2_tensor_uid":null,)"
           R"("axis_tensor_uid":null,"operation":"relu_fwd"},"name":"relu","outputs":{"out_0_tensor_uid":3},)"
           R"("type":"PointwiseAttributes"}],"tensors":[)" +
           tensor(0, "[1,3,4]", "[12,4,1]", false) + "," + tensor(1, "[1,4,5]", "[20,5,1]", false) + "," +
           tensor(2, "[1,3,5]", "[15,5,1]", true) + "," + tensor(3, "[1,3,5]", "[15,5,1]", false) + "]}";
}

void run_json(const Session& session, int64_t engine)
{
    const std::string json = write_json();
    hipdnnBackendDescriptor_t raw = nullptr;
    CLIENT_CHECK(session, hipdnnBackendCreateAndDeserializeJsonGraph_ext, &raw, json.data(), json.size());
    Descriptor graph(session, raw);
    bind_and_finalize(session, graph);
    auto a = numbers(12, 1), b = numbers(20, 2);
    std::vector<float> c(15, UNTOUCHED), want;
    for (size_t at = 0; at < c.size(); at++)
    {
        float sum = 0;
        for (size_t i = 0; i < 4; i++)
        {
            sum += a[at / 5 * 4 + i] * b[i * 5 + at % 5];
        }
        want.push_back(std::max(sum, 0.0F));
    }
    run(session, plan_of(session, graph, engine), {{0, a.data()}, {1, b.data()}, {3, c.data()}});
    compare(c, want, 1e-6F, name_of(session, engine) + ", a graph from JSON");
}

} // namespace

void run_provider(const Library& library)
{
    const Further further(library);
    const char* version = nullptr;
    require(further.hipdnnGetVersion_ext(&version) == Result::Success && version != nullptr &&
                std::string(version) == library.hipdnnVersionString_ext.function(),
            "the version is another one when it is asked for otherwise");
    require(further.hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER) == Result::Success,
            "plugins stay loaded");
    /* The plugins come and go with each handle. */
    for (int round = 0; round < 3; round++)
    {
        const Session session(library);
        const auto engines = list(session, further);
        require(engines.size() == 2, "another number of engines than two");
        int64_t absent = 77;
        require(further.hipdnnGetEngineIdByName_ext(session.handle(), "FUSILLI_ENGINE", &absent) == Result::Failed &&
                    absent == 77,
                "an engine that is not there has an id");
        const std::string text = further.peek();
        require(text.find("FUSILLI_ENGINE") != std::string::npos && further.peek() == text &&
                    library.last_error() == text && library.last_error().empty(),
                "the text of a failure is not kept until it is fetched: " + text);
        for (const auto& engine : engines)
        {
            run_json(session, engine.second);
        }
    }
}

} // namespace client
