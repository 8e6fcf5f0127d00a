/* SPDX-License-Identifier: MIT */

/*
 * A frontend's selection of engines: by behavior notes, by name, by workspace size; and knobs. An engine's notes are compared with
 * its behavior.
 */
#include "plain.hpp"

#include "../../examples_c/flatbuffer_writer.hpp"

namespace client
{

namespace
{

/* An engine as a frontend looks at it before it makes plans. */
struct Candidate
{
    int64_t id;
    std::string name;
    std::vector<int64_t> notes;
    std::vector<Knob> knobs;
    int64_t workspace;

    bool notes_that(int64_t note) const { return std::find(notes.begin(), notes.end(), note) != notes.end(); }
};

std::vector<Candidate> look_at(const Session& session, const Descriptor& graph)
{
    std::vector<Candidate> all;
    for (const int64_t id : both_engines(session, graph))
    {
        const Descriptor engine = engine_by_id(session, graph, id);
        all.push_back({id, engine.text(HIPDNN_ATTR_ENGINE_NAME_EXT),
                       engine.numbers(HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE),
                       knobs_of(session, engine),
                       configure(session, graph, id).number(HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE)});
    }
    return all;
}

/* What the user of a frontend wants of engines. */
struct Filter
{
    std::vector<int64_t> wanted = {};
    std::vector<int64_t> unwanted = {};
    std::vector<std::string> barred = {};
    int64_t most_workspace = INT64_MAX;

    bool lets(const Candidate& one) const
    {
        const auto noted = [&](int64_t note) { return one.notes_that(note); };
        return std::all_of(wanted.begin(), wanted.end(), noted) &&
               std::none_of(unwanted.begin(), unwanted.end(), noted) &&
               std::find(barred.begin(), barred.end(), one.name) == barred.end() && one.workspace <= most_workspace;
    }
};

using Names = std::vector<std::string>;

/* Plans of the engines that a filter lets run, each executed, and the names of these engines. */
Names run_filtered(const Session& session, Layer& layer, const Filter& filter)
{
    const Descriptor graph = layer.graph(session);
    Names names;
    for (const auto& one : look_at(session, graph))
    {
        if (!filter.lets(one))
        {
            continue;
        }
        const Descriptor plan = plan_of(session, graph, one.id);
        require(plan.number(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) <= filter.most_workspace,
                one.name + " wants more workspace than it said");
        auto y = layer.empty();
        run(session, plan, layer.bindings(y));
        compare(y, layer.result(), 1e-5F, one.name);
        names.push_back(one.name);
    }
    return names;
}

/* A graph of several operations and room in between, so that engines ask for a workspace. */
Layer layer_of_some_size() { return Layer({2, 3, 12, 12}, 8); }

void run_notes(const Session& session)
{
    Layer layer = layer_of_some_size();
    const Descriptor graph = layer.graph(session);
    const auto all = look_at(session, graph);
    require(all.size() == 2, "another number of engines than two");
    for (const auto& one : all)
    {
        auto sorted = one.notes;
        std::sort(sorted.begin(), sorted.end());
        require(std::unique(sorted.begin(), sorted.end()) == sorted.end(), one.name + " notes something twice");
        for (const int64_t note : one.notes)
        {
            require(note >= 0 && note < HIPDNN_BEHAVIOR_NOTE_TYPE_COUNT, one.name + " has a note without a name");
        }
        /* Nothing is compiled, and nothing else is loaded, for an engine on the CPU. */
        require(!one.notes_that(HIPDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) &&
                    !one.notes_that(HIPDNN_BEHAVIOR_NOTE_EXTERNAL_LIBRARY_DEPENDENCY),
                one.name + " notes what is not so");
        const Descriptor plan = plan_of(session, graph, one.id);
        size_t size = 0;
        const bool saves = session.library.hipdnnBackendGetSerializedExecutionPlan_ext(plan.raw(), 0, &size, nullptr) ==
                           Result::Success;
        require(saves == one.notes_that(HIPDNN_BEHAVIOR_NOTE_SUPPORTS_EXECUTION_PLAN_SERIALIZATION),
                one.name + " notes one thing of saved plans and does another");
        /* The reference adds up in order; the other engine's order depends on threads. */
        const Descriptor engine = engine_by_id(session, graph, one.id);
        const auto numbers = engine.numbers(HIPDNN_ATTR_ENGINE_NUMERICAL_NOTE, HIPDNN_TYPE_NUMERICAL_NOTE);
        const bool depends =
            std::find(numbers.begin(), numbers.end(), HIPDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != numbers.end();
        require(depends == (one.name == "CPU_ENGINE"), one.name + " notes what is not so of its numbers");
    }
}

void run_filters(const Session& session)
{
    Layer layer = layer_of_some_size();
    const Names both = {"CPU_ENGINE", "CPU_REFERENCE_ENGINE"};
    const auto sorted = [](Names names) {
        std::sort(names.begin(), names.end());
        return names;
    };
    Filter filter;
    require(sorted(run_filtered(session, layer, filter)) == both, "without a filter not all engines run");
    filter.wanted = {HIPDNN_BEHAVIOR_NOTE_SUPPORTS_EXECUTION_PLAN_SERIALIZATION};
    require(sorted(run_filtered(session, layer, filter)) == both, "engines whose plans can be saved");
    filter.barred = {"CPU_ENGINE"};
    require(run_filtered(session, layer, filter) == Names{"CPU_REFERENCE_ENGINE"}, "an engine that is barred runs");
    filter = Filter();
    filter.unwanted = {HIPDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION};
    require(sorted(run_filtered(session, layer, filter)) == both, "engines that compile nothing");
    filter.unwanted.push_back(HIPDNN_BEHAVIOR_NOTE_SUPPORTS_EXECUTION_PLAN_SERIALIZATION);
    require(run_filtered(session, layer, filter).empty(), "an engine with a note that is unwanted runs");
    filter = Filter();
    filter.wanted = {HIPDNN_BEHAVIOR_NOTE_SUPPORTS_GRAPH_CAPTURE};
    require(run_filtered(session, layer, filter).empty(), "an engine on the CPU runs in a captured graph");
    /* Every limit that makes a difference: what each engine asks for, and one byte less. */
    for (const auto& one : look_at(session, layer.graph(session)))
    {
        filter = Filter();
        filter.most_workspace = one.workspace;
        const Names names = run_filtered(session, layer, filter);
        require(std::find(names.begin(), names.end(), one.name) != names.end(),
                one.name + " does not run within its workspace");
        filter.most_workspace -= 1;
        const Names fewer = run_filtered(session, layer, filter);
        require(std::find(fewer.begin(), fewer.end(), one.name) == fewer.end(), one.name + " runs beyond the limit");
    }
}

/* A KnobSetting as bytes, as some frontends hand it over. */
std::vector<uint8_t> write_setting(const std::string& name, int64_t value)
{
    constexpr std::uint8_t INTEGER = 1;
    FlatBuffer buffer;
    const auto text = buffer.string(name);
    buffer.begin_table();
    buffer.field(0, value);
    const auto number = buffer.end_table();
    buffer.begin_table();
    buffer.field_offset(0, text);
    buffer.field(1, INTEGER);
    buffer.field_offset(2, number);
    return buffer.finish(buffer.end_table());
}

/* Knobs as descriptors, as bytes, and both together: the same bits as without, since these change no sum. */
void run_knobs(const Session& session)
{
    Layer layer = layer_of_some_size();
    const Descriptor graph = layer.graph(session);
    const int64_t engine = id_of("CPU_ENGINE");
    const auto execute = [&](const Descriptor& plan, const std::string& what) {
        auto y = layer.empty();
        run(session, plan, layer.bindings(y));
        compare(y, layer.result(), 1e-5F, what);
        return y;
    };
    const auto plain =
        execute(plan_of(session, graph, engine, {{"deterministic", 1}, {"threads", 1}}), "as descriptors");
    const auto setting = write_setting("threads", 1);
    const hipdnnBackendFlatbufferData_t data = {setting.data(), setting.size()};
    Descriptor choice(session, HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set_text(HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, "deterministic")
        .set_numbers(HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {1})
        .finalize();
    Descriptor config(session, HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config.set(HIPDNN_ATTR_ENGINECFG_ENGINE, engine_by_id(session, graph, engine))
        .set(HIPDNN_ATTR_KNOB_CHOICE_SERIALIZED_VALUE, HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT, 1, &data)
        .set(HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, choice)
        .finalize();
    require(execute(plan_of(session, config), "as bytes and descriptors") == plain, "knobs as bytes give other bits");
    /* A value that the engine never accepts is an error, wherever it is checked. */
    for (const Settings& wrong :
         {Settings{{"threads", -1}}, Settings{{"deterministic", 2}}, Settings{{"convolution", 99}}})
    {
        require_failure([&] { plan_of(session, graph, engine, wrong); }, {"failed: ", wrong[0].first},
                        "a value out of range");
    }
}

} // namespace

void run_choices(const Library& library)
{
    const Session session(library);
    run_notes(session);
    run_filters(session);
    run_knobs(session);
}

} // namespace client
