/* SPDX-License-Identifier: MIT */

/**
 * @file
 * FlatBuffers bytes: read without accessing anything outside of them, whatever they are, and written front to back.
 */
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace hipdnn_plugin
{
namespace detail
{

/* Templates, here and below, so that a program without tables need not compile their parts. */

/** Bytes owned by the caller. */
template <typename>
struct BytesOf
{
    const uint8_t* data = nullptr;
    size_t size = 0;

    template <typename Number>
    Number read(size_t at) const
    {
        Number number{};
        if (data == nullptr || at > size || size - at < sizeof number)
        {
            throw std::invalid_argument("the bytes end in the middle of a table");
        }
        std::memcpy(&number, data + at, sizeof number);
        return number;
    }

    /** The target of an offset. */
    size_t follow(size_t at) const
    {
        const size_t target = at + read<uint32_t>(at);
        if (target >= size)
        {
            throw std::invalid_argument("an offset leads out of the bytes");
        }
        return target;
    }
};

using Bytes = BytesOf<void>;

/** A table. Fields are counted from 0, in the order of the schema. */
template <typename>
class TableOf
{
public:
    TableOf(Bytes bytes, size_t at) : _bytes(bytes), _at(at)
    {
        const int64_t slots = static_cast<int64_t>(at) - bytes.read<int32_t>(at);
        if (slots < 0 || static_cast<uint64_t>(slots) > bytes.size)
        {
            throw std::invalid_argument("a table's list of fields lies outside of the bytes");
        }
        _slots = static_cast<size_t>(slots);
        _slots_size = bytes.read<uint16_t>(_slots);
    }
    static TableOf root(Bytes bytes) { return {bytes, bytes.follow(0)}; }

    /** The position of a field, or 0 for an absent one. */
    size_t place(size_t field) const
    {
        const size_t slot = 4 + 2 * field;
        const uint16_t offset = slot + 2 <= _slots_size ? _bytes.read<uint16_t>(_slots + slot) : uint16_t{0};
        return offset == 0 ? 0 : _at + offset;
    }
    bool has(size_t field) const { return place(field) != 0; }

    template <typename Number>
    Number number(size_t field, Number otherwise) const
    {
        const size_t at = place(field);
        return at == 0 ? otherwise : _bytes.read<Number>(at);
    }
    TableOf table(size_t field) const { return {_bytes, _bytes.follow(require(field))}; }

    template <typename Number>
    std::vector<Number> numbers(size_t field) const
    {
        std::vector<Number> list;
        if (const size_t at = place(field))
        {
            const size_t begin = _bytes.follow(at);
            const size_t count = counted(begin, sizeof(Number));
            for (size_t i = 0; i < count; i++)
            {
                list.push_back(_bytes.read<Number>(begin + 4 + i * sizeof(Number)));
            }
        }
        return list;
    }
    std::string text(size_t field) const
    {
        const size_t at = place(field);
        if (at == 0)
        {
            return "";
        }
        const size_t begin = _bytes.follow(at);
        const size_t length = counted(begin, 1);
        return std::string(reinterpret_cast<const char*>(_bytes.data) + begin + 4, length);
    }
    std::vector<TableOf> tables(size_t field) const
    {
        std::vector<TableOf> list;
        if (const size_t at = place(field))
        {
            const size_t begin = _bytes.follow(at);
            const size_t count = counted(begin, 4);
            for (size_t i = 0; i < count; i++)
            {
                list.emplace_back(_bytes, _bytes.follow(begin + 4 + 4 * i));
            }
        }
        return list;
    }
    /** The number in a struct that a union's field refers to. */
    template <typename Number>
    Number in_struct(size_t field) const
    {
        return _bytes.read<Number>(_bytes.follow(require(field)));
    }

private:
    Bytes _bytes;
    size_t _at = 0, _slots = 0;
    uint16_t _slots_size = 0;

    size_t require(size_t field) const
    {
        const size_t at = place(field);
        if (at == 0)
        {
            throw std::invalid_argument("field " + std::to_string(field) + " of a table is missing");
        }
        return at;
    }
    size_t counted(size_t begin, size_t width) const
    {
        const size_t count = _bytes.read<uint32_t>(begin);
        if (count > (_bytes.size - begin - 4) / width)
        {
            throw std::invalid_argument("a list of " + std::to_string(count) + " elements is longer than the bytes");
        }
        return count;
    }
};

using Table = TableOf<void>;

/** Writes tables of eight-byte fields; what a table refers to follows it. */
template <typename>
class WriterOf
{
public:
    std::vector<uint8_t> bytes = std::vector<uint8_t>(4);

    /** Begins a table with the fields of this bit mask; returns the position of its first eight-byte field. */
    size_t table(size_t fields, uint32_t present)
    {
        align(8);
        size_t slots = bytes.size();
        /* Fields must begin at a multiple of eight, four bytes behind the table. */
        if ((slots + 4 + 2 * fields + 4) % 8 != 0)
        {
            bytes.resize(slots + (8 - (2 * fields) % 8), 0);
            slots = bytes.size();
        }
        append(static_cast<uint16_t>(4 + 2 * fields));
        append(static_cast<uint16_t>(4 + 8 * fields));
        for (size_t i = 0; i < fields; i++)
        {
            append(static_cast<uint16_t>((present >> i & 1U) != 0 ? 4 + 8 * i : 0));
        }
        const size_t at = bytes.size();
        append(static_cast<int32_t>(at - slots));
        bytes.resize(at + 4 + 8 * fields, 0);
        return at + 4;
    }
    template <typename Number>
    void put(size_t at, Number number)
    {
        std::memcpy(bytes.data() + at, &number, sizeof number);
    }
    /** Points an offset to a table, given by its first field. */
    void link_table(size_t from, size_t first_field) { put(from, static_cast<uint32_t>(first_field - 4 - from)); }
    void text(size_t from, const std::string& value)
    {
        list(from, value.data(), value.size(), 1);
        bytes.push_back(0);
    }
    template <typename Number>
    size_t numbers(size_t from, const std::vector<Number>& values)
    {
        return list(from, values.data(), values.size(), sizeof(Number));
    }

private:
    void align(size_t to) { bytes.resize((bytes.size() + to - 1) / to * to, 0); }
    template <typename Number>
    void append(Number number)
    {
        bytes.resize(bytes.size() + sizeof number);
        put(bytes.size() - sizeof number, number);
    }
    /** Appends a list and points an offset to it; returns the position of its elements. */
    size_t list(size_t from, const void* values, size_t count, size_t width)
    {
        align(8);
        bytes.resize(bytes.size() + 4, 0);
        put(from, static_cast<uint32_t>(bytes.size() - from));
        append(static_cast<uint32_t>(count));
        const size_t at = bytes.size();
        bytes.resize(at + count * width);
        if (count > 0)
        {
            std::memcpy(bytes.data() + at, values, count * width);
        }
        return at;
    }
};

using Writer = WriterOf<void>;

} // namespace detail
} // namespace hipdnn_plugin
