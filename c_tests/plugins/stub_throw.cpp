/* SPDX-License-Identifier: MIT */

/* The only part of the stub plugin in C++: variants with THROWS have it. */

#include <exception>
#include <stdexcept>

namespace {
struct noisy {
    ~noisy()
    {
        /* Seen by the host as a crash, if it unwinds while an exception that it caught still counts as thrown. */
        if (std::uncaught_exceptions() != 1) {
            std::terminate();
        }
    }
};
} // namespace

extern "C" void stub_throw()
{
    noisy unwound;
    throw std::runtime_error("the stub throws");
}
