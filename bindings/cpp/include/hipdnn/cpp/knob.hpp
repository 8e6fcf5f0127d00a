/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Knobs: numbers and texts that tune an engine's plan.
 */
#pragma once

#include "descriptor.hpp"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <variant>

namespace hipdnn
{

/** A knob's value: an integer, a number or a text. */
using KnobValueVariant = std::variant<int64_t, double, std::string>;
/** A knob's name. */
using KnobType_t = std::string;

namespace detail
{

template <typename Value>
std::string value_text(const Value& value)
{
    if (const auto* number = std::get_if<int64_t>(&value))
    {
        return std::to_string(*number);
    }
    if (const auto* number = std::get_if<double>(&value))
    {
        return std::to_string(*number);
    }
    return '"' + *std::get_if<std::string>(&value) + '"';
}

} // namespace detail

/* Templates, here and below, so that a program without knobs need not compile their parts. */

/** A knob and the value to set. */
template <typename>
class KnobSettingOf
{
public:
    KnobSettingOf(std::string knob, KnobValueVariant value) : _knob(std::move(knob)), _value(std::move(value)) {}
    template <typename T>
    KnobSettingOf(std::string knob, const T& value) : _knob(std::move(knob)), _value(value)
    {
    }

    const std::string& knobId() const { return _knob; }
    const KnobValueVariant& value() const { return _value; }
    template <typename T>
    void setValue(const T& value)
    {
        _value = value;
    }
    std::string toString() const { return "KnobSetting{" + _knob + "=" + detail::value_text(_value) + "}"; }
    bool operator==(const KnobSettingOf& other) const { return _knob == other._knob && _value == other._value; }

private:
    std::string _knob;
    KnobValueVariant _value;
};

using KnobSetting = KnobSettingOf<void>;

/** What a constraint is about, for programs without run-time types. */
enum class ConstraintKind { EMPTY, INT, FLOAT, STRING };

/** The values that a knob accepts. */
class IConstraint
{
public:
    virtual ~IConstraint() = default;
    virtual ConstraintKind kind() const { return ConstraintKind::EMPTY; }
    /** @return INVALID_VALUE with the value and what was expected */
    virtual Error validateKnobSetting(const KnobSetting& setting) const = 0;
    virtual std::string toString() const = 0;
};

/** Integers in a range and in steps, or listed ones. */
template <typename>
class IntConstraintOf : public IConstraint
{
public:
    IntConstraintOf(int64_t least, int64_t most, int64_t step = 1, std::unordered_set<int64_t> values = {})
        : _least(least), _most(most), _step(step), _values(std::move(values))
    {
    }

    ConstraintKind kind() const override { return ConstraintKind::INT; }
    Error validateKnobSetting(const KnobSetting& setting) const override
    {
        const auto* value = std::get_if<int64_t>(&setting.value());
        const std::string who = "knob " + setting.knobId() + ": the value is " + detail::value_text(setting.value());
        if (value == nullptr)
        {
            return {ErrorCode::INVALID_VALUE, who + ", expected an integer"};
        }
        const bool listed = _values.count(*value) > 0;
        const bool in_range = _least >= _most || (*value >= _least && *value <= _most);
        /* Unsigned, so that distant ends do not overflow. */
        const bool in_step =
            _step <= 1 ||
            (static_cast<uint64_t>(*value) - static_cast<uint64_t>(_least)) % static_cast<uint64_t>(_step) == 0;
        return (_values.empty() ? in_range && in_step : listed)
                   ? Error()
                   : Error(ErrorCode::INVALID_VALUE, who + ", expected one of " + toString());
    }

    std::string toString() const override
    {
        if (_values.empty())
        {
            return "IntConstraint{min=" + std::to_string(_least) + ", max=" + std::to_string(_most) +
                   ", step=" + std::to_string(_step) + "}";
        }
        std::vector<int64_t> sorted(_values.begin(), _values.end());
        std::sort(sorted.begin(), sorted.end());
        std::string list;
        for (const int64_t value : sorted)
        {
            list += (list.empty() ? "" : ", ") + std::to_string(value);
        }
        return "IntConstraint{" + list + "}";
    }

    int64_t getMinValue() const { return _least; }
    int64_t getMaxValue() const { return _most; }
    int64_t getStep() const { return _step; }
    const std::unordered_set<int64_t>& getValidValues() const { return _values; }

private:
    int64_t _least, _most, _step;
    std::unordered_set<int64_t> _values;
};

using IntConstraint = IntConstraintOf<void>;

/** Numbers in a range. */
template <typename>
class FloatConstraintOf : public IConstraint
{
public:
    FloatConstraintOf(double least, double most) : _least(least), _most(most) {}

    ConstraintKind kind() const override { return ConstraintKind::FLOAT; }
    Error validateKnobSetting(const KnobSetting& setting) const override
    {
        const auto* value = std::get_if<double>(&setting.value());
        if (value == nullptr || (_least < _most && !(*value >= _least && *value <= _most)))
        {
            return {ErrorCode::INVALID_VALUE, "knob " + setting.knobId() + ": the value is " +
                                                  detail::value_text(setting.value()) + ", expected " + toString()};
        }
        return {};
    }
    std::string toString() const override
    {
        return "FloatConstraint{min=" + std::to_string(_least) + ", max=" + std::to_string(_most) + "}";
    }
    double getMinValue() const { return _least; }
    double getMaxValue() const { return _most; }

private:
    double _least, _most;
};

using FloatConstraint = FloatConstraintOf<void>;

/** Texts up to a length, or listed ones. */
template <typename>
class StringConstraintOf : public IConstraint
{
public:
    explicit StringConstraintOf(int32_t longest, std::unordered_set<std::string> values = {})
        : _longest(longest), _values(std::move(values))
    {
    }

    ConstraintKind kind() const override { return ConstraintKind::STRING; }
    Error validateKnobSetting(const KnobSetting& setting) const override
    {
        const auto* value = std::get_if<std::string>(&setting.value());
        const bool fits =
            value != nullptr && (_values.empty() ? _longest <= 0 || value->size() <= static_cast<size_t>(_longest)
                                                 : _values.count(*value) > 0);
        return fits ? Error()
                    : Error(ErrorCode::INVALID_VALUE, "knob " + setting.knobId() + ": the value is " +
                                                          detail::value_text(setting.value()) + ", expected " +
                                                          toString());
    }
    std::string toString() const override
    {
        std::vector<std::string> sorted(_values.begin(), _values.end());
        std::sort(sorted.begin(), sorted.end());
        std::string list = "StringConstraint{maxLength=" + std::to_string(_longest);
        for (const auto& value : sorted)
        {
            list += ", " + value;
        }
        return list + "}";
    }
    int32_t getMaxLength() const { return _longest; }
    const std::unordered_set<std::string>& getValidValues() const { return _values; }

private:
    int32_t _longest;
    std::unordered_set<std::string> _values;
};

using StringConstraint = StringConstraintOf<void>;

/** A knob of an engine. */
template <typename>
class KnobOf
{
public:
    const std::string& knobId() const { return _name; }
    const std::string& description() const { return _description; }
    bool isDeprecated() const { return _deprecated; }
    const KnobValueVariant& defaultValue() const { return _default; }
    KnobValueType valueType() const { return static_cast<KnobValueType>(_default.index() + 1); }
    const IConstraint* constraint() const { return _constraint.get(); }
    Error validate(const KnobSetting& setting) const
    {
        return _constraint == nullptr ? Error() : _constraint->validateKnobSetting(setting);
    }
    std::string toString() const
    {
        return "Knob{" + _name + ", \"" + _description + "\", default=" + detail::value_text(_default) + ", " +
               (_constraint == nullptr ? "" : _constraint->toString()) + "}";
    }

    /** Reads the library's description of a knob; false if its type is unknown. */
    template <typename AnyDescriptor>
    static bool read(const AnyDescriptor& info, KnobOf& knob)
    {
        knob._name = info.text(HIPDNN_ATTR_KNOB_INFO_TYPE_EXT);
        knob._description = info.text(HIPDNN_ATTR_KNOB_INFO_DESCRIPTION_EXT);
        info.value(HIPDNN_ATTR_KNOB_INFO_DEPRECATED_EXT, HIPDNN_TYPE_BOOLEAN, knob._deprecated);
        int64_t type = -1;
        info.value(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE_EXT, HIPDNN_TYPE_INT64, type);
        if (type == HIPDNN_TYPE_INT64)
        {
            int64_t value = 0, least = 0, most = 0, step = 1;
            info.value(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_EXT, HIPDNN_TYPE_INT64, value);
            info.value(HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE_EXT, HIPDNN_TYPE_INT64, least);
            info.value(HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE_EXT, HIPDNN_TYPE_INT64, most);
            info.value(HIPDNN_ATTR_KNOB_INFO_STRIDE_EXT, HIPDNN_TYPE_INT64, step);
            const Dims listed = info.integers(HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_INT_EXT);
            knob._default = value;
            knob._constraint = std::make_shared<IntConstraint>(
                least, most, step, std::unordered_set<int64_t>(listed.begin(), listed.end()));
            return true;
        }
        if (type == HIPDNN_TYPE_DOUBLE)
        {
            double value = 0, least = 0, most = 0;
            info.value(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_EXT, HIPDNN_TYPE_DOUBLE, value);
            info.value(HIPDNN_ATTR_KNOB_INFO_MINIMUM_VALUE_EXT, HIPDNN_TYPE_DOUBLE, least);
            info.value(HIPDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE_EXT, HIPDNN_TYPE_DOUBLE, most);
            knob._default = value;
            knob._constraint = std::make_shared<FloatConstraint>(least, most);
            return true;
        }
        if (type == HIPDNN_TYPE_CHAR)
        {
            int32_t longest = 0;
            info.value(HIPDNN_ATTR_KNOB_INFO_STRING_MAX_LENGTH_EXT, HIPDNN_TYPE_INT32, longest);
            /* Each listed text ends with a NUL. */
            const std::string all = info.text(HIPDNN_ATTR_KNOB_INFO_VALID_VALUES_STRING_EXT);
            std::unordered_set<std::string> listed;
            for (size_t at = 0; at < all.size();)
            {
                const std::string one = all.c_str() + at;
                at += one.size() + 1;
                listed.insert(one);
            }
            knob._default = info.text(HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_EXT);
            knob._constraint = std::make_shared<StringConstraint>(longest, std::move(listed));
            return true;
        }
        return false;
    }

private:
    std::string _name;
    std::string _description;
    KnobValueVariant _default;
    bool _deprecated = false;
    std::shared_ptr<IConstraint> _constraint;
};

using Knob = KnobOf<void>;

namespace detail
{

/** A finalized choice of a knob's value. */
template <typename Setting>
Error make_choice(const Setting& setting, Descriptor& choice)
{
    choice = Descriptor(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set_text(HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE_EXT, setting.knobId());
    const auto name = HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE_EXT;
    if (const auto* integer = std::get_if<int64_t>(&setting.value()))
    {
        choice.set(name, HIPDNN_TYPE_INT64, 1, integer);
    } else if (const auto* number = std::get_if<double>(&setting.value()))
    {
        choice.set(name, HIPDNN_TYPE_DOUBLE, 1, number);
    } else
    {
        choice.set_text(name, *std::get_if<std::string>(&setting.value()));
    }
    return choice.finalize(("setting knob " + setting.knobId()).c_str());
}

} // namespace detail
} // namespace hipdnn
