/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Knobs between host and engine: writes the engine's details, and reads and checks an engine's configuration.
 */
#pragma once

#include "engine.hpp"

#include <cmath>

namespace hipdnn_plugin
{
namespace detail
{

inline std::string in_words(const KnobValue& value)
{
    if (const auto* integer = std::get_if<int64_t>(&value))
    {
        return std::to_string(*integer);
    }
    const auto* real = std::get_if<double>(&value);
    return real != nullptr ? std::to_string(*real) : "\"" + *std::get_if<std::string>(&value) + "\"";
}

/** Fills in a union of a value: its type, and the table. */
inline void write_value(Writer& writer, size_t kind_at, size_t table_at, const KnobValue& value)
{
    writer.put(kind_at, static_cast<uint8_t>(value.index() + 1));
    const size_t table = writer.table(1, 1);
    writer.link_table(table_at, table);
    if (const auto* integer = std::get_if<int64_t>(&value))
    {
        writer.put(table, *integer);
    } else if (const auto* real = std::get_if<double>(&value))
    {
        writer.put(table, *real);
    } else
    {
        writer.text(table, *std::get_if<std::string>(&value));
    }
}

inline void write_constraint(Writer& writer, size_t at, const Knob& knob)
{
    if (std::holds_alternative<int64_t>(knob.default_value))
    {
        const size_t table = writer.table(4, 7);
        writer.link_table(at, table);
        writer.put(table, static_cast<int64_t>(knob.least));
        writer.put(table + 8, static_cast<int64_t>(knob.most));
        writer.put(table + 16, knob.step);
    } else if (std::holds_alternative<double>(knob.default_value))
    {
        const size_t table = writer.table(2, 3);
        writer.link_table(at, table);
        writer.put(table, knob.least);
        writer.put(table + 8, knob.most);
    } else
    {
        const size_t table = writer.table(2, 2);
        writer.link_table(at, table);
        const size_t list = writer.numbers(table + 8, std::vector<uint32_t>(knob.texts.size()));
        for (size_t i = 0; i < knob.texts.size(); i++)
        {
            writer.text(list + 4 * i, knob.texts[i]);
        }
    }
}

/** The bytes of an EngineDetails table. */
inline std::vector<uint8_t> write_details(const Engine& engine, const Graph& graph)
{
    Writer writer;
    const size_t root = writer.table(4, 15);
    writer.link_table(0, root);
    writer.put(root, id_of(engine.name()));
    writer.text(root + 24, engine.name());
    writer.numbers(root + 16, engine.behavior_notes(graph));
    const std::vector<Knob> knobs = engine.knobs(graph);
    const size_t list = writer.numbers(root + 8, std::vector<uint32_t>(knobs.size()));
    for (size_t i = 0; i < knobs.size(); i++)
    {
        /* Name, description, type and table of the default, type and table of the constraint. */
        const size_t knob = writer.table(7, 63);
        writer.link_table(list + 4 * i, knob);
        writer.text(knob, knobs[i].name);
        writer.text(knob + 8, knobs[i].description);
        write_value(writer, knob + 16, knob + 24, knobs[i].default_value);
        writer.put(knob + 32, static_cast<uint8_t>(knobs[i].default_value.index() + 1));
        write_constraint(writer, knob + 40, knobs[i]);
    }
    return writer.bytes;
}

/** Whether a knob accepts a value. */
inline bool takes(const Knob& knob, const KnobValue& value)
{
    if (knob.default_value.index() != value.index())
    {
        return false;
    }
    if (const auto* text = std::get_if<std::string>(&value))
    {
        for (const std::string& one : knob.texts)
        {
            if (one == *text)
            {
                return true;
            }
        }
        return knob.texts.empty();
    }
    const auto* integer = std::get_if<int64_t>(&value);
    const double number = integer != nullptr ? static_cast<double>(*integer) : *std::get_if<double>(&value);
    const bool is_free = knob.least == 0 && knob.most == 0;
    const bool in_range = is_free ? std::isfinite(number) : number >= knob.least && number <= knob.most;
    return in_range && (integer == nullptr || is_free || knob.step <= 1 ||
                        (*integer - static_cast<int64_t>(knob.least)) % knob.step == 0);
}

/** An engine's id in the bytes of an EngineConfig. */
inline int64_t configured_engine(const hipdnnPluginConstData_t* config)
{
    require(config, "engine_config");
    return Table::root({static_cast<const uint8_t*>(config->ptr), config->size}).number<int64_t>(0, 0);
}

inline KnobValue read_value_of(const Table& setting, const std::string& name)
{
    switch (setting.number<uint8_t>(1, 0))
    {
    case 1: return setting.table(2).number<int64_t>(0, 0);
    case 2: return setting.table(2).number<double>(0, 0);
    case 3: return setting.table(2).text(0);
    default: throw Error(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "knob " + name + ": the value is of an unknown type");
    }
}

/** The settings of an EngineConfig with defaults for the rest. Knobs that the engine lacks are ignored. */
inline Settings read_settings(const hipdnnPluginConstData_t* config, const std::vector<Knob>& knobs)
{
    Settings settings;
    const Table root = Table::root({static_cast<const uint8_t*>(config->ptr), config->size});
    for (const Table& one : root.tables(1))
    {
        const std::string name = one.text(0);
        const Knob* knob = nullptr;
        for (const Knob& known : knobs)
        {
            knob = known.name == name ? &known : knob;
        }
        if (knob == nullptr)
        {
            log(HIPDNN_SEV_WARN, "knob " + name + " is passed over, the engine has no such one");
            continue;
        }
        const KnobValue value = read_value_of(one, name);
        if (!takes(*knob, value))
        {
            throw Error(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "knob " + name + ": the value is " + in_words(value) +
                                                                ", expected one like " + in_words(knob->default_value) +
                                                                " in its limits");
        }
        if (!settings.values.emplace(name, value).second)
        {
            throw Error(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "knob " + name + " is set twice");
        }
    }
    settings.complete(knobs);
    return settings;
}

} // namespace detail
} // namespace hipdnn_plugin
