/* SPDX-License-Identifier: MIT */

/**
 * @file
 * RAII descriptors of the C interface, and statuses as errors.
 */
#pragma once

#include "error.hpp"
#include "types.hpp"

#include <atomic>

#ifdef HIPDNN_FRONTEND_RUNTIME_LOAD_BACKEND
#include "loader.hpp"
/* The backend function found at run time. */
#define HIPDNN_CPP_CALL(function) (::hipdnn::detail::functions().function)
#else
#define HIPDNN_CPP_CALL(function) (::function)
#endif

namespace hipdnn
{
namespace detail
{

/** The error of a status: what was attempted, and the library's message. */
inline Error backend_error(hipdnnStatus_t status, Word attempt)
{
    if (status == HIPDNN_STATUS_SUCCESS)
    {
        return {};
    }
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";
    HIPDNN_CPP_CALL(hipdnnGetLastErrorString)(text, sizeof text);
    return {ErrorCode::HIPDNN_BACKEND_ERROR,
            join({attempt, ": ", HIPDNN_CPP_CALL(hipdnnGetErrorString)(status), text[0] == '\0' ? "" : ": ", text})};
}

/** A descriptor, destroyed with its last owner. */
class Descriptor
{
public:
    Descriptor() = default;
    /** Takes ownership of a new descriptor. */
    explicit Descriptor(hipdnnBackendDescriptor_t raw) : _raw(raw) {}
    explicit Descriptor(hipdnnBackendDescriptorType_t type)
    {
        if (HIPDNN_CPP_CALL(hipdnnBackendCreateDescriptor)(type, &_raw) != HIPDNN_STATUS_SUCCESS)
        {
            _raw = nullptr;
        }
    }
    Descriptor(Descriptor&& other) noexcept { swap(other); }
    Descriptor& operator=(Descriptor&& other) noexcept { return swap(other), *this; }
    /** Both own the same descriptor. Threads may copy one object concurrently. */
    Descriptor(const Descriptor& other) : _raw(other._raw), _owners(_raw == nullptr ? nullptr : other.share()) {}
    Descriptor& operator=(const Descriptor& other)
    {
        Descriptor copy(other);
        return swap(copy), *this;
    }
    ~Descriptor() { reset(); }

    void reset()
    {
        Owners* const owners = _owners.load(std::memory_order_relaxed);
        const bool is_last = owners == nullptr || owners->fetch_sub(1, std::memory_order_acq_rel) == 1;
        if (is_last && _raw != nullptr)
        {
            HIPDNN_CPP_CALL(hipdnnBackendDestroyDescriptor)(_raw);
        }
        if (is_last)
        {
            delete owners;
        }
        _raw = nullptr;
        _owners.store(nullptr, std::memory_order_relaxed);
    }

    hipdnnBackendDescriptor_t get() const { return _raw; }
    /** Where a function may store a new descriptor. */
    hipdnnBackendDescriptor_t* place()
    {
        reset();
        return &_raw;
    }
    bool valid() const { return _raw != nullptr; }

    hipdnnStatus_t set(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, int64_t count,
                       const void* values) const
    {
        return HIPDNN_CPP_CALL(hipdnnBackendSetAttribute)(_raw, name, type, count, values);
    }

    hipdnnStatus_t get(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, int64_t count,
                       int64_t* actual, void* values) const
    {
        return HIPDNN_CPP_CALL(hipdnnBackendGetAttribute)(_raw, name, type, count, actual, values);
    }

    Error set(hipdnnBackendAttributeName_t name, const Descriptor& value, const char* attempt) const
    {
        const hipdnnBackendDescriptor_t raw = value.get();
        return backend_error(set(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw), attempt);
    }

    hipdnnStatus_t set_text(hipdnnBackendAttributeName_t name, const std::string& text) const
    {
        return set(name, HIPDNN_TYPE_CHAR, static_cast<int64_t>(text.size()), text.data());
    }

    hipdnnStatus_t set_flag(hipdnnBackendAttributeName_t name, bool flag) const
    {
        return set(name, HIPDNN_TYPE_BOOLEAN, 1, &flag);
    }

    Error finalize(const char* attempt) const
    {
        return backend_error(HIPDNN_CPP_CALL(hipdnnBackendFinalize)(_raw), attempt);
    }

    /** A text, empty if it is not set. */
    std::string text(hipdnnBackendAttributeName_t name) const
    {
        int64_t length = 0;
        if (get(name, HIPDNN_TYPE_CHAR, 0, &length, nullptr) != HIPDNN_STATUS_SUCCESS || length <= 0)
        {
            return "";
        }
        std::string made(static_cast<size_t>(length), '\0');
        if (get(name, HIPDNN_TYPE_CHAR, length, &length, &made[0]) != HIPDNN_STATUS_SUCCESS)
        {
            return "";
        }
        while (!made.empty() && made.back() == '\0')
        {
            made.pop_back();
        }
        return made;
    }

    /** A list of integers, empty if it is not set. */
    Dims integers(hipdnnBackendAttributeName_t name) const
    {
        int64_t count = 0;
        if (get(name, HIPDNN_TYPE_INT64, 0, &count, nullptr) != HIPDNN_STATUS_SUCCESS || count <= 0)
        {
            return {};
        }
        Dims made(static_cast<size_t>(count));
        return get(name, HIPDNN_TYPE_INT64, count, &count, made.data()) == HIPDNN_STATUS_SUCCESS ? made : Dims();
    }

    /** One value; false if it is not set. */
    template <typename Value>
    bool value(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, Value& value) const
    {
        int64_t count = 0;
        return get(name, type, 1, &count, &value) == HIPDNN_STATUS_SUCCESS && count > 0;
    }

    /** The single descriptor of an attribute, new and owned by the caller; invalid if it is not set. */
    Descriptor one(hipdnnBackendAttributeName_t name) const
    {
        Descriptor made;
        int64_t count = 0;
        static_cast<void>(get(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, made.place()));
        return made;
    }

    /** The descriptors of an attribute, new and owned by the caller. */
    std::vector<Descriptor> descriptors(hipdnnBackendAttributeName_t name) const
    {
        int64_t count = 0;
        std::vector<Descriptor> made;
        if (get(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) != HIPDNN_STATUS_SUCCESS || count <= 0)
        {
            return made;
        }
        std::vector<hipdnnBackendDescriptor_t> raw(static_cast<size_t>(count), nullptr);
        if (get(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()) == HIPDNN_STATUS_SUCCESS)
        {
            for (hipdnnBackendDescriptor_t one : raw)
            {
                made.emplace_back(one);
            }
        }
        return made;
    }

private:
    using Owners = std::atomic<long>;

    hipdnnBackendDescriptor_t _raw = nullptr;
    /** The number of owners; null until there are two. */
    mutable std::atomic<Owners*> _owners{nullptr};

    void swap(Descriptor& other) noexcept
    {
        std::swap(_raw, other._raw);
        Owners* const owners = _owners.load(std::memory_order_relaxed);
        _owners.store(other._owners.load(std::memory_order_relaxed), std::memory_order_relaxed);
        other._owners.store(owners, std::memory_order_relaxed);
    }
    /** The number of owners, incremented. */
    Owners* share() const
    {
        Owners* known = _owners.load(std::memory_order_acquire);
        if (known == nullptr)
        {
            Owners* const made = new Owners(1);
            if (_owners.compare_exchange_strong(known, made, std::memory_order_acq_rel))
            {
                known = made;
            } else
            {
                delete made;
            }
        }
        known->fetch_add(1, std::memory_order_relaxed);
        return known;
    }
};

} // namespace detail
} // namespace hipdnn
