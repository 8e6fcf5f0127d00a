/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Plans chosen by notes: what NVIDIA's frontend says of engines and of how they compute.
 */
#pragma once

#include "knobs.hpp"
#include "views.hpp"

namespace hipdnn_frontend::compatibility::cudnn_frontend
{
namespace graph
{

/** Filters of plans. They hold for plans that exist and for those that are created later. */
template <typename Self>
class Notes : public Views<Self>
{
    using Base = Views<Self>;

public:
    using Base::get_behavior_notes_for_engine;

    /** Plans of engines that do not compute so, even with a knob for it, are not built or chosen. */
    Self& select_numeric_notes(const std::vector<NumericalNote_t>& notes)
    {
        return want_notes("select_numeric_notes", notes, _selected);
    }
    /** Plans of engines that may compute so are not built or chosen, unless a knob forbids it, which is then set. */
    Self& deselect_numeric_notes(const std::vector<NumericalNote_t>& notes)
    {
        return want_notes("deselect_numeric_notes", notes, _deselected);
    }
    /** Plans of engines without one of these notes are not built or chosen. */
    Self& select_behavior_notes(const std::vector<BehaviorNote_t>& notes) { return bar_notes(notes, false), self(); }
    /** Plans of engines with one of these notes are not built or chosen. */
    Self& deselect_behavior_notes(const std::vector<BehaviorNote_t>& notes) { return bar_notes(notes, true), self(); }

    /** The notes of the chosen plan's engine that cuDNN has. */
    error_t get_behavior_notes(std::vector<BehaviorNote_t>& notes) const
    {
        return get_behavior_notes_for_plan_at_index(static_cast<int64_t>(_active), notes);
    }
    error_t get_behavior_notes_for_plan_at_index(int64_t plan, std::vector<BehaviorNote_t>& notes) const
    {
        HIPDNN_CPP_TRY(check_index(plan));
        std::vector<::hipdnn::BehaviorNote> native;
        HIPDNN_CPP_TRY(get_behavior_notes_for_engine(_plans[static_cast<size_t>(plan)].engine, native));
        notes.clear();
        for (const auto note : native)
        {
            if (note == ::hipdnn::BehaviorNote::RUNTIME_COMPILATION)
            {
                notes.push_back(BehaviorNote_t::RUNTIME_COMPILATION);
            }
        }
        return {};
    }

protected:
    using Plan = typename Base::Plan;
    using Base::_active;
    using Base::_plans;
    using Base::check_index;
    using Base::make_engine;
    using Base::make_plan;

    /** What was asked for that is no note. */
    error_t notes_error() const
    {
        return _unknown.empty()
                   ? error_t()
                   : error_t(error_code_t::GRAPH_NOT_SUPPORTED, _unknown + ", expected a note of NumericalNote_t");
    }
    /** The same, or that no plan is left, with the reason of each engine. */
    error_t plans_error() const
    {
        HIPDNN_CPP_TRY(notes_error());
        bool any = _plans.empty() || _wanted.empty();
        for (const Plan& plan : _plans)
        {
            any = any || !plan.barred;
        }
        return any ? error_t() : error_t(error_code_t::GRAPH_NOT_SUPPORTED, _wanted + ": no engine is left" + _reasons);
    }

    /** Applies the filters to plans that were created. */
    void settle_notes()
    {
        _reasons.clear();
        for (size_t i = 0; i < _plans.size() && !_wanted.empty(); i++)
        {
            const error_t error = settle_plan(_plans[i]);
            if (error.is_bad())
            {
                _plans[i].barred = true;
                _reasons += "; " + error.get_message();
            }
        }
        skip_barred();
    }

private:
    std::vector<hipdnnBackendNumericalNote_t> _selected, _deselected;
    /** The calls that asked for notes, and what they gave that is none. */
    std::string _wanted, _unknown;
    /** Why plans are barred. */
    std::string _reasons;

    Self& self() { return static_cast<Self&>(*this); }

    Self& want_notes(const char* call, const std::vector<NumericalNote_t>& notes,
                     std::vector<hipdnnBackendNumericalNote_t>& to)
    {
        static constexpr const char* names[] = {"TENSOR_CORE",
                                                "DOWN_CONVERT_INPUTS",
                                                "REDUCED_PRECISION_REDUCTION",
                                                "FFT",
                                                "NONDETERMINISTIC",
                                                "WINOGRAD",
                                                "WINOGRAD_TILE_4x4",
                                                "WINOGRAD_TILE_6x6",
                                                "WINOGRAD_TILE_13x13",
                                                "STRICT_NAN_PROP"};
        for (const NumericalNote_t note : notes)
        {
            const auto number = static_cast<size_t>(note);
            if (note == NumericalNote_t::NOT_SET)
            {
                continue;
            }
            const bool known = number < sizeof names / sizeof names[0];
            std::string& where = known ? _wanted : _unknown;
            where += (where.empty() ? "" : ", ") + std::string(call) + "(" +
                     (known ? names[number] : std::to_string(number)) + ")";
            if (known)
            {
                to.push_back(static_cast<hipdnnBackendNumericalNote_t>(number));
            }
        }
        settle_notes();
        return self();
    }

    /** Sets the knobs that the notes need, and lets a plan that was built be built again if there are any. */
    error_t settle_plan(Plan& plan)
    {
        ::hipdnn::detail::Descriptor engine;
        HIPDNN_CPP_TRY(make_engine(plan.engine, engine));
        const ::hipdnn::detail::Descriptor config(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        HIPDNN_CPP_TRY(config.set(HIPDNN_ATTR_ENGINECFG_ENGINE, engine, "configuring an engine"));
        const auto ask = [&config](hipdnnBackendAttributeName_t name,
                                   const std::vector<hipdnnBackendNumericalNote_t>& notes) -> error_t {
            return notes.empty()
                       ? error_t()
                       : ::hipdnn::detail::backend_error(config.set(name, HIPDNN_TYPE_NUMERICAL_NOTE,
                                                                    static_cast<int64_t>(notes.size()), notes.data()),
                                                         "asking for notes");
        };
        HIPDNN_CPP_TRY(ask(HIPDNN_ATTR_ENGINECFG_SELECT_NUMERICAL_NOTES_EXT, _selected));
        HIPDNN_CPP_TRY(ask(HIPDNN_ATTR_ENGINECFG_DESELECT_NUMERICAL_NOTES_EXT, _deselected));
        const auto own = plan.settings == nullptr ? std::vector<::hipdnn::KnobSetting>() : *plan.settings;
        std::vector<::hipdnn::detail::Descriptor> choices(own.size());
        std::vector<hipdnnBackendDescriptor_t> raw;
        for (size_t i = 0; i < own.size(); i++)
        {
            HIPDNN_CPP_TRY(::hipdnn::detail::make_choice(own[i], choices[i]));
            raw.push_back(choices[i].get());
        }
        if (!raw.empty())
        {
            HIPDNN_CPP_TRY(::hipdnn::detail::backend_error(config.set(HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                                      HIPDNN_TYPE_BACKEND_DESCRIPTOR,
                                                                      static_cast<int64_t>(raw.size()), raw.data()),
                                                           "setting knobs"));
        }
        HIPDNN_CPP_TRY(config.finalize("finalizing an engine's configuration"));
        auto settings = own;
        const auto chosen = config.descriptors(HIPDNN_ATTR_ENGINECFG_CHOSEN_KNOBS_EXT);
        for (size_t i = own.size(); i < chosen.size(); i++)
        {
            int64_t value = 0;
            chosen[i].value(HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE_EXT, HIPDNN_TYPE_INT64, value);
            settings.emplace_back(chosen[i].text(HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE_EXT), value);
        }
        if (settings.size() == own.size())
        {
            return {};
        }
        Plan made;
        HIPDNN_CPP_TRY(make_plan(plan.engine, settings, made));
        made.barred = plan.barred;
        plan = std::move(made);
        return {};
    }

    /** Bars the plans whose engines have one of these notes, or lack one. */
    void bar_notes(const std::vector<BehaviorNote_t>& notes, bool having)
    {
        for (size_t i = 0; i < _plans.size(); i++)
        {
            std::vector<BehaviorNote_t> has;
            static_cast<void>(get_behavior_notes_for_plan_at_index(static_cast<int64_t>(i), has));
            for (const BehaviorNote_t note : notes)
            {
                const bool found = std::find(has.begin(), has.end(), note) != has.end();
                _plans[i].barred = _plans[i].barred || found == having;
            }
        }
        skip_barred();
    }

    void skip_barred()
    {
        while (_active + 1 < _plans.size() && _plans[_active].barred)
        {
            _active++;
        }
    }
};

} // namespace graph
} // namespace hipdnn_frontend::compatibility::cudnn_frontend
