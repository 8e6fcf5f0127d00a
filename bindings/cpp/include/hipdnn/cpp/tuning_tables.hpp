/* SPDX-License-Identifier: MIT */

/**
 * @file
 * A strategy's input for a graph: engines with the knobs and values worth trying, and the device, as the tables of tuning
 * plugins; and configurations, read without accessing anything outside of the bytes.
 */
#pragma once

#include "../plugin/cpp/bytes.hpp"
#include "autotune.hpp"
#include "tuning_system.hpp"

#include <array>

namespace hipdnn
{
namespace detail
{

/* Templates, here and below, whose types all depend on their parameter, so that a program that does not tune need not compile them. */

/** A knob worth tuning, with the values to try, the default first. */
template <typename T>
struct TunableOf
{
    KnobOf<T> knob;
    std::vector<KnobValueVariant> values;

    /** Whether the knob accepts a value: one of those to try, or a number in its range. */
    bool takes(const KnobValueVariant& value) const
    {
        if (std::find(values.begin(), values.end(), value) != values.end())
        {
            return true;
        }
        const auto* number = std::get_if<double>(&value);
        if (number == nullptr || !std::holds_alternative<double>(knob.defaultValue()) || knob.constraint() == nullptr)
        {
            return false;
        }
        const auto* range = static_cast<const FloatConstraintOf<T>*>(knob.constraint());
        return range->getMinValue() < range->getMaxValue() && *number >= range->getMinValue() &&
               *number <= range->getMaxValue();
    }

    /** Sets the knob in a configuration; setting its default unsets it. */
    void turn(CandidateOf<T>& configuration, const KnobValueVariant& value) const
    {
        configuration.settings.erase(knob.knobId());
        if (!(value == knob.defaultValue()))
        {
            configuration.settings.emplace(knob.knobId(), value);
        }
    }
};

/** An engine that computes the graph. */
template <typename T>
struct TunableEngineOf
{
    int64_t engine = -1;
    std::string name;
    std::vector<TunableOf<T>> knobs;

    /** The engine with default knobs. */
    CandidateOf<T> bare() const
    {
        CandidateOf<T> made;
        made.engine = engine;
        return made;
    }
};

/** A tuning problem. */
template <typename T>
struct TuningProblemOf
{
    std::vector<uint8_t> graph;
    /** The library's choice first. */
    std::vector<TunableEngineOf<T>> engines;
    /** The most time that a search may take, in nanoseconds, after each engine was measured with default knobs. */
    double budget = 0;
};

/** What determines which knobs can matter: the graph, and an engine's default plan. */
template <typename T>
struct TuningFactsOf
{
    bool has_convolution = false;
    /** The number of steps in the plan, as far as it tells, and whether each uses one thread. */
    size_t steps = 0;
    bool has_one_thread = false;
    int64_t workspace = 0;

    /** Counts the steps in a plan's JSON: each is an object in its list, and may tell how many threads it uses. */
    void read_steps(const std::string& plan)
    {
        const std::string list = "\"steps\":[", threads = "\"threads\":";
        const size_t begin = plan.find(list);
        size_t single = 0;
        int depth = 0;
        for (size_t at = begin == std::string::npos ? plan.size() : begin + list.size(); at < plan.size(); at++)
        {
            const char c = plan[at];
            if (c == '"' && depth == 1 && plan.compare(at, threads.size(), threads) == 0)
            {
                const size_t value = at + threads.size();
                single += plan[value] == '1' && (plan[value + 1] < '0' || plan[value + 1] > '9') ? 1 : 0;
            }
            if (c == '"')
            {
                for (at++; at < plan.size() && plan[at] != '"'; at++)
                {
                    at += plan[at] == '\\' ? 1 : 0;
                }
            } else if (c == '{' || c == '[')
            {
                steps += depth == 0 ? 1 : 0;
                depth++;
            } else if ((c == '}' || c == ']') && --depth < 0)
            {
                break;
            }
        }
        has_one_thread = begin != std::string::npos && single == steps;
    }
};

/** The values of knobs worth trying. */
template <typename T>
struct SamplesOf
{
    using Values = std::vector<KnobValueVariant>;

    /** Some values from the first to the second in steps: all if they fit, else some whose distance from the first doubles. */
    static Values spread(int64_t least, int64_t greatest, int64_t step, size_t most)
    {
        const uint64_t width = static_cast<uint64_t>(step < 1 ? 1 : step);
        const uint64_t steps = (static_cast<uint64_t>(greatest) - static_cast<uint64_t>(least)) / width;
        std::vector<uint64_t> offsets;
        if (steps < most)
        {
            for (uint64_t at = 0; at <= steps; at++)
            {
                offsets.push_back(at);
            }
        } else
        {
            offsets.push_back(0);
            for (uint64_t power = 1; power != 0 && power < steps; power <<= 1)
            {
                offsets.push_back(power);
            }
            offsets.push_back(steps);
        }
        const size_t count = std::min(most, offsets.size()), last = offsets.size() - 1;
        Values values;
        for (size_t at = 0; at < count; at++)
        {
            const uint64_t offset = offsets[offsets.size() > most ? at * last / (most - 1) : at];
            values.emplace_back(static_cast<int64_t>(static_cast<uint64_t>(least) + offset * width));
        }
        return values;
    }

    /** The default, then those listed, or some within the bounds. */
    static Values of_range(const KnobOf<T>& knob, size_t most)
    {
        Values others;
        if (knob.constraint() == nullptr)
        {
            return {knob.defaultValue()};
        }
        if (std::holds_alternative<int64_t>(knob.defaultValue()))
        {
            const auto* range = static_cast<const IntConstraintOf<T>*>(knob.constraint());
            others.assign(range->getValidValues().begin(), range->getValidValues().end());
            std::sort(others.begin(), others.end());
            if (others.empty() && range->getMinValue() < range->getMaxValue())
            {
                others =
                    spread(range->getMinValue(), range->getMaxValue(), range->getStep(), std::max<size_t>(most, 2));
            }
        } else if (std::holds_alternative<double>(knob.defaultValue()))
        {
            const auto* range = static_cast<const FloatConstraintOf<T>*>(knob.constraint());
            const double least = range->getMinValue(), greatest = range->getMaxValue();
            const size_t parts = std::max<size_t>(most, 2) - 1;
            for (size_t at = 0; least < greatest && at <= parts; at++)
            {
                others.emplace_back(least + (greatest - least) * static_cast<double>(at) / static_cast<double>(parts));
            }
        } else
        {
            const auto* range = static_cast<const StringConstraintOf<T>*>(knob.constraint());
            others.assign(range->getValidValues().begin(), range->getValidValues().end());
            std::sort(others.begin(), others.end());
        }
        others.erase(std::remove(others.begin(), others.end(), knob.defaultValue()), others.end());
        others.insert(others.begin(), knob.defaultValue());
        others.resize(std::min(others.size(), std::max<size_t>(most, 1)));
        return others;
    }

    static bool ends_with(const std::string& text, const std::string& end)
    {
        return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
    }

    /** Whether a knob is a promise of the program (such as constant weights), or trades accuracy for time: such knobs are not tuned. */
    static bool is_promise(const std::string& id)
    {
        return id == "constant_weights" || id == "flush_subnormals" || ends_with(id, ".tf32");
    }

    /**
     * The values to try: only the default if no other can matter, not more threads than processors, no workspace limit that the
     * plan satisfies anyway, and no index beyond the end of a kernel list. `plans` tells whether a value can be planned.
     */
    static Values of(const KnobOf<T>& knob, size_t most, const TuningFactsOf<T>& facts,
                     const std::function<bool(const KnobValueVariant&)>& plans)
    {
        Values values = of_range(knob, most);
        const std::string& id = knob.knobId();
        bool matters = !(id == "convolution" && !facts.has_convolution);
        Values kept;
        for (KnobValueVariant& value : values)
        {
            auto* number = std::get_if<int64_t>(&value);
            const bool is_default = value == knob.defaultValue();
            if (id == "threads" && number != nullptr)
            {
                *number = std::min<int64_t>(*number, SystemOf<T>::processors());
            } else if (id == "global.workspace_size_limit" && !is_default &&
                       !(number != nullptr && *number < facts.workspace))
            {
                continue;
            } else if ((ends_with(id, ".engine") || ends_with(id, ".algorithm")) && !is_default && !plans(value))
            {
                /* Indices of a list, the best first: an index behind one that is missing is missing, too. */
                break;
            }
            if (std::find(kept.begin(), kept.end(), value) == kept.end())
            {
                kept.push_back(value);
            }
        }
        /* It forbids some values of `convolution`, which are tried one by one. */
        matters = matters && !(id == "threads" && facts.has_one_thread) && id != "winograd";
        matters = matters && !((ends_with(id, ".share_rows") || id == "batch_invariant") && facts.steps < 2);
        kept.resize(matters ? kept.size() : std::min<size_t>(kept.size(), 1));
        return kept;
    }

    /** An engine with the knobs worth trying, and at most this many values of each. */
    static TunableEngineOf<T> of_engine(const TunedGraphOf<T>& graph, int64_t id, size_t most)
    {
        TunableEngineOf<T> engine;
        engine.engine = id;
        engine.name = graph.name_of(id);
        std::vector<KnobOf<T>> knobs;
        if (most < 2 || graph.knobs_of(id, knobs).is_bad())
        {
            return engine;
        }
        TuningFactsOf<T> facts;
        facts.has_convolution = graph.has_convolution();
        std::string description;
        if (graph.plan(engine.bare(), facts.workspace, description).is_good())
        {
            facts.read_steps(description);
        }
        for (const auto& knob : knobs)
        {
            if (knob.isDeprecated() || knob.knobId() == BENCHMARKING_KNOB || is_promise(knob.knobId()))
            {
                continue;
            }
            const auto plans = [&](const KnobValueVariant& value) {
                CandidateOf<T> turned = engine.bare();
                turned.settings.emplace(knob.knobId(), value);
                int64_t workspace = 0;
                return graph.plan(turned, workspace, description).is_good();
            };
            Values values = of(knob, most, facts, plans);
            if (values.size() > 1)
            {
                engine.knobs.push_back({knob, std::move(values)});
            }
        }
        return engine;
    }
};

/** Tables for plugins, and from them. */
template <typename T>
struct TuningTablesOf
{
    using Writer = hipdnn_plugin::detail::WriterOf<T>;
    using Table = hipdnn_plugin::detail::TableOf<T>;

    static void write_value(Writer& writer, size_t kind_at, size_t table_at, const KnobValueVariant& value)
    {
        writer.put(kind_at, static_cast<uint8_t>(value.index() + 1));
        const size_t table = writer.table(1, 1);
        writer.link_table(table_at, table);
        if (const auto* integer = std::get_if<int64_t>(&value))
        {
            writer.put(table, *integer);
        } else if (const auto* number = std::get_if<double>(&value))
        {
            writer.put(table, *number);
        } else
        {
            writer.text(table, *std::get_if<std::string>(&value));
        }
    }

    /** Lists the values to try; for numbers the range as well. */
    static void write_constraint(Writer& writer, size_t at, const TunableOf<T>& tunable)
    {
        const auto& values = tunable.values;
        if (std::holds_alternative<int64_t>(tunable.knob.defaultValue()))
        {
            std::vector<int64_t> list;
            for (const KnobValueVariant& value : values)
            {
                list.push_back(*std::get_if<int64_t>(&value));
            }
            const size_t table = writer.table(4, 15);
            writer.link_table(at, table);
            writer.put(table, *std::min_element(list.begin(), list.end()));
            writer.put(table + 8, *std::max_element(list.begin(), list.end()));
            writer.put(table + 16, int64_t{1});
            writer.numbers(table + 24, list);
        } else if (std::holds_alternative<double>(tunable.knob.defaultValue()))
        {
            const auto* range = static_cast<const FloatConstraintOf<T>*>(tunable.knob.constraint());
            const size_t table = writer.table(2, 3);
            writer.link_table(at, table);
            writer.put(table, range == nullptr ? 0.0 : range->getMinValue());
            writer.put(table + 8, range == nullptr ? 0.0 : range->getMaxValue());
        } else
        {
            const size_t table = writer.table(2, 2);
            writer.link_table(at, table);
            const size_t list = writer.numbers(table + 8, std::vector<uint32_t>(values.size()));
            for (size_t i = 0; i < values.size(); i++)
            {
                writer.text(list + 4 * i, *std::get_if<std::string>(&values[i]));
            }
        }
    }

    /** The bytes of an EngineDetails. */
    static std::vector<uint8_t> details(const TunableEngineOf<T>& engine)
    {
        Writer writer;
        const size_t root = writer.table(4, engine.knobs.empty() ? 9 : 11);
        writer.link_table(0, root);
        writer.put(root, engine.engine);
        writer.text(root + 24, engine.name);
        const size_t list =
            engine.knobs.empty() ? 0 : writer.numbers(root + 8, std::vector<uint32_t>(engine.knobs.size()));
        for (size_t i = 0; i < engine.knobs.size(); i++)
        {
            const auto& knob = engine.knobs[i].knob;
            /* Name, description, type and table of the default, type and table of the constraint. */
            const size_t table = writer.table(7, 63);
            writer.link_table(list + 4 * i, table);
            writer.text(table, knob.knobId());
            writer.text(table + 8, knob.description());
            write_value(writer, table + 16, table + 24, knob.defaultValue());
            writer.put(table + 32, static_cast<uint8_t>(knob.defaultValue().index() + 1));
            write_constraint(writer, table + 40, engine.knobs[i]);
        }
        return writer.bytes;
    }

    /** The bytes of a DeviceProperties table: of the first GPU, or of the processor on machines without a GPU. */
    static std::vector<uint8_t> device()
    {
        const auto found = SystemOf<T>::device();
        Writer writer;
        const size_t root = writer.table(4, 15);
        writer.put(4, std::array<char, 4>{'H', 'D', 'D', 'P'});
        writer.link_table(0, root);
        writer.put(root, static_cast<int32_t>(found.number));
        writer.put(root + 8, static_cast<int32_t>(found.units));
        writer.put(root + 16, static_cast<uint64_t>(found.memory));
        writer.text(root + 24, found.architecture);
        return writer.bytes;
    }

    /** Reads a configuration: of an engine of the problem, with each knob at most once and a value that it accepts. */
    static bool read(const void* data, size_t size, const std::vector<TunableEngineOf<T>>& engines,
                     CandidateOf<T>& configuration)
    try
    {
        /* Memory cannot have more bytes. */
        if (data == nullptr || size > static_cast<size_t>(PTRDIFF_MAX))
        {
            return false;
        }
        const Table root = Table::root({static_cast<const uint8_t*>(data), size});
        const auto id = root.template number<int64_t>(0, 0);
        const auto is_own = [id](const TunableEngineOf<T>& one) { return one.engine == id; };
        const auto engine = std::find_if(engines.begin(), engines.end(), is_own);
        if (engine == engines.end())
        {
            return false;
        }
        configuration = engine->bare();
        std::vector<const TunableOf<T>*> seen;
        for (const Table& setting : root.tables(1))
        {
            const std::string name = setting.text(0);
            const auto is_named = [&name](const TunableOf<T>& one) { return one.knob.knobId() == name; };
            const auto tunable = std::find_if(engine->knobs.begin(), engine->knobs.end(), is_named);
            if (tunable == engine->knobs.end() || std::find(seen.begin(), seen.end(), &*tunable) != seen.end())
            {
                return false;
            }
            seen.push_back(&*tunable);
            KnobValueVariant value;
            switch (setting.template number<uint8_t>(1, 0))
            {
            case 1: value = setting.table(2).template number<int64_t>(0, 0); break;
            case 2: value = setting.table(2).template number<double>(0, 0); break;
            case 3: value = setting.table(2).text(0); break;
            default: return false;
            }
            if (!tunable->takes(value))
            {
                return false;
            }
            tunable->turn(configuration, value);
        }
        return true;
    } catch (const std::exception&)
    {
        return false;
    }
};

} // namespace detail
} // namespace hipdnn
