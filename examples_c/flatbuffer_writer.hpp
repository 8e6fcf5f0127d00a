// SPDX-License-Identifier: MIT

#ifndef FLATBUFFER_WRITER_HPP
#define FLATBUFFER_WRITER_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// The part of FlatBuffers that a graph needs. A buffer is written from its end to its start, so that everything a table
// refers to is written before the table. Positions are counted from the end of the buffer.
class FlatBuffer {
public:
    using Position = std::uint32_t;

    template <typename T>
    Position vector(const std::vector<T>& values)
    {
        align(sizeof(std::uint32_t), values.size() * sizeof(T));
        align(sizeof(T), values.size() * sizeof(T));
        for (auto value = values.rbegin(); value != values.rend(); ++value) {
            prepend(*value);
        }
        return prepend(static_cast<std::uint32_t>(values.size()));
    }

    Position offsets(const std::vector<Position>& targets)
    {
        align(sizeof(std::uint32_t), targets.size() * sizeof(std::uint32_t));
        for (auto target = targets.rbegin(); target != targets.rend(); ++target) {
            prepend_offset(*target);
        }
        return prepend(static_cast<std::uint32_t>(targets.size()));
    }

    Position string(const std::string& text)
    {
        align(sizeof(std::uint32_t), text.size() + 1);
        prepend<std::uint8_t>(0);
        for (auto character = text.rbegin(); character != text.rend(); ++character) {
            prepend(static_cast<std::uint8_t>(*character));
        }
        return prepend(static_cast<std::uint32_t>(text.size()));
    }

    void begin_table()
    {
        _fields.clear();
        _table_end = size();
    }

    // A field by its index in the schema; the table's list of fields (vtable) has its position.
    template <typename T>
    void field(std::size_t index, T value)
    {
        align(sizeof(T), 0);
        note(index, prepend(value));
    }

    void field_offset(std::size_t index, Position target)
    {
        align(sizeof(std::uint32_t), 0);
        note(index, prepend_offset(target));
    }

    Position end_table()
    {
        align(sizeof(std::int32_t), 0);
        const Position table = prepend<std::int32_t>(0); // distance to the vtable, known below
        const auto vtable_bytes = static_cast<std::uint16_t>(4 + 2 * _fields.size());
        for (auto field = _fields.rbegin(); field != _fields.rend(); ++field) {
            prepend(static_cast<std::uint16_t>(*field == 0 ? 0 : table - *field));
        }
        prepend(static_cast<std::uint16_t>(table - _table_end));
        prepend(vtable_bytes);
        const auto distance = static_cast<std::int32_t>(size() - table);
        std::memcpy(at(table), &distance, sizeof distance);
        // The bytes are stored back to front, so the copied ones must be reversed.
        std::reverse(at(table), at(table) + sizeof distance);
        return table;
    }

    std::vector<std::uint8_t> finish(Position root)
    {
        align(_alignment, sizeof(std::uint32_t));
        prepend_offset(root);
        return {_reversed.rbegin(), _reversed.rend()};
    }

private:
    Position size() const { return static_cast<Position>(_reversed.size()); }
    std::uint8_t* at(Position position) { return _reversed.data() + position - sizeof(std::int32_t); }

    // Pads so that the next write, after `before` more bytes, starts at a multiple of `alignment`.
    void align(std::size_t alignment, std::size_t before)
    {
        _alignment = std::max(_alignment, alignment);
        while ((_reversed.size() + before) % alignment != 0) {
            _reversed.push_back(0);
        }
    }

    template <typename T>
    Position prepend(T value)
    {
        std::array<std::uint8_t, sizeof(T)> bytes{};
        std::memcpy(bytes.data(), &value, sizeof(T));
        _reversed.insert(_reversed.end(), bytes.rbegin(), bytes.rend());
        return size();
    }

    Position prepend_offset(Position target)
    {
        return prepend(static_cast<std::uint32_t>(size() + sizeof(std::uint32_t) - target));
    }

    void note(std::size_t index, Position position)
    {
        if (_fields.size() <= index) {
            _fields.resize(index + 1, 0);
        }
        _fields[index] = position;
    }

    std::vector<std::uint8_t> _reversed;
    std::vector<Position> _fields;
    Position _table_end = 0;
    std::size_t _alignment = sizeof(std::uint32_t);
};

#endif
