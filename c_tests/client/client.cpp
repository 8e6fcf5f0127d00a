/* SPDX-License-Identifier: MIT */

/*
 * A program that is not linked with the library. Its arguments tell what to expect of the library that it finds:
 *
 *   client names newer|older               prints the functions that frontends of that time resolve
 *   client runs WAY [DIRECTORY [secure]]   it is found this way, and all flows run
 *   client lacks FUNCTION DIRECTORY        it has all functions but one, and what needs that one ends with VERSION_MISMATCH
 *   client older DIRECTORY                 it has the functions of November 2025 only, and the flow of that time runs
 *   client flow NAME DIRECTORY [FOLDER]    one of the flows of frontends of today, and where it keeps what it saves
 *   client refuses WAY [DIRECTORY [secure]]  it is found this way, is of another major version, and every call ends so
 */
#include "frontend.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

namespace
{

using namespace client;

using Names = std::vector<std::string>;

/* What frontends of November 2025 resolve. */
const Names OLDER = {
    "hipdnnCreate",
    "hipdnnDestroy",
    "hipdnnSetStream",
    "hipdnnGetStream",
    "hipdnnBackendCreateDescriptor",
    "hipdnnBackendDestroyDescriptor",
    "hipdnnBackendExecute",
    "hipdnnBackendFinalize",
    "hipdnnBackendGetAttribute",
    "hipdnnBackendSetAttribute",
    "hipdnnGetErrorString",
    "hipdnnGetLastErrorString",
    "hipdnnBackendCreateAndDeserializeGraph_ext",
    "hipdnnLoggingCallback_ext",
    "hipdnnSetEnginePluginPaths_ext",
};

#define CLIENT_NAME(name) #name,
const Names NEWER = {CLIENT_FUNCTIONS(CLIENT_NAME)};

bool has(const Names& names, const std::string& name)
{
    return std::find(names.begin(), names.end(), name) != names.end();
}

/* The functions that are missing. */
Names missing(const Library& library)
{
    Names names;
#define CLIENT_COLLECT(name)                                                                                           \
    if (library.name.function == nullptr)                                                                              \
    {                                                                                                                  \
        names.emplace_back(#name);                                                                                     \
    }
    CLIENT_FUNCTIONS(CLIENT_COLLECT)
#undef CLIENT_COLLECT
    return names;
}

/* All functions that are missing end with VERSION_MISMATCH. */
void call_missing(const Library& library)
{
#define CLIENT_CALL(name)                                                                                              \
    require(library.name.function != nullptr || library.name.with_zeros() == Result::VersionMismatch,                  \
            "a missing function can be called: " #name);
    CLIENT_FUNCTIONS(CLIENT_CALL)
#undef CLIENT_CALL
}

void check_way(const Library& library, const char* way)
{
    require(std::strcmp(name(library.way()), way) == 0,
            std::string("the library was found by way of ") + name(library.way()));
}

int print(const Names& names)
{
    for (const auto& one : names)
    {
        std::printf("%s\n", one.c_str());
    }
    return 0;
}

int run(const Library& library, const char* way)
{
    require(dlsym(RTLD_DEFAULT, "hipdnnCreate") == nullptr,
            "the library is in the program without having been looked for");
    check_way(library, way);
    require(missing(library).empty(), "functions are missing");
    run_newer_flows(library);
    run_older_flow(library);

    /* An error is fetched once, into 256 bytes. */
    require(library.hipdnnBackendFinalize(nullptr) == Result::Failed, "null was finalized");
    require(!library.last_error().empty(), "a failure has no text");
    require(library.last_error().empty(), "the text of a failure is there twice");
    return 0;
}

bool ends_with_mismatch(const Library& library, void (*flow)(const Library&))
{
    try
    {
        flow(library);
        return false;
    } catch (const Mismatch&)
    {
        return true;
    }
}

int refuse(const Library& library)
{
    require(missing(library) == NEWER, "some functions are used all the same");
    call_missing(library);
    require(library.last_error().empty(), "what is not there has a text");
    require(ends_with_mismatch(library, run_newer_flows), "flows run all the same");
    require(ends_with_mismatch(library, run_older_flow), "the older flow runs all the same");
    return 0;
}

int lack(const Library& library, const std::string& function)
{
    check_way(library, "directory");
    if (function == "hipdnnVersionString_ext")
    {
        return refuse(library);
    }
    require(missing(library) == Names{function}, "another function is missing than " + function);
    call_missing(library);
    /* The flows do not look at what these end with. */
    const bool unnoticed =
        has({"hipdnnDestroy", "hipdnnBackendDestroyDescriptor", "hipdnnGetLastErrorString"}, function);
    require(ends_with_mismatch(library, run_newer_flows) == !unnoticed, "what becomes of the newer flows");
    if (function == "hipdnnDestroy")
    {
        /* The handle lives on, and plugins cannot be set a second time. */
        return 0;
    }
    require(ends_with_mismatch(library, run_older_flow) == (!unnoticed && has(OLDER, function)),
            "what becomes of the older flow");
    require(library.hipdnnBackendFinalize(nullptr) != Result::Success, "null was finalized");
    const bool has_text = function != "hipdnnGetLastErrorString" && function != "hipdnnBackendFinalize";
    require(library.last_error().empty() == !has_text, "the text of a failure");
    return 0;
}

int run_older(const Library& library)
{
    check_way(library, "directory");
    const auto absent = missing(library);
    for (const auto& one : NEWER)
    {
        require(has(absent, one) != has(OLDER, one), one + ": whether it is there");
    }
    call_missing(library);
    run_older_flow(library);
    require(ends_with_mismatch(library, run_newer_flows), "the newer flows run all the same");
    return 0;
}

int run_flow(const Library& library, const std::string& name, const std::string& folder)
{
    check_way(library, "directory");
    const std::map<std::string, std::function<void()>> flows = {
        {"tuning", [&] { run_tuning(library); }},
        {"other_shapes", [&] { run_other_shapes(library); }},
        {"values", [&] { run_values(library); }},
        {"ragged", [&] { run_ragged(library); }},
        {"saving", [&] { run_saving(library, folder); }},
        {"loading", [&] { run_loading(library, folder); }},
        {"logs", [&] { run_logs(library); }},
        {"choices", [&] { run_choices(library); }},
        {"habits", [&] { run_habits(library); }},
        {"provider", [&] { run_provider(library); }},
    };
    const auto found = flows.find(name);
    require(found != flows.end(), "no flow is named " + name);
    found->second();
    return 0;
}

int follow(int count, char** arguments)
{
    require(count >= 3, "usage: client names|runs|lacks|older|flow|refuses WHAT [DIRECTORY [secure|FOLDER]]");
    const std::string word = arguments[1];
    if (word == "names")
    {
        return print(arguments[2] == std::string("older") ? OLDER : NEWER);
    }
    Search search;
    if (word == "older")
    {
        search.directory = arguments[2];
        search.checks_version = false;
        return run_older(Library(search));
    }
    search.directory = count > 3 ? arguments[3] : "";
    if (word == "flow")
    {
        /* Programs of today keep the library as long as they live. */
        static const Library* const kept = new Library(search);
        return run_flow(*kept, arguments[2], count > 4 ? arguments[4] : "");
    }
    search.secure = search.secure || (count > 4 && arguments[4] == std::string("secure"));
    const Library library(search);
    if (word == "lacks")
    {
        return lack(library, arguments[2]);
    }
    if (word == "runs")
    {
        return run(library, arguments[2]);
    }
    require(word == "refuses", "unknown: " + word);
    check_way(library, arguments[2]);
    return refuse(library);
}

} // namespace

int main(int count, char** arguments)
{
    try
    {
        return follow(count, arguments);
    } catch (const std::exception& error)
    {
        std::fprintf(stderr, "client: %s\n", error.what());
        return 1;
    }
}
