/* SPDX-License-Identifier: MIT */

/**
 * @file
 * Errors: values that every call returns, or exceptions if preferred.
 */
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hipdnn
{

namespace detail
{

/** A part of a message: a text, a number or a list of numbers. It owns nothing, which keeps the code of messages small. */
class Word
{
public:
    Word(const char* text) : _text(text) {}
    Word(const std::string& text) : _text(text.c_str()) {}
    Word(int number) : _number(number) {}
    Word(int64_t number) : _number(number) {}
    Word(size_t number) : _number(static_cast<int64_t>(number)) {}
    Word(const std::vector<int64_t>& list) : _list(&list) {}

    void append_to(std::string& message) const
    {
        if (_text != nullptr)
        {
            message += _text;
        } else if (_list == nullptr)
        {
            message += std::to_string(_number);
        } else
        {
            for (size_t i = 0; i < _list->size(); i++)
            {
                message += i == 0 ? "(" : ", ";
                message += std::to_string((*_list)[i]);
            }
            message += _list->empty() ? "()" : ")";
        }
    }

private:
    const char* _text = nullptr;
    const std::vector<int64_t>* _list = nullptr;
    int64_t _number = 0;
};

using Words = std::initializer_list<Word>;

/** Joins the parts of a message. */
inline std::string join(Words words)
{
    std::string message;
    for (const Word& word : words)
    {
        word.append_to(message);
    }
    return message;
}

} // namespace detail

/** The kinds of errors. */
enum class ErrorCode {
    OK,                   ///< The call succeeded.
    INVALID_VALUE,        ///< An argument, a shape or the order of calls is wrong.
    HIPDNN_BACKEND_ERROR, ///< The backend library or one of its engines failed.
    ATTRIBUTE_NOT_SET,    ///< An attribute or a tensor is missing.
    GRAPH_NOT_SUPPORTED,  ///< The graph is valid, but no engine computes it.
    /* Codes that programs for cuDNN compare with. The first two are aliases; calls here never return the others. */
    CUDNN_BACKEND_API_FAILED = HIPDNN_BACKEND_ERROR,
    INVALID_VARIANT_PACK = INVALID_VALUE,
    SHAPE_DEDUCTION_FAILED = 101,
    INVALID_TENSOR_NAME,
    GRAPH_EXECUTION_PLAN_CREATION_FAILED,
    GRAPH_EXECUTION_FAILED,
    HEURISTIC_QUERY_FAILED,
    UNSUPPORTED_GRAPH_FORMAT,
    CUDA_API_FAILED,
    INVALID_CUDA_DEVICE,
    HANDLE_ERROR
};

/** The name of a code, such as `INVALID_VALUE`. */
inline std::string to_string(ErrorCode code)
{
    switch (code)
    {
    case ErrorCode::OK: return "OK";
    case ErrorCode::INVALID_VALUE: return "INVALID_VALUE";
    case ErrorCode::HIPDNN_BACKEND_ERROR: return "HIPDNN_BACKEND_ERROR";
    case ErrorCode::ATTRIBUTE_NOT_SET: return "ATTRIBUTE_NOT_SET";
    case ErrorCode::GRAPH_NOT_SUPPORTED: return "GRAPH_NOT_SUPPORTED";
    default: break;
    }
    return "UNKNOWN_ERROR";
}

/** The result of a call: a code, and the reason if it failed. */
struct Error
{
    ErrorCode code = ErrorCode::OK;
    std::string err_msg;

    Error() = default;
    Error(ErrorCode error_code, std::string message) : code(error_code), err_msg(std::move(message)) {}

    std::string get_message() const { return err_msg; }
    ErrorCode get_code() const { return code; }
    bool is_good() const { return code == ErrorCode::OK; }
    bool is_bad() const { return code != ErrorCode::OK; }

    bool operator==(ErrorCode other) const { return code == other; }
    bool operator!=(ErrorCode other) const { return code != other; }
    bool operator==(const Error& other) const { return code == other.code; }
    bool operator!=(const Error& other) const { return code != other.code; }
};

/** An error as an exception. */
class Exception : public std::runtime_error
{
public:
    explicit Exception(Error error)
        : std::runtime_error(to_string(error.code) + ": " + error.err_msg), _error(std::move(error))
    {
    }

    const Error& error() const { return _error; }

private:
    Error _error;
};

/**
 * Throws if a call failed: `hipdnn::check(graph.build(handle))`.
 * @throws Exception with the error
 */
inline void check(const Error& error)
{
    if (error.is_bad())
    {
        throw Exception(error);
    }
}

/* Templates, so that a program that prints nothing need not compile streams. */
template <typename Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream, ErrorCode code)
{
    return stream << to_string(code).c_str();
}

template <typename Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& stream, const Error& error)
{
    return stream << '{' << error.code << ", " << error.err_msg.c_str() << '}';
}

} // namespace hipdnn

/** Returns from the calling function with the error of a call that failed. */
#define HIPDNN_CPP_TRY(call)                      \
    do                                            \
    {                                             \
        ::hipdnn::Error hipdnn_cpp_error = call;  \
        if (hipdnn_cpp_error.is_bad())            \
        {                                         \
            return hipdnn_cpp_error;              \
        }                                         \
    } while (false)
