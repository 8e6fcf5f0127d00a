/* SPDX-License-Identifier: MIT */

/*
 * A program that is not linked with the library. Its arguments say what is expected of the library that it finds:
 *
 *   client runs WAY [DIRECTORY]  it is found this way, and all flows run
 *   client lacks FUNCTION        everything is there but one function, whose calls end with VERSION_MISMATCH
 *   client refuses WAY           it is found this way, is of another major version, and every call ends so
 */
#include "flows.hpp"

#include <cstring>
#include <exception>

namespace {

using namespace client;

int run(const Library &library, const char *way)
{
    require(dlsym(RTLD_DEFAULT, "hipdnnCreate") == nullptr, "the library is in the program without having been looked for");
    require(std::strcmp(name(library.way()), way) == 0, std::string("the library was found by way of ") + name(library.way()));
    const Session session(library);
    run_newer_flows(session);
    run_older_flow(session);
    return 0;
}

/* Which functions are missing. */
std::vector<std::string> missing(const Library &library)
{
    std::vector<std::string> names;
#define CLIENT_COUNT(name)                                                                                             \
    if (library.name.function == nullptr)                                                                              \
    {                                                                                                                  \
        names.emplace_back(#name);                                                                                     \
    }
    CLIENT_FUNCTIONS(CLIENT_COUNT)
#undef CLIENT_COUNT
    return names;
}

int lack(const Library &library, const char *function)
{
    const auto names = missing(library);
    require(names.size() == 1 && names[0] == function, "another function is missing than " + std::string(function));
    hipdnnHandle_t handle = nullptr;
    require(library.hipdnnCreate(&handle) == Result::Success, "a handle cannot be created");
    require(library.hipdnnBackendExecute(handle, nullptr, nullptr) == Result::VersionMismatch,
            "a missing function can be called");
    require(library.hipdnnDestroy(handle) == Result::Success, "a handle cannot be destroyed");
    return 0;
}

int refuse(const Library &library, const char *way)
{
    require(std::strcmp(name(library.way()), way) == 0, std::string("the library was found by way of ") + name(library.way()));
    hipdnnHandle_t handle = nullptr;
    require(library.hipdnnCreate(&handle) == Result::VersionMismatch, "a library of another version is used");
    require(library.hipdnnBackendFinalize(nullptr) == Result::VersionMismatch, "a library of another version is used");
    require(library.last_error().empty(), "what is not there has a text");
#define CLIENT_ONE(name) +1
    require(missing(library).size() == CLIENT_FUNCTIONS(CLIENT_ONE), "some functions are used all the same");
#undef CLIENT_ONE
    return 0;
}

} // namespace

int main(int count, char **arguments)
{
    try
    {
        require(count >= 3, "usage: client runs|lacks|refuses WHAT [DIRECTORY]");
        const Library library(count > 3 ? arguments[3] : "");
        const std::string what = arguments[1];
        if (what == "runs")
        {
            return run(library, arguments[2]);
        }
        return what == "lacks" ? lack(library, arguments[2]) : refuse(library, arguments[2]);
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "client: %s\n", error.what());
        return 1;
    }
}
