/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Knobs under the names of NVIDIA's frontend: it numbers what engines here name.
 */
#pragma once

#include "attributes.hpp"

#include <algorithm>
#include <cctype>

namespace hipdnn_frontend::compatibility::cudnn_frontend
{

/** A kind of knob. Programs store the numbers in files, so they are NVIDIA's. */
enum class KnobType_t : int64_t {
    NOT_SET = 0,
    SWIZZLE,
    TILE_SIZE,
    EDGE,
    MULTIPLY,
    SPLIT_K_BUF,
    TILEK,
    STAGES,
    REDUCTION_MODE,
    SPLIT_K_SLC,
    IDX_MODE,
    SPECFILT,
    KERNEL_CFG,
    WORKSPACE,
    TILE_CGA_M,
    TILE_CGA_N,
    BLOCK_SIZE,
    OCCUPANCY,
    ARRAY_SIZE_PER_THREAD,
    SPLIT_COLS,
    TILE_ROWS,
    TILE_COLS,
    LOAD_SIZE,
    CTA_COUNT,
    STREAM_K,
    SPLIT_P_SLC,
    TILE_M,
    TILE_N,
    WARP_SPEC_CFG,
    SWAP_AB,
    INPUT_TMA_ENABLE,
    OUTPUT_TMA_ENABLE,
    TILE_CGA
};

/** A knob of an engine, with its range of integers: the least, the greatest and the step. */
class Knob
{
public:
    KnobType_t type = KnobType_t::NOT_SET;
    int64_t maxValue = 0, minValue = 0, stride = 0;

    Knob(KnobType_t kind, int64_t most, int64_t least, int64_t step)
        : type(kind), maxValue(most), minValue(least), stride(step)
    {
    }
};

namespace detail
{

/** The names of kinds, numbered from 1. */
inline const std::vector<std::string>& knob_words()
{
    static const std::vector<std::string> words = {"swizzle",
                                                   "tile_size",
                                                   "edge",
                                                   "multiply",
                                                   "split_k_buf",
                                                   "tilek",
                                                   "stages",
                                                   "reduction_mode",
                                                   "split_k_slc",
                                                   "idx_mode",
                                                   "specfilt",
                                                   "kernel_cfg",
                                                   "workspace",
                                                   "tile_cga_m",
                                                   "tile_cga_n",
                                                   "block_size",
                                                   "occupancy",
                                                   "array_size_per_thread",
                                                   "split_cols",
                                                   "tile_rows",
                                                   "tile_cols",
                                                   "load_size",
                                                   "cta_count",
                                                   "stream_k",
                                                   "split_p_slc",
                                                   "tile_m",
                                                   "tile_n",
                                                   "warp_spec_cfg",
                                                   "swap_ab",
                                                   "input_tma_enable",
                                                   "output_tma_enable",
                                                   "tile_cga"};
    return words;
}

/** The kind of a hipDNN knob, by its name after the last dot. NOT_SET if cuDNN has no such kind. */
inline KnobType_t knob_type(const std::string& name)
{
    std::string word = name.substr(name.rfind('.') + 1);
    for (char& c : word)
    {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    word = word == "workspace_size_limit" ? "workspace" : word;
    for (size_t i = 0; i < knob_words().size(); i++)
    {
        if (knob_words()[i] == word)
        {
            return static_cast<KnobType_t>(i + 1);
        }
    }
    return KnobType_t::NOT_SET;
}

/** The name of a kind in messages. */
inline std::string knob_word(KnobType_t type)
{
    const auto number = static_cast<int64_t>(type);
    return number >= 1 && number <= static_cast<int64_t>(knob_words().size())
               ? knob_words()[static_cast<size_t>(number) - 1]
               : "number " + std::to_string(number);
}

/** The knobs that cuDNN's interface can express: of a known kind, with integers in steps. */
inline std::vector<Knob> knobs_of(const std::vector<::hipdnn::Knob>& native)
{
    std::vector<Knob> made;
    for (const auto& one : native)
    {
        const auto* range = dynamic_cast<const ::hipdnn::IntConstraint*>(one.constraint());
        const KnobType_t type = knob_type(one.knobId());
        if (type != KnobType_t::NOT_SET && range != nullptr && range->getValidValues().empty())
        {
            made.emplace_back(type, range->getMaxValue(), range->getMinValue(), range->getStep());
        }
    }
    return made;
}

/** Settings of an engine's knobs. @return INVALID_VALUE for a kind that the engine lacks or has twice */
template <typename Values>
error_t settings_of(const Values& values, const std::vector<::hipdnn::Knob>& native,
                    std::vector<::hipdnn::KnobSetting>& settings)
{
    for (const auto& value : values)
    {
        const ::hipdnn::Knob* found = nullptr;
        size_t count = 0;
        for (const auto& one : native)
        {
            const bool same = knob_type(one.knobId()) == value.first;
            found = same ? &one : found;
            count += same ? 1 : 0;
        }
        if (count != 1)
        {
            return {error_code_t::INVALID_VALUE, "knob " + knob_word(value.first) + ": the engine has " +
                                                     std::to_string(count) + " of this kind, expected 1"};
        }
        const bool is_real = found->valueType() == ::hipdnn::KnobValueType::FLOAT64;
        settings.emplace_back(found->knobId(), is_real ? ::hipdnn::KnobValueVariant(static_cast<double>(value.second))
                                                       : ::hipdnn::KnobValueVariant(value.second));
    }
    return {};
}

/** Drops plans of host engines, by name, and moves the chosen one. @return GRAPH_NOT_SUPPORTED if none is left */
template <typename Plans, typename Name>
error_t drop_host_plans(Plans& plans, size_t& active, const Name& name)
{
    const int64_t chosen = active < plans.size() ? plans[active].engine : 0;
    const auto is_hosts = [&name](const auto& plan) { return name(plan.engine).compare(0, 4, "CPU_") == 0; };
    plans.erase(std::remove_if(plans.begin(), plans.end(), is_hosts), plans.end());
    const auto same = [chosen](const auto& plan) { return plan.engine == chosen; };
    const auto kept = std::find_if(plans.begin(), plans.end(), same);
    active = kept == plans.end() ? 0 : static_cast<size_t>(kept - plans.begin());
    return plans.empty() ? error_t(error_code_t::GRAPH_NOT_SUPPORTED,
                                   "the engines that compute the graph read the host's memory, expected one for the "
                                   "GPU; HIPDNN_CPU_FALLBACK=1 allows them")
                         : error_t();
}

} // namespace detail
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
