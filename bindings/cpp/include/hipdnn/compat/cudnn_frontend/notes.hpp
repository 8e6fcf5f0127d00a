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
    using Base::get_knobs_for_engine;

    /** Refused for any note: engines do not say how they compute, so that no plan could be taken. */
    Self& select_numeric_notes(const std::vector<NumericalNote_t>& notes)
    {
        refuse_notes("select_numeric_notes", notes);
        return self();
    }
    /**
     * Without NONDETERMINISTIC, plans give the same bits each time: engines with a knob for it have it set, and plans of the others
     * are not built or chosen. Other notes are refused.
     */
    Self& deselect_numeric_notes(const std::vector<NumericalNote_t>& notes)
    {
        std::vector<NumericalNote_t> others = notes;
        others.erase(std::remove(others.begin(), others.end(), NumericalNote_t::NONDETERMINISTIC), others.end());
        _deterministic = _deterministic || others.size() != notes.size();
        refuse_notes("deselect_numeric_notes", others);
        settle_notes();
        return self();
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
    using Base::engine_name;
    using Base::make_plan;

    /** What notes asked for that cannot be given. */
    error_t notes_error() const
    {
        return _refused_notes.empty() ? error_t()
                                      : error_t(error_code_t::GRAPH_NOT_SUPPORTED,
                                                _refused_notes + ": engines do not say how they compute, expected no "
                                                                 "numerical notes but to deselect NONDETERMINISTIC");
    }
    /** The same, or that no plan is left. */
    error_t plans_error() const
    {
        HIPDNN_CPP_TRY(notes_error());
        bool any = _plans.empty() || !_deterministic;
        for (const Plan& plan : _plans)
        {
            any = any || !plan.barred;
        }
        return any ? error_t()
                   : error_t(error_code_t::GRAPH_NOT_SUPPORTED,
                             "deselect_numeric_notes(NONDETERMINISTIC): no engine that computes the graph promises the "
                             "same bits each time, expected one with a knob \"deterministic\"");
    }

    /** Applies the filters to plans that were created. */
    void settle_notes()
    {
        for (size_t i = 0; i < _plans.size() && _deterministic; i++)
        {
            _plans[i].barred = _plans[i].barred || !make_deterministic(_plans[i]);
        }
        skip_barred();
    }

private:
    bool _deterministic = false;
    std::string _refused_notes;

    Self& self() { return static_cast<Self&>(*this); }

    void refuse_notes(const char* call, const std::vector<NumericalNote_t>& notes)
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
            if (note != NumericalNote_t::NOT_SET)
            {
                const std::string name = number < sizeof names / sizeof names[0] ? names[number] : "unknown";
                _refused_notes += (_refused_notes.empty() ? "" : ", ") + std::string(call) + "(" + name + ")";
            }
        }
    }

    /** Sets the knob for equal bits, and lets a plan that was built be built again. @return false if the engine has none */
    bool make_deterministic(Plan& plan)
    {
        const std::string name = engine_name(plan.engine), end = "_DETERMINISTIC";
        if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
        {
            return true;
        }
        std::vector<::hipdnn::Knob> knobs;
        if (get_knobs_for_engine(plan.engine, knobs).is_bad())
        {
            return false;
        }
        for (const ::hipdnn::Knob& knob : knobs)
        {
            const std::string& id = knob.knobId();
            if (id.substr(id.rfind('.') + 1) == "deterministic")
            {
                const ::hipdnn::KnobSetting on(id, int64_t{1});
                auto settings = plan.settings == nullptr ? std::vector<::hipdnn::KnobSetting>() : *plan.settings;
                if (std::find(settings.begin(), settings.end(), on) != settings.end())
                {
                    return true;
                }
                settings.push_back(on);
                Plan made;
                const bool good = make_plan(plan.engine, settings, made).is_good();
                made.barred = plan.barred;
                plan = good ? std::move(made) : std::move(plan);
                return good;
            }
        }
        return false;
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
