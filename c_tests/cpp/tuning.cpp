/* Searches of the C++ headers: finding tuning plugins, mistakes of plugins during a search, damaged bytes, and autotune() with each
 * strategy. */

#include <hipdnn/hipdnn_tuning.hpp>

#include <hipdnn_plugin_sdk/TuningPluginApi.h>

#include "check.hpp"

#include <cstddef>
#include <fstream>
#include <sstream>

using namespace hipdnn;
using namespace hipdnn::detail;

static_assert(sizeof(TuningData) == sizeof(hipdnnPluginConstData_t), "another size than the interface has");
static_assert(sizeof(TuningProblemData) == sizeof(hipdnnTuningProblem_t) &&
                  offsetof(TuningProblemData, candidates) == offsetof(hipdnnTuningProblem_t, candidates) &&
                  offsetof(TuningProblemData, similar) == offsetof(hipdnnTuningProblem_t, similar) &&
                  offsetof(TuningProblemData, budget_ns) == offsetof(hipdnnTuningProblem_t, budget_ns),
              "another layout than the interface has");
static_assert(sizeof(TuningMeasurementData) == sizeof(hipdnnTuningMeasurement_t) &&
                  offsetof(TuningMeasurementData, time_ns) == offsetof(hipdnnTuningMeasurement_t, time_ns),
              "another layout than the interface has");
static_assert(sizeof(TuningHostData) == sizeof(hipdnnTuningHost_t) &&
                  offsetof(TuningHostData, rank) == offsetof(hipdnnTuningHost_t, rank),
              "another layout than the interface has");

using Problem = TuningProblemOf<void>;
using Host = TuningHostOf<void>;
using Engine = TunableEngineOf<void>;

static bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/* A knob of integers as the library describes it. */
struct Info
{
    std::string text(hipdnnBackendAttributeName_t name) const
    {
        return name == HIPDNN_ATTR_KNOB_INFO_TYPE_EXT ? id : std::string();
    }
    Dims integers(hipdnnBackendAttributeName_t) const { return listed; }
    template <typename Value>
    bool value(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t, Value& value) const
    {
        if (name == HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE_EXT)
        {
            value = static_cast<Value>(HIPDNN_TYPE_INT64);
        } else if (name == HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE_EXT)
        {
            value = static_cast<Value>(greatest);
        }
        return true;
    }
    std::string id;
    Dims listed;
    int64_t greatest;
};

static Knob knob(const char* id, const Dims& listed, int64_t greatest)
{
    Knob made;
    CHECK(Knob::read(Info{id, listed, greatest}, made));
    return made;
}

/* Two engines: the first takes 30 µs, with its knob 20, the second 40. */
struct Clocked : TuningTargetOf<void>
{
    std::map<size_t, double> ready;

    Error prepare(size_t place, const Candidate& configuration, double& first) override
    {
        first = ready[place] = 1e3 * (10 + 20 * static_cast<double>(configuration.engine) -
                                      10 * static_cast<double>(configuration.settings.size()));
        return {};
    }
    Error execute(size_t place, int count, double& taken) override
    {
        CHECK(ready.count(place) == 1);
        taken = ready[place] * count;
        return {};
    }
    void drop(size_t place) override { ready.erase(place); }
};

static Problem problem()
{
    Graph graph;
    graph.set_io_data_type(DataType::FLOAT).set_compute_data_type(DataType::FLOAT);
    const auto matrix = [](int64_t uid) {
        return Graph::tensor(Tensor().set_uid(uid).set_dim({1, 2, 2}).set_stride({4, 2, 1}));
    };
    graph.matmul(matrix(1), matrix(2), MatmulAttributes())->set_uid(3).set_output(true);
    Problem made;
    CHECK_GOOD(graph.serialize(made.graph));
    made.budget = 1e9;
    made.engines.resize(2);
    made.engines[0].engine = 1;
    made.engines[1].engine = 2;
    made.engines[0].knobs.push_back({knob("a", {0, 1}, 0), {int64_t{0}, int64_t{1}}});
    return made;
}

struct Tuned
{
    std::vector<int64_t> engines;
    size_t trials = 0;
    std::string failure;
};

template <typename Search>
static Tuned search(const Search& strategy)
{
    Clocked clocked;
    Host host(clocked);
    const Problem tuned = problem();
    std::vector<size_t> ranking;
    Error failure;
    host.tune(tuned, strategy, ranking, failure);
    Tuned made;
    for (const size_t place : ranking)
    {
        made.engines.push_back(host.trials()[place].configuration.engine);
    }
    made.trials = host.trials().size();
    made.failure = failure.err_msg;
    return made;
}

static Tuned search_by(const char* name)
{
    TuningPluginOf<void> plugin;
    const std::string reason = plugin.open(library(name));
    CHECK(reason.empty());
    return search([&](const Problem& problem, Host& host, std::vector<size_t>& order) {
        return plugin.search("stub", problem, host, order);
    });
}

/* What plugins wrote since the last time. */
static std::string read_log()
{
    std::stringstream text;
    text << std::ifstream("log.txt").rdbuf();
    std::remove("log.txt");
    return text.str();
}

static void admission()
{
    const char* const refused[][2] = {
        {"tuning_engine_type", "its type is 1, expected that of a tuning plugin, 3"},
        {"tuning_type_fails", "its type: status 3, \"the stub fails in hipdnnPluginGetType\""},
        {"tuning_name_empty", "its name is empty"},
        {"tuning_name_null", "its name is null"},
        {"tuning_api_1", "its API version is \"1.0.0\", expected 0.MINOR.PATCH"},
        {"tuning_api_unparsable", "its API version is \"zero\""},
        {"tuning_api_fails", "its API version: status 3"},
        {"tuning_api_beyond", "its API version is \"0.99999999999.0\", expected 0.MINOR.PATCH"},
        {"tuning_name_not_utf8", "its name is \"St\377b\", expected UTF-8"},
        {"tuning_strategy_not_utf8", " is \"st\377b\", expected UTF-8"},
        {"tuning_no_get_name", "it lacks hipdnnPluginGetName"},
        {"tuning_no_get_version", "it lacks hipdnnPluginGetVersion"},
        {"tuning_no_get_api_version", "it lacks hipdnnPluginGetApiVersion"},
        {"tuning_no_get_type", "it lacks hipdnnPluginGetType"},
        {"tuning_no_callback", "it lacks hipdnnPluginSetLoggingCallback"},
        {"tuning_no_last_error", "it lacks hipdnnPluginGetLastErrorString"},
        {"tuning_no_ids", "it lacks hipdnnTuningPluginGetAllStrategyIds"},
        {"tuning_no_strategy_name", "it lacks hipdnnTuningPluginGetStrategyName"},
        {"tuning_no_search", "it lacks hipdnnTuningPluginSearch"},
        {"tuning_no_strategies", "it has 0 strategies, expected 1 to 4096"},
        {"tuning_count_grows", "it has 3 strategies, after it said 1"},
        {"tuning_count_huge", "it has 4294967295 strategies"},
        {"tuning_ids_fail", "the number of its strategies: status 3"},
        {"tuning_duplicate", "twice"},
        {"tuning_strategy_name_empty", "the name of strategy"},
        {"tuning_strategy_name_null", "is null"},
        {"tuning_strategy_name_fails", "status 3"},
        {"tuning_id_not_the_hash", "expected the hash of its name"},
        {"tuning_ids_throw", "threw a C++ exception"},
        {"good", "it lacks hipdnnTuningPluginGetAllStrategyIds, hipdnnTuningPluginGetStrategyName, "
                 "hipdnnTuningPluginSearch"},
        {"heuristic_good", "it lacks hipdnnTuningPluginGetAllStrategyIds"},
        {"no_such_file", "no_such_file"},
    };
    for (const auto& one : refused)
    {
        const std::string reason = TuningPluginOf<void>().open(library(one[0]));
        if (!has(reason, one[1]))
        {
            std::fprintf(stderr, "%s: \"%s\", expected \"%s\"\n", one[0], reason.c_str(), one[1]);
            std::exit(1);
        }
    }
    for (const char* name : {"tuning_good", "tuning_two", "tuning_api_0_9", "tuning_without_log_level"})
    {
        TuningPluginOf<void> plugin;
        CHECK(plugin.open(library(name)).empty());
        CHECK(plugin.name == "Stub" && plugin.strategies[0] == "stub");
    }
    setenv("HIPDNN_TUNING_PLUGIN_DIR", library("tuning_two").c_str(), 1);
    CHECK((get_autotune_strategies() == std::vector<std::string>{"halving", "exhaustive", "stub", "other"}));
    /* A defective plugin only loses its own strategies. */
    setenv("HIPDNN_TUNING_PLUGIN_DIR", library("tuning_duplicate").c_str(), 1);
    CHECK((get_autotune_strategies() == std::vector<std::string>{"halving", "exhaustive"}));
    setenv("HIPDNN_TUNING_PLUGIN_DIR", "nonexistent", 1);
    CHECK(get_autotune_strategies().size() == 2);
    /* In a folder, defective engine and heuristic plugins among them, each name is taken once. */
    setenv("HIPDNN_TUNING_PLUGIN_DIR", std::getenv("HIPDNN_TEST_PLUGINS"), 1);
    CHECK(get_autotune_strategies().size() == 4);
    unsetenv("HIPDNN_TUNING_PLUGIN_DIR");
}

static void searches()
{
    using Engines = std::vector<int64_t>;
    setenv("HIPDNN_STUB_LOG", "log.txt", 1);
    read_log();
    Tuned tuned = search_by("tuning_good");
    std::string said = read_log();
    CHECK((tuned.engines == Engines{1, 2}) && tuned.failure.empty());
    CHECK(has(said, "Search strategy=1 size=1 graph=G2 tensors=3") && has(said, "candidates=2 similar=0"));
    CHECK(has(said, "measure status=0 measured=1 within=1\nmeasure status=0 measured=1 within=1\n"));
    CHECK(has(said, "rank status=0"));
    /* Its order counts, except for the final comparison. */
    CHECK((search_by("tuning_reversed").engines == Engines{1, 2}));
    const char* const failing[][2] = {
        {"tuning_search_fails", "status 3, \"the stub fails in hipdnnTuningPluginSearch\""},
        {"tuning_search_throws", "threw a C++ exception"},
        {"tuning_silent", "answered no ranking"},
        {"tuning_ranks_unknown", "answered no ranking"},
        {"tuning_ranks_twice", "answered no ranking"},
    };
    for (const auto& one : failing)
    {
        tuned = search_by(one[0]);
        CHECK((tuned.engines == Engines{1, 2}) && has(tuned.failure, one[1]));
    }
    read_log();
    tuned = search_by("tuning_misuses");
    said = read_log();
    for (const char* wrong : {"no configuration", "no bytes", "garbage", "cut", "huge", "no runs", "no output",
                              "another engine", "another knob", "another value", "no numbers", "an empty ranking",
                              "too many", "another number", "a number twice"})
    {
        CHECK(has(said, std::string(wrong) + " status=1\n"));
    }
    CHECK(has(said, "no context status=6\n") && has(said, "a knob status=0\n"));
    /* Measured but unranked configurations come last, and the final comparison covers the first ones. */
    CHECK((tuned.engines == Engines{1, 2, 1}) && tuned.trials == 3);
    search_by("tuning_other_thread");
    said = read_log();
    CHECK(has(said, "measure on another thread status=6\n") && has(said, "rank on another thread status=6\n"));
    search_by("tuning_keeps");
    read_log();
    CHECK((search_by("tuning_keeps").engines == Engines{1, 2}));
    said = read_log();
    CHECK(has(said, "\nafter its search status=6\n") && has(said, "ranked after its search status=6\n"));
    /* Measurements after the budget is spent are refused at once. */
    const double started = SystemOf<void>::now();
    CHECK((search_by("tuning_insists").engines == Engines{1, 2}));
    CHECK(SystemOf<void>::now() - started < 20e9);
    /* A search that does not return is ended with the budget; a ranking that it gave counts. */
    for (const char* name : {"tuning_endless", "tuning_stuck"})
    {
        const double begun = SystemOf<void>::now();
        tuned = search_by(name);
        CHECK((tuned.engines == Engines{1, 2}) && SystemOf<void>::now() - begun < 3e9);
        CHECK(tuned.failure.empty() == (std::string(name) == "tuning_endless"));
        CHECK(tuned.failure.empty() || has(tuned.failure, "went on when the budget was spent"));
    }
    unsetenv("HIPDNN_STUB_LOG");
    for (const auto& strategy : {&HalvingOf<void>::search, &ExhaustiveOf<void>::search})
    {
        tuned = search(strategy);
        CHECK((tuned.engines == Engines{1, 1, 2}) && tuned.trials == 3 && tuned.failure.empty());
    }
}

static void tables()
{
    const Problem tuned = problem();
    hipdnn_plugin::detail::Writer writer;
    const size_t root = writer.table(2, 3);
    writer.link_table(0, root);
    writer.put(root, int64_t{1});
    const size_t list = writer.numbers(root + 8, std::vector<uint32_t>(1)), setting = writer.table(3, 7);
    writer.link_table(list, setting);
    writer.text(setting, "a");
    TuningTablesOf<void>::write_value(writer, setting + 8, setting + 16, int64_t{1});
    Candidate read;
    CHECK(TuningTablesOf<void>::read(writer.bytes.data(), writer.bytes.size(), tuned.engines, read));
    CHECK(read.engine == 1 && read.settings.size() == 1);
    for (size_t at = 0; at < writer.bytes.size(); at++)
    {
        for (const int with : {1, 0x80, 0xff})
        {
            /* In memory of their own size, which sanitizers and valgrind watch. */
            std::vector<uint8_t> damaged = writer.bytes;
            damaged[at] = static_cast<uint8_t>(damaged[at] ^ with);
            TuningTablesOf<void>::read(damaged.data(), damaged.size(), tuned.engines, read);
        }
        const std::vector<uint8_t> cut(writer.bytes.begin(), writer.bytes.begin() + static_cast<std::ptrdiff_t>(at));
        TuningTablesOf<void>::read(cut.data(), cut.size(), tuned.engines, read);
    }
    using Table = hipdnn_plugin::detail::Table;
    const auto details = TuningTablesOf<void>::details(tuned.engines[0]);
    const Table engine = Table::root({details.data(), details.size()}), own = engine.tables(1).at(0);
    CHECK(engine.number<int64_t>(0, 0) == 1 && own.text(0) == "a" && own.number<uint8_t>(4, 0) == 1);
    CHECK((own.table(5).numbers<int64_t>(3) == std::vector<int64_t>{0, 1}) && own.table(5).number<int64_t>(1, 0) == 1);
    const auto device = TuningTablesOf<void>::device();
    CHECK(std::string(device.begin() + 4, device.begin() + 8) == "HDDP");
    CHECK(Table::root({device.data(), device.size()}).number<int32_t>(1, 0) > 0);
}

static void samples()
{
    using Samples = SamplesOf<void>;
    TuningFactsOf<void> facts;
    facts.workspace = 2;
    facts.steps = 2;
    int64_t taken = 2;
    const auto count = [&](const char* id, int64_t greatest) {
        const auto takes = [&](const KnobValueVariant& value) { return *std::get_if<int64_t>(&value) < taken; };
        return Samples::of(knob(id, {}, greatest), 8, facts, takes).size();
    };
    CHECK(count("convolution", 3) == 1 && count("speed", 3) == 4 && count("speed", int64_t{1} << 62) == 8);
    CHECK(count("global.workspace_size_limit", 3) == 2 && count("x.engine", 255) == 2 && count("x.share_rows", 3) == 4);
    facts.has_convolution = facts.has_one_thread = true;
    facts.steps = 1;
    CHECK(count("convolution", 3) == 4 && count("threads", 256) == 1);
    CHECK(count("x.share_rows", 3) == 1 && count("batch_invariant", 3) == 1);
    CHECK(Samples::is_promise("constant_weights") && Samples::is_promise("cudnn.tf32"));
    for (const int threads : {1, 2})
    {
        facts = {};
        facts.read_steps("{\"name\":\"a \\\"steps\\\":[{}]\",\"steps\":[{\"is\":\"\\\"threads\\\":1\",\"threads\":" +
                         std::to_string(threads) + ",\"list\":[{\"threads\":7}]},{\"threads\":1}],\"z\":[{}]}");
        CHECK(facts.steps == 2 && facts.has_one_thread == (threads == 1));
    }
}

struct Open : Graph
{
    hipdnnBackendDescriptor_t descriptor() const { return _graph.get(); }
};

static void graphs()
{
    alignas(64) static float a[32 * 32], b[32 * 32], c[32 * 32];
    std::fill_n(a, 32 * 32, 1.0F);
    std::fill_n(b, 32 * 32, 2.0F);
    const VariantPack pack = {{1, a}, {2, b}, {3, c}};
    setenv("HIPDNN_CACHE_DIR", "cache", 1);
    HandlePtr handle;
    CHECK_GOOD(create_handle(handle));
    std::vector<char> workspace(1 << 20);
    const auto begin = [&](Graph& graph) {
        graph.set_io_data_type(DataType::FLOAT).set_compute_data_type(DataType::FLOAT);
        const auto matrix = [](int64_t uid) {
            return Graph::tensor(Tensor().set_uid(uid).set_dim({1, 32, 32}).set_stride({1024, 32, 1}));
        };
        graph.matmul(matrix(1), matrix(2), MatmulAttributes())->set_uid(3).set_output(true);
        CHECK_GOOD(graph.build_operation_graph(*handle));
    };
    setenv("HIPDNN_TUNING_PLUGIN_DIR", library("tuning_two").c_str(), 1);
    for (const char* strategy : {"halving", "exhaustive", "stub"})
    {
        Graph graph;
        begin(graph);
        CHECK_GOOD(graph.add_all_engines());
        AutotuneConfig config;
        config.search = make_autotune_search(strategy, 0.5, 3);
        AutotuneStorageConfig storage;
        storage.filePath = std::string(strategy) + ".json";
        std::vector<AutotuneResult> results;
        CHECK_GOOD(graph.autotune(*handle, pack, workspace.data(), 1 << 20, config, storage, &results));
        CHECK(results.size() >= 2 && results[0].rank == 0 && results[0].succeeded && results[0].minTimeMs > 0);
        CHECK(results[0].compiledPlanIndex >= 0 && results[0].iterationsRun > 0 && results[1].rank == 1);
        std::string name;
        CHECK_GOOD(graph.get_plan_name(name));
        CHECK(name == results[0].engineName);
        c[1023] = 0;
        CHECK_GOOD(graph.execute(*handle, pack, workspace.data()));
        CHECK(c[1023] == 64);
        std::stringstream rules;
        rules << std::ifstream(storage.filePath.string()).rdbuf();
        CHECK(has(rules.str(), "\"op\": \"matmul\""));
    }
    AutotuneConfig config;
    Open graph;
    begin(graph);
    /* The library knows the order of the engines. */
    std::vector<int64_t> order;
    CHECK_GOOD(graph.get_ranked_engine_ids(order));
    auto outcome = HIPDNN_AUTOTUNE_CACHE_WRITE_DECLINED_DISABLED;
    CHECK(hipdnnBackendWriteEngineRankingResults_ext(*handle, graph.descriptor(), order.data(), order.size(),
                                                     &outcome) == HIPDNN_STATUS_SUCCESS);
    CHECK(outcome == HIPDNN_AUTOTUNE_CACHE_WRITE_UNCHANGED);
    CHECK_GOOD(graph.add_all_engines());
    const auto tune = [&] { return graph.autotune(*handle, pack, workspace.data(), 1 << 20, config); };
    config.search = make_autotune_search("nonsense");
    CHECK_BAD(tune(), ErrorCode::INVALID_VALUE, "\"nonsense\", expected one of halving, exhaustive, stub, other");
    config.search = make_autotune_search("stub", 0);
    CHECK_BAD(tune(), ErrorCode::INVALID_VALUE, "expected more than 0 seconds");
    config.search = make_autotune_search("stub", 0.1, 0);
    CHECK_BAD(tune(), ErrorCode::INVALID_VALUE, "at least 1 value");
    config.search = make_autotune_search("stub", 0.1);
    config.engineIdFilter = {5};
    CHECK_BAD(tune(), ErrorCode::INVALID_VALUE, "filtered out");
    config.engineIdFilter.clear();
    config.mode = TuneMode::EXHAUSTIVE;
    CHECK_BAD(tune(), ErrorCode::INVALID_VALUE, "STANDARD");
    config.mode = TuneMode::STANDARD;
    CHECK_GOOD(graph.add_engine(engine_name_to_id("CPU_ENGINE"), {KnobSetting("threads", int64_t{1})}));
    CHECK_BAD(tune(), ErrorCode::INVALID_VALUE, "candidates without settings");
    /* Plans that were built keep their places, and the program's order decides where it ranks. */
    Graph built;
    begin(built);
    CHECK_GOOD(built.create_execution_plans());
    CHECK_GOOD(built.build_plans(BuildPlanPolicy::ALL));
    const int64_t plans = built.get_execution_plan_count();
    std::vector<AutotuneResult> results;
    config.rankingFn = [](std::vector<AutotuneResult>& all) { std::reverse(all.begin(), all.end()); };
    CHECK_GOOD(built.autotune(*handle, pack, workspace.data(), config, {}, &results));
    CHECK(results[0].compiledPlanIndex >= plans && results[0].rank == 0);
    std::string name;
    CHECK_GOOD(built.get_plan_name(name));
    CHECK(name == results[0].engineName);
}

int main()
{
    admission();
    tables();
    samples();
    searches();
    graphs();
    std::puts("right");
}
