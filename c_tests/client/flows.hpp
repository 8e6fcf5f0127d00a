/* SPDX-License-Identifier: MIT */

/* Shared by the flows: self-destroying descriptors, a convolution with RELU, and its values. */
#pragma once

#include "library.hpp"

#include <HipdnnOperationType.h>
#include <HipdnnPointwiseMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

namespace client
{

inline void require(bool condition, const std::string& what)
{
    if (!condition)
    {
        throw std::runtime_error(what);
    }
}

/* A call of a function that is not there, or of a library that is not used. */
struct Mismatch : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

class Session;

/* A descriptor that the client made. */
class Descriptor
{
public:
    Descriptor(const Session& session, hipdnnBackendDescriptorType_t type);
    Descriptor(const Session& session, hipdnnBackendDescriptor_t raw) : _session(&session), _raw(raw) {}
    Descriptor(Descriptor&& other) noexcept : _session(other._session), _raw(std::exchange(other._raw, nullptr)) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor();

    hipdnnBackendDescriptor_t raw() const { return _raw; }
    Descriptor& set(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, int64_t count,
                    const void* values);
    Descriptor& set_numbers(hipdnnBackendAttributeName_t name, const std::vector<int64_t>& values);
    Descriptor& set_text(hipdnnBackendAttributeName_t name, const std::string& text);
    Descriptor& set(hipdnnBackendAttributeName_t name, const Descriptor& value);
    Descriptor& set(hipdnnBackendAttributeName_t name, const std::vector<hipdnnBackendDescriptor_t>& values);
    Descriptor& set_float(hipdnnBackendAttributeName_t name);
    Descriptor& set_flag(hipdnnBackendAttributeName_t name, bool value);
    void finalize();

    /* Numbers of an attribute, asked for twice: how many, then which. */
    std::vector<int64_t> numbers(hipdnnBackendAttributeName_t name,
                                 hipdnnBackendAttributeType_t type = HIPDNN_TYPE_INT64) const;
    /* The one number of an attribute, without asking how many there are. */
    int64_t number(hipdnnBackendAttributeName_t name) const;
    std::string text(hipdnnBackendAttributeName_t name) const;
    /* The one descriptor of an attribute, of which the library makes a new one. */
    Descriptor descriptor(hipdnnBackendAttributeName_t name) const;
    /* The descriptors of an attribute, likewise. */
    std::vector<Descriptor> descriptors(hipdnnBackendAttributeName_t name) const;
    /* Descriptors of an attribute that fills those that it is given. */
    std::vector<Descriptor> filled(hipdnnBackendAttributeName_t name, hipdnnBackendDescriptorType_t type) const;

private:
    const Session* _session;
    hipdnnBackendDescriptor_t _raw = nullptr;
};

#define CLIENT_CHECK(session, function, ...) (session).check((session).library.function(__VA_ARGS__), #function)

/* Whether a handle is the first, with which the engines' plugin comes, or one more. */
enum class Handle { First, Further };

/* A library, told where the engines are, and a handle. */
class Session
{
public:
    explicit Session(const Library& from, Handle which = Handle::First) : library(from)
    {
        const char* plugin = std::getenv("HIPDNN_TEST_PLUGIN");
        require(plugin != nullptr, "HIPDNN_TEST_PLUGIN is not set");
        if (which == Handle::First)
        {
            CLIENT_CHECK(*this, hipdnnSetEnginePluginPaths_ext, 1, &plugin, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
        }
        CLIENT_CHECK(*this, hipdnnCreate, &_handle);
    }

    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() { library.hipdnnDestroy(_handle); }

    const Library& library;
    hipdnnHandle_t handle() const { return _handle; }
    void check(Result result, const char* call) const
    {
        if (result == Result::VersionMismatch)
        {
            throw Mismatch(std::string(call) + ": VERSION_MISMATCH");
        }
        if (result != Result::Success)
        {
            throw std::runtime_error(std::string(call) + " failed: " + library.last_error());
        }
    }

private:
    hipdnnHandle_t _handle = nullptr;
};

inline Descriptor::Descriptor(const Session& session, hipdnnBackendDescriptorType_t type) : _session(&session)
{
    CLIENT_CHECK(session, hipdnnBackendCreateDescriptor, type, &_raw);
}

inline Descriptor::~Descriptor()
{
    if (_raw != nullptr)
    {
        _session->library.hipdnnBackendDestroyDescriptor(_raw);
    }
}

inline Descriptor& Descriptor::set(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, int64_t count,
                                   const void* values)
{
    CLIENT_CHECK(*_session, hipdnnBackendSetAttribute, _raw, name, type, count, values);
    return *this;
}

inline Descriptor& Descriptor::set_numbers(hipdnnBackendAttributeName_t name, const std::vector<int64_t>& values)
{
    return set(name, HIPDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

inline Descriptor& Descriptor::set_text(hipdnnBackendAttributeName_t name, const std::string& text)
{
    return set(name, HIPDNN_TYPE_CHAR, static_cast<int64_t>(text.size()), text.data());
}

inline Descriptor& Descriptor::set(hipdnnBackendAttributeName_t name, const Descriptor& value)
{
    return set(name, std::vector<hipdnnBackendDescriptor_t>{value.raw()});
}

inline Descriptor& Descriptor::set(hipdnnBackendAttributeName_t name,
                                   const std::vector<hipdnnBackendDescriptor_t>& values)
{
    return set(name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(values.size()), values.data());
}

inline Descriptor& Descriptor::set_float(hipdnnBackendAttributeName_t name)
{
    const hipdnnDataType_t type = HIPDNN_DATA_FLOAT;
    return set(name, HIPDNN_TYPE_DATA_TYPE, 1, &type);
}

inline Descriptor& Descriptor::set_flag(hipdnnBackendAttributeName_t name, bool value)
{
    return set(name, HIPDNN_TYPE_BOOLEAN, 1, &value);
}

inline void Descriptor::finalize() { CLIENT_CHECK(*_session, hipdnnBackendFinalize, _raw); }

inline std::vector<int64_t> Descriptor::numbers(hipdnnBackendAttributeName_t name,
                                                hipdnnBackendAttributeType_t type) const
{
    int64_t count = 0;
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, type, 0, &count, nullptr);
    std::vector<int64_t> values(static_cast<size_t>(count));
    if (type == HIPDNN_TYPE_INT64)
    {
        CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, type, count, &count, values.data());
        return values;
    }
    std::vector<int32_t> narrow(values.size());
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, type, count, &count, narrow.data());
    std::copy(narrow.begin(), narrow.end(), values.begin());
    return values;
}

inline int64_t Descriptor::number(hipdnnBackendAttributeName_t name) const
{
    int64_t value = -1;
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_INT64, 1, nullptr, &value);
    return value;
}

inline std::string Descriptor::text(hipdnnBackendAttributeName_t name) const
{
    int64_t count = 0;
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_CHAR, 0, &count, nullptr);
    std::string text(static_cast<size_t>(count), '\0');
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_CHAR, count, &count, text.data());
    /* Some texts come with their NUL. */
    return text.substr(0, text.find('\0'));
}

inline Descriptor Descriptor::descriptor(hipdnnBackendAttributeName_t name) const
{
    hipdnnBackendDescriptor_t made = nullptr;
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, nullptr, &made);
    require(made != nullptr, "a descriptor was not made");
    return {*_session, made};
}

inline std::vector<Descriptor> Descriptor::descriptors(hipdnnBackendAttributeName_t name) const
{
    int64_t count = 0;
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
    std::vector<hipdnnBackendDescriptor_t> raw(static_cast<size_t>(count), nullptr);
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
                 raw.data());
    std::vector<Descriptor> made;
    for (auto* one : raw)
    {
        require(one != nullptr, "a descriptor was not made");
        made.emplace_back(*_session, one);
    }
    return made;
}

inline std::vector<Descriptor> Descriptor::filled(hipdnnBackendAttributeName_t name,
                                                  hipdnnBackendDescriptorType_t type) const
{
    int64_t count = 0;
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
    std::vector<Descriptor> made;
    std::vector<hipdnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < count; i++)
    {
        made.emplace_back(*_session, type);
        raw.push_back(made.back().raw());
    }
    CLIENT_CHECK(*_session, hipdnnBackendGetAttribute, _raw, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
                 raw.data());
    require(count == static_cast<int64_t>(made.size()), "fewer descriptors than were counted");
    for (size_t i = 0; i < made.size(); i++)
    {
        require(raw[i] == made[i].raw(), "a descriptor was replaced instead of filled");
    }
    return made;
}

/* The uids of fixture.h and flatbuffer.h: x [N,2,4,4] convolved with w [2,2,3,3], padding 1, to y [N,2,4,4]. */
constexpr int64_t UID_X = 1;
constexpr int64_t UID_W = 2;
constexpr int64_t UID_BETWEEN = 3;
constexpr int64_t UID_Y = 4;

/* Memory for some images, and the expected results. */
struct Data
{
    int64_t images;
    std::vector<float> x;
    std::vector<float> w;
    std::vector<float> between;
    std::vector<float> y;

    explicit Data(int64_t count)
        : images(count), x(static_cast<size_t>(count) * 32), w(36), between(x.size(), std::nanf("")),
          y(x.size(), std::nanf(""))
    {
        for (size_t i = 0; i < x.size(); i++)
        {
            x[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6) / 4;
        }
        for (size_t i = 0; i < w.size(); i++)
        {
            w[i] = static_cast<float>(static_cast<int>(i * 5 % 11) - 5) / 8;
        }
    }

    void forget()
    {
        std::fill(between.begin(), between.end(), std::nanf(""));
        std::fill(y.begin(), y.end(), std::nanf(""));
    }

    /* Compares with plain loops. All sums are exact. */
    void check(bool relu, const std::string& what) const
    {
        for (int64_t at = 0; at < images * 32; at++)
        {
            const auto column = static_cast<int>(at % 4);
            const auto row = static_cast<int>(at / 4 % 4);
            const int64_t channel = at / 16 % 2;
            const int64_t image = at / 32;
            float sum = 0;
            for (int tap = 0; tap < 18; tap++)
            {
                const int r = row + tap / 3 % 3 - 1;
                const int s = column + tap % 3 - 1;
                if (r >= 0 && r < 4 && s >= 0 && s < 4)
                {
                    sum += x[static_cast<size_t>((image * 2 + tap / 9) * 16 + r * 4 + s)] *
                           w[static_cast<size_t>(channel * 18 + tap)];
                }
            }
            const float want = relu ? std::max(sum, 0.0F) : sum;
            require(y[static_cast<size_t>(at)] == want, what + ": element " + std::to_string(at) + " is " +
                                                            std::to_string(y[static_cast<size_t>(at)]) + ", expected " +
                                                            std::to_string(want));
        }
    }
};

/* The flows of 2026, of which each goes on from what the one before has made, and of November 2025. */
void run_newer_flows(const Library& library);
void run_older_flow(const Library& library);

/* What both ask besides: the stream, the text of a status, the log. */
inline void look_around(const Session& session)
{
    hipStream_t stream = nullptr;
    CLIENT_CHECK(session, hipdnnGetStream, session.handle(), &stream);
    CLIENT_CHECK(session, hipdnnSetStream, session.handle(), stream);
    CLIENT_CHECK(session, hipdnnGetErrorString, HIPDNN_STATUS_BAD_PARAM);
    require(std::string(session.library.hipdnnGetErrorString.function(HIPDNN_STATUS_BAD_PARAM)) ==
                "HIPDNN_STATUS_BAD_PARAM",
            "a status has another name");
    CLIENT_CHECK(session, hipdnnLoggingCallback_ext, HIPDNN_SEV_INFO, "the client looks around");
}

/* Whether an execution has other shapes than its plan. */
enum class Shapes { Planned, Others };

/* Executes a plan with its own workspace memory. */
inline void execute(const Session& session, const Descriptor& plan, Data& data, const std::vector<int64_t>& uids,
                    Shapes shapes_are = Shapes::Planned)
{
    const auto size = static_cast<size_t>(plan.number(HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    std::vector<std::max_align_t> memory(size / sizeof(std::max_align_t) + 1);
    std::vector<void*> pointers;
    for (const int64_t uid : uids)
    {
        const std::array<void*, 4> all{data.x.data(), data.w.data(), data.between.data(), data.y.data()};
        pointers.push_back(all.at(static_cast<size_t>(uid - UID_X)));
    }
    void* workspace = memory.data();
    Descriptor pack(session, HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, static_cast<int64_t>(pointers.size()),
             pointers.data());
    pack.set_numbers(HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
    pack.set(HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace);
    if (shapes_are == Shapes::Others)
    {
        std::vector<int64_t> shapes;
        std::vector<int64_t> strides;
        for (int i = 0; i < 3; i++)
        {
            shapes.insert(shapes.end(), {data.images, 2, 4, 4});
            strides.insert(strides.end(), {32, 16, 4, 1});
        }
        pack.set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, {UID_X, UID_BETWEEN, UID_Y});
        pack.set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, {4, 4, 4});
        pack.set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, shapes);
        pack.set_numbers(HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, strides);
    }
    pack.finalize();
    CLIENT_CHECK(session, hipdnnBackendExecute, session.handle(), plan.raw(), pack.raw());
}

} // namespace client
