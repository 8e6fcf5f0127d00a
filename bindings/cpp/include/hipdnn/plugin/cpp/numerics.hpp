/* SPDX-License-Identifier: MIT */

/**
 * @file
 * What an engine does to numbers, as a plugin tells it and as hosts read it.
 */
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hipdnn_plugin
{

/** A setting of a knob that adds a numerical note, or takes it away. */
struct NoteKnob
{
    std::string note; ///< As in Numerics::notes.
    std::string knob;
    int64_t value = 1;
    bool adds = true; ///< Whether the note is there with the value; if not, it is there without.
};

/** How matrix instructions add up. */
struct MatrixSums
{
    uint32_t terms; ///< The products that an instruction adds to a sum at once, at least.
    uint32_t bits;  ///< The significant bits that it keeps of products and sums, at least; one more if it rounds.
};

/** What an engine may do to the numbers of a graph. Without anything: exactly what the graph says, sums in order. */
struct Numerics
{
    std::vector<std::string> notes;        ///< hipdnnBackendNumericalNote_t without HIPDNN_NUMERICAL_NOTE_ and _EXT.
    std::vector<std::string> accumulators; ///< The types of sums: "float".
    std::vector<std::string> order;        ///< What their order depends on: "shapes", "threads", "device", "library".
    std::optional<uint32_t> parts;         ///< The most parts that a sum is divided into, if known.
    std::optional<MatrixSums> matrix_sums; ///< How matrix instructions add up, if known.
    /** Approximated functions with their largest error in units in the last place, if known. */
    std::map<std::string, std::optional<uint32_t>> functions;
    std::vector<int64_t> unrounded; ///< The virtual tensors between fused nodes that are not rounded to their type.
    std::vector<NoteKnob> knobs;    ///< The settings that change the notes.
};

namespace detail
{

/** A text in JSON. */
inline std::string quoted(const std::string& text)
{
    std::string json = "\"";
    for (const char c : text)
    {
        if (static_cast<unsigned char>(c) < 0x20)
        {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
            json += escaped;
            continue;
        }
        json += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    }
    return json + '"';
}

/** Adds a member with a separator. */
inline void put(std::string& json, const std::string& key, const std::string& value)
{
    json += (json.empty() ? "" : ",") + quoted(key) + ":" + value;
}

/** Adds a list, unless it is empty. */
template <typename Values, typename Write>
void put_list(std::string& json, const std::string& key, const Values& values, const Write& write)
{
    std::string list;
    for (const auto& value : values)
    {
        list += (list.empty() ? "" : ",") + write(value);
    }
    if (!list.empty())
    {
        put(json, key, "[" + list + "]");
    }
}

/** The text of hipdnnEnginePluginDescribeNumerics_ext. */
inline std::string write_numerics(const Numerics& numerics)
{
    std::string own, functions, knobs;
    put_list(own, "accumulators", numerics.accumulators, quoted);
    for (const auto& [name, error] : numerics.functions)
    {
        put(functions, name, error ? std::to_string(*error) : "null");
    }
    if (!functions.empty())
    {
        put(own, "functions", "{" + functions + "}");
    }
    if (numerics.matrix_sums)
    {
        std::string sums;
        put(sums, "bits", std::to_string(numerics.matrix_sums->bits));
        put(sums, "terms", std::to_string(numerics.matrix_sums->terms));
        put(own, "matrix_sums", "{" + sums + "}");
    }
    put_list(own, "notes", numerics.notes, quoted);
    put_list(own, "order", numerics.order, quoted);
    if (numerics.parts)
    {
        put(own, "parts", std::to_string(*numerics.parts));
    }
    put_list(own, "unrounded", numerics.unrounded, [](int64_t uid) { return std::to_string(uid); });
    put_list(knobs, "knobs", numerics.knobs, [](const NoteKnob& knob) {
        std::string one;
        put(one, "adds", knob.adds ? "true" : "false");
        put(one, "knob", quoted(knob.knob));
        put(one, "note", quoted(knob.note));
        put(one, "value", std::to_string(knob.value));
        return "{" + one + "}";
    });
    return "{" + (knobs.empty() ? "\"knobs\":[]" : knobs) + ",\"numerics\":{" + own + "}}";
}

} // namespace detail
} // namespace hipdnn_plugin
